/** The Koa application around the service: request log, health, metrics. */
import { isIP } from "node:net";
import Koa, { type Context, type Middleware } from "koa";
import type { Logger } from "pino";
import type { SignInService } from "../../lib/index.ts";

/** The service with what an operator needs around it. */
export function createApplication(service: SignInService, logger: Logger): Koa {
  const app = new Koa();
  app.on("error", (error: unknown) => {
    const { name = "unknown", code } = error as { name?: string; code?: unknown };
    logger.error({ kind: name, code: typeof code === "string" ? code : undefined }, "unexpected error");
  });
  app.use(requestLog(logger));
  app.use(operations(service));
  app.use(service.routes());
  return app;
}

/** One line for each request, without the query: it holds codes, states and names. */
function requestLog(logger: Logger): Middleware {
  return async function logRequest(ctx, next) {
    const startedAt = performance.now();
    ctx.res.once("close", () => {
      const { method, res } = ctx;
      const ms = Math.round((performance.now() - startedAt) * 10) / 10;
      const line = { method, path: pathOf(ctx.originalUrl), status: res.statusCode, ms };
      logger.info(res.writableFinished ? line : { ...line, aborted: true }, "request");
    });
    await next();
  };
}

/** The path, with the identifiers of running sign-ins taken out. */
function pathOf(url: string): string {
  const [path = ""] = url.split("?", 1);
  return path.replace(/\/(interaction|authorize)\/[^/]+/, "/$1/:uid");
}

/** `GET /health` for load balancers, `GET /metrics` for a Prometheus on this machine. */
function operations({ health, metrics }: Pick<SignInService, "health" | "metrics">): Middleware {
  return async function operate(ctx, next) {
    const asks = ctx.method === "GET" || ctx.method === "HEAD";
    if (asks && ctx.path === "/health") {
      const state = await health();
      ctx.status = state.ok ? 200 : 503;
      ctx.set("Cache-Control", "no-store");
      ctx.body = state;
    } else if (asks && ctx.path === "/metrics" && isFromHere(ctx)) {
      ctx.type = "text/plain; version=0.0.4; charset=utf-8";
      ctx.body = await metrics();
    } else await next();
  };
}

/** A connection of this machine that no proxy has passed on. */
function isFromHere({ req }: Context): boolean {
  const address = (req.socket.remoteAddress ?? "").replace(/^::ffff:/, "");
  const isLoopback = address === "::1" || (isIP(address) === 4 && address.startsWith("127."));
  return isLoopback && !("x-forwarded-for" in req.headers) && !("forwarded" in req.headers);
}
