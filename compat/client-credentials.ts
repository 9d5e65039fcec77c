/** The client's credentials at the token endpoint and wherever else a client authenticates. oidc-provider checks them. */
import { clientIdProblem, isClientId } from "../accounts/text-rules.ts";
import { type ClientInternals, profileRules } from "../accounts/clients/client.ts";
import type { FapiPlace } from "../accounts/clients/fapi.ts";
import { noteFailure } from "../accounts/limits/attempt-limits.ts";
import type { AccountServices } from "../accounts/services.ts";
import { assertionFault } from "../provider/assertions.ts";
import { formDecoded } from "../provider/clients.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import { callerOf } from "../provider/exchange.ts";
import { protocolClientId } from "../records/directory/document-kinds.ts";
import type { ClientRecord } from "../records/directory/directory.ts";
import { badRequest, EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange } from "./exchange.ts";
import type { Fields } from "./form-fields.ts";

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

/** The `kid` of an assertion, unverified. */
function assertedKey(assertion: string): string | undefined {
  try {
    const header: unknown = JSON.parse(Buffer.from(assertion.split(".", 1)[0] ?? "", "base64url").toString());
    const { kid } = Object(header) as { readonly kid?: unknown };
    return typeof kid === "string" ? kid : undefined;
  } catch {
    return undefined;
  }
}

/** The client of a request with its credentials, which oidc-provider has yet to check. */
export interface PresentedClient {
  /** Missing if it is not known. It may be disabled. */
  readonly client: ClientRecord | undefined;
  /** The `Authorization` header for oidc-provider. */
  readonly authorization: string | undefined;
}

/** Runs the work for the client of a form, and counts the attempt if its credentials are wrong. */
export type WithClient = (
  exchange: EndpointExchange,
  body: Fields,
  work: (presented: PresentedClient) => Promise<void>,
) => Promise<void>;

/**
 * Finds the client and requires credentials: a secret, an assertion, or just the `client_id` of a client that can keep
 * neither. oidc-provider checks them. It reads Basic credentials only in the form-encoded way of RFC 6749 section
 * 2.3.1, so it gets the plain reading in that encoding; the secret check tries the other reading.
 */
export function clientCredentials({
  clients,
  limits,
  audit,
  documents,
}: Pick<AccountServices, "clients" | "limits" | "audit" | "documents">): WithClient {
  /** The client with its newest keys, if its assertion names one that the kept copy lacks. Only the token endpoint asks. */
  async function withNewKeys(exchange: EndpointExchange, body: Fields): Promise<void> {
    const { client, endpoint } = exchange;
    const assertion = body.one("client_assertion");
    if (endpoint !== "token" || client?.document === undefined || assertion === undefined) return;
    const kid = assertedKey(assertion);
    if (kid === undefined || client.jwks?.keys.some((key) => key["kid"] === kid) !== false) return;
    if (await documents?.newKeys(client.document.url))
      exchange.client = await clients.record(client.client_id);
  }

  return async (exchange, body, work) => {
    if (documents !== undefined) {
      const id = body.one("client_id") ?? assertedClient(body.one("client_assertion"));
      await findClient(exchange, clients, id);
      await withNewKeys(exchange, body);
    }
    const { presents, ...presented } = await readCredentials(exchange, body, clients);
    await requireProfile("credentials", exchange, presented.client, body);
    if (presents === undefined) return work(presented);
    try {
      await work(presented);
    } catch (error) {
      const isWrong = error instanceof EndpointError && error.error === "invalid_client";
      // A wrong secret has been counted where it was compared.
      if (!isWrong || exchange.authentication.isCompared) throw error;
      throw await counted(exchange, body.one("client_assertion"), { presents, ...presented }, error);
    }
  };

  /** Consumes a point for wrong credentials, and records the failure. @returns the error, with the time to wait if there is one. */
  async function counted(
    exchange: EndpointExchange,
    assertion = "",
    { client, presents }: Credentials & { readonly presents: Presents },
    { status, error, message }: EndpointError,
  ): Promise<EndpointError> {
    const { ctx, address } = exchange;
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
          presents === "assertion" && {
            detail: { wrong: await assertionFault(assertion, client, exchange) },
          }),
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

interface Credentials extends PresentedClient {
  /** `undefined` for a client without credentials. */
  readonly presents: Presents | undefined;
}

/** Refuses a request that breaks a rule of the security profile of its client. */
export async function requireProfile(
  place: FapiPlace,
  { deployment }: EndpointExchange,
  client: ClientRecord | undefined,
  fields?: Fields,
): Promise<void> {
  const rules = await profileRules(client);
  const parameter = (name: string): string | undefined => fields?.one(name);
  const broken = rules?.brokenRule(place, { deployment: deployment.kind, parameter });
  if (broken !== undefined) throw badRequest(broken.error, broken.message);
}

/** Whether a client can't prove who it is. */
export const isOpen = (
  { kindOf }: Pick<ClientInternals, "kindOf">,
  client: ClientRecord | undefined,
): boolean => client !== undefined && !kindOf(client).confidential;

async function readCredentials(
  exchange: EndpointExchange,
  body: Fields,
  clients: Pick<ClientInternals, "record" | "kindOf">,
): Promise<Credentials> {
  const { authorization } = exchange.ctx.req.headers;
  if (authorization === undefined) {
    const assertion = body.one("client_assertion");
    const id = body.one("client_id") ?? assertedClient(assertion);
    const client = await findClient(exchange, clients, id);
    const sent = [body.one("client_secret"), assertion].filter((each) => each !== undefined && each !== "");
    const hasNone = isOpen(clients, client);
    if (hasNone && sent.length > 0) throw badRequest("invalid_client", "this client has no credentials");
    if (!id || (!hasNone && sent.length === 0)) throw missing();
    const proof = assertion === undefined ? "credentials" : "assertion";
    return { client, authorization, presents: hasNone ? undefined : proof };
  }
  const plain = plainBasic(authorization);
  const client = await findClient(exchange, clients, plain?.id);
  if (plain === undefined) throw invalidRequest("the Authorization header is malformed");
  if (plain.id === "" || plain.secret === "") throw missing();
  if (isOpen(clients, client)) throw badRequest("invalid_client", "this client has no credentials");
  const formEncoded = `${encodeURIComponent(plain.id)}:${encodeURIComponent(plain.secret)}`;
  const encoded = Buffer.from(formEncoded).toString("base64");
  return { client, authorization: `Basic ${encoded}`, presents: "credentials" };
}

/** Comes before every check: the client's registration decides which status an error gets. */
async function findClient(
  exchange: EndpointExchange,
  clients: Pick<ClientInternals, "record">,
  id: string | undefined,
): Promise<ClientRecord | undefined> {
  if (id === undefined || !isClientId(id)) return undefined;
  const known = exchange.client;
  if (known !== undefined && protocolClientId(known) === id) return known;
  exchange.client = await clients.record(id);
  return exchange.client;
}
