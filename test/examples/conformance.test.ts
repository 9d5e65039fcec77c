/**
 * What the five plans of `docs/conformance.md` ask of the bundled server, module by module, with the files that the
 * document starts it with. The suite itself can't run here.
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { createRemoteJWKSet, type JWTPayload, jwtVerify } from "jose";
import type { Browser } from "../../lib/testing/browser/browser.ts";
import { type Answer, basic, type Parameters, send } from "../flows/relying-party.ts";
import { ConformanceStage, type Seen, type SuiteFile } from "./conformance-stage.ts";
import { textOf } from "./documents.ts";

type Client = SuiteFile["client"];
type Mode = "default" | "form_post";

let stage: ConformanceStage;
let metadata: Readonly<Record<string, unknown>>;
let jwks: ReturnType<typeof createRemoteJWKSet>;

beforeAll(async () => {
  stage = await ConformanceStage.open();
  const { status, headers, body } = await send(stage.suite.server.discoveryUrl);
  expect([status, headers.get("content-type")]).toEqual([200, expect.stringMatching(/^application\/json/)]);
  metadata = body;
  jwks = createRemoteJWKSet(new URL(String(metadata["jwks_uri"])));
}, 60_000);
afterAll(() => stage.close());

function endpoint(name: string): string {
  return String(metadata[`${name}_endpoint`]);
}

function address(name: string, parameters: Parameters): string {
  const defined = Object.entries(parameters).filter(
    (pair): pair is [string, string] => pair[1] !== undefined,
  );
  return `${endpoint(name)}?${new URLSearchParams(defined)}`;
}

interface Asked {
  readonly mode?: Mode;
  readonly parameters?: Parameters;
  readonly client?: Client;
  readonly browser?: Browser;
  readonly method?: string;
}

/** One authorization request of a module, and what came back to the suite. */
async function authorize(module: string, asked: Asked = {}): Promise<Seen & { readonly nonce: string }> {
  const { mode = "default", parameters = {}, client = stage.suite.client, browser, method } = asked;
  const [state, nonce] = [randomUUID(), randomUUID()];
  const request = {
    client_id: client.client_id,
    redirect_uri: stage.at("callback"),
    scope: "openid",
    state,
    nonce,
    response_type: "code",
    response_mode: mode === "form_post" ? mode : undefined,
    ...parameters,
  };
  const target = address("authorization", request);
  const seen = await stage.visit(browser ?? stage.browser(), module, target, method);
  if (seen.callback !== undefined) {
    expect(seen.byPost).toBe(mode === "form_post");
    expect(seen.callback).toMatchObject({ state, iss: metadata["issuer"] });
  }
  return { ...seen, nonce };
}

function token(form: Parameters, client: Client = stage.suite.client): Promise<Answer> {
  const body = new URLSearchParams(form as Record<string, string>);
  return send(endpoint("token"), { method: "POST", headers: { authorization: basic(client) }, body });
}

function exchange(code: string | undefined, more: Parameters = {}, client?: Client): Promise<Answer> {
  const redirect_uri = stage.at("callback");
  return token({ grant_type: "authorization_code", code, redirect_uri, ...more }, client);
}

async function idToken(
  { status, body, text }: Answer,
  { client_id }: Client = stage.suite.client,
): Promise<JWTPayload> {
  if (status !== 200) throw new Error(`the token endpoint answered ${status}: ${text}`);
  expect(body).toMatchObject({ token_type: "bearer", expires_in: expect.any(Number) });
  const { payload, protectedHeader } = await jwtVerify(String(body["id_token"]), jwks, {
    issuer: String(metadata["issuer"]),
    audience: client_id,
    requiredClaims: ["sub", "iat", "exp"],
  });
  expect(protectedHeader).toMatchObject({ alg: "RS256", kid: expect.any(String) });
  return payload;
}

