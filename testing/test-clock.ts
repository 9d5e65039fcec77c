import type { Clock } from "../core/clock.ts";

/** A clock that stands still until a test moves it. */
export class TestClock implements Clock {
  readonly virtual = true;
  #now: number;

  /** @param now milliseconds since the epoch. Default: the system's time. */
  constructor(now: number = Date.now()) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  /** @param seconds by which the clock moves forward. */
  advance(seconds: number): void {
    if (!(seconds >= 0)) throw new TypeError("seconds: must be 0 or more");
    this.#now += seconds * 1000;
  }
}
