/** The documented token endpoint, in front of the library's. */
import { clientIdProblem } from "../lib/domain/text-rules.ts";
import { ConditionFailed } from "../lib/errors.ts";
import { formDecoded } from "../lib/provider/clients.ts";
import { EndpointError } from "./endpoint-error.ts";
import type { CompatDependencies, Step } from "./exchange.ts";
import type { Protocol } from "./protocol-step.ts";
import { presentedGrant } from "./read-ahead.ts";

const BASIC = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/**
 * The client that a Basic credential names, and its secret as it is meant when it is not form-encoded. A client_id
 * never has a character that form-encoding writes otherwise and that means itself, so it has one reading only:
 * some clients write even `-` as `%2D`.
 */
export function plainBasic(header: string): { readonly id: string; readonly secret: string } | undefined {
  const encoded = BASIC.exec(header)?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  const colon = text.indexOf(":");
  if (colon === -1 || text.includes("\uFFFD") || text.includes("\0")) return undefined;
  const id = text.slice(0, colon);
  const decoded = formDecoded(id) ?? "";
  return { id: clientIdProblem(decoded) === undefined ? decoded : id, secret: text.slice(colon + 1) };
}

/**
 * The library reads Basic in the form-encoded way of RFC 6749 section 2.3.1 only. It is given the plain reading
 * encoded in that way; the other reading is tried where the secret is compared.
 */
export const basicReadings: Step = async (exchange, next) => {
  const header = exchange.ctx.req.headers.authorization;
  if (header !== undefined) {
    const plain = plainBasic(header);
    if (plain === undefined)
      throw new EndpointError(400, "invalid_request", "the Authorization header is malformed");
    if (plain.id === "" || plain.secret === "")
      throw new EndpointError(400, "invalid_client", "the client's credentials are missing");
    const both = `${encodeURIComponent(plain.id)}:${encodeURIComponent(plain.secret)}`;
    exchange.authorization = `Basic ${Buffer.from(both).toString("base64")}`;
  }
  await next();
};

/** Which client asks, and that it shows a secret; whether it is the right one the library says. */
export function namedClient({ clients }: CompatDependencies): Step {
  return async (exchange, next) => {
    const { body, ctx } = exchange;
    const header = ctx.req.headers.authorization;
    const id = header === undefined ? body?.one("client_id") : plainBasic(header)?.id;
    if (id !== undefined && clientIdProblem(id) === undefined) {
      const client = await clients.record(id);
      if (client) exchange.client = client;
    }
    if (header === undefined && !(body?.one("client_id") && body.one("client_secret"))) {
      throw new EndpointError(400, "invalid_client", "the client's credentials are missing");
    }
    await next();
  };
}

/** The library lets the address be left out for clients with one; the document does not. */
export const requiredRedirect: Step = async (exchange, next) => {
  const { body } = exchange;
  if (body?.one("grant_type") === "authorization_code" && !body.one("redirect_uri")) {
    throw new EndpointError(400, "invalid_request", "redirect_uri is missing");
  }
  await next();
};

/**
 * Of the form only what the grants know: RFC 6749 section 3.2 has the rest ignored, and the library takes less
 * of it than the 64 KiB that are let in.
 */
const PARAMETERS = [
  "grant_type",
  "client_id",
  "client_secret",
  "code",
  "redirect_uri",
  "code_verifier",
  "refresh_token",
  "username",
  "password",
  "scope",
] as const;

/** Of the answer only the documented members, in the documented order. */
const MEMBERS = ["access_token", "token_type", "expires_in", "refresh_token"] as const;

/**
 * Runs the library in a unit of its own. When somebody else consumed the refresh token first, the request runs
 * once more and finds the answer that the winner left for the window.
 */
export function tokenProtocol(protocol: Protocol, atomic: Step, dependencies: CompatDependencies): Step {
  const { events } = dependencies;
  return async (exchange) => {
    const attempt = (): Promise<void> =>
      atomic(exchange, async () => {
        const { oidc } = await protocol(exchange, { body: exchange.body!.only(PARAMETERS) });
        const { ctx, deployment } = exchange;
        const all = ctx.body as Record<string, unknown>;
        const documented = Object.fromEntries(MEMBERS.map((member) => [member, all[member]]));
        if (deployment.kind === "openid" && all["id_token"] !== undefined)
          documented["id_token"] = all["id_token"];
        ctx.body = documented;
        const sub = oidc?.entities.Account?.accountId;
        const client_id = oidc?.client?.clientId ?? "";
        const grant_type = exchange.body?.one("grant_type") ?? "";
        exchange.outcome.push(() =>
          events.emit("tokens.issued", { client_id, grant_type, ...(sub === undefined ? {} : { sub }) }),
        );
      });
    try {
      await attempt();
    } catch (error) {
      if (!(error instanceof ConditionFailed)) throw error;
      exchange.outcome.length = 0;
      if (exchange.body?.one("grant_type") !== "refresh_token") throw refused();
      exchange.ahead = presentedGrant(exchange, dependencies);
      await attempt().catch((again: unknown) => {
        throw again instanceof ConditionFailed ? refused() : again;
      });
    }
  };
}

function refused(): EndpointError {
  return new EndpointError(400, "invalid_grant", "the grant was used, has ended or is not known");
}