function userinfo(access_token: unknown, init: RequestInit = {}): Promise<Answer> {
  return send(endpoint("userinfo"), {
    headers: { authorization: `Bearer ${String(access_token)}` },
    ...init,
  });
}

interface Done {
  readonly claims: JWTPayload;
  readonly tokens: Answer["body"];
  readonly userinfo: Answer["body"];
  readonly code: string;
  readonly seen: Seen;
}

/** A module that goes well: code, tokens, a valid ID token, user information about the same person. */
async function succeed(module: string, asked: Asked = {}, form: Parameters = {}): Promise<Done> {
  const seen = await authorize(module, asked);
  const { code = "" } = seen.callback ?? {};
  expect([module, seen.callback?.["error"], code.length]).toEqual([module, undefined, expect.any(Number)]);
  const answer = await exchange(code, form, asked.client);
  const claims = await idToken(answer, asked.client);
  const hasNonce = asked.parameters === undefined || !Object.hasOwn(asked.parameters, "nonce");
  expect(claims["nonce"]).toBe(hasNonce ? seen.nonce : undefined);
  const info = await userinfo(answer.body["access_token"]);
  expect([info.status, info.body["sub"]]).toEqual([200, claims.sub]);
  return { claims, tokens: answer.body, userinfo: info.body, code, seen };
}

describe("docs/conformance.md", () => {
  const text = textOf("docs/conformance.md");

  it("says which plans are run, with what, and which warnings there are", () => {
    const here = readFileSync(import.meta.filename, "utf8");
    const plans = new Set(text.match(/\boidcc-[a-z-]+-test-plan\b/g));
    expect(plans.size).toBe(5);
    for (const plan of plans) expect(here).toContain(`"${plan}"`);
    const clients = JSON.parse(textOf("examples/conformance/server.json")).seed.clients as Client[];
    const suite = JSON.parse(textOf("examples/conformance/suite.json")) as SuiteFile;
    expect(clients.map(({ client_id, client_secret }) => ({ client_id, client_secret }))).toEqual([
      suite.client,
      suite.client2,
      suite.client_secret_post,
    ]);
  });

  it("is right that these files are for this machine alone: elsewhere their password and secrets are refused", async () => {
    const config = textOf("examples/conformance/server.json").replaceAll("op.localhost:9443", "op.example");
    const file = stage.room.write(
      config.replace("sqlite::memory:", "sqlite:./elsewhere.db"),
      "elsewhere.json",
    );
    const { code, said } = await stage.room.refused(["--config", file]);
    const places = ["accounts[0].password", ...[0, 1, 2].map((i) => `clients[${i}].client_secret`)];
    expect([code, said.trimEnd().split("\n")]).toEqual([
      1,
      places.map((place) => `config.seed.${place}: is printed in the examples; choose another one`),
    ]);
  });
});

describe("oidcc-config-certification-test-plan", () => {
  it("oidcc-discovery-endpoint-verification", async () => {
    const { discoveryUrl } = stage.suite.server;
    expect(`${String(metadata["issuer"])}/.well-known/openid-configuration`).toBe(discoveryUrl);
    for (const [name, value] of Object.entries(metadata)) {
      if (/_endpoint$|^jwks_uri$/.test(name))
        expect([name, value]).toEqual([name, expect.stringMatching(/^https:/)]);
      if (Array.isArray(value)) expect([name, value.length]).not.toEqual([name, 0]);
    }
    expect(metadata).toMatchObject({
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: expect.arrayContaining(["RS256"]),
      claims_parameter_supported: true,
      claims_supported: expect.arrayContaining(["sub"]),
      scopes_supported: expect.arrayContaining(["openid"]),
      grant_types_supported: expect.arrayContaining(["authorization_code", "refresh_token"]),
      code_challenge_methods_supported: expect.arrayContaining(["S256"]),
      token_endpoint_auth_methods_supported: expect.arrayContaining([
        "client_secret_basic",
        "client_secret_post",
      ]),
    });
    const { body } = await send(String(metadata["jwks_uri"]));
    const keys = body["keys"] as Record<string, unknown>[];
    expect(keys.filter(({ kid }) => typeof kid !== "string")).toEqual([]);
    expect(keys.filter((key) => "d" in key || "k" in key)).toEqual([]);
  });
});

