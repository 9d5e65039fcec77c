/** What people do on the pages of their account, over HTTP, on both deployments. */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { formOf } from "../interactions/console-visitor.ts";
import type { Account } from "../../accounts/operations/accounts.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { bodyOf, httpPeer, type Peer } from "../notifier/peers.ts";
import { newStorage } from "../servers/storage.ts";
import type { TestVisitor } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { NEWS, PARTNER, type RunningService, SHOP, startService } from "./running-service.ts";

const KINDS = ["oauth2", "openid"] as const;
const FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0";
const PHONE =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1";

const clock = new TestClock();
let running: RunningService;
let peer: Peer;
/** The bodies that receivers and back-channel addresses got, by path. */
const received: [path: string, body: string][] = [];
let people = 0;
let person: TestVisitor & { readonly sub: string };

beforeAll(async () => {
  peer = await httpPeer((request, response) => {
    void bodyOf(request).then((body) => {
      received.push([request.url ?? "", body]);
      return response.writeHead(200).end();
    });
  });
  running = await startService({
    config: {
      ...(await newStorage()),
      clock,
      notifications: { allowedReceivers: ["127.0.0.1"], worker: false },
    },
  });
  const { directory, clients } = running.service;
  const receiver = {
    url: `http://127.0.0.1:${peer.port}/news`,
    client_id: "r",
    client_secret: "s".repeat(32),
  };
  const types = ["DELETE_ACCOUNT", "UNASSINGED_FROM_SERVICE", "PROFILE_CHANGED"] as const;
  await directory.services.put("1", { name: "News", receiver: { ...receiver, types: [...types] } });
  await clients.update(NEWS.client_id, {
    backchannel_logout_uri: `http://127.0.0.1:${peer.port}/logout`,
  });
});
afterAll(async () => {
  expect(running.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  await running?.close();
  await peer?.close();
});
beforeEach(async () => {
  received.length = 0;
  people += 1;
  const username = `person${people}`;
  const password = `a password of ${people} own`;
  const { sub } = await running.service.accounts.create({
    email: `${username}@example.com`,
    username,
    name: "Ada",
    password,
  });
  person = { username, password, sub };
});

const account = async (): Promise<Account | undefined> => running.service.accounts.find(person.sub);

/** A browser of the person, on a page of the account. */
async function open(
  path = "",
  { kind = "openid", agent = FIREFOX }: { kind?: (typeof KINDS)[number]; agent?: string } = {},
): Promise<Browser> {
  const browser = new Browser({ headers: { "user-agent": agent }, stopAt: [NEWS.redirect_uris[0]!] });
  await browser.get(`${running[kind]}/account${path}`);
  return signIn(browser, person);
}

const pageText = ({ html }: Browser): string =>
  html
    .replace(/^[\s\S]*<main>/, "")
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ");

/** The path of the first request that the receiver gets: nobody waits for logout tokens. */
async function firstReceived(): Promise<string | undefined> {
  for (let tries = 0; received.length === 0 && tries < 4_000; tries += 1) await pause(10);
  return received[0]?.[0];
}

const notifications = async (): Promise<string[]> => {
  const { items } = await running.service.notifications.list({ account: person.sub });
  return items.map(({ type }) => type).toSorted();
};

const audited = async (): Promise<{ action: string; browser: string | null; address: string | null }[]> => {
  const { items: records } = await running.service.audit.list({ account: person.sub });
  return records.map(({ action, browser, address }) => ({ action, browser, address }));
};

describe.each(KINDS)("the pages of the account on %s", (kind) => {
  it("are reached from the first one, and lead back to it [D-SELF-1]", async () => {
    const browser = await open("", { kind });
    const beside = browser.html.replace(/<main>[\s\S]*/, "").replaceAll(/<[^>]+>/g, " ");
    expect(beside.replaceAll(/\s+/g, " ")).toContain(`A Ada ${person.username}@example.com Overview Profile`);
    expect(pageText(browser)).toContain(
      `Profile Ada · ${person.username} Password Choose a new password Sign-in methods Password Where you are signed in Only in this browser Connected services No services yet.`,
    );
    for (const link of [
      "Profile",
      "Password",
      "Where you are signed in",
      "Connected services",
      "Delete your account",
    ]) {
      await browser.get(`${running[kind]}/account`);
      await browser.click(link);
      expect(browser.status).toBe(200);
      expect(browser.url.href).toMatch(new RegExp(`^${running[kind]}/account/\\w+$`));
      expect(browser.headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(browser.headers.get("cache-control")).toBe("no-store");
      await browser.click("Your account");
      expect(browser.url.pathname).toMatch(/\/account$/);
    }
  });

  it("change the profile, with one notification, and say so once the change is stored", async () => {
    await running.service.accounts.assign(person.sub, "1");
    const browser = await open("/profile", { kind });
    await browser.submit(browser.form("surname"), {
      surname: " Lovelace ",
      date_of_birth: "1990-12-10",
      gender: "other",
      username: `${person.username}-new`,
    });
    expect([browser.status, browser.visits[0]?.status]).toEqual([200, 303]);
    expect(pageText(browser)).toContain("Your profile has been saved.");
    expect(await account()).toMatchObject({
      name: "Ada",
      surname: "Lovelace",
      date_of_birth: "1990-12-10",
      gender: "other",
      username: `${person.username}-new`,
    });
    expect(await notifications()).toEqual(["PROFILE_CHANGED"]);
    await browser.submit(browser.form("surname"), { name: "", date_of_birth: "" });
    expect(await account()).toMatchObject({ name: null, date_of_birth: null, surname: "Lovelace" });
    expect(await audited()).toContainEqual({
      action: "account.updated",
      browser: "Firefox",
      address: "127.0.0.0/24",
    });
  });

  it("sign out, with a logout token for each client [D-SELF-1]", async () => {
    const browser = await open("", { kind });
    await clientAt(running, "openid", NEWS).code({ ...person, browser }, { scope: "openid" });
    await browser.get(`${running[kind]}/account`);
    await browser.submit(browser.form("csrf"));
    expect([browser.title, browser.url.pathname]).toEqual([
      "You are signed out",
      `${new URL(running[kind]).pathname.replace(/\/$/, "")}/account/signed-out`,
    ]);
    expect(await firstReceived()).toBe("/logout");
    expect((await audited())[0]?.action).toBe("session.ended");
    await browser.get(`${running[kind]}/account`);
    expect(browser.title).toBe("Sign in");
  });

  it("delete the account, which is immediate and final, after naming those that will be notified [D-SELF-6]", async () => {
    await running.service.accounts.assign(person.sub, "1");
    await running.service.accounts.assign(person.sub, "2");
    const browser = await open("/delete", { kind });
    expect(pageText(browser)).toMatch(/These services will be notified .* News /);
    expect(pageText(browser)).not.toContain("Shop");
    const form = browser.form("csrf");
    await browser.submit(form);
    expect([browser.status, browser.title]).toEqual([200, "Your account has been deleted"]);
    expect(await account()).toBeUndefined();
    expect(await notifications()).toEqual(["DELETE_ACCOUNT"]);
    await browser.get(`${running[kind]}/account`);
    expect(browser.title).toBe("Sign in");
    await signIn(browser, person);
    expect(browser.status).toBe(400);
  });
});

describe("the language", () => {
  it("of the profile is that of the pages, before Accept-Language; an earlier choice in this browser ends [D-LOCALE-1, D-LOCALE-2]", async () => {
    const browser = await open("/profile?lang=en");
    await browser.submit(browser.form("locale"), { locale: "pl" });
    expect(browser.title).toBe("Profil");
    expect((await account())?.locale).toBe("pl");
    expect(await notifications()).toEqual([]);
    const other = await open();
    expect(other.title).toBe("Twoje konto");
    await other.get("?lang=en");
    expect(other.title).toBe("Your account");
    await browser.submit(browser.form("locale"), { locale: "" });
    expect([browser.title, (await account())?.locale]).toEqual(["Profile", null]);
  });

  it("is that of consent and of asking for the password again, too, unless the client asks for one [D-LOCALE-2]", async () => {
    await running.service.accounts.update(person.sub, { locale: "pl" });
    const partner = clientAt(running, "openid", PARTNER);
    const visitor = partner.browser();
    await visitor.get(partner.authorizeUrl({ scope: "openid" }));
    expect(visitor.html).toContain('<html lang="en"');
    await signIn(visitor, person);
    expect(visitor.html).toContain('<html lang="pl"');
    await visitor.get(partner.authorizeUrl({ scope: "openid", ui_locales: "en" }));
    expect(visitor.html).toContain('<html lang="en"');
    clock.advance(301);
    await visitor.get(`${running.openid}/account/delete`);
    expect([visitor.hasForm("password"), visitor.html.includes('<html lang="pl"')]).toEqual([true, true]);
  });

  it("that is not one of ours stays until the person chooses another one", async () => {
    await running.service.accounts.update(person.sub, { locale: "de", gender: "anything" });
    const browser = await open("/profile");
    await browser.submit(browser.form("locale"), { surname: "X" });
    expect(await account()).toMatchObject({ locale: "de", gender: "anything", surname: "X" });
  });
});

describe("a recent sign-in", () => {
  it.each(["/password", "/delete"])("is needed for %s, and asked for in place [D-SELF-3]", async (path) => {
    const browser = await open(path);
    expect(browser.url.pathname).toBe(`/openid/account${path}`);
    const form = browser.form("csrf");
    clock.advance(299);
    await browser.get("");
    expect(browser.visits.map(({ status }) => status)).toEqual([200]);
    clock.advance(2);
    await browser.submit(form, { password: "a whole new password" });
    expect(browser.url.pathname).toMatch(/\/interaction\//);
    expect(pageText(browser)).toContain(`You are signed in as ${person.username}@example.com.`);
    expect([browser.hasForm("password"), browser.hasForm("username")]).toEqual([true, false]);
    expect(await running.service.accounts.verifyPassword(person.sub, person.password)).toBe(true);
    await signIn(browser, { ...person, password: "wrong password" });
    expect(browser.status).toBe(400);
    await signIn(browser, person);
    expect([browser.status, browser.url.pathname]).toEqual([200, `/openid/account${path}`]);
  });

  it("is not needed for the other pages", async () => {
    const browser = await open();
    clock.advance(3_600);
    for (const path of ["/profile", "/sessions", "/services"]) {
      await browser.get(`${running.openid}/account${path}`);
      expect([browser.status, browser.visits.length]).toEqual([200, 1]);
    }
  });
});

describe("when the password was changed", () => {
  it("is not said of a new account, but after a change", async () => {
    const browser = await open();
    expect(pageText(browser)).not.toContain("Changed");
    await browser.get(`${running.openid}/account/sign-in-methods`);
    expect(pageText(browser)).toContain("You have a password.");
    const next = "a whole new password";
    await browser.get(`${running.openid}/account/password`);
    await browser.submit(browser.form("password"), { password: next });
    await browser.get(`${running.openid}/account`);
    expect(pageText(browser)).toContain("Password Changed now");
  });
});

describe("the password", () => {
  it("changes; this session stays, and everything else of the account ends [D-ACCOUNT-7]", async () => {
    const news = clientAt(running, "openid", NEWS);
    const other = await open("", { agent: PHONE });
    const tokens = await news.exchange(await news.code({ ...person, browser: other }));
    const browser = await open("/password");
    const knownBefore = browser.jar.all().find(({ name }) => name.includes("_device_"));
    const password = "a whole new password";
    await browser.submit(browser.form("password"), { password });
    expect(pageText(browser)).toContain("Your password has been changed.");
    expect(await running.service.accounts.verifyPassword(person.sub, password)).toBe(true);
    await browser.get(`${running.oauth2}/account/sessions`);
    expect([browser.status, browser.visits.length]).toEqual([200, 1]);
    expect(pageText(browser)).toContain("You are not signed in anywhere else.");
    const device = browser.jar.all().find(({ name }) => name.includes("_device_"));
    expect(device?.value).not.toBe(knownBefore?.value);
    expect((await news.userinfo(String(tokens.body["access_token"]))).status).toBe(400);
    await other.get(`${running.oauth2}/account`);
    expect(other.title).toBe("Sign in");
  });

  it.each([
    ["", /Use at least 8 characters/],
    ["short", /Use at least 8 characters/],
    ["x".repeat(10_000), /Use at most 128 characters/],
    ["password1", /most common passwords/],
    ["person0@example.com", undefined],
  ])("is not changed to %j when a rule refuses it", async (typed, text) => {
    const browser = await open("/password");
    const password = text === undefined ? `${person.username}@example.com` : typed;
    await browser.submit(browser.form("password"), { password });
    expect([browser.status, browser.title]).toEqual([400, "Password"]);
    expect(pageText(browser)).toMatch(text ?? /not your name/);
    expect(browser.html).not.toContain(`value="${password}"`);
    expect(await running.service.accounts.verifyPassword(person.sub, person.password)).toBe(true);
  });
});

describe("the sessions", () => {
  it("show browser, system, network and use; this one is marked; one is ended with a logout token, and tokens stay [D-SELF-4]", async () => {
    const news = clientAt(running, "openid", NEWS);
    const phone = await open("", { agent: PHONE });
    const tokens = await news.exchange(await news.code({ ...person, browser: phone }, { scope: "openid" }));
    clock.advance(7_200);
    const browser = await open("/sessions");
    expect(pageText(browser)).toMatch(
      /Firefox on Windows This browser .* Safari on iPhone Last used 2 hours ago On this network First used 2 hours ago Sign out/,
    );
    // Addresses tell people nothing.
    expect(browser.html).not.toContain("127.0.0.");
    await browser.submit(browser.form("session"));
    expect(pageText(browser)).toContain("That device has been signed out.");
    expect(pageText(browser)).not.toContain("iPhone");
    expect(await firstReceived()).toBe("/logout");
    expect(await audited()).toContainEqual({
      action: "session.ended",
      browser: "Firefox",
      address: "127.0.0.0/24",
    });
    await phone.get(`${running.openid}/account`);
    expect(phone.title).toBe("Sign in");
    expect((await news.userinfo(String(tokens.body["access_token"]))).status).toBe(200);
  });

  it("end all but this one [D-SELF-4]", async () => {
    const others = [await open("", { agent: PHONE }), await open("", { agent: "curl" })];
    const browser = await open("/sessions");
    await browser.submit(formOf(browser, "others"));
    expect(pageText(browser)).toContain("You are signed out everywhere but here.");
    expect(pageText(browser)).toContain("You are not signed in anywhere else.");
    for (const other of others) {
      await other.get(`${running.oauth2}/account`);
      expect(other.title).toBe("Sign in");
    }
    await browser.get(`${running.oauth2}/account/profile`);
    expect([browser.status, browser.visits.length]).toEqual([200, 1]);
  });

  it("of somebody else can't be ended", async () => {
    const victim = await new Browser().get(`${running.openid}/account/sessions`);
    await signIn(victim, { username: "ada", password: "the password of ada" });
    const { items: records } = await running.service.audit.list({ account: running.ada.sub });
    expect(records.length).toBeGreaterThan(0);
    const theirs = await open("/sessions", { agent: PHONE });
    const browser = await open("/sessions");
    const form = browser.form("session");
    const bobs = await new Browser().get(`${running.openid}/account/sessions`);
    await signIn(bobs, { username: "bob", password: "the password of bob" });
    await bobs.submit(form, Object.fromEntries(form.fields));
    expect(bobs.status).toBe(403);
    await theirs.get(`${running.openid}/account/sessions`);
    expect(theirs.visits.length).toBe(1);
  });
});

describe("the services", () => {
  it("are none at first; then each has its name, its first connection and what it may read [D-SELF-5]", async () => {
    const browser = await open("/services");
    expect(pageText(browser)).toContain("No services yet.");
    const partner = clientAt(running, "openid", PARTNER);
    const visitor = partner.browser();
    await visitor.get(partner.authorizeUrl({ scope: "openid" }));
    await signIn(visitor, person);
    await visitor.submit(visitor.form("decision"), { decision: "allow" });
    await clientAt(running, "oauth2", SHOP).code(person);
    clock.advance(86_400 * 3);
    await browser.get(`${running.openid}/account/services`);
    expect(pageText(browser)).toMatch(
      /Partner Can read: Email address First connected 3 days ago Disconnect .* Shop Can read: Email address, Name, Date of birth, Gender, .*Username, Language, .*Roles First connected 3 days ago Disconnect/,
    );
  });

  it("are disconnected: unassigned with the notification, consent withdrawn, tokens ended [D-SELF-5]", async () => {
    const news = clientAt(running, "openid", NEWS);
    const tokens = await news.exchange(await news.code(person));
    const browser = await open("/services");
    await browser.submit(browser.form("service"));
    expect(pageText(browser)).toContain("The service has been disconnected.");
    expect(pageText(browser)).toContain("No services yet.");
    expect(await notifications()).toEqual(["UNASSINGED_FROM_SERVICE"]);
    expect((await news.userinfo(String(tokens.body["access_token"]))).status).toBe(400);
    const partner = clientAt(running, "openid", PARTNER);
    for (const _ of [1, 2]) {
      const visitor = partner.browser();
      await visitor.get(partner.authorizeUrl({ scope: "openid" }));
      await signIn(visitor, person);
      await visitor.submit(visitor.form("decision"), { decision: "allow" });
      await browser.get(`${running.openid}/account/services`);
      await browser.submit(browser.form("service"));
    }
    expect((await running.service.accounts.find(person.sub))?.services).toEqual({});
  });
});

it("says nothing about a deletion to anybody who opens the address", async () => {
  for (const query of ["", "?done=deleted", "?done=99999999999999.x", `?done=${"9".repeat(2_000)}`]) {
    const browser = await new Browser().get(`${running.openid}/account/signed-out${query}`);
    expect([browser.status, browser.title]).toEqual([200, "You are signed out"]);
  }
  const browser = await open();
  await browser.get(`${running.openid}/account/signed-out`);
  expect(browser.title).toBe("Your account");
});

describe("many changes", () => {
  it("by one person are limited to 30 an hour over all pages, with a 429 that says when to continue [D-SELF-8]", async () => {
    const browser = await open("/profile");
    const change = async (surname: string): Promise<void> => {
      await browser.get(`${running.openid}/account/profile`);
      await browser.submit(browser.form("surname"), { surname });
    };
    for (let count = 1; count <= 30; count += 1) {
      await change(`Number ${count}`);
      expect(browser.visits[0]?.status).toBe(303);
    }
    await change("One more");
    expect(browser.status).toBe(429);
    expect(Number(browser.headers.get("retry-after"))).toBeGreaterThan(3_000);
    expect(pageText(browser)).toContain("You have made many changes");
    await browser.get(`${running.openid}/account/password`);
    await browser.submit(browser.form("password"), { password: "quite another long sentence" });
    expect(browser.status).toBe(429);
    expect((await account())?.surname).toBe("Number 30");
    // Signing out is no change.
    await browser.get(`${running.openid}/account`);
    await browser.submit(browser.forms().at(-1));
    expect(browser.visits[0]?.status).toBe(303);
    clock.advance(3_600);
    const later = await open("/profile");
    await later.submit(later.form("surname"), { surname: "Later" });
    expect((await account())?.surname).toBe("Later");
  });

  it("of a username reveal at most ten times an hour that one is taken [D-NAME-8]", async () => {
    await running.service.accounts.create({ email: `t${people}@example.com`, username: `taken${people}` });
    const browser = await open("/profile");
    for (let count = 0; count < 10; count += 1) {
      await browser.get(`${running.openid}/account/profile`);
      await browser.submit(browser.form("username"), { username: `taken${people}` });
      expect([browser.status, pageText(browser).includes("this name is taken")]).toEqual([400, true]);
    }
    await browser.get(`${running.openid}/account/profile`);
    await browser.submit(browser.form("username"), { username: `taken${people}` });
    expect([browser.status, pageText(browser).includes("this name is taken")]).toEqual([429, false]);
    // A free one gets the same answer, or the limit would tell which are taken.
    await browser.get(`${running.openid}/account/profile`);
    await browser.submit(browser.form("username"), { username: `free${people}` });
    expect(browser.status).toBe(429);
    expect((await account())?.username).toBe(person.username);
    // Other changes are not affected.
    await browser.get(`${running.openid}/account/profile`);
    await browser.submit(browser.form("surname"), { surname: "Free" });
    expect((await account())?.surname).toBe("Free");
  });
});
