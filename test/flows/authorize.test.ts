import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { type RequestParameters, send } from "../../testing/test-client.ts";
import { atBoth, clientAt } from "./clients.ts";
import { ADA, CALLBACK, NEWS, SHOP, useService } from "./running-service.ts";
import { expectTokens } from "./token-answers.ts";

const KINDS = ["oauth2", "openid"] as const;
const HTML = { accept: "text/html" };
/** A browser in which Ada is signed in. */
let signedIn: Browser;

const running = useService();
/** The client at both deployments. */
const news = atBoth(running, NEWS);

beforeAll(async () => {
  signedIn = news.oauth2.browser();
  await news.oauth2.authorize({ ...ADA, browser: signedIn });
});

/** The exact `Location` for the signed-in browser. */
async function redirected(address: string): Promise<string> {
  await signedIn.getOnly(address);
  expect(signedIn.status).toBe(302);
  return signedIn.headers.get("location") ?? "";
}

/** The query, decoded strictly. */
function members(location: string): Record<string, string> {
  const pairs = (location.split("?")[1] ?? "").split("&").map((pair) => pair.split("="));
  return Object.fromEntries(pairs.map(([name = "", value = ""]) => [name, decodeURIComponent(value)]));
}

describe.each(KINDS)("the authorization endpoint, %s", (kind) => {
  it("shows a login form, then redirects; signed-in users are redirected immediately", async () => {
    const browser = news[kind].browser();
    await browser.get(news[kind].authorizeUrl({ state: "s" }));
    expect(browser.status).toBe(200);
    expect(browser.url.href).toContain(`${news[kind].base}/interaction/`);
    const { username, password } = ADA;
    await browser.submit(browser.form("password"), { username, password });
    expect(browser.visits.map(({ method, status }) => [method, status])).toEqual([
      ["POST", 303],
      ["GET", 302],
    ]);
    const first = members(browser.headers.get("location") ?? "");
    await browser.get(news[kind].authorizeUrl({ state: "s" }));
    expect(browser.visits.map(({ status }) => status)).toEqual([302]);
    const second = members(browser.headers.get("location") ?? "");
    expect(first).toEqual({ ...second, code: expect.any(String) });
    expect(first["code"]).not.toBe(second["code"]);
  });

  it("responds with exactly code and state, and iss on openid [AUTHZ-10, D-DEPLOY-3, D-DEPLOY-4]", async () => {
    const iss = kind === "openid" ? { iss: running.openid } : {};
    const without = await redirected(news[kind].authorizeUrl());
    expect(without.startsWith(`${CALLBACK}?`)).toBe(true);
    expect(members(without)).toEqual({ code: expect.any(String), ...iss });
    const withState = await redirected(news[kind].authorizeUrl({ state: "xyz" }));
    expect(members(withState)).toEqual({ code: expect.any(String), state: "xyz", ...iss });
    expect(signedIn.headers.get("cache-control")).toBe("no-store");
  });

  it("echoes the state exactly, with and without a form [AUTHZ-5, D-AUTHZ-10]", async () => {
    for (const state of [
      "",
      " ",
      "a+b",
      "100%",
      "%41",
      `"double" & 'single'`,
      "<a=b&c;d#e?/>",
      "žluťoučký 🐎 日本",
      "line\r\nbreak",
      "é".repeat(2_048),
    ]) {
      const location = await redirected(news[kind].authorizeUrl({ state }));
      expect(members(location)["state"]).toBe(state);
      expect(location).not.toContain("+");
      const browser = news[kind].browser();
      await news[kind].authorize({ ...ADA, browser }, { state });
      expect(members(browser.headers.get("location") ?? "")["state"]).toBe(state);
    }
  });

  it("encodes a space in the state as %20 [D-AUTHZ-10]", async () => {
    for (const sent of ["a+b", "a%20b"]) {
      const location = await redirected(`${news[kind].authorizeUrl()}&state=${sent}`);
      expect(location).toMatch(/[?&]state=a%20b(?:&|$)/);
    }
  });

  const refusals: [what: string, change: RequestParameters, raw: string, error: string][] = [
    ["no client_id", { client_id: undefined }, "", "invalid_request"],
    ["an empty client_id", { client_id: "" }, "", "invalid_request"],
    ["client_id twice", {}, "&client_id=news", "invalid_request"],
    ["an unknown client_id", { client_id: "nobody" }, "", "invalid_client"],
    ["a client_id in other case", { client_id: "News" }, "", "invalid_client"],
    ["redirect_uri twice", {}, `&redirect_uri=${encodeURIComponent(CALLBACK)}`, "invalid_request"],
    ["an empty redirect_uri", { redirect_uri: "" }, "", "invalid_request"],
    ["another address", { redirect_uri: "https://evil.example/" }, "", "invalid_redirect_uri"],
    ["a slash more", { redirect_uri: `${CALLBACK}/` }, "", "invalid_redirect_uri"],
    ["another query", { redirect_uri: `${CALLBACK}?a=1` }, "", "invalid_redirect_uri"],
    ["a fragment", { redirect_uri: `${CALLBACK}#a` }, "", "invalid_redirect_uri"],
    ["another case", { redirect_uri: CALLBACK.toUpperCase() }, "", "invalid_redirect_uri"],
    ["another port", { redirect_uri: CALLBACK.replace("4000", "4001") }, "", "invalid_redirect_uri"],
    ["the same address written otherwise", { redirect_uri: `${CALLBACK}?` }, "", "invalid_redirect_uri"],
    ["dots", { redirect_uri: "http://127.0.0.1:4000/x/../callback" }, "", "invalid_redirect_uri"],
    ["another client's address", { redirect_uri: SHOP.redirect_uris[0] }, "", "invalid_redirect_uri"],
    ["NUL", {}, "&state=a%00b", "invalid_request"],
  ];
  it.each(refusals)(
    "responds to %s with 400, as JSON or a page, and never redirects",
    async (_what, change, raw, error) => {
      const address = `${news[kind].authorizeUrl({ state: raw.includes("state") ? undefined : "s", ...change })}${raw}`;
      for (const headers of [{}, HTML, { accept: "application/json" }]) {
        const answer = await send(address, { headers });
        const type = new Headers(headers).get("accept") === "text/html" ? "text/html" : "application/json";
        expect(answer.headers.get("content-type")).toContain(type);
        expect([answer.status, answer.headers.get("location")]).toEqual([400, null]);
        expect(answer.headers.getSetCookie()).toEqual([]);
        expect(answer.headers.get("cache-control")).toBe("no-store");
        if (type === "text/html") expect(answer.text).toContain(`<code>${error}</code>`);
        else expect(answer.body).toEqual({ error, error_description: expect.any(String) });
      }
    },
  );

  it("refuses a disabled client like an unknown one [D-AUTHZ-1]", async () => {
    const client = { ...NEWS, client_id: `disabled-${kind}` };
    await running.service.clients.register(client);
    const address = news[kind].authorizeUrl({ client_id: client.client_id });
    await redirected(address);
    await running.service.clients.disable(client.client_id);
    const { status, body } = await send(address);
    expect([status, body["error"]]).toEqual([400, "invalid_client"]);
  });

  it("uses the first registered address without redirect_uri, on oauth2 only [AUTHZ-3, AUTHZ-4, D-AUTHZ-2]", async () => {
    const shop = clientAt(running, kind, SHOP);
    const [first = "", second = ""] = SHOP.redirect_uris;
    const address = shop.authorizeUrl({ redirect_uri: undefined });
    if (kind === "openid") {
      const { status, body } = await send(address);
      expect([status, body["error"]]).toEqual([400, "invalid_request"]);
    } else {
      expect((await redirected(address)).startsWith(`${first}?code=`)).toBe(true);
    }
    const other = await redirected(shop.authorizeUrl({ redirect_uri: second, state: "s" }));
    expect(other.startsWith(`${second}&code=`)).toBe(true);
    expect(members(other)).toMatchObject({ second: "1", code: expect.any(String), state: "s" });
  });

  it("keeps the registered address as it was written, except for its state [D-AUTHZ-10]", async () => {
    const address = "https://App.example?state=mine&x=%20";
    const client = { ...NEWS, client_id: `as-is-${kind}`, redirect_uris: [address] };
    await running.service.clients.register(client);
    const location = await redirected(clientAt(running, kind, client).authorizeUrl({ state: "s" }));
    expect(location).toMatch(/^https:\/\/App\.example\?x=%20&code=[\w-]+&state=s(?:&iss=|$)/);
  });

  it("refuses a resource that is no API", async () => {
    const resource = "https://api.example";
    const back = await redirected(news[kind].authorizeUrl({ resource, state: "s" }));
    expect(members(back)).toMatchObject({ error: "invalid_target", state: "s" });
    const { code = "" } = members(await redirected(news[kind].authorizeUrl()));
    expect((await news[kind].exchange(code, { resource })).body["error"]).toBe("invalid_target");
    expectTokens(await news[kind].exchange(code));
  });

  const types = ["token", "id_token", "none", "code token", "code id_token", "Code", " code", "code ", ""];
  const oauth2Alone = kind === "oauth2" ? [undefined] : [];
  it.each([...types, ...oauth2Alone])(
    "responds to a response_type of %j with invalid_response_type, in the query, with iss on openid [AUTHZ-2, ERR-4, D-DEPLOY-4, D-AUTHZ-4]",
    async (response_type) => {
      const iss = kind === "openid" ? `&iss=${encodeURIComponent(running.openid)}` : "";
      for (const response_mode of [undefined, "fragment", "form_post", "query"]) {
        const parameters = { response_type, response_mode, scope: "openid", nonce: "n" };
        const stated = await redirected(news[kind].authorizeUrl({ ...parameters, state: "a b" }));
        expect(stated).toBe(`${CALLBACK}?error=invalid_response_type&state=a%20b${iss}`);
        const without = await redirected(news[kind].authorizeUrl(parameters));
        expect(without).toBe(`${CALLBACK}?error=invalid_response_type${iss}`);
      }
    },
  );

  it("responds to a repeated response_type in the same way, before the sign-in [D-AUTHZ-4]", async () => {
    const { status, headers } = await send(`${news[kind].authorizeUrl()}&response_type=code`);
    const iss = kind === "openid" ? { iss: running.openid } : {};
    expect(status).toBe(302);
    expect(members(headers.get("location") ?? "")).toEqual({ error: "invalid_response_type", ...iss });
  });

  it.each([undefined, "", "unknown", "unknown other", "email", "profile"])(
    "accepts a scope of %j [AUTHZ-6, D-AUTHZ-12]",
    async (scope) => {
      expectTokens(await news[kind].exchange(await news[kind].code(ADA, { scope })));
    },
  );

  it("ignores OpenID Connect parameters without the scope openid [D-AUTHZ-13]", async () => {
    const parameters = {
      nonce: "n",
      acr_values: "x",
      id_token_hint: "x",
      claims: '{"id_token":{"email":null}}',
    };
    const location = await redirected(news[kind].authorizeUrl(parameters));
    const { body } = await news[kind].exchange(members(location)["code"] ?? "");
    expect(Object.keys(body)).toEqual(["access_token", "token_type", "expires_in", "refresh_token"]);
  });

  const faults: [error: string, parameters: RequestParameters][] = [
    ["invalid_request", { prompt: "dance" }],
    ["invalid_request", { prompt: "none login" }],
    ["invalid_request", { code_challenge: "x".repeat(43), code_challenge_method: "plain" }],
    ["invalid_request", { code_challenge: "short", code_challenge_method: "S256" }],
    ["invalid_request", { code_challenge_method: "S256" }],
    ["invalid_scope", { scope: "a\u007f" }],
  ];
  it.each(faults)("reports other errors by redirect: %s for %j [D-AUTHZ-8]", async (error, parameters) => {
    const location = await redirected(news[kind].authorizeUrl({ ...parameters, state: "a b" }));
    const iss = kind === "openid" ? { iss: running.openid } : {};
    expect(members(location)).toEqual({
      error,
      error_description: expect.any(String),
      state: "a b",
      ...iss,
    });
  });

  it("describes every error that it reports by redirect [D-AUTHZ-8]", async () => {
    const refused =
      kind === "openid" ? [{ request: "x" }, { registration: "x" }, { response_mode: "jwt" }] : [];
    for (const parameters of [...refused, { prompt: "none login" }]) {
      const location = await redirected(news[kind].authorizeUrl(parameters));
      expect(members(location)["error_description"]).toMatch(/./);
    }
  });
});
