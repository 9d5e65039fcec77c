/** What a receiver may do to the service: to see that nothing is lost by it. */
import { setTimeout as wait } from "node:timers/promises";
import type { Middleware } from "koa";

export interface Trouble {
  /** How many requests meet it, the first ones. */
  readonly times: number;
  /** How long they wait. */
  readonly seconds: number;
  /** Whether their connection is then closed without an answer. */
  readonly close: boolean;
  /** The status that they are then answered with; `undefined`: their own answer. */
  readonly status: number | undefined;
}

/** @param say told of each request that meets trouble. */
export function makeTrouble(
  { times, seconds, close, status }: Trouble,
  say: (line: string) => void,
): Middleware {
  let count = 0;
  return async function meetTrouble(ctx, next) {
    count += 1;
    if (count > times) return next();
    const which = `request ${count}${times === Infinity ? "" : ` of ${times}`}, ${ctx.get("webhook-id")}`;
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
  };
}
