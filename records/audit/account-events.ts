/**
 * How many records of its own one account gets in an hour, over all processes. The rest is counted, one record for each
 * action and outcome, so that nobody fills the storage by signing in and out (decisions.md, What a stranger can cause).
 */
import { hash } from "node:crypto";
import { defineKind, type Kind } from "../kinds.ts";
import type { RefTo, Transaction } from "../records.ts";
import { subjectOf } from "./actions.ts";
import type { AuditEvent, CollectedEvent } from "./audit-event.ts";

/** Events of one account in an hour that have a record of their own. */
const OWN_RECORDS = 300;
const WINDOW_SECONDS = 3_600;

/** The account that makes an event happen, or that it is about. */
function accountOf({ actor, action, subject }: AuditEvent): string | undefined {
  if (actor.kind === "account" && actor.id !== undefined) return actor.id;
  return subjectOf(action) === "account" ? subject : undefined;
}

/** @param order microseconds since the epoch. */
const windowOf = (order: number): number => Math.floor(order / 1_000_000 / WINDOW_SECONDS);

interface AccountEventCount {
  readonly count: number;
  /** Milliseconds since the epoch. */
  readonly endsAt: number;
}

export const ACCOUNT_EVENTS: Kind<AccountEventCount> = defineKind({
  name: "account-events",
  holds: "how many records of the audit an account has got in an hour",
  key: "a hash of the account and the hour",
  expires: "with the hour",
  expiresAt: ({ endsAt }) => endsAt,
  store: "storage",
  exported: false,
  afterRestore: "kept",
  personal: undefined,
});

/** The record that counts an event; `undefined` if the event is counted already, or is not about an account. */
function countOf({ event, order, refusal }: CollectedEvent): RefTo<AccountEventCount> | undefined {
  const account = refusal === undefined ? accountOf(event) : undefined;
  if (account === undefined) return undefined;
  return ACCOUNT_EVENTS.ref(hash("sha256", JSON.stringify([account, windowOf(order)]), "base64url"));
}

/** The event without what tells it from others of the account with this action and outcome, to be counted with them. */
function counted(one: CollectedEvent): CollectedEvent {
  const { action, actor, subject, outcome } = one.event;
  const bucket = accountOf(one.event) ?? "";
  return {
    ...one,
    event: {
      action,
      actor,
      ...(subject !== undefined && { subject }),
      ...(outcome !== undefined && { outcome }),
      detail: { limit: "audit", seconds: WINDOW_SECONDS },
    },
    refusal: { limit: `audit ${action} ${outcome ?? "success"}`, bucket, seconds: WINDOW_SECONDS },
  };
}

/** The first look, without the storage: what one process alone has too many of never gets there one by one. */
export class AccountEvents {
  readonly #counts = new Map<string, number>();
  #window = 0;

  /** @returns the event, or what is counted instead. */
  take(one: CollectedEvent): CollectedEvent {
    const window = windowOf(one.order);
    if (window !== this.#window) this.#counts.clear();
    this.#window = window;
    const account = accountOf(one.event);
    if (account === undefined) return one;
    const count = (this.#counts.get(account) ?? 0) + 1;
    this.#counts.set(account, count);
    return count > OWN_RECORDS ? counted(one) : one;
  }
}

/**
 * Counts the events of each account, together with those of other processes.
 * @returns the events; those beyond the records of their account are to be counted.
 */
export async function takeAccountEvents(
  tx: Transaction,
  events: readonly CollectedEvent[],
): Promise<readonly CollectedEvent[]> {
  const refs = events.map(countOf);
  const distinct = new Map(refs.flatMap((ref) => (ref === undefined ? [] : [[ref.key, ref] as const])));
  const before = await tx.peekAll([...distinct.values()]);
  const counts = new Map([...distinct.keys()].map((key, at) => [key, before[at]?.count ?? 0]));
  const changed = new Map<string, AccountEventCount>();
  const taken = events.map((one, at) => {
    const key = refs[at]?.key;
    if (key === undefined) return one;
    const count = (counts.get(key) ?? 0) + 1;
    if (count > OWN_RECORDS) return counted(one);
    counts.set(key, count);
    changed.set(key, { count, endsAt: (windowOf(one.order) + 1) * WINDOW_SECONDS * 1_000 });
    return one;
  });
  for (const [key, count] of changed) tx.put(ACCOUNT_EVENTS.record(count, { key }));
  return taken;
}
