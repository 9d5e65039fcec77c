/** The page of a person, section by section; and hostile texts in every field, on every page of the console. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { factorsGeneration } from "../../../accounts/factors/factor.ts";
import type { OperatorRole } from "../../../config/operators.ts";
import type { MailMessage } from "../../../config/mail.ts";
import { builtInLocales } from "../../../core/texts.ts";
import { ACCOUNT } from "../../../records/directory/directory-kinds.ts";
import { PASSKEY, REMEMBERED_BROWSER } from "../../../records/factors/factor-kinds.ts";
import {
  act,
  openConsole,
  type RunningConsole,
  SECRET,
  SignedIn,
  stopApp,
  textOf,
} from "./console-visitor.ts";

const sent: MailMessage[] = [];
let console: RunningConsole;
beforeAll(async () => {
  console = await openConsole({
    config: {
      mail: async (message) => void sent.push(message),
      secondFactor: { remember: 30 },
      interactions: { locales: ["en", "de", "pl", "uk"] },
      providers: { google: { client_id: "news", client_secret: "the-secret-at-a-provider" } },
      accounts: { attributes: { department: { type: "text", maxLength: 200, label: "Department" } } },
    },
  });
});

const signedIn = new SignedIn(() => console);
const as: SignedIn["as"] = (role, path) => signedIn.as(role, path);

let people = 0;
async function somebody(more: object = {}) {
  people += 1;
  const account = { email: `person${people}@example.com`, email_verified: true, password: "a long password" };
  return console.running.service.accounts.create({ ...account, username: `person${people}`, ...more });
}

/** The text of a section. */
const sectionOf = (html: string, id: string): string =>
  textOf({ html: `<main>${html.split(`<section id="${id}"`)[1]?.split("</section>")[0] ?? ""}` });

