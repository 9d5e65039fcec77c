/** The operation on the audit log. */
import { z } from "zod";
import { described } from "../../config/documented-schema.ts";
import { nearestKey } from "../../config/nearest-key.ts";
import { AUDIT_ACTIONS } from "../../records/audit/actions.ts";
import type { AuditFilter, AuditRecord } from "../../records/audit/audit-event.ts";
import { anyString, exactly, integer, ruled } from "../arguments.ts";
import { type Facade, operation, operations, type Paging } from "./operation.ts";

/** Which records to list, and how many. */
export interface AuditQuery extends AuditFilter, Paging {}

/** Seconds since the epoch. */
const time = described(integer(0, 9_000_000_000).exactOptional(), { unit: "time" });

/** What can't be the name of an action is not repeated. */
function actionProblem(name: string): string | undefined {
  if (Object.hasOwn(AUDIT_ACTIONS, name)) return undefined;
  if (!/^[a-z_.]{1,64}$/u.test(name)) return "unknown action";
  const nearest = nearestKey(name, Object.keys(AUDIT_ACTIONS), []);
  return `unknown action ${name}${nearest?.close === true ? `; did you mean ${nearest.path}?` : ""}`;
}

const auditFilter: z.ZodType<AuditFilter, AuditFilter> = exactly({
  account: anyString.exactOptional(),
  client: anyString.exactOptional(),
  action: ruled(actionProblem).exactOptional(),
  request: anyString.exactOptional(),
  since: time,
  until: time,
});

export const audit = operations("record", {
  /** Lists who did what, newest first. */
  list: operation({
    effect: "list",
    target: [],
    input: auditFilter,
    output: z.custom<AuditRecord>(),
    role: "viewer",
    limited: { role: "viewer", by: "service" },
    confirm: "none",
    audit: [],
    errors: [],
    columns: ["at", "action", "actor", "subject", "client", "outcome", "reason", "address"],
    latest: 100,
    example: { target: [], input: { account: "SUB", since: 1_767_225_600 } },
  }),
});

/** The audit log: sign-ins, changes and operations, by identifiers without names. */
export interface AuditLog extends Facade<typeof audit.rows> {}
