/** Which exchanges of a code overlap: what comes in meanwhile is a tie, what comes later is a replay. */
import type { ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../clock.ts";

export interface CodeExchanges {
  /**
   * An exchange of this code has begun, to be answered by `res`.
   * @returns whether it is in flight together with earlier ones, given since when it is under way.
   */
  begin(key: string, res: ServerResponse, underWaySince: number): CodeExchange;
}

export interface CodeExchange {
  /** Asked when it is known that the code is consumed, and when; takes a moment where another process has done that. */
  isTie(consumedAt: number): Promise<boolean>;
  /** It has consumed the code: from now on it is known here when that was answered. */
  won(): void;
}

interface Exchanges {
  /** How many have begun. */
  begun: number;
  /** How many of them are not answered yet. */
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

/** Milliseconds after the use in another process in which several exchanges are taken for the rest of one burst. */
const BURST = 2_000;
/** Milliseconds in which an exchange that came alone waits for others of its burst. */
const COMPANY = 50;

/**
 * Requests that were sent together overlap one with the next, though the last may come in after the first was
 * answered; so a tie is what began while any exchange of the code was unanswered. Other processes are not seen:
 * of what was sent together several come here together, and are a tie. One that comes alone is a tie with those
 * elsewhere only if it came before the code was consumed.
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
      const exchanges = codes.get(key) ?? { begun: 0, pending: 0, idleSince: 0, isOurs: false, begunAt: now };
      codes.set(key, exchanges);
      exchanges.begun += 1;
      const number = exchanges.begun;
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
        async isTie(consumedAt) {
          if (overlaps || underWaySince <= consumedAt) return true;
          if (exchanges.isOurs || underWaySince > consumedAt + BURST) return false;
          if (exchanges.begun === number) await pause(COMPANY);
          return exchanges.begun > number;
        },
        won() {
          exchanges.isOurs = true;
        },
      };
    },
  };
}
