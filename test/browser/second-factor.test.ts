/** The page for the second factor in a real browser, with the authenticator that Chromium has for tests. */
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Locator, Page } from "playwright-core";
import type { PasskeyCreation } from "../../accounts/factors/passkeys.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { addPasskey } from "../../testing/add-passkey.ts";
import { newProof } from "../../testing/test-client.ts";
import { ADA, BOB, NEWS, onLocalhost, useService } from "../flows/running-service.ts";
import {
  addAuthenticator,
  type PageAuthenticator,
  type PageOptions,
  setPresence,
  signIn,
  useBrowser,
  violations,
} from "./chromium.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const PHONE: PageOptions = { viewport: { width: 390, height: 844 } };

const browser = useBrowser();
let page: Page;
let authenticator: PageAuthenticator;

const running = useService({
  deployments: onLocalhost,
});

beforeAll(async () => {
  await running.service.accounts.addApp(running.bob.sub, { secret: SECRET });
});
beforeEach(async () => {
  page = await browser.newPage(PHONE);
  authenticator = await addAuthenticator(page);
});

/** Makes a passkey in Chromium. */
async function createInPage(options: PasskeyCreation): Promise<unknown> {
  await page.goto(`${running.oauth2}/health`);
  const made = await page.evaluate(async (json) => {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
      json as PublicKeyCredentialCreationOptionsJSON,
    );
    return JSON.stringify(await navigator.credentials.create({ publicKey }));
  }, options as unknown);
  return JSON.parse(made) as unknown;
}

function authorize(): string {
  const [redirect_uri = ""] = NEWS.redirect_uris;
  const { request } = newProof();
  const parameters = { response_type: "code", client_id: NEWS.client_id, redirect_uri, scope: "openid" };
  const query = new URLSearchParams({ ...parameters, ...request });
  return `${running.openid}/oauth2/authorize?${query}`;
}

/** Whether somebody answers at once, whatever the browser asks the authenticator for. */
const present = (enabled: boolean): Promise<void> => setPresence(authenticator, enabled);

/** Presses it as scripts do: it has the focus as soon as the browser has refused, and not before. */
async function pressInVain(pressed: Locator): Promise<void> {
  await pressed.evaluate((each: HTMLButtonElement) => each.click());
  await pressed.and(page.locator(":focus")).waitFor();
}

/** Waits until the browser is sent back with a code. The client's address does not exist. */
const arrived = (): Promise<unknown> =>
  page.waitForRequest((request) => request.url().startsWith(`${NEWS.redirect_uris[0]}?code=`));

describe("a passkey after the password", () => {
  it("is asked for with one button, and signs in; refused or cancelled, the page stays", async () => {
    await addPasskey(running, running.ada.sub, Date, createInPage);
    await present(false);
    await page.goto(authorize());
    await signIn(page, ADA);
    const button = page.getByRole("button", { name: "Use a passkey" });
    await button.waitFor();
    expect(await violations(page)).toEqual([]);
    await present(true);

    const { session, authenticatorId } = authenticator;
    await session.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
    await pressInVain(button);

    await session.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true });
    const back = arrived();
    await button.press("Enter");
    await back;
  });

  it("is not offered without scripts, and the page says why", async () => {
    const plain = await browser.newPage({ ...PHONE, javaScriptEnabled: false });
    await plain.goto(authorize());
    await signIn(plain, ADA);
    await plain.getByText("Use a recovery code").waitFor();
    expect(await plain.getByRole("button", { name: "Use a passkey" }).isVisible()).toBe(false);
  });
});

const button = () => page.getByRole("button", { name: "Sign in with a passkey" });
const verify = (isUserVerified: boolean): Promise<unknown> =>
  authenticator.session.send("WebAuthn.setUserVerified", {
    authenticatorId: authenticator.authenticatorId,
    isUserVerified,
  });

/** A first page in a browser with a passkey of Ada, which nobody uses yet. */
async function openFirstPage(): Promise<void> {
  await addPasskey(running, running.ada.sub, Date, createInPage);
  await present(false);
  await page.goto(authorize());
  await button().waitFor();
}

describe("a passkey on the first page", () => {
  it("signs in by the button, refused at first, and by keyboard; the next time it comes first [D-FACTOR-39]", async () => {
    await openFirstPage();
    expect(await violations(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await verify(false);
    await present(true);
    await pressInVain(button());
    // The browser suggests it again, too.
    const back = arrived();
    await verify(true);
    await page.keyboard.press("Enter");
    await back;

    const again = await page.context().newPage();
    await again.goto(`${authorize()}&prompt=login`);
    await again.getByRole("button", { name: "Sign in with a passkey" }).waitFor();
    const names = await again.getByRole("button").allInnerTexts();
    expect(names.indexOf("Sign in with a passkey")).toBeLessThan(names.indexOf("Sign in"));
    expect(await violations(again)).toEqual([]);
  });

  it("signs in by what the browser suggests in the field [D-FACTOR-39]", async () => {
    await openFirstPage();
    expect(await page.getByLabel("Username or email address").getAttribute("autocomplete")).toBe(
      "username webauthn",
    );
    // Chromium for tests takes the first suggestion at once.
    await present(true);
    const back = arrived();
    await page.reload({ waitUntil: "commit" });
    await back;
  });

  it("leaves the password as a way, with the same page", async () => {
    await openFirstPage();
    await page.getByLabel("Username or email address").fill(BOB.username);
    await page.getByLabel("Password", { exact: true }).fill(BOB.password);
    await page.keyboard.press("Enter");
    await page.getByLabel("Code from the app").waitFor();
  });

  it("of nobody here is refused in words, and the page asks again", async () => {
    await openFirstPage();
    const { accounts } = running.service;
    const { passkeys = [] } = (await accounts.factors(running.ada.sub)) ?? {};
    for (const { id } of passkeys) await accounts.removeFactor(running.ada.sub, id);
    // Nobody answers once more.
    await page.route("**/interaction/**", async (route) => {
      if (route.request().method() === "POST") await present(false);
      await route.continue();
    });
    await present(true);
    await button().click();
    await page.getByRole("status").filter({ hasText: "could not be used" }).waitFor();
    await button().waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it("is not offered without scripts: the page is as before [D-FACTOR-39]", async () => {
    const plain = await browser.newPage({ ...PHONE, javaScriptEnabled: false });
    await plain.goto(authorize());
    await plain.getByRole("button", { name: "Sign in", exact: true }).waitFor();
    expect(await plain.getByRole("button", { name: "passkey" }).isVisible()).toBe(false);
    await signIn(plain, BOB);
    await plain.getByLabel("Code from the app").waitFor();
  });
});

describe("a code of the app after the password", () => {
  it("signs in by keyboard alone, after a wrong one", async () => {
    await page.goto(authorize());
    await signIn(page, BOB);
    await page.getByLabel("Code from the app").and(page.locator(":focus")).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.keyboard.type("000000");
    await page.keyboard.press("Enter");
    await page.locator("[name=code][aria-invalid=true]:focus").waitFor();
    await page.keyboard.type(totpCode(SECRET, Date.now()));
    const back = arrived();
    await page.keyboard.press("Enter");
    await back;
  });
});
