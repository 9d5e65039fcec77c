/** GitHub has no ID tokens: its user API says who it is (https://docs.github.com/en/rest/users). */
import { isObject } from "../core/untrusted-json.ts";
import { readEmail, readNames, type UpstreamIdentity } from "./claims.ts";
import type { Exchange } from "./connection.ts";
import { UpstreamFault } from "./faults.ts";

const API = "https://api.github.com";

const HEADERS = { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" };

async function ask({ client, settings }: Exchange, token: string, path: string): Promise<unknown> {
  const url = new URL(path, API);
  const headers = new Headers(HEADERS);
  const response = await client.fetchProtectedResource(settings, token, url, "GET", null, headers);
  if (response.status !== 200)
    throw new UpstreamFault(response.status >= 400 ? "refused" : "lied", `status_${response.status}`);
  try {
    return await response.json();
  } catch {
    throw new UpstreamFault("lied", "not_json");
  }
}

/** The primary address. @param list as `/user/emails` answers. */
function primaryOf(list: unknown): { readonly email: string; readonly verified: boolean } | undefined {
  if (!Array.isArray(list)) throw new UpstreamFault("lied", "emails");
  const primary: unknown = list.find((each) => isObject(each) && each["primary"] === true);
  if (!isObject(primary)) return undefined;
  const email = readEmail(primary["email"]);
  return email === undefined ? undefined : { email, verified: primary["verified"] === true };
}

export async function readGitHubIdentity(exchange: Exchange, token: string): Promise<UpstreamIdentity> {
  const { key, issuer, trustsEmail } = exchange.provider;
  const [user, emails] = [await ask(exchange, token, "/user"), await ask(exchange, token, "/user/emails")];
  if (!isObject(user)) throw new UpstreamFault("lied", "user");
  const { id, name } = user;
  // A login can be given to somebody else.
  if (typeof id !== "number" || !Number.isSafeInteger(id) || id <= 0) throw new UpstreamFault("lied", "id");
  const primary = primaryOf(emails);
  return {
    provider: key,
    issuer,
    subject: String(id),
    ...(primary !== undefined && { email: primary.email }),
    vouched: trustsEmail && primary?.verified === true,
    ...readNames({ name }),
    mfa: false,
  };
}
