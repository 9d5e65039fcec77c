import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../config/input.ts";
import { applySeed } from "../../lib/index.ts";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import { Browser, type Send } from "../../testing/browser/browser.ts";
import { basic, send } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { signedIn } from "./host.ts";
import { startProcesses } from "./processes.ts";
import { newFolder } from "../closing.ts";

let folder: string;
const ends: (() => unknown)[] = [];
const silent = pino({ level: "silent" });

beforeEach(() => {
  folder = newFolder();
});
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

async function begin(config: SignInServiceConfig): Promise<SignInService> {
  const service = await createSignInService({ logger: silent, ...config });
  ends.push(() => service.close());
  return service;
}

const ACCOUNT = { email: ADA.email, username: ADA.username, password: ADA.password };

describe("two services in one process", () => {
  let one: RunningService;
  let other: SignInService;
  let otherBase: string;

  beforeEach(async () => {
    // Both are in one application on one host.
    one = await startService({
      deployments: (origin) => ({
        oauth2: { url: `${origin}/one` },
        openid: { url: `${origin}/one/openid` },
      }),
      host: (application) =>
        void application.use((ctx, next) =>
          ctx.path.startsWith("/two") ? other.routes()(ctx, next) : next(),
        ),
    });
    ends.push(() => one.close());
    otherBase = `${one.origin}/two`;
    other = await begin({
      deployments: { oauth2: { url: otherBase }, openid: { url: `${otherBase}/openid` } },
      storage: "sqlite::memory:",
      lifetimes: { accessToken: 111 },
      interactions: { theme: { name: "The other one" } },
      rateLimits: { passwordGrant: { accountAndClient: { points: 1, seconds: 60 } } },
    });
    await applySeed(other, { services: { 1: { name: "News" } }, clients: [NEWS], accounts: [ACCOUNT] });
  });

  it("have separate accounts, clients, keys, tokens, cookies, lifetimes, themes and limits", async () => {
    const [first, second] = [
      clientAt(one, "openid", NEWS),
      clientAt({ ...one, openid: `${otherBase}/openid` }, "openid", NEWS),
    ];
    const browser = first.browser();
    const mine = await first.signIn({ ...ADA, browser }, { scope: "openid" });
    expect(await signedIn(second, browser)).toBe(false);
    expect(browser.html).toContain("The other one");
    const theirs = await second.signIn({ ...ADA, browser }, { scope: "openid" });
    expect([await signedIn(first, browser), await signedIn(second, browser)]).toEqual([true, true]);
    expect([mine.expires_in, theirs.expires_in]).toEqual([36_000, 111]);
    expect([
      (await first.userinfo(theirs.access_token)).status,
      (await second.userinfo(mine.access_token)).status,
    ]).toEqual([400, 400]);
    expect((await second.refresh(mine.refresh_token)).body["error"]).toBe("invalid_grant");
    const kids = await Promise.all(
      [first, second].map(async ({ base }) => (await send(`${base}/oauth2/jwks`)).text),
    );
    expect(kids[0]).toContain('"kid"');
    expect(kids[0]).not.toBe(kids[1]);
    const wrong = { username: ADA.username, password: "not the password" };
    await second.password(wrong);
    expect((await second.password(ADA)).headers.has("retry-after")).toBe(true);
    expect((await first.password(ADA)).status).toBe(200);
    await one.service.clients.disable("news");
    expect((await second.password(ADA)).body["error"]).toBe("invalid_grant");
    expect((await second.refresh(theirs.refresh_token)).status).toBe(200);
  });

  it("close independently", async () => {
    await other.close();
    const news = clientAt(one, "oauth2", NEWS);
    expect((await news.userinfo((await news.signIn(ADA)).access_token)).status).toBe(200);
    const closed = await send(`${otherBase}/oauth2/authorize?client_id=news&response_type=code`);
    expect([closed.status, closed.body["error"]]).toEqual([503, "temporarily_unavailable"]);
  });
});

/** Sends requests to one of the processes. */
const to =
  (port: number): Send =>
  (url, init) =>
    fetch(Object.assign(new URL(url), { hostname: "127.0.0.1", port: String(port) }), init);

describe("several processes that start together on a new database", () => {
  const BASE = "http://localhost:4001";

  it("agree on schema and keys, and serve each other's sign-ins", async () => {
    const storage = `sqlite:${join(folder, "sign-in.db")}`;
    const deployments = { oauth2: { url: BASE }, openid: { url: `${BASE}/openid` } };
    const { ports, end } = await startProcesses(3, { storage, deployments });
    ends.push(end);
    const [a = 0, b = 0, c = 0] = ports;
    const keys = await Promise.all(ports.map((port) => to(port)(new URL(`${BASE}/openid/oauth2/jwks`), {})));
    const texts = await Promise.all(keys.map((answer) => answer.text()));
    expect(texts[0]).toContain('"kid"');
    expect(new Set(texts).size).toBe(1);
    // A fourth service, in this process, registers what the others use immediately.
    const service = await begin({
      storage,
      deployments,
    });
    await applySeed(service, { services: { 1: { name: "News" } }, clients: [NEWS], accounts: [ACCOUNT] });
    let port = a;
    const stopAt = [...NEWS.redirect_uris];
    const browser = new Browser({ stopAt, send: (url, init) => to(port)(url, init) });
    const news = clientAt({ oauth2: BASE, openid: `${BASE}/openid` }, "openid", NEWS);
    await browser.get(news.authorizeUrl({ scope: "openid" }));
    port = b;
    await browser.submit(browser.form("password"), ACCOUNT);
    const code = browser.location?.searchParams.get("code") ?? "";
    port = c;
    expect(await signedIn(news, browser)).toBe(true);
    const exchanged = await to(c)(new URL(`${BASE}/openid/oauth2/token`), {
      method: "POST",
      headers: { authorization: basic(NEWS) },
      body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: news.redirect_uri }),
    });
    const { access_token } = (await exchanged.json()) as { access_token: string };
    const headers = { authorization: `Bearer ${access_token}` };
    const userinfo = await to(a)(new URL(`${BASE}/resources/userinfo?client_id=news`), { headers });
    expect(await userinfo.json()).toMatchObject({ email: ADA.email });
    expect(await end()).toEqual([0, 0, 0]);
  });
});
