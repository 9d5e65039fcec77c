import { createHash, randomBytes } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import type { Browser } from "../../testing/browser/browser.ts";
import { basic, readTokens, type RequestParameters, send } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { ADA, BOB, CALLBACK, NEWS, SHOP, startService, useService } from "./running-service.ts";

let signedIn: Browser;

const running = useService();
const oauth2 = clientAt(running, "oauth2", NEWS);
const openid = clientAt(running, "openid", NEWS);

beforeAll(async () => {
  signedIn = openid.browser();
  await openid.authorize({ ...ADA, browser: signedIn });
});

async function redirected(address: string, browser: Browser = signedIn): Promise<URL> {
  await browser.getOnly(address);
  expect(browser.status).toBe(302);
  return new URL(browser.headers.get("location") ?? "");
}

const codeOf = (location: URL): string => location.searchParams.get("code") ?? "";
const all = (location: URL): Record<string, string> => Object.fromEntries(location.searchParams);

/** Pushes a request. */
function push(parameters: RequestParameters, client = NEWS) {
  const form = { response_type: "code", redirect_uri: client.redirect_uris[0], ...parameters };
  const sent = Object.entries(form).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return send(`${running.openid}/oauth2/par`, {
    method: "POST",
    headers: { authorization: basic(client) },
    body: new URLSearchParams([["client_id", client.client_id], ...sent]),
  });
}

describe("scope openid", () => {
  it("is removed on oauth2 and yields no ID token on either deployment [D-DEPLOY-3, D-AUTHZ-7, AUTHZ-6, RES-ID-1]", async () => {
    for (const party of [oauth2, openid]) {
      const code = codeOf(await redirected(oauth2.authorizeUrl({ scope: "openid email", nonce: "n" })));
      const tokens = readTokens(await party.exchange(code));
      expect(tokens).not.toHaveProperty("id_token");
      for (const other of [oauth2, openid]) {
        expect(readTokens(await other.refresh(tokens.refresh_token))).not.toHaveProperty("id_token");
      }
      const refused = await openid.refresh(tokens.refresh_token, { scope: "openid" });
      expect([refused.status, refused.body["id_token"]]).toEqual([400, undefined]);
    }
  });

  it("granted on openid yields ID tokens there, not on oauth2 [D-DEPLOY-1, D-DEPLOY-3, TOKEN-CODE-7]", async () => {
    const code = codeOf(await redirected(openid.authorizeUrl({ scope: "openid", nonce: "n" })));
    const tokens = readTokens(await oauth2.exchange(code));
    expect(tokens).not.toHaveProperty("id_token");
    expect(readTokens(await oauth2.refresh(tokens.refresh_token))).not.toHaveProperty("id_token");
    const { id_token = "" } = readTokens(await openid.refresh(tokens.refresh_token));
    expect(decodeJwt(id_token)).toMatchObject({ iss: running.openid, sub: running.ada.sub });
  });
});

/** An unsigned request object. */
const object = (claims: unknown): string =>
  `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.`;

