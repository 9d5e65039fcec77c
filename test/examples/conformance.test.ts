/**
 * Repeats the plans of `docs/internals/conformance.md` with the bundled server, module by module, with the files of that page. The
 * suite itself can't run here.
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { type RequestParameters, send } from "../../testing/test-client.ts";
import { untilReplay } from "../flows/token-answers.ts";
import { ConformanceClient, type Mode } from "./conformance-client.ts";
import { ConformanceStage, PUBLIC_CLIENT, type SuiteFile } from "./conformance-stage.ts";
import { ROOT, textOf } from "./documents.ts";
import { closing } from "../closing.ts";

let stage: ConformanceStage;
let suite: ConformanceClient;

beforeAll(async () => {
  stage = closing(await ConformanceStage.open());
  suite = await ConformanceClient.discover(stage);
}, 60_000);

describe("docs/internals/conformance.md", () => {
  const text = textOf("docs/internals/conformance.md");

  it("lists the plans, the clients and the warnings", () => {
    const tests = ["conformance", "conformance-logout"].map((name) => `test/examples/${name}.test.ts`);
    const here = tests.map((file) => readFileSync(join(ROOT, file), "utf8")).join();
    const plans = new Set(text.match(/\boidcc-[a-z-]+-test-plan\b/g));
    expect(plans.size).toBe(5);
    for (const plan of plans) expect(here).toContain(`"${plan}"`);
    const clients = JSON.parse(textOf("examples/conformance/server.json")).seed
      .clients as SuiteFile["client"][];
    const file = JSON.parse(textOf("examples/conformance/suite.json")) as SuiteFile;
    expect(clients.map(({ client_id, client_secret }) => ({ client_id, client_secret }))).toEqual([
      file.client,
      file.client2,
      file.client_secret_post,
    ]);
  });

  it("says correctly that production refuses the password and secrets of these files", async () => {
    const config = textOf("examples/conformance/server.json").replaceAll("op.localhost:9443", "op.example");
    const file = stage.servers.write(
      config.replace("sqlite::memory:", "sqlite:./elsewhere.db"),
      "elsewhere.json",
    );
    const { code, output } = await stage.servers.refused(["--config", file]);
    const paths = ["accounts[0].password", ...[0, 1, 2].map((i) => `clients[${i}].client_secret`)];
    expect([code, output.trimEnd().split("\n")]).toEqual([
      2,
      paths.map((path) => `config.seed.${path}: is public in the examples; choose another one`),
    ]);
  });
});

describe("oidcc-config-certification-test-plan", () => {
  it("oidcc-discovery-endpoint-verification", async () => {
    const { discoveryUrl } = stage.suite.server;
    expect(`${String(suite.metadata["issuer"])}/.well-known/openid-configuration`).toBe(discoveryUrl);
    for (const [name, value] of Object.entries(suite.metadata)) {
      if (/_endpoint$|^jwks_uri$/.test(name))
        expect([name, value]).toEqual([name, expect.stringMatching(/^https:/)]);
      if (Array.isArray(value)) expect([name, value.length]).not.toEqual([name, 0]);
    }
    expect(suite.metadata).toMatchObject({
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
    const { body } = await send(String(suite.metadata["jwks_uri"]));
    const keys = body["keys"] as Record<string, unknown>[];
    expect(keys.filter(({ kid }) => typeof kid !== "string")).toEqual([]);
    expect(keys.filter((key) => "d" in key || "k" in key)).toEqual([]);
  });
});

/** What userinfo says for each of the standard scopes. */
const SCOPES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = (() => {
  const profile = {
    name: "Ada Lovelace",
    given_name: "Ada",
    family_name: "Lovelace",
    nickname: "Enchantress",
    preferred_username: "ada",
    website: "https://ada.example/",
    gender: "female",
    birthdate: "1990-12-10",
    zoneinfo: "Europe/London",
    locale: "en",
    updated_at: expect.any(Number),
  };
  const email = { email: "ada@example.com", email_verified: true };
  const address = {
    address: { street_address: "12 St James's Square", locality: "London", country: "GB" },
  };
  const phone = { phone_number: "+442079460958", phone_number_verified: true };
  return { profile, email, address, phone, all: { ...profile, ...email, ...address, ...phone } };
})();

