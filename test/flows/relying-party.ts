/** A client as documented: it builds URLs, sends forms and reads responses. */
import type { DeploymentKind } from "../../config/configuration.ts";
import { Browser, type BrowserOptions, type Send } from "../../testing/browser/browser.ts";
import { ADA, type KnownClient, type RunningService } from "./running-service.ts";

/** Parameters to send, without those that are `undefined`. */
export type Parameters = Readonly<Record<string, string | undefined>>;

/** A response. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** A documented token response. */
export interface Tokens {
  readonly access_token: string;
  readonly token_type: string;
  readonly expires_in: number;
  readonly refresh_token: string;
  readonly id_token?: string;
  readonly scope?: string;
}

/** The credentials of a user. */
export interface Person {
  readonly username: string;
  readonly password: string;
}

/** HTTP Basic credentials. */
export function basic({
  client_id,
  client_secret,
}: Pick<KnownClient, "client_id" | "client_secret">): string {
  return `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}`;
}

/** Sends a request without following redirects. */
export async function send(address: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(address, { redirect: "manual", ...init });
  const text = await response.text();
  const isJson = /^application\/(?:jwk-set\+)?json/.test(response.headers.get("content-type") ?? "");
  const body = isJson && text !== "" ? (JSON.parse(text) as Record<string, unknown>) : {};
  return { status: response.status, headers: response.headers, body, text };
}

/** Paths of one deployment, by the name of the endpoint. */
export const PATHS = {
  oauth2: { userinfo: "/resources/userinfo", profile: "/external/profile" },
  openid: { userinfo: "/oauth2/resources/userinfo", profile: "/oauth2/external/profile" },
} as const;

/** Submits the login form. */
export function signIn(browser: Browser, { username, password }: Person = ADA): Promise<Browser> {
  return browser.submit(browser.form("password"), { username, password });
}

/** A browser that is signed in to the account pages of a deployment. */
export async function signedIn(base: string, person: Person = ADA): Promise<Browser> {
  return signIn(await new Browser().get(`${base}/account`), person);
}

/** Base URLs of deployments. */
export type Deployments = Readonly<Record<DeploymentKind, string>>;

/** Form parameters; a list repeats its name. */
export type FormParameters = Readonly<Record<string, string | readonly string[] | undefined>>;

const formOf = (parameters: FormParameters): URLSearchParams =>
  new URLSearchParams(
    Object.entries(parameters).flatMap(([name, value]) => [value ?? []].flat().map((each) => [name, each])),
  );

/** A client of any kind at one deployment of a running service. */
export class Party<Client extends { readonly client_id: string }> {
  readonly kind: DeploymentKind;
  readonly client: Client;
  readonly #at: Deployments;

  /** @param at may begin to listen later. */
  constructor(at: Deployments, kind: DeploymentKind, client: Client) {
    this.#at = at;
    this.kind = kind;
    this.client = client;
  }

  get base(): string {
    return this.#at[this.kind];
  }

  /** The address of an authorization request. */
  protected authorization(parameters: FormParameters): string {
    return `${this.base}/oauth2/authorize?${formOf({ client_id: this.client.client_id, response_type: "code", ...parameters })}`;
  }

  /** A form, as clients without a secret send it. */
  post(path: string, parameters: FormParameters, headers: HeadersInit = {}): Promise<Answer> {
    const body = formOf({ client_id: this.client.client_id, ...parameters });
    return send(`${this.base}${path}`, { method: "POST", headers, body });
  }

  /** A request with a Bearer token and `client_id` in the query. */
  bearer(path: string, token: unknown, init: RequestInit = {}): Promise<Answer> {
    return send(`${this.base}${path}?client_id=${this.client.client_id}`, {
      ...init,
      headers: { authorization: `Bearer ${String(token)}`, ...(init.headers as Record<string, string>) },
    });
  }

  userinfo(token: unknown): Promise<Answer> {
    return this.bearer(PATHS[this.kind].userinfo, token);
  }

  profile(token: unknown): Promise<Answer> {
    return this.bearer(PATHS[this.kind].profile, token);
  }

