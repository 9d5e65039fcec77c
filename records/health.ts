/** Health checks of the parts of a service. */
import type { Storage, StoragePart } from "./storage.ts";
import type { Clock } from "../core/clock.ts";

interface PartHealth {
  readonly ok: boolean;
  /** In milliseconds. */
  readonly latency: number;
  /** What is wrong, or a short status; may be empty. */
  readonly detail: string;
}

export interface Health {
  /** Whether all parts are `ok`. */
  readonly ok: boolean;
  readonly parts: Readonly<Record<string, PartHealth>>;
}

/** A part that has not answered by then counts as down. */
const ANSWER_TIMEOUT_MS = 2_000;
/** With a larger difference between clocks, common clients refuse ID tokens. */
export const CLOCK_TOLERANCE_MS = 5_000;
const CLOCK_CHECK_INTERVAL_MS = 30_000;

/** The answer of one part. */
interface PartAnswer {
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
  const own = storage.parts.map((part) => [part.name, () => pinged(part, clock)] as const);
  const parts = await Promise.all(
    [...own, ...Object.entries(others)].map(
      async ([name, ask]) => [name, await answerOf(ask, clock)] as const,
    ),
  );
  return { ok: parts.every(([, { ok }]) => ok), parts: Object.fromEntries(parts) };
}

/** A wrong clock does not make the part fail: taking processes out of service would not correct it. */
async function pinged(part: StoragePart, clock: Clock): Promise<PartAnswer> {
  return { ok: true, detail: clockProblem(await clockDifference(part, clock)) };
}

/** @returns how many milliseconds the clock of a part is ahead of this one. */
export async function clockDifference(part: StoragePart, clock: Clock): Promise<number> {
  const before = clock.now();
  const time = await part.ping();
  return time - (before + clock.now()) / 2;
}

/** @returns a phrase, or an empty string while common clients tolerate the difference. */
function clockProblem(difference: number): string {
  if (Math.abs(difference) < CLOCK_TOLERANCE_MS) return "";
  const seconds = Math.round(Math.abs(difference) / 1000);
  return `its clock is ${seconds} seconds ${difference > 0 ? "ahead of" : "behind"} that of this process`;
}

/**
 * Checks the clocks of the storage now, and every 30 seconds.
 * @param onWarning is called once each time a clock becomes wrong.
 */
export function watchClocks(
  { parts }: Pick<Storage, "parts">,
  clock: Clock,
  onWarning: (text: string) => void,
  intervalMs: number = CLOCK_CHECK_INTERVAL_MS,
): { stop(): Promise<void> } {
  const wrong = new Set<string>();
  let running: Promise<unknown> = Promise.resolve();
  async function look(part: StoragePart): Promise<void> {
    // `storageHealth` reports whether it answers.
    const difference = await clockDifference(part, clock).catch(() => undefined);
    if (difference === undefined) return;
    const problem = clockProblem(difference);
    if (problem === "") wrong.delete(part.name);
    else if (!wrong.has(part.name)) {
      wrong.add(part.name);
      onWarning(
        `${part.name}: ${problem}. Clients refuse ID tokens of a wrong clock: synchronize both with NTP`,
      );
    }
  }
  const lookAtAll = (): void => {
    running = running.then(() => Promise.all(parts.map(look)));
  };
  lookAtAll();
  const timer = setInterval(lookAtAll, intervalMs);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}

async function answerOf(ask: () => Promise<PartAnswer>, clock: Clock): Promise<PartHealth> {
  const startedAt = clock.now();
  const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
  const tooSlow = new Promise<PartAnswer>((resolve) => {
    timeout.addEventListener("abort", () => resolve({ ok: false, detail: "does not answer" }), {
      once: true,
    });
  });
  const asked = ask().catch(() => ({ ok: false, detail: "unavailable" }));
  const { ok, detail } = await Promise.race([asked, tooSlow]);
  return { ok, latency: Math.round(clock.now() - startedAt), detail };
}
