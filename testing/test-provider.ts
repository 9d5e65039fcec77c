/** Another provider to sign in with, for tests: a real server on a loopback port, which lies on demand. */
import { createHash, createHmac, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, createSystemClock, seconds } from "../core/clock.ts";
import { lieOf, type ProviderEndpoint, type ProviderLie, type ProviderResponse } from "./provider-lies.ts";

/** Somebody at the provider: the claims about the person. Everything but `sub` is optional. */
export interface ProviderPerson {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean | "true" | "false";
  readonly given_name?: string;
  readonly family_name?: string;
  /** Seconds since the epoch. Default: the moment of the authorization. `null`: the provider does not say. */
  readonly auth_time?: number | null;
  readonly amr?: readonly string[];
  /** Such as `hd` of Google, or `tid` and `oid` of Microsoft. */
  readonly [claim: string]: unknown;
}

/** A request that the provider got. */
export interface ProviderRequest {
  readonly endpoint: ProviderEndpoint | "other";
  readonly method: string;
  /** With the host that it was meant for. */
  readonly url: string;
  /** Of the query and the body. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly authorization: string | undefined;
}

/** How the browser goes back: by GET, or by POST with a form. */
export interface ProviderAnswer {
  readonly url: string;
  readonly form?: Readonly<Record<string, string>>;
}

interface ProviderOptions {
  /** Default: `sign-in`. */
  readonly client_id?: string;
  /** Default: a random one. */
  readonly client_secret?: string;
  /** Whether this client secret is right. Default: if it is `client_secret`. */
  readonly isSecret?: (secret: string) => boolean;
  /** Addresses to which a browser may go back. Default: all. */
  readonly redirect_uris?: readonly string[];
  /** Claims of the person that only the userinfo endpoint tells. Default: none. */
  readonly userinfoOnly?: readonly string[];
}

interface Code {
  readonly parameters: URLSearchParams;
  readonly person: ProviderPerson;
  readonly base: string;
  readonly at: number;
}

const SUFFIXES: readonly (readonly [suffix: string, endpoint: ProviderEndpoint])[] = [
  ["/.well-known/openid-configuration", "discovery"],
  ["/authorize", "authorize"],
  ["/token", "token"],
  ["/access_token", "token"],
  ["/jwks", "keys"],
  ["/userinfo", "userinfo"],
];

/** Requests for other hosts come with their host in the path. */
const FOREIGN = "/-/";
const ID_TOKEN_SECONDS = 300;
const KID = "provider-key";

const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/**
 * A provider that a test starts, for `providers` of the configuration. It signs in whoever the test says, without a page,
 * and follows OpenID Connect until the test tells it to lie.
 */
export class TestProvider {
  /** Its issuer. */
  readonly issuer: string;
  readonly client_id: string;
  readonly client_secret: string;
  /** Every request, oldest first. */
  readonly requests: ProviderRequest[] = [];
  /** The time of its tokens. Default: the system's. A test that moves the clock of its service sets the same clock here. */
  clock: Clock = createSystemClock();
  /** What it does wrong from now on. */
  readonly lies: {
    /** @param at the endpoint that does not answer as it should, for a lie about answers; default `token`. */
    set(name: ProviderLie, at?: ProviderEndpoint): void;
    /** It is honest again. */
    clear(): void;
  };
  /** For Microsoft: the issuer that its key is for. Default: any. */
  keyIssuer: string | undefined;
  /** What its authorization endpoint answers, in place of sending the browser back. */
  authorizationPage: Exclude<ProviderResponse, string> | undefined;
  readonly #options: ProviderOptions;
  readonly #server: Server;
  readonly #lies = new Map<ProviderLie, ProviderEndpoint>();
  readonly #codes = new Map<string, Code>();
  readonly #tokens = new Map<string, Code>();
  readonly #waiting = new Map<string, PromiseWithResolvers<ProviderRequest>>();
  #keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  #kid = KID;
  #person: ProviderPerson | undefined;

