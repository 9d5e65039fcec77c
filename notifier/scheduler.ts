/** When to look for due deliveries, and how the slots of a process are shared among receivers. */
import type { NotificationSettings } from "../config/configuration.ts";

/** Decides when to look for due deliveries. The records are the truth; a lost wake-up only delays a delivery. */
export interface Scheduler {
  /** Something may be due. */
  wake(): void;
  /** Begins to deliver. */
  start(): void;
  /** Claims nothing more. Running deliveries are the lane worker's business. */
  stop(): Promise<void>;
  /** Releases all resources, once nothing runs any more. */
  close(): Promise<void>;
  /** Whether the last look succeeded. */
  readonly ok: boolean;
}

/**
 * Milliseconds for which a slot stays with one receiver that has one delivery after the other, before other receivers
 * can get it. Claiming the next delivery together with the last result costs less than a new look.
 */
export const TIME_SLICE = 250;

/** A receiver with due deliveries. */
export interface SlotRequest {
  readonly receiver: string;
  /** Slots that it occupies now. */
  readonly running: number;
  /** The number of the pass in which it last got a slot; 0 for never. */
  readonly served: number;
}

export interface Slots {
  readonly free: number;
  /** The most that one receiver may occupy. */
  readonly perReceiver: number;
  /** Of the free ones, those for receivers that occupy none: a new receiver finds a slot however many hang. */
  readonly reserved: number;
}

/** One slot in five is reserved for receivers that occupy none. */
const RESERVED = 5;

/** How many slots are reserved: none if one receiver may occupy all of them. */
export function reservedSlots({ total, perReceiver }: NotificationSettings["concurrency"]): number {
  return Math.max(0, Math.min(Math.floor(total / RESERVED), total - perReceiver));
}

/**
 * Hands out slots one by one, first to receivers that occupy the fewest, and among those to the one that has waited
 * longest.
 * @returns how many each receiver gets; those that get none are left out.
 */
export function shareSlots(
  requests: readonly SlotRequest[],
  { free, perReceiver, reserved }: Slots,
): Map<string, number> {
  const shares = new Map<string, number>();
  const order = requests.toSorted((a, b) => a.running - b.running || a.served - b.served);
  let left = free;
  // Level by level: every receiver that occupies `level` slots gets one more.
  for (let level = 0; level < perReceiver; level += 1) {
    for (const { receiver, running } of order) {
      if (running > level) break;
      if (left <= (level === 0 ? 0 : reserved)) return shares;
      shares.set(receiver, (shares.get(receiver) ?? 0) + 1);
      left -= 1;
    }
  }
  return shares;
}
