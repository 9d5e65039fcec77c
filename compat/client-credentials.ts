/** The client's credentials at the token endpoint and wherever else a client authenticates. oidc-provider checks them. */
import { clientIdProblem } from "../accounts/text-rules.ts";
import type { ClientInternals } from "../accounts/clients/client.ts";
import { KINDS } from "../accounts/clients/client-kinds.ts";
import { noteFailure } from "../accounts/limits/attempt-limits.ts";
import type { AccountServices } from "../accounts/services.ts";
import { assertionFault } from "../provider/assertions.ts";
import { formDecoded } from "../provider/clients.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import { callerOf } from "../provider/exchange.ts";
import { badRequest, EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange, Step } from "./exchange.ts";

const BASIC = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/**
 * Reads a Basic credential: the client_id, and the secret as it stands, without form-decoding. Some clients write even
 * `-` as `%2D`, so a client_id that is valid once decoded is decoded: form-encoding changes no character that a
 * client_id may contain, so there is no ambiguity.
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

const missing = (): Error => badRequest("invalid_client", "the client's credentials are missing");

/** The `sub` of an assertion, unverified: it only says which client signed it (RFC 7523 section 3). */
function assertedClient(assertion: string | undefined): string | undefined {
  const [, payload = ""] = assertion?.split(".") ?? [];
  try {
    const { sub } = Object(JSON.parse(Buffer.from(payload, "base64url").toString())) as {
      readonly sub?: unknown;
    };
    return typeof sub === "string" ? sub : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Finds the client and requires credentials: a secret, an assertion, or just the `client_id` of a client that can keep
 * neither. oidc-provider checks them. It reads Basic credentials only in the form-encoded way of RFC 6749 section
 * 2.3.1, so it gets the plain reading in that encoding; the secret check tries the other reading.
 */
export function clientCredentials({
  clients,
  limits,
  audit,
}: Pick<AccountServices, "clients" | "limits" | "audit">): Step {
  return async (exchange, next) => {
    const presents = await readCredentials(exchange, clients);
    if (presents === undefined) return next();
    try {
      await next();
    } catch (error) {
      const isWrong = error instanceof EndpointError && error.error === "invalid_client";
      // A wrong secret has been counted where it was compared.
      if (!isWrong || exchange.isSecretCounted) throw error;
      throw await counted(exchange, presents, error);
    }
  };

  /** Consumes a point for wrong credentials, and records the failure. @returns the error, with the time to wait if there is one. */
  async function counted(
    exchange: EndpointExchange,
    presents: Presents,
    { status, error, message }: EndpointError,
  ): Promise<EndpointError> {
    const { ctx, client, address, body } = exchange;
    const assertion = body?.one("client_assertion") ?? "";
    const isKnown = client !== undefined && !client.disabled;
    const attempt = await limits.wrongClient({ client: client?.client_id, address });
    noteFailure(
      audit,
      {
        ...callerOf(ctx, ANONYMOUS),
        action: "client.authentication",
        ...(client && { subject: client.client_id }),
        reason: client === undefined ? "unknown" : client.disabled ? "disabled" : presents,
        ...(isKnown &&
          presents === "assertion" && { detail: { wrong: assertionFault(assertion, client, exchange) } }),
      },
      attempt,
    );
    return new EndpointError(
      status,
      error,
      message,
      attempt.allowed ? {} : { retryAfter: attempt.retryAfter },
    );
  }
}

/** The reason in the audit when these were wrong. */
type Presents = "credentials" | "assertion";

/** @returns what the request presents; `undefined` for a client without credentials. */
async function readCredentials(
  exchange: EndpointExchange,
  clients: Pick<ClientInternals, "record">,
): Promise<Presents | undefined> {
  const { authorization } = exchange.ctx.req.headers;
  const { body } = exchange;
  if (authorization === undefined) {
    const assertion = body?.one("client_assertion");
    const id = body?.one("client_id") ?? assertedClient(assertion);
    await findClient(exchange, clients, id);
    const isOpen = exchange.client !== undefined && !KINDS[exchange.client.kind].confidential;
    const sent = [body?.one("client_secret"), assertion].filter((each) => each !== undefined && each !== "");
    if (isOpen && sent.length > 0) throw badRequest("invalid_client", "this client has no credentials");
    if (!id || (!isOpen && sent.length === 0)) throw missing();
    if (isOpen) return undefined;
    return assertion === undefined ? "credentials" : "assertion";
  }
  const plain = plainBasic(authorization);
  await findClient(exchange, clients, plain?.id);
  if (plain === undefined) throw invalidRequest("the Authorization header is malformed");
  if (plain.id === "" || plain.secret === "") throw missing();
  if (exchange.client !== undefined && !KINDS[exchange.client.kind].confidential)
    throw badRequest("invalid_client", "this client has no credentials");
  const formEncoded = `${encodeURIComponent(plain.id)}:${encodeURIComponent(plain.secret)}`;
  exchange.authorization = `Basic ${Buffer.from(formEncoded).toString("base64")}`;
  return "credentials";
}

/** Introspection is for clients that prove who they are (RFC 7662 section 2.1). */
export const confidentialClient: Step = async ({ client }, next) => {
  if (client !== undefined && !KINDS[client.kind].confidential)
    throw badRequest("invalid_client", "introspection needs a client with credentials");
  await next();
};

/** Comes before every check: the client's registration decides which status an error gets. */
async function findClient(
  exchange: EndpointExchange,
  clients: Pick<ClientInternals, "record">,
  id: string | undefined,
): Promise<void> {
  if (id === undefined || clientIdProblem(id) !== undefined) return;
  const client = await clients.record(id);
  if (client) exchange.client = client;
}
