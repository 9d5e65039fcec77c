/** A dry run of the plan: which receivers an action would notify, and why. */
import type { DeliveryStore } from "../records/deliveries/delivery.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import { type Clock, seconds } from "../core/clock.ts";
import { NotFound } from "../core/errors.ts";
import type { ExplainedAction, Explanation } from "./operations.ts";
import { planChange } from "../accounts/account-write.ts";
import type { PlanDecision, PlannedAccount } from "../accounts/plan.ts";

function accountAfter(before: PlannedAccount, action: ExplainedAction): PlannedAccount | undefined {
  if (action.type === "DELETE_ACCOUNT") return undefined;
  if (action.type === "PROFILE_CHANGED") return before;
  const gone = new Set(action.services ?? Object.keys(before.services));
  const kept = Object.entries(before.services).filter(([key]) => !gone.has(key));
  return { ...before, services: Object.fromEntries(kept) };
}

/** @throws NotFound when there is no such account. */
export async function explain(
  action: ExplainedAction,
  directory: Pick<DirectoryRecords, "findAccount" | "findEntries">,
  deliveries: Pick<DeliveryStore, "receiver">,
  clock: Clock,
): Promise<Explanation[]> {
  const before = await directory.findAccount(action.account);
  if (before === undefined) throw new NotFound("this account");
  const after = accountAfter(before, action);
  const unassigned = Object.keys(before.services).length - Object.keys(after?.services ?? {}).length;
  if (action.type === "UNASSINGED_FROM_SERVICE" && unassigned === 0) return [];
  const plan = await planChange(directory, { before, after }, [action.type], seconds(clock));

  async function explained(decision: PlanDecision): Promise<Explanation> {
    const { receiver, reason, services, delivery } = decision;
    const { paused } = await deliveries.receiver(receiver);
    return { receiver, reason, services, body: delivery?.body ?? null, paused };
  }

  return Promise.all(plan.map(explained));
}
