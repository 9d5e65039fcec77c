/** What a receiver may do to the service: to see that nothing is lost by it. */
import { setTimeout as wait } from "node:timers/promises";
import type { Middleware } from "koa";

export interface Trouble {
  /** How many requests meet it, the next ones; `Infinity`: all. */
  readonly times: number;
  /** How long they wait. */
  readonly seconds: number;
  /** Whether their connection is then closed without an answer. */
  readonly close: boolean;
  /** The status that they are then answered with; `undefined`: their own answer. */
  readonly status: number | undefined;
}

/** Every request is answered as it should be. */
export const NO_TROUBLE: Trouble = { times: 0, seconds: 0, close: false, status: undefined };

/** Trouble that can be changed while requests come in. */
export interface TroubleMaker {
  /** From the next request on. */
  make(trouble: Trouble): void;
  readonly middleware: Middleware;
}

/** @param say told of each request that meets trouble. */
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
