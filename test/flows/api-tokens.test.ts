/** Tokens with which a client calls an API for a person: RFC 8707 at every endpoint that takes `resource`, on both deployments. */
import { afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import { Browser } from "../../testing/browser/browser.ts";
import {
  basic,
  readTokens,
  type RequestParameters,
  send,
  type TestAnswer,
  type TestClient,
  type TestTokens,
} from "../../testing/test-client.ts";
import { atBoth, clientAt, signIn } from "./clients.ts";
import { ADA, BOB, type KnownClient, NEWS, PARTNER, SHOP, useService } from "./running-service.ts";
import {
  API,
  ARTICLES,
  CLOSED,
  GRANTED,
  OPEN,
  READER,
  registerReader,
  resetApis,
  SCOPE,
  VIDEOS,
} from "./sample-apis.ts";
import { expectRefusal } from "./token-answers.ts";

const KINDS = ["oauth2", "openid"] as const;
type Kind = (typeof KINDS)[number];

const reset = (): Promise<void> => resetApis(running, [NEWS, PARTNER]);

const running = useService();
const news = atBoth(running, NEWS);

beforeAll(async () => {
  await registerReader(running);
  await reset();
});
afterEach(reset);

/** The answer to an exchange of a code that was asked for with these resources. */
async function exchanged(
  party: TestClient,
  resources: readonly string[],
  form: RequestParameters = {},
  scope = SCOPE,
): Promise<TestAnswer> {
  const browser = party.browser();
  const named = resources.map((resource) => `&resource=${encodeURIComponent(resource)}`).join("");
  await browser.get(party.authorizeUrl({ scope }) + named);
  if (browser.location === undefined) await signIn(browser);
  const { searchParams } = browser.location!;
  expect(searchParams.get("error")).toBeNull();
  return party.exchange(searchParams.get("code") ?? "", form);
}
const issued = async (party: TestClient, ...resources: string[]): Promise<TestTokens> =>
  readTokens(await exchanged(party, resources));

/** The error with which an authorization returns to the client. */
async function refused(party: TestClient, parameters: RequestParameters, named = ""): Promise<string | null> {
  const browser = party.browser();
  await browser.get(party.authorizeUrl(parameters) + named);
  if (browser.location === undefined) await signIn(browser);
  expect(browser.location?.searchParams.get("code")).toBeNull();
  return browser.location!.searchParams.get("error");
}

async function introspect(
  token: string,
  client: Pick<KnownClient, "client_id" | "client_secret"> = READER,
  kind: Kind = "openid",
): Promise<Readonly<Record<string, unknown>>> {
  const { status, body } = await clientAt(running, kind, client).post("/oauth2/introspect", { token });
  expect(status).toBe(200);
  return body;
}

const verified = async (token: string): Promise<Readonly<Record<string, unknown>>> => {
  const keys = createRemoteJWKSet(new URL(`${running.openid}/oauth2/jwks`));
  const { payload } = await jwtVerify(token, keys, {
    typ: "at+jwt",
    audience: VIDEOS,
    issuer: running.openid,
  });
  return payload;
};

describe.each(KINDS)("a token for an API on %s", (kind) => {
  it("is for it alone, and the API introspects it [D-API-3, D-API-4, D-API-12]", async () => {
    const { status, body } = await exchanged(news[kind], [ARTICLES]);
    expect([status, body]).toEqual([
      200,
      {
        access_token: expect.stringMatching(/^[\w-]{43,}$/),
        token_type: "bearer",
        expires_in: 1200,
        refresh_token: expect.any(String),
        scope: SCOPE,
      },
    ]);
    const token = String(body["access_token"]);
    expect(await introspect(token, READER, kind)).toEqual({
      active: true,
      iss: running.openid,
      sub: running.ada.sub,
      aud: ARTICLES,
      client_id: "news",
      scope: SCOPE,
      token_type: "bearer",
      iat: expect.any(Number),
      exp: expect.any(Number),
      auth_time: expect.any(Number),
      acr: "urn:sign-in-service:acr:password",
      amr: ["pwd"],
    });
    for (const client of [NEWS, SHOP, PARTNER])
      expect(await introspect(token, client, kind)).toEqual({ active: false });
    expect(await introspect(String(body["refresh_token"]), READER, kind)).toEqual({ active: false });
  });

  it("is a JWT without personal data if the API wants that [D-API-5]", async () => {
    const { access_token, expires_in } = await issued(news[kind], VIDEOS);
    expect(expires_in).toBe(300);
    expect(await verified(access_token)).toEqual({
      iss: running.openid,
      sub: running.ada.sub,
      aud: VIDEOS,
      client_id: "news",
      scope: SCOPE,
      iat: expect.any(Number),
      exp: expect.any(Number),
      jti: expect.any(String),
      auth_time: expect.any(Number),
      acr: "urn:sign-in-service:acr:password",
      amr: ["pwd"],
    });
    expect(await introspect(access_token, READER, kind)).toEqual({ active: false });
  });

  it("has the scopes that the client may have, and at least one [D-API-2, D-API-13]", async () => {
    const { body } = await exchanged(
      news[kind],
      [ARTICLES],
      {},
      "articles:publish articles:write profile account x",
    );
    expect(body["scope"]).toBe("articles:write");
    for (const scope of [undefined, "", "articles:publish", "profile email", "account", "__proto__"])
      expect(await refused(news[kind], { scope, resource: ARTICLES })).toBe("invalid_scope");
  });

  it("is refused for what the client may not ask for [D-API-2, D-API-7]", async () => {
    const { clients } = running.service;
    const wrong = [
      "https://none.example/",
      "https://articles.example",
      `${ARTICLES}#x`,
      "articles",
      "constructor",
    ];
    for (const resource of [...wrong, "javascript:x", "x".repeat(3000)])
      expect(await refused(news[kind], { scope: SCOPE, resource })).toBe("invalid_target");
    const many = Array.from({ length: 11 }, () => `&resource=${encodeURIComponent(ARTICLES)}`).join("");
    expect(await refused(news[kind], { scope: SCOPE }, many)).toBe("invalid_target");
    await clients.update("news", { apis: {} });
    expect(await refused(news[kind], { scope: SCOPE, resource: ARTICLES })).toBe("invalid_target");
  });

  it("is chosen at the token endpoint: once, and only what was authorized; nothing else is used up [D-API-7]", async () => {
    const party = news[kind];
    const both = await exchanged(party, [ARTICLES, VIDEOS], { resource: ARTICLES });
    const { refresh_token, access_token } = readTokens(both);
    expect((await introspect(access_token))["aud"]).toBe(ARTICLES);
    expectRefusal(await party.refresh(refresh_token), "invalid_target");
    for (const resource of [OPEN, "https://none.example/", "x", "__proto__"])
      expectRefusal(await party.refresh(refresh_token, { resource }), "invalid_target");
    const twice = `grant_type=refresh_token&refresh_token=${refresh_token}&resource=${ARTICLES}&resource=${ARTICLES}`;
    const form = { authorization: basic(NEWS), "content-type": "application/x-www-form-urlencoded" };
    expectRefusal(
      await send(`${party.base}/oauth2/token`, { method: "POST", headers: form, body: twice }),
      "invalid_target",
    );
    const video = readTokens(await party.refresh(refresh_token, { resource: VIDEOS }));
    expect((await verified(video.access_token))["aud"]).toBe(VIDEOS);

    const { refresh_token: one } = await issued(party, ARTICLES);
    expect((await introspect(readTokens(await party.refresh(one)).access_token))["aud"]).toBe(ARTICLES);
    const { refresh_token: none } = await party.signIn(ADA);
    expectRefusal(await party.refresh(none, { resource: ARTICLES }), "invalid_target");
    expect((await party.userinfo(readTokens(await party.refresh(none)).access_token)).status).toBe(200);
    expectRefusal(await party.password(ADA, { resource: ARTICLES }), "invalid_target");
  });

  it("does not use up its code when the request names a wrong API [D-API-7]", async () => {
    const party = news[kind];
    const code = await party.code(ADA, { scope: SCOPE, resource: ARTICLES });
    expectRefusal(await party.exchange(code, { resource: VIDEOS }), "invalid_target");
    readTokens(await party.exchange(code));
  });

  it("is narrowed at every issue by the API and the client [D-API-7]", async () => {
    const party = news[kind];
    const { directory, clients } = running.service;
    const { refresh_token } = await issued(party, ARTICLES);
    await clients.update("news", { apis: { ...GRANTED, [ARTICLES]: ["articles:read"] } });
    const read = await party.refresh(refresh_token);
    expect(read.body["scope"]).toBe("articles:read");
    const next = readTokens(read).refresh_token;
    expectRefusal(await party.refresh(next, { scope: "articles:write" }), "invalid_scope");
    await clients.update("news", { apis: GRANTED });
    await directory.apis.put(ARTICLES, { ...API, scopes: { "articles:write": "Write" } });
    const write = await party.refresh(next);
    expect(write.body["scope"]).toBe("articles:write");
    await clients.update("news", { apis: {} });
    expectRefusal(await party.refresh(readTokens(write).refresh_token), "invalid_target");
  });

  it("is only for people who use the service of the API, or whom it assigns [D-API-8]", async () => {
    const { accounts } = running.service;
    expect(await refused(news[kind], { scope: SCOPE, resource: CLOSED })).toBe("access_denied");
    const { access_token } = await issued(news[kind], OPEN);
    expect((await introspect(access_token))["active"]).toBe(true);
    expect((await accounts.find(running.ada.sub))?.services).toHaveProperty("2");
    const { access_token: closed } = await issued(news[kind], CLOSED);
    expect((await introspect(closed))["active"]).toBe(true);
  });

  it("is pushed like any request [D-API-7]", async () => {
    if (kind === "oauth2") return;
    const party = news[kind];
    const push = (named: string): Promise<TestAnswer> =>
      send(`${party.base}/oauth2/par`, {
        method: "POST",
        headers: { authorization: basic(NEWS), "content-type": "application/x-www-form-urlencoded" },
        body: `client_id=news&response_type=code&redirect_uri=${encodeURIComponent(party.redirect_uri)}&scope=${SCOPE.replaceAll(" ", "+")}${named}`,
      });
    const one = `&resource=${encodeURIComponent(ARTICLES)}`;
    expectRefusal(await push("&resource=https://none.example/"), "invalid_target");
    expectRefusal(await push(`${one}&state=1&state=2`), "invalid_request");
    const { status, body } = await push(`${one}&resource=${encodeURIComponent(VIDEOS)}`);
    expect(status).toBe(201);
    const browser = party.browser();
    const query = new URLSearchParams({ client_id: "news", request_uri: String(body["request_uri"]) });
    await browser.get(`${party.base}/oauth2/authorize?${query}`);
    await signIn(browser);
    const code = browser.location?.searchParams.get("code") ?? "";
    expectRefusal(await party.exchange(code), "invalid_target");
    readTokens(await party.exchange(code, { resource: VIDEOS }));
  });
});

/** The claims of an ID token that are the same at each sign-in. */
async function claimsOf(resources: readonly string[], scope: string): Promise<object> {
  const { id_token = "" } = readTokens(await exchanged(news.openid, resources, {}, scope));
  const { iat: _iat, exp: _exp, auth_time: _at, sid: _sid, at_hash: _hash, ...rest } = decodeJwt(id_token);
  return rest;
}

describe("a token for an API of a person who signs in with openid", () => {
  it("leaves the ID token and its claims as they are without one [D-API-15]", async () => {
    const without = await claimsOf([], "openid email profile");
    expect(without).toMatchObject({ aud: "news", email: running.ada.email });
    expect(await claimsOf([ARTICLES], `openid email profile ${SCOPE}`)).toEqual(without);
  });
});

describe("a token for an API ends", () => {
  const ends: Readonly<Record<string, () => Promise<unknown>>> = {
    "with the assignment to the service of the API": () =>
      running.service.accounts.unassign(running.ada.sub, ["2"]),
    "with the assignment to the service of the client": () =>
      running.service.accounts.unassign(running.ada.sub, ["1"]),
    "with the tokens of the person": () => running.service.accounts.revokeTokens(running.ada.sub),
    "with the person, also when they can sign in again": async () => {
      await running.service.accounts.disable(running.ada.sub);
      await running.service.accounts.enable(running.ada.sub);
    },
    "with the client, also when it is enabled again": async () => {
      await running.service.clients.disable(NEWS.client_id);
      await running.service.clients.enable(NEWS.client_id);
    },
    "with its API, though it is put again": async () => {
      const { clients, directory } = running.service;
      for (const { client_id } of [NEWS, PARTNER]) await clients.update(client_id, { apis: {} });
      await directory.apis.remove(OPEN);
      await reset();
      await running.service.accounts.assign(running.ada.sub, "2");
    },
  };
  it.each(Object.entries(ends))("%s [D-API-9]", async (_title, end) => {
    const { access_token, refresh_token } = await issued(news.openid, OPEN);
    expect((await introspect(access_token))["active"]).toBe(true);
    await end();
    expect(await introspect(access_token)).toEqual({ active: false });
    expectRefusal(await news.openid.refresh(refresh_token), "invalid_grant");
  });

  it("by standard revocation of its client alone [D-API-9]", async () => {
    const { access_token } = await issued(news.openid, ARTICLES);
    const revoke = (client: Pick<KnownClient, "client_id" | "client_secret">): Promise<TestAnswer> =>
      clientAt(running, "openid", client).post("/oauth2/revoke", { token: access_token });
    for (const client of [READER, SHOP]) await revoke(client);
    expect((await introspect(access_token))["active"]).toBe(true);
    expect((await revoke(NEWS)).status).toBe(200);
    expect(await introspect(access_token)).toEqual({ active: false });
  });
});

describe("a repeated refresh in the rotation window", () => {
  it("gets the same opaque token for the same API, and another one for another, with one rotation [D-API-10]", async () => {
    const party = news.openid;
    await running.service.clients.update("news", { refresh_tokens: { rotate: true, reuseWindow: 60 } });
    const first = readTokens(
      await exchanged(party, [ARTICLES, VIDEOS], { resource: ARTICLES }),
    ).refresh_token;
    const one = readTokens(await party.refresh(first, { resource: ARTICLES }));
    const again = readTokens(await party.refresh(first, { resource: ARTICLES }));
    expect([again.access_token, again.refresh_token]).toEqual([one.access_token, one.refresh_token]);
    const answer = await party.refresh(first, { resource: VIDEOS });
    const other = readTokens(answer);
    expect([other.refresh_token, other.expires_in, answer.body["scope"]]).toEqual([
      one.refresh_token,
      300,
      SCOPE,
    ]);
    expect(await verified(other.access_token)).toMatchObject({
      aud: VIDEOS,
      sub: running.ada.sub,
      amr: ["pwd"],
    });
    readTokens(await party.refresh(one.refresh_token, { resource: ARTICLES }));
    expect((await introspect(one.access_token))["active"]).toBe(true);

    const video = (await issued(party, VIDEOS)).refresh_token;
    const [left, right] = await Promise.all([party.refresh(video), party.refresh(video)]);
    expect(readTokens(left).refresh_token).toBe(readTokens(right).refresh_token);
    await verified(readTokens(left).access_token);
    await verified(readTokens(right).access_token);
    await running.service.clients.update("news", { refresh_tokens: {} });
  });
});

describe("consent for an API", () => {
  it("names it with the descriptions of its scopes, and is remembered for each pair [D-API-11]", async () => {
    const party = clientAt(running, "openid", PARTNER);
    const ask = async (scope: string, resource: string): Promise<readonly [string, boolean]> => {
      const browser = party.browser();
      await browser.get(party.authorizeUrl({ scope, resource }));
      await signIn(browser);
      if (browser.location !== undefined) return ["", browser.location.searchParams.has("code")];
      const page = browser.html;
      await browser.submit(browser.form("decision"), { decision: "allow" });
      return [page, browser.location!.searchParams.has("code")];
    };
    const [page, hasCode] = await ask("articles:read", ARTICLES);
    expect(hasCode).toBe(true);
    expect(page).toContain("In Articles, Partner may:");
    expect(page).toContain("<li>Read your articles</li>");
    expect(page).not.toContain("E-mail");
    expect(page).not.toContain("<li>Write</li>");
    expect(await ask("articles:read", ARTICLES)).toEqual(["", true]);
    expect((await ask("articles:read articles:write", ARTICLES))[0]).toContain("<li>Write</li>");
    expect((await ask("articles:read", VIDEOS))[0]).toContain("In Videos, Partner may:");
    expect(await ask("articles:read articles:write", ARTICLES)).toEqual(["", true]);
  });

  it("is on the account page until the person disconnects the service [D-API-11]", async () => {
    const party = clientAt(running, "openid", PARTNER);
    await running.service.accounts.unassign(running.ada.sub, ["1", "2", "3"]);
    await running.service.accounts.assign(running.ada.sub, "1");
    const consent = async (resource: string): Promise<TestTokens> => {
      const browser = party.browser();
      await browser.get(party.authorizeUrl({ scope: "articles:read", resource }));
      await signIn(browser);
      await browser.submit(browser.form("decision"), { decision: "allow" });
      return await party.tokensOf(browser);
    };
    const { access_token, refresh_token } = await consent(ARTICLES);
    const browser = new Browser();
    const look = async (): Promise<string> => {
      await browser.get(`${running.openid}/account/services`);
      if (browser.hasForm("password")) await signIn(browser);
      return browser.html.replaceAll(/<[^>]*>/g, " ").replaceAll(/\s+/g, " ");
    };
    const listed =
      /Partner Can read: an ID for your account, and nothing else In Articles, it can: Read your articles First/;
    expect(await look()).toMatch(listed);
    // A first party may use what it is registered for, for the people of the API's service.
    await news.openid.signIn(ADA);
    expect(await look()).toMatch(
      /News .* In Articles, it can: Read your articles Write In Videos, it can: Read your articles Write .* First .* Partner/,
    );
    // What the client may no longer ask for is not listed.
    await running.service.clients.update(PARTNER.client_id, { apis: { [ARTICLES]: ["articles:write"] } });
    expect(await look()).not.toMatch(listed);
    await reset();
    expect(await look()).toMatch(listed);

    const disconnect = browser
      .forms()
      .find(({ fields }) => fields.some(([name, value]) => name === "service" && value === PARTNER.service));
    await browser.submit(disconnect);
    expect(await look()).not.toContain("Partner");
    expect(await introspect(access_token)).toEqual({ active: false });
    expectRefusal(await party.refresh(refresh_token), "invalid_grant");
    // The consent went with it.
    await consent(ARTICLES);
  });

  it("is refused for strangers before they are asked [D-API-8]", async () => {
    const party = clientAt(running, "openid", PARTNER);
    const browser = party.browser();
    await browser.get(party.authorizeUrl({ scope: SCOPE, resource: CLOSED }));
    await signIn(browser, BOB);
    expect(browser.location?.searchParams.get("error")).toBe("access_denied");
  });
});
