/** What the comments of the rows say, for people who have no editor open: written by `npm run docs` to `operations.json`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Sentences in Markdown. */
export interface OperationText {
  /** What it does. */
  readonly summary: string;
  /** More about it: paragraphs. */
  readonly about?: string;
  /** By the name of a member of the input. */
  readonly members?: Readonly<Record<string, string>>;
}

interface OperationTexts {
  /** By the name of an operand. */
  readonly operands: Readonly<Record<string, string>>;
  /** By noun and verb, such as `accounts.find`. */
  readonly operations: Readonly<Record<string, OperationText>>;
  /** By the id of what an operation returns, and the name of a member. */
  readonly outputs: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export const OPERATION_TEXTS: OperationTexts = JSON.parse(
  readFileSync(join(import.meta.dirname, "operations.json"), "utf8"),
) as OperationTexts;

/** Text without Markdown, on one line. */
export function plainText(markdown: string): string {
  return markdown.replaceAll(/\s+/gu, " ").replaceAll("`", "").trim();
}

/** A sentence as a phrase: without Markdown, capital and full stop. */
export function phraseOf(markdown: string): string {
  const words = plainText(markdown)
    .replace(/\.$/u, "")
    .replace(/\. Default:? /u, "; default: ");
  return /^[A-Z][a-z]/u.test(words) ? words.slice(0, 1).toLowerCase() + words.slice(1) : words;
}
