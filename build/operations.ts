/** `administration/operations.json`: what the views say about operations, from the comments of their rows. */
import { z } from "zod";
import { membersOf } from "../accounts/operations/operation.ts";
import { type Noun, rowsOf, TABLES } from "../administration/tables.ts";
import { ROOT, withComments } from "./comments.ts";
import type { Page } from "./page.ts";

const ROWS = { file: "administration/tables.ts", name: "TABLES" };
const POSITIONS = { file: "accounts/operations/operation.ts", name: "Positions" };

/** Paragraphs, each on one line. */
function paragraphs(text: string): string[] {
  return text.split(/\n\s*\n/u).map((each) => each.replaceAll(/\s+/gu, " ").trim());
}

/** The members of what a row returns, of a list those of an item. */
function outputMembers(output: z.ZodType): readonly string[] {
  if (output instanceof z.ZodReadonly) return outputMembers(output.unwrap() as z.ZodType);
  if (output instanceof z.ZodArray) return outputMembers(output.element as z.ZodType);
  return output instanceof z.ZodObject ? Object.keys(output.shape) : [];
}

/** The id of what a row returns, of a list that of an item. */
function outputId(output: z.ZodType): string | undefined {
  if (output instanceof z.ZodReadonly) return outputId(output.unwrap() as z.ZodType);
  if (output instanceof z.ZodArray) return outputId(output.element as z.ZodType);
  return output.meta()?.id;
}

export const operationTexts: Page = {
  file: "administration/operations.json",
  generate: () =>
    withComments(ROOT, (commentsOf) => {
      const missing: string[] = [];
      function textOf(of: typeof ROWS, path: readonly string[], isOptional = false): readonly string[] {
        const text = commentsOf(of, [path]).get(path.join("."))?.source ?? "";
        if (text === "" && !isOptional) missing.push(path.join("."));
        return paragraphs(text);
      }
      const all = (Object.keys(TABLES) as Noun[]).flatMap((noun) =>
        Object.entries(rowsOf(noun)).map(([verb, row]) => ({ noun, verb, row })),
      );
      const operations = all.map(({ noun, verb, row }) => {
        const at = [noun, "rows", verb];
        // Tables of the same form have one comment.
        const [summary = "", ...about] = textOf(ROWS, at).map((text) =>
          text.replaceAll("the entry", `the ${TABLES[noun].noun}`).replaceAll("entries", noun),
        );
        const members = Object.keys(membersOf(row)).map((member) => [
          member,
          textOf(ROWS, [...at, "input", "_zod", "input", member]).join(" "),
        ]);
        return [
          `${noun}.${verb}`,
          {
            summary,
            ...(about.length > 0 && { about: about.join("\n\n") }),
            ...(members.length > 0 && { members: Object.fromEntries(members) as object }),
          },
        ];
      });
      const outputs = new Map<string, object>();
      for (const { noun, verb, row } of all) {
        const id = outputId(row.output);
        if (id === undefined || outputs.has(id)) continue;
        const members = outputMembers(row.output).map((member) => [
          member,
          textOf(ROWS, [noun, "rows", verb, "output", "_zod", "output", member], true).join(" "),
        ]);
        outputs.set(id, Object.fromEntries(members.filter(([, text]) => text !== "")) as object);
      }
      const names = new Set(all.flatMap(({ row }) => row.target));
      const operands = [...names].map((name) => [name, textOf(POSITIONS, [name]).join(" ")]);
      if (missing.length > 0) throw new Error(`these have no comment: ${missing.join(", ")}`);
      const texts: object = {
        operands: Object.fromEntries(operands) as object,
        operations: Object.fromEntries(operations) as object,
        outputs: Object.fromEntries(outputs) as object,
      };
      return `${JSON.stringify(texts, undefined, 2)}\n`;
    }),
};
