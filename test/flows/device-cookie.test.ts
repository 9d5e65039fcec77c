/** The device cookie gives a browser its own rate limit for its accounts. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { hash as hashBcrypt } from "@node-rs/bcrypt";
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { MailMessage } from "../../config/mail.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { codeIn, linkIn } from "../interactions/self-service.ts";
import type { TestClient, TestVisitor } from "../../testing/test-client.ts";
import { clientAt, signIn, viaProxy } from "./clients.ts";
import {
  ADA,
  BOB,
  NEWS,
  ONE_GUESS,
  type RunningOptions,
  type RunningService,
  startService,
} from "./running-service.ts";
import { newFolder } from "../closing.ts";

let running: RunningService;

async function start(
  config: Omit<SignInServiceConfig, "deployments"> = {},
  options: Omit<RunningOptions, "config"> = {},
): Promise<void> {
  running = await startService({
    ...options,
    config: { rateLimits: ONE_GUESS, ...config },
  });
}

const eight = ({ oauth2, openid }: Pick<RunningService, "oauth2" | "openid">): string =>
  createHash("sha256").update(`${oauth2} ${openid}`).digest("hex").slice(0, 8);

const party = (kind: "oauth2" | "openid" = "oauth2"): TestClient => clientAt(running, kind, NEWS);

/** Submits the login form without a session. @returns the status. */
async function submit(browser: Browser, person: TestVisitor, at: TestClient = party()): Promise<number> {
  for (const { name } of browser.jar.all()) if (name.includes("_session_")) browser.jar.clear(name);
  await browser.get(at.authorizeUrl());
  await signIn(browser, person);
  return browser.visits[0]!.status;
}

/** Another browser guesses until the account is locked. */
async function lock(username: string): Promise<void> {
  const stranger = party().browser();
  const guess = { username, password: "this is not the password" };
  while ((await submit(stranger, guess)) !== 429);
}

/** Whether the browser gets past a lock of the account. */
async function isKnown(browser: Browser, person: TestVisitor, at: TestClient = party()): Promise<boolean> {
  await lock(person.username);
  return (await submit(browser, person, at)) === 303;
}

const devices = (browser: Browser) => browser.jar.all().filter(({ name }) => name.includes("_device_"));

describe("a browser with thirty accounts", () => {
  it("has one device cookie for both deployments, and is known for the last five [D-COOKIES-1]", async () => {
    await start();
    const people = await Promise.all(
      Array.from({ length: 30 }, async (_, number) => {
        const person = { username: `person${number}`, password: `the password of person ${number}` };
        await running.service.accounts.create({ email: `${person.username}@example.com`, ...person });
        return person;
      }),
    );
    const browser = party().browser();
    const lengths = new Set<number>();
    for (const [number, person] of people.entries()) {
      const kind = number % 2 === 0 ? "oauth2" : "openid";
      expect(await submit(browser, person, party(kind))).toBe(303);
      const [device, ...others] = devices(browser);
      expect(others).toEqual([]);
      expect(device).toMatchObject({
        name: `sis_device_${eight(running)}`,
        path: "/",
        hostOnly: true,
        httpOnly: true,
        sameSite: "lax",
      });
      if (number >= 5) lengths.add(device?.value.length ?? 0);
      expect(browser.jar.header(new URL(`${running.openid}/oauth2/authorize`)).length).toBeLessThan(1_500);
    }
    expect(lengths.size).toBe(1);
    for (const person of people.slice(-5)) {
      expect([person.username, await isKnown(browser, person)]).toEqual([person.username, true]);
    }
    for (const person of people.slice(20, 25)) {
      expect([person.username, await isKnown(browser, person)]).toEqual([person.username, false]);
    }
  });
});

describe("a known browser", () => {
  it.each(["oauth2", "openid"] as const)(
    "is known at both deployments for 90 days after a sign-in at %s [D-COOKIES-1]",
    async (kind) => {
      await start();
      const [here, there] = [party(kind), party(kind === "oauth2" ? "openid" : "oauth2")];
      const browser = here.browser();
      await here.authorize({ ...ADA, browser });
      await browser.get(here.authorizeUrl({ prompt: "login" }));
      await signIn(browser);
      const set = browser.visits[0]?.headers.getSetCookie().filter((cookie) => cookie.includes("device"));
      expect(set).toEqual([expect.stringMatching(/; Path=\/; Max-Age=7776000; HttpOnly; SameSite=Lax$/)]);
      expect(await isKnown(browser, ADA, there)).toBe(true);
    },
  );

  it("is unknown after a new password, for that account only [D-COOKIES-2]", async () => {
    await start();
    const { accounts } = running.service;
    const browser = party().browser();
    for (const person of [ADA, BOB]) expect(await submit(browser, person)).toBe(303);
    const renewed = { username: ADA.username, password: "the new password of ada" };
    await accounts.setPassword(running.ada.sub, renewed.password);
    expect(await isKnown(browser, renewed)).toBe(false);
    expect(await isKnown(browser, BOB)).toBe(true);
  });

  it("is unknown after the same password is set again, until the next sign-in", async () => {
    await start({
      rateLimits: {
        ...ONE_GUESS,
        signIn: { ...ONE_GUESS.signIn, accountAndAddress: { points: 2, seconds: 900 } },
      },
    });
    const browser = party().browser();
    expect(await submit(browser, ADA)).toBe(303);
    await running.service.accounts.setPassword(running.ada.sub, ADA.password);
    // The account is not locked yet, so the browser can sign in and is known again.
    expect(await submit(browser, ADA)).toBe(303);
    expect(devices(browser)).toHaveLength(1);
    expect(await isKnown(browser, ADA)).toBe(true);
  });

  it("stays known after the end of sessions and tokens, and after a rehash [D-COOKIES-2]", async () => {
    await start();
    const { accounts } = running.service;
    const browser = party().browser();
    const weak = { username: "weak", password: "the password of somebody" };
    const password_hash = await hashBcrypt(weak.password, 4);
    await accounts.import({ email: "weak@example.com", username: weak.username, password_hash });
    const hashedAnew = new Promise<void>((resolve) => {
      running.service.events.on("account.changed", ({ action }) => {
        if (action === "account.rehashed") resolve();
      });
    });
    expect(await submit(browser, weak)).toBe(303);
    await hashedAnew;
    expect(await isKnown(browser, weak)).toBe(true);
    expect(await submit(browser, ADA)).toBe(303);
    await accounts.endSessions(running.ada.sub);
    await accounts.revokeTokens(running.ada.sub);
    await accounts.update(running.ada.sub, { email: "ada.lovelace@example.com", name: "Augusta" });
    expect(await isKnown(browser, ADA)).toBe(true);
  });
});

