/** A client in a test: sends people to the sign-in, and calls the endpoints as documented. */
import { hash, randomBytes } from "node:crypto";
import type { DeploymentKind } from "../config/configuration.ts";
import { DEVICE_GRANT } from "../accounts/clients/client-kinds.ts";
import type { Account } from "../accounts/operations/accounts.ts";
import { Browser, type BrowserOptions, UnexpectedAnswer } from "./browser/browser.ts";

/** Somebody who signs in. */
export interface TestVisitor {
  /** The name for the sign-in form: a username or an e-mail address. */
  readonly username: string;
  readonly password: string;
  /** Default: a new one for each sign-in; see `TestClient.browser`. */
  readonly browser?: Browser;
}

/** An end user with an account, a password and a browser; see `TestSignIn.addPerson`. */
export interface TestPerson extends TestVisitor {
  readonly account: Account;
  /** Has its own cookies, so that the person stays signed in from one client to the next. */
  readonly browser: Browser;
}

/** What the person does on the pages of a sign-in. */
export interface SignInAnswers {
  /** The choice on the consent page, if it is shown. Default `allow`. */
  readonly consent?: "allow" | "deny";
  /** The code of the authenticator app, typed on the page that asks for a second factor. Default: that page is an error. */
  readonly code?: () => string;
}

/** The result of a sign-in. */
export interface SignInResult {
  /** The redirect to the client, with `code` or `error` in its query. */
  readonly location: URL;
  /** `null` if the sign-in was refused. */
  readonly code: string | null;
  /** Whether the login form was shown. */
  readonly loginShown: boolean;
  readonly consentShown: boolean;
}

/** The documented token response. */
export interface TestTokens {
  readonly access_token: string;
  readonly token_type: string;
  /** Seconds. */
  readonly expires_in: number;
  readonly refresh_token: string;
  /** Present if `openid` was granted on the OpenID Connect deployment. */
  readonly id_token?: string;
  /** What was granted; the documented response of a `web` client has none. */
  readonly scope?: string;
}

/** The codes that a device shows (RFC 8628 section 3.2). */
export interface DeviceCodes {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
  /** Seconds. */
  readonly expires_in: number;
  /** Seconds between two polls. */
  readonly interval: number;
}

/** The response of an endpoint. */
export interface TestAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The JSON body; empty for any other body. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** Parameters of a request. A list repeats its name; `undefined` sends none. */
export type RequestParameters = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The parts of a client. */
interface TestClientParts {
  readonly client_id: string;
  /** None for clients that keep none. */
  readonly client_secret?: string | undefined;
  /** Requests name the first one. */
  readonly redirect_uris?: readonly string[] | undefined;
  /** Base URLs of the deployments. */
  readonly urls: Partial<Readonly<Record<DeploymentKind, string>>>;
  /** Default: `openid` if the service has that deployment. */
  readonly deployment?: DeploymentKind;
  /** The scope of authorization requests at the `openid` deployment that name none. Default: no scope. */
  readonly scope?: string | undefined;
}

/** Where the documented resources are. */
export const PATHS = {
  oauth2: { userinfo: "/resources/userinfo", profile: "/external/profile" },
  openid: { userinfo: "/oauth2/resources/userinfo", profile: "/oauth2/external/profile" },
} as const;

/** A registered client of a test service, at one of its deployments; see `TestSignIn.addClient`. */
export class TestClient {
  readonly client_id: string;
  readonly client_secret: string | undefined;
  readonly redirect_uri: string;
  readonly deployment: DeploymentKind;
  readonly #parts: TestClientParts;

  constructor(parts: TestClientParts) {
    this.client_id = parts.client_id;
    this.client_secret = parts.client_secret;
    this.redirect_uri = parts.redirect_uris?.[0] ?? "";
    this.deployment = parts.deployment ?? (parts.urls.openid === undefined ? "oauth2" : "openid");
    this.#parts = parts;
  }

