/**
 * The notifications that a committed change must cause, according to the interface document and the decisions. Written
 * from their sentences and from the receivers' side, it shares nothing with the product's plan.
 */
import { type NotificationType, type Receiver, RECEIVERS } from "./directory.ts";
import type { AccountState, Committed } from "./journal.ts";

/** One notification that must arrive. */
export interface Expected {
  readonly receiver: string;
  readonly sub: string;
  /** The body, with {@link ANY_TIME} for the timestamp. */
  readonly shape: string;
  /** The bounds of its timestamp, in seconds since the epoch, both included. */
  readonly from: number;
  readonly to: number;
}

export const ANY_TIME = '"timestamp":"ANY"';

/** A change waits at most 5 s for its turn, and 5 s for the storage. */
const MAX_COMMIT_SECONDS = 10;

const PROFILE = ["username", "email", "name", "surname", "date_of_birth", "gender"] as const;

type Services = Readonly<Record<string, number | null>>;

interface AccountEvent {
  readonly type: NotificationType;
  readonly services: Services;
}

function without(services: Services, left: Services): Services {
  return Object.fromEntries(Object.entries(services).filter(([key]) => !(key in left)));
}

/** What happened, with the affected services; nothing for creations and for changes that notify nobody. */
function eventsOf({ before, after }: Committed): AccountEvent[] {
  if (before === undefined) return [];
  if (after === undefined) return [{ type: "DELETE_ACCOUNT", services: before.services }];
  const events: AccountEvent[] = [];
  const left = without(before.services, after.services);
  if (Object.keys(left).length > 0) events.push({ type: "UNASSINGED_FROM_SERVICE", services: left });
  const changed = PROFILE.some((field) => before[field] !== after[field]);
  if (changed) events.push({ type: "PROFILE_CHANGED", services: after.services });
  return events;
}

/** The affected services that this receiver is notified about; `undefined` if there are none. */
function notifiedServices(
  { types, notifiedOf }: Receiver,
  { portal }: AccountState,
  { type, services }: AccountEvent,
): Services | undefined {
  if (!types.includes(type)) return undefined;
  if ("portal" in notifiedOf) return portal === notifiedOf.portal ? services : undefined;
  const own = Object.entries(services).filter(([key]) => notifiedOf.services.includes(key));
  return own.length === 0 ? undefined : Object.fromEntries(own);
}

function shapeOf(type: NotificationType, account: AccountState, services: Services): string {
  const { user_id, sub: user_uuid, email: user_email } = account;
  const data = { user_id, user_uuid, user_email, timestamp: "ANY", services };
  return JSON.stringify({ notification_type: type, data });
}

function expectedOf(change: Committed): Expected[] {
  const { before, after, at } = change;
  const account = after ?? before;
  if (account === undefined) return [];
  // A deleted account no longer has the time of its last change.
  const [from, to] =
    after === undefined ? [at - MAX_COMMIT_SECONDS, at] : [after.updated_at, after.updated_at];
  return eventsOf(change).flatMap((event) =>
    RECEIVERS.flatMap((receiver) => {
      const services = notifiedServices(receiver, account, event);
      if (services === undefined) return [];
      const shape = shapeOf(event.type, account, services);
      return { receiver: receiver.name, sub: account.sub, shape, from: Math.floor(from), to: Math.floor(to) };
    }),
  );
}

/** Everything that must arrive, in this order for each receiver and user. */
export function expectedFrom(journal: readonly Committed[]): Expected[] {
  return journal.flatMap(expectedOf);
}
