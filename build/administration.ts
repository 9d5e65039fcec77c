/** What is generated about administration over HTTP: the OpenAPI document, and who may do what. */
import { type AnyRow, isOn, type Role } from "../accounts/operations/operation.ts";
import { type Noun, rowsOf, TABLES } from "../administration/tables.ts";
import { type Page, pageWithTables } from "./page.ts";

export const administrationDocument: Page = {
  file: "docs/administration.openapi.json",
  async generate() {
    // Loaded now, because it reads the texts that have just been written.
    const { openApiDocument } = await import("../administration/open-api.ts");
    return `${JSON.stringify(openApiDocument(), undefined, 2)}\n`;
  },
};

const ROLES: readonly Role[] = ["viewer", "support", "administrator"];

const yes = (may: boolean): string => (may ? "yes" : "");

function limitedCell({ limited }: AnyRow): string {
  if (limited === false) return "";
  const only: readonly string[] = limited.only ?? [];
  const names = only.map((each) => `\`${each}\``).join(", ");
  return only.length === 0 ? limited.role : `${limited.role}: only ${names}`;
}

/** The operations of a table, with those who may ask for them. */
function rowsFor(noun: Noun): string[] {
  return Object.entries<AnyRow>(rowsOf(noun))
    .filter(([, row]) => isOn(row, "rest") || isOn(row, "console"))
    .map(([verb, row]) => {
      const roles = ROLES.map((role) => yes(ROLES.indexOf(role) >= ROLES.indexOf(row.role)));
      return `| ${[`\`${noun}.${verb}\``, ...roles, yes(row.deliveries === true), limitedCell(row)].join(" | ")} |`;
    });
}

export const administrationPage: Page = pageWithTables("docs/operate/administration/reference.md", () => ({
  "all roles": [
    "| Operation | `viewer` | `support` | `administrator` | `deliveries` | Token limited to a service |",
    "| --- | --- | --- | --- | --- | --- |",
    ...(Object.keys(TABLES) as Noun[]).flatMap(rowsFor),
  ].join("\n"),
}));