describe.each<[string, Mode, "confidential" | "public"]>([
  ["oidcc-basic-certification-test-plan", "default", "confidential"],
  ["oidcc-formpost-basic-certification-test-plan", "form_post", "confidential"],
  ["oidcc-basic-certification-test-plan", "default", "public"],
  ["oidcc-formpost-basic-certification-test-plan", "form_post", "public"],
])("%s in the mode %s with a %s client", (_plan, mode, kind) => {
  beforeAll(() => {
    suite = suite.as(kind === "public" ? PUBLIC_CLIENT : stage.suite.client);
  });

  it.each<[string, RequestParameters]>([
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
    const { claims, code } = await suite.succeed(module, { mode, parameters });
    expect(code.length).toBeGreaterThanOrEqual(22);
    // Only the documented `email`, and nothing that wasn't requested.
    expect(claims).toMatchObject({ email: "ada@example.com" });
    const known = "iss sub aud exp iat auth_time nonce acr amr azp at_hash s_hash sid email".split(" ");
    expect(Object.keys(claims).filter((name) => !known.includes(name))).toEqual([]);
  });

  it("oidcc-response-type-missing", async () => {
    const parameters = { response_type: undefined };
    const { callback } = await suite.authorize("oidcc-response-type-missing", { mode, parameters });
    const members = ["error", "error_description", "iss", "state"];
    expect([callback?.["error"], Object.keys(callback ?? {}).toSorted()]).toEqual([
      "invalid_request",
      members,
    ]);
  });

  it("oidcc-userinfo-get, -post-header, -post-body", async () => {
    const { tokens, claims } = await suite.succeed("oidcc-userinfo-get", { mode });
    const { access_token } = tokens;
    const posted = await suite.userinfo(access_token, { method: "POST" });
    expect([posted.status, posted.body["sub"]]).toEqual([200, claims.sub]);
    const body = new URLSearchParams({ access_token: String(access_token) });
    const inBody = await send(suite.endpoint("userinfo"), { method: "POST", body });
    expect([inBody.status, inBody.body["sub"]]).toEqual([200, claims.sub]);
  });

  it.each(Object.entries(SCOPES))("oidcc-scope-%s", async (name, claims) => {
    const scopes = name === "all" ? Object.keys(SCOPES).filter((each) => each !== name) : [name];
    expect(suite.metadata["scopes_supported"]).toEqual(expect.arrayContaining(scopes));
    expect(suite.metadata["claims_supported"]).toEqual(expect.arrayContaining(Object.keys(claims)));
    const parameters = { scope: ["openid", ...scopes].join(" ") };
    const done = await suite.succeed(`oidcc-scope-${name}`, { mode, parameters });
    expect(done.userinfo).toEqual({ sub: done.claims.sub, email: "ada@example.com", ...claims });
    // They are in userinfo, because there is an access token for it.
    for (const claim of Object.keys(claims))
      if (claim !== "email") expect(done.claims).not.toHaveProperty(claim);
  });

  it("oidcc-claims-essential", async () => {
    const claims = JSON.stringify({ userinfo: { name: { essential: true } } });
    const done = await suite.succeed("oidcc-claims-essential", { mode, parameters: { claims } });
    expect(done.userinfo["name"]).toBe("Ada Lovelace");
    expect(done.claims).not.toHaveProperty("name");
  });

  it("oidcc-ensure-request-with-acr-values-succeeds", async () => {
    const supported = suite.metadata["acr_values_supported"] as string[];
    const parameters = { acr_values: supported.join(" ") };
    const { claims } = await suite.succeed("oidcc-ensure-request-with-acr-values-succeeds", {
      mode,
      parameters,
    });
    expect(supported).toContain(claims["acr"]);
  });

  it("oidcc-prompt-login", async () => {
    const browser = stage.browser();
    await suite.succeed("oidcc-prompt-login", { mode, browser });
    const again = await suite.succeed("oidcc-prompt-login", {
      mode,
      browser,
      parameters: { prompt: "login" },
    });
    expect(again.page.placeholder).toMatch(/^Sign in/);
  });

  it("oidcc-prompt-none-not-logged-in, oidcc-prompt-none-logged-in, oidcc-id-token-hint, oidcc-max-age-10000", async () => {
    const browser = stage.browser();
    const none = { prompt: "none" };
    const refused = await suite.authorize("oidcc-prompt-none-not-logged-in", {
      mode,
      browser,
      parameters: none,
    });
    expect(refused.callback).toMatchObject({ error: "login_required" });
    expect(refused.callback).not.toHaveProperty("code");
    const module = "oidcc-prompt-none-logged-in";
    const first = await suite.succeed(module, { mode, browser });
    const id_token_hint = String(first.tokens["id_token"]);
    for (const parameters of [none, { ...none, id_token_hint }, { max_age: "10000" }]) {
      const second = await suite.succeed(module, { mode, browser, parameters });
      expect([second.page.placeholder, second.claims.sub]).toEqual([undefined, first.claims.sub]);
      const { auth_time } = first.claims;
      if (auth_time !== undefined) expect(second.claims["auth_time"]).toBe(auth_time);
    }
  });

  it("oidcc-max-age-1", async () => {
    const browser = stage.browser();
    const parameters = { max_age: "1" };
    const first = await suite.succeed("oidcc-max-age-1", { mode, browser, parameters });
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    const second = await suite.succeed("oidcc-max-age-1", { mode, browser, parameters });
    expect(second.page.placeholder).toMatch(/^Sign in/);
    expect(Number(second.claims["auth_time"])).toBeGreaterThan(Number(first.claims["auth_time"]));
  });

  it("oidcc-codereuse, oidcc-codereuse-30seconds", async () => {
    const { code, tokens } = await suite.succeed("oidcc-codereuse", { mode });
    // Within a second it is refused as well, but ends nothing. The suite looks at the access token after 30 seconds only.
    expect((await suite.exchange(code)).status).toBe(400);
    await untilReplay();
    const again = await suite.exchange(code);
    expect([again.status, again.body["error"]]).toEqual([400, "invalid_grant"]);
    expect(again.headers.get("content-type")).toMatch(/^application\/json/);
    expect((await suite.userinfo(tokens["access_token"])).status).toBe(401);
  });

  it("oidcc-ensure-registered-redirect-uri", async () => {
    const module = "oidcc-ensure-registered-redirect-uri";
    const parameters = { redirect_uri: `${suite.callbackOf()}/not-registered` };
    const { callback, placeholder } = await suite.authorize(module, { mode, parameters });
    expect([callback, placeholder]).toEqual([undefined, "We can’t send you back"]);
  });

  it("oidcc-ensure-post-request-succeeds", async () => {
    await suite.succeed("oidcc-ensure-post-request-succeeds", { mode, method: "POST" });
  });

  it("oidcc-server-client-secret-post", async () => {
    const client = stage.suite.client_secret_post;
    const { callback } = await suite.authorize("oidcc-server-client-secret-post", { mode, client });
    const form = {
      grant_type: "authorization_code",
      ...callback,
      redirect_uri: stage.at("callback"),
      ...client,
    };
    const { code, ...rest } = form as typeof form & { code: string };
    const body = new URLSearchParams({ ...rest, code });
    for (const name of ["state", "iss"]) body.delete(name);
    await suite.idToken(await send(suite.endpoint("token"), { method: "POST", body }), client);
  });

  /** An unsigned request object as the suite creates it, with almost all parameters inside. */
  function withObject(changes: RequestParameters): RequestParameters {
    const inside = {
      client_id: suite.client.client_id,
      redirect_uri: suite.callbackOf(),
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

  it("oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported is skipped: the error says so, in the response mode that the object requests", async () => {
    const module = "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported";
    const request = suite.address("authorization", {
      client_id: suite.client.client_id,
      redirect_uri: suite.callbackOf(),
      scope: "openid",
      response_type: "code",
      ...withObject({}),
    });
    const { callback, byPost } = await stage.visit(stage.browser(), module, request);
    expect([callback?.["error"], byPost]).toEqual(["request_not_supported", mode === "form_post"]);
  });

  it("oidcc-ensure-request-object-with-redirect-uri", async () => {
    const module = "oidcc-ensure-request-object-with-redirect-uri";
    const parameters = withObject({ redirect_uri: `${suite.callbackOf()}/not-registered` });
    const { callback, placeholder } = await suite.authorize(module, { parameters });
    expect([callback, placeholder]).toEqual([undefined, "We can’t send you back"]);
  });

  it("oidcc-refresh-token", async () => {
    const { client } = suite;
    const { client2 } = stage.suite;
    const refreshed: unknown[] = [];
    for (const each of [client, client2]) {
      const { tokens, claims } = await suite.succeed("oidcc-refresh-token", { mode, client: each });
      const refresh_token = String(tokens["refresh_token"]);
      const answer = await suite.token({ grant_type: "refresh_token", refresh_token }, each);
      const { sub, iss, aud, auth_time } = await suite.idToken(answer, each);
      expect({ sub, iss, aud, auth_time }).toEqual({
        sub: claims.sub,
        iss: claims.iss,
        aud: claims.aud,
        auth_time: claims["auth_time"],
      });
      expect((await suite.userinfo(answer.body["access_token"])).status).toBe(200);
      refreshed.push(answer.body["refresh_token"]);
    }
    const foreign = await suite.token(
      { grant_type: "refresh_token", refresh_token: String(refreshed[1]) },
      client,
    );
    expect([foreign.status, foreign.body["error"]]).toEqual([400, "invalid_grant"]);
  });

  it("oidcc-ensure-request-with-valid-pkce-succeeds", async () => {
    const code_verifier = randomBytes(32).toString("base64url");
    const code_challenge = createHash("sha256").update(code_verifier).digest("base64url");
    const parameters = { code_challenge, code_challenge_method: "S256" };
    await suite.succeed(
      "oidcc-ensure-request-with-valid-pkce-succeeds",
      { mode, parameters },
      { code_verifier },
    );
  });
});
