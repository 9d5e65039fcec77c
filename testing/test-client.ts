/** A client in a test: sends people to the sign-in, and exchanges their codes. */
import { hash, randomBytes } from "node:crypto";
import { endpointPaths } from "../config/deployments.ts";
import type { DeploymentKind } from "../config/configuration.ts";
import type { Account } from "../accounts/operations/accounts.ts";
import { type Browser, UnexpectedAnswer } from "./browser/browser.ts";

/** An end user with an account, a password and a browser; see `TestSignIn.addPerson`. */
export interface TestPerson {
  readonly account: Account;
  /** The name for the sign-in form: the username. */
  readonly username: string;
  readonly password: string;
  /** Has its own cookies, so that the person stays signed in from one client to the next. */
  readonly browser: Browser;
}

/** Options of one sign-in. */
export interface SignInOptions {
  /** Default: `openid` if the service has that deployment. */
  readonly deployment?: DeploymentKind;
  /** Further parameters of the authorization request, such as `scope`, `nonce`, `prompt` and `max_age`. */
  readonly parameters?: Readonly<Record<string, string>>;
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
}

/** The response of an endpoint. */
export interface TestAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The JSON body; empty for any other body. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** The parts of a client. */
interface TestClientParts {
  readonly client_id: string;
  readonly client_secret: string;
  readonly redirect_uri: string;
  /** Base URLs of the deployments. */
  readonly urls: Partial<Readonly<Record<DeploymentKind, string>>>;
}

/** A registered client of a test service; see `TestSignIn.addClient`. */
export class TestClient {
  readonly client_id: string;
  readonly client_secret: string;
  readonly redirect_uri: string;
  readonly #urls: TestClientParts["urls"];

  constructor({ client_id, client_secret, redirect_uri, urls }: TestClientParts) {
    this.client_id = client_id;
    this.client_secret = client_secret;
    this.redirect_uri = redirect_uri;
    this.#urls = urls;
  }

  /** The authorization URL of this client. */
  authorizationUrl({ deployment, parameters }: SignInOptions = {}): string {
    const { client_id, redirect_uri } = this;
    const kind = this.#kind(deployment);
    const usual = {
      client_id,
      redirect_uri,
      response_type: "code",
      ...(kind === "openid" && { scope: "openid" }),
    };
    return `${this.#address(kind, "authorize")}?${new URLSearchParams({ ...usual, ...parameters })}`;
  }

  /**
   * Sends a person through the authorization endpoint in their browser: fills in the login form, types the code of the app
   * and answers the consent page, if they are shown.
   * @throws UnexpectedAnswer if the browser is not redirected back, for example after a wrong password.
   */
  async authorize(person: TestPerson, options: SignInOptions = {}): Promise<SignInResult> {
    const { browser, username, password } = person;
    await browser.get(this.authorizationUrl(options));
    const loginShown = browser.hasForm("password");
    if (loginShown) await browser.submit(browser.form("password"), { username, password });
    // The form of the app comes first; that of the recovery codes has a field of the same name.
    const codeForm = browser.forms().find(({ fields }) => fields.some(([name]) => name === "code"));
    if (options.code !== undefined && codeForm !== undefined)
      await browser.submit(codeForm, { code: options.code() });
    const consentShown = browser.hasForm("decision");
    if (consentShown)
      await browser.submit(browser.form("decision"), { decision: options.consent ?? "allow" });
    const { location } = browser;
    if (location === undefined)
      throw new UnexpectedAnswer(`${browser.url.pathname} answered ${browser.status}: ${browser.title}`);
    return { location, code: location.searchParams.get("code"), loginShown, consentShown };
  }

  /**
   * A whole sign-in with PKCE: {@link authorize}, and the exchange of the code.
   * @throws UnexpectedAnswer if it does not end with tokens.
   */
  async signIn(person: TestPerson, options: SignInOptions = {}): Promise<TestTokens> {
    const code_verifier = randomBytes(32).toString("base64url");
    const pkce = {
      code_challenge: hash("sha256", code_verifier, "base64url"),
      code_challenge_method: "S256",
    };
    const parameters = { ...pkce, ...options.parameters };
    const { code, location } = await this.authorize(person, { ...options, parameters });
    if (code === null) throw new UnexpectedAnswer(`no code came back: ${location.search}`);
    const { status, body } = await this.exchange(code, { ...options, parameters: { code_verifier } });
    if (status !== 200)
      throw new UnexpectedAnswer(`the exchange was answered ${status}: ${JSON.stringify(body)}`);
    return body as unknown as TestTokens;
  }

  /** Exchanges a code. @param options `parameters` are further form parameters. */
  exchange(code: string, options: SignInOptions = {}): Promise<TestAnswer> {
    const { redirect_uri } = this;
    return this.token(
      { grant_type: "authorization_code", code, redirect_uri, ...options.parameters },
      options,
    );
  }

  /** Uses a refresh token. @param options `parameters` are further form parameters. */
  refresh(refresh_token: string, options: SignInOptions = {}): Promise<TestAnswer> {
    return this.token({ grant_type: "refresh_token", refresh_token, ...options.parameters }, options);
  }

  /** Posts to the token endpoint, with this client's Basic credentials. */
  token(
    parameters: Readonly<Record<string, string>>,
    { deployment }: Pick<SignInOptions, "deployment"> = {},
  ): Promise<TestAnswer> {
    const credentials = Buffer.from(`${this.client_id}:${this.client_secret}`).toString("base64");
    return answered(this.#address(this.#kind(deployment), "token"), {
      method: "POST",
      headers: { authorization: `Basic ${credentials}` },
      body: new URLSearchParams(parameters),
    });
  }

  /** Requests the user information of a token. */
  userinfo(
    access_token: string,
    { deployment }: Pick<SignInOptions, "deployment"> = {},
  ): Promise<TestAnswer> {
    const address = this.#address(this.#kind(deployment), "userinfo");
    return answered(`${address}?${new URLSearchParams({ client_id: this.client_id })}`, {
      headers: { authorization: `Bearer ${access_token}` },
    });
  }

  #kind(deployment: DeploymentKind | undefined): DeploymentKind {
    return deployment ?? (this.#urls.openid === undefined ? "oauth2" : "openid");
  }

  #address(kind: DeploymentKind, endpoint: "authorize" | "token" | "userinfo"): string {
    const url = this.#urls[kind];
    if (url === undefined) throw new TypeError(`deployment: the service has no ${kind} deployment`);
    return url + (endpointPaths[kind].find(({ name }) => name === endpoint)?.path ?? "");
  }
}

async function answered(address: string, init: RequestInit): Promise<TestAnswer> {
  const response = await fetch(address, { redirect: "manual", ...init });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  const body = isJson ? (JSON.parse(text) as TestAnswer["body"]) : {};
  return { status: response.status, headers: response.headers, body };
}
