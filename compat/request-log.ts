/** The log: one line for each request, without personal data (decisions.md, Log and Request id). */
import { createHmac, type KeyObject, randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Context } from "koa";
import type { Logger } from "pino";
import { callerNetwork } from "../accounts/limits/networks.ts";
import type { ProxyTrust } from "../config/configuration.ts";
import { describeDefect } from "../core/logger.ts";
import type { RequestSpan, Telemetry } from "../core/telemetry.ts";
import { isFromProxy } from "./forwarded.ts";

/** A request that was answered, or given up by its caller. */
export interface HandledRequest {
  readonly requestId: string;
  readonly method: string;
  /** The path with names in place of identifiers, such as `/interaction/:uid`. */
  readonly template: string;
  /** A name of the table of endpoints. */
  readonly endpoint: string;
  readonly status: number;
  /** Since its last byte arrived. */
  readonly seconds: number;
  /** Whether the caller closed the connection before it had the response. */
  readonly isAborted: boolean;
  /** The client that the request names, if there is one. */
  readonly client: string | undefined;
  /** The caller's IP address. */
  readonly address: string;
  /** The error of a request that failed through no fault of its caller. */
  readonly fault: unknown;
  /** Whether a limit has refused it, so that even a 5xx is no failure. Default: no. */
  readonly isLimited?: boolean;
  /** Its span. Default: it has none. */
  readonly span?: RequestSpan | undefined;
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** The `X-Request-Id` of a trusted proxy, or a new one. */
export function requestIdOf(req: IncomingMessage, proxy: ProxyTrust): string {
  const sent = req.headers["x-request-id"];
  return typeof sent === "string" && REQUEST_ID.test(sent) && isFromProxy(req, proxy) ? sent : randomUUID();
}

/** The span of a request that has arrived; `undefined` if telemetry is off. */
export function spanOf(
  { method, req }: Pick<Context, "method" | "req">,
  proxy: ProxyTrust,
  telemetry: Telemetry | undefined,
): RequestSpan | undefined {
  return telemetry?.request(method, req.headers["traceparent"], isFromProxy(req, proxy));
}

/** Characters of a keyed hash that tell the networks of a log apart. */
const NETWORK_LENGTH = 12;

/** @param key makes keyed hashes of networks, so that lines of one caller can be found, and the log names nobody. */
export function createRequestLog(logger: Logger, key: KeyObject): (request: HandledRequest) => void {
  const hashed = (address: string): string =>
    createHmac("sha256", key).update(callerNetwork(address)).digest("base64url").slice(0, NETWORK_LENGTH);
  return function logRequest({
    requestId,
    method,
    template,
    status,
    seconds,
    isAborted,
    client,
    address,
    fault,
    isLimited = false,
    span,
  }) {
    const line = {
      request_id: requestId,
      ...(span?.traceId !== undefined && { trace_id: span.traceId }),
      method,
      path: template,
      status,
      ms: Math.round(seconds * 10_000) / 10,
      ...(client !== undefined && { client_id: client }),
      network: hashed(address),
      ...(isAborted && { aborted: true }),
    };
    if (status < 500 || (isLimited && fault === undefined)) logger.info(line, "request");
    else
      logger.error(
        { ...line, ...(fault !== undefined && { fault: describeDefect(fault) }) },
        "request failed",
      );
  };
}
