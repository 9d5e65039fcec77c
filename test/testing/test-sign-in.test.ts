import { setTimeout as pause } from "node:timers/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import Koa from "koa";
import {
  Browser,
  createTestSignIn,
  type TestClient,
  type TestPerson,
  type TestSignIn,
  type TestTokens,
  totpCode,
  UnexpectedAnswer,
} from "../../testing/index.ts";
import type { StepDescription } from "../../interactions/steps/described-step.ts";
import { closing } from "../closing.ts";

const DAY = 86_400;

let test: TestSignIn;
let news: TestClient;
let ada: TestPerson;

beforeEach(async () => {
  test = closing(await createTestSignIn());
  news = await test.addClient();
  ada = await test.addPerson({ username: "ada", email: "ada@example.com" });
});

/** The same person at a new browser. */
const atNewBrowser = async (person: TestPerson): Promise<TestPerson> => ({
  ...person,
  browser: (await test.addPerson()).browser,
});

const seconds = (): number => Math.floor(test.clock.now() / 1000);

async function works({ access_token }: TestTokens): Promise<boolean> {
  const { status } = await news.userinfo(access_token);
  return status === 200;
}

describe("a test service", () => {
  it("signs a user in through the real form, on both deployments", async () => {
    const first = await news.authorize(ada);
    expect(first).toMatchObject({ code: expect.any(String), loginShown: true, consentShown: false });
    const tokens = await news.at("oauth2").signIn(ada);
    expect(Object.keys(tokens)).toEqual(["access_token", "token_type", "expires_in", "refresh_token"]);
    const { body } = await news.userinfo(tokens.access_token);
    expect(body).toMatchObject({ email: "ada@example.com" });
    const { id_token = "" } = await news.signIn(ada, { nonce: "n" });
    expect(decodeJwt(id_token)).toMatchObject({ sub: ada.account.sub, nonce: "n", iss: test.urls.openid });
  });

  it("keeps users signed in at all clients, each in their own browser", async () => {
    const shop = await test.addClient({ service: "2", redirect_uris: ["http://127.0.0.1:9/shop"] });
    await news.signIn(ada);
    expect(await shop.authorize(ada)).toMatchObject({ loginShown: false });
    const bob = await test.addPerson();
    expect(await shop.authorize(bob)).toMatchObject({ loginShown: true });
    expect((await test.service.accounts.find(bob.account.sub))?.services).toEqual({ "2": null });
  });

  it("types the code of an authenticator app where a second factor is asked for", async () => {
    const vault = await test.addClient({ second_factor: "required" });
    const secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
    await test.service.accounts.addApp(ada.account.sub, { secret });
    await expect(vault.signIn(ada)).rejects.toThrow(UnexpectedAnswer);
    const code = (): string => totpCode(secret, test.clock.now());
    const { id_token = "" } = await vault.signIn(await atNewBrowser(ada), {}, { code });
    expect(decodeJwt(id_token)).toMatchObject({ amr: ["pwd", "otp", "mfa"] });
  });

  it("gives a person a passkey, which signs in through the JSON interface", async () => {
    const phone = await test.addPasskey(ada);
    const { browser } = ada;
    await browser.get(news.authorizeUrl());
    const step = (await browser.json(browser.url)) as unknown as StepDescription;
    const { publicKey } = step.passkey as { readonly publicKey: Parameters<typeof phone.get>[0] };
    const { href = "" } = step.actions.find(({ name }) => name === "passkey") ?? {};
    const end = await browser.json(href, { csrf: step.csrf, credential: phone.get(publicKey) });
    await browser.get(String(end["location"]));
    expect(browser.location?.searchParams.get("code")).toEqual(expect.any(String));
    expect(await test.service.accounts.factors(ada.account.sub)).toMatchObject({
      passkeys: [{ name: "Phone" }],
    });
    const key = await test.addPasskey("ada", { synced: false, counts: true });
    expect(key.ids).not.toEqual(phone.ids);
  });

  it("gives each account a WebAuthn user handle of its own, of 32 random bytes", async () => {
    const handleOf = (authenticator: Awaited<ReturnType<typeof test.addPasskey>>): string => {
      const asked = { challenge: "x", rpId: "localhost", allowCredentials: [] };
      return String(authenticator.get(asked).response["userHandle"]);
    };
    const [one, two] = [await test.addPerson(), await test.addPerson()];
    const handles = [
      handleOf(await test.addPasskey(one)),
      handleOf(await test.addPasskey(one, { synced: false })),
      handleOf(await test.addPasskey(two)),
    ];
    expect(handles[0]).toBe(handles[1]);
    expect(handles[2]).not.toBe(handles[0]);
    expect(handles.map((handle) => Buffer.from(handle, "base64url").length)).toEqual([32, 32, 32]);
  });

  it("asks for consent for a third-party client", async () => {
    const partner = await test.addClient({ first_party: false });
    const parameters = { scope: "openid profile" };
    const denied = await partner.authorize(ada, parameters, { consent: "deny" });
    expect(denied).toMatchObject({ code: null, consentShown: true });
    expect(denied.location.searchParams.get("error")).toBe("access_denied");
    expect(await partner.authorize(ada, parameters)).toMatchObject({ code: expect.any(String) });
    expect(await partner.authorize(ada, parameters)).toMatchObject({ consentShown: false });
  });

  it("reports why a sign-in failed", async () => {
    await test.service.accounts.setPassword(ada.account.sub, "another password");
    await expect(news.signIn(ada)).rejects.toMatchObject({ code: "unexpected_answer" });
    const answer = news.signIn(ada, { prompt: "none" });
    await expect(answer).rejects.toThrow("error=login_required");
    expect(() => news.at("openid").authorizeUrl()).not.toThrow();
  });

  it("returns the notifications that would be sent, and sends none", async () => {
    const receiver = {
      url: "https://news.example/notifications",
      client_id: "n",
      client_secret: "s",
      types: ["PROFILE_CHANGED", "DELETE_ACCOUNT"] as const,
    };
    await test.service.directory.services.put("1", { name: "News", receiver });
    await news.signIn(ada);
    expect(await test.notifications()).toEqual([]);
    await test.service.accounts.update(ada.account.sub, { name: "Ada" });
    test.clock.advance(60);
    await test.service.accounts.delete(ada.account.sub);
    const sent = await test.notifications();
    expect(sent).toMatchObject([
      { receiver: "service:1", state: "waiting", body: { notification_type: "PROFILE_CHANGED" } },
      { receiver: "service:1", state: "waiting", body: { notification_type: "DELETE_ACCOUNT" } },
    ]);
    expect(sent.map(({ body }) => body.data.timestamp)).toEqual([seconds() - 60, seconds()]);
    const [first] = sent;
    expect(await test.service.notifications.find(first!.id)).toMatchObject({ attempts: 0 });
  });

  it("shares neither clock nor accounts with another one", async () => {
    const other = closing(await createTestSignIn());
    test.clock.advance(30 * DAY);
    expect(other.clock.now()).toBeLessThan(test.clock.now() - 29 * DAY * 1000);
    const client = await other.addClient();
    const tokens = await client.signIn(await other.addPerson());
    expect(Number(decodeJwt(tokens.id_token!).iat)).toBe(Math.floor(other.clock.now() / 1000));
    expect(await other.service.accounts.findByLogin("ada")).toBeUndefined();
  });

  it("can be mounted in the test's own application", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/sign-in`;
    const own = await createTestSignIn({ deployments: { oauth2: { url } } });
    try {
      const answer = new Koa().use(own.service.routes()).callback();
      server.on("request", (request, response) => void answer(request, response));
      expect(own.urls).toEqual({ oauth2: url });
      const client = await own.addClient();
      expect(await client.signIn(await own.addPerson())).not.toHaveProperty("id_token");
      expect(() => client.at("openid").authorizeUrl()).toThrow("deployment");
    } finally {
      await own.close();
      server.closeAllConnections();
      server.close();
    }
  });

  it("reports an invalid configuration", async () => {
    const wrong = createTestSignIn({ lifetimes: { accessToken: -1 } });
    await expect(wrong).rejects.toMatchObject({ code: "invalid_configuration" });
  });
});

describe("the clock of a test service", () => {
  it("stops until it is advanced, and never goes back", async () => {
    const before = test.clock.now();
    await news.signIn(ada);
    expect(test.clock.now()).toBe(before);
    test.clock.advance(0.5);
    expect(test.clock.now()).toBe(before + 500);
    for (const span of [-1, Number.NaN]) expect(() => test.clock.advance(span)).toThrow(TypeError);
  });

  it("moves codes", async () => {
    const [early, late] = [await news.authorize(ada), await news.authorize(ada)];
    test.clock.advance(59);
    expect((await news.exchange(early.code!)).status).toBe(200);
    test.clock.advance(1);
    expect(await news.exchange(late.code!)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
  });

  it("moves access tokens, at userinfo, introspection and the standard userinfo", async () => {
    const tokens = await news.signIn(ada);
    const introspected = async (): Promise<unknown> =>
      (await news.post("/oauth2/introspect", { token: tokens.access_token })).body;
    const standard = async (): Promise<number> => {
      const headers = { authorization: `Bearer ${tokens.access_token}` };
      return (await fetch(`${test.urls.openid}/oauth2/userinfo`, { headers })).status;
    };
    const at = seconds();
    expect(tokens.expires_in).toBe(36_000);
    test.clock.advance(35_999);
    expect(await works(tokens)).toBe(true);
    expect(await introspected()).toMatchObject({ active: true, iat: at, exp: at + 36_000 });
    expect(await standard()).toBe(200);
    test.clock.advance(1);
    expect(await works(tokens)).toBe(false);
    expect(await introspected()).toEqual({ active: false });
    expect(await standard()).toBe(401);
  });

  it("moves refresh tokens, and the grant behind them", async () => {
    const first = await news.signIn(ada);
    test.clock.advance(30 * DAY - 1);
    expect(await news.refresh(first.refresh_token)).toMatchObject({ status: 200 });
    test.clock.advance(1);
    expect(await news.refresh(first.refresh_token)).toMatchObject({
      status: 400,
      body: { error: "invalid_grant" },
    });
  });

  it("moves the rotation window and the maximum age of a sliding token", async () => {
    const rules = { rotate: true, reuseWindow: 10, sliding: true, maxAge: 40 * DAY };
    const client = await test.addClient({ refresh_tokens: rules });
    let { refresh_token } = await client.signIn(ada);
    test.clock.advance(25 * DAY);
    const rotated = await client.refresh(refresh_token);
    expect(rotated.body["refresh_token"]).not.toBe(refresh_token);
    test.clock.advance(10);
    const again = await client.refresh(refresh_token);
    expect(again.body).toEqual({ ...rotated.body, expires_in: 36_000 - 10 });
    refresh_token = String(rotated.body["refresh_token"]);
    test.clock.advance(15 * DAY - 11);
    expect(await client.refresh(refresh_token)).toMatchObject({ status: 200 });
    test.clock.advance(1);
    expect(await client.refresh(refresh_token)).toMatchObject({ status: 400 });
  });

  it("moves ID tokens: iat, exp and auth_time", async () => {
    const signedInAt = seconds();
    await news.signIn(ada);
    test.clock.advance(400 * DAY);
    const client = await test.addClient();
    const { id_token } = await client.signIn(ada, { max_age: "100" });
    const [iat, exp] = [seconds(), seconds() + 3600];
    expect(decodeJwt(id_token!)).toMatchObject({ iat, exp, auth_time: seconds() });
    test.clock.advance(90);
    const still = await client.signIn(ada, { max_age: "100" });
    expect(decodeJwt(still.id_token!)).toMatchObject({ iat: iat + 90, auth_time: iat });
    expect(signedInAt).toBe(iat - 400 * DAY);
  });

  it("moves sessions: fourteen days after the last use a new sign-in is necessary", async () => {
    await news.signIn(ada);
    test.clock.advance(14 * DAY - 1);
    expect(await news.authorize(ada)).toMatchObject({ loginShown: false });
    test.clock.advance(14 * DAY - 1);
    expect(await news.authorize(ada)).toMatchObject({ loginShown: false });
    test.clock.advance(14 * DAY);
    expect(await news.authorize(ada)).toMatchObject({ loginShown: true });
  });

  it("moves max_age to the second", async () => {
    await news.signIn(ada);
    test.clock.advance(100);
    const parameters = { max_age: "100" };
    expect(await news.authorize(ada, parameters)).toMatchObject({ loginShown: false });
    test.clock.advance(1);
    expect(await news.authorize(ada, parameters)).toMatchObject({ loginShown: true });
  });

  it("moves unfinished sign-ins: after an hour the form starts again", async () => {
    const { browser, username, password } = ada;
    await browser.get(news.authorizeUrl());
    test.clock.advance(3599);
    await browser.submit(browser.form("password"), { username, password: "wrong" });
    expect(browser.hasForm("password")).toBe(true);
    test.clock.advance(1);
    const form = browser.form("password");
    await browser.submit(form, { username, password });
    expect(browser.location).toBeUndefined();
    expect(browser.hasForm("password")).toBe(false);
  });

  it("moves pushed requests", async () => {
    const parameters = Object.fromEntries(new URL(news.authorizeUrl()).searchParams);
    const pushed = await Promise.all([1, 2].map(() => news.post("/oauth2/par", parameters)));
    const [early, late] = pushed.map(({ body }) => String(body["request_uri"]));
    const address = (request_uri: string | undefined): string => news.authorizeUrl({ request_uri });
    test.clock.advance(59);
    await ada.browser.get(address(early));
    expect(ada.browser.hasForm("password")).toBe(true);
    test.clock.advance(1);
    await ada.browser.get(address(late));
    expect(ada.browser.hasForm("password")).toBe(false);
  });

  it("moves rate limits: attempts are possible again after the window", async () => {
    const wrong = { ...ada, password: "a wrong password" };
    for (let tries = 0; tries < 10; tries += 1) await news.authorize(wrong).catch(() => undefined);
    await expect(news.signIn(ada)).rejects.toThrow("429");
    test.clock.advance(15 * 60);
    await expect(news.signIn(ada)).resolves.toBeDefined();
  });
});

describe("the mail of a test service", () => {
  it("is there to read: a person registers with the code from it", async () => {
    await test.close();
    test = closing(await createTestSignIn({ interactions: { registration: true } }));
    news = await test.addClient();
    const browser = new Browser({ stayAt: Object.values(test.urls).map((url) => `${url}/`) });
    await browser.get(news.authorizeUrl({ prompt: "create" }));
    await browser.submit(browser.form("email"), {
      email: "new@example.com",
      password: "a lighthouse in fog",
    });
    const [mail, ...others] = await test.mails();
    expect(others).toEqual([]);
    expect(mail).toMatchObject({ to: "new@example.com", subject: "Confirm your email address" });
    const code = /^[0-9A-Z]{8}$/m.exec(mail?.text ?? "")?.[0] ?? "";
    await browser.submit(browser.form("code"), { code });
    expect(browser.location?.searchParams.get("code")).toEqual(expect.any(String));
    const account = await test.service.accounts.findByLogin("new@example.com");
    expect(account).toMatchObject({ email_verified: true });
    await test.service.accounts.setPassword(account!.sub, "another lighthouse in fog");
    await expect(test.mails()).resolves.toMatchObject([
      { subject: "Confirm your email address" },
      { subject: "Your password was changed" },
    ]);
  });

  it("goes to a mailer of your own if there is one", async () => {
    await test.close();
    const sent: string[] = [];
    const mailer = { send: async ({ to }: { readonly to: string }) => void sent.push(to) };
    test = closing(await createTestSignIn({ mailer, notifications: { worker: true, poll: 0.02 } }));
    const { account } = await test.addPerson();
    await test.service.accounts.setPassword(account.sub, "another lighthouse in fog");
    for (let tries = 0; sent.length === 0 && tries < 5_000; tries += 1) await pause(10);
    expect(sent).toEqual([account.email]);
    await expect(test.mails()).resolves.toEqual([]);
  });
});

describe("a token for an API", () => {
  const API = "https://articles.example";
  const scopes = { "articles:read": "Read articles", "articles:write": "Write articles" };

  it("is a JWT that the API can verify, of a machine or a person", async () => {
    await test.service.directory.apis.put(API, { name: "Articles", service: "1", scopes, tokens: "jwt" });
    const issuer = test.urls.openid ?? "";
    const keys = createRemoteJWKSet(new URL(`${issuer}/oauth2/jwks`));
    const currentDate = new Date(test.clock.now());
    const read = async (token: string): Promise<unknown> =>
      (await jwtVerify(token, keys, { issuer, audience: API, typ: "at+jwt", currentDate })).payload;
    const machine = await read(await test.tokenFor(API));
    expect(machine).toMatchObject({ scope: "articles:read articles:write" });
    expect(machine).not.toHaveProperty("auth_time");
    const person = await read(await test.tokenFor(API, { account: ada, scopes: ["articles:read"] }));
    expect(person).toMatchObject({ sub: ada.account.sub, scope: "articles:read", auth_time: seconds() });
  });

  it("is opaque if the API says nothing, also for a person who was not assigned", async () => {
    await test.service.directory.services.put("closed", { name: "Closed" });
    await test.service.directory.apis.put(API, { name: "Articles", service: "closed", scopes });
    expect(await test.tokenFor(API)).toMatch(/^[\w-]{43,}$/);
    expect(await test.tokenFor(API, { account: "eve" })).toMatch(/^[\w-]{43,}$/);
  });

  it("needs an API and its scopes", async () => {
    await expect(test.tokenFor(API)).rejects.toThrow(TypeError);
    await test.service.directory.apis.put(API, { name: "Articles", service: "1", scopes });
    await expect(test.tokenFor(API, { scopes: ["articles:burn"] })).rejects.toThrow();
  });
});
