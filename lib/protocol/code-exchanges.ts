/** Which exchanges of a code overlap: what comes in meanwhile is a tie, what comes later is a replay. */
import type { ServerResponse } from "node:http";
import type { Clock } from "../clock.ts";

export interface CodeExchanges {
  /**
   * An exchange of this code has begun, to be answered by `res`.
   * @returns whether it is in flight together with earlier ones, given since when it is under way.
   */
  begin(key: string, res: ServerResponse, underWaySince: number): CodeExchange;
}

export interface CodeExchange {
  isTie(consumedAt: number): boolean;
  /** It has consumed the code: from now on nothing has to be known of other processes. */
  won(): void;
}

interface Exchanges {
  /** How many are not answered yet. */
  pending: number;
  /** Milliseconds since the epoch: when the last one was answered. */
  idleSince: number;
  /** Whether the code was consumed in this process. */
  isOurs: boolean;
  readonly begunAt: number;
}

/**
 * Milliseconds for which a code is remembered: much longer than a request is worked at, and than it may have been under
 * way before. What is later is no tie.
 */
const MEMORY = 30_000;

/**
 * Milliseconds after a code was consumed in another process in which an exchange is still a tie: until the answer has
 * left there, and because the clocks of two machines differ.
 */
const ELSEWHERE = 2_000;

/**
 * Requests that were sent together overlap one with the next, though the last may come in after the first was
 * answered; so a tie is what began while any exchange of the code was unanswered. Other processes are not seen:
 * towards them the time at which the code was consumed decides, and a little longer.
 */
export function createCodeExchanges(clock: Clock): CodeExchanges {
  /** In the order in which their first exchange began. */
  const codes = new Map<string, Exchanges>();

  function forgetOld(now: number): void {
    for (const [key, { begunAt }] of codes) {
      if (begunAt > now - MEMORY) return;
      codes.delete(key);
    }
  }

  return {
    begin(key, res, underWaySince) {
      const now = clock.now();
      forgetOld(now);
      const exchanges = codes.get(key) ?? { pending: 0, idleSince: 0, isOurs: false, begunAt: now };
      codes.set(key, exchanges);
      const overlaps = exchanges.pending > 0 || underWaySince <= exchanges.idleSince;
      const answered = (): void => {
        exchanges.pending -= 1;
        if (exchanges.pending === 0) exchanges.idleSince = clock.now();
      };
      exchanges.pending += 1;
      // Of one that has hung up before nobody is told again.
      if (res.closed) answered();
      else res.once("close", answered);
      return {
        isTie: (consumedAt) => overlaps || underWaySince <= consumedAt + (exchanges.isOurs ? 0 : ELSEWHERE),
        won() {
          exchanges.isOurs = true;
        },
      };
    },
  };
}
