/** Checks that a response is documented. */
import { ADA, BOB, NEWS, PARTNER, SHOP } from "../flows/running-service.ts";

const STATUSES: ReadonlySet<number> = new Set([200, 201, 302, 303, 400, 401, 403, 405, 429]);

/** Error codes of RFC 6749, RFC 6750, OpenID Connect and the documented ones. */
const CODES: ReadonlySet<unknown> = new Set([
  "invalid_request",
  "invalid_client",
  "invalid_grant",
  "invalid_scope",
  "invalid_token",
  "invalid_redirect_uri",
  "invalid_request_uri",
  "invalid_response_type",
  "insufficient_scope",
  "unauthorized_client",
  "unsupported_grant_type",
  "invalid_target",
  "unsupported_response_mode",
  "request_not_supported",
  "registration_not_supported",
  // Of the JSON interface of a sign-in.
  "forbidden",
]);

/** A marker that tests try to inject into a response. */
export const PLANTED = "planted-by-the-test";

/** A stack frame or a source file. */
const INSIDE =
  /\bat \S+ \(|\bat file:|\.[cm]?[jt]s:\d+|node_modules|\/(?:compat|lib|adapters|interactions)\//;

const SECRETS = [NEWS, SHOP, PARTNER]
  .map(({ client_secret }) => client_secret)
  .concat(ADA.password, BOB.password);

/** The summary of a response. */
export interface Verdict {
  readonly status: number;
  /** The code of a JSON error, `page` for a page, empty for anything else. */
  readonly error: string;
  /** Why the response is not documented. */
  readonly faults: readonly string[];
}

/** The summary of a response, with all its problems. */
export function judge(status: number, headers: ReadonlyMap<string, string>, text: string): Verdict {
  const faults: string[] = [];
  const all = [...headers].map(([name, value]) => `${name}: ${value}`).join("\n");
  const type = headers.get("content-type") ?? "";
  // Only pages may be 404. Other unknown paths belong to the host application.
  const isPage = type.startsWith("text/html");
  if (!STATUSES.has(status) && !(status === 404 && isPage)) faults.push(`status ${status}`);
  if (INSIDE.test(text) || INSIDE.test(all)) faults.push("a stack or a path");
  if (SECRETS.some((secret) => text.includes(secret) || all.includes(secret))) faults.push("a secret");
  if (new RegExp(`^(?:${PLANTED}|set-cookie: ${PLANTED})`, "m").test(all)) faults.push("a planted header");
  if (text.includes(`<script>${PLANTED}`)) faults.push("a planted script");
  if (headers.has("location") !== (status === 302 || status === 303)) faults.push("a Location");
  if (/html/.test(type) && !headers.has("content-security-policy")) faults.push("a page without its headers");
  if (status < 400) return { status, error: "", faults };
  if (isPage) return { status, error: "page", faults };
  if (!type.startsWith("application/json")) return { status, error: "", faults: [...faults, `type ${type}`] };
  const { error, ...rest } = JSON.parse(text) as { error?: unknown };
  if (!CODES.has(error)) faults.push(`error ${String(error)}`);
  const others = Object.keys(rest).filter((name) => name !== "error_description");
  if (others.length > 0) faults.push(`members ${others.join(" ")}`);
  if (headers.get("cache-control") !== "no-store") faults.push("an error that may be kept");
  return { status, error: String(error), faults };
}

/** The summary of a fetch response. */
export async function verdict(answer: Promise<Response>): Promise<Verdict> {
  const response = await answer;
  const headers = new Map<string, string>();
  for (const [name, value] of response.headers) headers.set(name, value);
  return judge(response.status, headers, await response.text());
}
