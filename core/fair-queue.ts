/**
 * A semaphore whose waiting parties take turns, so that a flood of one party delays its own work and hardly anybody
 * else's.
 */
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

  /** @param last the party of the newest, which gives way to others that have as many waiting. */
  #giveWay(last: string): void {
    let [longest, most] = [last, this.#parties.get(last)?.length ?? 0];
    for (const [party, { length }] of this.#parties) if (length > most) [longest, most] = [party, length];
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
