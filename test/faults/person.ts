/** One person's browser, which follows no redirects, and the calls of a client: each is one request. */
import { setTimeout as pause } from "node:timers/promises";
import { CookieJar } from "../../testing/browser/cookie-jar.ts";
import { readForms } from "../../testing/browser/forms.ts";
import { CALLBACK, type ClientName, type Credentials, PASSWORD, type Stage } from "./stage.ts";

/** One request that can be sent again exactly as it was. */
export interface Wire {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Sends it and follows no redirects. */
export function send({ url, method, headers, body }: Wire): Promise<Response> {
  return fetch(url, { method, headers, redirect: "manual", ...(body === undefined ? {} : { body }) });
}

/** How often a patient client retries. */
const ASKS = 60;

/** Repeats it until the answer is not 503, after the Retry-After of each answer. */
export async function sendPatiently(wire: Wire): Promise<Response> {
  for (let asks = 1; ; asks += 1) {
    const response = await send(wire);
    if (response.status !== 503 || asks === ASKS) return response;
    await response.body?.cancel();
    await pause(Number(response.headers.get("retry-after")) * 1000);
  }
}

const FORM = { "content-type": "application/x-www-form-urlencoded" };

type Fields = Readonly<Record<string, string>>;

/** A POST of a form. */
export function post(url: string, fields: Fields, headers: Fields = {}): Wire {
  return {
    url,
    method: "POST",
    headers: { ...FORM, ...headers },
    body: new URLSearchParams(fields).toString(),
  };
}

/** A GET. */
export function get(url: string, headers: Fields = {}): Wire {
  return { url, method: "GET", headers };
}

/** The documented Basic header. */
export function basic({ client_id, client_secret }: Credentials): { readonly authorization: string } {
  return { authorization: `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}` };
}

/** A call with an access token, as userinfo, profile and revoke take it. */
export function withToken(method: "GET" | "POST", url: string, client: Credentials, token: string): Wire {
  return {
    url: `${url}?client_id=${client.client_id}`,
    method,
    headers: { authorization: `Bearer ${token}` },
  };
}

export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
  readonly token_type: string;
  readonly expires_in: number;
  readonly id_token?: string;
}

export async function tokensOf(response: Response): Promise<Tokens> {
  const body: unknown = await response.json();
  if (response.status !== 200) throw new Error(`no tokens: ${response.status} ${JSON.stringify(body)}`);
  return body as Tokens;
}

/** The exchange of a code. */
export function exchange(base: string, client: Credentials, code: string): Wire {
  const fields = { grant_type: "authorization_code", code, redirect_uri: CALLBACK };
  return post(`${base}/oauth2/token`, fields, basic(client));
}

/** A refresh. */
export function refresh(base: string, client: Credentials, refresh_token: string): Wire {
  return post(`${base}/oauth2/token`, { grant_type: "refresh_token", refresh_token }, basic(client));
}

/** The password grant. */
export function passwordGrant(
  base: string,
  client: Credentials,
  username: string,
  fields: Fields = {},
): Wire {
  const body = { grant_type: "password", username, password: PASSWORD, ...client, ...fields };
  return post(`${base}/oauth2/token`, body);
}

/** The address that begins a sign-in. */
export function authorizeUrl(base: string, { client_id }: Credentials, parameters: Fields = {}): string {
  const query = { response_type: "code", client_id, redirect_uri: CALLBACK, ...parameters };
  return `${base}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
}

/** The code in the redirect to the client. */
export function codeOf(response: Response): string {
  const location = response.headers.get("location") ?? "";
  const code = location.startsWith(CALLBACK) ? new URL(location).searchParams.get("code") : null;
  if (code === null) throw new Error(`no code: ${response.status} ${location}`);
  return code;
}

/** One browser. */
export class Person {
  readonly #jar = new CookieJar();
  readonly username: string;
  readonly #send: typeof send;

  /** @param how its requests are sent. */
  constructor(username: string, how: typeof send = send) {
    this.username = username;
    this.#send = how;
  }

  /** The request as this browser would send it now. */
  wire(wire: Wire): Wire {
    const cookie = this.#jar.header(new URL(wire.url));
    return { ...wire, headers: { ...wire.headers, ...(cookie === "" ? {} : { cookie }) } };
  }

  /** Sends it and keeps the cookies of the answer. */
  async go(wire: Wire): Promise<Response> {
    const response = await this.#send(this.wire(wire));
    this.jarTakes(wire.url, response);
    return response;
  }

  jarTakes(url: string, response: Response): void {
    this.#jar.take(new URL(url), response.headers.getSetCookie());
  }

  /** Requests the authorization endpoint. @returns the address of the form. */
  async begin(url: string): Promise<string> {
    const location = (await this.go(get(url))).headers.get("location") ?? "";
    if (!location.includes("/interaction/")) throw new Error(`no form but ${location}`);
    return location;
  }

  /** Opens the form. @returns the request that submits it. */
  async form(location: string, fields: Fields): Promise<Wire> {
    const page = await this.go(get(location, { accept: "text/html" }));
    const form = readForms(await page.text(), new URL(location))[0];
    if (form === undefined) throw new Error(`no form: ${page.status}`);
    return post(form.action.href, { ...Object.fromEntries(form.fields), ...fields });
  }

  /** The request that submits the login form with the right password. */
  async login(url: string): Promise<Wire> {
    return this.form(await this.begin(url), { username: this.username, password: PASSWORD });
  }

  /** Signs in up to the address that gives the code. */
  async resumeAddress(url: string): Promise<string> {
    const answer = await this.go(await this.login(url));
    const location = answer.headers.get("location");
    if (location === null) throw new Error(`not signed in: ${answer.status}`);
    return location;
  }

  /** Signs in. @returns the code. */
  async signIn(url: string): Promise<string> {
    return codeOf(await this.go(get(await this.resumeAddress(url))));
  }
}

/** A new person who has signed in with the client. */
export async function signedIn(
  stage: Stage,
  {
    client = "news",
    base = stage.oauth2,
    scope,
  }: { client?: ClientName; base?: string; scope?: string } = {},
): Promise<{ person: Person; sub: string; code: string }> {
  const account = await stage.person();
  const person = new Person(account.username);
  const url = authorizeUrl(base, stage.clients[client], scope === undefined ? {} : { scope });
  return { person, sub: account.sub, code: await person.signIn(url) };
}
