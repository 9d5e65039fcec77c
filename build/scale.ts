/** `docs/scale.md`: the text is written by hand; the tables of statements are from the last `npm run bench -- statements`. */
import { countTable, readCounts, STORAGES } from "../bench/statements/statements.ts";
import { type Page, pageWithTables } from "./page.ts";

export const scalePage: Page = pageWithTables("docs/scale.md", () => {
  const counts = readCounts();
  const tables = STORAGES.map((name) => `### ${name}\n\n${countTable(counts[name])}`);
  return { statements: tables.join("\n\n") };
});
