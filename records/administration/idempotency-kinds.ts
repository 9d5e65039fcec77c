/** What requests with an `Idempotency-Key` have done, so that a repeat does not do it again. */
import type { Actor } from "../audit/audit-event.ts";
import { defineKind, type Kind } from "../kinds.ts";

/** A request that was carried out, or was begun. It holds neither the request nor its answer. */
export interface IdempotencyRecord {
  readonly actor: Actor;
  /** A keyed hash of the body. */
  readonly body: string;
  /** The HTTP status of the answer. */
  readonly status: number;
  /** `begun`: what it changes is not in the commit of this record. A repeat carries it out again, which does no harm. */
  readonly state: "begun" | "done";
  /** What it made or changed: a repeat reads it anew. `null`: nothing that can be read. */
  readonly made: { readonly noun: string; readonly target: readonly string[] } | null;
  /** Whether the answer held something that is shown once. */
  readonly held_secret: boolean;
  /** Milliseconds since the epoch. */
  readonly expires_at_ms: number;
}

/** How long a repeat is noticed. */
export const IDEMPOTENCY_SECONDS: number = 24 * 60 * 60;

export const IDEMPOTENCY: Kind<IdempotencyRecord> = defineKind<IdempotencyRecord>({
  name: "idempotency",
  holds:
    "what a request with an `Idempotency-Key` made, by type and identifier, and a keyed hash of its body",
  key: "a keyed hash of who asked, the operation, what it is about, and the `Idempotency-Key`",
  expires: "24 hours after the request",
  expiresAt: ({ expires_at_ms }) => expires_at_ms,
  store: "storage",
  exported: true,
  // What it made may be gone: the request has to be carried out again.
  afterRestore: "removed",
  personal: "the `sub` of the account that was made or changed, and of the operator who asked",
});
