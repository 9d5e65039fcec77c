/** Base URLs: what is wrong with one, and what follows from one. */
import type { Deployment, DeploymentKind } from "./configuration.ts";
import { isLoopback } from "./loopback.ts";

const MAX_URL = 2048;
const PATH = /^(?:\/[A-Za-z0-9._~-]+)*$/u;

/** The parsed base URL when it is an http or https URL with a host. */
export function parseBase(text: string): URL | undefined {
  const url = text.length <= MAX_URL ? URL.parse(text) : null;
  return url !== null && /^https?:$/u.test(url.protocol) ? url : undefined;
}

/**
 * Everything that is wrong with a base URL, each as a sentence that goes on after its name. It says nothing
 * of what the URL holds: a password may stand in it.
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
