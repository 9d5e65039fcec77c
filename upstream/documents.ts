/** A document of a provider that is kept for a while: its discovery document, or its keys. */
import type { Clock } from "../core/clock.ts";

export interface KeptDocument<T> {
  /** The kept one, or a new one when that is too old. */
  read(): Promise<T>;
  /** The kept one, unless it is too old. */
  current(): T | undefined;
  /** A new one, but at most one in {@link RENEWAL_MS}: whoever asks may be a stranger. */
  renew(): Promise<T>;
}

interface Lifetimes {
  /** While it is younger, it is used as it is. */
  readonly freshMs: number;
  /** While it is younger, it is used, and fetched again in the background. */
  readonly usableMs: number;
}

/** Between two renewals. */
export const RENEWAL_MS = 60_000;

/**
 * Endpoints hardly ever change, so a provider whose discovery document fails goes on for a day. A key that the provider has
 * withdrawn is of no use after ten minutes.
 */
export const DISCOVERY: Lifetimes = { freshMs: 3_600_000, usableMs: 86_400_000 };
export const KEYS: Lifetimes = { freshMs: 600_000, usableMs: 600_000 };

/**
 * Everyone who waits for it shares one request.
 * @param load must end by itself.
 * @param clock of durations: see `clockOfDurations`.
 */
export function createKeptDocument<T>(
  load: () => Promise<T>,
  { freshMs, usableMs }: Lifetimes,
  clock: Clock,
): KeptDocument<T> {
  let kept: { readonly value: T; readonly at: number } | undefined;
  let loading: Promise<T> | undefined;

  async function loadAndKeep(): Promise<T> {
    const value = await load();
    kept = { value, at: clock.now() };
    return value;
  }

  function loadOnce(): Promise<T> {
    loading ??= loadAndKeep().finally(() => (loading = undefined));
    return loading;
  }

  const isYounger = (ms: number): boolean => kept !== undefined && clock.now() - kept.at < ms;
  return {
    async read() {
      if (!isYounger(usableMs)) return loadOnce();
      // The next reader tries again.
      if (!isYounger(freshMs)) loadOnce().catch(() => undefined);
      return kept!.value;
    },
    current: () => (isYounger(usableMs) ? kept!.value : undefined),
    async renew() {
      return isYounger(RENEWAL_MS) ? kept!.value : loadOnce();
    },
  };
}
