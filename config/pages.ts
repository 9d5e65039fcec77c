/** The keys of `interactions`: the pages, registration and passkeys. */
import { z } from "zod";
import { callable, described, flag, list, section, text, whole } from "./documented-schema.ts";
import {
  isColor,
  isFontList,
  isHelpLink,
  isHostName,
  isLanguageTag,
  isPageLink,
  isPathPrefix,
  isPrintable,
  PATH_FORM,
  WEB_ADDRESS_FORM,
} from "./value-forms.ts";

const domain = text(253, isHostName, "a domain in lower case, such as `example.com`");

const color = described(
  text(64, isColor, "a color such as `#1d4ed8`: `#` and 3 or 6 hexadecimal digits").exactOptional(),
  { otherwise: "built in" },
);

function imageFile(types: string, maxBytes: string, otherwise: string): z.ZodExactOptional<z.ZodString> {
  const form = `the path of a ${types} or SVG file of at most ${maxBytes} bytes`;
  return described(text(4096, isPrintable, form).exactOptional(), { otherwise });
}

/** The look of the pages. */
const theme = section({
  /** Name of the service on its pages and in its mail; production requires it. Default: built in. */
  name: described(
    text(
      80,
      (name) => name.trim() !== "" && isPrintable(name),
      "a text of 1 to 80 characters",
    ).exactOptional(),
    { otherwise: "built in" },
  ),
  /** Color of buttons and links. Default: built in. */
  accent: color,
  /** Color of the page. Default: built in. */
  background: color,
  /** Color of the text. Default: built in. */
  text: color,
  /** Radius of corners, in pixels. Default 10. */
  radius: described(whole(0, 24).exactOptional(), { otherwise: "10" }),
  /**
   * `compact` makes everything on the pages an eighth smaller, but only with a mouse and on a screen that is not narrow.
   * Default `comfortable`.
   */
  density: described(z.enum(["comfortable", "compact"]).exactOptional(), {
    form: "`comfortable` or `compact`",
    otherwise: "`comfortable`",
  }),
  /** Fonts to use if the person's device has them; none is downloaded. Default `system-ui, sans-serif`. */
  fonts: described(
    text(200, isFontList, "names of fonts, such as `Inter, system-ui, sans-serif`").exactOptional(),
    { otherwise: "`system-ui, sans-serif`" },
  ),
  /** Logo, shown instead of the name. Default: the name. */
  logo: imageFile("PNG, JPEG, WebP", "8,000", "the name"),
  /** Logo for dark mode; at most 8,000 bytes together with `logo`. Default: `logo`. */
  logoDark: imageFile("PNG, JPEG, WebP", "6,000", "`logo`"),
  /** Icon in the browser's tab. Default: the first letter of the name. */
  favicon: imageFile("PNG, ICO, WebP", "4,000", "the first letter of the name"),
});

const asked = described(z.enum(["required", "optional"]).exactOptional(), {
  form: "`required` or `optional`",
  otherwise: "not asked for",
});

/** What the registration form can ask for besides e-mail address and password. */
const registrationFields = section({
  /** Whether the form asks for a username. Default: not asked for. */
  username: asked,
  /** Whether the form asks for the given name. Default: not asked for. */
  name: asked,
  /** Whether the form asks for the family name. Default: not asked for. */
  surname: asked,
  /** Whether the form asks for the date of birth. Default: not asked for. */
  date_of_birth: asked,
  /** Whether the form asks for the gender. Default: not asked for. */
  gender: asked,
});

/** What a person entered in the registration form, with the fields that it asks for. A date is `YYYY-MM-DD`. */
export interface RegistrationRequest extends Readonly<
  Partial<Record<keyof z.output<typeof registrationFields>, string>>
> {
  readonly email: string;
  /** The values of the attributes that the form asks for, by name. */
  readonly attributes?: Readonly<
    Record<string, string | number | boolean | Readonly<Record<string, string>>>
  >;
  /** The language of the page. */
  readonly locale?: string;
  /** The client that the person is signing in to. */
  readonly client_id?: string;
  /** The IP address, as far as proxies are trusted. */
  readonly address: string;
}

