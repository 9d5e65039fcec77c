/** The tables in `docs/` that are generated from declarations. The text around them is written by hand. */
import { capacityTables } from "../bench/growth/capacity.ts";
import { byteTable, costTable, readFigures, structureTable } from "../bench/growth/figures.ts";
import { countTable, readCounts, STORAGES } from "../bench/statements/statements.ts";
import { CLIENT_ROWS } from "../accounts/clients/client-settings.ts";
import { DEFAULT_KIND, type KindOfClient } from "../accounts/clients/client-kinds.ts";
import { type LimitDeclaration, RATE_LIMITS } from "../accounts/limits/limit-table.ts";
import {
  ACTIONS_OF_STRANGERS,
  isCaused,
  RECORDS_OF_STRANGERS,
  type StrangerFact,
} from "../accounts/limits/strangers.ts";
import { METRICS, type MetricDeclaration } from "../core/metric-catalog.ts";
import { KINDS } from "../records/all-kinds.ts";
import type { AnyKind } from "../records/kinds.ts";
import { AUDIT_ACTIONS } from "../records/audit/actions.ts";
import { CHECKS, FINDINGS } from "../cli/doctor/findings.ts";
import { ADVICE } from "../cli/program/fault-advice.ts";
import {
  CLIENT_ENDPOINTS,
  type ClientEndpoint,
  CLIENTS,
  ENDPOINTS,
  type TokenEndpoint,
  type TokenKind,
  TOKENS,
  type Verdict,
  VERDICTS,
} from "../test/hostile/token-table.ts";
import { argumentTables, networksTable } from "./configuration.ts";
import { endsWithAccount, KEPT } from "../test/accounts/kept.ts";
import { type Page, pageWithTables, table } from "./page.ts";
import { defaults } from "../config/schema.ts";

export const auditPage: Page = pageWithTables("docs/reference/audit.md", () => ({
  "all actions": table(
    ["Action", "Subject", "Means"],
    Object.entries(AUDIT_ACTIONS).map(([action, { about, means }]) => [
      `\`${action}\``,
      about ?? "none",
      means,
    ]),
  ),
}));

const checkNames = Object.keys(CHECKS);

/** Values are in braces, and a text that consists of one value is not worth a cell. */
export const doctorPage: Page = pageWithTables("docs/reference/doctor.md", () => ({
  checks: table(
    ["Check", "Looks at"],
    Object.entries(CHECKS).map(([check, title]) => [`\`${check}\``, title]),
  ),
  findings: table(
    ["Check", "Code", "What is wrong, and why it matters", "What to do"],
    Object.entries(FINDINGS)
      .toSorted(
        ([, { check: one }], [, { check: other }]) => checkNames.indexOf(one) - checkNames.indexOf(other),
      )
      .map(([code, { check, level, what, why, fix }]) => [
        `\`${check}\``,
        `\`${code}\`<br>${level}`,
        what === "{message}" ? why : `**${what}** ${why}`,
        fix,
      ]),
  ),
  "faults of stores": table(
    ["What it or the system said", "What to do"],
    Object.entries(ADVICE).map(([reason, advice]) => [`\`${reason}\``, advice]),
  ),
}));

/** What becomes of a record. */
const fate = (rule: AnyKind["declaration"]["afterRestore"]): string =>
  typeof rule === "string" ? rule : rule.becomes;

