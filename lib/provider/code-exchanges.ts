/** Which exchanges of an authorization code are in flight together: those are ties, and a later one is a replay. */
import type { ServerResponse } from "node:http";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { Artifact } from "../artifacts/artifact.ts";
import type { Clock } from "../clock.ts";

export interface CodeExchanges {
  /**
   * An exchange has found its code and will be answered through `res`.
   * @param underWaySince on the clock of these exchanges: when the request began, as far as that is known.
   * @returns whether it is in flight together with the exchange that consumed the code.
   */
  begin(code: Artifact, res: ServerResponse, underWaySince: number): Promise<boolean>;
}

/** Exchanges of one code in this process, each of which began before the one before it was answered. */
interface Burst {
  readonly begunAt: number;
  /** How many of them are not answered yet. */
  pending: number;
  /** When the last answer left. */
  idleSince: number;
  readonly isTie: Promise<boolean>;
}

/**
 * Milliseconds. A request is answered or given up after five seconds, so whatever comes later than that can't have been
 * in flight together with the first exchange of a burst.
 */
const LONGEST_BURST = 5_000;

/**
 * The first exchange of a burst decides for all of it. It is a tie if it found the code unconsumed, or began before the
 * exchange that consumed the code was answered. When it began is an elapsed time of this process, and when the other
 * one was answered is an elapsed time of the store: clocks of two processes never meet.
 * @param clock only goes on: `monotonic`.
 */
export function createCodeExchanges(store: Pick<ArtifactStore, "sinceAnswer">, clock: Clock): CodeExchanges {
  /** By the key of the code, in the order in which they began. */
  const bursts = new Map<string, Burst>();

  function forgetOld(now: number): void {
    for (const [key, { begunAt }] of bursts) {
      if (begunAt > now - LONGEST_BURST) return;
      bursts.delete(key);
    }
  }

  async function beganInTime({ model, key, consumedAt }: Artifact, underWaySince: number): Promise<boolean> {
    if (consumedAt === undefined) return true;
    // Measured before the store looks at its clock: too short rather than too long, so in doubt it is a replay.
    const elapsed = clock.now() - underWaySince;
    const sinceAnswer = await store.sinceAnswer(model, key);
    return sinceAnswer !== undefined && elapsed >= sinceAnswer;
  }

  /** The burst that this exchange belongs to. */
  function burstOf(code: Artifact, underWaySince: number): Burst {
    const now = clock.now();
    forgetOld(now);
    const running = bursts.get(code.key);
    if (running && (running.pending > 0 || underWaySince <= running.idleSince)) return running;
    const isTie = beganInTime(code, underWaySince);
    const burst = { begunAt: now, pending: 0, idleSince: now, isTie };
    bursts.delete(code.key);
    bursts.set(code.key, burst);
    // A fault of the store decides nothing for the next exchange.
    isTie.catch(() => bursts.get(code.key) === burst && bursts.delete(code.key));
    return burst;
  }

  return {
    begin(code, res, underWaySince) {
      const burst = burstOf(code, underWaySince);
      const answered = (): void => {
        burst.pending -= 1;
        burst.idleSince = clock.now();
      };
      burst.pending += 1;
      // A client that has hung up already is not reported again.
      if (res.closed) answered();
      else res.once("close", answered);
      return burst.isTie;
    },
  };
}