  private constructor(server: Server, options: ProviderOptions) {
    this.#server = server;
    this.#options = options;
    this.issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
    this.client_id = options.client_id ?? "sign-in";
    this.client_secret = options.client_secret ?? randomBytes(24).toString("base64url");
    this.lies = {
      set: (name, at = "token") => void this.#lies.set(name, at),
      clear: () => this.#lies.clear(),
    };
    server.on("request", (request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }

  static async open(options: ProviderOptions = {}): Promise<TestProvider> {
    const server = createServer({ keepAliveTimeout: 0 });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    return new TestProvider(server, options);
  }

  /** For `providers` of the configuration. */
  get settings(): { issuer: string; client_id: string; client_secret: string; name: string } {
    const { issuer, client_id, client_secret } = this;
    return { issuer, client_id, client_secret, name: "Test provider" };
  }

  /** From now on, whoever comes is this person. `undefined`: the person goes back without signing in. */
  signIn(person: ProviderPerson | undefined): void {
    this.#person = person;
  }

  /** Signs with a new key, and publishes only that. */
  rotateKey(): void {
    this.#keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
    this.#kid = randomBytes(8).toString("hex");
  }

  /** Resolves with the next request to the endpoint. */
  next(endpoint: ProviderEndpoint): Promise<ProviderRequest> {
    const waiting = this.#waiting.get(endpoint) ?? Promise.withResolvers<ProviderRequest>();
    this.#waiting.set(endpoint, waiting);
    return waiting.promise;
  }

  /**
   * Goes to the provider as a browser does, whatever host the address has.
   * @returns how it sends the browser back.
   * @throws TypeError if it does not.
   */
  async visit(url: string): Promise<ProviderAnswer> {
    const response = await this.fetch(url, { redirect: "manual" });
    const location = response.headers.get("location");
    const text = await response.text();
    if (location !== null) return { url: location };
    const [, action] = /<form method="post" action="([^"]*)">/.exec(text) ?? [];
    if (action === undefined) throw new TypeError(`the provider answered ${response.status}`);
    const inputs = text.matchAll(/name="([^"]*)" value="([^"]*)"/g);
    return { url: action, form: Object.fromEntries([...inputs].map(([, name, value]) => [name!, value!])) };
  }

  /** For `fetch` of the configuration: requests to all hosts come here, such as those to `api.github.com`. */
  readonly fetch = async (target: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const url = new URL(target instanceof Request ? target.url : target);
    const isOwn = url.origin === this.issuer;
    return fetch(isOwn ? url : `${this.issuer}${FOREIGN}${url.host}${url.pathname}${url.search}`, init);
  };

  async close(): Promise<void> {
    const closed = new Promise((resolve) => void this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const sent = new URL(request.url ?? "/", this.issuer);
    const [, host, path = ""] = new RegExp(`^${FOREIGN}([^/]+)(/.*)`).exec(sent.pathname) ?? [];
    const url = host === undefined ? sent : new URL(`https://${host}${path}${sent.search}`);
    const found = SUFFIXES.find(([suffix]) => url.pathname.endsWith(suffix));
    const endpoint: ProviderRequest["endpoint"] = found?.[1] ?? "other";
    const base = found === undefined ? url.origin : `${url.origin}${url.pathname.slice(0, -found[0].length)}`;
    const form = new URLSearchParams(Buffer.concat(parts).toString());
    const parameters = { ...Object.fromEntries(url.searchParams), ...Object.fromEntries(form) };
    const { authorization } = request.headers;
    const got: ProviderRequest = {
      endpoint,
      method: request.method ?? "",
      url: url.href,
      parameters,
      authorization,
    };
    this.requests.push(got);
    const page = endpoint === "authorize" ? this.authorizationPage : undefined;
    const lie = page ?? this.#responseAt(endpoint);
    if (lie !== undefined) await respond(response, lie);
    else if (endpoint === "authorize") this.#authorize(base, url.searchParams, response);
    else {
      const [status, body] = this.#json(endpoint, { base, url, form, authorization });
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    }
    this.#waiting.get(endpoint)?.resolve(got);
    this.#waiting.delete(endpoint);
  }

  #responseAt(endpoint: string): ProviderResponse | undefined {
    for (const [name, at] of this.#lies) {
      const { response } = lieOf(name);
      if (response !== undefined && at === endpoint) return response;
    }
    return undefined;
  }

