/** Lets the running requests finish when the service closes. */
import type { Context, Middleware, Next } from "koa";

export interface RequestGate {
  readonly middleware: Middleware;
  /** Resolves when no request of the service is running, after 30 s at the latest. */
  close(): Promise<void>;
}

/** Milliseconds. */
const PATIENCE = 30_000;

/** Requests that come after `close` still reach the routes: the storage that is closed answers them with 503. */
export function createRequestGate(routes: Middleware): RequestGate {
  let running = 0;
  let onIdle: (() => void) | undefined;

  /** @returns to be called when it is over; more than once is the same as once. */
  function enter(): () => void {
    let isOver = false;
    running += 1;
    return () => {
      if (isOver) return;
      isOver = true;
      running -= 1;
      if (running === 0) onIdle?.();
    };
  }

  return {
    async middleware(ctx: Context, next: Next) {
      const leave = enter();
      // What falls through is the host application's, and may take as long as it likes.
      const pass: Next = () => {
        leave();
        return next();
      };
      try {
        await routes(ctx, pass);
      } finally {
        leave();
      }
    },
    async close() {
      if (running === 0) return;
      await new Promise<void>((resolve) => {
        const patience = setTimeout(resolve, PATIENCE);
        onIdle = () => {
          clearTimeout(patience);
          resolve();
        };
      });
    },
  };
}
