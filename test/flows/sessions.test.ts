import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "@jest/globals";
import type { Browser, Send } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { readTokens, type RequestParameters, type TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn, viaProxy } from "./clients.ts";
import {
  ADA,
  BOB,
  CALLBACK,
  NEWS,
  type RunningOptions,
  type RunningService,
  SHOP,
  startService,
  useService,
} from "./running-service.ts";

const running = useService();
const oauth2 = clientAt(running, "oauth2", NEWS);
const openid = clientAt(running, "openid", NEWS);
afterAll(() => running.close());

const eight = (oauth2Url: string, openidUrl: string): string =>
  createHash("sha256").update(`${oauth2Url} ${openidUrl}`).digest("hex").slice(0, 8);

function sessionCookie(browser: Browser): { name: string; value: string } {
  const found = browser.jar.all().find(({ name }) => /sis_session_[0-9a-f]{8}$/.test(name));
  if (found === undefined) throw new Error("no session cookie");
  return found;
}

/** Whether the client gets a code for this browser without a page. */
const isSignedIn = async (browser: Browser, party: TestClient): Promise<boolean> =>
  (await party.silently(browser)) === "code";

async function subOf(browser: Browser): Promise<unknown> {
  await browser.get(oauth2.authorizeUrl({ prompt: "none" }));
  const code = browser.location?.searchParams.get("code") ?? "";
  const { access_token } = readTokens(await oauth2.exchange(code));
  return (await oauth2.userinfo(access_token)).body["sub"];
}

const errorOf = (response: Response): string | null =>
  new URL(response.headers.get("location") ?? "").searchParams.get("error");

