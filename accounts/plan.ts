/**
 * Which receivers get which notification: a pure function of an account change and the directory. Specification:
 * "Events" and "Notification" of the interface document.
 */
import type { AccountRecord, EntryRecord } from "../records/directory/directory.ts";
import type { NotificationBody, NotificationType } from "../receiver/notification.ts";
import { type FieldRow, type FieldValues, isSame, type PersonFields } from "./profile-fields.ts";

/** What happened, and when. */
interface PlannedAction {
  readonly type: NotificationType;
  /** Seconds since the epoch. */
  readonly at: number;
  /** The keys of the only services whose clients may read what has changed. Default: all services. */
  readonly readers?: ReadonlySet<string> | undefined;
}

/** The parts of an account that the plan reads. */
export type PlannedAccount = Pick<AccountRecord, "sub" | "user_id" | "email" | "services" | "portal"> &
  FieldValues;

/** The parts of a directory entry that the plan reads. */
export interface PlannedEntry {
  readonly group: EntryRecord["group"];
  readonly receiver: Pick<NonNullable<EntryRecord["receiver"]>, "types"> | null;
}

/** The entries that the change concerns; others may be missing. */
export interface PlannedDirectory {
  readonly services: ReadonlyMap<string, PlannedEntry>;
  readonly groups: ReadonlyMap<string, PlannedEntry>;
  readonly portals: ReadonlyMap<string, PlannedEntry>;
}

/** One notification for one receiver. */
interface PlannedDelivery {
  /** `service:KEY`, `group:KEY` or `portal:KEY`. */
  readonly receiver: string;
  readonly type: NotificationType;
  readonly body: NotificationBody;
}

/**
 * Why a receiver gets a notification or not: `notified` (it gets one), `no_receiver` (none is configured there),
 * `type_not_taken` (it is configured for other types), `not_a_reader` (no client of its services may read what has changed).
 */
export type PlanReason = "notified" | "no_receiver" | "type_not_taken" | "not_a_reader";

/** The decision about one possible receiver; with the delivery when it is `notified`. */
export interface PlanDecision {
  /** `service:KEY`, `group:KEY` or `portal:KEY`. */
  readonly receiver: string;
  readonly reason: PlanReason;
  /** The keys of the services concerned, sorted. */
  readonly services: readonly string[];
  readonly delivery?: PlannedDelivery;
}

/** Which notifications a change causes. `after` is `undefined` for a deletion. */
export function causedBy(
  before: PlannedAccount,
  after: PlannedAccount | undefined,
  fields: PersonFields,
): NotificationType[] {
  if (after === undefined) return ["DELETE_ACCOUNT"];
  const types: NotificationType[] = [];
  if (unassigned(before, after).length > 0) types.push("UNASSINGED_FROM_SERVICE");
  const isChanged = fields.rows.some((row) => row.notifies && !isSame(row, before, after));
  if (isChanged || before.email !== after.email) types.push("PROFILE_CHANGED");
  return types;
}

/** The services whose clients may read what has changed; `undefined`: all. What no client reads concerns portals alone. */
export function readersOf(
  before: PlannedAccount,
  after: PlannedAccount | undefined,
  fields: PersonFields,
): ReadonlySet<string> | undefined {
  if (after === undefined || before.email !== after.email) return undefined;
  return readersOfAny(fields.rows.filter((row) => row.notifies && !isSame(row, before, after)));
}

/** The services whose clients may read one of these fields; `undefined`: all. */
export function readersOfAny(fields: readonly FieldRow[]): ReadonlySet<string> | undefined {
  const isForAll = fields.some(
    ({ isAttribute, claim, readers }) => !isAttribute || (claim !== undefined && readers === undefined),
  );
  return isForAll ? undefined : new Set(fields.flatMap(({ readers = [] }) => readers));
}

/**
 * Every receiver that the action could concern, with the reason why it gets a notification or not. Receivers of
 * services and groups come in the order of the service keys, the portal's next, and those last that may not read what has changed.
 */
export function explainDeliveries(
  action: PlannedAction,
  before: PlannedAccount,
  after: PlannedAccount | undefined,
  directory: PlannedDirectory,
): PlanDecision[] {
  const account = after ?? before;
  const concerned = servicesConcerned(action, before, after);
  const candidates = candidatesOf(concerned, directory);
  if (account.portal !== null) {
    const entry = directory.portals.get(account.portal);
    candidates.push({ receiver: `portal:${account.portal}`, entry, services: concerned });
  }
  const isTold = ([key]: Services[number]): boolean => concerned.some(([told]) => told === key);
  const others = action.readers === undefined ? [] : sorted(Object.entries(account.services));
  const left = candidatesOf(
    others.filter((service) => !isTold(service)),
    directory,
  );
  return [
    ...candidates.map((candidate) => decide(action, account, candidate)),
    ...left.map(({ receiver, services }): PlanDecision => ({
      receiver,
      reason: "not_a_reader",
      services: services.map(([key]) => key),
    })),
  ];
}

type Services = readonly (readonly [key: string, userIdInService: number | null])[];

interface Candidate {
  readonly receiver: string;
  readonly entry: PlannedEntry | undefined;
  readonly services: Services;
}

function servicesConcerned(
  { type, readers }: PlannedAction,
  before: PlannedAccount,
  after: PlannedAccount | undefined,
): Services {
  if (type === "UNASSINGED_FROM_SERVICE") return sorted(unassigned(before, after));
  const services = Object.entries((after ?? before).services);
  const isToldAll = type !== "PROFILE_CHANGED" || readers === undefined;
  return sorted(isToldAll ? services : services.filter(([key]) => readers.has(key)));
}

function unassigned(before: PlannedAccount, after: PlannedAccount | undefined): Services {
  return Object.entries(before.services).filter(
    ([key]) => after === undefined || !Object.hasOwn(after.services, key),
  );
}

function sorted(services: Services): Services {
  return services.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** Services that share a group with a receiver share one notification; every other has its own receiver. */
function candidatesOf(concerned: Services, directory: PlannedDirectory): Candidate[] {
  const candidates = new Map<string, Candidate>();
  for (const service of concerned) {
    const [key] = service;
    const own = directory.services.get(key);
    const group = own === undefined || own.group === null ? undefined : directory.groups.get(own.group);
    const merged = group !== undefined && group.receiver !== null;
    const receiver = merged ? `group:${String(own?.group)}` : `service:${key}`;
    const services = [...(candidates.get(receiver)?.services ?? []), service];
    candidates.set(receiver, { receiver, entry: merged ? group : own, services });
  }
  return [...candidates.values()];
}

function decide(action: PlannedAction, account: PlannedAccount, candidate: Candidate): PlanDecision {
  const { receiver, entry } = candidate;
  const services = candidate.services.map(([key]) => key);
  if (entry === undefined || entry.receiver === null) return { receiver, reason: "no_receiver", services };
  if (!entry.receiver.types.includes(action.type)) return { receiver, reason: "type_not_taken", services };
  const body: NotificationBody = {
    notification_type: action.type,
    data: {
      user_id: account.user_id,
      user_uuid: account.sub,
      user_email: account.email,
      timestamp: action.at,
      services: Object.fromEntries(candidate.services),
    },
  };
  return { receiver, reason: "notified", services, delivery: { receiver, type: action.type, body } };
}
