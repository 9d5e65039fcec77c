/** Sending again whatever is parked, lane by lane in its order. */
import type { Delivery, DeliveryFilter, DeliveryStore, RedriveResult } from "../lib/deliveries/delivery.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import type { NotificationType } from "./plan.ts";

/** What would bring old data back when its lane has delivered something since. */
export const SUPERSEDABLE: readonly NotificationType[] = ["PROFILE_CHANGED"];

export interface RedriveDeps {
  readonly deliveries: Pick<DeliveryStore, "find" | "list" | "redrive">;
  readonly events: ServiceEmitter;
  readonly wake: () => void;
}

/** Deliveries in one page, and lanes in one step. */
const PAGE = 100;

type Wanted = Omit<DeliveryFilter, "state">;

/**
 * All parked deliveries of the lanes of a page that fit: redriven in one step, so that nothing of a lane goes between
 * two of them, because they happen to be on different pages.
 */
async function withTheirLanes(
  { deliveries }: RedriveDeps,
  wanted: Wanted,
  page: readonly Delivery[],
): Promise<string[]> {
  const lanes = new Map(
    page.map(({ receiver, sub }) => [JSON.stringify([receiver, sub]), { receiver, sub }]),
  );
  const ids: string[] = [];
  for (const lane of lanes.values()) {
    const parked = await deliveries.list({ ...wanted, ...lane, state: "parked", limit: 100_000 });
    ids.push(...parked.map(({ id }) => id));
  }
  return ids;
}

/** @returns how many deliveries came to what. */
export async function redriveMatching(
  deps: RedriveDeps,
  wanted: Wanted,
  passable: readonly NotificationType[],
): Promise<Record<RedriveResult, number>> {
  const results = new Map<string, RedriveResult>();
  for (let after: string | undefined; ;) {
    const page = await deps.deliveries.list({
      ...wanted,
      state: "parked",
      limit: PAGE,
      ...(after !== undefined && { after }),
    });
    const fresh = page.filter(({ id }) => !results.has(id));
    const ids = await withTheirLanes(deps, wanted, fresh);
    for (const [id, result] of await deps.deliveries.redrive(ids, { passable })) {
      if (result === "redriven") deps.events.emit("delivery.redriven", { id });
      results.set(id, result);
    }
    deps.wake();
    const isPurged = page.length === 0 && after !== undefined && !(await deps.deliveries.find(after));
    // Behind one that is gone there is nothing: from the first one on, what was looked at is passed over.
    after = isPurged ? undefined : page.at(-1)?.id;
    if (page.length < PAGE && !isPurged) return counted(results.values());
  }
}

function counted(results: Iterable<RedriveResult>): Record<RedriveResult, number> {
  const counts = { redriven: 0, superseded: 0, waiting: 0, purged: 0, unknown: 0 };
  for (const result of results) counts[result] += 1;
  return counts;
}