describe("a browser in which a reset was completed", () => {
  const NEW: TestVisitor = { username: ADA.username, password: "a lighthouse in the fog" };
  const AGENT = {
    "user-agent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0",
  };
  let mails: MailMessage[];

  beforeEach(async () => {
    mails = [];
    await start({ mail: async (message) => void mails.push(message) });
  });

  /** The newest mail with these words in its subject, once it is there. */
  async function mailAbout(words: RegExp): Promise<MailMessage> {
    for (;;) {
      const mail = mails.findLast(({ subject }) => words.test(subject));
      if (mail !== undefined) return mail;
      await setImmediate();
    }
  }

  it.each<[string, (browser: Browser, mail: MailMessage) => Promise<unknown>]>([
    [
      "the code",
      (browser, mail) => browser.submit(browser.form("code"), { code: codeIn(mail), password: NEW.password }),
    ],
    [
      "the link",
      async (browser, mail) => {
        await browser.get(linkIn(mail));
        await browser.submit(browser.form("password"), { password: NEW.password });
      },
    ],
  ])(
    "with %s gets past a lock of the account at the form, and is new elsewhere until it has signed in [D-GUESS-5]",
    async (_with, complete) => {
      const elsewhere = party().browser();
      expect(await submit(elsewhere, ADA)).toBe(303);
      const browser = party().browser({ headers: AGENT });
      await browser.get(party().authorizeUrl());
      await browser.click("Forgot password?");
      await browser.submit(browser.form("username"), { username: ADA.username });
      await complete(browser, await mailAbout(/Choose a new password/));
      await mailAbout(/password was changed/);
      // The browser that knew the old password is a stranger like any other.
      await lock(NEW.username);
      expect(await submit(elsewhere, NEW)).toBe(429);
      expect(await submit(browser, NEW)).toBe(303);
      // Its mail: the cookie of a reset says nothing about a sign-in.
      await mailAbout(/New sign-in/);
      mails = [];
      expect(await isKnown(browser, NEW)).toBe(true);
      await running.service.accounts.update(running.ada.sub, { email: "ada@example.net" });
      await mailAbout(/address was changed/);
      expect(mails.filter(({ subject }) => /New sign-in/.test(subject))).toEqual([]);
    },
  );
});

it("two services on one host have separate device cookies", async () => {
  await start();
  const other = await startService({ config: { rateLimits: ONE_GUESS } });
  const browser = party().browser();
  expect(await submit(browser, ADA)).toBe(303);
  // Cookies ignore ports, so this browser also sends those of the first service.
  expect(await submit(browser, ADA, clientAt(other, "oauth2", NEWS))).toBe(303);
  expect(devices(browser).map(({ name }) => name)).toEqual([
    `sis_device_${eight(running)}`,
    `sis_device_${eight(other)}`,
  ]);
  expect(await isKnown(browser, ADA)).toBe(true);
});

describe("on https", () => {
  const urls = { oauth2: "https://login.example.com", openid: "https://login.example.com/openid" };
  const deployments = { oauth2: { url: urls.oauth2 }, openid: { url: urls.openid } };
  let folder: string;
  beforeEach(async () => {
    folder = newFolder();
  });

  it.each([
    ["usually", {}, ""],
    ["also when the session is not", { domain: "example.com" }, ""],
    ["also with a prefix", { prefix: "own-" }, "own-"],
  ])(
    "the device cookie is bound to the host, %s [D-DEPLOY-13, D-COOKIES-1]",
    async (_when, cookies, prefix) => {
      const storage = `sqlite:${join(folder, "sign-in.db")}`;
      await start(
        { storage, proxy: true, cookies, interactions: { theme: { name: "Example" } } },
        { deployments: () => deployments },
      );
      const browser = party().browser({ send: viaProxy(running) });
      await party().authorize({ ...ADA, browser });
      expect(devices(browser)).toEqual([
        expect.objectContaining({
          name: `__Host-${prefix}sis_device_${eight(urls)}`,
          path: "/",
          hostOnly: true,
          httpOnly: true,
          secure: true,
        }),
      ]);
    },
  );
});
