/**
 * Everything that the administration listener answers: `/v1` for programs, the console for operators. What holds for both is here:
 * the Host, the headers, the log (decisions.md, Administration over HTTP, Where and Console).
 */
import type { IncomingMessage } from "node:http";
import type { Context, Middleware } from "koa";
import { isHostOf, remoteAddress, requestedHost } from "../compat/forwarded.ts";
import type { Telemetry } from "../core/telemetry.ts";
import { type HandledRequest, requestIdOf, spanOf } from "../compat/request-log.ts";
import { adminUrlProblems, isOrigin } from "../config/admin.ts";
import type { Configuration } from "../config/configuration.ts";
import { ConfigurationError, StorageUnavailable } from "../core/errors.ts";
import type { ServiceEmitter } from "../core/events.ts";
import { Running } from "../core/running.ts";
import { securityHeaders } from "../core/security-headers.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import type { AuditCollector } from "../records/audit/collector.ts";
import { originOf } from "../records/audit/origin.ts";
import type { AdministrationContext, AdministrationExchange, Surface } from "./exchange.ts";

/** What the listener answers with. */
export interface Surfaces {
  /** Everything at `/v1` and below. */
  readonly rest: Surface;
  /** Everything else. */
  readonly console: Surface;
}

interface AdministrationServices {
  readonly audit: Pick<AuditCollector, "noteRefusal">;
  readonly configuration: Configuration;
  readonly events: ServiceEmitter;
  readonly onDefect: (error: unknown) => void;
  readonly onRequest: (request: HandledRequest) => void;
  readonly telemetry: Telemetry | undefined;
}

/** Administration over HTTP. */
export interface Administration {
  /** @throws ConfigurationError for an origin that it must not have, or without one. */
  middleware(options?: { readonly url?: string | undefined }): Middleware;
  /** Resolves when no request is running, after 30 seconds at most. */
  drain(): Promise<void>;
}

const DRAIN_TIMEOUT_MS = 30_000;
const HOUR_SECONDS = 3_600;
/** What the audit calls a refusal, by its status. */
const REFUSALS: Readonly<Record<number, string>> = { 401: "token", 403: "role", 429: "limit" };
/** When a program may repeat a request that met a fault. */
const RETRY_AFTER_SECONDS = 5;

