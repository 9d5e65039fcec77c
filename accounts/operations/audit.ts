/** The operations on the audit log. */
import { z } from "zod";
import { described } from "../../config/documented-schema.ts";
import { nearestKey } from "../../config/nearest-key.ts";
import { AUDIT_ACTIONS } from "../../records/audit/actions.ts";
import { ACTOR_KINDS, type AuditFilter, type AuditRecord } from "../../records/audit/audit-event.ts";
import type { AuditExport, AuditExportQuery } from "../../records/audit/audit-export.ts";
import { anyString, choice, exactly, integer, ruled } from "../arguments.ts";
import { type Facade, NONE, operation, operations, type Paging } from "./operation.ts";

/** Which records to list, and how many. */
export interface AuditQuery extends AuditFilter, Paging {}

const LAST_SECOND = 9_000_000_000;

/** Seconds since the epoch. */
const time = described(integer(0, LAST_SECOND).exactOptional(), { unit: "time" });

/** What can't be the name of an action is not repeated. */
function actionProblem(name: string): string | undefined {
  if (Object.hasOwn(AUDIT_ACTIONS, name)) return undefined;
  if (!/^[a-z_.]{1,64}$/u.test(name)) return "unknown action";
  const nearest = nearestKey(name, Object.keys(AUDIT_ACTIONS), []);
  return `unknown action ${name}${nearest?.close === true ? `; did you mean ${nearest.path}?` : ""}`;
}

const filters = {
  account: anyString.exactOptional(),
  client: anyString.exactOptional(),
  action: ruled(actionProblem).exactOptional(),
  request: anyString.exactOptional(),
  since: time,
  until: time,
};
const auditFilter: z.ZodType<AuditFilter, AuditFilter> = exactly(filters);

const exportQuery: z.ZodType<AuditExportQuery, AuditExportQuery> = exactly({
  ...filters,
  format: choice(["csv", "jsonl"]),
  since: described(integer(0, LAST_SECOND), { unit: "time" }),
});

const word = z.string().nullable();
const record: z.ZodType<AuditRecord> = exactly({
  /** Unique. */
  id: z.string(),
  /** Seconds since the epoch. */
  at: z.int(),
  /** One of the actions in `docs/reference/audit.md`. */
  action: z.string(),
  /** Who did it. */
  actor: exactly({ kind: z.enum(ACTOR_KINDS), id: z.string().exactOptional() }),
  /** The identifier of an account, a client and so on, depending on the action. `null`: unknown or none. */
  subject: word,
  /** The client that the event is about or came through. */
  client: word,
  /** The id of the request, as in `X-Request-Id` and the log. */
  request: word,
  /** The network of the caller's address: the /24 of an IPv4 address, the /48 of an IPv6 address. */
  address: word,
  /** The browser family, for example `Firefox`. */
  browser: word,
  outcome: z.enum(["success", "failure"]),
  /** Why the outcome is what it is: one of a fixed set of words. */
  reason: word,
  /** How often it happened: 1, except for refusals by a rate limit and repeated failures, which share one record per window. */
  count: z.int(),
  /** Further identifiers, numbers and names of fields. */
  detail: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
}).meta({ id: "AuditRecord" });

export const audit = operations("record", {
  /** Lists who did what, newest first. */
  list: operation({
    effect: "list",
    target: [],
    input: auditFilter,
    output: record,
    role: "viewer",
    limited: { role: "viewer", by: "service" },
    confirm: "none",
    audit: [],
    errors: [],
    columns: ["at", "action", "actor", "subject", "client", "outcome", "reason", "address"],
    latest: 100,
    example: { target: [], input: { account: "SUB", since: 1_767_225_600 } },
  }),
  /**
   * Shows a record.
   * @returns `undefined` if there is none, or its time has ended.
   */
  find: operation({
    effect: "read",
    target: ["record"],
    input: NONE,
    output: record,
    role: "viewer",
    limited: { role: "viewer", by: "service" },
    confirm: "none",
    audit: [],
    errors: [],
    columns: [],
    example: { target: ["RECORD"], input: {} },
  }),
  /**
   * Exports records to a file, newest first: at most 31 days and 100,000 records.
   *
   * Cells of CSV that spreadsheets would run as formulas begin with an apostrophe. The export itself is in the audit before it begins.
   *
   * @throws SignInError `too_large`.
   */
  export: operation({
    effect: "verb",
    target: [],
    input: exportQuery,
    output: z.custom<AuditExport>(),
    role: "administrator",
    limited: false,
    confirm: "none",
    audit: ["audit.exported"],
    errors: ["too_large"],
    columns: [],
    surfaces: ["library", "command", "console"],
    example: { target: [], input: { format: "jsonl", since: 1_767_225_600 } },
  }),
});

/** The audit log: sign-ins, changes and operations, by identifiers without names. */
export interface AuditLog extends Facade<typeof audit.rows> {}
