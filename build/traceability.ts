/**
 * Maps each sentence of the interface and its decisions to the tests for it. A test names its sentences with tags in
 * its title, `it("shows a login form first [AUTHZ-9, INTRO-2]", …)`, or in `test/traceability/many.json` if there are more than
 * four. The sentences are in `sentences.json` next to it, and `later.json` lists those that are not built yet.
 * `node build/traceability.ts --missing` prints the sentences without a test.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  isCallExpression,
  isPropertyAccessExpression,
  isTaggedTemplateExpression,
} from "typescript/unstable/ast";
import { isIdentifier, isNoSubstitutionTemplateLiteral, isStringLiteral } from "typescript/unstable/ast";
import { isTemplateExpression } from "typescript/unstable/ast";
import type { Node } from "typescript/unstable/ast";
import { parse, walk } from "./syntax.ts";
import type { Files } from "./syntax.ts";
import { readTree } from "./tree.ts";

/** A sentence or table row, shortened. */
interface Sentence {
  readonly id: string;
  readonly section: string;
  readonly sentence: string;
}

/** A test and the tags in its title. */
export interface Held {
  readonly file: string;
  /** Without the tags. */
  readonly title: string;
  readonly ids: readonly string[];
}

const TAGS = / ?\[([A-Z]+(?:-[A-Z]+)*-\d+(?:, ?[A-Z]+(?:-[A-Z]+)*-\d+)*)\]/g;
const CALLS: ReadonlySet<string> = new Set(["describe", "it", "test"]);
const FOLDER = join(import.meta.dirname, "..", "test", "traceability");

/** All sentences, in the order of the documents. */
export function sentences(): Sentence[] {
  return JSON.parse(readFileSync(join(FOLDER, "sentences.json"), "utf8"));
}

/** The IDs of sentences that are not built yet and need no test. */
export function later(): string[] {
  return JSON.parse(readFileSync(join(FOLDER, "later.json"), "utf8"));
}

/** The tests that hold more than four sentences. */
export function listed(): Held[] {
  return JSON.parse(readFileSync(join(FOLDER, "many.json"), "utf8"));
}

/**
 * Finds all tagged titles in the test files, and those of the table. Skipped and planned tests don't count.
 * @throws Error for an entry of the table without a test.
 */
export function findHeld(files: Files, table: readonly Held[] = []): Held[] {
  const tests = new Map([...files].filter(([path]) => /^test\/.*\.test\.ts$/.test(path)));
  const open = new Set(table);
  const held = parse(tests).flatMap(({ path, tree }) => {
    const found: Held[] = [];
    walk(tree, (node) => {
      const title = titleOf(node);
      if (title === undefined) return;
      const ids = [...title.matchAll(TAGS)].flatMap(([, list = ""]) => list.split(/, ?/));
      if (ids.length > 0) found.push({ file: path, title: title.replaceAll(TAGS, ""), ids });
      const many = table.find((entry) => entry.file === path && entry.title === title);
      if (many !== undefined && open.delete(many)) found.push(many);
    });
    return found;
  });
  for (const { file, title } of open)
    throw new Error(`many.json names a test that is not there: ${file} › ${title}`);
  return held;
}

/** Sentences that need a test and have none. */
export function missing(
  all: readonly Sentence[],
  held: readonly Held[],
  notYet: readonly string[],
): Sentence[] {
  const done = new Set([...notYet, ...held.flatMap(({ ids }) => ids)]);
  return all.filter(({ id }) => !done.has(id));
}

/** Tags and entries of `later.json` without a sentence, with their file. */
export function unknown(
  all: readonly Sentence[],
  held: readonly Held[],
  notYet: readonly string[],
): string[] {
  const known = new Set(all.map(({ id }) => id));
  const named = [
    ...held.flatMap(({ file, ids }) => ids.map((id) => [id, file] as const)),
    ...notYet.map((id) => [id, "test/traceability/later.json"] as const),
  ];
  return named.filter(([id]) => !known.has(id)).map(([id, file]) => `${file}: ${id}`);
}

/** The title of a call such as `it("…")`, `it.each(rows)("…")` or `describe("…")`. */
function titleOf(node: Node): string | undefined {
  if (!isCallExpression(node)) return undefined;
  const [title] = node.arguments;
  if (title === undefined || !callsTest(node.expression)) return undefined;
  if (isStringLiteral(title) || isNoSubstitutionTemplateLiteral(title)) return title.text;
  if (!isTemplateExpression(title)) return undefined;
  return title.head.text + title.templateSpans.map((span) => `…${span.literal.text}`).join("");
}

function callsTest(callee: Node): boolean {
  if (isIdentifier(callee)) return CALLS.has(callee.text);
  if (isPropertyAccessExpression(callee))
    return !["skip", "todo", "each"].includes(callee.name.text) && callsTest(callee.expression);
  // it.each(rows)("…") and it.each`table`("…"): the callee is itself a call.
  const inner = isCallExpression(callee)
    ? callee.expression
    : isTaggedTemplateExpression(callee)
      ? callee.tag
      : undefined;
  if (inner === undefined || !isPropertyAccessExpression(inner)) return false;
  return inner.name.text === "each" && callsTest(inner.expression);
}

if (import.meta.main) {
  const rows = missing(sentences(), findHeld(readTree(), listed()), later());
  if (process.argv.includes("--missing"))
    for (const { id, sentence } of rows) console.log(`${id}  ${sentence}`);
  console.log(`${rows.length} sentences have no test.`);
}
