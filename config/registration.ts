/** `interactions.registration` of the configuration. */
import { z } from "zod";
import type { RegistrationSettings } from "./configuration.ts";
import { defaults } from "./defaults.ts";
import { described, list, optional, text, writtenAs, type Written } from "./documented-schema.ts";
import { isHostName, isPageLink, isPrintable } from "./value-forms.ts";

const asked = optional(z.enum(["required", "optional"]), {
  form: "`required` or `optional`",
  description: "Whether the form asks for it",
  otherwise: "not asked for",
});

const domainForm = "a domain in lower case, such as `example.com`";

const settings: z.ZodType<
  RegistrationSettings,
  Written<RegistrationSettings>
> = writtenAs<RegistrationSettings>()(
  z.strictObject({
    fields: optional(
      z.strictObject({
        username: asked,
        name: asked,
        surname: asked,
        date_of_birth: asked,
        gender: asked,
      }),
      {
        form: "an object",
        description: "What the form asks for besides e-mail address and password",
        otherwise: "nothing",
      },
    ),
    terms: optional(
      z.strictObject({
        url: described(text(2048, isPageLink, "an address"), {
          form: "an https address, or http on loopback; `{locale}` stands for the page's language",
          description: "The terms of use that people accept",
          otherwise: "required",
        }),
        version: described(text(64, isPrintable, "a text"), {
          form: "a text of 1 to 64 characters, such as `2026-01`",
          description: "Their version; people who accepted another one are asked at their next sign-in",
          otherwise: "required",
        }),
      }),
      {
        form: "an object with `url` and `version`",
        description: "Terms of use that people have to accept",
        otherwise: "none",
      },
    ),
    domains: optional(list(text(253, isHostName, domainForm), 1), {
      form: `a list of different entries, each ${domainForm}`,
      description: "The only domains of e-mail addresses that can register; subdomains are other domains",
      otherwise: "all",
    }),
    check: optional(
      z.custom<NonNullable<RegistrationSettings["check"]>>((value) => typeof value === "function"),
      {
        form: "a function that returns `true` or `false`, or a promise of it",
        description: "Gets what was entered, without the password; `false` refuses the registration",
        otherwise: "none",
        holds: "code",
      },
    ),
  }),
);

export const registrationSchema: z.ZodDefault<
  z.ZodType<boolean | RegistrationSettings, boolean | Written<RegistrationSettings>>
> = described(z.union([z.boolean(), settings]).default(defaults.interactions.registration), {
  form: "`true`, `false`, or an object with `fields`, `terms`, `domains` and `check`",
  description: "Whether people can make accounts of their own; production needs `mail` for it",
});
