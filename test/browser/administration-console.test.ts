/** Every page of the administration console in a real browser, as people set their systems: checked by axe, measured, and walked. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { CONSOLE_PAGES, openSampleConsole, type SampleConsole } from "../../build/screens/console.ts";
import { atEnd } from "../closing.ts";
import { bodyParts, openSmtp, type SmtpServer } from "../servers/smtp.ts";
import { heading, type PageOptions, useBrowser, violations } from "./chromium.ts";

const THEMES = join(import.meta.dirname, "../../examples/themes");
/** Pixels by which a page is wider than the window. */
const OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
const PAGES = Object.entries(CONSOLE_PAGES);
/** One of each layout: a list, a record, a form, a confirmation, a person, the audit. */
const LAYOUTS = ["clients", "client", "client-register", "client-remove", "service", "audit"];

const browser = useBrowser();
let console: SampleConsole;
let page: Page;

async function open(...options: Parameters<typeof openSampleConsole>): Promise<SampleConsole> {
  const opened = await openSampleConsole(...options);
  atEnd(() => opened.close());
  return opened;
}

let smtp: SmtpServer;

beforeAll(async () => {
  smtp = await openSmtp();
  atEnd(() => smtp.close());
  console = await open({}, { url: smtp.url, from: "accounts@example.org" });
  page = await browser.newPage();
  await console.enter(page);
});

/** Another browser of the operator: a code of the app works only once. */
async function another(options: PageOptions): Promise<Page> {
  const other = await browser.newPage(options);
  await other.context().addCookies(await page.context().cookies());
  return other;
}

async function show(name: string, language = "en"): Promise<void> {
  const path = CONSOLE_PAGES[name] ?? "/";
  await page.goto(`${console.url}${path}${path.includes("?") ? "&" : "?"}lang=${language}`);
}

describe("the pages of the console", () => {
  it.each(PAGES.map(([name]) => name))(
    "%s has no problems that axe finds, and fits a phone [D-ADM-132]",
    async (name) => {
      await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
      await page.setViewportSize({ width: 1280, height: 800 });
      await show(name);
      await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true");
      expect([await page.evaluate(OVERFLOW), await violations(page)]).toEqual([0, []]);
      await page.setViewportSize({ width: 320, height: 800 });
      expect([await page.evaluate(OVERFLOW), await violations(page)]).toEqual([0, []]);
      // Nothing but colours depends on the scheme.
      await page.emulateMedia({ colorScheme: "dark" });
      expect(await violations(page, "color-contrast")).toEqual([]);
    },
  );

  it.each(["de", "pl", "uk"])(
    "fit a phone in %s, and say so to screen readers [D-ADM-267]",
    async (language) => {
      await page.setViewportSize({ width: 320, height: 800 });
      for (const [name] of PAGES) {
        await show(name, language);
        const lang = await page.locator("html").getAttribute("lang");
        expect([name, lang, await page.evaluate(OVERFLOW)]).toEqual([name, language, 0]);
      }
    },
  );

  it("fit with text at 200 %, in forced colours [D-ADM-267]", async () => {
    await page.emulateMedia({ forcedColors: "active", reducedMotion: "reduce" });
    await page.setViewportSize({ width: 1280, height: 800 });
    for (const [name] of PAGES) {
      await show(name, "de");
      await page.evaluate("document.documentElement.style.fontSize = '200%'");
      expect([name, await page.evaluate(OVERFLOW)]).toEqual([name, 0]);
    }
    await page.emulateMedia({ forcedColors: "none", reducedMotion: "no-preference" });
  });

  it.each(readdirSync(THEMES))(
    "are as readable in the theme %s, light and dark [D-ADM-267]",
    async (file) => {
      const { interactions } = JSON.parse(readFileSync(join(THEMES, file), "utf8")) as {
        interactions: Parameters<typeof openSampleConsole>[0];
      };
      const themed = await open(interactions);
      const shown = await browser.newPage();
      await themed.enter(shown);
      await shown.setViewportSize({ width: 1280, height: 800 });
      for (const colorScheme of ["light", "dark"] as const) {
        await shown.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        for (const name of LAYOUTS) {
          await shown.goto(themed.url + (CONSOLE_PAGES[name] ?? ""));
          const found = await violations(shown, "color-contrast", "target-size");
          expect([name, colorScheme, await shown.evaluate(OVERFLOW), found]).toEqual([
            name,
            colorScheme,
            0,
            [],
          ]);
        }
      }
    },
  );
});

