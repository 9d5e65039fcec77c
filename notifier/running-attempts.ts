/** Attempts that a signal ends: one listener for all attempts under a signal, however many come and go. */
import { InFlight } from "../lib/in-flight.ts";

export interface RunningAttempts {
  /** Calls `end` when the signal fires, until the returned function is called. */
  add(signal: AbortSignal, end: () => void): () => void;
}

export function createRunningAttempts(): RunningAttempts {
  const ends = new WeakMap<AbortSignal, InFlight<() => void>>();

  function under(signal: AbortSignal): InFlight<() => void> {
    const known = ends.get(signal);
    if (known !== undefined) return known;
    const made = new InFlight<() => void>();
    ends.set(signal, made);
    const endAll = (): void => {
      for (const { what: end } of made.all()) end();
    };
    signal.addEventListener("abort", endAll, { once: true });
    return made;
  }

  return {
    add(signal, end) {
      const all = under(signal);
      const place = all.add(end);
      return () => all.end(place);
    },
  };
}