describe("the page of a person", () => {
  it("asks who typed the codes before it recommends anything for a stopped app [D-ADM-253]", async () => {
    const { running } = console;
    const person = await somebody();
    await running.service.accounts.addApp(person.sub, { secret: SECRET });
    await stopApp(running, person.sub);
    await running.storage.audit.append({
      actor: { kind: "anonymous" },
      action: "second_factor",
      subject: person.sub,
      outcome: "failure",
      reason: "wrong",
      address: "203.0.113.0/24",
      browser: "Firefox",
      detail: { factor: "app" },
    });
    const browser = await as("support", `/people/${person.sub}`);
    expect(textOf(browser)).toMatch(
      /Can’t sign in with the authenticator app.* “Was it you who typed those codes\?” .*The tries came from 203\.0\.113\.0\/24, Firefox\..*“No”.* Send a reset mail… .*“Yes”:.*: 10 recovery codes\..* Remove the authenticator app…/u,
    );
    expect(textOf(browser)).toContain("All 11 checks: 1 problem, 0 warnings, 10 in order");
    expect(sectionOf(browser.html, "sign-ins")).toContain(
      "Refused Second factor refused · wrong code · Authenticator app",
    );
    await running.service.accounts.removeFactors(person.sub);
    // A viewer reads the question, and has no button.
    const other = await somebody();
    await running.service.accounts.addApp(other.sub, { secret: SECRET });
    await stopApp(running, other.sub);
    expect((await as("viewer", `/people/${other.sub}`)).html).not.toContain("?do=");
  });

  it("shows the receiver and the time of each assignment, and deliveries that wait first [D-ADM-254]", async () => {
    const { service } = console.running;
    const person = await somebody();
    await service.accounts.assign(person.sub, "1", 88_213);
    await service.accounts.update(person.sub, { surname: "Changed" });
    await service.accounts.update(person.sub, { surname: "Again" });
    const { items } = await service.notifications.list({ account: person.sub });
    const browser = await as("support", `/people/${person.sub}`);
    const services = sectionOf(browser.html, "services");
    expect(services).toMatch(/Identifier there|Number in the service/u);
    expect(services).toMatch(/News 1 .*88213/u);
    expect(services).not.toContain("Unknown");
    expect(items.length > 0).toBe(sectionOf(browser.html, "deliveries").includes(`All ${items.length}`));
    expect(sectionOf(browser.html, "methods")).toMatch(/Password .*now/u);
    expect(sectionOf(browser.html, "profile")).toMatch(/Email address person\d+@example\.com Confirmed/u);
  });

  it.each([
    ["viewer", "You can enable it again. Only support and administrators do this.", false],
    ["support", "Its 1 service is told. Only administrators do this.", true],
    ["administrator", "Its 1 service is told.", true],
  ] as const)(
    "says to a %s what is dangerous, and who can do it [D-ADM-255]",
    async (role, said, mayDisable) => {
      const person = await somebody();
      await console.running.service.accounts.assign(person.sub, "1", null);
      const browser = await as(role, `/people/${person.sub}`);
      expect(textOf(browser)).toContain(said);
      expect(browser.html.includes("?do=disable")).toBe(mayDisable);
      expect(browser.html.includes("?do=delete")).toBe(role === "administrator");
    },
  );

  it("says what clients may read in words, where no second factor is asked for, and when the password was used [D-ADM-333]", async () => {
    const { running, clock } = console;
    const { sub } = await somebody({ name: "Ada", surname: "Lovelace" });
    const { accounts, clients, directory } = running.service;
    await accounts.addApp(sub, { secret: SECRET });
    const identifier = "https://articles.example.com";
    await directory.apis.put(identifier, {
      name: "Articles",
      service: "1",
      scopes: { "articles:read": "Read articles" },
    });
    await clients.register({
      client_id: "reader",
      client_secret: "the secret of the reader, of 32 and more",
      name: "Reader",
      service: "2",
      redirect_uris: ["https://reader.example/cb"],
      apis: { [identifier]: ["articles:read"] },
    });
    const now = Math.floor(clock.now() / 1000);
    await running.storage.records.transact(async (tx) => {
      const account = (await tx.get(ACCOUNT.ref(sub)))!;
      const consent = { scopes: ["openid", "email", "profile"], claims: [] };
      tx.put(
        ACCOUNT.record({
          ...account,
          consents: {
            reader: { ...consent, apis: { [identifier]: ["articles:read"] } },
            gone: { ...consent, scopes: ["openid", "email"] },
          },
        }),
      );
      tx.create(
        REMEMBERED_BROWSER.record({
          id: "remembered",
          sub,
          generation: factorsGeneration(account),
          browser: "Firefox",
          system: "Windows",
          added_at: now,
          expires_at: now + 86_400,
        }),
      );
    });
    for (const [amr, minutes] of [
      ["pwd otp mfa", 0],
      ["hwk mfa", 1],
    ] as const) {
      clock.advance(minutes * 60);
      await running.storage.audit.append({
        actor: { kind: "account", id: sub },
        action: "sign_in",
        subject: sub,
        client: { client_id: "sign-in-service.account", services: [] },
        detail: { amr },
      });
    }
    const { html } = await as("support", `/people/${sub}`);
    const consents = sectionOf(html, "consents");
    expect(consents).toMatch(/Reader .*email address.*; Articles: Read articles/iu);
    expect(consents).toMatch(/gone openid, email/u);
    expect(sectionOf(html, "sign-ins")).toMatch(
      /Remembered browsers: not asked for the second factor .*Firefox on Windows 1 minute ago/u,
    );
    expect(sectionOf(html, "sign-ins")).toMatch(
      /Signed in Sign-in · Passkey Account page .*Signed in Sign-in · Password and Authenticator app Account page/u,
    );
    expect(sectionOf(html, "methods")).toMatch(
      /Password 1 minute ago .*?UTC 1 minute ago .*?UTC Authenticator/u,
    );
  });

  it("says to which address the reset mail goes [D-ADM-255]", async () => {
    const person = await somebody();
    const browser = await as("support", `/people/${person.sub}?do=sendReset`);
    expect(textOf(browser)).toContain(`The link goes to ${person.email}, and works once, for one hour.`);
  });

  it.each(builtInLocales())("is whole in %s, with every check [D-ADM-255]", async (locale) => {
    const person = await somebody();
    await console.running.service.accounts.addApp(person.sub, { secret: SECRET });
    await stopApp(console.running, person.sub);
    const role: OperatorRole = "administrator";
    const browser = await as(role, `/people/${person.sub}?lang=${locale}`);
    expect([browser.status, browser.html.includes(`<html lang="${locale}"`)]).toEqual([200, true]);
    expect(textOf(browser)).not.toMatch(/admin\.[a-z]+\./u);
    expect(textOf(browser)).not.toMatch(/\{\w+/u);
    await as(role, "/people?lang=en");
  });
});

/** A page is one page whichever list leads to it, and a list in order is one, whatever the order. */
const pageOf = (path: string): string =>
  path
    .replace(/([?&])list=[^&]*&?/u, "$1")
    .replace(/sort=[^&]*/u, "sort=")
    .replace(/[?&]$/u, "");

it("shows hostile text of every field of a person as text, on every page that leads anywhere [D-ADM-256]", async () => {
  const HTML = `"><img src=x onerror="alert(1)"><!--`;
  const { service, storage } = console.running;
  const { directory } = service;
  await directory.portals.put("main", { name: `Portal${HTML}` });
  await directory.groups.put("media", { name: `Group${HTML}` });
  const api = { name: `API${HTML}`, service: "1", scopes: { "articles:read": `Read${HTML}` } };
  await directory.apis.put("https://api.example.com", api);
  const person = await somebody({
    portal: "main",
    name: `Ann${HTML}`,
    surname: `Hostilesson${HTML}`,
    attributes: { department: `Sales${HTML}` },
  });
  await service.accounts.assign(person.sub, "1", 1);
  await directory.services.update("1", { name: `News${HTML}`, group: "media" });
  // Short enough to be shown whole.
  await service.accounts.linkIdentity(person.sub, { provider: "google", subject: "<img src=x>" });
  await storage.records.transact(async (tx) => {
    const account = await tx.get(ACCOUNT.ref(person.sub));
    if (account === undefined) throw new Error("the person is gone");
    const passkey = { user_handle: "A".repeat(43), ids: ["Zx81_Qk-a7A"] };
    tx.put(ACCOUNT.record({ ...account, ways: { ...account.ways, passkey } }));
    tx.create(
      PASSKEY.record({
        id: "Zx81_Qk-a7A",
        sub: person.sub,
        public_key: "AAAA",
        counter: 0,
        transports: [],
        backup_eligible: true,
        backed_up: true,
        rp_id: "127.0.0.1",
        name: `Phone${HTML}`,
        added_at: 1_750_000_000,
        last_used_at: null,
      }),
    );
  });
  await service.clients.update("partner", { name: `Partner${HTML}` });
  await service.accounts.addApp(person.sub, { secret: SECRET });
  const browser = await as("administrator", "/people");
  await browser.submit(browser.form("q"), { q: "hostiless" });
  expect(browser.html).toContain("<mark>Hostiless</mark>");
  const waiting = [
    browser.url.pathname + browser.url.search,
    `/people/${person.sub}`,
    `/audit?account=${person.sub}`,
    `/people/${person.sub}?do=sendReset`,
    "/clients/partner",
    "/services/1",
    "/groups",
    "/portals",
    "/apis",
  ];
  await browser.get(`${console.url}/people/${person.sub}`);
  for (const text of ["Phone&#34;&gt;", "&lt;img src=x&gt;", "News&#34;&gt;"])
    expect(browser.html).toContain(text);
  // Every link of every page, the pages of operations included; of records of the audit some.
  const seen = new Set(waiting);
  const wrong: unknown[] = [];
  let records = 0;
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    await browser.get(console.url + path);
    if (browser.url.origin !== console.url || browser.status !== 200) wrong.push([path, browser.status]);
    if (/<img src=x|<!--/u.test(browser.html)) wrong.push([path, "is not escaped"]);
    for (const [, link = ""] of browser.html.matchAll(/ href="(\/[^"#]*)/gu)) {
      const next = link.replaceAll("&amp;", "&");
      if (
        seen.has(pageOf(next)) ||
        /lang=|after=|since=/u.test(next) ||
        (/^\/audit\/|^\/deliveries\//u.test(next) && (records += 1) > 5)
      )
        continue;
      if (/^\/people\/(?!.*do=)/u.test(next) && !next.includes(person.sub)) continue;
      seen.add(pageOf(next));
      waiting.push(next);
    }
  }
  expect(wrong).toEqual([]);
  expect(seen.size).toBeGreaterThan(40);
  await act(await browser.get(`${console.url}/people/${person.sub}?do=disable`));
  expect(browser.html).not.toContain("<img src=x");
});
