/**
 * What the interface document and the decisions say that receivers are told of a committed change. Written from their
 * sentences and from the receivers' side; it shares nothing with the product's plan.
 */
import { type NotificationType, type Receiver, RECEIVERS } from "./directory.ts";
import type { AccountState, Committed } from "./journal.ts";

/** One notification that has to arrive. */
export interface Expected {
  readonly receiver: string;
  readonly sub: string;
  /** The body, with {@link ANY_TIME} for the timestamp. */
  readonly shape: string;
  /** Between which seconds since the epoch its timestamp lies, both included. */
  readonly from: number;
  readonly to: number;
}

export const ANY_TIME = '"timestamp":"ANY"';

/** A change waits at most 5 s for its turn, and 5 s for the storage. */
const MAX_COMMIT_SECONDS = 10;

const PROFILE = ["username", "email", "name", "surname", "date_of_birth", "gender"] as const;

type Services = Readonly<Record<string, number | null>>;

interface Told {
  readonly type: NotificationType;
  readonly services: Services;
}

function without(services: Services, left: Services): Services {
  return Object.fromEntries(Object.entries(services).filter(([key]) => !(key in left)));
}

/** What happened, with the services concerned; nothing for creations and for what nobody is told of. */
function toldOf({ before, after }: Committed): Told[] {
  if (before === undefined) return [];
  if (after === undefined) return [{ type: "DELETE_ACCOUNT", services: before.services }];
  const told: Told[] = [];
  const left = without(before.services, after.services);
  if (Object.keys(left).length > 0) told.push({ type: "UNASSINGED_FROM_SERVICE", services: left });
  const changed = PROFILE.some((field) => before[field] !== after[field]);
  if (changed) told.push({ type: "PROFILE_CHANGED", services: after.services });
  return told;
}

/** What this receiver is told of the services concerned; `undefined` when it is told nothing. */
function shareOf(
  { types, hearsOf }: Receiver,
  { portal }: AccountState,
  { type, services }: Told,
): Services | undefined {
  if (!types.includes(type)) return undefined;
  if ("portal" in hearsOf) return portal === hearsOf.portal ? services : undefined;
  const own = Object.entries(services).filter(([key]) => hearsOf.services.includes(key));
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
  // A deleted account has no time of its last change any more.
  const [from, to] =
    after === undefined ? [at - MAX_COMMIT_SECONDS, at] : [after.updated_at, after.updated_at];
  return toldOf(change).flatMap((told) =>
    RECEIVERS.flatMap((receiver) => {
      const services = shareOf(receiver, account, told);
      if (services === undefined) return [];
      const shape = shapeOf(told.type, account, services);
      return { receiver: receiver.name, sub: account.sub, shape, from: Math.floor(from), to: Math.floor(to) };
    }),
  );
}

/** Everything that has to arrive, for each receiver and user in this order. */
export function expectedFrom(journal: readonly Committed[]): Expected[] {
  return journal.flatMap(expectedOf);
}
