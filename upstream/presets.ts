/** What is different at each kind of provider. */
import { createPrivateKey, sign } from "node:crypto";
import type { ServerMetadata } from "openid-client";
import type { IdentityProvider } from "../config/providers.ts";
import { isObject } from "../core/untrusted-json.ts";

/** How a person is sent to a provider. */
export interface Departure {
  /** Where the browser comes back, of the deployment that it is on. */
  readonly redirectUri: string;
  /** Asks for a sign-in of this moment, also of somebody who is signed in there. */
  readonly fresh?: true;
  /** Asks for a sign-in that is at most so many seconds old. */
  readonly maxAge?: number;
  /** What the person typed. */
  readonly loginHint?: string;
  /** A language tag. */
  readonly locale?: string;
}

type Parameters = Readonly<Record<string, string | undefined>>;

interface Preset {
  /** What `/.well-known/openid-configuration` follows. */
  readonly discovery?: (provider: IdentityProvider) => string;
  /** That of its discovery document. Default: the configured one. */
  readonly issuer?: (provider: IdentityProvider) => string;
  /** Instead of a discovery document. */
  readonly metadata?: ServerMetadata;
  /** Parameters of an authorization request besides those of every provider. */
  readonly parameters: (departure: Departure, provider: IdentityProvider) => Parameters;
  /** Makes an answer what the standard says. Default: it is. */
  readonly repair?: (response: Response) => Promise<Response>;
  /** Default: the configured one. */
  readonly secret?: (provider: IdentityProvider, now: number) => string | undefined;
}

const maxAgeOf = ({ fresh, maxAge }: Departure): string | undefined =>
  fresh === true ? "0" : maxAge?.toString();

/** Apple accepts a secret for six months. A new one for each request can't expire unnoticed. */
const APPLE_SECRET_SECONDS = 300;

const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Apple's client secret: a JWT of the team, signed with its key (RFC 7519, ES256). */
function appleSecret({ apple, client_id, issuer }: IdentityProvider, now: number): string | undefined {
  if (apple === undefined) return undefined;
  const claims = {
    iss: apple.team_id,
    iat: now,
    exp: now + APPLE_SECRET_SECONDS,
    aud: issuer,
    sub: client_id,
  };
  const signed = `${base64url({ alg: "ES256", kid: apple.key_id })}.${base64url(claims)}`;
  const key = createPrivateKey(apple.private_key);
  const signature = sign("sha256", Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" });
  return `${signed}.${signature.toString("base64url")}`;
}

/** The tenant of all personal accounts. */
const PERSONAL_TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad";

/** The placeholder of Microsoft's issuer. */
const TENANT = "{tenantid}";

/** The only tenant. It is asked at its own address, because an application of one tenant exists nowhere else. */
function onlyTenant({ tenants = [] }: IdentityProvider): string | undefined {
  return tenants !== "any" && tenants.length === 1 ? tenants[0] : undefined;
}

function microsoftAddress(provider: IdentityProvider): string {
  const { issuer, tenants = [] } = provider;
  const isPersonal = tenants === "any" || tenants.includes(PERSONAL_TENANT);
  return issuer.replace(TENANT, onlyTenant(provider) ?? (isPersonal ? "common" : "organizations"));
}

/** The issuer of the tokens of one tenant. */
export function microsoftIssuer({ issuer }: IdentityProvider, tenant: string): string {
  return issuer.replace(TENANT, tenant);
}

/** GitHub answers errors with status 200. */
async function withStatusOfError(response: Response): Promise<Response> {
  const text = await response.text();
  const { headers } = response;
  return new Response(text, { headers, status: isError(text) ? 400 : response.status });
}

function isError(text: string): boolean {
  try {
    const answer: unknown = JSON.parse(text);
    return isObject(answer) && typeof answer["error"] === "string";
  } catch {
    return false;
  }
}

export const PRESETS: Readonly<Record<IdentityProvider["preset"], Preset>> = {
  openid: {
    discovery: ({ issuer }) => issuer,
    parameters: (departure) => ({
      prompt: departure.fresh && "login",
      max_age: maxAgeOf(departure),
      login_hint: departure.loginHint,
      ui_locales: departure.locale,
    }),
  },
  google: {
    discovery: ({ issuer }) => issuer,
    // Google refuses `prompt=login`, and says nothing of when somebody signed in.
    parameters: ({ fresh, loginHint, locale }, { hd = [] }) => ({
      prompt: fresh && "select_account",
      login_hint: loginHint,
      hl: locale,
      // Google's own form then shows these accounts only. Whether it is one of them is checked when the person comes back.
      hd: hd.length > 1 ? "*" : hd[0],
    }),
  },
  microsoft: {
    discovery: microsoftAddress,
    issuer: (provider) => microsoftIssuer(provider, onlyTenant(provider) ?? TENANT),
    parameters: (departure) => ({
      prompt: departure.fresh && "login",
      max_age: maxAgeOf(departure),
      login_hint: departure.loginHint,
      ui_locales: departure.locale,
    }),
  },
  apple: {
    discovery: ({ issuer }) => issuer,
    // Apple wants a form whenever it is asked for an address.
    parameters: ({ locale }) => ({ response_mode: "form_post", locale }),
    secret: appleSecret,
  },
  github: {
    metadata: {
      // That of its answers (RFC 9207), if it has one.
      issuer: "https://github.com/login/oauth",
      authorization_endpoint: "https://github.com/login/oauth/authorize",
      token_endpoint: "https://github.com/login/oauth/access_token",
      token_endpoint_auth_methods_supported: ["client_secret_post"],
    },
    parameters: ({ fresh, loginHint }) => ({ prompt: fresh && "select_account", login: loginHint }),
    repair: withStatusOfError,
  },
};
