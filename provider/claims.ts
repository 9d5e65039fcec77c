/** Scopes and claims: what a request may ask for, which scope gives access to which claim, and where values come from. */
import type { AccountClaims } from "oidc-provider";
import type { Deployment } from "../config/configuration.ts";
import { isObject } from "../core/untrusted-json.ts";
import type { AccountRecord, ClientRecord, Consent } from "../records/directory/directory.ts";
import { fullName } from "../accounts/names.ts";
import { isReadBy, type PersonFields, valueOf } from "../accounts/profile-fields.ts";

/** The scope, and the claim, with the person's roles in the service of the client. */
export const ROLES = "roles";

/**
 * oidc-provider refuses a request without a scope; the documented OAuth 2.0 request has none. Such a request gets this
 * internal scope, which gives access to the whole profile. It is never accepted from a client and never shown.
 */
export const ALL_FIELDS = "account";

/** Scopes that both deployments have. The others need ID tokens, or the standard userinfo. */
const EVERYWHERE: ReadonlySet<string> = new Set(["email", "profile"]);

/** RFC 6749 appendix A.4. */
const WELL_FORMED = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

type Source = (account: AccountRecord) => unknown;

/** The claims of `openid` (OpenID Connect Core 1.0 section 5.4; `email` as documented): an ID token has them unasked. */
export const OPENID_CLAIMS = ["sub", "email", "acr", "amr"] as const;

/** Claims about the sign-in that belong to no scope: oidc-provider decides when an ID token has them. */
export const SIGN_IN_CLAIMS = ["auth_time", "iss", "sid"] as const;

/** Whom a client belongs to. */
type Reader = Pick<ClientRecord, "service" | "first_party">;

/** The scopes and claims of one service. */
export interface Claims {
  /** What this client may read: without the attributes that have other readers, and the scopes that have nothing else. */
  readBy(client: Reader): Claims;
  /** The claims of each scope that a client may request. */
  readonly ofScope: ReadonlyMap<string, readonly string[]>;
  /** Everything that a user can allow a client. */
  readonly grantable: Consent;
  /**
   * All claims about a user. oidc-provider selects those that were requested and granted.
   * @param allowed the only attributes that the person has allowed. Default: all.
   */
  about(record: AccountRecord, allowed?: readonly string[]): AccountClaims;
  /** What the parameters of a request to oidc-provider ask for. */
  accessIn(params: Readonly<Record<string, unknown>>): Pick<Consent, "scopes" | "claims">;
  /** The names of the attributes that these scopes and claims reveal. */
  attributesIn(access: Pick<Consent, "scopes" | "claims">): string[];
  /** Whether a claim is about the user rather than about the sign-in. */
  isPersonal(claim: string): boolean;
  /**
   * The scope that oidc-provider gets. Unknown scopes are dropped, and so are those that the deployment does not have; if
   * nothing is left, it is {@link ALL_FIELDS}. A malformed value is passed on for oidc-provider to refuse.
   * @param requested the `scope` parameter, if there is one.
   * @param kind the deployment that the request came to.
   */
  effectiveScope(requested: string | undefined, kind: Deployment["kind"]): string;
  /**
   * The scope that oidc-provider gets when a request names APIs: the requested scopes of the APIs and of this service.
   * Which scopes of the APIs the client may have is known once the APIs are. A request without a scope asks for no field
   * of the profile.
   */
  scopeForApis(requested: string | undefined, kind: Deployment["kind"]): string;
  /**
   * Reduces a `claims` parameter (OpenID Connect Core 1.0 section 5.5) to the claims of this service and to the members
   * that oidc-provider reads. The rest can be stored, compared and shown.
   * @returns the parameter unchanged when oidc-provider refuses it.
   */
  known(parameter: string): string;
}

const isServed = (scope: string, kind: Deployment["kind"]): boolean =>
  kind === "openid" || EVERYWHERE.has(scope);

/** The scopes and claims that these fields of a person have. */
export function createClaims({ ofClaim }: PersonFields): Claims {
  const all = claimsOf(ofClaim, readBy);
  /** By the names of the claims of attributes that are left. */
  const views = new Map<string, Claims>();

  function readBy(client: Reader): Claims {
    const left = [...ofClaim].filter(([, row]) => isReadBy(row, client));
    if (left.length === ofClaim.size) return all;
    const key = left.map(([claim]) => claim).join(" ");
    const view = views.get(key) ?? claimsOf(new Map(left), readBy, all);
    views.set(key, view);
    return view;
  }
  return all;
}

