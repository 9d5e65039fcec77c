/** A valid request for every method of every endpoint, as a basis for hostile ones. */
import { endpointPaths, type EndpointName } from "../../config/deployments.ts";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { basic, type TestClient, type TestTokens } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, CALLBACK, NEWS, type RunningService } from "../flows/running-service.ts";
import { type AccountParts, accountParts } from "./account-samples.ts";

type Fields = Readonly<Record<string, string>>;

/** A valid request. */
export interface Sample {
  readonly title: string;
  readonly kind: DeploymentKind;
  readonly endpoint: EndpointName;
  readonly method: string;
  readonly url: string;
  readonly query: Fields;
  /** Without it, the request has no body. */
  readonly form?: Fields;
  readonly headers: Fields;
}

type Parts = Partial<Pick<Sample, "query" | "form" | "headers">> & {
  readonly method?: string;
  /** The value of `:uid`. */
  readonly uid?: string;
  /** Below the base URL. Default: the path of the endpoint. */
  readonly path?: string;
};

/** What the samples of one deployment are made of. */
interface Material {
  readonly tokens: TestTokens;
  readonly code: string;
  /** A browser in front of the login form. */
  readonly browser: Browser;
  readonly pages: readonly AccountParts[];
}

const { client_id, client_secret } = NEWS;
const credentials = { client_id, client_secret };
const authorized = { authorization: basic(NEWS) };

function authorization(kind: DeploymentKind): Fields {
  const common = { client_id, response_type: "code", redirect_uri: CALLBACK, state: "s", scope: "openid" };
  return kind === "oauth2"
    ? common
    : { ...common, nonce: "n", prompt: "login", max_age: "60", claims: "{}", response_mode: "query" };
}

const LAST_SEGMENTS: Readonly<Partial<Record<EndpointName, string>>> = {
  clientLogo: "logo",
  providerCallback: "callback",
};

/** The samples of each endpoint. */
function partsOf(
  kind: DeploymentKind,
  { tokens, code, browser, pages }: Material,
): Record<EndpointName, readonly Parts[]> {
  const bearer = { authorization: `Bearer ${tokens.access_token}` };
  const owned = { query: { client_id }, headers: bearer };
  const uid = browser.url.pathname.split("/").at(-1) ?? "";
  const cookie = { cookie: browser.jar.header(browser.url) };
  const csrf = browser.form("password").fields.find(([name]) => name === "csrf")?.[1] ?? "";
  const { username, password } = ADA;
  const token = { token: tokens.refresh_token, token_type_hint: "refresh_token" };
  return {
    authorize: [{ query: authorization(kind) }],
    resume: [{ uid, headers: cookie, query: { x: "1" } }],
    device: [{ form: { client_id, scope: "email" } }],
    token: [
      {
        form: {
          grant_type: "authorization_code",
          code,
          redirect_uri: CALLBACK,
          code_verifier: "v".repeat(43),
        },
        headers: authorized,
      },
      { form: { grant_type: "refresh_token", refresh_token: tokens.refresh_token, ...credentials } },
      { form: { grant_type: "password", username, password, scope: "openid", ...credentials } },
    ],
    revoke: [
      owned,
      { method: "POST", ...owned, form: {} },
      { method: "POST", form: token, headers: authorized },
    ],
    logoutConfirm: [{ form: { xsrf: "x", logout: "yes" }, headers: cookie }],
    interaction: [
      { uid, headers: cookie },
      { uid, headers: cookie, method: "POST", form: { csrf, username: "nobody", password: "wrong" } },
    ],
    confirm: [{ query: { token: "x" } }, { method: "POST", form: { csrf, password: "wrong" } }],
    providerCallback: [
      { uid: "corp", query: { state: "s", code: "c" }, headers: cookie },
      { uid: "corp", method: "POST", form: { state: "s", code: "c", iss: "http://localhost:1" } },
    ],
    clientLogo: [],
    pageScript: [],
    account: pages,
    userinfo: [owned],
    userinfoAlias: [owned],
    profile: [owned],
    profileAlias: [owned],
    discovery: [{ query: { x: "1" } }],
    jwks: [{ query: { x: "1" } }],
    par: [{ form: { ...authorization(kind) }, headers: authorized }],
    introspect: [
      { form: { token: tokens.access_token, token_type_hint: "access_token" }, headers: authorized },
    ],
    standardUserinfo: [{ headers: bearer }, { method: "POST", form: {}, headers: bearer }],
    logout: [
      { query: { client_id, post_logout_redirect_uri: CALLBACK, state: "s", id_token_hint: "x.y.z" } },
    ],
    logoutSuccess: [{ query: { client_id } }],
  };
}

async function material(party: TestClient, pages: readonly AccountParts[]): Promise<Material> {
  const browser = party.browser();
  await browser.get(party.authorizeUrl());
  return {
    tokens: await party.signIn(ADA, { scope: "openid" }),
    code: await party.code(ADA),
    browser,
    pages,
  };
}

/** All samples of both deployments. @param deliveries see `fillConsole`. */
export async function samples(running: RunningService, deliveries: readonly string[]): Promise<Sample[]> {
  const all: Sample[] = [];
  for (const kind of ["oauth2", "openid"] as const) {
    const pages = await accountParts(running, running[kind], deliveries);
    const parts = partsOf(kind, await material(clientAt(running, kind, NEWS), pages));
    // The rows of one name are sampled together, by paths of their own.
    const rows = new Map(endpointPaths[kind].toReversed().map((row) => [row.name, row] as const));
    for (const { name, methods, path: row } of rows.values()) {
      for (const part of parts[name]) {
        const { uid = "", path = row, method = methods[0] ?? "", query = {}, headers = {}, form } = part;
        const url =
          running[kind] + path.replace(":uid", uid).replace(":step", LAST_SEGMENTS[name] ?? "login");
        const meaning = form?.["grant_type"] ?? form?.["action"] ?? Object.keys(form ?? {})[0] ?? "";
        const title = `${method} ${kind} ${path} ${meaning}`;
        const body = form === undefined ? {} : { form };
        all.push({ title: title.trim(), kind, endpoint: name, method, url, query, headers, ...body });
      }
    }
  }
  return all;
}

/** How one request differs from its sample. */
export interface Change {
  /** In place of the encoded query. */
  readonly query?: string;
  /** In place of the encoded form; bytes as they are. */
  readonly body?: string | Uint8Array<ArrayBuffer>;
  /** Headers that are `undefined` are removed. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

const encode = (fields: Fields): string => new URLSearchParams(fields).toString();

/** The sample with one change; redirects are not followed. */
export function sendSample(sample: Sample, change: Change = {}): Promise<Response> {
  const { form, method } = sample;
  const query = change.query ?? encode(sample.query);
  const body = change.body ?? (form === undefined ? undefined : encode(form));
  const type = body === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" };
  const headers = new Headers({ ...type, ...sample.headers });
  for (const [name, value] of Object.entries(change.headers ?? {})) {
    if (value === undefined) headers.delete(name);
    else headers.set(name, value);
  }
  const init = body === undefined || method === "GET" ? {} : { body };
  return fetch(`${sample.url}${query === "" ? "" : `?${query}`}`, {
    method,
    headers,
    redirect: "manual",
    ...init,
  });
}

/** The parameters of a sample, with their location. */
export function parametersIn({
  query,
  form,
}: Sample): { readonly at: "query" | "body"; readonly fields: Fields }[] {
  return form === undefined || Object.keys(form).length === 0
    ? [{ at: "query", fields: query }]
    : [{ at: "body", fields: form }];
}