describe("request, request_uri, registration and response_mode", () => {
  it("are ignored on oauth2 [D-AUTHZ-5, D-AUTHZ-6]", async () => {
    for (const parameters of [
      { request: "x.y.z" },
      { request_uri: "https://evil.example/request" },
      { request_uri: "urn:ietf:params:oauth:request_uri:x" },
      { registration: "{}" },
      { id_token_hint: "x", acr_values: "1", claims: "{", claims_locales: "pl" },
      { response_mode: "fragment" },
      { response_mode: "form_post" },
      { response_mode: "nonsense" },
    ]) {
      const location = await redirected(oauth2.authorizeUrl({ ...parameters, state: "s" }));
      expect([location.hash, Object.keys(all(location))]).toEqual(["", ["code", "state"]]);
    }
  });

  it.each(["https://evil.example/request", "urn:ietf:params:oauth:request_uri:unknown", "x", ""])(
    "a request_uri of %j is 400 on openid, with any other parameters [D-AUTHZ-5]",
    async (request_uri) => {
      for (const more of [{}, { response_type: "token" }, { response_mode: "fragment" }]) {
        const answer = await send(openid.authorizeUrl({ request_uri, ...more }));
        expect([answer.status, answer.body["error"]]).toEqual([400, "invalid_request_uri"]);
        expect(answer.headers.get("location")).toBeNull();
      }
    },
  );

  it("request and registration are refused on openid with the standard errors [D-AUTHZ-5, D-AUTHZ-8]", async () => {
    for (const [error, parameters] of [
      ["request_not_supported", { request: "x.y.z" }],
      ["registration_not_supported", { registration: "{}" }],
    ] as const) {
      const location = await redirected(openid.authorizeUrl({ ...parameters, state: "s" }));
      expect(all(location)).toMatchObject({ error, state: "s" });
    }
  });

  it("a request object is refused in its own response mode; its other parameters are ignored [D-AUTHZ-5, D-AUTHZ-6]", async () => {
    const inside = {
      state: "inside",
      redirect_uri: "https://evil.example/",
      prompt: "none",
      client_id: "shop",
    };
    const request = object({ ...inside, response_mode: "form_post" });
    await signedIn.get(openid.authorizeUrl({ request, state: "outside" }));
    const form = signedIn.form();
    expect([form.action.href, form.method]).toEqual([CALLBACK, "POST"]);
    expect(Object.fromEntries(form.fields)).toMatchObject({
      error: "request_not_supported",
      state: "outside",
    });
    for (const odd of [
      ...[
        null,
        [],
        5,
        "form_post",
        inside,
        { response_mode: ["form_post"] },
        { response_mode: "fragment" },
      ].map(object),
      "x",
      "..",
      "e30.%%.",
      `e30.${Buffer.from([0xff, 0xfe]).toString("base64url")}.`,
    ]) {
      const location = await redirected(openid.authorizeUrl({ request: odd, state: "s" }));
      expect(location.href.startsWith(`${CALLBACK}?`)).toBe(true);
      expect(all(location)).toMatchObject({ error: "request_not_supported", state: "s" });
    }
    const inQuery = await redirected(openid.authorizeUrl({ request, response_mode: "query" }));
    expect(all(inQuery)).toMatchObject({ error: "request_not_supported" });
  });

  it("openid supports only query and form_post [D-AUTHZ-6]", async () => {
    const inQuery = await redirected(openid.authorizeUrl({ response_mode: "query", state: "s" }));
    expect(Object.keys(all(inQuery)).toSorted()).toEqual(["code", "iss", "state"]);
    for (const response_mode of ["fragment", "jwt", "web_message", "nonsense"]) {
      const location = await redirected(openid.authorizeUrl({ response_mode, state: "s" }));
      expect(location.hash).toBe("");
      expect(Object.keys(all(location)).toSorted()).toEqual(["error", "error_description", "iss", "state"]);
    }
  });

  it("form_post sends the same members and the exact state, with a script that the CSP allows [D-AUTHZ-6, D-AUTHZ-10]", async () => {
    for (const state of [`a b+"c"&<d>`, "", undefined]) {
      await signedIn.get(openid.authorizeUrl({ response_mode: "form_post", state }));
      expect(signedIn.status).toBe(200);
      const form = signedIn.form();
      expect([form.action.href, form.method]).toEqual([CALLBACK, "POST"]);
      expect(Object.fromEntries(form.fields)).toEqual({
        code: expect.any(String),
        iss: running.openid,
        ...(state === undefined ? {} : { state }),
      });
      const script = /<script>([\s\S]*?)<\/script>/.exec(signedIn.html)?.[1] ?? "";
      const hash = createHash("sha256").update(script).digest("base64");
      expect(signedIn.headers.get("content-security-policy")).toContain(`'sha256-${hash}'`);
      const code = form.fields.find(([name]) => name === "code")?.[1] ?? "";
      expect((await openid.exchange(code)).status).toBe(200);
    }
  });

  it("form_post sends errors too, with status 200 [D-AUTHZ-6, D-AUTHZ-8]", async () => {
    const browser = openid.browser();
    await browser.get(openid.authorizeUrl({ response_mode: "form_post", prompt: "none", state: "s" }));
    expect(browser.status).toBe(200);
    const fields = Object.fromEntries(browser.form().fields);
    expect(fields).toMatchObject({ error: "login_required", state: "s", iss: running.openid });
  });
});

const missing = { response_type: undefined, state: `a b+"c"&<d>` };

/** The response to a request without `response_type`. */
const members = (state?: string): Record<string, string> => ({
  error: "invalid_request",
  error_description: "invalid_response_type",
  iss: running.openid,
  ...(state !== undefined && { state }),
});

