/** A first factor in a sign-in, in a real browser the size of a phone, with the authenticator that Chromium has for tests. */
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { totpCode } from "../../testing/totp-code.ts";
import { newProof } from "../../testing/test-client.ts";
import {
  onLocalhost,
  type RunningService,
  startService,
  UNLIMITED,
  useService,
} from "../flows/running-service.ts";
import {
  addAuthenticator,
  expectUsable,
  heading,
  type PageAuthenticator,
  type PageOptions,
  setPresence,
  signIn,
  useBrowser,
  useClientPage,
} from "./chromium.ts";
import { ownUi } from "./own-ui.ts";
import type { MailMessage } from "../../config/mail.ts";

const PHONE: PageOptions = { viewport: { width: 390, height: 844 } };
const PASSWORD = "a long sentence about nothing";
const VAULT = { client_id: "vault", name: "Vault", service: "1", second_factor: "required" } as const;
/** Needs no second factor. */
const GARDEN = { client_id: "garden", name: "Garden", service: "1" } as const;

const client = useClientPage();
const sent: MailMessage[] = [];
const browser = useBrowser();
let people = 0;
let email: string;

const running = useService({
  deployments: onLocalhost,
  config: {
    rateLimits: UNLIMITED,
    mail: { send: async (message) => void sent.push(message) },
    interactions: { registration: { passwordless: true } },
  },
});

beforeAll(async () => {
  for (const each of [VAULT, GARDEN])
    await running.service.clients.register({ ...each, redirect_uris: [client.callback] });
});
beforeEach(async () => {
  people += 1;
  email = `person${people}@example.com`;
  await running.service.accounts.create({ email, password: PASSWORD, email_verified: true });
});

function authorize(
  { oauth2 }: RunningService = running,
  { client_id } = VAULT as { client_id: string },
): string {
  const parameters = { response_type: "code", client_id, redirect_uri: client.callback };
  const { request } = newProof();
  const query = new URLSearchParams({ ...parameters, ...request });
  return `${oauth2}/oauth2/authorize?${query}`;
}

