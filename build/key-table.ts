/** Tables of keys: one row for each, with its type, its default and what it means. */
import type { z } from "zod";
import { type Leaf, leavesOf, MAX_SECONDS } from "../config/documented-schema.ts";
import { table } from "./page.ts";

/** Escapes characters that would end a cell, or a code span inside it. */
function cell(markdown: string): string {
  return markdown.replaceAll("|", String.raw`\|`).replaceAll(/\s+/gu, " ");
}

/** The default as the documentation writes it. */
export function defaultOf({ byDefault, otherwise }: Leaf): string {
  return byDefault === undefined ? (otherwise ?? "none") : `\`${JSON.stringify(byDefault)}\``;
}

/** What a table shows for a key besides its texts. */
export interface KeyNotes {
  readonly description?: string | undefined;
  /** The default as a comment says it. */
  readonly byDefault?: string | undefined;
}

/** Shorter than in messages, where a form completes a sentence. */
function shortForm(form: string): string {
  return form
    .replace(/^`true` or `false`$/u, "boolean")
    .replace(
      new RegExp(String.raw`\ba whole number from (\d+) to (?:${MAX_SECONDS}|1000000000)\b`, "u"),
      "integer, at least $1",
    )
    .replace(/\ba whole number from (\d+) to (\d+)/u, "integer, $1 to $2")
    .replace(/\ba number of seconds from ([\d.]+) to ([\d.]+)/u, "seconds, $1 to $2")
    .replace(/^a list of different entries, each one of /u, "list of ")
    .replace(/^a list of different entries, /u, "list, ")
    .replace(/^a list of different /u, "list of different ")
    .replace(/^a text of /u, "text of ");
}

const DAY = 86_400;
const HOUR = 3_600;

/** `1209600` (14 days), where a number counts seconds. */
function humanDefault(written: string, meaning: string): string {
  const seconds = Number(/^`?(\d+)`?$/u.exec(written)?.[1]);
  if (!/\bseconds\b/iu.test(meaning) || !(seconds >= HOUR)) return written;
  const [number, unit] = seconds % DAY === 0 ? [seconds / DAY, "day"] : [seconds / HOUR, "hour"];
  return Number.isInteger(number) ? `${written} (${number} ${unit}${number === 1 ? "" : "s"})` : written;
}

/** One line for each key in its full dotted path: key, type, default, meaning. */
export function keyTable(
  schema: z.ZodType,
  notesOf: (leaf: Leaf) => KeyNotes = () => ({}),
  shows: (leaf: Leaf) => boolean = () => true,
): string {
  const rows = leavesOf(schema)
    .filter(shows)
    .map((leaf) => {
      const { description = leaf.description ?? "", byDefault = defaultOf(leaf) } = notesOf(leaf);
      const meaning = leaf.restart === true ? `${description}. A change needs a restart` : description;
      const key = `\`${leaf.path.join(".")}\``;
      return [key, shortForm(leaf.form ?? ""), humanDefault(byDefault, meaning), meaning].map(cell);
    });
  return table(["Key", "Type", "Default", "Meaning"], rows);
}
