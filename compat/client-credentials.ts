/** The client's credentials at the token endpoint and wherever else a client authenticates. oidc-provider checks them. */
import { clientIdProblem } from "../accounts/text-rules.ts";
import type { ClientInternals } from "../accounts/clients/client.ts";
import { formDecoded } from "../provider/clients.ts";
import { badRequest, invalidRequest } from "./errors.ts";
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

/**
 * Finds the client and requires a secret. oidc-provider reads Basic credentials only in the form-encoded way of
 * RFC 6749 section 2.3.1, so it gets the plain reading in that encoding; the secret check tries the other reading.
 */
export function clientCredentials(clients: Pick<ClientInternals, "record">): Step {
  return async (exchange, next) => {
    const { authorization } = exchange.ctx.req.headers;
    if (authorization === undefined) {
      const { body } = exchange;
      await findClient(exchange, clients, body?.one("client_id"));
      if (!(body?.one("client_id") && body.one("client_secret"))) throw missing();
      return next();
    }
    const plain = plainBasic(authorization);
    await findClient(exchange, clients, plain?.id);
    if (plain === undefined) throw invalidRequest("the Authorization header is malformed");
    if (plain.id === "" || plain.secret === "") throw missing();
    const formEncoded = `${encodeURIComponent(plain.id)}:${encodeURIComponent(plain.secret)}`;
    exchange.authorization = `Basic ${Buffer.from(formEncoded).toString("base64")}`;
    return next();
  };
}

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
