/** Scopes and claims: what a request may ask for, which scope gives access to which claim, and where values come from. */
import type { AccountClaims } from "oidc-provider";
import type { Deployment } from "../config/configuration.ts";
import { isObject } from "../core/untrusted-json.ts";
import type { AccountRecord, Consent } from "../records/directory/directory.ts";
import { fullName } from "../accounts/names.ts";
import { FIELD_OF_CLAIM } from "../accounts/profile-fields.ts";

/** The scope, and the claim, with the person's roles in the service of the client. */
export const ROLES = "roles";

/** Scopes that a client may request. */
export const PUBLIC_SCOPES = ["openid", "email", "profile", "roles"] as const;

/**
 * oidc-provider refuses a request without a scope; the documented OAuth 2.0 request has none. Such a request gets this
 * internal scope, which gives access to the whole profile. It is never accepted from a client and never shown.
 */
export const ALL_FIELDS = "account";

/** Scopes that only the OpenID Connect deployment has. */
const OPENID_ONLY = ["openid", ROLES] as const;

/** RFC 6749 appendix A.4. */
const WELL_FORMED = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

const publicScopes: ReadonlySet<string> = new Set(PUBLIC_SCOPES);

/**
 * The scope that oidc-provider gets. Unknown scopes are dropped, and so are `openid` and `roles` where there are no ID tokens; if
 * nothing is left, it is {@link ALL_FIELDS}. A malformed value is passed on for oidc-provider to refuse.
 * @param requested the `scope` parameter, if there is one.
 * @param kind the deployment that the request came to.
 */
export function effectiveScope(requested: string | undefined, kind: Deployment["kind"]): string {
  if (requested !== undefined && !WELL_FORMED.test(requested)) return requested;
  const scopes = new Set((requested ?? "").split(" ").filter((scope) => publicScopes.has(scope)));
  if (kind !== "openid") for (const scope of OPENID_ONLY) scopes.delete(scope);
  return scopes.size === 0 ? ALL_FIELDS : [...scopes].join(" ");
}

/**
 * The scope that oidc-provider gets when a request names APIs: the requested scopes of the APIs and of this service.
 * Which scopes of the APIs the client may have is known once the APIs are. A request without a scope asks for no field
 * of the profile.
 */
export function scopeForApis(requested: string | undefined, kind: Deployment["kind"]): string {
  if (requested === undefined || !WELL_FORMED.test(requested)) return requested ?? "";
  const scopes = new Set(requested.split(" ").filter((scope) => scope !== "" && scope !== ALL_FIELDS));
  if (kind !== "openid") for (const scope of OPENID_ONLY) scopes.delete(scope);
  return [...scopes].join(" ");
}

/** The scope in an answer to a client: what was granted, without the one that only the service uses. */
export function publicScope(granted: unknown): string {
  const scopes = typeof granted === "string" ? granted.split(" ") : [];
  return scopes.filter((scope) => scope !== "" && scope !== ALL_FIELDS).join(" ");
}

type Source = (account: AccountRecord) => unknown;

/** Where the value of each claim about the user comes from. Claims without a value are left out. */
const sources: ReadonlyMap<string, Source> = new Map<string, Source>([
  ["sub", ({ sub }) => sub],
  ["email", ({ email }) => email],
  ["email_verified", ({ email_verified }) => email_verified],
  ["name", (account) => fullName(account) || undefined],
  ...[...FIELD_OF_CLAIM].map(([claim, field]): [string, Source] => [claim, (account) => account[field]]),
  ["updated_at", ({ updated_at }) => updated_at],
]);

/** The claims of each scope (OpenID Connect Core 1.0 section 5.4; `email` in `openid` as documented). */
export const scopeClaims = {
  openid: ["sub", "email", "acr", "amr"],
  email: ["email", "email_verified"],
  profile: ["name", ...FIELD_OF_CLAIM.keys(), "updated_at"],
  roles: ["roles"],
} as const;

/** Claims about the sign-in that belong to no scope: oidc-provider decides when an ID token has them. */
export const SIGN_IN_CLAIMS = ["auth_time", "iss", "sid"] as const;

/** All claims that a request may ask for by name. Roles come with their scope only. */
export const KNOWN_CLAIMS: ReadonlySet<string> = new Set(
  [...Object.values(scopeClaims).flat(), ...SIGN_IN_CLAIMS].filter((claim) => claim !== ROLES),
);

/** Everything that a user can allow a client. */
export const GRANTABLE: Consent = { scopes: [...PUBLIC_SCOPES, ALL_FIELDS], claims: [...KNOWN_CLAIMS] };

/** All claims about a user. oidc-provider selects those that were requested and granted. */
export function claimsAbout(record: AccountRecord): AccountClaims {
  const claims: AccountClaims = { sub: record.sub };
  for (const [claim, source] of sources) {
    const value = source(record);
    if (value !== null && value !== undefined) claims[claim] = value;
  }
  return claims;
}

/** Whether a claim is about the user rather than about the sign-in. */
export function isPersonal(claim: string): boolean {
  return claim === ROLES || sources.has(claim);
}

type Members = Readonly<Record<string, unknown>>;

interface ClaimsRequest {
  readonly userinfo?: Members | undefined;
  readonly id_token?: Members | undefined;
}

/** @returns `undefined` for exactly what oidc-provider refuses. */
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
 * Reduces a `claims` parameter (OpenID Connect Core 1.0 section 5.5) to the claims of this service and to the members
 * that oidc-provider reads. The rest can be stored, compared and shown.
 * @returns the parameter unchanged when oidc-provider refuses it.
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

function onlyKnown(requested: Members): Members {
  const wanted = Object.entries(requested).flatMap(([claim, request]) => {
    if (!KNOWN_CLAIMS.has(claim) || (request !== null && !isObject(request))) return [];
    return [[claim, request && wantedValues(claim, request)] as const];
  });
  return Object.fromEntries(wanted);
}

/** oidc-provider compares the values of `sub` and `acr`. All other claims are requested without a value. */
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

/** What a `claims` parameter says about the claim `acr` of the ID token. */
export function requestedAcr(parameter: unknown): unknown {
  return typeof parameter === "string" ? parse(parameter)?.id_token?.["acr"] : undefined;
}

/** Names of the claims that a `claims` parameter requests, each once. */
export function requestedClaims(parameter: unknown): string[] {
  const request = typeof parameter === "string" ? parse(parameter) : undefined;
  const names = [request?.userinfo, request?.id_token].flatMap((claims) => Object.keys(claims ?? {}));
  return [...new Set(names)].filter((name) => KNOWN_CLAIMS.has(name));
}
