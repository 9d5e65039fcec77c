/** Whether an answer is one of those that the documents know, whatever the request was. */
import { ADA, BOB, NEWS, PARTNER, SHOP } from "../flows/running-service.ts";

const STATUSES: ReadonlySet<number> = new Set([200, 201, 302, 303, 400, 401, 403, 405, 429]);

/** Codes of RFC 6749, RFC 6750, OpenID Connect and the decisions, that may stand in a body. */
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
  "unsupported_response_mode",
  "request_not_supported",
  "registration_not_supported",
]);

/** What a header or a parameter of the tests tries to put into an answer. */
export const PLANTED = "planted-by-the-test";

/** A stack frame, a file of ours or of a package. */
const INSIDE =
  /\bat \S+ \(|\bat file:|\.[cm]?[jt]s:\d+|node_modules|\/(?:compat|lib|adapters|interactions)\//;

const SECRETS = [NEWS, SHOP, PARTNER]
  .map(({ client_secret }) => client_secret)
  .concat(ADA.password, BOB.password);

/** What an answer is, in short. */
export interface Verdict {
  readonly status: number;
  /** The code of a JSON error, `page` for a page, empty for anything else. */
  readonly error: string;
  /** Why it is none of the documented answers. */
  readonly faults: readonly string[];
}

/** Everything that is wrong with an answer; nothing when it is a documented one. */
export function judge(status: number, headers: ReadonlyMap<string, string>, text: string): Verdict {
  const faults: string[] = [];
  const all = [...headers].map(([name, value]) => `${name}: ${value}`).join("\n");
  const type = headers.get("content-type") ?? "";
  // Not to be found is a page of ours alone: everything else that is not there is the host application's.
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

/** The verdict on an answer of fetch. */
export async function verdict(answer: Promise<Response>): Promise<Verdict> {
  const response = await answer;
  const headers = new Map<string, string>();
  for (const [name, value] of response.headers) headers.set(name, value);
  return judge(response.status, headers, await response.text());
}
