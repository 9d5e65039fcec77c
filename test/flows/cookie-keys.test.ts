/** A rotation of `keys.cookies` does not affect users while the old key is kept. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { formOf, resultOf } from "../interactions/console-visitor.ts";
import type { StorageConfig } from "../servers/storage.ts";
import { send, type TestClient } from "../../testing/test-client.ts";
import { clientAt, signedIn, signIn, viaProxy } from "./clients.ts";
import {
  ADA,
  NEWS,
  ONE_GUESS,
  OPERATOR,
  PARTNER,
  type RunningOptions,
  type RunningService,
  startService,
  storageIn,
} from "./running-service.ts";
import { newFolder } from "../closing.ts";

const [OLD, FRESH] = [
  "the old key of the cookies, of 32 characters",
  "the fresh key of the cookies, of 32 and more",
];

let folder: string;
let kept: StorageConfig;
let running: RunningService;
let port: number | undefined;
beforeEach(async () => {
  folder = newFolder();
  kept = await storageIn(folder);
  port = undefined;
});

/** Starts the service with these keys; again at the same address, over the same storage. */
async function start(
  cookies: readonly string[],
  config: Omit<SignInServiceConfig, "deployments"> = {},
  options: Omit<RunningOptions, "config"> = {},
): Promise<void> {
  if (port !== undefined) await running.close();
  running = await startService({
    ...options,
    ...(port !== undefined && { port }),
    config: {
      ...kept,
      rateLimits: ONE_GUESS,
      operators: { [OPERATOR.sub]: "administrator" },
      ...config,
      keys: { ...kept.keys, cookies },
    },
  });
  port = Number(new URL(running.origin).port);
}

const party = (kind: "oauth2" | "openid", client = NEWS): TestClient => clientAt(running, kind, client);

const signatures = (browser: Browser) => browser.jar.all().filter(({ name }) => name.endsWith(".sig"));

describe.each(["oauth2", "openid"] as const)("with a new first key, at %s", (kind) => {
  it("an unfinished sign-in can be completed, including the consent page [D-COOKIES-3]", async () => {
    await start([OLD]);
    const browser = await party(kind, PARTNER)
      .browser()
      .get(party(kind, PARTNER).authorizeUrl({ state: "a b" }));
    await start([FRESH, OLD]);
    const before = signatures(browser).map(({ name, path }) => `${name} ${path}`);
    await browser.get(browser.url);
    expect(signatures(browser).map(({ name, path }) => `${name} ${path}`)).toEqual(before);
    await signIn(browser);
    expect(browser.hasForm("decision")).toBe(true);
    const consent = browser.form("decision");
    await start([`${FRESH} and fresher`, FRESH]);
    await browser.submit(consent, { decision: "allow" });
    expect(browser.location?.searchParams.get("state")).toBe("a b");
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("a form from before the change is accepted [D-COOKIES-3]", async () => {
    await start([OLD]);
    const browser = await party(kind).browser().get(party(kind).authorizeUrl());
    const form = browser.form("password");
    await start([FRESH, OLD]);
    await browser.submit(form, { username: ADA.username, password: ADA.password });
    expect(browser.visits[0]?.status).toBe(303);
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("a session continues, and is signed with the new key at its next use [D-COOKIES-3]", async () => {
    await start([OLD]);
    const browser = party(kind).browser();
    await party(kind).authorize({ ...ADA, browser });
    await start([FRESH, OLD]);
    await browser.getOnly(`${running[kind]}/account`);
    expect([browser.status, browser.headers.getSetCookie()]).toEqual([200, []]);
    expect(await party(kind).silently(browser)).toBe("code");
    await start([FRESH]);
    expect(await party(kind).silently(browser)).toBe("code");
    await browser.getOnly(`${running[kind]}/account`);
    expect(browser.status).toBe(200);
  });

  it("a browser stays known for its accounts [D-COOKIES-1, D-COOKIES-3]", async () => {
    await start([OLD]);
    const browser = party(kind).browser();
    await party(kind).authorize({ ...ADA, browser });
    await start([FRESH, OLD]);
    const stranger = await party(kind).browser().get(party(kind).authorizeUrl());
    const guess = { username: ADA.username, password: "this is not the password" };
    for (const status of [400, 429]) {
      await signIn(stranger, guess);
      expect(stranger.status).toBe(status);
    }
    await browser.get(party(kind).authorizeUrl({ prompt: "login" }));
    await signIn(browser);
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("a sign-in to the account pages leads to the requested page, and console forms are accepted [D-COOKIES-3]", async () => {
    await start([OLD]);
    await running.service.accounts.import(OPERATOR);
    const list = `${running[kind]}/account/deliveries`;
    const browser = await party(kind).browser().get(`${list}/receivers`);
    const receiver = { url: "https://receiver.example/", client_id: "r", client_secret: "the secret of it" };
    await running.service.directory.services.put("9", {
      name: "Notified",
      receiver: { ...receiver, types: ["PROFILE_CHANGED"] },
    });
    await start([FRESH, OLD]);
    await signIn(browser, OPERATOR);
    expect([browser.status, browser.url.href]).toEqual([200, `${list}/receivers`]);
    const form = formOf(browser, "pause", "service:9");
    await start([`${FRESH} and fresher`, FRESH]);
    await browser.submit(form);
    expect(browser.visits.map(({ status }) => status)).toEqual([303, 200]);
    const result = resultOf(browser);
    expect(result).toContain("service:9");
    // The result's URL was signed with a key that is now the older one.
    const { href } = browser.url;
    await start(["a key that came last of all, of 32 characters", `${FRESH} and fresher`, FRESH]);
    await browser.get(href);
    expect([browser.status, resultOf(browser)]).toEqual([200, result]);
  });

  it("cookies of a removed key are invalid", async () => {
    await start([OLD]);
    const [begun, known] = [party(kind).browser(), await signedIn(running[kind])];
    await begun.get(party(kind).authorizeUrl());
    const form = begun.form("password");
    await start([FRESH]);
    await begun.submit(form, { username: ADA.username, password: ADA.password });
    expect([begun.status, begun.location]).toEqual([400, undefined]);
    const response = await send(`${running[kind]}/account`, {
      headers: { cookie: known.jar.header(new URL(running[kind])) },
    });
    expect(response.status).toBe(303);
  });
});

it("a session with cookies.domain keeps one signature, and continues [D-COOKIES-3]", async () => {
  const urls = {
    oauth2: { url: "https://login.example.com" },
    openid: { url: "https://openid.example.com" },
  };
  const config = {
    proxy: true,
    cookies: { domain: "example.com" },
    interactions: { theme: { name: "Example" } },
  };
  const options = { deployments: () => urls };
  await start([OLD], config, options);
  const browser = party("oauth2").browser({ send: viaProxy(running) });
  await party("oauth2").authorize({ ...ADA, browser });
  await start([FRESH, OLD], config, options);
  for (let visit = 0; visit < 2; visit += 1) {
    await browser.getOnly("https://openid.example.com/account");
    expect([browser.status, browser.headers.getSetCookie()]).toEqual([200, []]);
  }
  expect(await party("openid").silently(browser)).toBe("code");
  const ofSession = browser.jar.all().filter(({ name }) => name.includes("_session_"));
  expect(ofSession.map(({ domain, expires }) => [domain, typeof expires])).toEqual(
    Array.from({ length: 2 }, () => ["example.com", "number"]),
  );
});
