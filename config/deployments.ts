/** Deployments: the rules for base URLs, and the table of endpoints that `compat/` serves below them. */
import type { Deployment, DeploymentKind } from "./configuration.ts";
import { isLoopback } from "./value-forms.ts";

const MAX_URL = 2048;
const PATH = /^(?:\/[A-Za-z0-9._~-]+)*$/u;

/** The parsed base URL when it is an http or https URL with a host. */
export function parseBase(text: string): URL | undefined {
  const url = text.length <= MAX_URL ? URL.parse(text) : null;
  return url !== null && /^https?:$/u.test(url.protocol) ? url : undefined;
}

/**
 * Everything that is wrong with a base URL. Each text continues a sentence that starts with the key. No text quotes the URL,
 * because it may contain a password.
 */
export function baseProblems(text: string): readonly string[] {
  const url = parseBase(text);
  if (url === undefined) return [`must be an absolute http or https URL of at most ${MAX_URL} characters`];
  const problems: string[] = [];
  const written = text.replace(/[?#].*$/su, "");
  const authority = /^[^/]*\/\/([^/]*)/u.exec(written)?.[1] ?? "";
  if (authority.includes("@")) problems.push("must not hold a user or password");
  if (text.replace(/#.*$/su, "").includes("?")) problems.push("must not have a query");
  if (text.includes("#")) problems.push("must not have a fragment");
  if (written.endsWith("/")) problems.push("must not end with a slash");
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    problems.push("must be https: plain http is for loopback only");
  }
  const path = url.pathname.replace(/\/$/u, "");
  if (!PATH.test(path))
    problems.push("may have only letters, digits and . _ ~ - between the slashes of its path");
  const bare = written
    .replace(authority, authority.slice(authority.lastIndexOf("@") + 1))
    .replace(/\/$/u, "");
  if (bare !== url.protocol + "//" + url.host + path || url.hostname.endsWith(".")) {
    problems.push(
      "must be written in its plain form: lower-case scheme and host, no default port, no dots to resolve",
    );
  }
  return problems;
}

/** @param url has no {@link baseProblems}. */
export function toDeployment(
  kind: DeploymentKind,
  url: string,
  options: { readonly post: boolean },
): Deployment {
  const { pathname, host, protocol } = new URL(url);
  return {
    kind,
    url,
    path: pathname === "/" ? "" : pathname,
    host,
    secure: protocol === "https:",
    post: options.post,
  };
}

export type EndpointName =
  | "authorize"
  | "resume"
  | "device"
  | "token"
  | "userinfo"
  | "userinfoAlias"
  | "profile"
  | "profileAlias"
  | "revoke"
  | "discovery"
  | "jwks"
  | "par"
  | "introspect"
  | "standardUserinfo"
  | "logout"
  | "logoutConfirm"
  | "logoutSuccess"
  | "interaction"
  | "confirm"
  | "providerCallback"
  | "clientLogo"
  | "pageScript"
  | "account";

/** One path under a base URL. */
interface EndpointPath {
  readonly name: EndpointName;
  /** The allowed methods. Others get 405. */
  readonly methods: readonly string[];
  /** Starts with a slash. `:uid` and `:step` match one segment. */
  readonly path: string;
  /** Whether the endpoint includes everything below `path`. */
  readonly below: boolean;
}

function at(name: EndpointName, methods: string, path: string): EndpointPath {
  return Object.freeze({ name, methods: Object.freeze(methods.split(" ")), path, below: false });
}

function under(name: EndpointName, methods: string, path: string): EndpointPath {
  return Object.freeze({ ...at(name, methods, path), below: true });
}

/** The path of discovery below the base URL (OpenID Connect Discovery 1.0 section 4). */
export const DISCOVERY_PATH = "/.well-known/openid-configuration";

/** Endpoints with the same path on both deployments. */
const SAME: readonly EndpointPath[] = [
  at("authorize", "GET", "/oauth2/authorize"),
  at("resume", "GET", "/oauth2/authorize/:uid"),
  at("device", "POST", "/oauth2/device"),
  at("token", "POST", "/oauth2/token"),
  at("revoke", "GET POST", "/oauth2/revoke"),
  at("logoutConfirm", "POST", "/oauth2/logout/confirm"),
  under("interaction", "GET HEAD POST", "/interaction/:uid"),
  at("interaction", "GET HEAD POST", "/interaction/:uid/:step"),
  at("confirm", "GET HEAD POST", "/confirm"),
  at("providerCallback", "GET POST", "/providers/:uid/:step"),
  at("clientLogo", "GET HEAD", "/clients/:uid/:step"),
  at("pageScript", "GET HEAD", "/pages.js"),
  under("account", "GET HEAD POST", "/account"),
  // The page for the code of a device, whose address people type.
  at("account", "GET HEAD POST", "/device"),
];

/**
 * Every path of both kinds of deployments. A deployment can also allow POST for `authorize`; {@link endpointsOf} takes that
 * into account.
 */
export const endpointPaths: Readonly<Record<DeploymentKind, readonly EndpointPath[]>> = Object.freeze({
  oauth2: Object.freeze([
    ...SAME,
    at("userinfo", "GET", "/resources/userinfo"),
    at("profile", "GET", "/external/profile"),
    // Enabled once there is an API. Until then, requests fall through to the host application.
    at("introspect", "POST", "/oauth2/introspect"),
  ]),
  openid: Object.freeze([
    ...SAME,
    at("userinfo", "GET", "/oauth2/resources/userinfo"),
    at("userinfoAlias", "GET", "/resources/userinfo"),
    at("profile", "GET", "/oauth2/external/profile"),
    at("profileAlias", "GET", "/external/profile"),
    at("discovery", "GET HEAD OPTIONS", DISCOVERY_PATH),
    at("jwks", "GET HEAD OPTIONS", "/oauth2/jwks"),
    at("par", "POST", "/oauth2/par"),
    at("introspect", "POST", "/oauth2/introspect"),
    at("standardUserinfo", "GET POST", "/oauth2/userinfo"),
    at("logout", "GET", "/oauth2/logout"),
    at("logoutSuccess", "GET HEAD", "/oauth2/logout/success"),
  ]),
});

/** The endpoints of one deployment, including methods that its options add. */
export function endpointsOf(deployment: Pick<Deployment, "kind" | "post">): readonly EndpointPath[] {
  const rows = endpointPaths[deployment.kind];
  if (!deployment.post) return rows;
  return rows.map((row) => (row.name === "authorize" ? at("authorize", "GET POST", row.path) : row));
}

/**
 * Further paths of the discovery document, on the host: clients look there when the issuer has a path (RFC 8414 sections 3.1
 * and 5). No `stripPrefix` belongs to them, because they are not below the base URL.
 */
export function metadataPaths({ path }: Pick<Deployment, "path">): readonly string[] {
  const all = [`/.well-known/oauth-authorization-server${path}`, `${DISCOVERY_PATH}${path}`];
  return all.filter((each) => each !== path + DISCOVERY_PATH);
}

/** Two endpoints with the same address. */
interface Clash {
  readonly oauth2: EndpointName;
  readonly openid: EndpointName;
  /** The path on the host, as in the openid deployment. */
  readonly path: string;
}

/** These match any one segment of a path. */
const ANY: ReadonlySet<string | undefined> = new Set([":uid", ":step"]);

/** Whether some path matches both endpoints. Both paths start at the root of the host. */
function overlap(one: EndpointPath, other: EndpointPath): boolean {
  const [left, right] = [one.path.split("/"), other.path.split("/")];
  const both = Math.min(left.length, right.length);
  for (let i = 0; i < both; i++) {
    if (left[i] !== right[i] && !ANY.has(left[i]) && !ANY.has(right[i])) return false;
  }
  if (left.length === right.length) return true;
  return left.length < right.length ? one.below : other.below;
}

/**
 * All pairs of endpoints that would share an absolute address. The scheme is ignored, because a request does not contain it:
 * `http://localhost` and `https://localhost` are the same address.
 */
export function findClashes(
  oauth2: Pick<Deployment, "host" | "path">,
  openid: Pick<Deployment, "host" | "path">,
): readonly Clash[] {
  if (oauth2.host !== openid.host) return [];
  const clashes: Clash[] = [];
  const theirs = [
    ...endpointPaths.openid.map((each) => ({ ...each, path: openid.path + each.path })),
    ...metadataPaths(openid).map((path) => at("discovery", "GET", path)),
  ];
  for (const right of theirs) {
    for (const ours of endpointPaths.oauth2) {
      const left = { ...ours, path: oauth2.path + ours.path };
      if (overlap(left, right)) clashes.push({ oauth2: ours.name, openid: right.name, path: right.path });
    }
  }
  return clashes;
}

/** Whether a path of the host belongs to an endpoint of this deployment. */
export function isServed({ kind, path: base }: Pick<Deployment, "kind" | "path">, path: string): boolean {
  const asked: EndpointPath = { name: "account", methods: [], path, below: false };
  const isMetadata = kind === "openid" && metadataPaths({ path: base }).includes(path);
  return isMetadata || endpointPaths[kind].some((row) => overlap({ ...row, path: base + row.path }, asked));
}

/**
 * Where clients look for discovery below a base URL, with the path of the issuer behind it or not (RFC 8414 section 3.1).
 */
const DISCOVERY =
  /^(?:\/oauth2)?\/\.well-known\/(?:openid-configuration|oauth-authorization-server)(?:\/|$)/u;

/**
 * Tells a client that requests discovery at the wrong address where OpenID Connect is.
 * @param path of the host, as in the deployments.
 * @returns `undefined` for any other path.
 */
export function discoveryAdvice(
  { oauth2, openid }: Readonly<Partial<Record<DeploymentKind, Pick<Deployment, "url" | "path">>>>,
  path: string,
): string | undefined {
  const bases = [oauth2, openid].flatMap((each) => (each === undefined ? [] : [each.path]));
  if (!bases.some((base) => path.startsWith(base) && DISCOVERY.test(path.slice(base.length))))
    return undefined;
  return openid === undefined
    ? "this service has no OpenID Connect deployment, and OAuth 2.0 here has no discovery"
    : `the issuer is ${openid.url}, and its discovery document is ${openid.url}${DISCOVERY_PATH}`;
}
