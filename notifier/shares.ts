/** How free places are shared out among receivers, so that none gets in the way of another. Pure. */
import type { NotificationSettings } from "../config/configuration.ts";

/** One that asks for places. */
export interface Asking {
  readonly receiver: string;
  /** Places that it has now. */
  readonly running: number;
  /** When it was given places last: a count; 0 for never. */
  readonly served: number;
}

/** What there is to give. */
export interface Places {
  readonly free: number;
  /** That one may have in all. */
  readonly most: number;
  /** Those of the free ones that are only for receivers that have none: however many hang, there is one for the next. */
  readonly kept: number;
}

/** One in so many places is kept for receivers that have none. */
const KEPT = 5;

/** How many places are kept: none where one receiver may have all of them. */
export function keptPlaces({ total, perReceiver }: NotificationSettings["concurrency"]): number {
  return Math.max(0, Math.min(Math.floor(total / KEPT), total - perReceiver));
}

/**
 * Gives places one by one to whoever has the fewest, and among those to whoever has waited longest.
 * @returns how many each gets; those that get none are left out.
 */
export function shareOut(asking: readonly Asking[], { free, most, kept }: Places): Map<string, number> {
  const shares = new Map<string, number>();
  const order = asking.toSorted((a, b) => a.running - b.running || a.served - b.served);
  let left = free;
  // Level by level: everybody who has `level` places gets one more.
  for (let level = 0; level < most; level += 1) {
    for (const { receiver, running } of order) {
      if (running > level) break;
      if (left <= (level === 0 ? 0 : kept)) return shares;
      shares.set(receiver, (shares.get(receiver) ?? 0) + 1);
      left -= 1;
    }
  }
  return shares;
}
