/** The texts that people read, from the built-in locale files and the configuration. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ownValue } from "./untrusted-keys.ts";

/**
 * Locale → key → text with `{placeholders}`. A text that depends on a number has a form for each plural category of the
 * language (CLDR), in the notation of ICU MessageFormat: `{count, plural, one {# try} other {# tries}}`. `#` is the
 * number, and a form has no placeholders.
 */
type Copy = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The texts of one locale. Values are inserted as they are; the views escape the result. */
export interface Translator {
  /** @throws TypeError if the key has no text, or one of its placeholders has no value. */
  (key: string, values?: Readonly<Record<string, string | number>>): string;
  /** Whether there is a text for the key. */
  has(key: string): boolean;
  readonly locale: string;
}

/** The texts of every configured locale, and their problems. */
export interface Texts {
  readonly translators: ReadonlyMap<string, Translator>;
  /** In the form `config.interactions.…: …`; empty if nothing is wrong. */
  readonly problems: readonly string[];
}

/** The first tag that is available. A tag also matches a shorter one: `pl-PL` finds `pl` (RFC 4647 section 3.4). */
export function closestLocale(available: readonly string[], tags: readonly string[]): string | undefined {
  for (const tag of tags) {
    const wanted = tag.toLowerCase();
    const found = available
      .filter((locale) => `${wanted}-`.startsWith(`${locale.toLowerCase()}-`))
      .toSorted((one, other) => other.length - one.length)
      .at(0);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Every locale must have the keys and placeholders of this one. */
const REFERENCE = "en";
/** Keys for views of your own begin with this. */
const OWN_KEY = /^own\./;
/** `{name}`, or `{name, plural, one {…} other {…}}`. */
const PLACEHOLDER = /\{(\w+)(?:, plural,((?: *\w+ *\{[^{}]*\})+) *)?\}/g;
const PLURAL_FORM = /(\w+) *\{([^{}]*)\}/g;
const FOLDER = join(import.meta.dirname, "locales");
/** The texts of the administration console, a file for each language. */
const CONSOLE = "console";

/** The languages with a file in `locales/`. */
export function builtInLocales(): readonly string[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(".json"))
    .map((file) => file.slice(0, -".json".length))
    .toSorted();
}

/**
 * @param locales BCP 47 tags. A locale without a built-in file must be complete in `copy`.
 * @param copy replaces built-in texts. A key that no page uses must begin with `own.`.
 * @param added texts that a locale has besides the built-in ones. It gets those that the locale has without them.
 */
export function readTexts(
  locales: readonly string[],
  copy: Copy,
  added: (
    locale: string,
    texts: Readonly<Record<string, string>>,
  ) => Readonly<Record<string, string>> = () => ({}),
): Texts {
  const available = builtInLocales();
  const known = builtIn(REFERENCE);
  const reference = new Map(Object.entries({ ...known, ...added(REFERENCE, known) }));
  const problems: string[] = [];
  const translators = new Map<string, Translator>();
  for (const locale of locales) {
    const isBuiltIn = available.includes(locale);
    if (!isBuiltIn && !Object.hasOwn(copy, locale)) {
      const names = available.join(", ");
      problems.push(
        `config.interactions.locales: ${locale} is not built in (${names} are); put its texts into config.interactions.copy.${locale}`,
      );
      continue;
    }
    const replaced = ownValue(copy, locale) ?? {};
    // Operators read English where a team has only translated what people see.
    const own = { ...(isBuiltIn ? builtIn(locale) : fileOf(REFERENCE, CONSOLE)), ...replaced };
    const texts = new Map(Object.entries({ ...own, ...added(locale, own), ...replaced }));
    for (const [key, text] of Object.entries(replaced)) {
      const problem = keyProblem(reference, locale, key, text);
      if (problem !== undefined) problems.push(`config.interactions.copy.${locale}.${key}: ${problem}`);
    }
    const missing = [...reference.keys()].filter((key) => !texts.has(key));
    if (missing.length > 0) {
      problems.push(`config.interactions.copy.${locale}: no text for ${missing.join(", ")}`);
    }
    translators.set(locale, translator(locale, texts));
  }
  for (const locale of Object.keys(copy)) {
    if (!locales.includes(locale)) {
      problems.push(`config.interactions.copy.${locale}: not one of config.interactions.locales`);
    }
  }
  return { translators, problems };
}

/** All texts of a built-in locale. */
export function builtIn(locale: string): Readonly<Record<string, string>> {
  return { ...fileOf(locale), ...fileOf(locale, CONSOLE) };
}

function fileOf(locale: string, folder: string = ""): Readonly<Record<string, string>> {
  const texts: Record<string, string> = JSON.parse(
    readFileSync(join(FOLDER, folder, `${locale}.json`), "utf8"),
  );
  return texts;
}

function keyProblem(
  reference: ReadonlyMap<string, string>,
  locale: string,
  key: string,
  text: string,
): string | undefined {
  if (OWN_KEY.test(key)) return undefined;
  const original = reference.get(key);
  if (original === undefined) return "no page has this text; keys of your own begin with own.";
  if (key === "direction" && text !== "ltr" && text !== "rtl") return "must be ltr or rtl";
  const known = placeholders(original);
  const unknown = placeholders(text).filter((name) => !known.includes(name));
  return unknown.length === 0 ? pluralProblem(locale, text) : `unknown placeholder {${unknown.join("}, {")}}`;
}

function placeholders(text: string): string[] {
  return [...text.matchAll(PLACEHOLDER)].map(([, name = ""]) => name);
}

/** What is wrong with a plural: its forms are not those of the language, or it is malformed. */
function pluralProblem(locale: string, text: string): string | undefined {
  const wanted = new Intl.PluralRules(locale).resolvedOptions().pluralCategories.toSorted();
  for (const [, name, forms] of text.matchAll(PLACEHOLDER)) {
    if (forms === undefined) continue;
    const found = [...forms.matchAll(PLURAL_FORM)].map(([, category = ""]) => category).toSorted();
    if (found.join() !== wanted.join())
      return `the plural of {${name}} must have the forms ${wanted.join(", ")}`;
  }
  return /\{\w+,/.test(text.replaceAll(PLACEHOLDER, ""))
    ? "a plural must look like {count, plural, one {# try} other {# tries}}"
    : undefined;
}

function translator(locale: string, texts: ReadonlyMap<string, string>): Translator {
  const rules = new Intl.PluralRules(locale);
  const number = new Intl.NumberFormat(locale);
  const plural = (forms: string, value: number): string => {
    const byCategory = new Map(
      [...forms.matchAll(PLURAL_FORM)].map(([, category, form = ""]) => [category, form]),
    );
    const form = byCategory.get(rules.select(value)) ?? byCategory.get("other") ?? "";
    return form.replaceAll("#", number.format(value));
  };
  const translate = (key: string, values: Readonly<Record<string, string | number>> = {}): string => {
    const text = texts.get(key);
    if (text === undefined) throw new TypeError(`no text for ${key} in locale ${locale}`);
    return text.replace(PLACEHOLDER, (_, name: string, forms: string | undefined) => {
      const value = Object.hasOwn(values, name) ? values[name] : undefined;
      if (value === undefined) throw new TypeError(`no value for {${name}} of ${key}`);
      return forms === undefined ? String(value) : plural(forms, Number(value));
    });
  };
  return Object.assign(translate, { has: (key: string) => texts.has(key), locale });
}
