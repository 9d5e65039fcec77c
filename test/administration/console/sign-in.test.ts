/** Signing in to the console: by the service itself, with two factors, by operators only, and how it ends. */
import { once } from "node:events";
import { request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { derivedPages } from "../../../administration/console/derived/pages.ts";
import { LOOKS, ownPages, supportLooks } from "../../../administration/console/pages.ts";
import { TABLES } from "../../../administration/tables.ts";
import { Browser } from "../../../testing/browser/browser.ts";
import { ADA, startService } from "../../flows/running-service.ts";
import { openConsole, OPERATORS, type RunningConsole, serveConsole } from "./console-visitor.ts";

let console: RunningConsole;
beforeAll(async () => {
  console = await openConsole({
    config: {
      mailer: { send: async () => undefined },
      interactions: { registration: {} },
      signIn: { emailCode: true },
    },
  });
});

const newBrowser = (): Browser => new Browser();
const isInside = (browser: Browser): boolean => browser.url.origin === console.url && browser.status === 200;
/** What a page says, without what differs between sign-ins. */
const said = ({ html, title, status }: Browser) => ({
  title,
  status,
  problems: [...html.matchAll(/<p class="problem"[^>]*>([^<]*)/g)].map(([, text]) => text),
});
const consoleCookies = (browser: Browser) =>
  browser.jar.all().filter(({ name }) => name.includes("sis_admin_") && !name.includes("signing_in"));

/** A sign-in that has been completed at the service: where it leads, in the browser that began it. */
async function answered(): Promise<{ readonly browser: Browser; readonly to: URL }> {
  const browser = new Browser({ stopAt: `${console.url}/callback` });
  await browser.get(`${console.url}/clients`);
  await console.enter(browser, OPERATORS.administrator);
  return { browser, to: browser.location ?? new URL("about:blank") };
}

/** Whether this browser is still signed in. */
const isIn = async (browser: Browser): Promise<boolean> =>
  isInside(await browser.get(`${console.url}/clients`));

/** Whether the forged form has done something. */
const isThere = async (): Promise<boolean> =>
  (await console.running.service.directory.groups.find("forged")) !== undefined;

const token = (page: Browser): string => new Map(page.form("name").fields).get("csrf") ?? "";

describe("who comes in", () => {
  it("an operator signs in with two factors, and comes to the page that was wanted [D-ADM-110]", async () => {
    const browser = await console.open("administrator", "/clients");
    expect([browser.url.href, browser.title]).toEqual([`${console.url}/clients`, "Clients"]);
  });

  it("the form asks for name and password together, and offers nothing else [D-ADM-111]", async () => {
    const browser = await newBrowser().get(`${console.url}/`);
    const names = browser.form("password").fields.map(([name]) => name);
    expect(names).toEqual(expect.arrayContaining(["username", "password"]));
    const links = [...browser.html.matchAll(/href="([^"]*interaction[^"]*)"/g)].map(([, href]) => href);
    expect(links).toEqual([]);
    for (const step of ["register", "forgot-password", "email-code"]) {
      const other = new Browser();
      for (const { name, value } of browser.jar.for(browser.url))
        other.jar.take(browser.url, [`${name}=${value}; Path=/`]);
      await other.get(`${browser.url.href}/${step}`);
      expect(other.hasForm("email")).toBe(false);
    }
  });

  it("answers people who are no operators as after a wrong password [D-ADM-112]", async () => {
    const [right, wrong] = [await newBrowser().get(console.url), await newBrowser().get(console.url)];
    await right.submit(right.form("password"), { username: ADA.username, password: ADA.password });
    await wrong.submit(wrong.form("password"), {
      username: ADA.username,
      password: "not the password of ada",
    });
    expect(said(right)).toEqual(said(wrong));
    expect(said(right).problems).toHaveLength(1);
    expect(consoleCookies(right)).toEqual([]);
    // Nor does it sign them in to the service.
    await right.get(`${console.running.oauth2}/account`);
    expect(right.hasForm("password")).toBe(true);
  });

  it("does not count a session of the service from before [D-ADM-113]", async () => {
    const browser = await console.open();
    browser.jar.clear(consoleCookies(browser)[0]?.name);
    console.clock.advance(60);
    await browser.getOnly(`${console.url}/clients`);
    const asked = new URL(browser.location ?? "");
    expect(asked.searchParams.get("prompt")).toBe("login");
    asked.searchParams.delete("prompt");
    await browser.get(asked);
    expect([browser.url.pathname, browser.status]).toEqual(["/callback", 403]);
    expect(consoleCookies(browser)).toEqual([]);
  });

  it("tells an operator without a second factor to add one, and enrols nobody [D-ADM-114]", async () => {
    const { accounts } = console.running.service;
    await accounts.removeFactors(OPERATORS.viewer.sub);
    const browser = await newBrowser().get(console.url);
    await console.enter(browser, OPERATORS.viewer);
    expect([browser.status, browser.title]).toEqual([403, "Add a second factor first"]);
    expect(browser.html).toContain(
      `${console.running.service.configuration.deployments.openid?.url}/account`,
    );
    expect(consoleCookies(browser)).toEqual([]);
  });
});

describe("the answer of the service", () => {
  it.each<[string, (given: { readonly browser: Browser; readonly to: URL }) => Promise<Browser>]>([
    ["in another browser", async ({ to }) => newBrowser().get(to)],
    [
      "with the state of somebody else",
      async ({ browser, to }) => {
        to.searchParams.set("state", "A".repeat(43));
        return browser.getOnly(to);
      },
    ],
    [
      "in a browser that has asked for a sign-in of its own",
      async ({ to }) => {
        const other = new Browser({ stopAt: console.running.origin });
        await other.getOnly(console.url);
        return other.getOnly(to);
      },
    ],
    [
      "without a code",
      async ({ browser, to }) => {
        to.searchParams.delete("code");
        return browser.getOnly(to);
      },
    ],
    [
      "an hour later",
      async ({ browser, to }) => {
        console.clock.advance(3_600);
        return browser.getOnly(to);
      },
    ],
  ])("opens nothing %s [D-ADM-115]", async (_where, use) => {
    const browser = await use(await answered());
    expect(browser.status).toBe(403);
    expect(consoleCookies(browser)).toEqual([]);
  });

  it("works once, also when it is used twice at the same time [D-ADM-115]", async () => {
    const { browser, to } = await answered();
    const cookie = browser.jar.header(to);
    const sent = await Promise.all([1, 2].map(() => fetch(to, { redirect: "manual", headers: { cookie } })));
    expect(new Set(sent.map(({ status }) => status))).toEqual(new Set([303, 403]));
  });
});

describe("how it ends", () => {
  it("after half an hour without a request, and after 12 hours in any case [D-ADM-116]", async () => {
    const idle = await console.open();
    console.clock.advance(29 * 60);
    expect(await isIn(idle)).toBe(true);
    console.clock.advance(29 * 60);
    expect(await isIn(idle)).toBe(true);
    console.clock.advance(30 * 60);
    expect(await isIn(idle)).toBe(false);

    const busy = await console.open();
    for (let quarters = 0; quarters < 47; quarters += 1) {
      console.clock.advance(15 * 60);
      expect(await isIn(busy)).toBe(true);
    }
    console.clock.advance(15 * 60);
    expect(await isIn(busy)).toBe(false);
  });

  it("with the session of the service, and with the account [D-ADM-117]", async () => {
    const { accounts } = console.running.service;
    const browser = await console.open("support");
    await accounts.endSessions(OPERATORS.support.sub);
    expect(await isIn(browser)).toBe(false);
    const again = await console.open("support");
    await accounts.disable(OPERATORS.support.sub);
    expect(await isIn(again)).toBe(false);
    await accounts.enable(OPERATORS.support.sub);
  });

  it("with signing out: a cookie that somebody has copied opens nothing afterwards [D-ADM-118]", async () => {
    const browser = await console.open();
    const [stolen] = consoleCookies(browser);
    const thief = newBrowser();
    thief.jar.take(new URL(console.url), [`${stolen?.name}=${stolen?.value}; Path=/`]);
    expect(await isIn(thief)).toBe(true);
    const form = browser.forms().find(({ action }) => action.pathname === "/sign-out");
    if (form === undefined) throw new Error("no form signs out");
    await browser.submit(form);
    expect([browser.status, browser.title]).toEqual([200, "You are signed out"]);
    expect(await isIn(thief)).toBe(false);
    expect(await isIn(browser)).toBe(false);
    await browser.get(`${console.running.oauth2}/account`);
    expect(browser.hasForm("password")).toBe(true);
  });

  it("for a form that comes after the session has ended, although it began before [D-ADM-303]", async () => {
    const browser = await console.open("administrator", "/groups?do=create");
    const body = new URLSearchParams({ csrf: token(browser), key: "late", name: "Late" }).toString();
    const late = request(browser.url, {
      method: "POST",
      headers: {
        cookie: browser.jar.header(browser.url),
        origin: console.url,
        "content-type": "application/x-www-form-urlencoded",
        "content-length": Buffer.byteLength(body),
      },
    });
    late.write(body.slice(0, 1));
    // Whoever it is from has been read long before. If not, the answer is the same.
    await pause(200);
    await console.running.service.accounts.endSessions(OPERATORS.administrator.sub);
    late.end(body.slice(1));
    const [answer] = await once(late, "response");
    expect([answer.statusCode, new URL(answer.headers.location ?? "").origin]).toEqual([
      303,
      new URL(console.running.openid).origin,
    ]);
    await expect(console.running.service.directory.groups.find("late")).resolves.toBeUndefined();
  });

  it("says that a form is lost that was sent without a sign-in [D-ADM-119]", async () => {
    const browser = await console.open("administrator", "/groups?do=create");
    console.clock.advance(1_800);
    await browser.submit(browser.form("name"), { key: "lost", name: "Lost" });
    await console.enter(browser, OPERATORS.administrator);
    expect(browser.html).toContain("What you entered was not sent");
    await expect(console.running.service.directory.groups.find("lost")).resolves.toBeUndefined();
  });
});

describe("the cookie", () => {
  it("is new for each sign-in, and of no use at another console on the same host [D-ADM-120]", async () => {
    const [one, other] = [await console.open(), await console.open()];
    const [first, second] = [consoleCookies(one)[0], consoleCookies(other)[0]];
    expect(first?.value).not.toBe(second?.value);
    const elsewhere = await startService();
    const url = await serveConsole(elsewhere);
    const there = await new Browser({ stopAt: elsewhere.origin }).get(url);
    const asking = there.jar.all().map(({ name }) => name);
    expect(asking).not.toContain(first?.name);
    // Not even under the name that the other console reads.
    const name = asking[0]?.replace("admin_signing_in", "admin") ?? "";
    there.jar.take(new URL(url), [`${name}=${first?.value}; Path=/`]);
    await there.get(`${url}/clients`);
    expect(there.location?.pathname).toBe("/openid/oauth2/authorize");
  });

  it("is ignored when it comes twice, or was changed [D-ADM-120]", async () => {
    const browser = await console.open();
    const [cookie] = consoleCookies(browser);
    const { value = "" } = cookie ?? {};
    // In the middle: the last character of Base64url may hold bits that say nothing.
    const middle = Math.floor(value.length / 2);
    const changed = value.slice(0, middle) + (value[middle] === "A" ? "B" : "A") + value.slice(middle + 1);
    const sent = await Promise.all(
      [`${cookie?.name}=${value}; ${cookie?.name}=${value}`, `${cookie?.name}=${changed}`].map((header) =>
        fetch(`${console.url}/clients`, { redirect: "manual", headers: { cookie: header } }),
      ),
    );
    expect(sent.map(({ status }) => status)).toEqual([303, 303]);
    expect(cookie?.value).not.toContain(OPERATORS.administrator.sub);
  });
});

describe("a form counts", () => {
  const create = { key: "forged", name: "Forged" };
  /** Sends the form that creates a group, with changed headers and fields. */
  async function send(
    browser: Browser,
    headers: Readonly<Record<string, string>>,
    fields: Readonly<Record<string, string>>,
  ): Promise<number> {
    const form = browser.form("name");
    const body = new URLSearchParams({ ...Object.fromEntries(form.fields), ...create, ...fields });
    const cookie = browser.jar.header(form.action);
    const answer = await fetch(form.action, {
      method: "POST",
      redirect: "manual",
      body,
      headers: { cookie, ...headers },
    });
    return answer.status;
  }

  it("only with its token, of this sign-in and this page, and from the console itself [D-ADM-121]", async () => {
    const browser = await console.open("administrator", "/groups?do=create");
    const other = await console.open("administrator", "/groups?do=create");
    const elsewhere = await (
      await console.open("administrator", "/portals?do=create")
    ).get("/portals?do=create");
    expect(await send(browser, {}, { csrf: "" })).toBe(403);
    expect(await send(browser, {}, { csrf: token(other) })).toBe(403);
    expect(await send(browser, {}, { csrf: token(elsewhere) })).toBe(403);
    expect(await send(browser, {}, { action: "remove" })).toBe(403);
    expect(await send(browser, { origin: console.running.origin }, {})).toBe(403);
    expect(await send(browser, { "sec-fetch-site": "cross-site" }, {})).toBe(403);
    expect(await send(browser, { origin: "null" }, {})).toBe(403);
    expect(await isThere()).toBe(false);
    expect(await send(browser, { origin: console.url }, {})).toBe(303);
    expect(await isThere()).toBe(true);
  });

  it("at no address without its own token, whatever the page and the action [D-ADM-121]", async () => {
    const { storage, service } = console.running;
    const parts = { configuration: service.configuration, storage, clients: {} } as Parameters<
      typeof supportLooks
    >[0] &
      Parameters<typeof ownPages>[0];
    const looks = { ...LOOKS, ...supportLooks(parts) };
    // This service has no page of clients that nobody registered.
    const { documents: _off, ...tables } = TABLES;
    const pages = [...ownPages(parts), ...derivedPages(tables, looks)].filter(
      ({ post }) => post !== undefined,
    );
    expect(pages.length).toBeGreaterThan(10);
    const browser = await console.open("administrator", "/groups?do=create");
    const cookie = browser.jar.header(browser.url);
    const stolen = token(browser);
    for (const { path } of pages)
      for (const fields of [{}, { csrf: "" }, { csrf: stolen }, { csrf: stolen, action: "remove" }]) {
        const place = path.replaceAll(/:\w+/gu, OPERATORS.viewer.sub);
        const answer = await fetch(console.url + place, {
          method: "POST",
          redirect: "manual",
          body: new URLSearchParams(fields),
          headers: { cookie, origin: console.url },
        });
        expect([place, fields, answer.status]).toEqual([place, fields, 403]);
      }
  });
});

it("gives nobody a code who asks the service for one in the name of the console [D-ADM-115]", async () => {
  const browser = newBrowser();
  const query = new URLSearchParams({
    client_id: "sign-in-service.administration",
    response_type: "code",
    redirect_uri: "https://attacker.example/callback",
    code_challenge: "A".repeat(43),
    code_challenge_method: "S256",
  });
  await browser.get(`${console.running.openid}/oauth2/authorize?${query}`);
  expect(browser.status).toBe(400);
});