/** Runs `work` with a service in production, behind a TLS proxy. */
async function behindTls(
  options: RunningOptions,
  work: (service: RunningService, send: Send) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "sign-in-"));
  try {
    const service = await startService({
      ...options,
      config: {
        storage: `sqlite:${join(folder, "sign-in.db")}`,
        proxy: true,
        interactions: { theme: { name: "Example" } },
        ...options.config,
      },
    });
    const send = viaProxy(service);
    try {
      await work(service, send);
    } finally {
      await service.close();
    }
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe("the sign-in session", () => {
  it("is one for both deployments and all clients [INTRO-1, D-DEPLOY-1]", async () => {
    for (const [first, second] of [
      [oauth2, openid],
      [openid, oauth2],
    ] as const) {
      const browser = first.browser({ stopAt: [CALLBACK, ...SHOP.redirect_uris] });
      expect(await isSignedIn(browser, first)).toBe(false);
      await first.authorize({ ...ADA, browser });
      expect(await isSignedIn(browser, second)).toBe(true);
      expect(await isSignedIn(browser, clientAt(running, second.deployment, SHOP))).toBe(true);
    }
  });

  it("has a cookie with a unique name, HttpOnly and SameSite [D-DEPLOY-13]", async () => {
    const browser = oauth2.browser();
    await oauth2.authorize({ ...ADA, browser });
    const name = `sis_session_${eight(running.oauth2, running.openid)}`;
    const cookies = browser.jar.all().filter((cookie) => cookie.name.startsWith(name));
    expect(cookies.map((cookie) => cookie.name).toSorted()).toEqual([name, `${name}.sig`]);
    const flags = { path: "/", hostOnly: true, httpOnly: true, sameSite: "lax", secure: false };
    for (const cookie of cookies) expect(cookie).toMatchObject(flags);
    for (const cookie of browser.jar.all()) {
      expect(cookie).toMatchObject({ httpOnly: true, sameSite: "lax" });
      expect(cookie.name).toContain(eight(running.oauth2, running.openid));
    }
  });

  it("has a new identifier at each sign-in, and the old one is invalid [D-DEPLOY-13]", async () => {
    const browser = oauth2.browser();
    await oauth2.authorize({ ...ADA, browser });
    const before = browser.jar.header(new URL(running.origin));
    const first = sessionCookie(browser).value;
    await browser.get(oauth2.authorizeUrl({ prompt: "login" }));
    await signIn(browser);
    expect(sessionCookie(browser).value).not.toBe(first);
    expect(await isSignedIn(browser, oauth2)).toBe(true);
    const thief = oauth2.browser();
    for (const pair of before.split("; ")) thief.jar.take(new URL(running.origin), [`${pair}; Path=/`]);
    expect(await isSignedIn(thief, oauth2)).toBe(false);
  });

  it("does not adopt a cookie from before the sign-in [D-DEPLOY-13]", async () => {
    const browser = oauth2.browser();
    await browser.get(oauth2.authorizeUrl());
    const planted = "planted-by-somebody-else";
    const name = `sis_session_${eight(running.oauth2, running.openid)}`;
    browser.jar.take(new URL(running.origin), [`${name}=${planted}; Path=/`]);
    await signIn(browser);
    expect(sessionCookie(browser).value).not.toBe(planted);
    expect(await isSignedIn(browser, oauth2)).toBe(true);
  });

  it("is ignored if there are two cookies for it, in either order [D-DEPLOY-13]", async () => {
    const browser = oauth2.browser();
    await oauth2.authorize({ ...ADA, browser });
    const { name, value } = sessionCookie(browser);
    const own = browser.jar.header(new URL(running.origin));
    const send = (cookie: string): Promise<Response> =>
      fetch(oauth2.authorizeUrl({ prompt: "none" }), { headers: { cookie }, redirect: "manual" });
    expect(errorOf(await send(own))).toBeNull();
    const joined = own
      .split("; ")
      .filter((pair) => pair.startsWith(name))
      .join(",");
    for (const second of [`${name}=other`, `${name}=${value}`, `${name}.sig=x`, joined]) {
      expect(errorOf(await send(`${own}; ${second}`))).toBe("login_required");
      expect(errorOf(await send(`${second}; ${own}`))).toBe("login_required");
    }
    expect(errorOf(await send(own))).toBeNull();
    const forged = own.replace(/\.sig=(.)/, (_all, first) => `.sig=${first === "_" ? "-" : "_"}`);
    expect(errorOf(await send(forged))).toBe("login_required");
  });

  it("changes to another user who signs in, after a confirmation [D-DEPLOY-5, D-DEPLOY-13]", async () => {
    for (const party of [oauth2, openid]) {
      const browser = party.browser();
      await party.authorize({ ...ADA, browser });
      expect(await subOf(browser)).toBe(running.ada.sub);
      await browser.get(party.authorizeUrl({ prompt: "login", state: "a b" }));
      await signIn(browser, BOB);
      // Without scripts a browser shows the button of the page that submits itself.
      expect([browser.status, browser.location]).toEqual([200, undefined]);
      expect(browser.form().action.href).toBe(`${party.base}/oauth2/logout/confirm`);
      await browser.submit();
      expect(browser.location?.searchParams.get("state")).toBe("a b");
      const code = browser.location?.searchParams.get("code") ?? "";
      const { access_token } = readTokens(await party.exchange(code));
      expect((await party.userinfo(access_token)).body).toEqual({ sub: running.bob.sub, email: BOB.email });
      expect(await subOf(browser)).toBe(running.bob.sub);
    }
  });

  it("supports two tabs at once, each with its own request [D-DEPLOY-12, AUTHZ-9]", async () => {
    const browser = oauth2.browser({ stopAt: [CALLBACK, ...SHOP.redirect_uris] });
    await browser.get(oauth2.authorizeUrl({ state: "one" }));
    const first = browser.form("password");
    await browser.get(clientAt(running, "oauth2", SHOP).authorizeUrl({ state: "two" }));
    const second = browser.form("password");
    for (const [form, state] of [
      [second, "two"],
      [first, "one"],
    ] as const) {
      await browser.submit(form, { username: ADA.username, password: ADA.password });
      expect(browser.location?.searchParams.get("state")).toBe(state);
      expect(browser.location?.searchParams.has("code")).toBe(true);
    }
  });

  it("of many unfinished sign-ins, a request brings the cookies of its own only: less than 4,000 bytes [D-COOKIES-4]", async () => {
    for (const news of [oauth2, openid]) {
      const browser = news.browser();
      await news.authorize({ ...ADA, browser });
      const pages: URL[] = [];
      for (let count = 0; count < 40; count += 1) {
        await browser.get(news.authorizeUrl({ prompt: "login", state: "s".repeat(1_000) }));
        pages.push(browser.url);
      }
      const requests = [...pages, ...pages.map(({ href }) => new URL(`${href}/login`))];
      for (const url of [...requests, new URL(news.authorizeUrl()), new URL(`${news.base}/account`)])
        expect([url.pathname, browser.jar.header(url).length < 4_000]).toEqual([url.pathname, true]);
      // The first is as good as the last.
      await signIn(await browser.get(pages[0]!));
      expect(browser.location?.searchParams.has("code")).toBe(true);
    }
  });

  it("starts again if a sign-in is completed twice or in another browser [D-DEPLOY-12, D-AUTHZ-14]", async () => {
    const browser = await oauth2.browser().get(oauth2.authorizeUrl());
    const form = browser.form("password");
    const filled = { username: ADA.username, password: ADA.password };
    const other = oauth2.browser();
    await other.get(browser.url);
    expect([other.status, other.location]).toEqual([400, undefined]);
    await other.submit(form, filled);
    expect([other.status, other.location]).toEqual([400, undefined]);
    await browser.submit(form, filled);
    const resume = browser.visits.at(-1)!.url;
    await browser.submit(form, filled);
    expect([browser.status, browser.location]).toEqual([400, undefined]);
    await browser.get(resume);
    expect([browser.status, browser.location]).toEqual([400, undefined]);
    expect(browser.headers.get("content-type")).toContain("text/html");
  });
});

describe("on https", () => {
  const urls = { oauth2: "https://login.example", openid: "https://login.example/openid" };

  it("the session cookie is bound to the host and to https [D-DEPLOY-13]", async () => {
    const deployments = { oauth2: { url: urls.oauth2 }, openid: { url: urls.openid } };
    await behindTls({ deployments: () => deployments }, async (service, send) => {
      const party = clientAt(service, "openid", NEWS);
      const browser = party.browser({ send });
      await browser.get(party.authorizeUrl());
      expect(browser.headers.get("strict-transport-security")).toBe("max-age=31536000");
      await party.authorize({ ...ADA, browser });
      const { name } = sessionCookie(browser);
      expect(name).toBe(`__Host-sis_session_${eight(urls.oauth2, urls.openid)}`);
      const flags = { secure: true, hostOnly: true, httpOnly: true, sameSite: "lax" };
      for (const cookie of browser.jar.all()) expect(cookie).toMatchObject(flags);
      expect(browser.headers.get("location")).toContain(encodeURIComponent(urls.openid));
    });
  });

  it.each([undefined, "login.example"])(
    "more time sets the cookies of a sign-in again as they were, domain %s",
    async (domain) => {
      const clock = new TestClock();
      const config = { clock, ...(domain !== undefined && { cookies: { domain } }) };
      const deployments = { oauth2: { url: urls.oauth2 }, openid: { url: urls.openid } };
      await behindTls({ deployments: () => deployments, config }, async (service, send) => {
        const party = clientAt(service, "openid", NEWS);
        const browser = party.browser({ send });
        const cookies = () =>
          browser.jar
            .all()
            .filter(({ name }) => /sis_(?:interaction|resume)_/.test(name))
            .map(({ expires: _end, ...flags }) => flags)
            .toSorted((a, b) => a.name.localeCompare(b.name));
        await browser.get(party.authorizeUrl());
        const before = cookies();
        expect(before.map(({ secure }) => secure)).toEqual([true, true, true, true]);
        clock.advance(3_590);
        await browser.submit(browser.form("password"), { action: "more-time" });
        expect([browser.status, browser.headers.getSetCookie().length]).toEqual([200, 4]);
        expect(cookies()).toEqual(before);
      });
    },
  );

  it("the authorization endpoint accepts POST only on openid, if configured [D-DEPLOY-7]", async () => {
    const deployments = { oauth2: { url: urls.oauth2 }, openid: { url: urls.openid, post: true } };
    await behindTls({ deployments: () => deployments }, async (service, send) => {
      const parties = {
        oauth2: clientAt(service, "oauth2", NEWS),
        openid: clientAt(service, "openid", NEWS),
      };
      const browser = parties.openid.browser({ send });
      const post = async (party: TestClient, parameters: RequestParameters = {}): Promise<Response> => {
        const target = new URL(party.authorizeUrl({ scope: "openid", state: "a b", ...parameters }));
        const body = target.searchParams.toString();
        target.search = "";
        const headers = {
          "content-type": "application/x-www-form-urlencoded",
          cookie: browser.jar.header(target),
          origin: "https://client.example",
        };
        const response = await send(target, { method: "POST", body, headers, redirect: "manual" });
        browser.jar.take(target, response.headers.getSetCookie());
        return response;
      };
      const begun = await post(parties.openid);
      expect(begun.status).toBe(303);
      await browser.get(begun.headers.get("location") ?? "");
      await signIn(browser);
      expect(browser.location?.searchParams.get("state")).toBe("a b");
      const session = browser.jar.all().find(({ name }) => name === sessionCookie(browser).name);
      expect(session).toMatchObject({ sameSite: "none", secure: true, httpOnly: true });
      const direct = await post(parties.openid, { prompt: "none" });
      const back = new URL(direct.headers.get("location") ?? "");
      expect([direct.status, back.searchParams.get("state")]).toEqual([302, "a b"]);
      expect([...back.searchParams.keys()].toSorted()).toEqual(["code", "iss", "state"]);
      expect((await post(parties.openid, { redirect_uri: undefined })).status).toBe(400);
      expect((await post(parties.oauth2)).status).toBe(405);
    });
  });

  it("two hosts share the session only with cookies.domain, and are distinguished by Host [D-DEPLOY-1, D-DEPLOY-2, D-DEPLOY-13]", async () => {
    const deployments = {
      oauth2: { url: "https://login.example.com" },
      openid: { url: "https://openid.example.com" },
    };
    for (const domain of [undefined, "example.com"]) {
      const config =
        domain === undefined
          ? { interactions: { theme: { name: "Example" }, passkeys: { rpId: "example.com" } } }
          : { cookies: { domain } };
      await behindTls({ deployments: () => deployments, config }, async (service, send) => {
        const [first, second] = [clientAt(service, "oauth2", NEWS), clientAt(service, "openid", NEWS)];
        const browser = first.browser({ send });
        const { location } = await first.authorize({ ...ADA, browser });
        expect([...location.searchParams.keys()]).toEqual(["code"]);
        const prefix = domain === undefined ? "__Host-" : "__Secure-";
        expect(sessionCookie(browser).name.startsWith(`${prefix}sis_session_`)).toBe(true);
        expect(await isSignedIn(browser, second)).toBe(domain !== undefined);
        const answer = await second.authorize({ ...ADA, browser });
        expect(answer.location.searchParams.get("iss")).toBe(deployments.openid.url);
      });
    }
  });
});