async function mailedCode(): Promise<string> {
  for (;;) {
    const found = sent.find(({ to }) => to === email);
    const code = /^([0-9A-Z]{8})$/m.exec(found?.text ?? "")?.[1];
    if (code !== undefined) return code;
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

/** A page at the step `enrol`. */
async function enrolling(options: PageOptions): Promise<Page> {
  const page = await browser.newPage(options);
  await page.goto(authorize());
  await signIn(page, { username: email, password: PASSWORD });
  await heading(page, "Secure your account");
  if (options.javaScriptEnabled !== false) await expectUsable(page);
  await page.getByLabel("Code from the message").fill(await mailedCode());
  if (options.javaScriptEnabled === false) await page.getByRole("button", { name: "Continue" }).click();
  await heading(page, "Add a second factor");
  return page;
}

/** A new visit, with the passkey that was just made. */
async function signsInByPasskey(page: Page, authenticator: PageAuthenticator): Promise<void> {
  await page.context().clearCookies();
  await setPresence(authenticator, false);
  await page.goto(authorize(running, GARDEN));
  const button = page.getByRole("button", { name: "Sign in with a passkey" });
  await button.waitFor();
  await setPresence(authenticator, true);
  const back = client.arrived(page);
  await button.click();
  await back;
}

/** Says that the codes are kept. */
async function finish(page: Page): Promise<void> {
  const back = client.arrived(page);
  await page.getByLabel("I have saved the codes").check();
  await page.getByRole("button", { name: "Continue" }).click();
  await back;
}

describe("a person without a second factor", () => {
  it.each([
    ["with scripts", PHONE],
    ["without scripts", { ...PHONE, javaScriptEnabled: false }],
  ])("adds an authenticator app, %s", async (_name, options) => {
    const page = await enrolling(options);
    const details = page.getByText("Use an authenticator app");
    await details.click();
    const image = page.getByRole("img", { name: "QR code for the authenticator app" });
    expect(await image.evaluate((each) => (each as HTMLImageElement).naturalWidth)).toBeGreaterThan(0);
    if (options === PHONE) await expectUsable(page);
    const field = page.getByLabel("Code from the app");
    expect(await field.getAttribute("inputmode")).toBe("numeric");
    expect(await field.getAttribute("autocomplete")).toBe("one-time-code");
    await field.fill("000000");
    await page.getByRole("button", { name: "Add the app" }).click();
    // What was wrong is said, and the form is open again, with the same key.
    await page.getByText("This code is wrong").first().waitFor();
    const key = (await page.locator(".app-key").textContent()) ?? "";
    await field.fill(totpCode(key, Date.now()));
    await page.getByRole("button", { name: "Add the app" }).click();
    await heading(page, "Save your recovery codes");
    expect(await page.locator(".codes code").count()).toBe(10);
    if (options === PHONE) {
      await expectUsable(page);
      const download = page.waitForEvent("download");
      await page.getByRole("button", { name: "Download" }).click();
      expect((await download).suggestedFilename()).toBe("recovery-codes.txt");
    } else expect(await page.getByRole("button", { name: "Download" }).isVisible()).toBe(false);
    await finish(page);
  });

  it("adds a passkey", async () => {
    const page = await enrolling(PHONE);
    await addAuthenticator(page);
    await page.getByLabel("Name of the passkey").fill("Phone");
    await expectUsable(page);
    await page.getByRole("button", { name: "Create a passkey" }).click();
    await heading(page, "Save your recovery codes");
    // Reloading the page offers new codes instead of showing these again.
    await page.goto(page.url().replace(/\/enrol(?:\?.*)?$/, ""));
    expect(await page.locator(".codes code").count()).toBe(0);
    await expectUsable(page);
    await page.getByRole("button", { name: "Make new ones" }).click();
    await page.locator(".codes code").first().waitFor();
    await finish(page);
  });
});

/** The first page, when its script has found that the device can make a passkey. */
async function atLogin(page: Page): Promise<void> {
  await page.goto(authorize(running, GARDEN));
  await page.locator("input[name=can_add_passkey]").waitFor({ state: "attached" });
}

describe("a person who is asked to add a passkey", () => {
  it("adds one, signs out, and signs in with it", async () => {
    const page = await browser.newPage(PHONE);
    const authenticator = await addAuthenticator(page);
    await atLogin(page);
    await signIn(page, { username: email, password: PASSWORD });
    await heading(page, "Sign in faster next time");
    await expectUsable(page);
    await page.getByRole("button", { name: "Add a passkey" }).click();
    const field = page.getByLabel("Code from the message");
    await field.waitFor();
    await expectUsable(page);
    await field.fill(await mailedCode());
    await heading(page, "Add a passkey");
    await expectUsable(page);
    expect(await page.getByText("authenticator app").count()).toBe(0);
    await page.getByRole("button", { name: "Create a passkey" }).click();
    await heading(page, "Save your recovery codes");
    await finish(page);
    await signsInByPasskey(page, authenticator);
  });

  it.each(["Not now", "Don’t ask again"])("says no (%s), and is not asked again", async (answer) => {
    const page = await browser.newPage(PHONE);
    await addAuthenticator(page);
    await atLogin(page);
    await signIn(page, { username: email, password: PASSWORD });
    const first = client.arrived(page);
    await page.getByRole("button", { name: answer }).click();
    await first;
    await page.context().clearCookies();
    await atLogin(page);
    const second = client.arrived(page);
    await signIn(page, { username: email, password: PASSWORD });
    await second;
  });

  it("changes their mind where the passkey is made", async () => {
    const page = await browser.newPage(PHONE);
    await addAuthenticator(page);
    await atLogin(page);
    await signIn(page, { username: email, password: PASSWORD });
    await page.getByRole("button", { name: "Add a passkey" }).click();
    await page.getByLabel("Code from the message").fill(await mailedCode());
    await heading(page, "Add a passkey");
    await page.getByRole("button", { name: "Create a passkey" }).waitFor();
    const back = client.arrived(page);
    await page.getByRole("button", { name: "Not now" }).click();
    await back;
  });

  it("is nobody whose device can make none, or whose browser runs no scripts", async () => {
    const page = await browser.newPage(PHONE);
    await page.goto(authorize(running, GARDEN));
    const first = client.arrived(page);
    await signIn(page, { username: email, password: PASSWORD });
    await first;
    const plain = await browser.newPage({ ...PHONE, javaScriptEnabled: false });
    await plain.goto(authorize(running, GARDEN));
    const second = client.arrived(plain);
    await signIn(plain, { username: email, password: PASSWORD });
    await second;
  });
});

describe("a person who registers without a password", () => {
  const WITHOUT = { name: "Use a passkey instead of a password" };

  it("makes a passkey, keeps the codes, and signs in with it", async () => {
    email = `new-${people}@example.com`;
    const page = await browser.newPage(PHONE);
    const authenticator = await addAuthenticator(page);
    await page.goto(authorize(running, GARDEN));
    await page.getByRole("link", { name: "Create an account" }).click();
    await page.getByRole("button", WITHOUT).waitFor();
    await expectUsable(page);
    // The password is left empty. What is missing is said, and the rest stays.
    await page.getByRole("button", WITHOUT).click();
    await page.getByText("Enter your email address").first().waitFor();
    await page.getByLabel("Email address").fill(email);
    await page.getByRole("button", WITHOUT).click();
    await page
      .getByLabel("Code", { exact: false })
      .first()
      .fill(await mailedCode());
    await heading(page, "Create your passkey");
    await page.getByRole("button", { name: "Create a passkey" }).waitFor();
    await expectUsable(page);
    await page.getByRole("button", { name: "Create a passkey" }).click();
    await heading(page, "Save your recovery codes");
    await finish(page);
    await signsInByPasskey(page, authenticator);
  });

  it("is nobody whose browser runs no scripts", async () => {
    const page = await browser.newPage({ ...PHONE, javaScriptEnabled: false });
    await page.goto(authorize(running, GARDEN));
    await page.getByRole("link", { name: "Create an account" }).click();
    await heading(page, "Create an account");
    expect(await page.getByRole("button", WITHOUT).count()).toBe(0);
  });
});

describe("a UI of one's own, as in the documentation", () => {
  it("adds a passkey in the sign-in, and signs in with it the next time, at either deployment", async () => {
    const own = await startService({
      deployments: onLocalhost,
      config: {
        rateLimits: UNLIMITED,
        mail: { send: async (message) => void sent.push(message) },
        interactions: { ui: "/login" },
      },
      host: ownUi,
    });
    await own.service.clients.register({ ...VAULT, redirect_uris: [client.callback] });
    await own.service.accounts.create({ email, password: PASSWORD, email_verified: true });
    const page = await browser.newPage();
    await addAuthenticator(page);
    const press = (name: string): Promise<void> => page.getByRole("button", { name, exact: true }).click();
    await page.goto(authorize(own));
    await page.getByLabel("Username or email address").fill(email);
    await page.getByLabel("Password").fill(PASSWORD);
    await press("Sign in");
    await page.getByLabel("Code from the message").fill(await mailedCode());
    await press("Continue");
    await page.getByLabel("Name of the passkey").fill("Laptop");
    await press("Create a passkey");
    await page.getByText(/(?:[0-9A-Z]{5}-[0-9A-Z]{5} ?){10}/).waitFor();
    await page.getByRole("checkbox").check();
    const first = client.arrived(page);
    await press("Continue");
    await first;
    await page.context().clearCookies();
    // The other deployment, whose addresses begin with /openid.
    await page.goto(authorize({ ...own, oauth2: own.openid }));
    const second = client.arrived(page);
    await press("Sign in with a passkey");
    await second;
  });
});
