/** People who come under another host name are led to the deployment's before anything begins. */
import { type IncomingHttpHeaders, request } from "node:http";
import { describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Send } from "../../testing/browser/browser.ts";
import { WatchedStorage } from "../faults/watched-storage.ts";
import { beforeTests } from "../closing.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { CALLBACK, NEWS, type RunningService, startService } from "../flows/running-service.ts";

const BASE = "http://login.site.localhost";
const AUTHORIZE = `/oauth2/authorize?client_id=news&response_type=code&redirect_uri=${CALLBACK}&state=a%2Fb+c`;
const HTML = { accept: "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8" };

interface Stage extends RunningService {
  /** The calls of the storage since the start. */
  readonly calls: string[];
}

async function start(
  config: Partial<SignInServiceConfig> = {},
  urls: { readonly oauth2: string; readonly openid: string } = { oauth2: BASE, openid: `${BASE}/openid` },
): Promise<Stage> {
  const calls: string[] = [];
  const running = await startService({
    config: {
      interactions: { passkeys: { rpId: "site.localhost" } },
      // A worker asks the storage at times of its own.
      notifications: { worker: false },
      ...config,
    },
    deployments: () => ({ oauth2: { url: urls.oauth2 }, openid: { url: urls.openid } }),
    storage(opened) {
      const watched = new WatchedStorage(opened);
      watched.fail = ({ name }) => void calls.push(name);
      return watched.storage;
    },
  });
  return { ...running, calls };
}

const usual = beforeTests(() => start());

/** A proxy that sends the name of its upstream. */
const viaUpstream: Send = (url, init) => {
  const headers = new Headers(init.headers);
  headers.set("host", "sign-in.internal:3000");
  if (!headers.has("accept")) headers.set("accept", HTML.accept);
  return fetch(usual.origin + url.pathname + url.search, { ...init, headers });
};

interface Seen {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

function ask(
  { origin }: RunningService,
  path: string,
  headers: Readonly<Record<string, string>>,
  method = "GET",
): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(origin);
    const sent = request({ port, host: "127.0.0.1", path, method, headers }, (response) => {
      response.resume();
      response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers }));
    });
    sent.on("error", reject);
    sent.end();
  });
}

/** Where a request is led, if it is. */
function led({ status, headers }: Seen): string | undefined {
  const isLed = status === 303 && headers["set-cookie"]?.some((cookie) => cookie.startsWith("sis_moved_"));
  return isLed ? headers.location : undefined;
}

const named = (host: string, more: Readonly<Record<string, string>> = {}) => ({ host, ...HTML, ...more });
const OTHER = named("old.example");

describe("another host name", () => {
  it("leads a GET of a page to the same path and query of the deployment, before anything is stored [D-HOST-2]", async () => {
    usual.calls.length = 0;
    for (const path of [
      AUTHORIZE,
      `/openid${AUTHORIZE}`,
      "/oauth2/authorize/some-id",
      "/interaction/some-id",
      "/interaction/some-id/register?lang=de",
      "/account",
      "/openid/account/profile?x=%zz&y=%C3%BC",
      "/device?user_code=ABCD-EFGH",
      `/confirm?token=${"a".repeat(43)}`,
      "/openid/oauth2/logout?state=x",
    ]) {
      const seen = await ask(usual, path, OTHER);
      expect([path, led(seen)]).toEqual([path, BASE + path]);
      expect(seen.headers["set-cookie"]).toEqual([
        expect.stringMatching(/^sis_moved_[\da-f]{8}=; Path=\/; Max-Age=10; HttpOnly; SameSite=Lax$/),
      ]);
      expect(seen.headers["strict-transport-security"]).toBeUndefined();
    }
    expect(usual.calls).toEqual([]);
  });

  it("leads no request for a client, no other method and no program anywhere [D-HOST-2]", async () => {
    const json = { accept: "application/json" };
    for (const [path, method, headers] of [
      ["/oauth2/token", "POST", HTML],
      ["/resources/userinfo?client_id=news", "GET", HTML],
      ["/openid/.well-known/openid-configuration", "GET", HTML],
      ["/openid/oauth2/jwks", "GET", HTML],
      ["/pages.js", "GET", HTML],
      ["/clients/news/logo", "GET", HTML],
      ["/account", "HEAD", HTML],
      ["/account", "POST", HTML],
      ["/interaction/some-id", "POST", HTML],
      ["/interaction/some-id", "GET", json],
      ["/account", "PUT", HTML],
      [AUTHORIZE, "GET", json],
      // What a program sends that prefers nothing.
      [AUTHORIZE, "GET", { accept: "*/*" }],
    ] as const) {
      const [there, here] = await Promise.all(
        ["old.example", "login.site.localhost"].map((host) => ask(usual, path, { host, ...headers }, method)),
      );
      expect([path, method, led(there!), there!.status]).toEqual([path, method, undefined, here!.status]);
    }
  });

  it.each([
    "login.site.localhost",
    "LOGIN.site.localhost",
    "login.site.localhost.",
    "login.site.localhost:80",
    // Another port has the same cookies.
    "login.site.localhost:8443",
    // No host names at all.
    "a b",
    "user@old.example",
    "old.example/x",
    "old.example#",
  ])("is not %j", async (host) => {
    expect(led(await ask(usual, "/account", named(host)))).toBeUndefined();
  });

  it.each([
    "10.0.0.1:3000",
    "[fd00::1]",
    "evil.example",
    "login.site.localhost.evil.example",
    "xlogin.site.localhost",
  ])("is %s, and nothing of it is in the Location", async (host) => {
    expect(led(await ask(usual, "/account", named(host)))).toBe(`${BASE}/account`);
  });

  it("is served as it comes with the cookie of the redirect: no loop [D-HOST-2]", async () => {
    const first = await ask(usual, "/account", OTHER);
    const [cookie = ""] = first.headers["set-cookie"]?.[0]?.split(";") ?? [];
    const second = await ask(usual, "/account", { ...OTHER, cookie });
    expect([led(second), second.status]).toEqual([undefined, 303]);
    expect(second.headers.location).toContain("/oauth2/authorize?");
  });

  it("lets people sign in behind a proxy that sends the name of its upstream [D-HOST-2]", async () => {
    const news = clientAt({ oauth2: BASE, openid: BASE }, "oauth2", NEWS);
    const browser = news.browser({ send: viaUpstream });
    await browser.get(news.authorizeUrl());
    expect(browser.visits.map(({ status }) => status)).toEqual([303, 303, 200]);
    await signIn(browser);
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });
});

