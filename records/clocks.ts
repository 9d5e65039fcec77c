/**
 * The clock of this process, compared with those of its stores (decisions.md, Clocks). A process whose clock is wrong
 * would end sessions and tokens that are valid for all others, and issue some that nobody accepts.
 */
import type { RecordStore } from "../adapters/record-store.ts";
import type { Clock } from "../core/clock.ts";
import { StorageUnavailable } from "../core/errors.ts";
import type { OnStoreWarning } from "../core/store-warning.ts";
import { withTimeout } from "../core/with-timeout.ts";

/** With a larger difference, common clients refuse ID tokens: it is a warning. */
export const CLOCK_TOLERANCE_MS = 5_000;
/** With a larger difference, the process neither starts nor serves. */
export const MAX_CLOCK_DIFFERENCE_MS = 60_000;

const CHECK_INTERVAL_MS = 10_000;
const LOG_INTERVAL_MS = 60_000;
/** A store that has not answered by then is not compared; its health says that it is down. */
const ANSWER_TIMEOUT_MS = 2_000;

/** The clock of this process differs too much from that of a store. Requests get 503 until they agree. */
export class WrongClock extends StorageUnavailable {}

/** A store, and its name in messages. */
interface ComparedStore {
  readonly name: string;
  readonly store: Pick<RecordStore, "ping">;
}

/** @returns how many milliseconds the clock of a store is ahead of that of this process. */
export async function clockDifference(store: Pick<RecordStore, "ping">, clock: Clock): Promise<number> {
  const before = clock.now();
  const time = await store.ping();
  return time - (before + clock.now()) / 2;
}

/** @returns a phrase, or an empty string while common clients tolerate the difference. */
export function clockProblem(differenceMs: number): string {
  if (Math.abs(differenceMs) < CLOCK_TOLERANCE_MS) return "";
  const seconds = Math.round(Math.abs(differenceMs) / 1000);
  return `its clock is ${seconds} seconds ${differenceMs > 0 ? "ahead of" : "behind"} that of this process`;
}

const isWrong = (differenceMs: number): boolean => Math.abs(differenceMs) > MAX_CLOCK_DIFFERENCE_MS;

export class StoreClocks {
  readonly #stores: readonly ComparedStore[];
  readonly #clock: Clock;
  readonly #onWarning: OnStoreWarning;
  readonly #differences = new Map<string, number>();
  readonly #warned = new Set<string>();
  #loggedAt = -Infinity;
  #wrong: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  /** @param onWarning from 5 seconds on, once each time a clock becomes wrong; beyond 60 seconds, once a minute. */
  constructor(stores: readonly ComparedStore[], clock: Clock, onWarning: OnStoreWarning = () => undefined) {
    this.#stores = stores;
    this.#clock = clock;
    this.#onWarning = onWarning;
  }

  /** By the name of the store: how many milliseconds its clock was ahead of that of this process at the last check. */
  get differences(): ReadonlyMap<string, number> {
    return this.#differences;
  }

  /** The time by the clock of a store, as of the last check, in milliseconds since the epoch. */
  timeOf(name: string): number {
    return this.#clock.now() + (this.#differences.get(name) ?? 0);
  }

  /** @throws WrongClock beyond 60 seconds of difference at the last check. */
  require(): void {
    if (this.#wrong !== undefined) throw new WrongClock(this.#wrong, { reason: "clock" });
  }

  /** Asks every store for its time now. One that does not answer keeps its last difference. */
  async check(): Promise<void> {
    if (this.#clock.virtual === true) return;
    await Promise.all(this.#stores.map((store) => this.#look(store)));
    const wrong = [...this.#differences].find(([, difference]) => isWrong(difference));
    this.#wrong =
      wrong &&
      `${wrong[0]}: ${clockProblem(wrong[1])}; it serves no requests until they agree, so synchronize both with NTP`;
    if (this.#wrong === undefined) {
      this.#loggedAt = -Infinity;
      return;
    }
    // By the monotonic clock, because the other one is wrong.
    if (performance.now() - this.#loggedAt < LOG_INTERVAL_MS) return;
    this.#loggedAt = performance.now();
    this.#onWarning(this.#wrong, "clock");
  }

  /** Checks every ten seconds. */
  start(intervalMs: number = CHECK_INTERVAL_MS): void {
    this.#timer = setInterval(() => {
      this.#running = this.#running.then(() => this.check());
    }, intervalMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  async #look({ name, store }: ComparedStore): Promise<void> {
    const asked = clockDifference(store, this.#clock);
    const late = (): Error => new StorageUnavailable(`${name} does not answer`);
    const difference = await withTimeout(ANSWER_TIMEOUT_MS, asked, late).catch(() => undefined);
    if (difference === undefined) return;
    this.#differences.set(name, difference);
    const problem = clockProblem(difference);
    if (problem === "") this.#warned.delete(name);
    else if (!isWrong(difference) && !this.#warned.has(name)) {
      this.#warned.add(name);
      this.#onWarning(
        `${name}: ${problem}. Clients refuse ID tokens of a wrong clock: synchronize both with NTP`,
        "clock",
      );
    }
  }
}
