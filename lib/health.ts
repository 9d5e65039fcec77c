/** Whether the parts of the service answer. */
import type { Storage, StoragePart } from "./storage.ts";
import type { Clock } from "./clock.ts";

export interface PartHealth {
  readonly ok: boolean;
  /** Milliseconds. */
  readonly latency: number;
  /** What is wrong, or how it is doing; may be empty. */
  readonly detail: string;
}

export interface Health {
  /** All parts are. */
  readonly ok: boolean;
  readonly parts: Readonly<Record<string, PartHealth>>;
}

/** Milliseconds after which a part that does not answer counts as down. */
const PATIENCE = 2_000;

/** What a part says of itself. */
export interface PartAnswer {
  readonly ok: boolean;
  readonly detail: string;
}

/**
 * Asks each part of the storage and whatever else there is; never rejects.
 * @param others name → what asks that part.
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
