/** Who asked for what: a record in the audit before anything is done, so that nothing is done without one. */
import type { AuditAction } from "../lib/audit/actions.ts";
import type { Actor, AuditDetail, AuditStore } from "../lib/audit/audit-event.ts";
import { callerFor } from "../lib/domain/arguments.ts";

/** What an operator asks for. The subject is the delivery's `webhook-id`, or the name of the receiver. */
export type AuditedAction = Extract<AuditAction, `delivery.${string}` | `receiver.${string}`>;

export interface AuditDeps {
  readonly audit: Pick<AuditStore, "append">;
}

/** Rejects when it can't be written: what was asked for must not be done then. */
export type Audit = (
  action: AuditedAction,
  subject: string,
  asked: { readonly actor?: Actor | undefined; readonly detail?: AuditDetail },
) => Promise<void>;

/** The record says what was asked for, not what came of it; it is stored at once, in a transaction of its own. */
export function createAudit({ audit }: AuditDeps): Audit {
  return (action, subject, { actor, ...detail }) =>
    audit.append({ ...callerFor(actor), action, subject, ...detail });
}