  /** Lets each lie change it. */
  #bend<T>(part: "discovery" | "answer" | "header" | "claims" | "userinfo", value: T): T {
    for (const name of this.#lies.keys()) (lieOf(name)[part] as ((value: T) => unknown) | undefined)?.(value);
    return value;
  }

  #json(
    endpoint: string,
    {
      base,
      url,
      form,
      authorization,
    }: Readonly<Record<"base", string>> & {
      readonly url: URL;
      readonly form: URLSearchParams;
      readonly authorization: string | undefined;
    },
  ): [status: number, body: unknown] {
    switch (endpoint) {
      case "discovery":
        return [200, this.#bend("discovery", this.#metadata(base))];
      case "keys": {
        const jwk = {
          ...this.#keys.publicKey.export({ format: "jwk" }),
          kid: this.#kid,
          alg: "ES256",
          use: "sig",
          ...(this.keyIssuer !== undefined && { issuer: this.keyIssuer }),
        };
        return [200, { keys: [jwk] }];
      }
      case "token":
        return this.#token(form, authorization);
      default: {
        const code = this.#tokens.get(authorization?.replace(/^Bearer /, "") ?? "");
        if (code === undefined) return [401, { error: "invalid_token" }];
        if (url.pathname === "/user") return [200, code.person];
        if (url.pathname === "/user/emails") return [200, code.person["emails"] ?? []];
        const { auth_time: _time, amr: _methods, ...claims } = code.person;
        return [200, this.#bend("userinfo", claims)];
      }
    }
  }

  /** Microsoft's addresses for several tenants have a template as their issuer. */
  #metadata(base: string): Record<string, unknown> {
    return {
      issuer: base.replace(/\/(?:common|organizations)\//, "/{tenantid}/"),
      authorization_endpoint: `${base}/authorize`,
      token_endpoint: `${base}/token`,
      userinfo_endpoint: `${base}/userinfo`,
      jwks_uri: `${base}/jwks`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["ES256"],
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
      ...(!base.startsWith("https://login.microsoftonline.com/") && {
        authorization_response_iss_parameter_supported: true,
      }),
    };
  }

  #authorize(base: string, parameters: URLSearchParams, response: ServerResponse): void {
    const redirect = URL.parse(parameters.get("redirect_uri") ?? "");
    const { redirect_uris } = this.#options;
    const isKnown = redirect !== null && (redirect_uris?.includes(redirect.href) ?? true);
    if (!isKnown || parameters.get("client_id") !== this.client_id) {
      response
        .writeHead(400, { "content-type": "text/html" })
        .end("<h1>Error: unknown client or address</h1>");
      return;
    }
    const person = parameters.get("prompt") === "none" ? undefined : this.#person;
    const answer = new URLSearchParams();
    if (person === undefined)
      answer.set("error", parameters.get("prompt") === "none" ? "login_required" : "access_denied");
    else {
      const code = randomBytes(16).toString("base64url");
      this.#codes.set(code, { parameters, person, base, at: seconds(this.clock) });
      answer.set("code", code);
    }
    const state = parameters.get("state");
    if (state !== null) answer.set("state", state);
    if (
      this.#metadata(base)["authorization_response_iss_parameter_supported"] === true &&
      !base.includes("github")
    )
      answer.set("iss", base);
    this.#bend("answer", answer);
    if (parameters.get("response_mode") === "form_post") {
      const inputs = [...answer].map(
        ([name, value]) => `<input type="hidden" name="${name}" value="${value}">`,
      );
      const page = `<form method="post" action="${redirect.href}">${inputs.join("")}<button>Continue</button></form>`;
      response.writeHead(200, { "content-type": "text/html" }).end(page);
      return;
    }
    redirect.search = answer.toString();
    response.writeHead(303, { location: redirect.href }).end();
  }

  #token(form: URLSearchParams, authorization: string | undefined): [status: number, body: unknown] {
    const basic = Buffer.from(authorization?.replace(/^Basic /, "") ?? "", "base64").toString();
    const [id, secret] =
      authorization === undefined
        ? [form.get("client_id"), form.get("client_secret")]
        : basic.split(":").map((part) => decodeURIComponent(part));
    const isSecret = this.#options.isSecret ?? ((given: string) => given === this.client_secret);
    if (id !== this.client_id || !isSecret(secret ?? "")) return [401, { error: "invalid_client" }];
    const code = this.#codes.get(form.get("code") ?? "");
    this.#codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    const { parameters } = code ?? {};
    if (
      code === undefined ||
      parameters?.get("redirect_uri") !== form.get("redirect_uri") ||
      parameters?.get("code_challenge") !== challenge
    )
      return [400, { error: "invalid_grant" }];
    const access_token = randomBytes(16).toString("base64url");
    this.#tokens.set(access_token, code);
    const isOpenId = parameters?.get("scope")?.split(" ").includes("openid") === true;
    return [
      200,
      {
        access_token,
        token_type: "Bearer",
        expires_in: 60,
        ...(isOpenId && !this.#lies.has("no ID token") && { id_token: this.#idToken(code) }),
      },
    ];
  }

  #idToken({ parameters, person, base, at }: Code): string {
    const now = seconds(this.clock);
    const { auth_time = at, ...claims } = person;
    const hidden = this.#options.userinfoOnly ?? [];
    const told = Object.entries(claims).filter(([name]) => !hidden.includes(name));
    const payload = this.#bend("claims", {
      ...Object.fromEntries(told),
      ...(auth_time !== null && { auth_time }),
      iss: base.replace(/\/(?:common|organizations)\//, `/${String(person["tid"])}/`),
      aud: this.client_id,
      nonce: parameters.get("nonce"),
      iat: now,
      exp: now + ID_TOKEN_SECONDS,
    });
    const header = this.#bend("header", { alg: "ES256", kid: this.#kid });
    const signed = `${base64url(header)}.${base64url(payload)}`;
    return `${signed}.${this.#signature(signed)}`;
  }

  #signature(signed: string): string {
    const kind = [...this.#lies.keys()]
      .map((name) => lieOf(name).signature)
      .find((each) => each !== undefined);
    if (kind === "none") return "";
    if (kind === "of the client secret")
      return createHmac("sha256", this.client_secret).update(signed).digest("base64url");
    const key: KeyObject =
      kind === "of another key"
        ? generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey
        : this.#keys.privateKey;
    return sign("sha256", Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" }).toString("base64url");
  }
}

/** Between two bytes of an endless answer. */
const DRIP_MS = 20;
const CHUNK = Buffer.alloc(64 * 1024, " ");

async function respond(response: ServerResponse, how: ProviderResponse): Promise<void> {
  if (how === "silence") return;
  if (how === "hang up") return void response.destroy();
  if (how === "endless") {
    response.writeHead(200, { "content-type": "application/json" });
    const timer = setInterval(() => response.write(" "), DRIP_MS);
    response.on("close", () => clearInterval(timer));
    return;
  }
  const { status, headers, body } = how;
  response.writeHead(status, headers);
  if (typeof body === "string") return void response.end(body);
  let left = body.bytes;
  const more = (): void => {
    while (left > 0) {
      left -= CHUNK.length;
      if (!response.write(CHUNK)) return void response.once("drain", more);
    }
    response.end();
  };
  more();
}

/** Starts a {@link TestProvider}; the test closes it. */
export function createTestProvider(options?: ProviderOptions): Promise<TestProvider> {
  return TestProvider.open(options);
}
