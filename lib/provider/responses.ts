/** How the answer of the authorization endpoint travels back: 302 in the query, or by form post. */
import type { Deployment } from "../../config/configuration.ts";

/** Members that an authorization response may have; they win over the same names in a registered query. */
const RESPONSE_MEMBERS: ReadonlySet<string> = new Set([
  "code",
  "state",
  "iss",
  "error",
  "error_description",
  "scope",
]);

/**
 * The redirect address with the response appended. What the client registered stays as it is, character by
 * character; spaces go out as `%20`, so that every kind of decoder reads them.
 */
export function appendToQuery(address: string, members: Readonly<Record<string, string>>): string {
  const question = address.indexOf("?");
  const base = question === -1 ? address : address.slice(0, question);
  const registered = question === -1 ? [] : address.slice(question + 1).split("&");
  const kept = registered.filter((pair) => pair !== "" && !RESPONSE_MEMBERS.has(pair.split("=")[0] ?? ""));
  const added = Object.entries(members).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return `${base}?${[...kept, ...added].join("&")}`;
}

/** What the library says to a client that is not registered for what it asks. */
const NOT_REGISTERED: ReadonlySet<string> = new Set([
  "requested grant type is not allowed for this client",
  "requested response_type is not allowed for this client",
]);

/** The error code for what the library found: it says `invalid_request` where RFC 6749 has a code of its own. */
export function documentedCode(error: string, description: string | undefined): string {
  return NOT_REGISTERED.has(description ?? "") ? "unauthorized_client" : error;
}

/** What the library says of a request without `response_type`; the documented message is shorter. */
const NO_RESPONSE_TYPE = "missing required parameter 'response_type'";

/** What an error is told with: some of the library have no description, and their code is one. */
export function describedError(error: string, description: unknown): string {
  if (description === NO_RESPONSE_TYPE) return "invalid_response_type";
  return typeof description === "string" && description !== "" ? description : error.replaceAll("_", " ");
}

/** The library's members; an error among them with a description. */
export function described(members: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { error, error_description, ...rest } = members;
  if (typeof error !== "string") return members;
  return { error, error_description: describedError(error, error_description), ...rest };
}

/**
 * The members that go to the client: the library drops an empty `state` and knows one issuer only.
 * @param state the form-decoded value that was sent, also when it is empty; `undefined` if none was.
 */
export function responseMembers(
  members: Readonly<Record<string, unknown>>,
  state: string | undefined,
  deployment: Deployment,
): Record<string, string> {
  const { state: _state, iss, ...rest } = members;
  const answer: Record<string, string> = {};
  for (const [name, value] of Object.entries(rest)) if (typeof value === "string") answer[name] = value;
  const { error, error_description } = answer;
  if (error !== undefined) answer["error"] = documentedCode(error, error_description);
  if (state !== undefined) answer["state"] = state;
  // RFC 9207 on the OpenID Connect deployment; the documented OAuth 2.0 redirect holds code and state only.
  if (deployment.kind === "openid" && typeof iss === "string") answer["iss"] = iss;
  return answer;
}
