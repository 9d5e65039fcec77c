/** More time for a sign-in (WCAG 2.2.1): near its end, ten times, and without making what was shown count for longer. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { tagsNamed } from "../../testing/browser/html.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { type JsonAnswer, JsonVisitor } from "../interactions/json-visitor.ts";
import { type SelfService, startSelfService, TERMS } from "../interactions/self-service.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { ADA, BOB, NEWS, PARTNER } from "./running-service.ts";

const LIFETIME = 3_600;
const MORE = "Give me more time";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const ada = { username: ADA.username, password: ADA.password };
const bob = { username: BOB.username, password: BOB.password };

let clock: TestClock;
let running: SelfService;
let news: TestClient;

beforeEach(async () => {
  // Whole seconds, as in what is stored.
  clock = new TestClock(Math.floor(Date.now() / 1_000) * 1_000);
  running = await startSelfService({ registration: { fields: {}, terms: TERMS } }, { config: { clock } });
  news = clientAt(running, "oauth2", NEWS);
});

async function begin(party = news): Promise<{ visitor: JsonVisitor; login: JsonAnswer["body"] }> {
  const visitor = new JsonVisitor(party.browser());
  return { visitor, login: (await visitor.open(party.authorizeUrl())).body };
}

const hrefOf = ({ actions }: JsonAnswer["body"]): string => `${actions[0]?.href}?action=more-time`;

/** Asks for more time, whether it is offered or not. */
const ask = (
  visitor: JsonVisitor,
  step: JsonAnswer["body"],
  changes: Readonly<Record<string, string>> = {},
) => visitor.post(hrefOf(step), { csrf: step.csrf, ...changes });

const offers = ({ body }: JsonAnswer): boolean => body.actions.some(({ name }) => name === "more-time");

describe("the page", () => {
  it("has the notice and its button in the last five minutes, works without scripts, and the sign-in can be finished", async () => {
    const browser = await news.browser().get(news.authorizeUrl());
    const buttons = (): readonly string[] => tagsNamed(browser.html, "button").map(({ text }) => text);
    // The script shows it, and makes the button.
    expect(browser.html).toContain(`<div class="foot" data-after="3300" data-more="${MORE}" hidden>`);
    expect(buttons()).not.toContain(MORE);
    clock.advance(LIFETIME - 301);
    await browser.get(browser.url.href);
    expect(browser.html).toContain(`data-after="60" data-more="${MORE}" hidden`);
    expect(buttons()).not.toContain(MORE);
    clock.advance(1);
    await browser.get(browser.url.href);
    expect(browser.html).toContain('<div class="foot" data-after="0">');
    const button = tagsNamed(browser.html, "button").find(({ text }) => text === MORE);
    expect(Object.fromEntries(button?.attributes ?? [])).toEqual({
      type: "submit",
      class: "plain",
      form: "step",
      name: "action",
      value: "more-time",
    });
    expect(browser.html).toContain('<form id="step" method="post"');
    clock.advance(299);
    await browser.submit(browser.form("password"), {
      username: ADA.username,
      password: "half a passwo",
      action: "more-time",
    });
    expect(browser.status).toBe(200);
    // What was typed stays, except for the password; the notice waits again.
    expect(browser.html).toContain(`value="${ADA.username}"`);
    expect(browser.html).not.toContain("half a passwo");
    expect(browser.html).toContain('data-after="3300" data-more=');
    clock.advance(LIFETIME - 10);
    await browser.get(browser.url.href);
    await signIn(browser, ADA);
    await browser.submit(browser.forms()[0], { terms: TERMS.version });
    expect(browser.location?.searchParams.get("code")).toMatch(/^[\w-]{43}$/);
  });

  it("offers it at consent, too, and the person can then allow", async () => {
    const partner = clientAt(running, "openid", PARTNER);
    const browser = await partner.browser().get(partner.authorizeUrl());
    await signIn(browser, BOB);
    await browser.submit(browser.forms()[0], { terms: TERMS.version });
    clock.advance(LIFETIME - 10);
    await browser.get(browser.url.href);
    await browser.submit(browser.form("csrf"), { action: "more-time" });
    expect(browser.status).toBe(200);
    clock.advance(LIFETIME - 10);
    await browser.submit(browser.form("csrf"), { decision: "allow" });
    expect(browser.location?.searchParams.get("code")).toMatch(/^[\w-]{43}$/);
  });
});

