/** What the library says of wrong input, in the language of the page: its messages are fixed words with a number or a list. */
import type { Translator } from "../../../core/texts.ts";

/** The messages, by the text `admin.rule.NAME`. What differs from one to the next has a name. */
const MESSAGES: Readonly<Record<string, RegExp>> = {
  required: /^is required$/u,
  requiredFor: /^is required for (?<kind>\w+)$/u,
  empty: /^must not be empty$/u,
  most: /^must have at most (?<n>\d+) characters$/u,
  least: /^must have at least (?<n>\d+) characters$/u,
  control: /^must not have control characters$/u,
  dateForm: /^must have the form YYYY-MM-DD$/u,
  dateReal: /^must be a real date$/u,
  dateEarly: /^must not be before 1850$/u,
  dateFuture: /^must not be in the future$/u,
  language: /^must be a language tag, such as pl or en-GB$/u,
  characters: /^must be 1 to (?<n>\d+) of the characters (?<set>.+)$/u,
  reserved: /^must not be a name that every object has, such as constructor$/u,
  uuid: /^must be a UUID in lower case$/u,
  wildcard: /^must not have a wildcard$/u,
  httpsOrLoopback: /^must be https, or http on loopback$/u,
  httpsOrScheme: /^must be https, http on 127\.0\.0\.1 or \[::1\], or a scheme with a dot/u,
  https: /^must be https$/u,
  loopbackHttps: /^must not be https on loopback$/u,
  url: /^must be an absolute URL(?: with its host written plainly)?$/u,
  ascii: /^must be printable ASCII(?: without spaces)?$/u,
  urlCharacter: /^must not have a character that a URL can't have/u,
  fragment: /^must not have a fragment$/u,
  userinfo: /^must not have a user name or password$/u,
  space: /^must not begin or end with a space$/u,
  at: /^must not have an @, which only e-mail addresses have$/u,
  email: /^must have one @ with text on both sides$/u,
  emailSpaces: /^must not have spaces or control characters$/u,
  emailPlain: /^must be a plain address, without quotes, brackets or separators$/u,
  emailDomain: /^must have a domain that a mail server can have$/u,
  domain: /^must have a domain with a dot$/u,
  oneOf: /^must be one of (?<list>.+)$/u,
  integer: /^must be an integer from (?<least>\d+) to (?<most>\d+)$/u,
  addresses: /^must be a list of (?<least>\d+) to (?<most>\d+) addresses$/u,
  many: /^must have at most (?<n>\d+) \w+$/u,
  twice: /^must not have an? \w+ twice$/u,
  keySet: /^must be a JSON Web Key Set: an object with keys$/u,
  publicKey: /^must be a public key: the private one stays with the client$/u,
};

/** A message of the library in words. One that has no row stays as it is, between words of this language. */
export function ruleText(t: Translator, message: string): string {
  for (const [name, pattern] of Object.entries(MESSAGES)) {
    const found = pattern.exec(message);
    if (found !== null) return t(`admin.rule.${name}`, { ...found.groups });
  }
  return t("admin.rule.other", { message });
}
