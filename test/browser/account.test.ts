/** What a new person does with an account on a phone, in a real browser without JavaScript. */
import { beforeAll, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { UNLIMITED, useService } from "../flows/running-service.ts";
import { heading, signIn, useBrowser, useClientPage } from "./chromium.ts";
import type { MailMessage } from "../../config/mail.ts";

const EMAIL = "grace@example.com";
const NEW_EMAIL = "grace.hopper@example.org";
const PASSWORD = "a compiler in the attic";
const NEW_PASSWORD = "a moth between two relays";
const PHONE =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1";

const mails: MailMessage[] = [];
const browser = useBrowser();
const client = useClientPage();
const running = useService({
  config: {
    mail: async (mail) => void mails.push(mail),
    interactions: { registration: true },
    rateLimits: { interactions: UNLIMITED.interactions },
  },
});

beforeAll(async () => {
  await running.service.clients.update("news", { redirect_uris: [client.callback] });
});

const phone = (userAgent = PHONE): Promise<Page> =>
  browser.newPage({ javaScriptEnabled: false, viewport: { width: 390, height: 760 }, userAgent });

/** The next mail to an address: its code, and the address of its link. */
async function mailTo(page: Page, address: string): Promise<{ code: string; link: string }> {
  for (let tries = 0; tries < 5_000; tries += 1) {
    const at = mails.findIndex(({ to, text }) => to === address && /\/confirm\?token=/.test(text));
    const [mail] = at === -1 ? [] : mails.splice(at, 1);
    if (mail !== undefined) {
      const code = /^[0-9A-HJKMNP-TV-Z]{8}$/m.exec(mail.text)?.[0] ?? "";
      return { code, link: /https?:\S+\/confirm\?token=[\w-]+/.exec(mail.text)?.[0] ?? "" };
    }
    await page.waitForTimeout(10);
  }
  throw new Error(`no mail to ${address}`);
}

const said = (page: Page, text: string): Promise<void> =>
  page.getByRole("status").filter({ hasText: text }).waitFor();
const press = (page: Page, name: string): Promise<void> => page.getByRole("button", { name }).click();

/** Follows a link to a page with this heading. */
async function follow(page: Page, name: string, title = name): Promise<void> {
  await page.getByRole("link", { name }).click();
  await heading(page, title);
}

function authorize(): string {
  const query = { client_id: "news", response_type: "code", redirect_uri: client.callback, scope: "openid" };
  return `${running.openid}/oauth2/authorize?${new URLSearchParams(query)}`;
}

it("registers, comes back with a new password, changes the address, ends a session, disconnects and deletes [D-SELF-1]", async () => {
  const page = await phone();
  await page.goto(authorize());
  await follow(page, "Create an account");
  await page.getByLabel("Email address").fill(EMAIL);
  await page.getByLabel("Password").fill(PASSWORD);
  await press(page, "Create account");
  await page.getByLabel("Code").fill((await mailTo(page, EMAIL)).code);
  await press(page, "Continue");
  await page.waitForURL(`${client.callback}?**`);

  // The password is forgotten on another phone.
  const other = await phone();
  await other.goto(authorize());
  await follow(other, "Forgot password?", "Forgot your password?");
  await other.getByLabel("Username or email address").fill(EMAIL);
  await press(other, "Send message");
  await other.getByLabel("Code").fill((await mailTo(other, EMAIL)).code);
  await other.getByLabel("New password").fill(NEW_PASSWORD);
  await press(other, "Change password");
  await other.getByText("Your password has been changed.").waitFor();
  await signIn(other, { username: EMAIL, password: NEW_PASSWORD });
  await other.waitForURL(`${client.callback}?**`);

  // Everything of the account has ended, so this one signs in again.
  await page.goto(`${running.openid}/account`);
  await heading(page, "Sign in");
  await signIn(page, { username: EMAIL, password: NEW_PASSWORD });
  await heading(page, "Your account");

  await follow(page, "Profile");
  await page.getByLabel("Given name").fill("Grace");
  await page.getByLabel("Date of birth").fill("1906-12-09");
  await press(page, "Save");
  await said(page, "Your profile has been saved.");
  await follow(page, "Your account");

  await follow(page, "Email address");
  await follow(page, "Change email address", "Change your email address");
  await page.getByLabel("New email address").fill(NEW_EMAIL);
  await press(page, "Continue");
  await page.getByLabel("Code").waitFor();
  await page.goto((await mailTo(page, NEW_EMAIL)).link);
  await press(page, "Confirm new address");
  await said(page, "Your email address has been changed.");
  await follow(page, "Your account");

  await follow(page, "Where you are signed in");
  await page.getByText("This browser", { exact: true }).waitFor();
  expect(await page.getByRole("heading", { level: 2 }).allInnerTexts()).toEqual([
    "Safari on iPhone",
    "Safari on iPhone",
  ]);
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await said(page, "That device has been signed out.");
  await other.goto(`${running.oauth2}/account`);
  await heading(other, "Sign in");
  await follow(page, "Your account");

  await follow(page, "Connected services");
  await page.getByText(/Can read: .*Date of birth/).waitFor({ state: "visible" });
  await page.getByText("Disconnect", { exact: true }).click();
  await press(page, "Disconnect News");
  await said(page, "The service has been disconnected.");
  await page.getByText("No services yet.").waitFor();
  await follow(page, "Your account");

  await follow(page, "Delete your account");
  await press(page, "Delete my account for good");
  await heading(page, "Your account has been deleted");
  expect(await running.service.accounts.findByLogin(NEW_EMAIL)).toBeUndefined();
  await page.goto(`${running.openid}/account`);
  await heading(page, "Sign in");
});