describe("more time", () => {
  it("gives the full time again, ten times and not once more, and renews the two cookies", async () => {
    const { visitor, login } = await begin();
    expect(offers(await visitor.get())).toBe(false);
    // Not in the last second: cookies end by the system's clock.
    for (let times = 1; times <= 10; times += 1) {
      clock.advance(LIFETIME - 10);
      const late = await visitor.get();
      expect([times, offers(late), late.body.expires_in]).toEqual([times, true, 10]);
      const answer = await visitor.act(late.body, "more-time");
      expect([answer.status, answer.body.expires_in, offers(answer)]).toEqual([200, LIFETIME, false]);
      const renewed = answer.headers.getSetCookie().filter((line) => /_(?:interaction|resume)_/.test(line));
      // Each with its signature, and once.
      expect(renewed).toHaveLength(4);
      for (const line of renewed) {
        expect(line).toMatch(/; path=\/[\w/]*\/[\w-]+; /);
        expect(line).toMatch(/; httponly/i);
        expect(line).toMatch(/; samesite=lax/i);
        // Koa writes them by the system's clock, and the browser of the test reads them by that.
        const end = Date.parse(/; expires=([^;]*)/i.exec(line)?.[1] ?? "");
        expect(Math.abs(end - Date.now() - LIFETIME * 1_000)).toBeLessThan(60_000);
      }
    }
    clock.advance(LIFETIME - 10);
    const last = await visitor.get();
    expect([offers(last), last.body.expires_in]).toEqual([false, 10]);
    expect((await ask(visitor, login)).status).toBe(400);
    expect((await visitor.get()).body.expires_in).toBe(10);
    clock.advance(10);
    expect((await ask(visitor, login)).status).toBe(410);
  });

  it("changes nothing before the last five minutes, and sets no cookie", async () => {
    const { visitor, login } = await begin();
    clock.advance(LIFETIME - 301);
    const answer = await ask(visitor, login);
    expect([answer.status, answer.body.expires_in]).toEqual([200, 301]);
    expect(answer.headers.getSetCookie()).toEqual([]);
    expect((await visitor.get()).body.expires_in).toBe(301);
  });

  it("refuses a form of nobody, of another sign-in, of another browser and of another site", async () => {
    const [mine, other] = [await begin(), await begin()];
    clock.advance(LIFETIME - 10);
    const { login, visitor } = mine;
    expect((await ask(visitor, login, { csrf: "" })).status).toBe(403);
    expect((await ask(visitor, login, { csrf: other.login.csrf })).status).toBe(403);
    expect((await ask(other.visitor, login)).status).toBe(410);
    const headers = { origin: "https://evil.example" };
    expect((await visitor.post(hrefOf(login), { csrf: login.csrf }, { headers })).status).toBe(403);
    const { browser } = visitor;
    for (const sent of [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }]) {
      const address = new URL(login.actions[0]?.href ?? "", browser.url);
      const response = await fetch(address, {
        method: "POST",
        headers: {
          cookie: browser.jar.header(address),
          "content-type": "application/x-www-form-urlencoded",
          ...sent,
        },
        body: new URLSearchParams({ csrf: login.csrf, action: "more-time" }),
      });
      expect(response.status).toBe(403);
    }
    expect((await visitor.get()).body.expires_in).toBe(10);
    expect((await other.visitor.get()).body.expires_in).toBe(10);
  });

  it("is not for a sign-in that has expired, or is complete", async () => {
    const { visitor, login } = await begin();
    clock.advance(LIFETIME);
    expect((await ask(visitor, login)).status).toBe(410);
    const complete = await begin();
    const { body: terms } = await complete.visitor.act(complete.login, "submit", ada);
    clock.advance(LIFETIME - 10);
    const { body: done } = await complete.visitor.act(terms, "submit", { terms: TERMS.version });
    expect(done).toMatchObject({ done: true });
    // The browser has not followed the redirect yet.
    expect((await ask(complete.visitor, complete.login)).status).toBe(400);
    await complete.visitor.browser.get(done.location ?? "");
    expect((await ask(complete.visitor, complete.login)).status).toBe(410);
  });

  it("counts once for two requests at the same moment", async () => {
    const { visitor, login } = await begin();
    clock.advance(LIFETIME - 10);
    const both = await Promise.all([ask(visitor, login), ask(visitor, login), ask(visitor, login)]);
    expect(both.map(({ status }) => status)).toEqual([200, 200, 200]);
    for (let times = 2; times <= 10; times += 1) {
      clock.advance(LIFETIME - 10);
      expect((await visitor.act((await visitor.get()).body, "more-time")).body.expires_in).toBe(LIFETIME);
    }
    clock.advance(LIFETIME - 10);
    expect(offers(await visitor.get())).toBe(false);
  });

  it("and a step at the same moment don't undo each other", async () => {
    await running.service.accounts.addApp(running.ada.sub, { secret: SECRET });
    for (let round = 0; round < 5; round += 1) {
      const { visitor, login } = await begin();
      clock.advance(LIFETIME - 10);
      const [more, entered] = await Promise.all([ask(visitor, login), visitor.act(login, "submit", ada)]);
      expect([more.status, entered.body.step]).toEqual([200, "second-factor"]);
      const { body } = await visitor.get();
      expect(body.step).toBe("second-factor");
      expect([10, LIFETIME]).toContain(body.expires_in);
    }
  });
});

describe("what was shown", () => {
  it("of a password counts for five minutes, however much time there is", async () => {
    await running.service.accounts.addApp(running.ada.sub, { secret: SECRET });
    const { visitor, login } = await begin();
    clock.advance(LIFETIME - 200);
    const { body: factor } = await visitor.act(login, "submit", ada);
    expect(factor.step).toBe("second-factor");
    expect((await visitor.act(factor, "more-time")).body.expires_in).toBe(LIFETIME);
    clock.advance(300);
    const { body } = await visitor.act(factor, "submit", { code: totpCode(SECRET, clock.now()) });
    expect([body.step, body.notice?.code]).toEqual(["login", "begin-anew"]);
  });

  it("before the terms are accepted counts for the time of one sign-in", async () => {
    for (const [seconds, next] of [
      [LIFETIME, "login"],
      [LIFETIME - 1, undefined],
    ] as const) {
      const { visitor, login } = await begin();
      clock.advance(LIFETIME - 200);
      const { body: terms } = await visitor.act(login, "submit", bob);
      expect(terms.step).toBe("terms");
      await visitor.act(terms, "more-time");
      clock.advance(LIFETIME - 100);
      await visitor.act((await visitor.get()).body, "more-time");
      clock.advance(seconds - (LIFETIME - 100));
      const { body } = await visitor.act(terms, "submit", { terms: TERMS.version });
      expect([body.step, body.done]).toEqual([next, next === undefined ? true : undefined]);
    }
  });
});
