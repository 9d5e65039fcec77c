/** The measured table in docs/internals/faults.md. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../examples/documents.ts";
import type { Fault } from "./fault.ts";
import type { Seen } from "./measure.ts";

const PAGE = join(ROOT, "docs/internals/faults.md");
const TABLE = /(<!-- faults: measured by the campaign -->\n\n)([\s\S]*?)(\n\n<!-- end of faults -->)/u;

const HEAD = [
  "| Fault | `/health` | Worker | Part | Log | Metric | Alert | Again well after |",
  "| --- | --- | --- | --- | --- | --- | --- | --- |",
];

function lineOf({ line }: Fault): string {
  if (line === undefined) return "";
  const { level, msg, reason, store } = line;
  const cause = reason === undefined ? "" : `, \`reason\` \`${reason}\``;
  return `${level}: \`${msg}\`${cause}${store === undefined ? "" : `, \`store\` \`${store}\``}`;
}

function rowOf({ fault, alerts, healedAfter, worker }: Seen): string {
  const fired = fault.alerts.map(
    (name) =>
      `[${name}](../operate/runbooks/alerts.md#${name.toLowerCase()}): ${alerts.get(name) ?? "never"} s`,
  );
  const cells = [
    fault.name,
    fault.health,
    worker ?? "",
    fault.part === undefined ? "" : `\`${fault.part[0]}\``,
    lineOf(fault),
    `\`${/sign_in_\w+/u.exec(fault.metric)?.[0]}\``,
    fired.join("<br>"),
    `${Math.ceil(healedAfter)} s`,
  ];
  return `| ${cells.join(" | ")} |`;
}

/** The table of what was seen. */
export const tableOf = (seen: readonly Seen[]): string => [...HEAD, ...seen.map(rowOf)].join("\n");

/** A table without the times, which differ from run to run. */
export const withoutSeconds = (table: string): string => table.replaceAll(/\b(?:\d+|never) s\b/gu, "… s");

export const documentedTable = (): string => TABLE.exec(readFileSync(PAGE, "utf8"))?.[2] ?? "";

export function writeTable(table: string): void {
  const page = readFileSync(PAGE, "utf8");
  writeFileSync(
    PAGE,
    page.replace(TABLE, (_all, begin: string, _old: string, end: string) => begin + table + end),
  );
}
