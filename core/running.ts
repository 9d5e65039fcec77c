import { within } from "./with-timeout.ts";

/** Counts running requests or other work, so that closing can wait for them. */
export class Running {
  #count = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  /** @returns a function to call at the end; further calls have no effect. */
  begin(): () => void {
    let isOver = false;
    this.#count += 1;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#count -= 1;
      if (this.#count > 0) return;
      this.#idle?.resolve();
      this.#idle = undefined;
    };
  }

  /** Resolves when nothing is running, or after the time-out. @returns whether nothing is running. */
  async idle(timeoutMs: number): Promise<boolean> {
    if (this.#count === 0) return true;
    const idle = (this.#idle ??= Promise.withResolvers<void>());
    await within(timeoutMs, idle.promise, () => undefined);
    return this.#count === 0;
  }
}
