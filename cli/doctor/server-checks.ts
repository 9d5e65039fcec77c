/** The checks of `doctor` on a running server, as a browser or a client reaches it. */
import { type Cookie, parseSetCookie } from "set-cookie-parser";
import { request as requestPlain, type IncomingHttpHeaders } from "node:http";
import { request as requestSecure } from "node:https";
import type { Configuration, Deployment } from "../../config/configuration.ts";
import { DISCOVERY_PATH, metadataPaths } from "../../config/deployments.ts";
import { isPlainObject } from "../../config/plain-data.ts";
import { isLoopback } from "../../config/value-forms.ts";
import { type Check, type Finding, finding } from "./findings.ts";
import { clockFindings } from "./storage-checks.ts";

export interface ServerSubject {
  readonly configuration: Configuration;
  /** Where the server is reached: behind the proxy, unless it is the origin of a deployment. */
  readonly at: URL;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

interface Question {
  /** Below the deployment, such as `/account`. */
  readonly path: string;
  readonly form?: string;
  readonly accept?: string;
  readonly cookies?: string;
}

/** The server did not answer. */
class NoAnswer extends Error {
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

const RESPONSE_TIMEOUT_MS = 10_000;
const MAX_READ_BYTES = 65_536;

function deploymentsOf({ configuration: { deployments } }: ServerSubject): readonly Deployment[] {
  return [deployments.oauth2, deployments.openid].filter((each) => each !== undefined);
}

/** Whether requests go around the proxy, straight to the process. */
function isBehindProxy({ configuration, at }: ServerSubject): boolean {
  return deploymentsOf({ configuration, at }).every(({ url }) => new URL(url).origin !== at.origin);
}

/** The address of a request, and the `Host` that a proxy would pass on. */
function target(subject: ServerSubject, deployment: Deployment, path: string): readonly [URL, string] {
  const { configuration, at } = subject;
  const isInside = isBehindProxy(subject);
  const base = new URL(deployment.url);
  const prefix = isInside ? configuration.stripPrefix : "";
  const full = `${base.pathname === "/" ? "" : base.pathname}${path}`;
  return [new URL(full.slice(prefix.length), isInside ? at.origin : base.origin), base.host];
}

/** Makes a request, and follows no redirect. @throws NoAnswer */
function send(url: URL, headers: Readonly<Record<string, string | number>>, form?: string): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const request = (url.protocol === "https:" ? requestSecure : requestPlain)(url, {
    method: form === undefined ? "GET" : "POST",
    headers,
    agent: false,
    signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
  });
  const fail = (error: Error & { code?: unknown }): void => {
    const code = typeof error.code === "string" ? error.code : error.name;
    reject(new NoAnswer(code === "ABORT_ERR" ? "ETIMEDOUT" : code));
  };
  request.on("error", fail);
  request.on("response", (response) => {
    let text = "";
    response.setEncoding("utf8");
    response.on("error", fail);
    response.on("data", (part: string) => {
      if (text.length < MAX_READ_BYTES) text += part;
    });
    response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
  });
  request.end(form);
  return promise;
}

/** Asks for an address that is below no deployment. @param path on the host. @throws NoAnswer */
function askHost(subject: ServerSubject, { url }: Deployment, path: string): Promise<Answer> {
  const base = new URL(url);
  const origin = isBehindProxy(subject) ? subject.at.origin : base.origin;
  return send(new URL(path, origin), { host: base.host, accept: "application/json" });
}

/** Sends the server a request as a browser or a client would send it to a deployment. @throws NoAnswer */
function ask(subject: ServerSubject, deployment: Deployment, question: Question): Promise<Answer> {
  const { path, form, accept = "application/json", cookies } = question;
  const [url, host] = target(subject, deployment, path);
  const headers = {
    host,
    accept,
    ...(cookies !== undefined && { cookie: cookies }),
    ...(form !== undefined && {
      "content-type": "application/x-www-form-urlencoded",
      "content-length": Buffer.byteLength(form),
    }),
  };
  return send(url, headers, form);
}

function json({ text }: Answer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isPlainObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** Text from another server, made printable and shortened. */
function quoted(value: unknown): string {
  return typeof value === "string"
    ? `"${value.replaceAll(/[^\x20-\x7E]/gu, "?").slice(0, 200)}"`
    : "something else";
}

/** What a response from something other than the service reveals about the route to it. */
function unservedFinding(
  { configuration }: ServerSubject,
  { url, path }: Deployment,
  answer: Answer,
): Finding {
  const { status, headers } = answer;
  const { stripPrefix: stripped } = configuration;
  if (status === 404 && path !== "")
    return stripped === ""
      ? finding("address_prefix_removed", { url, prefix: path })
      : finding("address_prefix_differs", { url, prefix: path, stripped });
  if (status >= 300 && status < 400)
    return finding("address_redirects", { url, location: quoted(headers.location) });
  if (status === 400 && json(answer)["error"] === "invalid_request")
    return finding("address_ambiguous", { url });
  return finding(status >= 500 ? "address_failing" : "address_foreign", { url, status });
}

/**
 * Whether the service itself refused an authorization request without parameters. Other refusals come before it reads
 * the parameters.
 */
function isOwnRefusal(answer: Answer): boolean {
  return answer.status === 400 && String(json(answer)["error_description"]).startsWith("client_id ");
}

const addresses: Check<ServerSubject> = {
  id: "addresses",
  async run(subject) {
    const found: Finding[] = [];
    for (const deployment of deploymentsOf(subject)) {
      if (deployment.kind === "oauth2") {
        const answer = await ask(subject, deployment, { path: "/oauth2/authorize" });
        if (!isOwnRefusal(answer)) found.push(unservedFinding(subject, deployment, answer));
        continue;
      }
      const answer = await ask(subject, deployment, { path: DISCOVERY_PATH });
      if (answer.status !== 200) {
        found.push(unservedFinding(subject, deployment, answer));
        continue;
      }
      const document = json(answer);
      const { url } = deployment;
      if (document["issuer"] !== url) {
        found.push(finding("issuer_differs", { url, issuer: quoted(document["issuer"]) }));
        continue;
      }
      const wrong = Object.entries(document).filter(
        ([name, value]) =>
          /_(?:endpoint|uri)$/u.test(name) && typeof value === "string" && !value.startsWith(`${url}/`),
      );
      for (const [name, value] of wrong)
        found.push(finding("discovery_rewritten", { url, name, value: quoted(value) }));
      for (const path of metadataPaths(deployment)) {
        const metadata = await askHost(subject, deployment, path);
        if (metadata.status === 200 && json(metadata)["issuer"] === url) continue;
        const { status } = metadata;
        found.push(finding("metadata_missing", { url: new URL(path, url).href, path, status }));
      }
    }
    return found;
  },
};

const readCookie = (header: string): Cookie | undefined =>
  parseSetCookie(header, { decodeValues: false, split: false })[0];

const MAX_COOKIE_BYTES = 4096;

/** Why a browser at this base URL refuses a cookie (RFC 6265bis section 5.7); `undefined` if it accepts it. */
function cookieFault({ name, value, path, sameSite, ...cookie }: Cookie, base: URL): string | undefined {
  const { secure: isSecure = false } = cookie;
  const domain = cookie.domain?.replace(/^\./u, "").toLowerCase();
  const size = name.length + 1 + value.length;
  if (size > MAX_COOKIE_BYTES) return `has ${size} bytes, and browsers take ${MAX_COOKIE_BYTES}`;
  if (isSecure && base.protocol === "http:" && !isLoopback(base.hostname))
    return "is Secure, and the address is plain http";
  if (!isSecure && /^__(?:secure|host)-/iu.test(name))
    return "has a name that needs Secure, which is missing";
  if (/^__host-/iu.test(name) && (domain !== undefined || path !== "/"))
    return "has a name that allows no Domain and no Path but /";
  if (!isSecure && sameSite?.toLowerCase() === "none") return "has SameSite=None without Secure";
  if (domain !== undefined && !`.${base.hostname}`.endsWith(`.${domain}`))
    return `has a Domain that is not that of ${base.hostname}`;
  return undefined;
}

const MAX_REDIRECTS = 5;

/** All cookies of the redirects to the login page, and the first redirect that leaves the deployment. */
async function signIn(
  subject: ServerSubject,
  deployment: Deployment,
): Promise<{ readonly cookies: readonly Cookie[]; readonly astray: string | undefined }> {
  const cookies: Cookie[] = [];
  const jar = new Map<string, string>();
  let path = "/account";
  for (let step = 0; step <= MAX_REDIRECTS; step++) {
    const sent = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await ask(subject, deployment, { path, accept: "text/html", cookies: sent });
    for (const header of answer.headers["set-cookie"] ?? []) {
      const cookie = readCookie(header);
      if (cookie === undefined) continue;
      cookies.push(cookie);
      jar.set(cookie.name, cookie.value);
    }
    const { location } = answer.headers;
    if (answer.status < 300 || answer.status >= 400 || location === undefined) break;
    const full = URL.parse(location, `${deployment.url}${path}`)?.href ?? location;
    if (!full.startsWith(`${deployment.url}/`)) return { cookies, astray: location };
    path = full.slice(deployment.url.length);
  }
  return { cookies, astray: undefined };
}

const cookies: Check<ServerSubject> = {
  id: "cookies",
  async run(subject) {
    const found: Finding[] = [];
    for (const deployment of deploymentsOf(subject)) {
      const seen = await signIn(subject, deployment);
      const { url } = deployment;
      if (seen.astray !== undefined)
        found.push(finding("login_redirects", { url, location: quoted(seen.astray) }));
      else if (seen.cookies.length === 0) found.push(finding("cookies_missing", { url }));
      const faults = new Map(
        seen.cookies.flatMap((cookie) => {
          const fault = cookieFault(cookie, new URL(url));
          return fault === undefined ? [] : [[cookie.name, fault] as const];
        }),
      );
      for (const [name, fault] of faults)
        found.push(finding("cookie_refused", { name: quoted(name), url, fault }));
    }
    return found;
  },
};

const bodies: Check<ServerSubject> = {
  id: "bodies",
  async run(subject) {
    const found: Finding[] = [];
    for (const deployment of deploymentsOf(subject)) {
      // The service refuses a broken escape before anything else. Parsers keep it, or guess.
      const answer = await ask(subject, deployment, { path: "/oauth2/token", form: "%zz" });
      if (answer.status === 400 && json(answer)["error"] === "invalid_request") continue;
      if (answer.status === 404) continue;
      found.push(finding("body_parser", { url: deployment.url }));
    }
    return found;
  },
};

const clock: Check<ServerSubject> = {
  id: "server-clock",
  async run(subject) {
    const [deployment] = deploymentsOf(subject);
    if (deployment === undefined) return [];
    const before = Date.now();
    const { headers } = await ask(subject, deployment, { path: "/oauth2/authorize" });
    const time = Date.parse(headers.date ?? "");
    // The header has whole seconds.
    if (Number.isNaN(time)) return [];
    return clockFindings("server", "the server", time + 500 - (before + Date.now()) / 2);
  },
};

/** What `/health` of the server reports about its requests, including these. `undefined` if it can't be reached. */
async function noticedRequests({ configuration: { metrics } }: ServerSubject): Promise<string | undefined> {
  if (metrics?.port === undefined || metrics.port === 0) return undefined;
  const host = ["0.0.0.0", "::"].includes(metrics.host) ? "localhost" : metrics.host;
  const url = new URL(`http://${host.includes(":") ? `[${host}]` : host}:${metrics.port}/health`);
  try {
    const answer = await send(
      url,
      metrics.token === undefined ? {} : { authorization: `Bearer ${metrics.token}` },
    );
    let detail: unknown = json(answer);
    for (const member of ["parts", "requests", "detail"]) detail = Reflect.get(Object(detail), member);
    return typeof detail === "string" && detail !== "" ? detail : undefined;
  } catch (error) {
    // It runs on another machine, or not at all.
    if (error instanceof NoAnswer) return undefined;
    throw error;
  }
}

const requests: Check<ServerSubject> = {
  id: "requests",
  async run(subject) {
    const detail = await noticedRequests(subject);
    return detail === undefined ? [] : [finding("requests_changed", { detail: quoted(detail) })];
  },
};

/** Why there are no further checks: the server does not answer. */
export function noAnswer(error: unknown, { at }: ServerSubject): Finding | undefined {
  if (!(error instanceof NoAnswer)) return undefined;
  const { code } = error;
  const isUntrusted = /CERT|SELF_SIGNED|VERIFY/u.test(code);
  return finding(isUntrusted ? "server_certificate" : "server_silent", { url: at.origin, code });
}

export const serverChecks: readonly Check<ServerSubject>[] = [addresses, cookies, bodies, clock, requests];
