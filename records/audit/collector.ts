/**
 * Stores frequent events in batches, so that a sign-in does not wait for its audit record. Refusals of one rate limit are
 * counted in one record, so that an attack does not fill the storage, and so are the events of one account beyond its records.
 */
import type { Outage } from "../../core/outages.ts";
import { collect } from "../collected.ts";
import { AccountEvents } from "./account-events.ts";
import type { AuditEvent, AuditStore, CollectedEvent, Refusal } from "./audit-event.ts";
import { refusalRef } from "./audit-kinds.ts";

export interface AuditCollector {
  /** Records an event soon. Never fails. */
  note(event: AuditEvent): void;
  /** Counts a refusal by a rate limit. Never fails. */
  noteRefusal(event: AuditEvent, refusal: Refusal): void;
  /** Stores the events so far. Never fails: events that can't be stored are retried a second later. */
  flush(): Promise<void>;
  /** How many records are lost since the start. */
  lost(): number;
  /** Stores the events so far; those that can't be stored are lost. */
  close(): Promise<void>;
}

/** @param outage records whether commits succeed. @param onWarning called with the number of lost records. */
export function createAuditCollector(
  store: Pick<AuditStore, "position" | "appendCollected">,
  outage: Outage,
  onWarning: (text: string) => void,
): AuditCollector {
  const { add, ...collected } = collect<CollectedEvent>({
    store: (batch) => store.appendCollected(batch),
    merge: (earlier, later) => ({ ...earlier, count: earlier.count + later.count }),
    outage,
    onLost: (count) => onWarning(`${count} audit records could not be stored and are lost`),
  });
  const accounts = new AccountEvents();

  /** Refusals by the key of their record. */
  const take = (one: CollectedEvent): void =>
    add(one.refusal === undefined ? Symbol("event") : refusalRef(one.refusal, one).key, one);

  return {
    ...collected,
    note: (event) => take(accounts.take({ event, order: store.position(), count: 1 })),
    noteRefusal: (event, refusal) => take({ event, refusal, order: store.position(), count: 1 }),
  };
}
