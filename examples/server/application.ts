/** The Koa application around the service: request log, health, metrics. */
import Koa, { type Middleware } from "koa";
import type { Logger } from "pino";
import type { SignInService } from "../../lib/index.ts";
import { publicMonitoring } from "./monitoring.ts";

/** The service with what an operator needs around it. */
export function createApplication(service: SignInService, logger: Logger): Koa {
  const app = new Koa();
  app.on("error", (error: unknown) => {
    const { name = "unknown", code } = error as { name?: string; code?: unknown };
    logger.error({ kind: name, code: typeof code === "string" ? code : undefined }, "unexpected error");
  });
  app.use(requestLog(logger));
  app.use(publicMonitoring(service));
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
