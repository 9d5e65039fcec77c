/** What every page of the console has besides itself: refused, limited, gone, changed by somebody else, without a storage or a role. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AnyRow, isOn } from "../../../accounts/operations/operation.ts";
import { refusalText } from "../../../administration/console/derived/words.ts";
import { TABLES } from "../../../administration/tables.ts";
import { StorageUnavailable } from "../../../core/errors.ts";
import { readTexts } from "../../../core/texts.ts";
import type { Browser } from "../../../testing/browser/browser.ts";
import { atEnd } from "../../closing.ts";
import { startService, storageIn } from "../../flows/running-service.ts";
import { openConsole, OPERATORS, type RunningConsole, SignedIn, textOf } from "./console-visitor.ts";

const LANGUAGES = ["en", "de", "pl", "uk"];
let shared: RunningConsole;
const signedIn = new SignedIn(() => shared);
beforeAll(async () => {
  shared = await openConsole({ config: { interactions: { locales: LANGUAGES } } });
  await signedIn.as("administrator", "/clients");
});

const HEADING = /<h1><bdi>([^<]*)</;
const heading = ({ html }: Browser): string => HEADING.exec(html)?.[1] ?? "";

const withFrame = ({ html }: Browser): boolean => html.includes('<nav id="menu"');

describe("a page that is refused", () => {
  it("says which role can, and which one asks; a form says that its entries are lost [D-ADM-245]", async () => {
    const console = await openConsole();
    const support = await console.open("support", "/clients");
    await support.get(`${console.url}/clients?do=register`);
    expect([support.status, heading(support), withFrame(support)]).toEqual([403, "Not with your role", true]);
    expect(support.html).toContain("Only administrators can do this. Your role is: Support.");
    const deliveries = await console.open("deliveries", "/deliveries");
    await deliveries.get(`${console.url}/audit`);
    expect(deliveries.html).toContain("Only viewers, support and administrators can do this.");
    expect(deliveries.html).not.toContain("is lost");
  });

  it("says of a person that is gone to look in the audit, which it opens for this account [D-ADM-245]", async () => {
    const console = await openConsole();
    const browser = await console.open("viewer", "/people");
    const sub = "91ac55f0-2b3d-4c8e-9f10-aa0bb1cc2dd3";
    await browser.get(`${console.url}/people/${sub}`);
    expect([browser.status, withFrame(browser)]).toEqual([404, true]);
    expect(browser.html).toContain("No account has this ID. It may have been deleted: look in the audit.");
    expect(browser.html).toContain(`href="/audit?account=${sub}"`);
    await browser.get(`${console.url}/clients/nobody`);
    expect([browser.status, browser.html.includes('href="/audit"')]).toEqual([404, true]);
  });

  it("says how much was done in this hour, and when there is more [D-ADM-246]", async () => {
    const console = await openConsole();
    const { directory, accounts } = console.running.service;
    await directory.services.put("9", {
      name: "Deaf",
      receiver: {
        url: "https://deaf.invalid/",
        client_id: "r",
        client_secret: "s",
        types: ["PROFILE_CHANGED"],
      },
    });
    const { sub } = await accounts.create({ email: "eve@example.com" });
    await accounts.assign(sub, "9");
    await console.running.service.notifications.pause("service:9");
    await accounts.update(sub, { name: "Eve" });
    const { items } = await console.running.service.notifications.list();
    await console.running.service.notifications.discard(items[0]?.id ?? "");
    const browser = await console.open("support", "/deliveries?state=discarded");
    const form = browser.forms().find(({ fields }) => fields.some(([, value]) => value === "again"));
    const many = Object.fromEntries(Array.from({ length: 61 }, (_, i) => [`msg_${i}`, "yes"]));
    await browser.submit(form, many);
    expect([browser.status, heading(browser), withFrame(browser)]).toEqual([429, "Not now", true]);
    expect(browser.html).toMatch(/You have made 60 changes this hour\. Nothing was done\. More from \d+:\d+/);
    expect(browser.html).toContain("What you entered was not sent, and is lost.");
    expect(Number(browser.headers.get("retry-after"))).toBeGreaterThan(0);
    // Reading goes on.
    await browser.get(`${console.url}/deliveries`);
    expect(browser.status).toBe(200);
  });
});

describe("a form about what somebody else has changed", () => {
  it("is kept, says what it is now, and can be sent then [D-ADM-247]", async () => {
    const console = await openConsole();
    const { groups } = console.running.service.directory;
    await groups.create("media", { name: "Media" });
    const browser = await console.open("administrator", "/groups/media?do=update");
    const other = await console.open("administrator", "/groups/media?do=update");
    await other.submit(other.form("name"), { name: "Press & <b>media</b>" });
    await browser.submit(browser.form("name"), { name: "Newspapers" });
    expect([browser.status, withFrame(browser)]).toEqual([412, true]);
    expect(browser.html).toContain("Nothing was changed: it has changed since you opened the page.");
    expect(browser.html).toContain("In the meantime: Press &amp; &lt;b&gt;media&lt;/b&gt;");
    expect(new Map(browser.form("name").fields).get("name")).toBe("Newspapers");
    await expect(groups.find("media")).resolves.toMatchObject({ name: "Press & <b>media</b>" });
    await browser.submit(browser.form("name"));
    await expect(groups.find("media")).resolves.toMatchObject({ name: "Newspapers" });
  });
});

describe("of two operators at one record, the second", () => {
  it("keeps what was entered in every kind of form, and changes nothing [D-ADM-247]", async () => {
    const operators = Object.values(OPERATORS).map(({ sub }) => [sub, "administrator"] as const);
    const console = await openConsole({ config: { operators: Object.fromEntries(operators) } });
    const { accounts, clients, directory } = console.running.service;
    const { sub } = console.running.ada;
    await directory.groups.put("media", { name: "Media" });
    await directory.portals.put("main", { name: "Main" });
    const identifier = "https://api.example.com";
    await directory.apis.put(identifier, { name: "API", service: "1", scopes: { "articles:read": "Read" } });
    const api = `b64:${Buffer.from(identifier).toString("base64url")}`;
    const first = await console.open("administrator", "/clients");
    const second = await console.open("support", "/clients");
    for (const [path, find] of [
      ["/groups/media", () => directory.groups.find("media")],
      ["/portals/main", () => directory.portals.find("main")],
      ["/services/1", () => directory.services.find("1")],
      [`/apis/${api}`, () => directory.apis.find(identifier)],
      ["/clients/news", () => clients.find("news")],
      [`/people/${sub}`, () => accounts.find(sub)],
    ] as const) {
      for (const browser of [first, second]) await browser.get(`${console.url}${path}?do=update`);
      await first.submit(first.form("name"), { name: "The first" });
      expect([path, first.status]).toEqual([path, 200]);
      const changed = await find();
      expect(changed).toMatchObject({ name: "The first" });
      await second.submit(second.form("name"), { name: "The <i>second</i>" });
      expect([path, second.status]).toEqual([path, 412]);
      expect(new Map(second.form("name").fields).get("name")).toBe("The <i>second</i>");
      expect(second.html).toContain("In the meantime: The first");
      expect(second.html).not.toContain("<i>");
      expect(await find()).toEqual(changed);
    }
  });
});

describe("a storage that does not answer", () => {
  it("is said in the frame while the operator is known, and is no defect [D-ADM-248]", async () => {
    let isDown = false;
    const console = await openConsole({
      logsErrors: true,
      storage: (opened) => ({
        ...opened,
        deliveries: {
          ...opened.deliveries,
          page: (options) =>
            isDown ? Promise.reject(new StorageUnavailable("down")) : opened.deliveries.page(options),
        },
      }),
    });
    const browser = await console.open("viewer", "/deliveries");
    isDown = true;
    await browser.get(`${console.url}/deliveries?state=parked`);
    expect([browser.status, withFrame(browser)]).toEqual([503, true]);
    expect(heading(browser)).toBe("The storage doesn’t answer");
    expect(browser.html).toContain("Nothing was changed. Try again in a minute.");
    expect(browser.html).toContain('href="/deliveries?state=parked"');
    expect(browser.headers.get("retry-after")).toBe("60");
    isDown = false;
    await browser.click("Try again");
    expect(browser.status).toBe(200);
  });
});

describe("a storage that does not say who is signed in", () => {
  it("is said in a frame without the person, for whom the cookie names, and to nobody else [D-ADM-331]", async () => {
    let isDown = false;
    const console = await openConsole({
      logsErrors: true,
      storage: (opened) => ({
        ...opened,
        artifacts: {
          ...opened.artifacts,
          findByUid: (...args: Parameters<typeof opened.artifacts.findByUid>) =>
            isDown ? Promise.reject(new StorageUnavailable("down")) : opened.artifacts.findByUid(...args),
        },
      }),
    });
    const browser = await console.open("viewer", "/clients");
    isDown = true;
    await browser.get(`${console.url}/clients/news`);
    expect([browser.status, withFrame(browser)]).toEqual([503, true]);
    expect(heading(browser)).toBe("The storage doesn’t answer");
    expect(browser.html).toContain('href="/clients/news"');
    expect(browser.html).toContain('href="/audit"');
    for (const hidden of [OPERATORS.viewer.name, "Viewer", "sign-out", 'role="search"'])
      expect(browser.html.slice(browser.html.indexOf("<body"))).not.toContain(hidden);
    expect(browser.headers.get("retry-after")).toBe("60");
    // A sign-in that is too old opens nothing.
    console.clock.advance(3_600);
    await browser.get(`${console.url}/clients/news`);
    expect([browser.status, withFrame(browser)]).not.toEqual([503, true]);
  });
});

describe("what the library refuses", () => {
  it.each([
    [
      "de",
      "Zeile 2: muss https sein, oder http auf dem eigenen Rechner",
      "darf 1 bis 128 dieser Zeichen haben",
    ],
    ["pl", "wiersz 2: musi być adresem https albo http", "może mieć od 1 do 128 spośród znaków"],
    ["uk", "рядок 2: має бути https або http", "може мати від 1 до 128 із символів"],
  ])("is said in the language of the page: %s [D-ADM-332]", async (language, address, id) => {
    const browser = await signedIn.as("administrator", `/clients?do=register&lang=${language}`);
    await browser.submit(browser.form("client_id"), {
      client_id: "an id",
      name: "Editor",
      service: "1",
      redirect_uris: "https://a.example/\nhttp://b.example/",
    });
    expect(browser.status).toBe(422);
    expect(browser.html).toContain(address);
    expect(browser.html).toContain(id);
    expect(browser.html).not.toContain("must ");
  });

  it("has a sentence in every language, also about passwords [D-ADM-332]", async () => {
    const { sub } = shared.running.ada;
    const browser = await signedIn.as("administrator", `/people/${sub}?do=setPassword&lang=de`);
    await browser.submit(browser.form("password"), { password: "short" });
    expect([browser.status, textOf(browser)]).toEqual([
      422,
      expect.stringContaining("Das Passwort braucht mindestens 8 Zeichen."),
    ]);
    const codes = new Set(
      Object.values(TABLES).flatMap(({ rows }) =>
        Object.values<AnyRow>(rows).flatMap((row) => (isOn(row, "console") ? row.errors : [])),
      ),
    );
    const texts = readTexts(LANGUAGES, {});
    for (const language of LANGUAGES) {
      const t = texts.translators.get(language)!;
      const without = [...codes].filter(
        (code) => refusalText(t, code, { what: "", references: "" }) === t("admin.problem.other", { code }),
      );
      expect([language, without]).toEqual([language, []]);
    }
  });
});

describe("an empty list", () => {
  it("leads to what makes the first one, and a filtered one to the list without filters [D-ADM-245]", async () => {
    const console = await openConsole();
    const browser = await console.open("administrator", "/groups");
    expect(browser.html).toMatch(
      /class="empty">No groups yet\. Create the first one\. <a href="\/groups\?do=create"/,
    );
    await browser.get(`${console.url}/invitations?state=accepted`);
    expect(browser.html).toMatch(
      /class="empty">Nothing matches\. <a href="\/invitations">Remove all filters/,
    );
    const viewer = await console.open("viewer", "/groups");
    expect(viewer.html).toMatch(/class="empty">There is nothing here yet\.<\/p>/);
  });
});

describe("a role that ends with a new configuration", () => {
  it("closes the page that is open: the form is lost, and what the new role has opens at once [D-ADM-249]", async () => {
    const folder = mkdtempSync(join(tmpdir(), "console-"));
    atEnd(() => rmSync(folder, { recursive: true }));
    const storage = await storageIn(folder);
    const before = await openConsole({ config: storage });
    const { sub } = OPERATORS.administrator;
    const browser = await before.open("administrator", "/groups?do=create");
    const port = Number(new URL(before.running.origin).port);
    /** The same service with another configuration, as after a restart. */
    async function restart(operators: Readonly<Record<string, "viewer" | "support">>): Promise<void> {
      await before.current().close();
      before.use(await startService({ port, config: { ...storage, clock: before.clock, operators } }));
    }
    await restart({ [sub]: "viewer" });
    await browser.submit(browser.form("name"), { key: "lost", name: "Lost" });
    expect(browser.status).toBe(403);
    expect(browser.html).toContain("Only administrators can do this. Your role is: Viewer.");
    expect(browser.html).toContain("What you entered was not sent, and is lost.");
    await browser.get(`${before.url}/groups?do=create`);
    expect(browser.status).toBe(403);
    await browser.get(`${before.url}/groups`);
    expect([browser.status, browser.html.includes("do=create")]).toEqual([200, false]);
    await restart({ [OPERATORS.viewer.sub]: "viewer" });
    await browser.get(`${before.url}/groups`);
    expect(browser.url.origin).not.toBe(before.url);
    await before.enter(browser, OPERATORS.administrator);
    // As after a wrong password.
    expect([browser.url.origin === before.url, browser.hasForm("password")]).toEqual([false, true]);
  });
});
