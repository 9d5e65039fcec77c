/** `docs/audit.md`: written by hand, but for the table of actions, which comes from the code. */
import { AUDIT_ACTIONS } from "../lib/audit/actions.ts";
import { type Page, pageWithTables } from "./page.ts";

/** The page of the audit. */
export const auditPage: Page = pageWithTables("docs/audit.md", () => ({
  "all actions": [
    "| Action | Subject | Means |",
    "| --- | --- | --- |",
    ...Object.entries(AUDIT_ACTIONS).map(
      ([action, { about, means }]) => `| \`${action}\` | ${about ?? "none"} | ${means} |`,
    ),
  ].join("\n"),
}));