describe("another host name, with two hosts", () => {
  it("leads where only one deployment has the path, by the rules of the Host [D-HOST-1, D-HOST-2]", async () => {
    const running = await start(
      { interactions: { passkeys: { rpId: "site.localhost" } } },
      { oauth2: "http://login.site.localhost/a", openid: "http://id.site.localhost/b" },
    );
    const at = async (path: string, host: string): Promise<unknown> => {
      const seen = await ask(running, path, named(host));
      return led(seen) ?? seen.status;
    };
    expect(await at("/a/account", "old.example")).toBe("http://login.site.localhost/a/account");
    expect(await at("/b/account", "old.example")).toBe("http://id.site.localhost/b/account");
    expect(await at("/b/account", "login.site.localhost")).toBe(404);
    const shared = await start(
      { interactions: { passkeys: { rpId: "site.localhost" } } },
      { oauth2: "http://login.site.localhost", openid: "http://id.site.localhost" },
    );
    expect(led(await ask(shared, "/account", named("old.example")))).toBeUndefined();
    expect((await ask(shared, "/account", named("old.example"))).status).toBe(400);
    expect(led(await ask(shared, "/openid/oauth2/logout", named("old.example")))).toBeUndefined();
    expect(led(await ask(shared, "/oauth2/logout", named("old.example")))).toBe(
      "http://id.site.localhost/oauth2/logout",
    );
  });
});

function warnings({ log }: RunningService): string[] {
  return log.filter((line) => line.includes("without X-Forwarded-Host"));
}

describe("another host name, behind a proxy", () => {
  it("is what X-Forwarded-Host says; without one nothing is redirected, and the log says so once [D-HOST-2]", async () => {
    const running = await start({ proxy: ["127.0.0.1"] });
    const via = (forwarded: string) => named("sign-in.internal:3000", { "x-forwarded-host": forwarded });
    expect(led(await ask(running, "/account", via("old.example")))).toBe(`${BASE}/account`);
    expect(led(await ask(running, "/account", via("old.example, login.site.localhost")))).toBeUndefined();
    expect(led(await ask(running, "/account", via("login.site.localhost")))).toBeUndefined();
    expect(led(await ask(running, "/account", named("login.site.localhost")))).toBeUndefined();
    expect(warnings(running)).toHaveLength(0);
    for (let i = 0; i < 3; i += 1) expect(led(await ask(running, "/account", OTHER))).toBeUndefined();
    expect(warnings(running)).toHaveLength(1);
    expect(warnings(running)[0]).not.toContain("old.example");
  });

  it("is nothing that a stranger says: X-Forwarded-Host of no proxy is ignored [D-HOST-2]", async () => {
    const distrustful = await start({ proxy: ["10.0.0.1"] });
    const spoofed = named("login.site.localhost", { "x-forwarded-host": "evil.example" });
    expect(led(await ask(distrustful, "/account", spoofed))).toBeUndefined();
    const direct = await start();
    expect(led(await ask(direct, "/account", spoofed))).toBeUndefined();
  });

  it("keeps what the proxy takes off the path [D-HOST-2]", async () => {
    const running = await start(
      { proxy: ["127.0.0.1"], stripPrefix: "/auth" },
      { oauth2: `${BASE}/auth`, openid: `${BASE}/auth/openid` },
    );
    const headers = named("x", { "x-forwarded-host": "old.example" });
    expect(led(await ask(running, "/openid/account?lang=de", headers))).toBe(
      `${BASE}/auth/openid/account?lang=de`,
    );
  });
});
