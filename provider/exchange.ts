/**
 * One request and its response. The exchange is made where a request arrives and travels with it: through the steps of
 * the endpoints as their argument, and through pages and oidc-provider as `ctx.exchange`.
 */
import type { ParameterizedContext } from "koa";
import type { KoaContextWithOIDC } from "oidc-provider";
import type { Deployment } from "../config/configuration.ts";
import type { EndpointName } from "../config/deployments.ts";
import type { Proof } from "../core/dpop-proof.ts";
import { type Actor, type Caller, clientNow } from "../records/audit/audit-event.ts";
import { originOf } from "../records/audit/origin.ts";
import type { ApiRecord, ClientRecord } from "../records/directory/directory.ts";
import type { Browser } from "./sessions/browser-cookie.ts";

export interface Exchange {
  /** Names the request in the response, the log, error pages and the audit. */
  readonly requestId: string;
  readonly deployment: Deployment;
  readonly endpoint: EndpointName;
  /** The path below the base URL. */
  readonly path: string;
  /** The `:uid` segment of the path. */
  readonly uid: string | undefined;
  /** The `:step` segment of the path. */
  readonly step: string | undefined;
  /** The caller's IP address, as far as proxies are trusted. */
  readonly address: string;
  /** A HEAD request: it is answered like GET, and stores nothing. */
  readonly isHead: boolean;
  /** When the last byte of the request had arrived, on the clock of `performance`. */
  receivedAt: number;
  /** Nothing of this request is committed later than this: milliseconds since the epoch. */
  deadline: number;
  /** The form in the body, which repeats no field. Rejects with an error whose `status` is 400 if the body is unusable. */
  form(): Promise<ReadonlyMap<string, string>>;
  /** The JSON in the body. Rejects with an error whose `status` is 400 if the body is unusable. */
  json(): Promise<unknown>;
  /**
   * Waits for a server of somebody else, which has time limits of its own. Those of the request begin again afterwards, and
   * meanwhile it keeps no other request from its turn.
   */
  outside: <T>(work: () => Promise<T>) => Promise<T>;
  /** The browser of the request. */
  readonly browser: Browser;
  /** The client that the request names, once it was read. It may not be authenticated yet. */
  client: ClientRecord | undefined;
  /** The API that an unregistered client asks for, once it has been looked up. */
  api?: ApiRecord;
  readonly authentication: Authentication;
  /** The DPoP proof of the request. oidc-provider sees it once it is checked. */
  readonly proof: SentProof;
  /** Seconds until an attempt that a rate limit refused can succeed; 0 while none was refused. */
  retryAfter: number;
}

/** The header `DPoP` of a request. */
export interface SentProof {
  /** As it came; empty without the header. */
  readonly sent: string;
  /** What it proves. */
  checked: Proof | undefined;
  /** The key of the access token whose possession it proves to us: to oidc-provider it is a bearer token. */
  token?: string | undefined;
}

/** What is known about the credentials of a request while oidc-provider checks them. */
export interface Authentication {
  /** Whether an assertion has the signature of its client; its claims may still be wrong. */
  isSigned: boolean;
  /** Whether a secret was compared: a wrong one has consumed its point. */
  isCompared: boolean;
  /** The rate limit of the secret, which may still be read while the request goes on. The response waits for it. */
  verdict: Promise<Verdict>;
}

export function newAuthentication(): Authentication {
  return { isSigned: false, isCompared: false, verdict: Promise.resolve({ allowed: true, retryAfter: 0 }) };
}

/** Whether a client with a correct secret may continue, and if not, for how many seconds. */
export interface Verdict {
  readonly allowed: boolean;
  readonly retryAfter: number;
}

/** A Koa context of a request for this service. */
export type ServiceContext = ParameterizedContext & { readonly exchange: Exchange };

/** Makes the exchange part of a context. */
export function withExchange<Context extends object>(
  ctx: Context,
  exchange: Exchange,
): Context & { readonly exchange: Exchange } {
  return Object.assign(ctx, { exchange });
}

/** The exchange of a context of oidc-provider; `undefined` when the host application has made the context. */
export function exchangeIn(ctx: object | undefined): Exchange | undefined {
  return (ctx as Partial<ServiceContext> | undefined)?.exchange;
}

/** A context of oidc-provider with its exchange. @throws TypeError when the host application has made the context. */
export function serviceContext<Context extends object>(
  ctx: Context,
): Context & { readonly exchange: Exchange } {
  if (exchangeIn(ctx) === undefined)
    throw new TypeError("this request did not come through service.routes()");
  return ctx as Context & { readonly exchange: Exchange };
}

/** The exchange of such a context. */
export const exchangeOf = (ctx: object): Exchange => serviceContext(ctx).exchange;

/** The actor and origin of a request, as the audit records them. */
export function callerOf(
  ctx: {
    readonly headers: ParameterizedContext["headers"];
    readonly oidc?: Pick<KoaContextWithOIDC["oidc"], "client">;
  },
  actor: Actor,
): Caller {
  const exchange = exchangeIn(ctx);
  // `clientRecord`, which is on a higher floor.
  const client = (ctx.oidc?.client?.["record"] as ClientRecord | undefined) ?? exchange?.client;
  return {
    actor,
    ...(client !== undefined && { client: clientNow(client) }),
    ...(exchange !== undefined && { request: exchange.requestId }),
    ...originOf(exchange?.address ?? "", ctx.headers["user-agent"]),
  };
}
