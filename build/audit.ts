/** `docs/audit.md`: the text is written by hand, the table of actions is generated. */
import { AUDIT_ACTIONS } from "../records/audit/actions.ts";
import { type Page, pageWithTables } from "./page.ts";

export const auditPage: Page = pageWithTables("docs/audit.md", () => ({
  "all actions": [
    "| Action | Subject | Means |",
    "| --- | --- | --- |",
    ...Object.entries(AUDIT_ACTIONS).map(
      ([action, { about, means }]) => `| \`${action}\` | ${about ?? "none"} | ${means} |`,
    ),
  ].join("\n"),
}));
