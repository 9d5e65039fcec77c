/** Redrives parked deliveries, lane by lane and in order. */
import type {
  Delivery,
  DeliveryFilter,
  DeliveryStore,
  RedriveResult,
} from "../records/deliveries/delivery.ts";
import type { NotificationType } from "../accounts/plan.ts";

/** Types that would restore old data if the lane has delivered something since. */
export const SUPERSEDABLE: readonly NotificationType[] = ["PROFILE_CHANGED"];

type Redrivable = Pick<DeliveryStore, "find" | "list" | "redrive">;
type Filter = Omit<DeliveryFilter, "state">;

/** Deliveries in one page, and lanes in one step. */
const PAGE = 100;

/**
 * All matching parked deliveries of the lanes that a page touches. They are redriven in one step, so that a lane whose
 * deliveries span two pages sends nothing out of order.
 */
async function withTheirLanes(
  deliveries: Redrivable,
  filter: Filter,
  page: readonly Delivery[],
): Promise<string[]> {
  const lanes = new Map(
    page.map(({ receiver, sub }) => [JSON.stringify([receiver, sub]), { receiver, sub }]),
  );
  const ids: string[] = [];
  for (const lane of lanes.values()) {
    const parked = await deliveries.list({ ...filter, ...lane, state: "parked", limit: 100_000 });
    ids.push(...parked.map(({ id }) => id));
  }
  return ids;
}

/**
 * Redrives all parked deliveries that match.
 * @param supersedable types that are left out when their lane has delivered something later.
 * @param onPage called with the ids that a page has redriven.
 * @returns how many had each result.
 */
export async function redriveMatching(
  deliveries: Redrivable,
  filter: Filter,
  supersedable: readonly NotificationType[],
  onPage: (redriven: readonly string[]) => void,
): Promise<Record<RedriveResult, number>> {
  const results = new Map<string, RedriveResult>();
  for (let after: string | undefined; ;) {
    const from = after === undefined ? {} : { after };
    const page = await deliveries.list({ ...filter, state: "parked", limit: PAGE, ...from });
    const fresh = page.filter(({ id }) => !results.has(id));
    const ids = await withTheirLanes(deliveries, filter, fresh);
    const made = await deliveries.redrive(ids, { supersedable });
    for (const [id, result] of made) results.set(id, result);
    onPage([...made].flatMap(([id, result]) => (result === "redriven" ? [id] : [])));
    // A page after a delivery that was purged in the meantime is empty: start over, and skip what was handled.
    const isPurged = page.length === 0 && after !== undefined && !(await deliveries.find(after));
    after = isPurged ? undefined : page.at(-1)?.id;
    if (page.length < PAGE && !isPurged) return counted(results.values());
  }
}

function counted(results: Iterable<RedriveResult>): Record<RedriveResult, number> {
  const counts = { redriven: 0, superseded: 0, waiting: 0, purged: 0, unknown: 0 };
  for (const result of results) counts[result] += 1;
  return counts;
}
