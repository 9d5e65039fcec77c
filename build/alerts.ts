/** The frame of the page about alerts: severity, duration and condition of each come from the rules of Prometheus. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { type Page, table, withTable } from "./page.ts";

const FILE = "docs/operate/runbooks/alerts.md";
const RULES = "deploy/prometheus/alerts.yml";

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string };
}

const textOf = (file: string): string => readFileSync(join(import.meta.dirname, "..", file), "utf8");

/** `10m` → 10 minutes. */
function duration(text: string): string {
  const [, number = "", unit = ""] = /^(\d+)([smhd])$/u.exec(text) ?? [];
  const words: Readonly<Record<string, string>> = { s: "second", m: "minute", h: "hour", d: "day" };
  return `${number} ${words[unit]}${number === "1" ? "" : "s"}`;
}

/** What the rule says: the line below the heading of an alert. */
function frameOf({ expr, for: lasts, labels: { severity } }: Alert): string {
  const condition = expr.trim().replaceAll(/\s+/gu, " ");
  const after = lasts === undefined ? "" : `, after ${duration(lasts)}`;
  return `*${severity}${after}*: \`${condition}\``;
}

/** A summary with words in capitals for what Prometheus fills in. */
const plain = (summary: string): string =>
  summary.replaceAll(/\{\{([^}]*)\}\}/gu, (_all, filled: string) => {
    const [, label] = /\$labels\.(\w+)/u.exec(filled) ?? [];
    return label?.toUpperCase() ?? "N";
  });

/** @throws Error if the page has no section for an alert, or one for an alert that is not in the rules. */
export const alertsPage: Page = {
  file: FILE,
  generate() {
    const { groups } = parse(textOf(RULES)) as { groups: readonly { readonly rules: readonly Alert[] }[] };
    const alerts = new Map(groups.flatMap(({ rules }) => rules).map((each) => [each.alert, each]));
    const page = textOf(FILE).replaceAll(
      /^## (SignIn\w+)\n\n(?:\*\w+.*?\*: `.*`\n\n)?/gmu,
      (_all, name: string) => {
        const alert = alerts.get(name);
        if (alert === undefined) throw new Error(`${FILE}: ${name} is not in ${RULES}`);
        return `## ${name}\n\n${frameOf(alert)}\n\n`;
      },
    );
    const missing = [...alerts.keys()].filter((name) => !page.includes(`## ${name}\n`));
    if (missing.length > 0) throw new Error(`${FILE} has no section for ${missing.join(", ")}`);
    const rows = [...alerts.values()].map(({ alert, labels, annotations }) => [
      `[${alert}](#${alert.toLowerCase()})`,
      labels.severity,
      plain(annotations.summary).replaceAll("|", String.raw`\|`),
    ]);
    return withTable(page, "all alerts", table(["Alert", "Severity", "Says"], rows));
  },
};
