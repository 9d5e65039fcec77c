/** Who asked for what: a record in the audit before anything is done, so that nothing is done without one. */
import type { AuditRecord, DirectoryStore } from "../lib/directory/directory.ts";
import { type Clock, seconds } from "../lib/clock.ts";

/** What an operator asks for. The subject is the delivery's `webhook-id`, or the name of the receiver. */
export type AuditedAction =
  | "delivery.discard"
  | "delivery.redrive"
  | "delivery.redrive_all"
  | "receiver.pause"
  | "receiver.resume"
  | "receiver.test";

/** Who asks. */
export interface AskedBy {
  /**
   * For the audit: the `sub` of the operator, or the name of a program; 1 to 128 characters of `A-Z a-z 0-9 . _ : -`, so
   * no e-mail address. Default: not known.
   */
  readonly by?: string;
}

export interface AuditDeps {
  readonly directory: Pick<DirectoryStore, "appendAudit">;
  readonly clock: Clock;
}

/** Rejects when it can't be written: what was asked for must not be done then. */
export type Audit = (
  action: AuditedAction,
  subject: string,
  detail: NonNullable<AuditRecord["detail"]>,
) => Promise<void>;

/** The record says what was asked for, not what came of it; it is stored at once, in a transaction of its own. */
export function createAudit({ directory, clock }: AuditDeps): Audit {
  return (action, subject, detail) => directory.appendAudit({ at: seconds(clock), action, subject, detail });
}
