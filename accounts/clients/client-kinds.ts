/** The kinds of clients: what each is and may do, and which addresses it may name. */
import type { ClientKind, ClientRecord } from "../../records/directory/directory.ts";
import { clientAddressProblem, type Problem } from "../text-rules.ts";
import { urlProblem } from "../../config/value-forms.ts";

/** RFC 8628 section 3.4. */
export const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

/** What all clients of a kind have in common. */
export interface KindOfClient {
  /** What it is: a cell of `docs/reference/client-settings.md`. */
  readonly is: string;
  /** Whether it proves who it is, with a secret or keys. oidc-provider requires PKCE of the others. */
  readonly confidential: boolean;
  /** Whether people sign in to it. The others act on their own behalf. */
  readonly people: boolean;
  /** Where browsers reach it: at a server, or in an application of the person. `null`: nowhere, so it has no addresses. */
  readonly addresses: "server" | "application" | null;
  /** The grants that it may have. A client with addresses may be registered for fewer; `password` only when it asks. */
  readonly grants: readonly string[];
  /** Whether its refresh tokens rotate. `null`: it gets none. */
  readonly rotates: "always" | "as configured" | null;
  /**
   * `documented`: as the interface document says: errors have status 400 by default, token responses name no scope, and the
   * `oauth2` deployment redirects to the first address if a request names none.
   */
  readonly behaves: "documented" | "standard";
}

/** Read through the rows that a service has: `clients.kindOf`. */
export const KINDS: Readonly<Record<ClientKind, KindOfClient>> = {
  web: {
    is: "A server that lets users sign in",
    confidential: true,
    people: true,
    addresses: "server",
    grants: ["authorization_code", "refresh_token", "password"],
    rotates: "as configured",
    behaves: "documented",
  },
  public: {
    is: "A browser or native application",
    confidential: false,
    people: true,
    addresses: "application",
    grants: ["authorization_code", "refresh_token"],
    rotates: "always",
    behaves: "standard",
  },
  machine: {
    is: "A service that acts on its own behalf: [Machines](docs/connect/apis/call-from-a-job.md)",
    confidential: true,
    people: false,
    addresses: null,
    grants: ["client_credentials"],
    rotates: null,
    behaves: "standard",
  },
  device: {
    is: "An application without a browser or a keyboard",
    confidential: false,
    people: true,
    addresses: null,
    grants: [DEVICE_GRANT, "refresh_token"],
    rotates: "always",
    behaves: "standard",
  },
};

/** The kind of a client that names none. */
export const DEFAULT_KIND = "web" satisfies ClientKind;

/** Whether clients of this kind get codes that a person types on another device. */
export const isDevice = ({ grants }: KindOfClient): boolean => grants.includes(DEVICE_GRANT);

/** A problem with a setting: its path and a message. */
export interface SettingProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

export const problem = (path: SettingProblem["path"], message: string): SettingProblem => ({ path, message });

/** The addresses and origins of a client. */
export interface ClientAddresses {
  readonly redirect_uris?: readonly string[] | undefined;
  readonly post_logout_redirect_uris?: readonly string[] | undefined;
  readonly native?: boolean | undefined;
  readonly origins?: readonly string[] | null | undefined;
}

/** @param production whether a deployment is reachable from other machines. */
export function addressProblems(
  kind: KindOfClient,
  { native = false, redirect_uris = [], post_logout_redirect_uris = [], origins }: ClientAddresses,
  production: boolean,
): SettingProblem[] {
  const lists = { redirect_uris, post_logout_redirect_uris };
  const problems = Object.entries(lists).flatMap(([name, addresses]) =>
    addresses.flatMap((address, index) => {
      const message =
        kind.addresses === "application"
          ? publicAddressProblem(address, { native, production })
          : clientAddressProblem(address);
      return message === undefined ? [] : [problem([name, index], message)];
    }),
  );
  const wrongOrigins = (origins ?? []).flatMap((origin, index) => {
    const message = originProblem(origin, production);
    return message === undefined ? [] : [problem(["origins", index], message)];
  });
  if (kind.addresses !== null && redirect_uris.length === 0)
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

/**
 * Whether any application on the device of the person can claim an address of the client, and ask for a code with its
 * `client_id` (RFC 8252 section 8.6).
 */
export function isClaimable({ addresses }: KindOfClient, address: string): boolean {
  return addresses === "application" && isNativeAddress(address);
}

/** Whether any application on the device can claim this address: a private-use scheme, or http on loopback. */
export function isNativeAddress(address: string): boolean {
  if (address.startsWith("https:")) return false;
  if (!address.startsWith("http:")) return true;
  const { hostname } = URL.parse(address) ?? { hostname: "" };
  return LOOPBACK_LITERALS.has(hostname) || hostname === "localhost";
}

/** An address on loopback without its port; `undefined` for every other address. */
export function withoutPort(address: string): string | undefined {
  const [, host, rest] =
    /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::[1-9]\d{0,4})?((?:[/?].*)?)$/su.exec(address) ?? [];
  return host === undefined || !URL.canParse(address) ? undefined : `${host}${rest}`;
}

const isNamedLoopback = (address: string): boolean => /^http:\/\/localhost(?:[:/?]|$)/u.test(address);

/**
 * Whether a client may send people to this address. It is registered character by character, except for the port of a
 * loopback literal of a native client (RFC 8252 section 7.3), and of `localhost` in a document, which has no address that its client
 * may not have. Addresses for development are refused in production.
 */
export function isAllowedAddress(
  kind: KindOfClient,
  { native, document }: Pick<ClientRecord, "native" | "document">,
  registered: readonly string[],
  address: string,
  production: boolean,
): boolean {
  const hasPort = native === true && (document !== undefined || !isNamedLoopback(address));
  const bare = hasPort ? withoutPort(address) : undefined;
  const isRegistered =
    registered.includes(address) ||
    (bare !== undefined && registered.some((each) => withoutPort(each) === bare));
  if (!isRegistered || document !== undefined) return isRegistered;
  if (kind.addresses !== "application" || !production) return true;
  return publicAddressProblem(address, { native: native === true, production }) === undefined;
}

/** The origins from which scripts of a client may read answers: those it names, or those of its redirect addresses. */
export function originsOf(
  kind: KindOfClient,
  { native, origins, redirect_uris }: Pick<ClientRecord, "native" | "origins" | "redirect_uris">,
): readonly string[] {
  if (kind.addresses !== "application" || kind.confidential) return [];
  if (origins !== undefined) return origins;
  // A loopback address of a native application is no page. One that nobody has registered may have both.
  const pages = redirect_uris.filter((address) => address.startsWith(native === true ? "https:" : "http"));
  return [...new Set(pages.map((address) => new URL(address).origin))];
}
