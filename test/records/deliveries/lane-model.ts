/** What lanes are supposed to do, said a second time and as simply as can be: the oracle of the model test. */

import type { Claim } from "../../../records/deliveries/delivery.ts";

interface Entry {
  readonly id: string;
  readonly sequence: number;
  state: "waiting" | "delivered" | "parked" | "discarded";
  dueAt: number;
}

/** One lane: its deliveries in order, and who has it. */
export class LaneModel {
  readonly entries: Entry[] = [];
  /** The highest sequence that was ever delivered, whatever became of it since. */
  lastDelivered = 0;
  claimed: { id: string; fence: number; end: number } | undefined;
  /** Delivery and fence of every claim so far. */
  readonly #claims = new Set<string>();

  add(id: string, now: number): void {
    this.entries.push({ id, sequence: this.entries.length + 1, state: "waiting", dueAt: now });
  }

  get head(): Entry | undefined {
    return this.entries.find(({ state }) => state === "waiting");
  }

  /** The delivery that a worker is given now. */
  claimable(now: number): Entry | undefined {
    if (this.claimed !== undefined && this.claimed.end > now) return undefined;
    const { head } = this;
    return head !== undefined && head.dueAt <= now ? head : undefined;
  }

  /** @param fence that the store gave the claim: no other claim of the delivery has it. */
  claim(now: number, span: number, fence: number): { id: string; fence: number; end: number } {
    const entry = this.claimable(now);
    if (entry === undefined) throw new Error("nothing may be claimed");
    const claim = `${entry.id} ${fence}`;
    if (this.#claims.has(claim)) throw new Error("an earlier claim of the delivery has this fence");
    this.#claims.add(claim);
    this.claimed = { id: entry.id, fence, end: now + span };
    return this.claimed;
  }

  /** Whether this claim may still say what became of it. */
  holds({ delivery: { id }, fence }: Pick<Claim, "delivery" | "fence">): boolean {
    return this.claimed?.id === id && this.claimed.fence === fence;
  }

  finish(outcome: "delivered" | "parked" | "kept" | { readonly dueAt: number }): void {
    const entry = this.entries.find(({ id }) => id === this.claimed?.id);
    this.claimed = undefined;
    if (entry === undefined || outcome === "kept") return;
    if (outcome === "delivered") {
      entry.state = "delivered";
      this.lastDelivered = Math.max(this.lastDelivered, entry.sequence);
    } else if (entry.state !== "waiting") return;
    else if (outcome === "parked") entry.state = "parked";
    else entry.dueAt = outcome.dueAt;
  }

  /** Whether redriving it would bring old data back, or might, for something later is being sent. */
  isPassed(entry: Entry, now: number): boolean {
    const { claimed } = this;
    const isSent = ({ id, sequence }: Entry): boolean => id === claimed?.id && sequence > entry.sequence;
    const inFlight = claimed !== undefined && claimed.end > now && this.entries.some(isSent);
    return inFlight || this.lastDelivered > entry.sequence;
  }
}
