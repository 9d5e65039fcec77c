/** The texts of what the checks of a running server can find. */

const UNREACHED = "People and clients that come to this address don't reach the service.";
const PREFIX_REMOVED = {
  what: "At {url} the server answers 404.",
  why: `${UNREACHED} It seems that a proxy removes the prefix {prefix} from the path, or part of it.`,
} as const;
const ISSUER =
  "Clients refuse ID tokens of another issuer, and follow the addresses of the discovery document.";
const SILENT = {
  what: "The server at {url} does not answer ({code}).",
  why: "Nobody can sign in, and the other checks of the server can't be made.",
} as const;

export const SERVER_FINDINGS = {
  server_silent: {
    check: "server",
    level: "problem",
    ...SILENT,
    fix: "Start it, and check the address, the firewall and the proxy.",
    isUnreachable: true,
  },
  server_certificate: {
    check: "server",
    level: "problem",
    ...SILENT,
    fix: "Its certificate is not trusted here: let the proxy send the whole chain, and renew it if it has expired.",
    isUnreachable: true,
  },
  address_prefix_removed: {
    check: "addresses",
    level: "problem",
    ...PREFIX_REMOVED,
    fix: 'Set stripPrefix to what the proxy removes, such as "{prefix}", or let the proxy pass the whole path.',
  },
  address_prefix_differs: {
    check: "addresses",
    level: "problem",
    ...PREFIX_REMOVED,
    fix: 'stripPrefix is "{stripped}": make the proxy remove exactly that, or correct it.',
  },
  address_redirects: {
    check: "addresses",
    level: "problem",
    what: "{url} redirects to {location}.",
    why: `${UNREACHED} Clients don't follow redirects of a token endpoint.`,
    fix: "Let the base URL of the deployment be the address where the redirect ends, or remove the redirect.",
  },
  address_ambiguous: {
    check: "addresses",
    level: "problem",
    what: "The server can't tell which deployment a request to {url} is for.",
    why: UNREACHED,
    fix: "Let the proxy pass on Host, or send X-Forwarded-Host and set proxy.",
  },
  address_failing: {
    check: "addresses",
    level: "problem",
    what: "At {url} the answer is {status}.",
    why: UNREACHED,
    fix: "Check the log of the server. If it has no such request, the proxy does not reach it.",
  },
  address_foreign: {
    check: "addresses",
    level: "problem",
    what: "At {url} something else answers, with status {status}.",
    why: UNREACHED,
    fix: "Compare deployments with the rules of the proxy: host, path and port.",
  },
  issuer_differs: {
    check: "addresses",
    level: "problem",
    what: "The server at {url} says that its issuer is {issuer}.",
    why: ISSUER,
    fix: "Restart the server with this configuration, or correct deployments.openid.url.",
  },
  discovery_rewritten: {
    check: "addresses",
    level: "problem",
    what: "The discovery document at {url} says that {name} is {value}.",
    why: ISSUER,
    fix: "Remove what rewrites responses in the proxy.",
  },
  metadata_missing: {
    check: "addresses",
    level: "warning",
    what: "At {url} is not the metadata of the issuer; the status is {status}.",
    why: "Clients that know only the issuer look there first (RFC 8414), and some look nowhere else.",
    fix: "Let the proxy pass on the path {path} of the host to the service, unchanged. An application that embeds the service mounts service.routes() at its root.",
  },
  login_redirects: {
    check: "cookies",
    level: "problem",
    what: "On the way to the login page, {url} redirects to {location}.",
    why: "Cookies of one address don't go to the other, so that nobody can sign in.",
    fix: "Restart the server with this configuration, and remove what rewrites Location in the proxy.",
  },
  cookies_missing: {
    check: "cookies",
    level: "problem",
    what: "On the way to the login page, {url} sets no cookie.",
    why: "Without cookies nobody can sign in.",
    fix: "Check whether a proxy or a cache removes Set-Cookie, and switch off caching for these addresses.",
  },
  cookie_refused: {
    check: "cookies",
    level: "problem",
    what: "Browsers refuse the cookie {name} of {url}: it {fault}.",
    why: "Without it nobody can sign in, or nobody stays signed in.",
    fix: "Remove what changes cookies in the proxy; if nothing does, correct cookies.domain.",
  },
  body_parser: {
    check: "bodies",
    level: "warning",
    what: "Something reads the bodies of requests to {url} before the service does.",
    why: "The service can no longer refuse what this parser guesses, drops or limits; files and large bodies end up in your memory.",
    fix: "Mount service.routes() before the body parser, or let the parser skip the addresses of the service.",
  },
  requests_changed: {
    check: "requests",
    level: "warning",
    what: "The server reports about the requests that it got: {detail}.",
    why: "If forwarding headers are ignored, everybody behind the proxy shares one address and its limits. Without the right Host, requests can't be told apart.",
    fix: "Let proxy name the proxies in front, and let them pass on Host or send X-Forwarded-Host. Mount service.routes() before a body parser.",
  },
} as const;
