/** The Koa application around the service: request log, health, metrics, mail during development, and 404 pages. */
import Koa, { type Middleware } from "koa";
import type { Logger } from "pino";
import type { SignInService } from "../../lib/index.ts";
import { discoveryAdvice } from "../../config/deployments.ts";
import { requestIdOf } from "../../compat/request-log.ts";
import type { InternalService } from "../../lib/service.ts";
import type { Mailbox } from "../../testing/mailbox.ts";
import { publicHealth, publicMetrics } from "./monitoring.ts";

/**
 * Adds to the service what an operator needs.
 * @param mailbox gets a page. Default: no page.
 */
export function createApplication(service: InternalService, logger: Logger, mailbox?: Mailbox): Koa {
  const app = new Koa();
  logErrors(app, logger);
  app.use(publicHealth(service));
  app.use(publicMetrics(service));
  if (mailbox !== undefined) app.use(mailbox.routes());
  app.use(service.routes());
  app.use(requestLog(logger, service));
  app.use(leadToAccount(service));
  app.use(notFound(service));
  return app;
}

/** What Koa catches goes to the log, without what the request contains. */
export function logErrors(app: Koa, logger: Logger): void {
  app.on("error", (error: unknown) => {
    const { name = "unknown", code } = error as { name?: string; code?: unknown };
    logger.error({ kind: name, error_code: typeof code === "string" ? code : undefined }, "unexpected error");
  });
}

/** Logs the requests that nothing else answers; the service logs its own. */
function requestLog(logger: Logger, { configuration: { proxy } }: SignInService): Middleware {
  return async function logRequest(ctx, next) {
    const startedAt = performance.now();
    const requestId = requestIdOf(ctx.req, proxy);
    ctx.set("X-Request-Id", requestId);
    ctx.res.once("close", () => {
      const { method, res } = ctx;
      const ms = Math.round((performance.now() - startedAt) * 10) / 10;
      const line = {
        request_id: requestId,
        method,
        path: plainPath(ctx.originalUrl),
        status: res.statusCode,
        ms,
      };
      logger.info(res.writableFinished ? line : { ...line, aborted: true }, "request");
    });
    await next();
  };
}

/** The first segment of the path: what follows may be about a person. */
function plainPath(url: string): string {
  const [, first, rest] = /^\/([a-z0-9._-]{0,40})(\/)?/i.exec(url.split("?", 1)[0] ?? "") ?? [];
  return first === undefined ? "other" : `/${first}${rest === undefined ? "" : "/*"}`;
}

function deploymentsOf({ configuration }: SignInService) {
  const { oauth2, openid } = configuration.deployments;
  return [openid, oauth2].filter((deployment) => deployment !== undefined);
}

/** Redirects base URLs to the account page, because people open the URLs that the server prints. */
function leadToAccount(service: SignInService): Middleware {
  const { stripPrefix } = service.configuration;
  const bases = new Set(deploymentsOf(service).map(({ path }) => path));
  return async function redirectBase(ctx, next) {
    const base = (stripPrefix + ctx.path).replace(/\/$/, "");
    const asks = ctx.method === "GET" || ctx.method === "HEAD";
    // Redirect to a path, so that the browser stays on its host.
    if (asks && bases.has(base)) ctx.redirect(`${base}/account`);
    else await next();
  };
}

/** Responds with 404: a page in the style of the service for browsers, JSON for programs. */
function notFound(service: InternalService): Middleware {
  const { stripPrefix } = service.configuration;
  const deployments = deploymentsOf(service);
  return async function answerNotFound(ctx) {
    const path = stripPrefix + ctx.path;
    // The service itself says where discovery is.
    if (discoveryAdvice(service.configuration.deployments, path) !== undefined) return;
    const deployment = deployments.find((each) => path.startsWith(`${each.path}/`)) ?? deployments[0];
    if (deployment !== undefined && ctx.accepts("json", "html") === "html") {
      service.pages.error(
        Object.assign(ctx, { exchange: { deployment, requestId: ctx.response.get("X-Request-Id") } }),
        { status: 404, error: "not_found" },
      );
    } else {
      ctx.status = 404;
      ctx.set("Cache-Control", "no-store");
      ctx.body = { error: "not_found", error_description: "there is nothing at this address" };
    }
  };
}