  revoke(token: unknown, method: "GET" | "POST" = "GET"): Promise<Answer> {
    return this.bearer("/oauth2/revoke", token, { method });
  }
}

/** A client with a secret. */
export class RelyingParty extends Party<KnownClient> {
  get redirectUri(): string {
    return this.client.redirect_uris[0] ?? "";
  }

  /** A browser that stops before the client's redirect address. */
  browser(options: BrowserOptions = {}): Browser {
    return new Browser({ stopAt: [...this.client.redirect_uris], ...options });
  }

  authorizeUrl(parameters: Parameters = {}): string {
    return this.authorization({ redirect_uri: this.redirectUri, ...parameters });
  }

  /** Requests authorization, and signs in if necessary. @returns the redirect to the client. */
  async authorize(browser: Browser, parameters: Parameters = {}, person: Person = ADA): Promise<URL> {
    await browser.get(this.authorizeUrl(parameters));
    if (browser.location === undefined && browser.html.includes('name="password"')) {
      await signIn(browser, person);
    }
    if (browser.location === undefined) {
      throw new Error(`${browser.url.pathname} answered ${browser.status}: ${browser.title}`);
    }
    return browser.location;
  }

  /** The result of `prompt=none` in this browser: `code`, or the error. */
  async silently(browser: Browser): Promise<string | null | undefined> {
    await browser.get(this.authorizeUrl({ prompt: "none" }));
    const response = browser.location?.searchParams;
    return response?.has("code") ? "code" : response?.get("error");
  }

  /** A fresh authorization code. */
  async code(
    parameters: Parameters = {},
    person: Person = ADA,
    browser: Browser = this.browser(),
  ): Promise<string> {
    const location = await this.authorize(browser, parameters, person);
    const code = location.searchParams.get("code");
    if (code === null) throw new Error(`no code in ${location.search}`);
    return code;
  }

  /** The token endpoint, with the Basic header. */
  token(form: Parameters, headers: HeadersInit = { authorization: basic(this.client) }): Promise<Answer> {
    return send(`${this.base}/oauth2/token`, {
      method: "POST",
      headers,
      body: formOf(form),
    });
  }

  exchange(code: string, form: Parameters = {}): Promise<Answer> {
    return this.token({
      grant_type: "authorization_code",
      code,
      redirect_uri: this.redirectUri,
      ...form,
    });
  }

  refresh(refresh_token: string, form: Parameters = {}): Promise<Answer> {
    return this.token({ grant_type: "refresh_token", refresh_token, ...form });
  }

  /** The password grant, with the client's credentials in the form as documented. */
  password(person: Person = ADA, form: Parameters = {}): Promise<Answer> {
    const { client_id, client_secret } = this.client;
    const { username, password } = person;
    return this.token({ grant_type: "password", client_id, client_secret, username, password, ...form }, {});
  }

  /** Tokens of a new sign-in. */
  async tokens(
    parameters: Parameters = {},
    person: Person = ADA,
    browser: Browser = this.browser(),
  ): Promise<Tokens> {
    return readTokens(await this.exchange(await this.code(parameters, person, browser)));
  }
}

/** Sends requests to the service as a proxy that forwards the host. */
export function viaProxy({ origin }: Pick<RunningService, "origin">): Send {
  return (url, init) => {
    const headers = new Headers(init.headers);
    headers.set("host", url.host);
    headers.set("x-forwarded-host", url.host);
    return fetch(`${origin}${url.pathname}${url.search}`, { ...init, headers });
  };
}

/** The tokens of a response. @throws if it failed. */
export function readTokens({ status, body, text }: Answer): Tokens {
  if (status !== 200) throw new Error(`the token endpoint answered ${status}: ${text}`);
  return body as unknown as Tokens;
}

/** A client of this service at one of its deployments. */
export const relyingParty = (running: Deployments, kind: DeploymentKind, client: KnownClient): RelyingParty =>
  new RelyingParty(running, kind, client);

/** A client at both deployments of this service. */
export const atBoth = (running: Deployments, client: KnownClient): Record<DeploymentKind, RelyingParty> => ({
  oauth2: relyingParty(running, "oauth2", client),
  openid: relyingParty(running, "openid", client),
});