describe("with the keyboard", () => {
  it("the way into a page is the skip link, the bar, the sections, the page [D-ADM-268]", async () => {
    await page.setViewportSize({ width: 1280, height: 800 });
    await show("clients");
    const order: string[] = [];
    for (let steps = 0; steps < 60; steps += 1) {
      await page.keyboard.press("Tab");
      const where = await page.evaluate(
        "document.activeElement.closest('main, nav.side, header, .skip, footer')?.className || document.activeElement.closest('main, nav.side, header, .skip, footer')?.tagName.toLowerCase()",
      );
      if (order.at(-1) !== where) order.push(String(where));
    }
    expect(order.slice(0, 5)).toEqual(["skip", "header", "side", "main", "footer"]);
    await show("clients");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.closest('main') !== null")).toBe(true);
  });

  it("the menu of a phone opens, and Escape closes it [D-ADM-268]", async () => {
    await page.setViewportSize({ width: 390, height: 800 });
    await show("client-register");
    await page.getByLabel("Machine").check();
    await page.locator("#redirect_uris").waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Menu" }).press("Enter");
    await page.getByRole("link", { name: "Portals" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Portals" }).waitFor({ state: "hidden" });
  });
});

it.each([true, false])(
  "a client is registered: problems first, with the focus; then the secret, once (scripts: %s) [D-ADM-268]",
  async (javaScriptEnabled) => {
    const shown = await another({ javaScriptEnabled });
    await shown.goto(`${console.url}/clients?do=register`);
    const id = javaScriptEnabled ? "editor" : "editor-without-scripts";
    await shown.locator("#service").selectOption("1");
    await shown.getByLabel(/^Client ID/).fill(id);
    await shown.getByLabel("With its own keys").check();
    await shown.getByLabel("Public keys").waitFor();
    await shown.getByLabel("Redirect addresses").fill("https://a.example/cb\n  http://b.example/cb");
    const command = shown.locator("pre.command");
    const followed = await command.innerText();
    await shown.getByRole("button", { name: "Register a client" }).click();
    await shown.locator('[role="alert"]:focus').waitFor();
    expect(await shown.title()).toMatch(/^Error: Register a client/);
    if (javaScriptEnabled) expect(await violations(shown)).toEqual([]);
    expect(await command.innerText()).toContain(`--client-id ${id}`);
    // With scripts, the command has followed what was typed.
    if (javaScriptEnabled) expect(await command.innerText()).toBe(followed);
    await shown.getByLabel("With a generated secret").check();
    await shown.getByLabel("Public keys").waitFor({ state: "hidden" });
    await shown.getByLabel("Name", { exact: true }).fill("Editor");
    await shown.getByLabel("Redirect addresses").fill("https://a.example/cb");
    await shown.getByRole("button", { name: "Register a client" }).click();
    await heading(shown, `${id}: the secret`);
    if (javaScriptEnabled) expect(await violations(shown)).toEqual([]);
    const secret = await shown.locator(".secret").innerText();
    expect(secret.length).toBeGreaterThan(20);
    // The browser asks whether to send the form again, and a person says yes.
    await shown.reload();
    await heading(shown, "The secret was shown");
    expect(await shown.content()).not.toContain(secret);
    await shown.goto(`${console.url}/clients/${id}`);
    await heading(shown, "Editor");
  },
);

it("an administrator invites a colleague, who chooses a password after a mail, and is found [D-ADM-334]", async () => {
  const email = "grace@example.org";
  const shown = await another({});
  await shown.setViewportSize({ width: 1280, height: 800 });
  await shown.goto(`${console.url}/invitations?do=create`);
  await shown.locator("[name=email]").fill(email);
  await shown.locator("[name=surname]").fill("Hopper");
  await shown.locator("main button[type=submit]").click();
  await shown.getByText("Waiting").first().waitFor();
  const mailed = () => smtp.received().find(({ to }) => to.includes(email));
  // The operator is told of the authenticator app, too.
  for (let count = 1; mailed() === undefined; count += 1) await smtp.until(count);
  const link = /https?:\S+\/confirm\?token=[\w-]+/u.exec(bodyParts(mailed()!)["text/plain"] ?? "")?.[0] ?? "";
  const colleague = await browser.newPage();
  await colleague.goto(link);
  await heading(colleague, "Accept your invitation");
  await colleague.locator("[name=password]").fill("grapefruit under the stairs");
  await colleague.locator("form:not([data-passkey]) button[type=submit]").first().click();
  await colleague.waitForURL(/\/account$/u);
  // Half the surname is enough.
  await shown.locator("#find").fill("hopp");
  await shown.keyboard.press("Enter");
  await shown
    .getByRole("link", { name: /Hopper/u })
    .first()
    .click();
  await heading(shown, "Hopper");
  expect(await shown.locator(".verdict h2").innerText()).toBe("Nothing here stops this person");
  expect(await shown.locator("#history").innerText()).toContain("Account registered");
  expect(await shown.locator("#sign-ins").innerText()).toContain("Password");
});

it("an operator sees which client that nobody registered was here, and blocks it [D-DOC-104]", async () => {
  const shown = await another({});
  const address = "https://editor.example.com/oauth/client.json";
  await shown.goto(`${console.url}/documents`);
  const row = shown.locator("tr", { hasText: "editor.example.com" });
  // What it calls itself is marked as such.
  for (const part of [
    "“Editor of the Analytical Society”",
    "/oauth/client.json",
    "https://articles.example.com",
  ])
    expect(await row.innerText()).toContain(part);
  await row.getByRole("link").first().click();
  await heading(shown, address);
  await shown.getByRole("link", { name: "Block" }).click();
  await shown.locator("main form button[type=submit]").click();
  await shown.getByText("Blocked").first().waitFor();
  await shown.goto(`${console.url}/audit?action=document.blocked`);
  expect(await shown.locator("main table").innerText()).toContain("editor.example.com");
  await shown.getByRole("link", { name: "editor.example.com" }).click();
  await heading(shown, address);
  expect(await violations(shown)).toEqual([]);
});
