/** A dry run of the plan: which receivers an action would notify, and why. */
import type { DeliveryStore } from "../records/deliveries/delivery.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import { type Clock, seconds } from "../core/clock.ts";
import { readPlannedDirectory } from "../accounts/account-write.ts";
import {
  explainDeliveries,
  type NotificationBody,
  type NotificationType,
  type PlanDecision,
  type PlannedAccount,
  type PlanReason,
} from "../accounts/plan.ts";

/** A possible action on an account. */
export interface ExplainedAction {
  readonly sub: string;
  readonly type: NotificationType;
  /** `UNASSINGED_FROM_SERVICE` only: the services to be unassigned; default all. */
  readonly services?: readonly string[];
}

/** What one receiver would get, or the reason why it gets nothing. */
export interface Explanation {
  /** `service:KEY`, `group:KEY` or `portal:KEY`. */
  readonly receiver: string;
  /** `notified`, `no_receiver` (none is configured there) or `type_not_taken` (it is configured for other types). */
  readonly reason: PlanReason;
  /** The keys of the affected services, sorted. */
  readonly services: readonly string[];
  /** What would be sent, with the current time. */
  readonly body?: NotificationBody;
  /** The notification would wait until the receiver is resumed. */
  readonly paused: boolean;
}

function accountAfter(before: PlannedAccount, action: ExplainedAction): PlannedAccount | undefined {
  if (action.type === "DELETE_ACCOUNT") return undefined;
  if (action.type === "PROFILE_CHANGED") return before;
  const gone = new Set(action.services ?? Object.keys(before.services));
  const kept = Object.entries(before.services).filter(([key]) => !gone.has(key));
  return { ...before, services: Object.fromEntries(kept) };
}

/** @returns `undefined` when there is no such account. */
export async function explain(
  action: ExplainedAction,
  directory: Pick<DirectoryRecords, "findAccount" | "findEntries">,
  deliveries: Pick<DeliveryStore, "receiver">,
  clock: Clock,
): Promise<Explanation[] | undefined> {
  const before = await directory.findAccount(action.sub);
  if (before === undefined) return undefined;
  const after = accountAfter(before, action);
  const unassigned = Object.keys(before.services).length - Object.keys(after?.services ?? {}).length;
  if (action.type === "UNASSINGED_FROM_SERVICE" && unassigned === 0) return [];
  const planned = { type: action.type, at: seconds(clock) };
  const entries = await readPlannedDirectory(directory, [before]);

  async function explained(decision: PlanDecision): Promise<Explanation> {
    const { receiver, reason, services, delivery } = decision;
    const { paused } = await deliveries.receiver(receiver);
    return { receiver, reason, services, ...(delivery && { body: delivery.body }), paused };
  }

  return Promise.all(explainDeliveries(planned, before, after, entries).map(explained));
}