describe("a request without response_type, on openid", () => {
  it.each([
    {},
    { response_mode: "query" },
    { response_mode: "fragment" },
    { response_mode: "nonsense" },
    { prompt: "none" },
    { prompt: "dance", max_age: "x", claims: "{", request: "x.y.z", registration: "{}", scope: '"' },
  ])(
    "is invalid_request with the documented message, in the query, with %j [D-AUTHZ-17]",
    async (parameters) => {
      for (const browser of [signedIn, openid.browser()]) {
        const location = await redirected(openid.authorizeUrl({ ...missing, ...parameters }), browser);
        expect([location.hash, all(location)]).toEqual(["", members(missing.state)]);
        const stateless = { ...missing, ...parameters, state: undefined };
        expect(all(await redirected(openid.authorizeUrl(stateless), browser))).toEqual(members());
      }
    },
  );

  it("is refused by form_post if requested [D-AUTHZ-17]", async () => {
    for (const browser of [signedIn, openid.browser()]) {
      for (const prompt of [undefined, "none"]) {
        await browser.get(openid.authorizeUrl({ ...missing, response_mode: "form_post", prompt }));
        expect([browser.status, browser.form().action.href]).toEqual([200, CALLBACK]);
        expect(Object.fromEntries(browser.form().fields)).toEqual(members(missing.state));
        expect(browser.headers.get("content-security-policy")).toContain("'sha256-");
      }
    }
  });

  it("is refused when it is pushed [D-AUTHZ-17]", async () => {
    const { status, body } = await push({ response_type: undefined });
    const { error, error_description } = members();
    expect([status, body]).toEqual([400, { error, error_description }]);
  });

  it("never redirects to an unregistered address [D-AUTHZ-17, D-AUTHZ-2]", async () => {
    for (const redirect_uri of ["https://evil.example/", "", undefined]) {
      const { status, headers } = await send(openid.authorizeUrl({ ...missing, redirect_uri }));
      expect([status, headers.get("location")]).toEqual([400, null]);
    }
  });

  it("is refused in the same way with profile: strict [D-AUTHZ-17]", async () => {
    const strict = await startService({ config: { profile: "strict" } });
    const party = clientAt(strict, "openid", NEWS);
    const location = await redirected(party.authorizeUrl(missing), party.browser());
    expect(all(location)).toMatchObject({
      error: "invalid_request",
      error_description: "invalid_response_type",
    });
  });
});

describe("pushed authorization requests", () => {
  it("contain everything: the browser sends only client_id and request_uri [D-DEPLOY-4, D-AUTHZ-5]", async () => {
    const verifier = randomBytes(32).toString("base64url");
    const code_challenge = createHash("sha256").update(verifier).digest("base64url");
    const pkce = { code_challenge, code_challenge_method: "S256" };
    for (const browser of [signedIn, openid.browser()]) {
      const pushed = await push({ scope: "openid", nonce: "n-1", state: "a b", ...pkce });
      expect([pushed.status, pushed.body["expires_in"]]).toEqual([201, expect.any(Number)]);
      const request_uri = String(pushed.body["request_uri"]);
      const only = { response_type: undefined, redirect_uri: undefined, request_uri };
      const { location } = await openid.authorize({ ...ADA, browser }, { ...only, state: "ignored" });
      expect(location.href.startsWith(`${CALLBACK}?`)).toBe(true);
      expect(location.searchParams.get("state")).toBe("a b");
      expect((await openid.exchange(codeOf(location))).status).toBe(400);
      const tokens = readTokens(await openid.exchange(codeOf(location), { code_verifier: verifier }));
      expect(decodeJwt(tokens.id_token ?? "")).toMatchObject({ nonce: "n-1" });
      const again = await send(openid.authorizeUrl(only));
      expect([again.status, again.body["error"]]).toEqual([400, "invalid_request_uri"]);
    }
  });

  it("belong to the client that pushed them [D-AUTHZ-5]", async () => {
    const { body } = await push({});
    const shop = clientAt(running, "openid", SHOP);
    const answer = await send(shop.authorizeUrl({ request_uri: String(body["request_uri"]) }));
    expect([answer.status, answer.body["error"]]).toEqual([400, "invalid_request_uri"]);
  });

  it.each<[string, RequestParameters]>([
    ["invalid_redirect_uri", { redirect_uri: "https://evil.example/" }],
    ["invalid_request", { redirect_uri: undefined }],
    ["invalid_request", { redirect_uri: "" }],
    ["invalid_response_type", { response_type: "token" }],
    ["invalid_response_type", { response_type: "" }],
    ["invalid_response_type", { response_type: "code code" }],
    ["invalid_request_uri", { request_uri: "urn:ietf:params:oauth:request_uri:x" }],
    ["invalid_request", { prompt: "dance" }],
  ])("are validated when they are pushed: %s for %j [D-AUTHZ-5]", async (error, parameters) => {
    const { status, body } = await push(parameters);
    expect([status, body["error"]]).toEqual([400, error]);
  });

  it("accept a state of at most 4,096 bytes [D-AUTHZ-5, D-AUTHZ-10]", async () => {
    expect((await push({ state: "x".repeat(4_096) })).status).toBe(201);
    expect((await push({ state: "x".repeat(4_097) })).body["error"]).toBe("invalid_request");
  });

  it("require the client's secret [D-DEPLOY-4, D-DEPLOY-8]", async () => {
    const { status, body } = await push({}, { ...NEWS, client_secret: "wrong" });
    expect([status, body["error"]]).toEqual([400, "invalid_client"]);
  });
});

