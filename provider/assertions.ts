/**
 * The claims of a client's assertion (`private_key_jwt`, RFC 7523). oidc-provider checks the algorithm, the signature, `iss`,
 * `sub` and `nbf`, and that the assertion is used once. The rules here go further (decisions.md, `private_key_jwt`).
 */
import { type Client, errors, type KoaContextWithOIDC } from "oidc-provider";
import { profileRules } from "../accounts/clients/client.ts";
import { isKeyFor } from "../core/client-keys.ts";
import type { Deployment } from "../config/configuration.ts";
import type { ClientRecord } from "../records/directory/directory.ts";
import { protocolClientId } from "../records/directory/document-kinds.ts";
import { clientRecord } from "./clients.ts";
import { type Exchange, exchangeOf } from "./exchange.ts";

/** Clocks of clients may differ by this much. */
export const ASSERTION_TOLERANCE_SECONDS = 30;

/** An assertion is made for one request. One that lives longer would be a secret sent over the network. */
const MAX_SECONDS = 300;
const MAX_JTI_LENGTH = 512;

/**
 * What is wrong with an assertion, as the audit says it. `key`: its client has no such key, or none for its algorithm.
 * `client`: `iss` or `sub` is another one. `form`: it can't be read, has `crit`, or lacks a claim. `used`: it is right, and
 * was used before.
 */
export type AssertionFault = "form" | "key" | "client" | "audience" | "time" | "signature" | "used";

type Members = Readonly<Record<string, unknown>>;

/**
 * Whom an assertion may be for: the token endpoint of the deployment, also at its other endpoints, or on `openid` the
 * issuer. One that was made for another server, or for another endpoint here, is useless to anybody who gets hold of
 * it.
 */
function audiencesOf({ kind, url }: Deployment): readonly string[] {
  return [`${url}/oauth2/token`, ...(kind === "openid" ? [url] : [])];
}

/** Times that clients sign are compared with the system's clock. */
function isTimely({ iat, exp, nbf }: Members): boolean {
  const now = Math.floor(Date.now() / 1000);
  if (typeof iat !== "number" || typeof exp !== "number") return false;
  if (nbf !== undefined && (typeof nbf !== "number" || nbf > now + ASSERTION_TOLERANCE_SECONDS)) return false;
  if (iat > now + ASSERTION_TOLERANCE_SECONDS) return false;
  if (iat < now - MAX_SECONDS - ASSERTION_TOLERANCE_SECONDS) return false;
  return exp > now && exp <= now + MAX_SECONDS;
}

/** What is wrong with the header and the claims, whoever signed them. */
async function faultOf(
  header: Members,
  claims: Members,
  deployment: Deployment,
  client: Pick<ClientRecord, "profile">,
): Promise<AssertionFault | undefined> {
  const { aud, jti } = claims;
  const rules = await profileRules(client);
  // No extension is understood here (RFC 7515 section 4.1.11).
  if (header["crit"] !== undefined) return "form";
  if (typeof jti !== "string" || jti === "" || jti.length > MAX_JTI_LENGTH) return "form";
  if (typeof aud !== "string" || !audiencesOf(deployment).includes(aud)) return "audience";
  const broken = rules?.assertionProblem(header["alg"], aud, deployment.url);
  if (broken !== undefined) return broken;
  return isTimely(claims) ? undefined : "time";
}

/** The rules that go further than those of oidc-provider, once it has verified the signature. @throws InvalidClientAuth */
export async function checkAssertion(
  ctx: KoaContextWithOIDC,
  claims: Members,
  header: Members,
): Promise<void> {
  const exchange = exchangeOf(ctx);
  exchange.authentication.isSigned = true;
  const client = clientRecord(ctx.oidc.client as Client);
  const fault = await faultOf(header, claims, exchange.deployment, client);
  if (fault !== undefined) throw new errors.InvalidClientAuth(`the assertion is refused: ${fault}`);
}

/** What is wrong with an assertion that was refused. */
export async function assertionFault(
  assertion: string,
  client: Pick<ClientRecord, "client_id" | "document" | "jwks" | "profile">,
  { deployment, authentication }: Pick<Exchange, "deployment" | "authentication">,
): Promise<AssertionFault> {
  const [header, claims] = assertion.split(".", 2).map(objectIn);
  if (header === undefined || claims === undefined) return "form";
  const { alg, kid } = header;
  const client_id = protocolClientId(client);
  const isKnown = client.jwks?.keys.some(
    (key) => isKeyFor(key, alg) && (kid === undefined || key["kid"] === undefined || key["kid"] === kid),
  );
  if (isKnown !== true) return "key";
  if (claims["iss"] !== client_id || claims["sub"] !== client_id) return "client";
  const fault = await faultOf(header, claims, deployment, client);
  return fault ?? (authentication.isSigned ? "used" : "signature");
}

/** The object that a part of a JWT encodes, unverified; `undefined` if it can't be read. */
function objectIn(part: string): Members | undefined {
  try {
    const found: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
    return typeof found === "object" && found !== null ? (found as Members) : undefined;
  } catch {
    return undefined;
  }
}
