/** Health checks of the parts of a service. */
import type { Storage, StoragePart } from "./storage.ts";
import type { Clock } from "./clock.ts";

export interface PartHealth {
  readonly ok: boolean;
  /** Milliseconds. */
  readonly latency: number;
  /** What is wrong, or a short status; may be empty. */
  readonly detail: string;
}

export interface Health {
  /** Whether all parts are `ok`. */
  readonly ok: boolean;
  readonly parts: Readonly<Record<string, PartHealth>>;
}

/** Milliseconds after which a part that has not answered counts as down. */
const PATIENCE = 2_000;

/** The answer of one part. */
export interface PartAnswer {
  readonly ok: boolean;
  readonly detail: string;
}

/**
 * Checks each part of the storage, and the others. Never rejects.
 * @param others name → health check.
 */
export async function storageHealth(
  storage: Pick<Storage, "parts">,
  clock: Clock,
  others: Readonly<Record<string, () => Promise<PartAnswer>>> = {},
): Promise<Health> {
  const own = storage.parts.map((part) => [part.name, () => pinged(part)] as const);
  const parts = await Promise.all(
    [...own, ...Object.entries(others)].map(
      async ([name, ask]) => [name, await answerOf(ask, clock)] as const,
    ),
  );
  return { ok: parts.every(([, { ok }]) => ok), parts: Object.fromEntries(parts) };
}

async function pinged(part: StoragePart): Promise<PartAnswer> {
  await part.ping();
  return { ok: true, detail: "" };
}

async function answerOf(ask: () => Promise<PartAnswer>, clock: Clock): Promise<PartHealth> {
  const startedAt = clock.now();
  const patience = AbortSignal.timeout(PATIENCE);
  const tooSlow = new Promise<PartAnswer>((resolve) => {
    patience.addEventListener("abort", () => resolve({ ok: false, detail: "does not answer" }), {
      once: true,
    });
  });
  const asked = ask().catch(() => ({ ok: false, detail: "unavailable" }));
  const { ok, detail } = await Promise.race([asked, tooSlow]);
  return { ok, latency: Math.round(clock.now() - startedAt), detail };
}
