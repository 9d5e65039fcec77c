/** Registration and forgotten passwords in a real browser, by mouse and by keyboard, and the UI of the documentation. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import {
  ASKS,
  codeIn,
  linkIn,
  type SelfService,
  startSelfService,
  TERMS,
} from "../interactions/self-service.ts";
import { heading, signIn, useBrowser, useClientPage, violations } from "./chromium.ts";
import { ownAccount, ownUi } from "./own-ui.ts";
import { beforeTests } from "../closing.ts";

const PASSWORD = "a long sentence about nothing";

const browser = useBrowser();
const client = useClientPage();
let count = 0;

const service = beforeTests(() => startSelfService({ registration: { ...ASKS, terms: TERMS } }));

beforeAll(async () => {
  await service.service.clients.update("news", { redirect_uris: [client.callback] });
});

function authorize(running: SelfService = service): string {
  const query = { client_id: "news", response_type: "code", redirect_uri: client.callback };
  return `${running.oauth2}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
}

function newAddress(): string {
  count += 1;
  return `walker-${count}@example.org`;
}

/** The address of a new account. */
async function newAccount(): Promise<string> {
  const { email } = await service.service.accounts.create({
    email: newAddress(),
    password: "the password before it",
  });
  return email;
}

async function arrived(page: Page): Promise<void> {
  await page.waitForURL(`${client.callback}?**`);
  expect(new URL(page.url()).searchParams.get("code")).toMatch(/^[\w-]{43}$/);
}

/** Accepts the terms, which are new to accounts that did not register. */
async function acceptTerms(page: Page): Promise<void> {
  await page.getByLabel("I accept the terms of use").check();
  await page.getByRole("button", { name: "Continue" }).click();
}

describe.each([
  ["with JavaScript", true],
  ["without JavaScript", false],
])("a person %s", (_name, javaScriptEnabled) => {
  it("registers, corrects a mistake, types the code, and is where they were going", async () => {
    const page = await browser.newPage({ javaScriptEnabled, viewport: { width: 320, height: 640 } });
    await page.goto(authorize());
    await page.getByRole("link", { name: "Create an account" }).click();
    await heading(page, "Create an account");
    const email = newAddress();
    await page.getByLabel("Email address").fill(email);
    await page.getByLabel("Given name").fill("Eve");
    await page.getByLabel("Date of birth").fill("1990-12-10");
    await page.getByLabel("Gender").selectOption({ label: "Other" });
    await page.getByLabel("Password").fill("password");
    await page.getByLabel("I accept the terms of use").check();
    await page.getByRole("button", { name: "Create account" }).click();
    await expect(page.locator(".problem").innerText()).resolves.toContain("most common passwords");
    await expect(page.getByLabel("Given name").inputValue()).resolves.toBe("Eve");
    await expect(page.getByLabel("I accept the terms of use").isChecked()).resolves.toBe(true);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByText(`We have sent a message to ${email}.`).waitFor();
    await page.getByLabel("Code from the message").fill(codeIn(await service.mailTo(email)));
    // The script sends a complete code.
    if (!javaScriptEnabled) await page.getByRole("button", { name: "Continue" }).click();
    await arrived(page);
  });

  it("follows the link of the mail in the same browser, and is where they were going", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize());
    await page.getByRole("link", { name: "Create an account" }).click();
    await heading(page, "Create an account");
    const email = newAddress();
    await page.getByLabel("Email address").fill(email);
    await page.getByLabel("Given name").fill("Eve");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("I accept the terms of use").check();
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByText(`We have sent a message to ${email}.`).waitFor();
    await page.goto(linkIn(await service.mailTo(email)));
    expect(page.url()).not.toContain("token");
    await page.getByText(`Continue to confirm ${email}`).waitFor();
    await page.getByRole("button", { name: "Continue" }).click();
    await arrived(page);
  });

  it("forgets the password, chooses a new one, signs in with it, and is where they were going", async () => {
    const email = await newAccount();
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize());
    await page.getByRole("link", { name: "Forgot password?" }).click();
    await heading(page, "Forgot your password?");
    await page.getByLabel("Username or email address").fill(email);
    await page.getByRole("button", { name: "Send message" }).click();
    await heading(page, "Choose a new password");
    await page.goto(linkIn(await service.mailTo(email)));
    await page.getByLabel("New password").fill(PASSWORD);
    await page.getByRole("button", { name: "Change password" }).click();
    await page.getByText("Your password has been changed.").waitFor();
    await signIn(page, { username: email, password: PASSWORD });
    await acceptTerms(page);
    await arrived(page);
  });
});

/** Types into one field after another, from the one that the page focuses, which happens after it is visible. */
async function type(page: Page, ...texts: readonly string[]): Promise<void> {
  await page.locator("input:focus").waitFor();
  for (const [i, text] of texts.entries()) {
    if (i > 0) await page.keyboard.press("Tab");
    await page.keyboard.type(text);
  }
}