describe.each<[string, Mode]>([
  ["oidcc-basic-certification-test-plan", "default"],
  ["oidcc-formpost-basic-certification-test-plan", "form_post"],
])("%s", (_plan, mode) => {
  it.each<[string, Parameters]>([
    ["oidcc-server", {}],
    ["oidcc-ensure-request-without-nonce-succeeds-for-code-flow", { nonce: undefined }],
    ["oidcc-alternate-happy-flow", { scope: "email openid" }],
    ["oidcc-display-page", { display: "page" }],
    ["oidcc-display-popup", { display: "popup" }],
    ["oidcc-ensure-request-with-unknown-parameter-succeeds", { extra: "foobar" }],
    ["oidcc-login-hint", { login_hint: "buffy@op.localhost" }],
    ["oidcc-ui-locales", { ui_locales: "en se" }],
    ["oidcc-claims-locales", { claims_locales: "se" }],
  ])("%s", async (module, parameters) => {
    const { claims, code } = await succeed(module, { mode, parameters });
    expect(code.length).toBeGreaterThanOrEqual(22);
    // The documented address of the person, and nothing that was not asked for.
    expect(claims).toMatchObject({ email: "ada@example.com" });
    const known = "iss sub aud exp iat auth_time nonce acr amr azp at_hash s_hash sid email".split(" ");
    expect(Object.keys(claims).filter((name) => !known.includes(name))).toEqual([]);
  });

  it("oidcc-response-type-missing", async () => {
    const parameters = { response_type: undefined };
    const { callback } = await authorize("oidcc-response-type-missing", { mode, parameters });
    const members = ["error", "error_description", "iss", "state"];
    expect([callback?.["error"], Object.keys(callback ?? {}).toSorted()]).toEqual([
      "invalid_request",
      members,
    ]);
  });

  it("oidcc-userinfo-get, -post-header, -post-body", async () => {
    const { tokens, claims } = await succeed("oidcc-userinfo-get", { mode });
    const { access_token } = tokens;
    const posted = await userinfo(access_token, { method: "POST" });
    expect([posted.status, posted.body["sub"]]).toEqual([200, claims.sub]);
    const body = new URLSearchParams({ access_token: String(access_token) });
    const inBody = await send(endpoint("userinfo"), { method: "POST", body });
    expect([inBody.status, inBody.body["sub"]]).toEqual([200, claims.sub]);
  });

  it("oidcc-scope-profile, -email; -address, -phone and -all are skipped, for the discovery document has no such scopes", async () => {
    expect(metadata["scopes_supported"]).toEqual(expect.arrayContaining(["openid", "profile", "email"]));
    for (const scope of ["address", "phone"]) expect(metadata["scopes_supported"]).not.toContain(scope);
    const profile = await succeed("oidcc-scope-profile", { mode, parameters: { scope: "openid profile" } });
    expect(profile.userinfo).toMatchObject({
      name: "Ada Lovelace",
      given_name: "Ada",
      family_name: "Lovelace",
      birthdate: "1990-12-10",
      gender: "female",
      preferred_username: "ada",
      updated_at: expect.any(Number),
    });
    const email = await succeed("oidcc-scope-email", { mode, parameters: { scope: "openid email" } });
    expect(email.userinfo).toMatchObject({ email: "ada@example.com", email_verified: true });
  });

  it("oidcc-claims-essential", async () => {
    const claims = JSON.stringify({ userinfo: { name: { essential: true } } });
    const done = await succeed("oidcc-claims-essential", { mode, parameters: { claims } });
    expect(done.userinfo["name"]).toBe("Ada Lovelace");
    expect(done.claims).not.toHaveProperty("name");
  });

  it("oidcc-ensure-request-with-acr-values-succeeds", async () => {
    const supported = metadata["acr_values_supported"] as string[];
    const parameters = { acr_values: supported.join(" ") };
    const { claims } = await succeed("oidcc-ensure-request-with-acr-values-succeeds", { mode, parameters });
    expect(supported).toContain(claims["acr"]);
  });

  it("oidcc-prompt-login", async () => {
    const browser = stage.browser();
    await succeed("oidcc-prompt-login", { mode, browser });
    const again = await succeed("oidcc-prompt-login", { mode, browser, parameters: { prompt: "login" } });
    expect(again.seen.placeholder).toMatch(/^Sign in to continue/);
  });

  it("oidcc-prompt-none-not-logged-in, oidcc-prompt-none-logged-in, oidcc-id-token-hint, oidcc-max-age-10000", async () => {
    const browser = stage.browser();
    const none = { prompt: "none" };
    const refused = await authorize("oidcc-prompt-none-not-logged-in", { mode, browser, parameters: none });
    expect(refused.callback).toMatchObject({ error: "login_required" });
    expect(refused.callback).not.toHaveProperty("code");
    const module = "oidcc-prompt-none-logged-in";
    const first = await succeed(module, { mode, browser });
    const id_token_hint = String(first.tokens["id_token"]);
    for (const parameters of [none, { ...none, id_token_hint }, { max_age: "10000" }]) {
      const second = await succeed(module, { mode, browser, parameters });
      expect([second.seen.placeholder, second.claims.sub]).toEqual([undefined, first.claims.sub]);
      const { auth_time } = first.claims;
      if (auth_time !== undefined) expect(second.claims["auth_time"]).toBe(auth_time);
    }
  });

  it("oidcc-max-age-1", async () => {
    const browser = stage.browser();
    const parameters = { max_age: "1" };
    const first = await succeed("oidcc-max-age-1", { mode, browser, parameters });
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    const second = await succeed("oidcc-max-age-1", { mode, browser, parameters });
    expect(second.seen.placeholder).toMatch(/^Sign in to continue/);
    expect(Number(second.claims["auth_time"])).toBeGreaterThan(Number(first.claims["auth_time"]));
  });

  it("oidcc-codereuse, oidcc-codereuse-30seconds", async () => {
    const { code, tokens } = await succeed("oidcc-codereuse", { mode });
    const again = await exchange(code);
    expect([again.status, again.body["error"]]).toEqual([400, "invalid_grant"]);
    expect(again.headers.get("content-type")).toMatch(/^application\/json/);
    expect((await userinfo(tokens["access_token"])).status).toBe(401);
  });

  it("oidcc-ensure-registered-redirect-uri", async () => {
    const module = "oidcc-ensure-registered-redirect-uri";
    const parameters = { redirect_uri: `${stage.at("callback")}/not-registered` };
    const { callback, placeholder } = await authorize(module, { mode, parameters });
    expect([callback, placeholder]).toEqual([undefined, "This did not work"]);
  });

  it("oidcc-ensure-post-request-succeeds", async () => {
    await succeed("oidcc-ensure-post-request-succeeds", { mode, method: "POST" });
  });

  it("oidcc-server-client-secret-post", async () => {
    const client = stage.suite.client_secret_post;
    const { callback } = await authorize("oidcc-server-client-secret-post", { mode, client });
    const form = {
      grant_type: "authorization_code",
      ...callback,
      redirect_uri: stage.at("callback"),
      ...client,
    };
    const { code, ...rest } = form as typeof form & { code: string };
    const body = new URLSearchParams({ ...rest, code });
    for (const name of ["state", "iss"]) body.delete(name);
    await idToken(await send(endpoint("token"), { method: "POST", body }), client);
  });

  /** An unsigned request object, as the suite makes it: everything in it, little beside it. */
  function withObject(changes: Parameters): Parameters {
    const inside = {
      client_id: stage.suite.client.client_id,
      redirect_uri: stage.at("callback"),
      scope: "openid",
      state: randomUUID(),
      nonce: randomUUID(),
      response_type: "code",
      ...(mode === "form_post" && { response_mode: mode }),
    };
    const parts = [{ alg: "none" }, inside].map((part) =>
      Buffer.from(JSON.stringify(part)).toString("base64url"),
    );
    const request = `${parts.join(".")}.`;
    return { request, state: undefined, nonce: undefined, response_mode: undefined, ...changes };
  }

  it("oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported is skipped: the error says so, in the mode that the object asks for", async () => {
    const module = "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported";
    const request = address("authorization", {
      client_id: stage.suite.client.client_id,
      redirect_uri: stage.at("callback"),
      scope: "openid",
      response_type: "code",
      ...withObject({}),
    });
    const { callback, byPost } = await stage.visit(stage.browser(), module, request);
    expect([callback?.["error"], byPost]).toEqual(["request_not_supported", mode === "form_post"]);
  });

  it("oidcc-ensure-request-object-with-redirect-uri", async () => {
    const module = "oidcc-ensure-request-object-with-redirect-uri";
    const parameters = withObject({ redirect_uri: `${stage.at("callback")}/not-registered` });
    const { callback, placeholder } = await authorize(module, { parameters });
    expect([callback, placeholder]).toEqual([undefined, "This did not work"]);
  });

  it("oidcc-refresh-token", async () => {
    const { client, client2 } = stage.suite;
    const refreshed: unknown[] = [];
    for (const each of [client, client2]) {
      const { tokens, claims } = await succeed("oidcc-refresh-token", { mode, client: each });
      const refresh_token = String(tokens["refresh_token"]);
      const answer = await token({ grant_type: "refresh_token", refresh_token }, each);
      const { sub, iss, aud, auth_time } = await idToken(answer, each);
      expect({ sub, iss, aud, auth_time }).toEqual({
        sub: claims.sub,
        iss: claims.iss,
        aud: claims.aud,
        auth_time: claims["auth_time"],
      });
      expect((await userinfo(answer.body["access_token"])).status).toBe(200);
      refreshed.push(answer.body["refresh_token"]);
    }
    const foreign = await token({ grant_type: "refresh_token", refresh_token: String(refreshed[1]) }, client);
    expect([foreign.status, foreign.body["error"]]).toEqual([400, "invalid_grant"]);
  });

  it("oidcc-ensure-request-with-valid-pkce-succeeds", async () => {
    const code_verifier = randomBytes(32).toString("base64url");
    const code_challenge = createHash("sha256").update(code_verifier).digest("base64url");
    const parameters = { code_challenge, code_challenge_method: "S256" };
    await succeed("oidcc-ensure-request-with-valid-pkce-succeeds", { mode, parameters }, { code_verifier });
  });
});

