/** `docs/security.md`: the text is written by hand, the table of limits is generated from their declarations. */
import { type LimitDeclaration, RATE_LIMITS } from "../accounts/limits/attempt-limits.ts";
import { defaults } from "../config/defaults.ts";
import { type Page, pageWithTables } from "./page.ts";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

function windowOf(seconds: number): string {
  if (seconds === DAY) return "per day";
  return seconds === HOUR ? "per hour" : `in ${seconds / MINUTE} min`;
}

function rowOf([name, { counts, per, failuresOnly, rule }]: [string, LimitDeclaration]): string[] {
  const { points, seconds } = rule(defaults.rateLimits);
  return [
    `\`${name}\``,
    counts,
    per,
    `${points.toLocaleString("en")} ${windowOf(seconds)}`,
    failuresOnly ? "no" : "yes",
  ];
}

export const limitsPage: Page = pageWithTables("docs/security.md", () => ({
  limits: [
    ["Limit", "What it counts", "For each", "Default", "Successes count"],
    Array.from({ length: 5 }, () => "---"),
    ...Object.entries(RATE_LIMITS).map(rowOf),
  ]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n"),
}));
