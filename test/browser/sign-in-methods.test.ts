/** "Sign-in methods" in a real browser of the size of a phone, with the authenticator that Chromium has for tests. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { totpCode } from "../../testing/totp-code.ts";
import { METHODS, MethodsParty, startMethodsService } from "../flows/methods-party.ts";
import {
  addAuthenticator,
  expectUsable,
  heading,
  type PageAuthenticator,
  type PageOptions,
  setPresence,
  signIn,
  useBrowser,
} from "./chromium.ts";
import { beforeTests } from "../closing.ts";

const PHONE: PageOptions = { viewport: { width: 390, height: 844 } };

const browser = useBrowser();
let party: MethodsParty;

const running = beforeTests(() => startMethodsService());
beforeEach(async () => {
  party = await MethodsParty.create(running);
});

/** A page of a browser with an authenticator that always says yes. */
async function withAuthenticator(): Promise<{ page: Page; authenticator: PageAuthenticator }> {
  const page = await browser.newPage(PHONE);
  return { page, authenticator: await addAuthenticator(page) };
}

/** Confirms with the code from the mail. @param isSent by the script, as soon as it is complete. */
async function confirmByMail(page: Page, isSent: boolean): Promise<void> {
  await page.getByRole("button", { name: "Send a code" }).click();
  await page.getByLabel("Code").waitFor();
  // The checks are scripts themselves.
  if (isSent) await expectUsable(page);
  await page.getByLabel("Code").fill(await party.mailedCode());
  if (!isSent) await page.getByRole("button", { name: "Continue" }).click();
}

async function secretOn(page: Page): Promise<string> {
  return ((await page.locator(".app-key").textContent()) ?? "").replaceAll(" ", "");
}

const codesOn = (page: Page): Promise<string[]> => page.locator("#codes code").allTextContents();

const signOut = async (page: Page): Promise<void> => {
  await page.goto(`${running.openid}/account`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await heading(page, "You are signed out");
};

describe("a person with a phone", () => {
  it("adds a passkey, signs out, and signs in with it", async () => {
    const { page } = await withAuthenticator();
    await page.goto(`${running.openid}/account`);
    await signIn(page, party.person);
    await page.getByRole("link", { name: "Sign-in methods" }).click();
    await heading(page, "Sign-in methods");
    await expectUsable(page);
    await page.getByRole("link", { name: "Add a passkey" }).click();
    await confirmByMail(page, true);
    await page.getByLabel("Name of the passkey").fill("My phone");
    await expectUsable(page);
    await page.getByRole("button", { name: "Create a passkey" }).click();
    await heading(page, "Recovery codes");
    await expectUsable(page);
    expect(await codesOn(page)).toHaveLength(10);
    await page.getByRole("link", { name: "I have saved the codes" }).click();
    await page.getByRole("heading", { name: "My phone" }).waitFor();
    await expectUsable(page);

    await signOut(page);
    // The browser suggests the passkey at once, perhaps before it has loaded the page, and its authenticator always says yes.
    await page.goto(running.openid + METHODS, { waitUntil: "commit" });
    await heading(page, "Sign-in methods");
    await page.getByText("Last used").first().waitFor();
  });

  it("adds the app by keyboard alone, loses it, and comes back with a recovery code", async () => {
    const page = await browser.newPage(PHONE);
    await page.goto(running.openid + METHODS);
    await signIn(page, party.person);
    await page.getByRole("link", { name: "Add the app" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Send a code" }).focus();
    await page.keyboard.press("Enter");
    // What was done has the focus; the field comes next.
    await page.locator("[role=status]:focus").waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.type(await party.mailedCode());
    await page.getByLabel("Code from the app").waitFor();
    await expectUsable(page);
    expect(
      await page.locator(".qr img").evaluate((image: HTMLImageElement) => image.naturalWidth),
    ).toBeGreaterThan(0);
    const secret = await secretOn(page);
    await page.getByLabel("Code from the app").focus();
    await page.keyboard.type(totpCode(secret, running.clock.now()));
    await page.keyboard.press("Enter");
    await heading(page, "Recovery codes");
    const [recovery = ""] = await codesOn(page);
    await signOut(page);

    await page.goto(`${running.openid}${METHODS}/change?factor=app`);
    await signIn(page, party.person);
    await page.getByText("Use a recovery code").click();
    await page.getByLabel("Recovery code").fill(recovery);
    await page.getByRole("button", { name: "Use this code" }).click();
    await heading(page, "Authenticator app");
    await expectUsable(page);
    await page.getByRole("button", { name: "Remove the authenticator app" }).click();
    await page.getByText("The authenticator app has been removed.").waitFor();
    await expect(party.factors()).resolves.toEqual({ app: null, passkeys: [], recovery_codes_left: 0 });
  });

  it("removes a passkey that this browser still has: it signs in no more", async () => {
    const { page, authenticator } = await withAuthenticator();
    await page.goto(`${running.openid}${METHODS}/new-passkey`);
    await signIn(page, party.person);
    await confirmByMail(page, true);
    await page.getByRole("button", { name: "Create a passkey" }).click();
    await page.getByRole("link", { name: "I have saved the codes" }).click();
    await page.getByRole("link", { name: "Change", exact: true }).click();
    await heading(page, "My passkey");
    await expectUsable(page);
    await page.getByRole("button", { name: "Remove this passkey" }).click();
    await page.getByText("The passkey has been removed.").waitFor();
    await signOut(page);
    // It answers once: the page with the refusal suggests it again.
    await page.route("**/interaction/**", async (route) => {
      if (route.request().method() === "POST") await setPresence(authenticator, false);
      await route.continue();
    });
    await page.goto(running.openid + METHODS, { waitUntil: "commit" });
    await page.getByText("This passkey could not be used.").waitFor();
  });
});

describe("without JavaScript", () => {
  it("the app and the codes work, and the page for a passkey says what it needs", async () => {
    const page = await browser.newPage({ ...PHONE, javaScriptEnabled: false });
    await page.goto(`${running.openid}${METHODS}/new-app`);
    await signIn(page, party.person);
    await confirmByMail(page, false);
    const secret = await secretOn(page);
    await page.getByLabel("Code from the app").fill(totpCode(secret, running.clock.now()));
    await page.getByRole("button", { name: "Add the app" }).click();
    await heading(page, "Recovery codes");
    expect(await codesOn(page)).toHaveLength(10);
    expect(await page.getByRole("button", { name: "Copy" }).isVisible()).toBe(false);
    await page.getByRole("link", { name: "I have saved the codes" }).click();
    await page.getByRole("link", { name: "Add a passkey" }).click();
    await heading(page, "Add a passkey");
    expect(await page.content()).toContain("Passkeys need JavaScript.");
    expect(await page.getByRole("button", { name: "Create a passkey" }).isVisible()).toBe(false);
    await page.goto(`${running.openid}${METHODS}/recovery-codes`);
    await page.getByRole("button", { name: "Make new recovery codes" }).click();
    await page.locator("#codes code").nth(9).waitFor();
    expect(new Set(await codesOn(page)).size).toBe(10);
  });
});
