/** How long sessions last: `lifetimes.session` and `lifetimes.sessionMax`. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { type StorageConfig } from "../servers/storage.ts";
import { readTokens, type TestClient } from "../../testing/test-client.ts";
import { clientAt, signedIn, signIn } from "./clients.ts";
import {
  ADA,
  NEWS,
  OPERATOR,
  PARTNER,
  type RunningService,
  startService,
  storageIn,
} from "./running-service.ts";
import { newFolder } from "../closing.ts";

const KINDS = ["oauth2", "openid"] as const;
const DAY = 86_400;

let clock: TestClock;
let running: RunningService;
let folder: string;
beforeEach(async () => {
  clock = new TestClock();
  folder = newFolder();
});

async function start(
  lifetimes: NonNullable<SignInServiceConfig["lifetimes"]> = {},
  { kept = {}, port }: { readonly kept?: Partial<StorageConfig>; readonly port?: number } = {},
): Promise<void> {
  running = await startService({
    config: { ...kept, clock, lifetimes, operators: { [OPERATOR.sub]: "administrator" } },
    ...(port !== undefined && { port }),
  });
}

/** A browser that keeps expired cookies, so that only the service decides. */
function keepsCookies(party: TestClient): Browser {
  return party.browser({ now: () => 0 });
}

describe.each(KINDS)("a session that began at %s", (kind) => {
  const other = kind === "oauth2" ? "openid" : "oauth2";

  it("ends 90 days after the sign-in on both deployments, however much it is used [D-ACCOUNT-17]", async () => {
    await start();
    const [here, there] = [clientAt(running, kind, NEWS), clientAt(running, other, NEWS)];
    const browser = keepsCookies(here);
    await here.authorize({ ...ADA, browser });
    for (let day = 10; day <= 80; day += 10) {
      clock.advance(10 * DAY);
      expect([day, await (day % 20 === 0 ? here : there).silently(browser)]).toEqual([day, "code"]);
    }
    clock.advance(10 * DAY - 1);
    expect(await here.silently(browser)).toBe("code");
    expect(await there.silently(browser)).toBe("code");
    clock.advance(1);
    expect(await here.silently(browser)).toBe("login_required");
    expect(await there.silently(browser)).toBe("login_required");
    await browser.get(there.authorizeUrl());
    expect(browser.hasForm("password")).toBe(true);
  });

  it("ends 14 days after its last use on both deployments [D-ACCOUNT-17]", async () => {
    await start();
    const [here, there] = [clientAt(running, kind, NEWS), clientAt(running, other, NEWS)];
    const browser = keepsCookies(here);
    await here.authorize({ ...ADA, browser });
    clock.advance(14 * DAY - 1);
    expect(await there.silently(browser)).toBe("code");
    clock.advance(14 * DAY - 1);
    expect(await here.silently(browser)).toBe("code");
    clock.advance(14 * DAY);
    expect(await there.silently(browser)).toBe("login_required");
    expect(await here.silently(browser)).toBe("login_required");
  });

  it("starts again when the user signs in with prompt=login [D-ACCOUNT-17]", async () => {
    await start({ session: 100, sessionMax: 60 });
    const here = clientAt(running, kind, NEWS);
    const browser = keepsCookies(here);
    await here.authorize({ ...ADA, browser });
    clock.advance(59);
    await here.authorize({ ...ADA, browser }, { prompt: "login" });
    clock.advance(59);
    expect(await here.silently(browser)).toBe("code");
    clock.advance(1);
    expect(await here.silently(browser)).toBe("login_required");
  });

  it("is not extended by a form that is not submitted", async () => {
    await start({ session: 100, sessionMax: 60 });
    const here = clientAt(running, kind, NEWS);
    const browser = keepsCookies(here);
    await here.authorize({ ...ADA, browser });
    clock.advance(30);
    await browser.get(here.authorizeUrl({ prompt: "login" }));
    expect(browser.hasForm("password")).toBe(true);
    clock.advance(30);
    expect(await here.silently(browser)).toBe("login_required");
  });

  it("opens neither the account page nor the delivery console after its end [D-ACCOUNT-17]", async () => {
    await start({ session: 100, sessionMax: 60 });
    await running.service.accounts.import(OPERATOR);
    const browser = await signedIn(running[kind], OPERATOR);
    const form = {
      method: "POST",
      action: new URL(`${running[kind]}/account/deliveries`),
      fields: [],
      buttons: [],
    } as const;
    clock.advance(59);
    for (const path of ["/account", "/account/deliveries"]) {
      expect((await browser.getOnly(running[kind] + path)).status).toBe(200);
    }
    clock.advance(1);
    for (const path of ["/account", "/account/deliveries"]) {
      await browser.get(running[kind] + path);
      expect([browser.visits[0]?.status, browser.hasForm("password")]).toEqual([303, true]);
    }
    await browser.submit(form);
    expect([browser.visits[0]?.status, browser.hasForm("password")]).toEqual([303, true]);
  });
});

