/** What the HTTP layer and oidc-provider hand each other about one request, in `ctx.state`. */
import type { KoaContextWithOIDC } from "oidc-provider";
import type { Deployment } from "../config/configuration.ts";
import type { Actor, Caller } from "../records/audit/audit-event.ts";
import { originOf } from "../records/audit/origin.ts";

export interface RequestState {
  /** Set by the HTTP layer: the deployment that the request came to. */
  deployment: Deployment;
  /** Set by the HTTP layer: the caller's address, as far as proxies are trusted. */
  address: string;
  /** Set while the rate limit of the client's secret is still being read; the response waits for it. */
  verdict?: Promise<Verdict>;
  /** Set when an attempt was refused by a rate limit: seconds until the next one can succeed. */
  retryAfter?: number;
  /** Set when oidc-provider has an error to show; the HTTP layer renders it as a page or as JSON. */
  problem?: Problem;
}

/** Whether a client with a correct secret may continue, and if not, for how many seconds. */
export interface Verdict {
  readonly allowed: boolean;
  readonly retryAfter: number;
}

export interface Problem {
  readonly error: string;
  readonly error_description?: string;
}

/** The state that the HTTP layer gave to a context of oidc-provider. */
export function requestState(ctx: { readonly state: unknown }): RequestState {
  return ctx.state as RequestState;
}

/** The actor and origin of a request that oidc-provider handles, as the audit records them. */
export function callerOf(
  ctx: Pick<KoaContextWithOIDC, "state" | "headers"> & { readonly oidc?: KoaContextWithOIDC["oidc"] },
  actor: Actor,
): Caller {
  const { address = "" } = ctx.state as Partial<RequestState>;
  const client = ctx.oidc?.client?.clientId;
  return {
    actor,
    ...(client === undefined ? {} : { client }),
    ...originOf(address, ctx.headers["user-agent"]),
  };
}
