/** Makes the demo receiver fail, to show that no notification is lost. */
import { setTimeout as wait } from "node:timers/promises";
import type { Middleware } from "koa";
import { toNumber, toWhole } from "../arguments.ts";

export interface Faults {
  /** How many of the next requests are affected. */
  readonly times: number;
  /** How long they wait. */
  readonly seconds: number;
  /** Whether their connection is then closed without a response. */
  readonly close: boolean;
  /** The status of the response. `undefined` handles the request as usual. */
  readonly status: number | undefined;
}

/** Handles every request as usual. */
export const NO_FAULTS: Faults = { times: 0, seconds: 0, close: false, status: undefined };

export interface FaultInjector {
  /** Takes effect with the next request. */
  inject(faults: Faults): void;
  readonly middleware: Middleware;
}

/** @param say Prints a line for each affected request. */
export function createFaultInjector(first: Faults, say: (line: string) => void): FaultInjector {
  let faults = first;
  let count = 0;
  return {
    inject(next) {
      faults = next;
      count = 0;
    },
    async middleware(ctx, next) {
      const { times, seconds, close, status } = faults;
      count += 1;
      if (count > times) return next();
      const number = times === Infinity ? `${count}` : `${count} of ${times}`;
      const which = `request ${number} at ${ctx.path}, ${ctx.get("webhook-id")}`;
      if (seconds > 0) {
        say(`${which}: waiting ${seconds} s`);
        await wait(seconds * 1000);
      }
      if (close) {
        say(`${which}: connection closed`);
        ctx.respond = false;
        ctx.req.socket.destroy();
      } else if (status === undefined) {
        await next();
      } else {
        say(`${which}: answered ${status}`);
        ctx.status = status;
        ctx.body = {};
      }
      return undefined;
    },
  };
}

/** The values on the command line. */
interface FaultOptions {
  readonly fail?: string | undefined;
  readonly status?: string | undefined;
  readonly slow?: string | undefined;
  readonly close?: boolean | undefined;
}

/**
 * @param prefix Start of each option, such as `--`.
 * @throws CommandFailure with exit code 2.
 */
export function readFaults(prefix: string, { fail, status, slow, close = false }: FaultOptions): Faults {
  const named = status !== undefined || slow !== undefined || close;
  const seconds = slow === undefined ? 0 : toNumber(`${prefix}slow`, slow, 3600);
  const answer = status === undefined ? undefined : toWhole(`${prefix}status`, status, [200, 599]);
  return {
    times: fail === undefined ? (named ? Infinity : 0) : toWhole(`${prefix}fail`, fail, [0, 1e9]),
    seconds,
    close,
    status: answer ?? (named ? undefined : 503),
  };
}
