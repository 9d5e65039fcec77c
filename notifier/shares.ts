/** How free places are shared out among receivers, so that none gets in the way of another. Pure. */

/** One that asks for places. */
export interface Asking {
  readonly receiver: string;
  /** Places that it has now. */
  readonly running: number;
  /** When it was given places last: a count; 0 for never. */
  readonly served: number;
}

/**
 * Gives `free` places one by one to whoever has the fewest, and among those to whoever has waited longest.
 * @param most places that one may have in all.
 * @returns how many each gets; those that get none are left out.
 */
export function shareOut(asking: readonly Asking[], free: number, most: number): Map<string, number> {
  const shares = new Map<string, number>();
  const order = asking.toSorted((a, b) => a.running - b.running || a.served - b.served);
  let left = free;
  // Level by level: everybody who has `level` places gets one more.
  for (let level = 0; level < most && left > 0; level += 1) {
    for (const { receiver, running } of order) {
      if (running > level) break;
      if (left === 0) return shares;
      shares.set(receiver, (shares.get(receiver) ?? 0) + 1);
      left -= 1;
    }
  }
  return shares;
}
