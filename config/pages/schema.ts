/** What the keys of `interactions` accept. */
import { z } from "zod";
import type {
  InteractionSettings,
  PageLinks,
  PasskeySettings,
  RegistrationSettings,
  Theme,
} from "./settings.ts";
import { defaults } from "../defaults.ts";
import { callable, described, flag, list, REQUIRED, section, text, whole } from "../documented-schema.ts";
import {
  isColour,
  isFontList,
  isHelpLink,
  isHostName,
  isLanguageTag,
  isPageLink,
  isPathPrefix,
  isPrintable,
  PATH_FORM,
  WEB_ADDRESS_FORM,
} from "../value-forms.ts";

const domain = text(253, isHostName, "a domain in lower case, such as `example.com`");

const passkeys = section<PasskeySettings>(
  {
    enabled: flag(),
    rpId: described(domain, { otherwise: "`cookies.domain`, otherwise the one host of the deployments" }),
    previousRpIds: described(list(domain, 0), { form: "a list of different domains" }),
  },
  defaults.interactions.passkeys,
);

const askedFor = described(z.enum(["required", "optional"]), {
  form: "`required` or `optional`",
  description: "Whether the form asks for it",
  otherwise: "not asked for",
});

const registration = section<RegistrationSettings>(
  {
    fields: described(
      section<NonNullable<RegistrationSettings["fields"]>>(
        { username: askedFor, name: askedFor, surname: askedFor, date_of_birth: askedFor, gender: askedFor },
        {},
      ),
      { otherwise: "nothing" },
    ),
    terms: described(
      section<NonNullable<RegistrationSettings["terms"]>>(
        {
          url: described(
            text(2048, isPageLink, `${WEB_ADDRESS_FORM}; \`{locale}\` stands for the page's language`),
            { otherwise: "required" },
          ),
          version: described(text(64, isPrintable, "a text of 1 to 64 characters, such as `2026-01`"), {
            otherwise: "required",
          }),
        },
        { url: REQUIRED, version: REQUIRED },
      ),
      { form: "an object with `url` and `version`" },
    ),
    domains: described(list(domain, 1), { otherwise: "all" }),
    passwordless: described(z.boolean(), { form: "`true` or `false`", otherwise: "`false`" }),
    check: callable("a function that returns `true` or `false`, or a promise of it"),
  },
  {},
);

const languageTag = text(35, isLanguageTag, "a language tag such as `en`");
const copyKey = z.string().regex(/^[A-Za-z0-9_.-]{1,100}$/u);
const copyText = z.string().max(10_000).meta({ form: "a text" });
const colour = described(text(64, isColour, "a color such as `#1d4ed8`: `#` and 3 or 6 hexadecimal digits"), {
  otherwise: "built in",
});
const pageLink = text(2048, isPageLink, WEB_ADDRESS_FORM);

function imageFile(types: string, maxBytes: string): z.ZodType<string> {
  return text(4096, isPrintable, `the path of a ${types} or SVG file of at most ${maxBytes} bytes`);
}

export const interactions: z.ZodType<InteractionSettings> = section<InteractionSettings>(
  {
    passkeys,
    registration: described(z.union([z.boolean(), registration]), {
      form: "`true`, `false`, or an object with `fields`, `terms`, `domains`, `passwordless` and `check`",
    }),
    reservedUsernames: described(list(text(64, isPrintable, "a username"), 0), {
      form: "a list of different usernames",
    }),
    locales: list(languageTag, 1),
    views: described(list(text(4096, isPrintable, "the path of a folder"), 0), {
      form: "a list of different folders",
    }),
    copy: described(z.record(languageTag, z.record(copyKey, copyText)), {
      form: "an object of language tags, each with an object of texts by their keys",
    }),
    theme: section<Theme>(
      {
        name: described(
          text(80, (name) => name.trim() !== "" && isPrintable(name), "a text of 1 to 80 characters"),
          { otherwise: "built in" },
        ),
        accent: colour,
        background: colour,
        text: colour,
        radius: described(whole(0, 24), { otherwise: "10" }),
        density: described(z.enum(["comfortable", "compact"]), {
          form: "`comfortable` or `compact`",
          otherwise: "`comfortable`",
        }),
        fonts: described(text(200, isFontList, "names of fonts, such as `Inter, system-ui, sans-serif`"), {
          otherwise: "`system-ui, sans-serif`",
        }),
        logo: described(imageFile("PNG, JPEG, WebP", "8,000"), {
          otherwise: "the name",
        }),
        logoDark: described(imageFile("PNG, JPEG, WebP", "6,000"), { otherwise: "`logo`" }),
        favicon: described(imageFile("PNG, ICO, WebP", "4,000"), {
          otherwise: "the first letter of the name",
        }),
      },
      {},
    ),
    links: section<PageLinks>(
      { help: text(2048, isHelpLink, WEB_ADDRESS_FORM), privacy: pageLink, terms: pageLink },
      {},
    ),
    ui: described(text(256, isPathPrefix, PATH_FORM), { otherwise: "the built-in pages" }),
  },
  defaults.interactions,
);