describe("by keyboard alone", () => {
  it("a person registers: the first field has the focus, Enter submits, and the summary gets the focus", async () => {
    const page = await browser.newPage();
    await page.goto(authorize());
    await page.getByRole("link", { name: "Create an account" }).focus();
    await page.keyboard.press("Enter");
    // A key pressed before the browser has drawn the page goes nowhere.
    await page.locator("input:focus").waitFor();
    await page.keyboard.press("Enter");
    await page.locator("[role=alert]:focus").waitFor();
    // From the summary to the first field.
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    const email = newAddress();
    await type(page, email, "", "Eve");
    await page.getByLabel("Password").focus();
    await page.keyboard.type(PASSWORD);
    await page.keyboard.press("Tab");
    await expect(page.locator(":focus").innerText()).resolves.toBe("Show");
    await page.keyboard.press("Tab");
    await expect(page.locator(":focus").innerText()).resolves.toBe("Read the terms of use");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Space");
    await page.keyboard.press("Enter");
    await page.getByText(`We have sent a message to ${email}.`).waitFor();
    await type(page, codeIn(await service.mailTo(email)));
    await arrived(page);
  });

  it("a person replaces a forgotten password", async () => {
    const email = await newAccount();
    const page = await browser.newPage();
    await page.goto(authorize());
    await page.locator("[name=username]:focus").waitFor();
    // Name, password, its button, link.
    for (const key of ["Tab", "Tab", "Tab"]) await page.keyboard.press(key);
    await expect(page.locator(":focus").innerText()).resolves.toBe("Forgot password?");
    await page.keyboard.press("Enter");
    await heading(page, "Forgot your password?");
    await type(page, email);
    await page.keyboard.press("Enter");
    await heading(page, "Choose a new password");
    await type(page, codeIn(await service.mailTo(email)), PASSWORD);
    await page.keyboard.press("Enter");
    await page.getByText("Your password has been changed.").waitFor();
    // The name is filled in, and the password has the focus.
    await type(page, PASSWORD);
    await page.keyboard.press("Enter");
    await heading(page, "New terms of use");
    // Past the link to the terms.
    for (const key of ["Tab", "Tab", "Space"]) await page.keyboard.press(key);
    await page.keyboard.press("Enter");
    await arrived(page);
  });
});

describe("the UI of the documentation", () => {
  it("signs in, registers and resets a password, with nothing but the JSON interface", async () => {
    const own = await startSelfService(
      { registration: ASKS, ui: "/login" },
      {
        host: ownUi,
      },
    );
    await own.service.clients.update("news", { redirect_uris: [client.callback] });
    const page = await browser.newPage();
    await page.goto(authorize(own));
    expect(new URL(page.url()).pathname).toBe("/login");
    await page.getByRole("button", { name: "Create an account" }).click();
    // The first step has a field with this label, too.
    await heading(page, "Create an account");
    const email = newAddress();
    await page.getByLabel("Email address").fill(email);
    await page.getByLabel("Given name").fill("Eve");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByLabel("Code from the message").fill(codeIn(await own.mailTo(email)));
    await page.getByRole("button", { name: "Continue" }).click();
    await arrived(page);
    const again = await browser.newPage();
    await again.goto(authorize(own));
    await again.getByRole("button", { name: "Forgot password?" }).click();
    // Both steps ask for the name.
    await again.getByLabel("Password").waitFor({ state: "detached" });
    await again.getByLabel("Username or email address").fill(email);
    await again.getByRole("button", { name: "Send message" }).click();
    await again.getByLabel("Code from the message").waitFor();
    await again.goto(linkIn(await own.mailTo(email)));
    await again.getByLabel("New password").fill(`${PASSWORD}!`);
    await again.getByRole("button", { name: "Change password" }).click();
    await again.getByText("Your password has been changed.").waitFor();
    await again.getByLabel("Username or email address").fill(email);
    await again.getByLabel("Password").fill(`${PASSWORD}!`);
    await again.getByRole("button", { name: "Sign in" }).click();
    await arrived(again);
  });
});

describe("the pages of the steps", () => {
  it("have no problems that axe finds", async () => {
    const page = await browser.newPage();
    await page.goto(authorize());
    const base = page.url();
    for (const step of ["register", "forgot-password"]) {
      await page.goto(`${base}/${step}`);
      await expect(violations(page)).resolves.toEqual([]);
      await page.locator("button[type=submit]").click();
      await page.locator(".problem").first().waitFor();
      await expect(violations(page)).resolves.toEqual([]);
    }
    await page.getByLabel("Username or email address").fill("nobody");
    await page.locator("button[type=submit]").click();
    await heading(page, "Choose a new password");
    await expect(violations(page)).resolves.toEqual([]);
  });
});

describe("the account page of docs/customize/own-account-pages.md", () => {
  it("signs in, changes the profile, says what is wrong, and changes the address [D-UI-9]", async () => {
    const own = await startSelfService(undefined, { host: ownAccount });
    const email = newAddress();
    const password = "the password before it";
    const { sub } = await own.service.accounts.create({ email, password, email_verified: true });
    const page = await browser.newPage();
    await page.goto(`${own.oauth2}/account/profile`);
    await signIn(page, { username: email, password });
    await page.getByRole("heading", { name: "Profile" }).waitFor();
    await page.getByLabel("Given name").fill("Eve");
    await page.getByLabel("Username").fill("not a name");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("letters of one alphabet").waitFor();
    await page.getByLabel("Username").fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Your profile has been saved.").waitFor();
    expect((await own.service.accounts.find(sub))?.name).toBe("Eve");
    await page.goto(`${own.oauth2}/account/email`);
    await page.getByRole("button", { name: "Change email address" }).click();
    const fresh = newAddress();
    await page.getByLabel("New email address").fill(fresh);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByLabel("Code").fill(codeIn(await own.mailTo(fresh)));
    await page.getByRole("button", { name: "Confirm new address" }).click();
    await page.getByText("Your email address has been changed.").waitFor();
    expect((await own.service.accounts.find(sub))?.email).toBe(fresh);
  });
});
