/** The administration console in a real browser: checked by axe, in both color schemes, on a phone and without scripts. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { totpCode } from "../../testing/totp-code.ts";
import {
  openConsole,
  OPERATORS,
  type RunningConsole,
  SECRET,
} from "../administration/console/console-visitor.ts";
import { signIn, useBrowser, violations } from "./chromium.ts";

const browser = useBrowser();
let console: RunningConsole;
let page: Page;

const PATHS = [
  "/clients",
  "/clients/news",
  "/clients?do=register",
  "/clients/news?do=update",
  "/clients/news?do=remove",
  "/services?do=create",
  "/keys",
  "/health",
  "/people",
  `/people/${OPERATORS.viewer.sub}`,
  "/audit",
  "/audit?do=export&since=1h",
  "/me",
  "/nothing",
];

beforeAll(async () => {
  console = await openConsole();
  page = await browser.newPage({ javaScriptEnabled: true });
  await page.goto(`${console.url}/clients`);
  await signIn(page, OPERATORS.administrator);
  await page.locator("#code").fill(totpCode(SECRET, console.clock.now()));
  await page.locator("form#step button[type=submit]").first().click();
  await page.waitForURL(`${console.url}/clients`);
});

describe("the pages of the console", () => {
  it.each(["light", "dark"] as const)(
    "have no problems that axe finds, wide and narrow (%s) [D-ADM-132]",
    async (colorScheme) => {
      await page.emulateMedia({ colorScheme });
      for (const width of [1280, 320]) {
        await page.setViewportSize({ width, height: 800 });
        for (const path of PATHS) {
          await page.goto(console.url + path);
          const overflow = await page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth",
          );
          expect([path, width, overflow, await violations(page)]).toEqual([path, width, 0, []]);
        }
      }
    },
  );

  it("show only the fields of the chosen kind of client, and a menu on a phone [D-ADM-132]", async () => {
    await page.setViewportSize({ width: 390, height: 800 });
    await page.goto(`${console.url}/clients?do=register`);
    await page.getByLabel("Machine").check();
    await page.locator("#redirect_uris").waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("link", { name: "Portals" }).click();
    await page.waitForURL(`${console.url}/portals`);
  });
});
