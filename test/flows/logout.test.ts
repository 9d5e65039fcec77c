import { createHash } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { createRemoteJWKSet, decodeJwt, type JWTPayload, jwtVerify } from "jose";
import * as client from "openid-client";
import type { Browser } from "../../testing/browser/browser.ts";
import { type Inbox, openInbox } from "./inbox.ts";
import { readTokens, send, type TestClient, type TestTokens } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { ADA, BOB, NEWS, PARTNER, type RunningService, SHOP, startService } from "./running-service.ts";
import { closing } from "../closing.ts";

const GOODBYE = "http://127.0.0.1:4000/goodbye";

let receiver: Inbox;
let running: RunningService;
let news: TestClient;
let shop: TestClient;

/** Waits for the given number of logout requests, and removes them. */
async function take(count: number): Promise<{ path: string; token: string }[]> {
  await receiver.until(({ length }) => length >= count);
  return receiver.arrived.splice(0).map(({ path, body }) => ({
    path,
    token: new URLSearchParams(body).get("logout_token") ?? "",
  }));
}

/** The clients with addresses for both kinds of logout. */
async function withLogout(service: RunningService): Promise<{ news: TestClient; shop: TestClient }> {
  for (const { client_id } of [NEWS, SHOP]) {
    await service.service.clients.update(client_id, {
      post_logout_redirect_uris: [GOODBYE],
      backchannel_logout_uri: receiver.url(`/${client_id}`),
    });
  }
  return { news: clientAt(service, "openid", NEWS), shop: clientAt(service, "openid", SHOP) };
}

beforeAll(async () => {
  receiver = closing(await openInbox());
  running = await startService({ config: { notifications: { allowedReceivers: ["127.0.0.1"] } } });
  ({ news, shop } = await withLogout(running));
});

/** A browser that is signed in at both clients, with the tokens of the first. */
async function signedIn(): Promise<{ browser: Browser; tokens: TestTokens }> {
  const browser = news.browser({ stopAt: [...NEWS.redirect_uris, ...SHOP.redirect_uris, GOODBYE] });
  const tokens = await news.signIn({ ...ADA, browser }, { scope: "openid" });
  await shop.signIn({ ...ADA, browser }, { scope: "openid" });
  return { browser, tokens };
}

const isSignedIn = async (browser: Browser): Promise<boolean> => (await news.silently(browser)) === "code";

async function verified(token: string, audience: string): Promise<JWTPayload> {
  const keys = createRemoteJWKSet(new URL(`${running.openid}/oauth2/jwks`));
  const { payload } = await jwtVerify(token, keys, {
    issuer: running.openid,
    audience,
    typ: "logout+jwt",
    requiredClaims: ["iat", "exp", "jti"],
  });
  return payload;
}

