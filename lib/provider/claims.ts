/** Standard claims: what they are made of, which scope opens them, and what a request may ask for. */
import type { AccountClaims } from "oidc-provider";
import type { AccountRecord } from "../directory/directory.ts";

type Source = (account: AccountRecord) => unknown;

/** What every claim about the person is made of; without a value it is left out. */
const sources: ReadonlyMap<string, Source> = new Map<string, Source>([
  ["sub", ({ sub }) => sub],
  ["email", ({ email }) => email],
  ["email_verified", ({ email_verified }) => email_verified],
  ["name", ({ name, surname }) => [name, surname].filter(Boolean).join(" ") || undefined],
  ["given_name", ({ name }) => name],
  ["family_name", ({ surname }) => surname],
  ["birthdate", ({ date_of_birth }) => date_of_birth],
  ["gender", ({ gender }) => gender],
  ["preferred_username", ({ username }) => username],
  ["updated_at", ({ updated_at }) => updated_at],
]);

/** Which claims a scope opens (OpenID Connect Core 1.0 section 5.4; `email` in `openid` as documented). */
export const scopeClaims = {
  openid: ["sub", "email", "acr", "amr"],
  email: ["email", "email_verified"],
  profile: ["name", "given_name", "family_name", "birthdate", "gender", "preferred_username", "updated_at"],
} as const;

/** Claims about the sign-in that no scope opens: the library decides when an ID token has them. */
export const SIGN_IN_CLAIMS = ["auth_time", "iss", "sid"] as const;

/** Every claim that can have a value, and so every one that a request may ask for. */
export const KNOWN_CLAIMS: ReadonlySet<string> = new Set([
  ...Object.values(scopeClaims).flat(),
  ...SIGN_IN_CLAIMS,
]);

/** Bytes of a `claims` parameter: all claims by name, with room for values. */
export const MOST_CLAIMS_BYTES = 8_192;

/** All claims about this person. The library picks those that were asked for and granted. */
export function claimsAbout(record: AccountRecord): AccountClaims {
  const claims: AccountClaims = { sub: record.sub };
  for (const [claim, source] of sources) {
    const value = source(record);
    if (value !== null && value !== undefined) claims[claim] = value;
  }
  return claims;
}

/** Whether a claim says something about the person rather than about the sign-in. */
export function isPersonal(claim: string): boolean {
  return sources.has(claim);
}

type Members = Readonly<Record<string, unknown>>;

interface ClaimsRequest {
  readonly userinfo?: Members | undefined;
  readonly id_token?: Members | undefined;
}

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `undefined` for exactly what the library refuses. */
function parse(parameter: string): ClaimsRequest | undefined {
  let request: unknown;
  try {
    request = JSON.parse(parameter);
  } catch {
    return undefined;
  }
  if (!isObject(request)) return undefined;
  const { userinfo, id_token } = request;
  if (userinfo !== undefined && !isObject(userinfo)) return undefined;
  if (id_token !== undefined && !isObject(id_token)) return undefined;
  return { userinfo, id_token };
}

/**
 * The `claims` parameter (OpenID Connect Core 1.0 section 5.5) without the names that the service doesn't know, and
 * without members that the library doesn't read: what remains may be stored, compared and shown.
 * @returns the parameter as it is when the library refuses it.
 */
export function knownClaims(parameter: string): string {
  const request = parse(parameter);
  if (request === undefined) return parameter;
  const { userinfo, id_token } = request;
  return JSON.stringify({
    userinfo: userinfo && onlyKnown(userinfo),
    id_token: id_token && onlyKnown(id_token),
  });
}

function onlyKnown(asked: Members): Members {
  const wanted = Object.entries(asked).flatMap(([claim, request]) => {
    if (!KNOWN_CLAIMS.has(claim) || (request !== null && !isObject(request))) return [];
    return [[claim, request && wantedValues(claim, request)] as const];
  });
  return Object.fromEntries(wanted);
}

/** The library compares values of two claims; every other claim is just asked for. */
function wantedValues(claim: string, { essential, value, values }: Members): Members | null {
  if (claim === "sub") return typeof value === "string" ? { value } : null;
  if (claim !== "acr") return null;
  const isFree = value === undefined && values === undefined;
  const accepted = [value, ...(Array.isArray(values) ? (values as unknown[]) : [])];
  return {
    essential: essential === true,
    ...(isFree ? {} : { values: accepted.filter((one) => typeof one === "string") }),
  };
}

/** Names of the claims that a `claims` parameter asks for, each once. */
export function requestedClaims(parameter: unknown): string[] {
  const request = typeof parameter === "string" ? parse(parameter) : undefined;
  const names = [request?.userinfo, request?.id_token].flatMap((asked) => Object.keys(asked ?? {}));
  return [...new Set(names)].filter((name) => KNOWN_CLAIMS.has(name));
}
