/** Acts as the client of the conformance suite, with the checks of its modules. */
import { randomUUID } from "node:crypto";
import { expect } from "@jest/globals";
import { createRemoteJWKSet, type JWTPayload, jwtVerify } from "jose";
import type { Browser } from "../../testing/browser/browser.ts";
import { type Answer, basic, type Parameters, send } from "../flows/relying-party.ts";
import type { ConformanceStage, Page, SuiteFile } from "./conformance-stage.ts";

type Client = SuiteFile["client"];

/** The response mode of the plan. */
export type Mode = "default" | "form_post";

/** An authorization request that differs from the usual one. */
export interface AuthorizeOptions {
  readonly mode?: Mode;
  readonly parameters?: Parameters;
  readonly client?: Client;
  readonly browser?: Browser;
  readonly method?: string;
}

/** The result of a successful module. */
export interface Done {
  readonly claims: JWTPayload;
  readonly tokens: Answer["body"];
  readonly userinfo: Answer["body"];
  readonly code: string;
  readonly page: Page;
}

export class ConformanceClient {
  readonly stage: ConformanceStage;
  /** The discovery document. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly #jwks: ReturnType<typeof createRemoteJWKSet>;

  private constructor(stage: ConformanceStage, metadata: Readonly<Record<string, unknown>>) {
    this.stage = stage;
    this.metadata = metadata;
    this.#jwks = createRemoteJWKSet(new URL(String(metadata["jwks_uri"])));
  }

  static async discover(stage: ConformanceStage): Promise<ConformanceClient> {
    const { status, headers, body } = await send(stage.suite.server.discoveryUrl);
    expect([status, headers.get("content-type")]).toEqual([200, expect.stringMatching(/^application\/json/)]);
    return new ConformanceClient(stage, body);
  }

  /** Verifies a token that the server signed for this client. */
  async verify(token: string, { client_id }: Client, requiredClaims: string[]): Promise<JWTPayload> {
    const { payload, protectedHeader } = await jwtVerify(token, this.#jwks, {
      issuer: String(this.metadata["issuer"]),
      audience: client_id,
      requiredClaims,
    });
    expect(protectedHeader).toMatchObject({ alg: "RS256", kid: expect.any(String) });
    return payload;
  }

  endpoint(name: string): string {
    return String(this.metadata[`${name}_endpoint`]);
  }

  address(name: string, parameters: Parameters): string {
    const defined = Object.entries(parameters).filter(
      (pair): pair is [string, string] => pair[1] !== undefined,
    );
    return `${this.endpoint(name)}?${new URLSearchParams(defined)}`;
  }

  /** Sends one authorization request of a module, and returns the response to the suite. */
  async authorize(
    module: string,
    options: AuthorizeOptions = {},
  ): Promise<Page & { readonly nonce: string }> {
    const { mode = "default", parameters = {}, client = this.stage.suite.client, browser, method } = options;
    const [state, nonce] = [randomUUID(), randomUUID()];
    const request = {
      client_id: client.client_id,
      redirect_uri: this.stage.at("callback"),
      scope: "openid",
      state,
      nonce,
      response_type: "code",
      response_mode: mode === "form_post" ? mode : undefined,
      ...parameters,
    };
    const target = this.address("authorization", request);
    const page = await this.stage.visit(browser ?? this.stage.browser(), module, target, method);
    if (page.callback !== undefined) {
      expect(page.byPost).toBe(mode === "form_post");
      expect(page.callback).toMatchObject({ state, iss: this.metadata["issuer"] });
    }
    return { ...page, nonce };
  }

  token(form: Parameters, client: Client = this.stage.suite.client): Promise<Answer> {
    const body = new URLSearchParams(form as Record<string, string>);
    return send(this.endpoint("token"), { method: "POST", headers: { authorization: basic(client) }, body });
  }

  exchange(code: string | undefined, more: Parameters = {}, client?: Client): Promise<Answer> {
    const redirect_uri = this.stage.at("callback");
    return this.token({ grant_type: "authorization_code", code, redirect_uri, ...more }, client);
  }

  async idToken(
    { status, body, text }: Answer,
    client: Client = this.stage.suite.client,
  ): Promise<JWTPayload> {
    if (status !== 200) throw new Error(`the token endpoint answered ${status}: ${text}`);
    expect(body).toMatchObject({ token_type: "bearer", expires_in: expect.any(Number) });
    return this.verify(String(body["id_token"]), client, ["sub", "iat", "exp"]);
  }

  userinfo(access_token: unknown, init: RequestInit = {}): Promise<Answer> {
    return send(this.endpoint("userinfo"), {
      headers: { authorization: `Bearer ${String(access_token)}` },
      ...init,
    });
  }

  /** Runs a successful module: code, tokens, a valid ID token, user information about the same user. */
  async succeed(module: string, options: AuthorizeOptions = {}, form: Parameters = {}): Promise<Done> {
    const page = await this.authorize(module, options);
    const { code = "" } = page.callback ?? {};
    expect([module, page.callback?.["error"], code.length]).toEqual([module, undefined, expect.any(Number)]);
    const answer = await this.exchange(code, form, options.client);
    const claims = await this.idToken(answer, options.client);
    const hasNonce = options.parameters === undefined || !Object.hasOwn(options.parameters, "nonce");
    expect(claims["nonce"]).toBe(hasNonce ? page.nonce : undefined);
    const info = await this.userinfo(answer.body["access_token"]);
    expect([info.status, info.body["sub"]]).toEqual([200, claims.sub]);
    return { claims, tokens: answer.body, userinfo: info.body, code, page };
  }
}