  /** The same client at another deployment. */
  at(deployment: DeploymentKind): TestClient {
    return new TestClient({ ...this.#parts, deployment });
  }

  /** Base URL of the deployment. */
  get base(): string {
    const url = this.#parts.urls[this.deployment];
    if (url === undefined)
      throw new TypeError(`deployment: the service has no ${this.deployment} deployment`);
    return url;
  }

  /** A new browser, which stops before the redirect addresses of this client. */
  browser(options: BrowserOptions = {}): Browser {
    return new Browser({ stopAt: this.#parts.redirect_uris ?? [], ...options });
  }

  /** The URL of an authorization request. @param parameters such as `scope`, `nonce`, `prompt` and `max_age`. */
  authorizeUrl(parameters: RequestParameters = {}): string {
    const { client_id, redirect_uri } = this;
    const scope = this.deployment === "openid" ? this.#parts.scope : undefined;
    const usual = { client_id, redirect_uri, response_type: "code", scope };
    return `${this.base}/oauth2/authorize?${formOf({ ...usual, ...parameters })}`;
  }

  /**
   * Sends a person through the authorization endpoint in their browser: fills in the login form, types the code of the app
   * and answers the consent page, if they are shown.
   * @throws UnexpectedAnswer if the browser is not redirected back, for example after a wrong password.
   */
  async authorize(
    { username, password, browser = this.browser() }: TestVisitor,
    parameters?: RequestParameters,
    answers: SignInAnswers = {},
  ): Promise<SignInResult> {
    await browser.get(this.authorizeUrl(parameters));
    const loginShown = browser.hasForm("password");
    if (loginShown) await browser.submit(browser.form("password"), { username, password });
    // The form of the app comes first; that of the recovery codes has a field of the same name.
    const codeForm = browser.forms().find(({ fields }) => fields.some(([name]) => name === "code"));
    if (answers.code !== undefined && codeForm !== undefined)
      await browser.submit(codeForm, { code: answers.code() });
    const consentShown = browser.hasForm("decision");
    if (consentShown)
      await browser.submit(browser.form("decision"), { decision: answers.consent ?? "allow" });
    const { location } = browser;
    if (location === undefined)
      throw new UnexpectedAnswer(`${browser.url.pathname} answered ${browser.status}: ${browser.title}`);
    return { location, code: location.searchParams.get("code"), loginShown, consentShown };
  }

  /** A new code, see {@link authorize}. @throws UnexpectedAnswer if it ends without one. */
  async code(visitor: TestVisitor, parameters?: RequestParameters, answers?: SignInAnswers): Promise<string> {
    return codeIn((await this.authorize(visitor, parameters, answers)).location);
  }

  /** What a request with `prompt=none` gets in this browser: `code`, or the error. */
  async silently(browser: Browser): Promise<string | null | undefined> {
    await browser.get(this.authorizeUrl({ prompt: "none" }));
    const response = browser.location?.searchParams;
    return response?.has("code") ? "code" : response?.get("error");
  }

  /**
   * A whole sign-in with PKCE: {@link authorize}, and the exchange of the code.
   * @throws UnexpectedAnswer if it does not end with tokens.
   */
  async signIn(
    visitor: TestVisitor,
    parameters?: RequestParameters,
    answers?: SignInAnswers,
  ): Promise<TestTokens> {
    const { request, code_verifier } = newProof();
    const code = await this.code(visitor, { ...request, ...parameters }, answers);
    return readTokens(await this.exchange(code, { code_verifier }));
  }

  /** Exchanges the code with which a browser was redirected back. @throws UnexpectedAnswer if there are no tokens. */
  async tokensOf({ location }: Pick<Browser, "location">): Promise<TestTokens> {
    if (location === undefined) throw new UnexpectedAnswer("the browser was not redirected to the client");
    return readTokens(await this.exchange(codeIn(location)));
  }

  exchange(code: string, parameters?: RequestParameters): Promise<TestAnswer> {
    const { redirect_uri } = this;
    return this.token({ grant_type: "authorization_code", code, redirect_uri, ...parameters });
  }

  refresh(refresh_token: unknown, parameters?: RequestParameters): Promise<TestAnswer> {
    const form = { grant_type: "refresh_token", refresh_token: String(refresh_token) };
    return this.token({ ...form, ...parameters });
  }

  /** The password grant. The form has the credentials of the client, as the interface documents it. */
  password({ username, password }: TestVisitor, parameters?: RequestParameters): Promise<TestAnswer> {
    const { client_id, client_secret } = this;
    const form = { grant_type: "password", client_id, client_secret, username, password };
    return this.token({ ...form, ...parameters }, {});
  }

  /** Asks for the codes that a device shows. @throws UnexpectedAnswer if there are none. */
  async deviceCodes(parameters: RequestParameters = {}, headers?: HeadersInit): Promise<DeviceCodes> {
    const answer = await this.post("/oauth2/device", parameters, headers);
    if (answer.status !== 200)
      throw new UnexpectedAnswer(`the device endpoint answered ${answer.status}: ${answer.text}`);
    return answer.body as unknown as DeviceCodes;
  }

  /** Asks for the tokens of a device, once a person has typed its code at `verification_uri`. */
  poll(
    { device_code }: Pick<DeviceCodes, "device_code">,
    parameters?: RequestParameters,
    headers?: HeadersInit,
  ): Promise<TestAnswer> {
    return this.token({ grant_type: DEVICE_GRANT, device_code, ...parameters }, headers);
  }

  /** Posts to the token endpoint, as {@link post} does. */
  token(parameters: RequestParameters, headers?: HeadersInit): Promise<TestAnswer> {
    return this.post("/oauth2/token", parameters, headers);
  }

  /**
   * Posts a form to an endpoint, such as `/oauth2/par`.
   * @param headers default: Basic credentials. A client without a secret has its `client_id` in the form instead.
   */
  post(path: string, parameters: RequestParameters, headers?: HeadersInit): Promise<TestAnswer> {
    const { client_id, client_secret } = this;
    const hasSecret = client_secret !== undefined;
    return send(this.base + path, {
      method: "POST",
      headers: headers ?? (hasSecret ? { authorization: basic(this) } : {}),
      body: formOf(hasSecret ? parameters : { client_id, ...parameters }),
    });
  }

  /** Requests the user information of a token. */
  userinfo(access_token: unknown): Promise<TestAnswer> {
    return this.bearer(PATHS[this.deployment].userinfo, access_token);
  }

  /** Requests the profile of a token. */
  profile(access_token: unknown): Promise<TestAnswer> {
    return this.bearer(PATHS[this.deployment].profile, access_token);
  }

  /** Ends a token and those of the same sign-in. */
  revoke(access_token: unknown, method: "GET" | "POST" = "GET"): Promise<TestAnswer> {
    return this.bearer("/oauth2/revoke", access_token, { method });
  }

  /** Sends a request with a Bearer token, and `client_id` in the query, as documented. */
  bearer(path: string, token: unknown, init: RequestInit = {}): Promise<TestAnswer> {
    const headers = new Headers(init.headers);
    headers.set("authorization", `Bearer ${String(token)}`);
    return send(`${this.base}${path}?client_id=${this.client_id}`, { ...init, headers });
  }
}

/** A new PKCE pair: the parameters of the authorization request, and what the exchange needs. */
export function newProof(): {
  readonly request: { readonly code_challenge: string; readonly code_challenge_method: "S256" };
  readonly code_verifier: string;
} {
  const code_verifier = randomBytes(32).toString("base64url");
  const code_challenge = hash("sha256", code_verifier, "base64url");
  return { request: { code_challenge, code_challenge_method: "S256" }, code_verifier };
}

/** HTTP Basic credentials. */
export function basic({
  client_id,
  client_secret = "",
}: Pick<TestClientParts, "client_id" | "client_secret">): string {
  return `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}`;
}

/** Sends a request without following redirects. */
export async function send(address: string, init: RequestInit = {}): Promise<TestAnswer> {
  const response = await fetch(address, { redirect: "manual", ...init });
  const text = await response.text();
  const isJson = /^application\/(?:jwk-set\+)?json/.test(response.headers.get("content-type") ?? "");
  const body = isJson && text !== "" ? (JSON.parse(text) as TestAnswer["body"]) : {};
  return { status: response.status, headers: response.headers, body, text };
}

/** The tokens of a response. @throws UnexpectedAnswer if it has none. */
export function readTokens({ status, body, text }: TestAnswer): TestTokens {
  if (status !== 200) throw new UnexpectedAnswer(`the token endpoint answered ${status}: ${text}`);
  return body as unknown as TestTokens;
}

function codeIn({ searchParams, search }: URL): string {
  const code = searchParams.get("code");
  if (code === null) throw new UnexpectedAnswer(`no code came back: ${search}`);
  return code;
}

function formOf(parameters: RequestParameters): URLSearchParams {
  const pairs = Object.entries(parameters).flatMap(([name, value]) =>
    [value ?? []].flat().map((each) => [name, each]),
  );
  return new URLSearchParams(pairs);
}
