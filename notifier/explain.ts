/** A dry run: which receivers would be told of an action, and why. */
import type { Configuration } from "../config/configuration.ts";
import { EVENT_TYPES, type EventType } from "../config/events.ts";
import type { DeliveryStore } from "../records/deliveries/delivery.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import { type Clock, seconds } from "../core/clock.ts";
import { InvalidArgument, NotFound } from "../core/errors.ts";
import type { ExplainedAction, Explanation } from "./operations.ts";
import { planChange } from "../accounts/account-write.ts";
import { exampleEvent, profileOf, valuesTold } from "../accounts/events/event-types.ts";
import { type NotificationType } from "../receiver/notification.ts";
import { type PlannedAccount, readersOfAny } from "../accounts/plan.ts";
import { receiverName } from "../accounts/receivers.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import type { FieldRow, PersonFields } from "../accounts/profile-fields.ts";

function accountAfter(before: PlannedAccount, action: ExplainedAction): PlannedAccount | undefined {
  if (action.type === "DELETE_ACCOUNT") return undefined;
  if (action.type === "PROFILE_CHANGED") return before;
  const gone = new Set(action.services ?? Object.keys(before.services));
  const kept = Object.entries(before.services).filter(([key]) => !gone.has(key));
  return { ...before, services: Object.fromEntries(kept) };
}

/** @returns the attributes whose change is a notification. @throws InvalidArgument for one that the service does not have. */
function changedRows({ attributes = [] }: ExplainedAction, { rows }: PersonFields): readonly FieldRow[] {
  const changed = attributes.map((name) => {
    const row = rows.find((each) => each.isAttribute && each.name === name);
    if (row !== undefined) return row;
    throw new InvalidArgument({ path: "delivery.attributes", message: "must be attributes of this service" });
  });
  return changed.filter(({ notifies }) => notifies);
}

interface Explained {
  readonly fields: PersonFields;
  readonly directory: Pick<DirectoryRecords, "findAccount" | "findEntries">;
  readonly deliveries: Pick<DeliveryStore, "receiver">;
  readonly clock: Clock;
  readonly events: Configuration["events"];
}

const isEvent = (type: string): type is EventType => EVENT_TYPES.some((each) => each === type);

/** What each receiver of events would get. */
function explainEvent(
  type: EventType,
  account: AccountRecord,
  { events, fields, clock }: Explained,
): Omit<Explanation, "paused">[] {
  const { sub, user_id } = account;
  const values = valuesTold(account, fields);
  return Object.entries(events.receivers).map(([key, settings]) => {
    const isTold = settings.types.includes(type);
    const about = { sub, user_id, ...profileOf(settings, values) };
    return {
      receiver: receiverName("events", key),
      reason: isTold ? "notified" : "type_not_taken",
      services: [],
      body: isTold ? exampleEvent(type, seconds(clock), about) : null,
    };
  });
}

/** What each receiver of notifications would get. */
async function explainNotification(
  action: ExplainedAction & { readonly type: NotificationType },
  before: AccountRecord,
  { fields, directory, clock }: Explained,
): Promise<Omit<Explanation, "paused">[]> {
  const after = accountAfter(before, action);
  const unassigned = Object.keys(before.services).length - Object.keys(after?.services ?? {}).length;
  if (action.type === "UNASSINGED_FROM_SERVICE" && unassigned === 0) return [];
  const changed = changedRows(action, fields);
  const isOfAttributes = action.type === "PROFILE_CHANGED" && action.attributes !== undefined;
  if (isOfAttributes && changed.length === 0) return [];
  const readers = isOfAttributes ? readersOfAny(changed) : undefined;
  const plan = await planChange(directory, { before, after }, [action.type], seconds(clock), readers);
  return plan.map(({ receiver, reason, services, delivery }) => ({
    receiver,
    reason,
    services,
    body: delivery?.body ?? null,
  }));
}

/** @throws NotFound when there is no such account; InvalidArgument for an attribute that the service does not have. */
export async function explain(action: ExplainedAction, given: Explained): Promise<Explanation[]> {
  const { type } = action;
  const account = await given.directory.findAccount(action.account);
  if (account === undefined) throw new NotFound("this account");
  const found = isEvent(type)
    ? explainEvent(type, account, given)
    : await explainNotification({ ...action, type }, account, given);
  return Promise.all(
    found.map(async (each) => {
      const { paused } = await given.deliveries.receiver(each.receiver);
      return Object.assign(each, { paused });
    }),
  );
}
