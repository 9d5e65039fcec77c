/** Whether a process can do its role, and the state of every part (decisions.md, Health). */
import type { Storage } from "./storage.ts";
import { clockProblem } from "./clocks.ts";
import type { StorageWatch } from "./storage-identity.ts";
import { type Clock, seconds } from "../core/clock.ts";
import { StorageUnavailable } from "../core/errors.ts";
import { withTimeout } from "../core/with-timeout.ts";

interface PartHealth {
  readonly ok: boolean;
  /** Whether the process can't do its role without this part. */
  readonly required: boolean;
  /** In milliseconds. */
  readonly latency: number;
  /** What is wrong, or a short status; may be empty. */
  readonly detail: string;
}

export interface Health {
  /** Whether the process can do its role: all required parts are `ok`. */
  readonly ok: boolean;
  readonly parts: Readonly<Record<string, PartHealth>>;
}

/** A part that has not answered by then counts as down. */
const ANSWER_TIMEOUT_MS = 2_000;

/** What a part says of itself. */
export type AskedHealth = Pick<PartHealth, "ok" | "detail">;

/** A part, and how to ask it. */
export interface AskedPart {
  readonly required: boolean;
  ask(): Promise<AskedHealth>;
}

/**
 * Checks that each store takes writes, the clock, and the other parts. Never rejects.
 * @param others by name.
 */
export async function storageHealth(
  { parts, clocks }: Pick<Storage, "parts" | "clocks">,
  others: Readonly<Record<string, AskedPart>> = {},
): Promise<Health> {
  const asked: [string, AskedPart][] = parts.map((part) => [
    part.name,
    {
      required: true,
      async ask() {
        await part.takesWrites();
        return { ok: true, detail: clockProblem(clocks.differences.get(part.name) ?? 0) };
      },
    },
  ]);
  asked.push(...Object.entries(others));
  const found = await Promise.all(asked.map(async ([name, part]) => [name, await answerOf(part)] as const));
  return {
    ok: found.every(([, { ok, required }]) => ok || !required),
    parts: Object.fromEntries(found),
  };
}

/** How long the health shows that sessions were lost: as long as the alert. */
const LOSS_SHOWN_SECONDS = 3_600;

/** Whether the store of artifacts has kept sessions, codes and tokens in the last hour. */
export function keptSessions(
  { artifactsLostAt: at }: Pick<StorageWatch, "artifactsLostAt">,
  clock: Clock,
): AskedHealth {
  if (at === undefined || seconds(clock) - at >= LOSS_SHOWN_SECONDS) return { ok: true, detail: "" };
  const moment = new Date(at * 1000).toISOString();
  return {
    ok: false,
    detail: `artifacts was found empty at ${moment}: all sessions, codes and tokens of before are lost`,
  };
}

const late = (): Error => new StorageUnavailable("does not answer");

async function answerOf(part: AskedPart): Promise<PartHealth> {
  const startedAt = performance.now();
  const { ok, detail } = await withTimeout(ANSWER_TIMEOUT_MS, part.ask(), late).catch((error: unknown) => ({
    ok: false,
    detail: error instanceof StorageUnavailable ? error.message : "unavailable",
  }));
  return { ok, required: part.required, latency: Math.round(performance.now() - startedAt), detail };
}
