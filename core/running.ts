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

  /** Resolves when nothing is running, or after the time-out. */
  async idle(timeoutMs: number): Promise<void> {
    if (this.#count === 0) return;
    const idle = (this.#idle ??= Promise.withResolvers<void>());
    const timer = setTimeout(idle.resolve, timeoutMs);
    await idle.promise;
    clearTimeout(timer);
  }
}
