/** The kinds of clients: what each may do, which settings it has, and which addresses it may name. */
import type { ClientKind, ClientRecord } from "../../records/directory/directory.ts";
import { clientAddressProblem, type Problem, urlProblem } from "../text-rules.ts";

export const CLIENT_KINDS = ["web", "public", "machine", "device"] as const;

/** RFC 8628 section 3.4. */
export const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

/** The grants of each kind. A `web` or `public` client may be registered for fewer; `password` only when it asks. */
export const GRANTS_OF: Readonly<Record<ClientKind, readonly string[]>> = {
  web: ["authorization_code", "refresh_token", "password"],
  public: ["authorization_code", "refresh_token"],
  machine: ["client_credentials"],
  device: [DEVICE_GRANT, "refresh_token"],
};

const SIGNS_PEOPLE_IN = ["web", "public", "device"] as const;
const HAS_BROWSER = ["web", "public"] as const;
const KEEPS_SECRETS = ["web", "machine"] as const;

/** The kinds that have each setting. A setting that is not listed belongs to every kind. */
const KINDS_WITH: ReadonlyMap<string, readonly ClientKind[]> = new Map(
  Object.entries({
    client_secret: KEEPS_SECRETS,
    jwks: KEEPS_SECRETS,
    redirect_uris: HAS_BROWSER,
    post_logout_redirect_uris: HAS_BROWSER,
    backchannel_logout_uri: HAS_BROWSER,
    grant_types: HAS_BROWSER,
    password_grant: ["web"],
    native: ["public"],
    origins: ["public"],
    first_party: SIGNS_PEOPLE_IN,
    second_factor: SIGNS_PEOPLE_IN,
    refresh_tokens: SIGNS_PEOPLE_IN,
    client_uri: SIGNS_PEOPLE_IN,
    policy_uri: SIGNS_PEOPLE_IN,
    tos_uri: SIGNS_PEOPLE_IN,
    logo: SIGNS_PEOPLE_IN,
    id_token_signed_response_alg: SIGNS_PEOPLE_IN,
  } satisfies Readonly<Record<string, readonly ClientKind[]>>),
);

/** Whether clients of this kind have this setting. */
export function hasSetting(kind: ClientKind, setting: string): boolean {
  return KINDS_WITH.get(setting)?.includes(kind) ?? true;
}

/** Whether clients of this kind prove who they are. */
export const isConfidential = (kind: ClientKind): boolean => KEEPS_SECRETS.some((each) => each === kind);

/** A problem with a setting: its path and a message. */
export interface SettingProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

const problem = (path: SettingProblem["path"], message: string): SettingProblem => ({ path, message });

/** The settings of a client, as far as they depend on its kind. */
export interface KindSettings extends ClientAddresses {
  readonly client_secret?: string | undefined;
  readonly jwks?: object | undefined;
  readonly grant_types?: readonly string[] | undefined;
  readonly refresh_tokens?: { readonly rotate?: boolean | undefined } | undefined;
}

/** The problems with these settings of a client of this kind, whatever its other settings are. */
export function kindProblems({ kind, ...settings }: KindSettings): SettingProblem[] {
  const foreign = Object.entries(settings)
    .filter(([name, value]) => !isUnset(value) && !hasSetting(kind, name))
    .map(([name]) => problem([name], `a ${kind} client can't have it`));
  const problems = [...foreign];
  if (settings.client_secret !== undefined && !isUnset(settings.jwks))
    problems.push(problem(["jwks"], "must not be set together with client_secret"));
  if (kind === "public" && settings.grant_types?.includes("password"))
    problems.push(
      problem(["grant_types"], "must not have password: a public client can't keep what people type"),
    );
  if (kind !== "web" && settings.refresh_tokens?.rotate === false)
    problems.push(
      problem(["refresh_tokens", "rotate"], `must be true: the tokens of a ${kind} client always rotate`),
    );
  return problems;
}

/** `null` and `false` take a setting away. */
const isUnset = (value: unknown): boolean => value === undefined || value === null || value === false;

/** The addresses and origins of a client. */
export interface ClientAddresses {
  readonly kind: ClientKind;
  readonly redirect_uris?: readonly string[] | undefined;
  readonly post_logout_redirect_uris?: readonly string[] | undefined;
  readonly native?: boolean | undefined;
  readonly origins?: readonly string[] | null | undefined;
}

/** @param production whether a deployment is reachable from other machines. */
export function addressProblems(client: ClientAddresses, production: boolean): SettingProblem[] {
  const { kind, native = false, redirect_uris = [], post_logout_redirect_uris = [], origins } = client;
  const lists = { redirect_uris, post_logout_redirect_uris };
  const problems = Object.entries(lists).flatMap(([name, addresses]) =>
    addresses.flatMap((address, index) => {
      const message =
        kind === "public"
          ? publicAddressProblem(address, { native, production })
          : clientAddressProblem(address);
      return message === undefined ? [] : [problem([name, index], message)];
    }),
  );
  const wrongOrigins = (origins ?? []).flatMap((origin, index) => {
    const message = originProblem(origin, production);
    return message === undefined ? [] : [problem(["origins", index], message)];
  });
  if (hasSetting(kind, "redirect_uris") && redirect_uris.length === 0)
    problems.push(problem(["redirect_uris"], "is required"));
  return [...problems, ...wrongOrigins];
}

