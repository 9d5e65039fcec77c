/** Names that people read on the pages: one text, or one for each language. */
import { z } from "zod";
import { closestLocale } from "../core/texts.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import { described, text } from "./documented-schema.ts";
import { isLanguageTag, isPrintable } from "./value-forms.ts";

const oneLabel = text(
  80,
  (words) => words.trim() !== "" && isPrintable(words) && !/[{}]/u.test(words),
  "a text of 1 to 80 characters for people to read, without `{` and `}`",
);

export const LABEL_FORM =
  "a text of 1 to 80 characters, or an object with one for each language: `{ en, pl, … }`";

/** One text for all languages, or locale → text. */
export type Label = string | Readonly<Record<string, string>>;

export const localLabel: z.ZodType<Label, Label> = described(
  z.union([oneLabel, z.record(z.string(), oneLabel).readonly()]),
  { form: LABEL_FORM },
);

/**
 * A label in a language. Without a text for it: the English one, or else the first. Labels can't be inflected, so texts take
 * them as they are.
 */
export function labelIn(label: Label, locale: string): string {
  if (typeof label === "string") return label;
  const languages = Object.keys(label);
  const language = closestLocale(languages, [locale, "en"]) ?? languages[0] ?? "";
  return ownValue(label, language) ?? "";
}

/** Reports a problem. @param key below the object that is checked. */
export type Found = (problem: string, ...key: readonly string[]) => void;

/**
 * A label has a text for each language of the pages, and for no other.
 * @param key where the label is.
 */
export function checkLabel(
  given: Label | undefined,
  locales: readonly string[],
  key: readonly string[],
  found: Found,
): void {
  if (typeof given !== "object") return;
  for (const locale of locales)
    if (!Object.hasOwn(given, locale))
      found("is required: a text for each of config.interactions.locales", ...key, locale);
  for (const tag of Object.keys(given))
    if (!isLanguageTag(tag)) found("is not a language tag such as `en`", ...key, tag);
    else if (!locales.includes(tag))
      found("is never shown: its language is not in config.interactions.locales", ...key, tag);
}
