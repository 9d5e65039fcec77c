/** What operations are called in the console. */
import type { Translator } from "../../../core/texts.ts";
import { kebab } from "../../tables.ts";

/** The first of these keys that has a text, translated. */
function firstOf(t: Translator, ...keys: readonly string[]): string | undefined {
  const found = keys.find((key) => t.has(key));
  return found === undefined ? undefined : t(found);
}

/** What an operation is called on its button and as a heading: "Rotate the secret". A new one has its name in words. */
export function verbLabel(t: Translator, noun: string, verb: string): string {
  const words = kebab(verb).replaceAll("-", " ");
  return (
    firstOf(t, `admin.verb.${noun}.${verb}`, `admin.verb.${verb}`) ??
    words.charAt(0).toUpperCase() + words.slice(1)
  );
}

/** What happens when an operation is done, a sentence each. */
export function consequences(t: Translator, noun: string, verb: string): readonly string[] {
  const text = firstOf(t, `admin.then.${noun}.${verb}`, `admin.then.${verb}`);
  return text === undefined ? [] : text.split("\n");
}

/** The name of one record of a kind: "client". */
export const oneOf = (t: Translator, noun: string): string => firstOf(t, `admin.one.${noun}`) ?? noun;

/** Why an operation was refused, in a sentence. */
export function refusalText(
  t: Translator,
  code: string,
  values: Readonly<Record<string, string | number>>,
): string {
  // What is refused about a delivery has its words on the pages of deliveries.
  const key = [`admin.problem.${code}`, `console.result.${code}`].find((each) => t.has(each));
  return t(key ?? "admin.problem.other", { code, ...values });
}
