/**
 * Which scripts may read the answers of the service (CORS): those from the origins of public clients, at the endpoints
 * that they use. oidc-provider refuses a request from another origin. Here it is served without the headers, so the
 * answer reveals nothing about an origin, and server-side clients that send one are not affected.
 */
import type { EndpointName } from "../config/deployments.ts";
import type { ClientInternals } from "../accounts/clients/client.ts";
import { originsOf } from "../accounts/clients/client-kinds.ts";
import type { Documents } from "../accounts/documents/documents.ts";
import type { ServiceEmitter } from "../core/events.ts";
import { withTimeout } from "../core/with-timeout.ts";
import type { EndpointExchange } from "./exchange.ts";

const OPEN: ReadonlySet<EndpointName> = new Set([
  "token",
  "revoke",
  "userinfo",
  "userinfoAlias",
  "profile",
  "profileAlias",
  "standardUserinfo",
]);

const PREFLIGHT_HEADERS = {
  "Access-Control-Allow-Methods": "GET, POST",
  "Access-Control-Allow-Headers": "Authorization, Content-Type, DPoP",
  "Access-Control-Max-Age": "600",
} as const;
const EXPOSED_HEADERS = "WWW-Authenticate, Retry-After, DPoP-Nonce";

/** All origins are read again after this. */
const MAX_AGE_MS = 5_000;
/** A storage that hangs must not delay the answer that reports it. */
const LOOK_UP_TIMEOUT_MS = 150;

/** A request at an endpoint that is open to other origins. */
export interface CrossOriginRequest {
  /** Whether the browser asks if it may send the request. */
  readonly isPreflight: boolean;
  /** Adds the headers to the answer, whatever it is. */
  addHeaders(): Promise<void>;
}

export interface CrossOrigin {
  /** @returns `undefined` at all other endpoints, and where the host application has already set the headers. */
  begin(exchange: EndpointExchange): CrossOriginRequest | undefined;
}

const late = (): Error => new Error("the origins were not read in time");

/** Whether the client that the request names lists the origin; if it names none, whether any client does. */
async function isListed(
  { client }: EndpointExchange,
  { kindOf }: Pick<ClientInternals, "kindOf">,
  origin: string,
  all: Promise<ReadonlySet<string>>,
  last: ReadonlySet<string>,
): Promise<boolean> {
  if (client !== undefined) return !client.disabled && originsOf(kindOf(client), client).includes(origin);
  // A script can read that the storage fails.
  const origins = await withTimeout(LOOK_UP_TIMEOUT_MS, all, late).catch(() => last);
  return origins.has(origin);
}

export function createCrossOrigin({
  clients,
  documents,
  events,
}: {
  readonly clients: Pick<ClientInternals, "kindOf" | "allOrigins">;
  readonly documents?: Pick<Documents, "mayHaveScripts"> | undefined;
  readonly events: Pick<ServiceEmitter, "on">;
}): CrossOrigin {
  let known: { readonly since: number; readonly origins: Promise<ReadonlySet<string>> } | undefined;
  /** Those that were read last, for answers while they can't be read. */
  let last: ReadonlySet<string> = new Set();
  events.on("client.changed", () => {
    known = undefined;
    last = new Set();
  });

  /** The origins of all enabled clients. */
  function allOrigins(): Promise<ReadonlySet<string>> {
    const now = performance.now();
    if (known !== undefined && now - known.since <= MAX_AGE_MS) return known.origins;
    const reading = { since: now, origins: clients.allOrigins() };
    known = reading;
    reading.origins.then(
      (origins) => known === reading && (last = origins),
      () => known === reading && (known = undefined),
    );
    return reading.origins;
  }

  return {
    begin(exchange) {
      const { ctx, endpoint } = exchange;
      if (!OPEN.has(endpoint)) return undefined;
      if (ctx.res.getHeaderNames().some((name) => name.startsWith("access-control-"))) return undefined;
      const origin = ctx.get("Origin");
      const isPreflight =
        ctx.method === "OPTIONS" && origin !== "" && ctx.get("Access-Control-Request-Method") !== "";
      // The same work for every origin.
      const all = origin === "" ? undefined : allOrigins();
      all?.catch(() => undefined);
      return {
        isPreflight,
        async addHeaders() {
          ctx.vary("Origin");
          if (all === undefined) return;
          // A preflight names no client. What it lets a script send, the script reads only if its client lists the origin.
          const mayAsk =
            isPreflight &&
            exchange.deployment.kind === "openid" &&
            documents?.mayHaveScripts(origin) === true;
          if (!(await isListed(exchange, clients, origin, all, last)) && !mayAsk) return;
          ctx.set("Access-Control-Allow-Origin", origin);
          if (isPreflight) ctx.set(PREFLIGHT_HEADERS);
          else ctx.set("Access-Control-Expose-Headers", EXPOSED_HEADERS);
        },
      };
    },
  };
}
