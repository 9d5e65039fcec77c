/** `interactions` and `cookies`. */
import { z } from "zod";
import type { Configuration, InteractionSettings } from "../configuration.ts";
import { defaults } from "../defaults.ts";
import type { CookiesInput, InteractionsInput } from "../input.ts";
import { isHostName } from "../networks.ts";
import { isColour, isCookiePrefix, isLanguageTag, isPrintable } from "../value-forms.ts";
import { described, flag, list, optional, section, text, writtenAs, type Written } from "./parts.ts";

const { interactions } = defaults;

const tagForm = "a language tag such as `en`";
const tag = text(35, isLanguageTag, tagForm);
const copyKey = z.string().regex(/^[A-Za-z0-9_.-]{1,100}$/u);

const colour = (description: string) =>
  optional(text(64, isColour, "a colour"), {
    form: "a colour such as `#1d4ed8`: `#` and 3 or 6 hexadecimal digits",
    description,
    otherwise: "built in",
  });

/** `interactions`. */
export const interactionsSchema: z.ZodType<
  InteractionSettings,
  Written<InteractionsInput>
> = writtenAs<InteractionsInput>()(
  z.strictObject({
    registration: flag(
      interactions.registration,
      "Registration by the user: not in this version, so `true` is refused",
    ),
    locales: described(list(tag, 1).default(interactions.locales), {
      form: `a list of different entries, each ${tagForm}`,
      description: "Languages of the pages; the first is the default",
    }),
    views: described(list(text(4096, isPrintable, "the path of a folder"), 0).default(interactions.views), {
      form: "a list of different folders",
      description: "Folders of EJS views that win over the built-in ones, the first match first",
    }),
    copy: described(
      z
        .record(tag, z.record(copyKey, z.string().max(10_000).meta({ form: "a text" })))
        .default(interactions.copy),
      {
        form: "an object of language tags, each with an object of texts by their keys",
        description: "Texts that replace the built-in ones",
      },
    ),
    theme: section(
      z
        .strictObject({
          name: optional(
            text(80, (name) => name.trim() !== "" && isPrintable(name), "a name"),
            {
              form: "a text of 1 to 80 characters",
              description: "Name of the service on its pages",
              otherwise: "built in",
            },
          ),
          accent: colour("Colour of buttons and links"),
          background: colour("Colour of the page"),
          text: colour("Colour of the text"),
        })
        .prefault({}),
      "The look",
    ),
  }),
);

/** `cookies`. */
export const cookiesSchema: z.ZodType<
  Configuration["cookies"],
  Written<CookiesInput>
> = writtenAs<CookiesInput>()(
  z.strictObject({
    domain: optional(
      text(253, (name) => isHostName(name) && name.includes("."), "a domain"),
      {
        form: "a domain of at least two labels, lower case, without a leading dot",
        description:
          "Domain of the session cookie: two deployments on hosts under it share their sign-in, and every subdomain is trusted",
        otherwise: "none: the host alone",
      },
    ),
    prefix: described(
      z.string().max(32, { abort: true }).refine(isCookiePrefix).default(defaults.cookies.prefix),
      {
        form: "0 to 32 letters, digits, `_` and `-`, not beginning with `__Host-` or `__Secure-`",
        description: "Put in front of the names of all cookies",
      },
    ),
  }),
);
