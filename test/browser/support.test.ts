/** Support in a real browser: finds somebody, sees why they can't sign in, helps, and finds it in the audit. Checked by axe. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import type { MailMessage } from "../../config/mail.ts";
import { AUTHENTICATOR_APP } from "../../records/factors/factor-kinds.ts";
import { totpCode } from "../../testing/totp-code.ts";
import {
  openConsole,
  OPERATORS,
  type RunningConsole,
  SECRET,
} from "../administration/console/console-visitor.ts";
import { heading, signIn, useBrowser, violations } from "./chromium.ts";

const browser = useBrowser();
const sent: MailMessage[] = [];
let console: RunningConsole;
let ada: string;

beforeAll(async () => {
  console = await openConsole({ config: { mail: async (message) => void sent.push(message) } });
  ada = console.running.ada.sub;
  const { accounts } = console.running.service;
  await accounts.addApp(ada, { secret: SECRET });
  await accounts.assign(ada, "1", 7);
  // The last of a hundred wrong codes has stopped it.
  await console.running.storage.records.transact(async (tx) => {
    const app = await tx.get(AUTHENTICATOR_APP.ref(ada));
    tx.put(AUTHENTICATOR_APP.record({ ...app!, wrong_codes: 100 }));
  });
});

/** A support person at the search, after both factors. */
async function support(options: { readonly javaScriptEnabled?: boolean } = {}): Promise<Page> {
  const page = await browser.newPage(options);
  // A code of the app works once.
  console.clock.advance(31);
  await page.goto(`${console.url}/people`);
  await signIn(page, OPERATORS.support);
  await page.locator("[name=code]").first().fill(totpCode(SECRET, console.clock.now()));
  await page.keyboard.press("Enter");
  await page.waitForURL(`${console.url}/people`);
  return page;
}

describe("a support person", () => {
  it.each([true, false])(
    "finds Ada by half a surname, sees why she can’t sign in, helps, and finds it in the audit (scripts: %s) [D-ADM-158]",
    async (javaScriptEnabled) => {
      const page = await support({ javaScriptEnabled });
      await page.getByRole("searchbox").fill("lovel");
      await page.keyboard.press("Enter");
      await heading(page, /People matching/u);
      expect(decodeURIComponent(page.url())).not.toMatch(/lovel/iu);
      await page.getByRole("link", { name: /Ada Lovelace/u }).click();
      await heading(page, /Ada Lovelace/u);
      expect(await page.title()).not.toMatch(/Ada|Lovelace/u);
      const verdict = page.locator(".verdict");
      await verdict.getByRole("heading", { level: 2 }).waitFor();
      expect(await verdict.innerText()).toMatch(/Can’t sign in with the authenticator app: it is stopped/u);
      await verdict.getByRole("link", { name: "Send a reset mail…" }).click();
      await heading(page, "Send a reset mail");
      await page.getByRole("button", { name: "Send a reset mail" }).click();
      expect(await page.getByRole("status").innerText()).toBe("The mail is on its way.");
      await page.getByRole("link", { name: "All in the audit" }).click();
      await heading(page, "Audit");
      await page.getByRole("table").getByText("Reset mail sent").first().waitFor();
    },
  );

  it.each(["light", "dark"] as const)(
    "has no page that axe finds fault with (%s) [D-ADM-158]",
    async (colorScheme) => {
      const page = await support();
      await page.emulateMedia({ colorScheme });
      const paths = [
        "/people",
        `/people/${ada}`,
        `/people/${ada}?do=removeFactor&factor=app`,
        `/people/${ada}?do=disable`,
        `/audit?account=${ada}`,
      ];
      for (const path of paths) {
        await page.goto(console.url + path);
        expect([path, await violations(page)]).toEqual([path, []]);
      }
      await page.getByRole("searchbox").fill("lovel");
      await page.keyboard.press("Enter");
      await heading(page, /People matching/u);
      expect(await violations(page)).toEqual([]);
      // Nothing is wider than a phone.
      await page.setViewportSize({ width: 360, height: 700 });
      for (const path of paths) {
        await page.goto(console.url + path);
        const wider = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
        expect([path, wider]).toEqual([path, false]);
      }
    },
  );
});
