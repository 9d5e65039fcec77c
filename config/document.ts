/** Tables of keys, made from the schemas: what the documentation says is what is checked. */
import type { z } from "zod";
import { configurationSchema } from "./schema.ts";
import { type Leaf, leavesOf } from "./schema/walk.ts";

/** Characters that would end a cell, or a code span inside it. */
function cell(text: string): string {
  return text.replaceAll("|", String.raw`\|`).replaceAll(/\s+/gu, " ");
}

function defaultOf({ byDefault, otherwise }: Leaf): string {
  return byDefault === undefined ? (otherwise ?? "none") : `\`${JSON.stringify(byDefault)}\``;
}

/** One line for each key in its full dotted path, as a Markdown table: key, type, default, meaning. */
export function keyTable(schema: z.ZodType): string {
  const rows = leavesOf(schema).map((leaf) =>
    [`\`${leaf.path.join(".")}\``, leaf.form ?? "", defaultOf(leaf), leaf.description ?? ""].map(cell),
  );
  const lines = [["Key", "Type", "Default", "Meaning"], ["---", "---", "---", "---"], ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** All keys of the configuration. */
export function configurationTable(): string {
  return keyTable(configurationSchema);
}
