/** Fairness between parties, so that a flood of one delays its own work and hardly anybody else's. */
import { StorageUnavailable } from "./errors.ts";

export interface FairQueueOptions {
  /** How many run at once. */
  readonly capacity: number;
  /** How many may wait. With one more, the newest of the party that has most waiting is refused. */
  readonly maxWaiting: number;
  /** Work that has waited longer is refused instead of started. */
  readonly maxWaitMs: number;
  /** The message of a refusal. */
  readonly refusal: string;
}

interface Waiting {
  readonly since: number;
  readonly start: () => void;
  readonly refuse: () => void;
}

/** The party that has most. @param newest the one that it is if others have as much. */
function largest(parties: Iterable<readonly [string, number]>, newest: readonly [string, number]): string {
  let [longest, most] = newest;
  for (const [party, count] of parties) if (count > most) [longest, most] = [party, count];
  return longest;
}

/**
 * A door in front of work that ends in a fair queue. When the work behind it is enough to fill the queue, it refuses one
 * more of the party that has most of it: what the queue would refuse at the end is refused before it costs anything.
 */
export class FairDoor {
  readonly #max: number;
  readonly #refusal: string;
  readonly #inside = new Map<string, number>();
  #total = 0;

  /** @param max how many may be inside before the largest party is refused. @param refusal the message. */
  constructor(max: number, refusal: string) {
    this.#max = max;
    this.#refusal = refusal;
  }

  /**
   * @returns a function that leaves. It must be called exactly once.
   * @throws StorageUnavailable when the party is refused.
   */
  enter(party: string): () => void {
    const count = this.#inside.get(party) ?? 0;
    if (this.#total >= this.#max && largest(this.#inside, [party, count]) === party)
      throw new StorageUnavailable(this.#refusal);
    this.#inside.set(party, count + 1);
    this.#total += 1;
    return () => {
      const left = (this.#inside.get(party) ?? 1) - 1;
      if (left === 0) this.#inside.delete(party);
      else this.#inside.set(party, left);
      this.#total -= 1;
    };
  }
}

/** A semaphore whose waiting parties take turns. */
export class FairQueue {
  readonly #options: FairQueueOptions;
  /** The parties in the order of their turns. Each has at least one that waits. */
  readonly #parties = new Map<string, Waiting[]>();
  /** Waits until no party does, for any length of time. */
  readonly #background: (() => void)[] = [];
  #waiting = 0;
  #running = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  /**
   * Waits for a turn of the party.
   * @param party `undefined`: work in the background, which waits until no party does and is never refused.
   * @returns a function that ends the turn. It must be called exactly once.
   * @throws StorageUnavailable when too many wait, or this one has waited too long.
   */
  async enter(party: string | undefined): Promise<() => void> {
    if (this.#running < this.#options.capacity) this.#running += 1;
    else await this.#wait(party);
    return () => this.#next();
  }

  #wait(party: string | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    if (party === undefined) this.#background.push(resolve);
    else {
      const refuse = (): void => reject(new StorageUnavailable(this.#options.refusal));
      this.#add(party, { since: performance.now(), start: resolve, refuse });
    }
    return promise;
  }

  #add(party: string, one: Waiting): void {
    const others = this.#parties.get(party);
    if (others === undefined) this.#parties.set(party, [one]);
    else others.push(one);
    this.#waiting += 1;
    if (this.#waiting > this.#options.maxWaiting) this.#giveWay(party);
  }

  /** @param party that of the newest. */
  #giveWay(party: string): void {
    const counts = [...this.#parties].map(([each, { length }]) => [each, length] as const);
    const longest = largest(counts, [party, this.#parties.get(party)?.length ?? 0]);
    const waiting = this.#parties.get(longest) ?? [];
    const newest = waiting.pop();
    if (waiting.length === 0) this.#parties.delete(longest);
    this.#waiting -= 1;
    newest?.refuse();
  }

  /** Passes the slot on, so that newer work can't take it. */
  #next(): void {
    const earliest = performance.now() - this.#options.maxWaitMs;
    for (let one = this.#take(); one !== undefined; one = this.#take()) {
      if (one.since >= earliest) return one.start();
      one.refuse();
    }
    const background = this.#background.shift();
    if (background === undefined) this.#running -= 1;
    else background();
  }

  /** Takes the oldest of the party whose turn it is, which then goes to the end. */
  #take(): Waiting | undefined {
    const [turn] = this.#parties;
    if (turn === undefined) return undefined;
    const [party, waiting] = turn;
    const one = waiting.shift();
    this.#parties.delete(party);
    if (waiting.length > 0) this.#parties.set(party, waiting);
    this.#waiting -= 1;
    return one;
  }
}
