/** `docs/kinds.md`: the text is written by hand, the tables are generated from the declarations of the kinds. */
import { KINDS } from "../records/all-kinds.ts";
import type { AnyKind } from "../records/kinds.ts";
import { type Page, pageWithTables } from "./page.ts";

function table(heads: readonly string[], row: (kind: AnyKind) => readonly string[]): string {
  const lines = [heads, heads.map(() => "---"), ...KINDS.all.map(row)];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function indexesOf({ declaration }: AnyKind): string {
  return Object.keys(declaration.index ?? {})
    .map((name) => `\`${name}\``)
    .join(", ");
}

export const kindsPage: Page = pageWithTables("docs/kinds.md", () => ({
  kinds: table(["Kind", "One record is", "Personal data", "Ends"], ({ name, declaration }) => [
    `\`${name}\``,
    declaration.holds,
    declaration.personal ?? "none",
    declaration.expires ?? "when it is removed",
  ]),
  "keys and indexes": table(["Kind", "Key", "Indexes", "Parent", "Store", "Copied"], (kind) => {
    const { key, parent, store, exported } = kind.declaration;
    return [
      `\`${kind.name}\``,
      key,
      indexesOf(kind),
      parent === undefined ? "" : `\`${parent.kind.name}\``,
      store,
      exported ? "yes" : "no",
    ];
  }),
}));