/** Registration by people themselves. */
const registration = section({
  /** What the form asks for besides e-mail address and password. Default: nothing. */
  fields: described(registrationFields.exactOptional(), { otherwise: "nothing" }),
  /** Terms of use that people have to accept. */
  terms: described(
    section({
      /** Address of the terms of use. */
      url: text(2048, isPageLink, `${WEB_ADDRESS_FORM}; \`{locale}\` stands for the page's language`),
      /** Version of the terms. People who have accepted another version are asked again when they next sign in. */
      version: text(64, isPrintable, "a text of 1 to 64 characters, such as `2026-01`"),
    }).exactOptional(),
    { form: "an object with `url` and `version`" },
  ),
  /** Only e-mail addresses at these domains can register; subdomains are not included. Default: all. */
  domains: described(list(domain, 1).exactOptional(), { otherwise: "all" }),
  /** Lets people register with a passkey instead of a password; requires passkeys. Default `false`. */
  passwordless: described(flag().exactOptional(), { otherwise: "`false`" }),
  /**
   * Gets what was entered, without the password; `false` refuses the registration. It runs before anything is stored, also
   * for addresses that have an account. If it rejects, or does not answer within 3 seconds, the person is asked to try again.
   */
  check: callable<(request: RegistrationRequest) => boolean | Promise<boolean>>(
    "a function that returns `true` or `false`, or a promise of it",
  ).exactOptional(),
});

/** Passkeys (WebAuthn). */
const passkeys = section({
  /**
   * Whether people can use passkeys. With `false`, existing passkeys don't work, but a password alone still doesn't sign in
   * the people who have one: they also need an app or a recovery code. Default `true`.
   */
  enabled: flag().default(true),
  /**
   * Domain of passkeys (`rpId`): the host of each deployment, or a domain above it, but no public suffix such as `co.uk`.
   * Passkeys work for no other domain. Default: `cookies.domain`, otherwise the one host of the deployments.
   */
  rpId: described(domain.exactOptional(), {
    otherwise: "`cookies.domain`, otherwise the one host of the deployments",
  }),
  /** Earlier domains, whose passkeys still work. Default `[]`. */
  previousRpIds: described(list(domain, 0).default([]), { form: "a list of different domains" }),
});

const pageLink = text(2048, isPageLink, WEB_ADDRESS_FORM).exactOptional();

/** Links in the footer of each page; `{locale}` stands for the page's language. */
const links = section({
  /** Help page, or `mailto:` and an address. */
  help: text(2048, isHelpLink, WEB_ADDRESS_FORM).exactOptional(),
  /** Privacy policy. */
  privacy: pageLink,
  /** Terms of use. */
  terms: pageLink,
});

const RESERVED_USERNAMES = [
  "abuse",
  "admin",
  "administrator",
  "help",
  "helpdesk",
  "hostmaster",
  "info",
  "moderator",
  "no-reply",
  "noreply",
  "operator",
  "postmaster",
  "root",
  "security",
  "service",
  "staff",
  "support",
  "sysadmin",
  "system",
  "webmaster",
];

const languageTag = text(35, isLanguageTag, "a language tag such as `en`");
const copyKey = z.string().regex(/^[A-Za-z0-9_.-]{1,100}$/u);
const copyText = z.string().max(10_000).meta({ form: "a text" });

const pages = section({
  /** Passkeys. They are off if a host is an IP address. */
  passkeys: passkeys.prefault({}),
  /** Whether people can register; production needs `mail` for it. Default `false`. */
  registration: described(z.union([z.boolean(), registration]).default(false), {
    form: "`true`, `false`, or an object with `fields`, `terms`, `domains`, `passwordless` and `check`",
  }),
  /** Usernames that people can't choose for themselves, regardless of case. Default: `admin`, `root`, `support` and others. */
  reservedUsernames: described(list(text(64, isPrintable, "a username"), 0).default(RESERVED_USERNAMES), {
    form: "a list of different usernames",
  }),
  /** Languages of the pages; the first is the default. Default `["en","pl"]`. */
  locales: list(languageTag, 1).default(["en", "pl"]),
  /** Folders of EJS views that replace built-in ones; the first match wins. Default `[]`. */
  views: described(list(text(4096, isPrintable, "the path of a folder"), 0).default([]), {
    form: "a list of different folders",
  }),
  /** Texts that replace the built-in ones: locale → key → text. Default `{}`. */
  copy: described(z.record(languageTag, z.record(copyKey, copyText).readonly()).readonly().default({}), {
    form: "an object of language tags, each with an object of texts by their keys",
  }),
  /** The look. */
  theme: theme.prefault({}),
  /** Links in the footer of each page; `{locale}` stands for the page's language. */
  links: links.prefault({}),
  /**
   * Path of a UI of your own on the hosts of the deployments: browsers that come to sign in are sent there, with the
   * address of the JSON interface as `interaction`. Default: the built-in pages.
   */
  ui: described(text(256, isPathPrefix, PATH_FORM).exactOptional(), { otherwise: "the built-in pages" }),
});

/** The pages. */
export interface InteractionSettings extends z.output<typeof pages> {}
export interface InteractionsInput extends z.input<typeof pages> {}

/** Its type has a name, because only so the comments of its keys reach the declarations of other files. */
export const interactions: z.ZodType<InteractionSettings, InteractionsInput> = pages;

export interface RegistrationSettings extends z.output<typeof registration> {}