/** Loopback literals (RFC 8252 section 7.3). `localhost` may resolve to something else. */
const LOOPBACK_LITERALS: ReadonlySet<string> = new Set(["127.0.0.1", "[::1]"]);

/** A scheme in reverse domain order (RFC 8252 section 7.1). The dot keeps out `javascript:` and every other known scheme. */
const PRIVATE_USE = /^[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+:/u;

interface AddressRules {
  readonly native: boolean;
  readonly production: boolean;
}

/**
 * Redirect and sign-out addresses of public clients: https; of native ones also http on a loopback literal and private-use
 * schemes; for development, while every deployment is on loopback, http on `localhost` and the literals.
 */
export function publicAddressProblem(address: string, { native, production }: AddressRules): Problem {
  if (native && PRIVATE_USE.test(address)) return privateUseProblem(address);
  const found = urlProblem(address);
  if (found !== undefined) return found;
  if (address.includes("*")) return "must not have a wildcard";
  const { protocol, hostname, port } = new URL(address);
  const isLiteral = LOOPBACK_LITERALS.has(hostname);
  if (protocol === "https:")
    return isLiteral || hostname === "localhost" ? "must not be https on loopback" : undefined;
  if (native && isLiteral) return undefined;
  if (!production && (isLiteral || (hostname === "localhost" && port !== ""))) return undefined;
  return native
    ? "must be https, http on 127.0.0.1 or [::1], or a scheme with a dot, such as com.example.app:/callback"
    : "must be https";
}

function privateUseProblem(address: string): Problem {
  if (!/^[\u0021-\u007e]{1,2048}$/u.test(address) || /[\\"<>^`{|}#*]/u.test(address))
    return "must not have a character that a URL can't have, a fragment or a wildcard";
  if (/^[^:]*:\/\/[^/?]*@/u.test(address)) return "must not have a user name or password";
  return URL.parse(address) === null ? "must be an absolute URL" : undefined;
}

/** An origin: https without a path; for development, as {@link publicAddressProblem}. Compared as browsers write it. */
function originProblem(origin: string, production: boolean): Problem {
  const found = urlProblem(origin);
  if (found !== undefined) return found;
  const { origin: written, protocol, hostname, port } = new URL(origin);
  if (origin.includes("*")) return "must not have a wildcard";
  if (written !== origin) return "must be an origin as browsers send it, such as https://app.example";
  if (protocol === "https:") return undefined;
  const isLocal = LOOPBACK_LITERALS.has(hostname) || hostname === "localhost";
  return !production && isLocal && port !== "" ? undefined : "must be https";
}

/** Whether any application on the device can claim this address: a private-use scheme, or http on loopback. */
export function isNativeAddress(address: string): boolean {
  if (address.startsWith("https:")) return false;
  if (!address.startsWith("http:")) return true;
  const { hostname } = URL.parse(address) ?? { hostname: "" };
  return LOOPBACK_LITERALS.has(hostname) || hostname === "localhost";
}

/** An address on a loopback literal without its port; `undefined` for every other address. */
function withoutPort(address: string): string | undefined {
  const [, literal, rest] =
    /^(http:\/\/(?:127\.0\.0\.1|\[::1\]))(?::[1-9]\d{0,4})?((?:[/?].*)?)$/su.exec(address) ?? [];
  return literal === undefined ? undefined : `${literal}${rest}`;
}

/**
 * Whether a client may send people to this address. It is registered character by character, except for the port of a
 * loopback literal of a native client (RFC 8252 section 7.3). Addresses for development are refused in production.
 */
export function isAllowedAddress(
  { kind, native }: Pick<ClientRecord, "kind" | "native">,
  registered: readonly string[],
  address: string,
  production: boolean,
): boolean {
  const bare = native === true && URL.canParse(address) ? withoutPort(address) : undefined;
  const isRegistered =
    registered.includes(address) ||
    (bare !== undefined && registered.some((each) => withoutPort(each) === bare));
  if (!isRegistered) return false;
  if (kind !== "public" || !production) return true;
  return publicAddressProblem(address, { native: native === true, production }) === undefined;
}

/** The origins from which scripts of a client may read answers: those it names, or those of its redirect addresses. */
export function originsOf({
  kind,
  native,
  origins,
  redirect_uris,
}: Pick<ClientRecord, "kind" | "native" | "origins" | "redirect_uris">): readonly string[] {
  if (kind !== "public") return [];
  if (origins !== undefined) return origins;
  // A loopback address of a native application is no page.
  const pages = redirect_uris.filter((address) => address.startsWith(native === true ? "https:" : "http"));
  return [...new Set(pages.map((address) => new URL(address).origin))];
}