describe("prompt and max_age", () => {
  it("prompt=none never shows a page: signed-in users get a code, others login_required [D-AUTHZ-8]", async () => {
    for (const party of [oauth2, openid]) {
      expect(codeOf(await redirected(party.authorizeUrl({ prompt: "none" })))).not.toBe("");
      const location = await redirected(party.authorizeUrl({ prompt: "none", state: "s" }), party.browser());
      expect(all(location)).toMatchObject({ error: "login_required", state: "s" });
    }
  });

  it("prompt=login always shows the form; prompt=consent has no effect for first-party clients [D-AUTHZ-15]", async () => {
    for (const party of [oauth2, openid]) {
      await signedIn.get(party.authorizeUrl({ prompt: "login" }));
      expect([signedIn.status, signedIn.location]).toEqual([200, undefined]);
      expect(codeOf(await redirected(party.authorizeUrl({ prompt: "consent" })))).not.toBe("");
    }
  });

  it("max_age shows the form for an older sign-in, and auth_time has its time [D-DEPLOY-4]", async () => {
    const browser = openid.browser();
    const scope = { scope: "openid", max_age: "1000" };
    const first = decodeJwt((await openid.signIn({ ...BOB, browser }, scope)).id_token ?? "");
    const code = codeOf(await redirected(openid.authorizeUrl(scope), browser));
    const second = decodeJwt(readTokens(await openid.exchange(code)).id_token ?? "");
    expect(second["auth_time"]).toBe(first["auth_time"]);
    await browser.get(openid.authorizeUrl({ ...scope, max_age: "0" }));
    expect(browser.form("password").method).toBe("POST");
    await signIn(browser, BOB);
    expect(codeOf(browser.location!)).not.toBe("");
    await browser.get(openid.authorizeUrl({ ...scope, max_age: "0", prompt: "none" }));
    expect(browser.location?.searchParams.get("error")).toBe("login_required");
  });

  it("an essential acr that can't be met is an error, not a loop [D-AUTHZ-8, D-DEPLOY-6]", async () => {
    const { acr: known = "" } = decodeJwt<{ acr?: string }>(
      (await openid.signIn(ADA, { scope: "openid" })).id_token ?? "",
    );
    const withAcr = (acr: object): string =>
      openid.authorizeUrl({ scope: "openid", claims: JSON.stringify({ id_token: { acr } }) });
    for (const browser of [signedIn, openid.browser()]) {
      for (const acr of [{ value: "x" }, { values: ["x", "y"] }]) {
        const location = await redirected(withAcr({ essential: true, ...acr }), browser);
        expect(location.searchParams.get("error")).toBe("unmet_authentication_requirements");
      }
    }
    for (const acr of [{ essential: true }, { essential: true, values: ["x", known] }, { values: ["x"] }]) {
      expect(codeOf(await redirected(withAcr(acr)))).not.toBe("");
    }
    const odd = await redirected(withAcr({ essential: true, values: "x" }));
    expect(odd.searchParams.has("error")).toBe(true);
  });

  it("login_hint only prefills the form [AUTHZ-9]", async () => {
    const browser = await openid.browser().get(openid.authorizeUrl({ login_hint: ADA.email }));
    expect(browser.form("password").fields).toContainEqual(["username", ADA.email]);
  });
});
