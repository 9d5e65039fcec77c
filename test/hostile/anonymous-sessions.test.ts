/** Anonymous requests can't fill the storage with sessions. */
import { describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { send, type TestAnswer, type TestClient } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";

let running: RunningService;
let news: TestClient;

/** @param points for new interactions from one address. */
async function start(points: number): Promise<void> {
  running = await startService({
    config: { rateLimits: { interactions: { points, seconds: 900 } } },
  });
  await running.service.clients.update("news", { post_logout_redirect_uris: [AFTER] });
  news = clientAt(running, "oauth2", NEWS);
}

const AFTER = "http://127.0.0.1:4000/signed-out";

const logout = (cookie: string, parameters: Record<string, string> = {}): Promise<TestAnswer> =>
  send(`${running.openid}/oauth2/logout?${new URLSearchParams(parameters)}`, {
    headers: cookie === "" ? {} : { cookie },
  });
const cookieOf = (browser: Browser): string => browser.jar.header(new URL(news.base));

/** A cookie that the service has signed, of a session that is over. */
async function ended(): Promise<string> {
  const browser = news.browser();
  await news.code({ ...ADA, browser });
  const before = cookieOf(browser);
  await running.service.accounts.endSessions(running.ada.sub);
  return before;
}

describe("anonymous sessions", () => {
  it.each<[string, () => Promise<string>]>([
    ["no cookie", async () => ""],
    ["a cookie that is made up", async () => (await ended()).replaceAll(/=[^;]*/g, "=made-up")],
    ["the cookie of a session that is over", ended],
  ])("are not started by signing out, which goes on at once: with %s [D-STRANGER-8]", async (_what, made) => {
    await start(5);
    const cookie = await made();
    const points = (await running.storage.records.store.scan("rate-limit", undefined, 100)).records;
    for (const parameters of [
      {},
      { client_id: "news" },
      { client_id: "news", post_logout_redirect_uri: AFTER },
      { client_id: "news", post_logout_redirect_uri: AFTER, state: "a b&c" },
      { post_logout_redirect_uri: "https://evil.example/" },
    ] as Record<string, string>[]) {
      const { status, headers } = await logout(cookie, parameters);
      const address = parameters["client_id"] && parameters["post_logout_redirect_uri"];
      const state = parameters["state"] === undefined ? "" : "?state=a%20b%26c";
      expect([status, headers.get("location"), headers.getSetCookie()]).toEqual([
        303,
        address === undefined ? `${running.openid}/oauth2/logout/success` : `${AFTER}${state}`,
        [],
      ]);
    }
    const refused = { client_id: "news", post_logout_redirect_uri: "https://evil.example/" };
    expect(await logout(cookie, refused)).toMatchObject({ status: 400 });
    expect((await running.storage.records.store.scan("session", undefined, 100)).records).toEqual([]);
    expect((await running.storage.records.store.scan("rate-limit", undefined, 100)).records).toEqual(points);
  });

  it("are not started by a cookie of an ended session", async () => {
    await start(5);
    const headers = { cookie: await ended() };
    const { status, headers: answered } = await send(news.authorizeUrl({ prompt: "none" }), { headers });
    expect([status, answered.getSetCookie()]).toEqual([302, []]);
    expect(answered.get("location")).toContain("error=login_required");
  });

  it("use no points of signed-in users", async () => {
    await start(1);
    const browser = news.browser();
    await news.code({ ...ADA, browser });
    for (let count = 0; count < 3; count += 1) expect((await logout(cookieOf(browser))).status).toBe(200);
  });
});