describe("RP-initiated logout", () => {
  it("asks, ends the session and redirects with the state; tokens stay valid [D-DEPLOY-4, D-ACCOUNT-16]", async () => {
    const { browser, tokens } = await signedIn();
    const config = await client.discovery(new URL(running.openid), "news", NEWS.client_secret, undefined, {
      execute: [client.allowInsecureRequests],
    });
    const parameters = { post_logout_redirect_uri: GOODBYE, client_id: NEWS.client_id };
    await browser.get(client.buildEndSessionUrl(config, { ...parameters, state: "a b" }));
    expect([browser.status, browser.location]).toEqual([200, undefined]);
    expect(browser.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(await isSignedIn(browser)).toBe(true);
    await browser.get(client.buildEndSessionUrl(config, { ...parameters, state: "a b" }));
    await browser.submit(browser.form("logout"), { logout: "yes" });
    expect(browser.location?.origin).toBe(new URL(GOODBYE).origin);
    expect(browser.location?.searchParams.get("state")).toBe("a b");
    expect(await isSignedIn(browser)).toBe(false);
    expect((await news.userinfo(tokens.access_token)).status).toBe(200);
    const received = await take(2);
    expect(received.map(({ path }) => path).toSorted()).toEqual(["/news", "/shop"]);
  });

  it("does not ask for a first-party client with an ID token of this very session [D-LOGOUT-1]", async () => {
    const { browser, tokens } = await signedIn();
    const address = (hint: string, client_id = "news") =>
      `${running.openid}/oauth2/logout?${new URLSearchParams({ id_token_hint: hint, client_id })}`;
    const asks = (): boolean => !browser.html.includes("<script>");
    await browser.get(address(tokens.id_token ?? ""));
    expect(asks()).toBe(false);
    const script = /<script>(.*)<\/script>/.exec(browser.html)?.[1] ?? "";
    const hash = createHash("sha256").update(script).digest("base64");
    expect(browser.headers.get("content-security-policy")).toContain(`/pages.js 'sha256-${hash}';`);
    // A refreshed ID token is of the session, too.
    const { id_token = "" } = readTokens(await news.refresh(tokens.refresh_token));
    await browser.get(address(id_token));
    expect(asks()).toBe(false);

    const other = await signedIn();
    const partner = clientAt(running, "openid", PARTNER);
    const consenting = partner.browser({ stopAt: [PARTNER.redirect_uris[0]!] });
    await consenting.get(partner.authorizeUrl({ scope: "openid" }));
    await signIn(consenting);
    await consenting.submit(consenting.form("decision"), { decision: "allow" });
    const theirs = await partner.tokensOf(consenting);
    const bob = await news.signIn(BOB, { scope: "openid" });
    for (const hint of [other.tokens.id_token, bob.id_token]) {
      await browser.get(address(hint ?? ""));
      expect([browser.status, asks()]).toEqual([200, true]);
    }
    await consenting.get(address(theirs.id_token ?? "", "partner"));
    expect([consenting.status, consenting.html.includes("<script>")]).toEqual([200, false]);
    await browser.get(`${running.openid}/oauth2/logout?client_id=news`);
    expect(asks()).toBe(true);
    expect(await isSignedIn(browser)).toBe(true);
  });

  it("keeps a user who stays signed in [D-DEPLOY-4, D-LOGOUT-1]", async () => {
    const { browser } = await signedIn();
    await browser.get(`${running.openid}/oauth2/logout`);
    await browser.submit(browser.form("logout"));
    expect(await isSignedIn(browser)).toBe(true);
  });

  it("redirects to registered addresses only, and shows a page without one [D-DEPLOY-4, D-AUTHZ-14, D-LOGOUT-2]", async () => {
    const { browser } = await signedIn();
    const evil = encodeURIComponent("https://evil.example/");
    const bad = `${running.openid}/oauth2/logout?client_id=news&post_logout_redirect_uri=${evil}`;
    expect((await send(bad)).body).toMatchObject({ error: "invalid_request" });
    await browser.get(bad);
    expect([browser.status, browser.location]).toEqual([400, undefined]);
    expect(browser.html).toContain("post_logout_redirect_uri");
    expect(browser.html).toMatch(/<a [^>]*href="[^"]+"/);
    await browser.get(`${running.openid}/oauth2/logout?post_logout_redirect_uri=${evil}`);
    await browser.submit(browser.form("logout"), { logout: "yes" });
    expect([browser.status, browser.location]).toEqual([200, undefined]);
    expect(browser.url.pathname).toBe("/openid/oauth2/logout/success");
    expect(await isSignedIn(browser)).toBe(false);
    await take(2);
  });

  it("refuses a form of another site [D-DEPLOY-4]", async () => {
    const { browser } = await signedIn();
    const { status } = await send(`${running.openid}/oauth2/logout/confirm`, {
      method: "POST",
      headers: { cookie: browser.jar.header(new URL(running.openid)) },
      body: new URLSearchParams({ logout: "yes", xsrf: "guessed" }),
    });
    expect(status).toBe(400);
    expect(await isSignedIn(browser)).toBe(true);
  });
});

describe("back-channel logout", () => {
  it("notifies each client of the session with its own signed token [D-DEPLOY-4, D-ACCOUNT-16]", async () => {
    const { browser, tokens } = await signedIn();
    await browser.get(`${running.openid}/oauth2/logout`);
    await browser.submit(browser.form("logout"), { logout: "yes" });
    const received = await take(2);
    const payloads = await Promise.all(received.map(({ path, token }) => verified(token, path.slice(1))));
    for (const payload of payloads) {
      expect(payload).toMatchObject({
        sub: running.ada.sub,
        sid: expect.any(String),
        events: { "http://schemas.openid.net/event/backchannel-logout": {} },
      });
      expect(payload).not.toHaveProperty("nonce");
    }
    expect(new Set(payloads.map(({ jti }) => jti)).size).toBe(2);
    const own = payloads.find(({ aud }) => aud === "news");
    expect(own?.["sid"]).toBe(decodeJwt(tokens.id_token ?? "")["sid"]);
  });

  it("notifies clients when sessions end, the password changes, or the account is disabled or deleted [D-ACCOUNT-16, D-ACCOUNT-6, D-ACCOUNT-7, D-ACCOUNT-8]", async () => {
    const { accounts } = running.service;
    const person = { username: "goes", password: "a password of somebody" };
    const { sub } = await accounts.create({ email: "goes@example.com", ...person });
    const changes = [
      () => accounts.endSessions(sub),
      () => accounts.setPassword(sub, person.password),
      () => accounts.disable(sub),
      () => accounts.delete(sub),
    ];
    for (const change of changes) {
      await news.signIn(person, { scope: "openid" });
      await shop.signIn(person);
      await change();
      const received = await take(2);
      expect(received.map(({ path }) => path).toSorted()).toEqual(["/news", "/shop"]);
      for (const { path, token } of received) {
        expect(await verified(token, path.slice(1))).toMatchObject({ sub });
      }
      if (await accounts.find(sub)) await accounts.enable(sub);
    }
  });
});