it("an ended session needs no confirmation to sign out [D-ACCOUNT-17]", async () => {
  await start({ session: 100, sessionMax: 60 });
  const party = clientAt(running, "openid", NEWS);
  const browser = keepsCookies(party);
  await party.authorize({ ...ADA, browser });
  await browser.get(`${running.openid}/oauth2/logout`);
  const question = browser.form("logout");
  clock.advance(60);
  await browser.submit(question, { logout: "yes" });
  expect([browser.status, browser.location]).toEqual([400, undefined]);
  await browser.get(`${running.openid}/oauth2/logout`);
  expect([browser.status, browser.url.pathname]).toEqual([200, "/openid/oauth2/logout/success"]);
});

it("a consent after the end of the session starts again, and nothing is remembered [D-ACCOUNT-17]", async () => {
  await start({ session: 100, sessionMax: 60 });
  for (const choice of ["allow", "deny"]) {
    const party = clientAt(running, "openid", PARTNER);
    const browser = keepsCookies(party);
    await browser.get(party.authorizeUrl({ scope: "openid" }));
    await signIn(browser);
    const form = browser.form("decision");
    clock.advance(60);
    await browser.submit(form, { decision: choice });
    expect([choice, browser.status, browser.location]).toEqual([choice, 400, undefined]);
    expect(await party.silently(browser)).toBe("login_required");
  }
  const party = clientAt(running, "openid", PARTNER);
  const browser = keepsCookies(party);
  await browser.get(party.authorizeUrl({ scope: "openid" }));
  await signIn(browser);
  expect(browser.hasForm("decision")).toBe(true);
});

it("the cookie and the record end with the session", async () => {
  await start({ session: 100, sessionMax: 130 });
  const party = clientAt(running, "oauth2", NEWS);
  const browser = keepsCookies(party);
  const from = Math.floor(clock.now() / 1000);
  await party.authorize({ ...ADA, browser });
  for (const [age, end] of [
    [20, 120],
    [40, 130],
    [129, 130],
  ] as const) {
    clock.advance(from + age - Math.floor(clock.now() / 1000));
    expect([age, await party.silently(browser)]).toEqual([age, "code"]);
    const cookies = browser.headers.getSetCookie().filter((cookie) => cookie.includes("sis_session"));
    expect(cookies).toHaveLength(2);
    for (const cookie of cookies)
      expect(cookie).toContain(`expires=${new Date((from + end) * 1000).toUTCString()}`);
    const id = /=([^;]+)/.exec(cookies[0] ?? "")?.[1] ?? "";
    expect((await running.service.provider.Session.find(id))?.exp).toBe(from + end);
  }
});

it("the current maximum applies to sessions from before a change", async () => {
  const kept = await storageIn(folder);
  await start({ sessionMax: 1000 }, { kept });
  const before = clientAt(running, "oauth2", NEWS);
  const browser = keepsCookies(before);
  await before.authorize({ ...ADA, browser });
  const port = Number(new URL(running.origin).port);
  await running.close();
  await start({ sessionMax: 60 }, { kept, port });
  const party = clientAt(running, "oauth2", NEWS);
  clock.advance(59);
  expect(await party.silently(browser)).toBe("code");
  clock.advance(1);
  expect(await party.silently(browser)).toBe("login_required");
  await browser.get(`${running.oauth2}/account`);
  expect(browser.visits[0]?.status).toBe(303);
});

it("tokens outlive their session", async () => {
  await start({ session: 100, sessionMax: 60 });
  const party = clientAt(running, "openid", NEWS);
  const tokens = await party.signIn(ADA, { scope: "openid" });
  clock.advance(60);
  expect((await party.userinfo(tokens.access_token)).status).toBe(200);
  expect(readTokens(await party.refresh(tokens.refresh_token)).access_token).not.toBe("");
});