export const kindsPage: Page = pageWithTables("docs/internals/kinds.md", () => ({
  kinds: table(
    ["Kind", "One record is", "Personal data", "Ends"],
    KINDS.all.map(({ name, declaration: { holds, personal = "none", expires = "when it is removed" } }) => [
      `\`${name}\``,
      holds,
      personal,
      expires,
    ]),
  ),
  keys: table(
    ["Kind", "Key", "Parent", "Store", "Copied", "After a restore", "After `keys reset --lost`"],
    KINDS.all.map(({ name, declaration: { key, parent, store, exported, afterRestore, afterReset } }) => [
      `\`${name}\``,
      key,
      parent === undefined ? "" : `\`${parent.kind.name}\``,
      store,
      exported ? "yes" : "no",
      fate(afterRestore),
      afterReset === undefined ? "the same" : fate(afterReset),
    ]),
  ),
  indexes: table(
    ["Kind", "Index", "For"],
    KINDS.all.flatMap(({ name, declaration: { index = {}, indexFor = {} } }) =>
      Object.keys(index).map((each) => [
        `\`${name}\``,
        `\`${each}\``,
        (indexFor as Readonly<Record<string, string>>)[each] ?? "",
      ]),
    ),
  ),
}));

/** All that a record knows about a person is which account it belongs to. */
const isReference = (personal: string): boolean => /^the `sub`(?: of an operator)?$/u.test(personal);

const capitalized = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

export const personalDataPage: Page = pageWithTables("docs/security/personal-data.md", () => {
  const kinds = KINDS.all.flatMap((kind) => {
    const { holds, personal, expires } = kind.declaration;
    const reason = KEPT[kind.name];
    const isEnded = endsWithAccount(kind) ? "removed" : "kept until then";
    const deleted = reason === undefined ? isEnded : `kept: ${reason}`;
    return personal === undefined ? [] : [{ holds, personal, expires, deleted }];
  });
  return {
    "personal data": table(
      ["What", "Personal data in it", "Until", "When the account is deleted"],
      kinds
        .filter(({ personal }) => !isReference(personal))
        .map(({ holds, personal, expires = "it is removed", deleted }) => [
          capitalized(holds),
          personal,
          expires,
          deleted,
        ]),
    ),
    references: table(
      ["What", "When the account is deleted"],
      kinds
        .filter(({ personal }) => isReference(personal))
        .map(({ holds, deleted }) => [capitalized(holds), deleted]),
    ),
  };
});

function authenticatesWith({ confidential, addresses }: KindOfClient): string {
  if (confidential) return "A secret, or keys (`jwks`)";
  return addresses === null ? "Nothing" : "Nothing: it can't keep a secret. It uses PKCE";
}

const ROTATION = { always: "always rotate", "as configured": "rotate as configured" } as const;

export function kindTable(kinds: Readonly<Record<string, KindOfClient>>): string {
  return table(
    ["`kind`", "For", "Authenticates with", "Refresh tokens", "Default `error_status`"],
    Object.entries(kinds).map(([name, kind]) => [
      `\`${name}\`${name === DEFAULT_KIND ? " (default)" : ""}`,
      kind.is,
      authenticatesWith(kind),
      kind.rotates === null ? "none" : ROTATION[kind.rotates],
      `\`${kind.behaves}\``,
    ]),
  );
}

export const clientSettingsPage: Page = pageWithTables("docs/reference/client-settings.md", () => ({
  kinds: kindTable(CLIENT_ROWS.kinds),
  clients: argumentTables(CLIENT_ROWS)["clients"] ?? "",
}));

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

function windowOf(seconds: number): string {
  if (seconds === DAY) return "per day";
  return seconds === HOUR ? "per hour" : `in ${seconds / MINUTE} min`;
}

/** The rules of the configuration that can be set, by their paths. */
function rulesIn(value: unknown, path = ""): ReadonlyMap<unknown, string> {
  if (typeof value !== "object" || value === null) return new Map();
  if ("points" in value) return new Map([[value, path]]);
  return new Map(
    Object.entries(value).flatMap(([key, inner]) =>
      Array.from(rulesIn(inner, path === "" ? key : `${path}.${key}`)),
    ),
  );
}

