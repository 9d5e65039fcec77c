/** What is generated about administration over HTTP: the OpenAPI document, and who may do what. */
import { type AnyRow, isOn } from "../accounts/operations/operation.ts";
import { type Noun, routeOf, rowsOf, TABLES } from "../administration/tables.ts";
import { type Page, pageWithTables, table } from "./page.ts";

export const administrationDocument: Page = {
  file: "docs/administration.openapi.json",
  async generate() {
    // Loaded now, because it reads the texts that have just been written.
    const { openApiDocument } = await import("../administration/open-api.ts");
    return `${JSON.stringify(openApiDocument(), undefined, 2)}\n`;
  },
};

function limitedCell({ limited }: AnyRow): string {
  if (limited === false) return "";
  const only: readonly string[] = limited.only ?? [];
  const names = only.map((each) => `\`${each}\``).join(", ");
  return only.length === 0 ? limited.role : `${limited.role}: only ${names}`;
}

/** The operations of a table, with their addresses and those who may ask for them. */
function rowsFor(noun: Noun): string[][] {
  return Object.entries<AnyRow>(rowsOf(noun))
    .filter(([, row]) => isOn(row, "rest") || isOn(row, "console"))
    .map(([verb, row]) => {
      const { method, path } = routeOf(noun, verb, row);
      return [
        `\`${noun}.${verb}\``,
        isOn(row, "rest") ? `\`${method} ${path}\`` : "",
        isOn(row, "command") ? "yes" : "",
        row.deliveries === true ? `${row.role}, deliveries` : row.role,
        limitedCell(row),
      ];
    });
}

export const operationsPage: Page = pageWithTables("docs/reference/operations.md", () => ({
  "all operations": table(
    ["Operation", "REST", "Command", "Role", "Limited to a service"],
    (Object.keys(TABLES) as Noun[]).flatMap(rowsFor),
  ),
}));
