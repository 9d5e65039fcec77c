/** Makes the demo receiver fail, to show that the service loses nothing. */
import { setTimeout as wait } from "node:timers/promises";
import type { Middleware } from "koa";

export interface Trouble {
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
export const NO_TROUBLE: Trouble = { times: 0, seconds: 0, close: false, status: undefined };

export interface TroubleMaker {
  /** Takes effect with the next request. */
  make(trouble: Trouble): void;
  readonly middleware: Middleware;
}

/** @param say Prints a line for each affected request. */
export function createTroubleMaker(first: Trouble, say: (line: string) => void): TroubleMaker {
  let trouble = first;
  let count = 0;
  return {
    make(next) {
      trouble = next;
      count = 0;
    },
    async middleware(ctx, next) {
      const { times, seconds, close, status } = trouble;
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
