/** Whether the parts of the service answer. */
import type { Storage } from "../adapters/storage.ts";
import type { Clock } from "./clock.ts";

export interface PartHealth {
  readonly ok: boolean;
  /** Milliseconds. */
  readonly latency: number;
  /** What is wrong; empty when nothing is. */
  readonly detail: string;
}

export interface Health {
  /** All parts are. */
  readonly ok: boolean;
  readonly parts: Readonly<Record<string, PartHealth>>;
}

/** Milliseconds after which a part that does not answer counts as down. */
const PATIENCE = 2_000;

/** Asks the storage; never rejects. */
export async function storageHealth(storage: Storage, clock: Clock): Promise<Health> {
  const startedAt = clock.now();
  const patience = AbortSignal.timeout(PATIENCE);
  const tooSlow = new Promise<string>((resolve) => {
    patience.addEventListener("abort", () => resolve("does not answer"), { once: true });
  });
  const detail = await Promise.race([
    storage.ping().then(
      () => "",
      () => "unavailable",
    ),
    tooSlow,
  ]);
  const part = { ok: detail === "", latency: Math.round(clock.now() - startedAt), detail };
  return { ok: part.ok, parts: { storage: part } };
}
