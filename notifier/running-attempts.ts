/** Attempts that a signal ends: one listener for all attempts under a signal, however many come and go. */

export interface RunningAttempts {
  /** Calls `end` when the signal fires, until the returned function is called. */
  add(signal: AbortSignal, end: () => void): () => void;
}

export function createRunningAttempts(): RunningAttempts {
  const ends = new WeakMap<AbortSignal, Set<() => void>>();

  function under(signal: AbortSignal): Set<() => void> {
    const known = ends.get(signal);
    if (known !== undefined) return known;
    const made = new Set<() => void>();
    ends.set(signal, made);
    const endAll = (): void => {
      for (const end of made) end();
    };
    signal.addEventListener("abort", endAll, { once: true });
    return made;
  }

  return {
    add(signal, end) {
      const all = under(signal);
      all.add(end);
      return () => void all.delete(end);
    },
  };
}
