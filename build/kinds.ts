/** `docs/kinds.md`: the text is written by hand, the tables are generated from the declarations of the kinds. */
import { KINDS } from "../records/all-kinds.ts";
import type { AnyKind } from "../records/kinds.ts";
import { type Page, pageWithTables } from "./page.ts";

function table(heads: readonly string[], rows: (kind: AnyKind) => readonly (readonly string[])[]): string {
  const lines = [heads, heads.map(() => "---"), ...KINDS.all.flatMap(rows)];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

export const kindsPage: Page = pageWithTables("docs/kinds.md", () => ({
  kinds: table(["Kind", "One record is", "Personal data", "Ends"], ({ name, declaration }) => [
    [
      `\`${name}\``,
      declaration.holds,
      declaration.personal ?? "none",
      declaration.expires ?? "when it is removed",
    ],
  ]),
  keys: table(["Kind", "Key", "Parent", "Store", "Copied"], ({ name, declaration }) => {
    const { key, parent, store, exported } = declaration;
    const above = parent === undefined ? "" : `\`${parent.kind.name}\``;
    return [[`\`${name}\``, key, above, store, exported ? "yes" : "no"]];
  }),
  indexes: table(["Kind", "Index", "For"], ({ name, declaration: { index = {}, indexFor = {} } }) =>
    Object.keys(index).map((each) => [
      `\`${name}\``,
      `\`${each}\``,
      (indexFor as Readonly<Record<string, string>>)[each] ?? "",
    ]),
  ),
}));
