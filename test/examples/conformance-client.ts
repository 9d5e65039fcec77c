/** Acts as the client of the conformance suite, with the checks of its modules. */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { expect } from "@jest/globals";
import { createRemoteJWKSet, type JWTPayload, jwtVerify } from "jose";
import type { Browser } from "../../testing/browser/browser.ts";
import { basic, type RequestParameters, send, type TestAnswer } from "../../testing/test-client.ts";
import { type ConformanceStage, type Page, PUBLIC_CALLBACK, type SuiteFile } from "./conformance-stage.ts";

/** A public client has no secret, and proves with PKCE that a code is its own. */
type Client = Omit<SuiteFile["client"], "client_secret"> & { readonly client_secret?: string };

/** The response mode of the plan. */
export type Mode = "default" | "form_post";

/** An authorization request that differs from the usual one. */
export interface AuthorizeOptions {
  readonly mode?: Mode;
  readonly parameters?: RequestParameters;
  readonly client?: Client;
  readonly browser?: Browser;
  readonly method?: string;
}

/** The result of a successful module. */
export interface Done {
  readonly claims: JWTPayload;
  readonly tokens: TestAnswer["body"];
  readonly userinfo: TestAnswer["body"];
  readonly code: string;
  readonly page: Page;
}

export class ConformanceClient {
  readonly stage: ConformanceStage;
  /** The one that requests are made for, unless they say another. */
  readonly client: Client;
  /** The discovery document. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly #jwks: ReturnType<typeof createRemoteJWKSet>;
  /** The verifiers of a public client, each by the code that it is for. */
  readonly #verifiers = new Map<string, string>();

  private constructor(
    stage: ConformanceStage,
    metadata: Readonly<Record<string, unknown>>,
    client: Client = stage.suite.client,
  ) {
    this.stage = stage;
    this.client = client;
    this.metadata = metadata;
    this.#jwks = createRemoteJWKSet(new URL(String(metadata["jwks_uri"])));
  }

  static async discover(stage: ConformanceStage): Promise<ConformanceClient> {
    const { status, headers, body } = await send(stage.suite.server.discoveryUrl);
    expect([status, headers.get("content-type")]).toEqual([200, expect.stringMatching(/^application\/json/)]);
    return new ConformanceClient(stage, body);
  }

  as(client: Client): ConformanceClient {
    return new ConformanceClient(this.stage, this.metadata, client);
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

  callbackOf({ client_secret }: Client = this.client): string {
    return client_secret === undefined ? PUBLIC_CALLBACK : this.stage.at("callback");
  }

  endpoint(name: string): string {
    return String(this.metadata[`${name}_endpoint`]);
  }

  address(name: string, parameters: RequestParameters): string {
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
    const { mode = "default", parameters = {}, client = this.client, browser, method } = options;
    const [state, nonce] = [randomUUID(), randomUUID()];
    const verifier = randomBytes(32).toString("base64url");
    const isPublic = client.client_secret === undefined;
    const request = {
      client_id: client.client_id,
      redirect_uri: this.callbackOf(client),
      scope: "openid",
      state,
      nonce,
      response_type: "code",
      response_mode: mode === "form_post" ? mode : undefined,
      ...(isPublic && {
        code_challenge: createHash("sha256").update(verifier).digest("base64url"),
        code_challenge_method: "S256",
      }),
      ...parameters,
    };
    const target = this.address("authorization", request);
    const page = await this.stage.visit(browser ?? this.stage.browser(), module, target, method);
    if (page.callback !== undefined) {
      expect(page.byPost).toBe(mode === "form_post");
      expect(page.callback).toMatchObject({ state, iss: this.metadata["issuer"] });
      const { code } = page.callback;
      if (isPublic && code !== undefined) this.#verifiers.set(code, verifier);
    }
    return { ...page, nonce };
  }

  token(form: RequestParameters, client: Client = this.client): Promise<TestAnswer> {
    const { client_id, client_secret } = client;
    const body = new URLSearchParams(form as Record<string, string>);
    if (client_secret === undefined) body.set("client_id", client_id);
    const headers: Record<string, string> =
      client_secret === undefined ? {} : { authorization: basic({ client_id, client_secret }) };
    return send(this.endpoint("token"), { method: "POST", headers, body });
  }

  exchange(
    code: string | undefined,
    more: RequestParameters = {},
    client: Client = this.client,
  ): Promise<TestAnswer> {
    const redirect_uri = this.callbackOf(client);
    const code_verifier = this.#verifiers.get(code ?? "");
    const proof = code_verifier === undefined ? {} : { code_verifier };
    return this.token({ grant_type: "authorization_code", code, redirect_uri, ...proof, ...more }, client);
  }

  async idToken({ status, body, text }: TestAnswer, client: Client = this.client): Promise<JWTPayload> {
    if (status !== 200) throw new Error(`the token endpoint answered ${status}: ${text}`);
    expect(body).toMatchObject({ token_type: "bearer", expires_in: expect.any(Number) });
    return this.verify(String(body["id_token"]), client, ["sub", "iat", "exp"]);
  }

  userinfo(access_token: unknown, init: RequestInit = {}): Promise<TestAnswer> {
    return send(this.endpoint("userinfo"), {
      headers: { authorization: `Bearer ${String(access_token)}` },
      ...init,
    });
  }

  /** Runs a successful module: code, tokens, a valid ID token, user information about the same user. */
  async succeed(module: string, options: AuthorizeOptions = {}, form: RequestParameters = {}): Promise<Done> {
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
