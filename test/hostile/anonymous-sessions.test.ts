/** Anonymous requests can't fill the storage with sessions. */
import { afterEach, describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { type Answer, type RelyingParty, relyingParty, send } from "../flows/relying-party.ts";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";

let running: RunningService;
let news: RelyingParty;

/** @param points for new interactions from one address. */
async function start(points: number): Promise<void> {
  running = await startService({ config: { rateLimits: { interactions: { points, seconds: 900 } } } });
  news = relyingParty(running, "oauth2", NEWS);
}

afterEach(() => running.close());

const logout = (cookie: string): Promise<Answer> =>
  send(`${running.openid}/oauth2/logout`, { headers: cookie === "" ? {} : { cookie } });
const cookieOf = (browser: Browser): string => browser.jar.header(new URL(news.base));

/** A cookie that the service has signed, of a session that is over. */
async function ended(): Promise<string> {
  const browser = news.browser();
  await news.code({}, ADA, browser);
  const before = cookieOf(browser);
  await running.service.accounts.endSessions(running.ada.sub);
  return before;
}

describe("anonymous sessions", () => {
  it.each<[string, () => Promise<string>]>([
    ["no cookie", async () => ""],
    ["a cookie that is made up", async () => (await ended()).replaceAll(/=[^;]*/g, "=made-up")],
    ["the cookie of a session that is over", ended],
  ])("are limited at the logout endpoint like new sign-ins: with %s [D-TOKEN-21]", async (_what, made) => {
    await start(5);
    const cookie = await made();
    const left = cookie === "" ? 5 : 4;
    const statuses: number[] = [];
    for (let count = 0; count <= left; count += 1) statuses.push((await logout(cookie)).status);
    expect(statuses).toEqual([...Array<number>(left).fill(200), 429]);
    const refused = await logout(cookie);
    expect([refused.headers.getSetCookie(), refused.headers.has("retry-after")]).toEqual([[], true]);
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
    await news.code({}, ADA, browser);
    for (let count = 0; count < 3; count += 1) expect((await logout(cookieOf(browser))).status).toBe(200);
  });
});