/** @throws Error if a limit says nothing of failures although only they count, or the other way round. */
function limitRows(): string[][] {
  const rules = rulesIn(defaults.rateLimits);
  return Object.entries<LimitDeclaration>(RATE_LIMITS).map(([name, { counts, per, failuresOnly, rule }]) => {
    const own = rule(defaults.rateLimits);
    const configured = rules.get(own);
    if (failuresOnly !== /^(?:Failed|Wrong) /u.test(counts)) throw new Error(`${name}: says ${counts}`);
    const { points, seconds } = own;
    return [
      `\`${name}\``,
      counts,
      per,
      `${points.toLocaleString("en")} ${windowOf(seconds)}`,
      configured === undefined ? "fixed" : `\`${configured}\``,
    ];
  });
}

/** `400 invalid_token` → 400 `invalid_token`. */
const verdictText = (verdict: Verdict): string => verdict.replace(/^(\d+) (\w+)$/, "$1 `$2`");

export const tokensPage: Page = pageWithTables("docs/reference/tokens.md", () => ({
  tokens: table(
    ["Token", ...Object.values(ENDPOINTS)],
    Object.entries(TOKENS).map(([token, title]) => {
      const verdicts = VERDICTS[token as TokenKind];
      const answers = Object.keys(ENDPOINTS).map((endpoint) =>
        verdictText(verdicts[endpoint as TokenEndpoint]),
      );
      return [title as string].concat(answers);
    }),
  ),
  "clients at endpoints": table(
    ["Client", ...Object.values(CLIENT_ENDPOINTS).map(({ title }) => title), "With DPoP"],
    Object.values(CLIENTS).map(({ title, proof, ...verdicts }) => {
      const answers = Object.keys(CLIENT_ENDPOINTS).map((endpoint) => verdicts[endpoint as ClientEndpoint]);
      return [title].concat(answers, proof);
    }),
  ),
}));

export const limitsPage: Page = pageWithTables("docs/reference/limits.md", () => ({
  limits: table(["Limit", "Counts", "For each", "Default", "In `rateLimits`"], limitRows()),
  networks: networksTable(),
  "records of strangers": strangers("Kind of record", RECORDS_OF_STRANGERS),
  "actions of strangers": strangers("Action of the audit", ACTIONS_OF_STRANGERS),
}));

/** The rows of what a stranger can cause. */
function strangers(head: string, facts: Readonly<Record<string, StrangerFact>>): string {
  const rows = Object.entries(facts).flatMap(([name, fact]) =>
    isCaused(fact)
      ? [[`\`${name}\``, fact.by, fact.limits.map((limit) => `\`${limit}\``).join(", "), fact.bound ?? ""]]
      : [],
  );
  return table([head, "Caused by", "Consumes a point of", "Bounded by"], rows);
}

function labelsOf({ labels }: MetricDeclaration): string {
  return Object.entries(labels)
    .map(([label, values]) => {
      const text = typeof values === "string" ? values : values.map((value) => `\`${value}\``).join(", ");
      return `\`${label}\`: ${text}`;
    })
    .join("<br>");
}

export const metricsPage: Page = pageWithTables("docs/reference/metrics.md", () => ({
  metrics: table(
    ["Metric", "Type", "Labels", "Meaning", "Of"],
    METRICS.map((metric) => [
      `\`sign_in_${metric.name}\``,
      metric.type,
      labelsOf(metric),
      metric.help,
      metric.of === "process" ? "one process" : "the service",
    ]),
  ),
}));

/** The figures are those of the last `npm run bench -- statements` and `growth`. */
export const scalePage: Page = pageWithTables("docs/internals/scale.md", () => {
  const counts = readCounts();
  const tables = STORAGES.map((name) => `### ${name}\n\n${countTable(counts[name])}`);
  const figures = readFigures();
  const { inputs, storage, day, limits, first } = capacityTables();
  return {
    "growth on SQLite": costTable("SQLite", figures.SQLite),
    "growth on PostgreSQL": costTable("PostgreSQL", figures.PostgreSQL),
    structures: structureTable(figures),
    bytes: byteTable(figures),
    statements: tables.join("\n\n"),
    "inputs of the calculation": inputs,
    "calculated storage": storage,
    "calculated day": day,
    "calculated limits": `${first}\n\n${limits}`,
  };
});
