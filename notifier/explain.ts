/** A dry run of the plan: which receivers an action would notify, and why. */
import type { DeliveryStore } from "../records/deliveries/delivery.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import { type Clock, seconds } from "../core/clock.ts";
import { InvalidArgument, NotFound } from "../core/errors.ts";
import type { ExplainedAction, Explanation } from "./operations.ts";
import { planChange } from "../accounts/account-write.ts";
import { type PlanDecision, type PlannedAccount, readersOfAny } from "../accounts/plan.ts";
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

/** @throws NotFound when there is no such account; InvalidArgument for an attribute that the service does not have. */
export async function explain(
  action: ExplainedAction,
  fields: PersonFields,
  directory: Pick<DirectoryRecords, "findAccount" | "findEntries">,
  deliveries: Pick<DeliveryStore, "receiver">,
  clock: Clock,
): Promise<Explanation[]> {
  const before = await directory.findAccount(action.account);
  if (before === undefined) throw new NotFound("this account");
  const after = accountAfter(before, action);
  const unassigned = Object.keys(before.services).length - Object.keys(after?.services ?? {}).length;
  if (action.type === "UNASSINGED_FROM_SERVICE" && unassigned === 0) return [];
  const changed = changedRows(action, fields);
  const isOfAttributes = action.type === "PROFILE_CHANGED" && action.attributes !== undefined;
  if (isOfAttributes && changed.length === 0) return [];
  const readers = isOfAttributes ? readersOfAny(changed) : undefined;
  const plan = await planChange(directory, { before, after }, [action.type], seconds(clock), readers);

  async function explained(decision: PlanDecision): Promise<Explanation> {
    const { receiver, reason, services, delivery } = decision;
    const { paused } = await deliveries.receiver(receiver);
    return { receiver, reason, services, body: delivery?.body ?? null, paused };
  }

  return Promise.all(plan.map(explained));
}
