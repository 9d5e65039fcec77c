/** `cli/operations.json`: what the commands say about operations, from the comments of their rows. */
import { type Noun, rowsOf, TABLES } from "../administration/tables.ts";
import { membersOf } from "../accounts/operations/operation.ts";
import { ROOT, withComments } from "./comments.ts";
import type { Page } from "./page.ts";

const ROWS = { file: "administration/tables.ts", name: "TABLES" };
const POSITIONS = { file: "accounts/operations/operation.ts", name: "Positions" };

/** A paragraph on one line, for a terminal. */
function plain(text: string): string {
  return text.replaceAll(/\s+/gu, " ").replaceAll("`", "").trim();
}

/** A phrase without a full stop. */
function phrase(text: string): string {
  const words = plain(text)
    .replace(/\.$/u, "")
    .replace(/\. Default:? /u, "; default: ");
  return /^[A-Z][a-z]/u.test(words) ? words.slice(0, 1).toLowerCase() + words.slice(1) : words;
}

export const operationTexts: Page = {
  file: "cli/operations.json",
  generate: () =>
    withComments(ROOT, (commentsOf) => {
      const missing: string[] = [];
      function textOf(of: typeof ROWS, path: readonly string[]): string {
        const text = commentsOf(of, [path]).get(path.join("."))?.source ?? "";
        if (text === "") missing.push(path.join("."));
        return text;
      }
      const all = (Object.keys(TABLES) as Noun[]).flatMap((noun) =>
        Object.entries(rowsOf(noun)).map(([verb, row]) => ({ noun, verb, row })),
      );
      const operations = all.map(({ noun, verb, row }) => {
        const at = [noun, "rows", verb];
        // Tables of the same form have one comment.
        const text = textOf(ROWS, at)
          .replaceAll("the entry", `the ${TABLES[noun].noun}`)
          .replaceAll("entries", noun);
        const [summary = "", ...about] = text.split(/\n\s*\n/u);
        const members = Object.keys(membersOf(row)).map((member) => [
          member,
          phrase(textOf(ROWS, [...at, "input", "_zod", "input", member])),
        ]);
        return [
          `${noun}.${verb}`,
          {
            summary: phrase(summary),
            ...(about.length > 0 && { about: about.map(plain).join("\n\n") }),
            ...(members.length > 0 && { members: Object.fromEntries(members) as object }),
          },
        ];
      });
      const names = new Set(all.flatMap(({ row }) => row.target));
      const operands = [...names].map((name) => [name, phrase(textOf(POSITIONS, [name]))]);
      if (missing.length > 0) throw new Error(`these have no comment: ${missing.join(", ")}`);
      const texts: object = {
        operands: Object.fromEntries(operands) as object,
        operations: Object.fromEntries(operations) as object,
      };
      return `${JSON.stringify(texts, undefined, 2)}\n`;
    }),
};