/** What a module changes of the logout request. */
type Change = (parameters: Record<string, string>) => Parameters;
const without =
  (...names: string[]): Change =>
  (parameters) =>
    Object.fromEntries(Object.entries(parameters).filter(([name]) => !names.includes(name)));

const unsigned: Change = (parameters) => {
  const [, payload] = (parameters["id_token_hint"] ?? "").split(".");
  const header = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
  return { ...parameters, id_token_hint: `${header}.${payload}.` };
};
const elsewhere =
  (more: string): Change =>
  (all) => ({ ...all, post_logout_redirect_uri: `${all["post_logout_redirect_uri"]}${more}` });

describe("oidcc-rp-initiated-logout-certification-test-plan", () => {
  /** Signs in, goes to the logout endpoint, and looks with `prompt=none` whether anybody is signed in afterwards. */
  async function signOut(module: string, change: Change = (all) => all) {
    const browser = stage.browser();
    const { tokens } = await succeed(module, { browser });
    const id_token_hint = String(tokens["id_token"]);
    const post_logout_redirect_uri = stage.at("post_logout_redirect");
    const state = randomBytes(64).toString("hex");
    const target = address("end_session", change({ id_token_hint, post_logout_redirect_uri, state }));
    const seen = await stage.visit(browser, module, target.replace(/\?$/, ""));
    const after = await authorize(module, { browser, parameters: { prompt: "none" } });
    return { seen, state, error: after.callback?.["error"] };
  }

  it("oidcc-rp-initiated-logout-discovery-endpoint-verification", () => {
    expect(metadata["end_session_endpoint"]).toMatch(/^https:/);
  });

  it.each<[string, Change | undefined]>([
    ["oidcc-rp-initiated-logout", undefined],
    ["oidcc-rp-initiated-logout-no-state", without("state")],
  ])("%s", async (module, change) => {
    const { seen, state, error } = await signOut(module, change);
    expect(seen.url.startsWith(stage.at("post_logout_redirect"))).toBe(true);
    expect(seen.callback).toEqual(change === undefined ? { state } : {});
    expect(error).toBe("login_required");
  });

  it.each<[string, Change, string]>([
    ["oidcc-rp-initiated-logout-bad-post-logout-redirect-uri", elsewhere("/bad"), "This did not work"],
    [
      "oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri",
      elsewhere("?foo=bar"),
      "This did not work",
    ],
    ["oidcc-rp-initiated-logout-modified-id-token-hint", unsigned, "This did not work"],
    [
      "oidcc-rp-initiated-logout-bad-id-token-hint",
      (all) => ({ ...all, id_token_hint: "bad" }),
      "This did not work",
    ],
    ["oidcc-rp-initiated-logout-no-id-token-hint", without("id_token_hint"), "You are signed out"],
    [
      "oidcc-rp-initiated-logout-no-params",
      without("id_token_hint", "post_logout_redirect_uri", "state"),
      "You are signed out",
    ],
    [
      "oidcc-rp-initiated-logout-no-post-logout-redirect-uri",
      without("post_logout_redirect_uri"),
      "You are signed out",
    ],
    [
      "oidcc-rp-initiated-logout-only-state",
      without("id_token_hint", "post_logout_redirect_uri"),
      "You are signed out",
    ],
  ])("%s", async (module, change, page) => {
    const { seen, error } = await signOut(module, change);
    expect([seen.callback, seen.placeholder]).toEqual([undefined, page]);
    expect(error).toBe(page === "You are signed out" ? "login_required" : undefined);
  });

  it("oidcc-backchannel-rp-initiated-logout-certification-test-plan", async () => {
    expect(metadata).toMatchObject({
      backchannel_logout_supported: true,
      backchannel_logout_session_supported: true,
    });
    const module = "oidcc-backchannel-rp-initiated-logout";
    const before = stage.backchannel.length;
    const browser = stage.browser();
    const { tokens, claims } = await succeed(module, { browser });
    const target = address("end_session", {
      id_token_hint: String(tokens["id_token"]),
      post_logout_redirect_uri: stage.at("post_logout_redirect"),
      state: "s",
    });
    expect((await stage.visit(browser, module, target)).callback).toEqual({ state: "s" });
    while (stage.backchannel.length === before) await new Promise((resolve) => setTimeout(resolve, 20));
    const form = new URLSearchParams(stage.backchannel[before]);
    expect([...form.keys()]).toEqual(["logout_token"]);
    const { payload } = await jwtVerify(form.get("logout_token") ?? "", jwks, {
      issuer: String(metadata["issuer"]),
      audience: stage.suite.client.client_id,
      requiredClaims: ["iat", "jti"],
    });
    expect(payload).toMatchObject({
      sub: claims.sub,
      sid: claims["sid"],
      events: { "http://schemas.openid.net/event/backchannel-logout": {} },
    });
    expect(payload).not.toHaveProperty("nonce");
    const after = await authorize(module, { browser, parameters: { prompt: "none" } });
    expect(after.callback).toMatchObject({ error: "login_required" });
  });
});
