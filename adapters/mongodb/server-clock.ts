/** The time of the server: what is sent to it with a deadline is refused when it is carried out too late. */

/** What a server says of itself; `localTime` is its clock. */
interface Hello {
  readonly localTime?: unknown;
  readonly isWritablePrimary?: unknown;
}

/** Follows the clock of the primary, as far as its answers tell. */
export class ServerClock {
  /** Milliseconds since the epoch there, when `performance.now()` was zero here. */
  #origin = Date.now() - performance.now();

  /** @param answer to a `hello` that has just come. */
  heard(answer: Hello): void {
    const { localTime, isWritablePrimary } = answer;
    if (isWritablePrimary !== true || !(localTime instanceof Date)) return;
    this.#origin = localTime.getTime() - performance.now();
  }

  /** Milliseconds since the epoch there, so many milliseconds from now. */
  in(milliseconds: number): number {
    return Math.ceil(this.#origin + performance.now() + milliseconds);
  }
}
