/** Health and metrics: a summary on the public port, the details on a separate port. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Middleware } from "koa";
import type { NotificationWorker, SignInService } from "../../lib/index.ts";
import type { PortWords } from "./listener.ts";

/** The checked `metrics` of a configuration. */
export type MetricsSettings = NonNullable<SignInService["configuration"]["metrics"]>;

/** The service or the worker. */
type Monitored = Pick<NotificationWorker, "health" | "metrics">;

/** Between two health checks, however many requests the public port gets. */
const HEALTH_INTERVAL_MS = 1000;

const PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8";

/** For the error message if the port isn't available. */
export const METRICS_PORT: PortWords = {
  choose: "choose another one with metrics.port in the configuration or --metrics-port N",
  host: "metrics.host in the configuration",
};

/** The settings of the metrics port, or `undefined` if none is configured. */
export function metricsPlace({
  metrics,
}: SignInService["configuration"]): (MetricsSettings & { readonly port: number }) | undefined {
  return metrics?.port === undefined ? undefined : { ...metrics, port: metrics.port };
}

/** `/health` only says whether this process can do its role, and `/health/live` whether it answers at all. */
export function publicHealth(service: SignInService): Middleware {
  const { clock } = service.configuration;
  let lookedAt = -Infinity;
  let isWell = Promise.resolve(false);

  function look(): Promise<boolean> {
    const now = clock.now();
    // `abs`, because the clock may be set back.
    if (Math.abs(now - lookedAt) >= HEALTH_INTERVAL_MS) {
      lookedAt = now;
      isWell = service.health().then(({ ok }) => ok);
    }
    return isWell;
  }

  return async function monitor(ctx, next) {
    const asks = ctx.method === "GET" || ctx.method === "HEAD";
    if (asks && ctx.path === "/health/live") {
      ctx.set("Cache-Control", "no-store");
      ctx.body = { ok: true };
    } else if (asks && ctx.path === "/health") {
      const ok = await look();
      ctx.status = ok ? 200 : 503;
      ctx.set("Cache-Control", "no-store");
      ctx.body = { ok };
    } else await next();
  };
}

/** `/metrics` of the public port exists only for requests with the token, so that no one else learns it. */
export function publicMetrics(service: SignInService): Middleware {
  const token = service.configuration.metrics?.token;
  return async function measure(ctx, next) {
    const asks = ctx.method === "GET" || ctx.method === "HEAD";
    if (asks && ctx.path === "/metrics" && token !== undefined && hasToken(ctx.req, token)) {
      ctx.set("Cache-Control", "no-store");
      ctx.type = PROMETHEUS;
      ctx.body = await service.metrics();
    } else await next();
  };
}

/** Handles the metrics port: `/metrics`, `/health` with every part, and `/health/live`. With a token, all requests must send it. */
export function monitoringListener(monitored: Monitored, token: string | undefined): RequestListener {
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path] = (request.url ?? "").split("?", 1);
    response.setHeader("Cache-Control", "no-store");
    if (token !== undefined && !hasToken(request, token)) {
      response.setHeader("WWW-Authenticate", "Bearer");
      sendJson(response, 401, {
        error: "invalid_token",
        error_description: "send metrics.token as a Bearer token",
      });
    } else if (request.method !== "GET" && request.method !== "HEAD") {
      response.setHeader("Allow", "GET, HEAD");
      sendJson(response, 405, { error: "invalid_request", error_description: "the method must be GET" });
    } else if (path === "/health/live") {
      sendJson(response, 200, { ok: true });
    } else if (path === "/health") {
      const state = await monitored.health();
      sendJson(response, state.ok ? 200 : 503, state);
    } else if (path === "/metrics") {
      response.writeHead(200, { "Content-Type": PROMETHEUS }).end(await monitored.metrics());
    } else {
      sendJson(response, 404, {
        error: "not_found",
        error_description: "use /health, /health/live or /metrics",
      });
    }
  }
  return (request, response) => void answer(request, response).catch(() => response.destroy());
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "Content-Type": "application/json; charset=utf-8" }).end(JSON.stringify(body));
}

/** Compared in constant time. */
function hasToken({ headers }: IncomingMessage, token: string): boolean {
  const [, sent = ""] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "") ?? [];
  return timingSafeEqual(digest(sent), digest(token));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