export function createAdministration(
  { audit, configuration, events, onDefect, onRequest, telemetry }: AdministrationServices,
  surfaces: Surfaces,
): Administration {
  const running = new Running();
  const proxy = configuration.admin?.proxy ?? configuration.proxy;

  /** One record an hour for each reason and actor: who repeats a refused request does not fill the audit. */
  function noteRefusal({ status, administration }: AdministrationContext): void {
    const reason = REFUSALS[status];
    if (reason === undefined) return;
    const { actor = ANONYMOUS, origin: from } = administration;
    audit.noteRefusal(
      { ...from, actor, action: "administration.refused", outcome: "failure", reason },
      { limit: "administration", bucket: JSON.stringify([reason, actor]), seconds: HOUR_SECONDS },
    );
  }

  function middleware({
    url = configuration.admin?.url,
  }: { readonly url?: string | undefined } = {}): Middleware {
    const origin = checkedOrigin(url, configuration);
    const secure = origin.startsWith("https:");
    const own = { host: new URL(origin).host, secure };

    function begin(ctx: Context): AdministrationContext {
      const requestId = requestIdOf(ctx.req, proxy);
      const address = remoteAddress(ctx.req, proxy);
      const exchange: AdministrationExchange = {
        requestId,
        url: origin,
        address,
        origin: { request: requestId, ...originOf(address, ctx.get("user-agent") || undefined) },
        template: isRest(ctx) ? "/v1" : "/",
      };
      return Object.assign(ctx, { administration: exchange });
    }

    /** @returns the error if the request fails through no fault of its caller. */
    async function answer(ctx: AdministrationContext): Promise<unknown> {
      // A page of somebody else whose name leads here has that name in its Host (DNS rebinding).
      if (!isHostOf(own, ownHost(ctx.req))) {
        refuse(ctx, 421, "misdirected", "This is another host than that of administration.");
        return undefined;
      }
      try {
        await (isRest(ctx) ? surfaces.rest : surfaces.console)(ctx);
        if (ctx.status === 404 && (ctx.body ?? undefined) === undefined)
          refuse(ctx, 404, "not_found", "There is nothing at this address.");
        return undefined;
      } catch (error) {
        const isExpected = error instanceof StorageUnavailable;
        if (!isExpected) onDefect(error);
        // What a surface has begun to say is not an answer.
        for (const name of ["Set-Cookie", "Location", "ETag", "Content-Disposition"]) ctx.remove(name);
        ctx.set("Retry-After", String(RETRY_AFTER_SECONDS));
        refuse(ctx, 503, "storage_unavailable", "Try again in a moment.");
        return error;
      }
    }

    return async function administration(koa) {
      const ctx = begin(koa);
      const { administration: exchange } = ctx;
      const startedAt = performance.now();
      const end = running.begin();
      ctx.set("X-Request-Id", exchange.requestId);
      // A page of the console replaces them with those that allow its style.
      securityHeaders(ctx, { secure });
      const surface = isRest(ctx) ? "rest" : "console";
      const span = spanOf(ctx, proxy, telemetry);
      const fault = await (span === undefined ? answer(ctx) : span.run(() => answer(ctx)));
      const report = (): void => {
        end();
        onRequest({
          requestId: exchange.requestId,
          method: ctx.method,
          template: `/administration${exchange.template}`,
          endpoint: "administration",
          status: ctx.status,
          seconds: (performance.now() - startedAt) / 1000,
          isAborted: !ctx.res.writableFinished,
          client: undefined,
          address: exchange.address,
          fault,
          span,
        });
        noteRefusal(ctx);
        events.emit("administration.answered", { surface, status: ctx.status });
      };
      if (ctx.res.closed) report();
      else ctx.res.once("close", report);
    };
  }

  return { middleware, drain: async () => void (await running.idle(DRAIN_TIMEOUT_MS)) };
}

/** @throws ConfigurationError */
function checkedOrigin(url: string | undefined, { deployments, cookies, production }: Configuration): string {
  if (url === undefined)
    throw new ConfigurationError(["config.admin.url: is required, or give administration({ url }) one"]);
  const kinds = [deployments.oauth2, deployments.openid].filter((each) => each !== undefined);
  const problems = isOrigin(url)
    ? adminUrlProblems(url, { deployments: kinds, cookieDomain: cookies.domain, production })
    : ["must be an origin: https, or http on loopback, without a path"];
  if (problems.length > 0) throw new ConfigurationError(problems.map((text) => `config.admin.url: ${text}`));
  return url;
}

/**
 * The Host of the request itself: no header about it counts, because a page can send each of them with a script. Empty if there is
 * none or more than one, or if the request names another host in its first line.
 */
function ownHost(req: IncomingMessage): string {
  return req.url?.startsWith("/") === true ? requestedHost(req, false) : "";
}

function isRest({ path }: Context): boolean {
  return path === "/v1" || path.startsWith("/v1/");
}

/** A problem document (RFC 9457) for `/v1`, words for everybody else. */
function refuse(ctx: AdministrationContext, status: number, code: string, detail: string): void {
  ctx.status = status;
  ctx.set("Cache-Control", "no-store");
  if (isRest(ctx)) {
    const { requestId } = ctx.administration;
    const type = `urn:sign-in-service:problem:${code}`;
    ctx.body = JSON.stringify({ type, title: detail, status, code, request_id: requestId });
    ctx.type = "application/problem+json";
  } else {
    ctx.type = "text/plain; charset=utf-8";
    ctx.body = `${detail}\n`;
  }
}