/** @param all what the service has, if these are not all. */
function claimsOf(ofClaim: PersonFields["ofClaim"], readBy: Claims["readBy"], all?: Claims): Claims {
  /** Where the value of each claim about the user comes from. Claims without a value are left out. */
  const sources = new Map<string, Source>([
    ["sub", ({ sub }) => sub],
    ["email", ({ email }) => email],
    ["email_verified", ({ email_verified }) => email_verified],
    ["name", (account) => fullName(account) || undefined],
    ...[...ofClaim].map(([claim, row]): [string, Source] => [claim, (account) => valueOf(row, account)]),
    ["updated_at", ({ updated_at }) => updated_at],
  ]);
  const ofScope = new Map<string, readonly string[]>([
    ["openid", OPENID_CLAIMS],
    ["email", ["email", "email_verified"]],
    ["profile", ["name"]],
    [ROLES, [ROLES]],
  ]);
  const add = (scope: string, claim: string): void =>
    void ofScope.set(scope, [...(ofScope.get(scope) ?? []), claim]);
  for (const [name, { claim }] of ofClaim) if (claim !== undefined) add(claim.scope, name);
  add("profile", "updated_at");
  /** All claims that a request may ask for by name. Roles come with their scope only. */
  const known = new Set(
    [...[...ofScope.values()].flat(), ...SIGN_IN_CLAIMS].filter((claim) => claim !== ROLES),
  );

  function namesIn(parameter: unknown): string[] {
    const request = typeof parameter === "string" ? parse(parameter) : undefined;
    const names = [request?.userinfo, request?.id_token].flatMap((claims) => Object.keys(claims ?? {}));
    return [...new Set(names)].filter((name) => known.has(name));
  }

  return {
    readBy,
    ofScope,
    grantable: { scopes: [...ofScope.keys(), ALL_FIELDS], claims: [...known] },
    about(record, allowed) {
      const claims: AccountClaims = { sub: record.sub };
      for (const [claim, source] of sources) {
        const row = ofClaim.get(claim);
        if (row?.isAttribute && allowed?.includes(row.name) === false) continue;
        const value = source(record);
        if (value !== null && value !== undefined) claims[claim] = value;
      }
      return claims;
    },
    attributesIn: ({ scopes, claims }) =>
      [...ofClaim].flatMap(([name, { isAttribute, claim, name: attribute }]) =>
        isAttribute && (scopes.includes(claim?.scope ?? "") || claims.includes(name)) ? [attribute] : [],
      ),
    isPersonal: (claim) => claim === ROLES || sources.has(claim),
    effectiveScope(requested = "", kind) {
      if (!WELL_FORMED.test(requested)) return requested;
      const scopes = requested.split(" ").filter((scope) => ofScope.has(scope) && isServed(scope, kind));
      return scopes.length === 0 ? ALL_FIELDS : [...new Set(scopes)].join(" ");
    },
    scopeForApis(requested = "", kind) {
      if (!WELL_FORMED.test(requested)) return requested;
      const scopes = requested
        .split(" ")
        .filter((scope) => scope !== "" && scope !== ALL_FIELDS)
        .filter((scope) => (ofScope.has(scope) ? isServed(scope, kind) : all?.ofScope.has(scope) !== true));
      return [...new Set(scopes)].join(" ");
    },
    known(parameter) {
      const request = parse(parameter);
      if (request === undefined) return parameter;
      const { userinfo, id_token } = request;
      return JSON.stringify({
        userinfo: userinfo && onlyKnown(userinfo, known),
        id_token: id_token && onlyKnown(id_token, known),
      });
    },
    accessIn: ({ scope, claims }) => ({
      scopes: typeof scope === "string" ? scope.split(" ") : [],
      claims: namesIn(claims),
    }),
  };
}

/** The scope in an answer to a client: what was granted, without the one that only the service uses. */
export function publicScope(granted: unknown): string {
  const scopes = typeof granted === "string" ? granted.split(" ") : [];
  return scopes.filter((scope) => scope !== "" && scope !== ALL_FIELDS).join(" ");
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

function onlyKnown(requested: Members, known: ReadonlySet<string>): Members {
  const wanted = Object.entries(requested).flatMap(([claim, request]) => {
    if (!known.has(claim) || (request !== null && !isObject(request))) return [];
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
