/** The list of sign-in methods after a reset, in a real browser the size of a phone. */
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { totpCode } from "../../testing/totp-code.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { newProof } from "../../testing/test-client.ts";
import { onLocalhost } from "../flows/running-service.ts";
import { codeIn, startSelfService } from "../interactions/self-service.ts";
import { expectUsable, heading, type PageOptions, signIn, useBrowser, useClientPage } from "./chromium.ts";
import { beforeTests } from "../closing.ts";

const PHONE: PageOptions = {
  viewport: { width: 390, height: 844 },
  userAgent:
    "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
};
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const PASSWORD = "a lighthouse in the fog";
const SHOP = { client_id: "corner-shop", name: "Corner shop", service: "1" } as const;

const client = useClientPage();
const browser = useBrowser();
let people = 0;
let person: { readonly username: string; readonly password: string; readonly sub: string };

const running = beforeTests(() =>
  startSelfService(undefined, {
    deployments: onLocalhost,
    config: { secondFactor: { remember: 30 } },
  }),
);

beforeAll(async () => {
  await running.service.clients.register({ ...SHOP, redirect_uris: [client.callback] });
});
/** Somebody with an app and a passkey. */
beforeEach(async () => {
  people += 1;
  const username = `person${people}@example.com`;
  const account = { email: username, password: "the old lighthouse", email_verified: true };
  const { sub } = await running.service.accounts.create(account);
  await running.service.accounts.addApp(sub, { secret: SECRET });
  await addPhone(running, sub, Date);
  person = { username, password: PASSWORD, sub };
});

function authorize(): string {
  const parameters = { response_type: "code", client_id: SHOP.client_id, redirect_uri: client.callback };
  const { request } = newProof();
  const query = new URLSearchParams({ ...parameters, ...request });
  return `${running.oauth2}/oauth2/authorize?${query}`;
}

/** The code in the newest mail that has one. */
async function mailedCode(): Promise<string> {
  for (;;) {
    const code = codeIn(await running.mailTo(person.username));
    if (code !== "") return code;
  }
}

/** A page at the list, after "Forgot password?" and the app. */
async function looking(options: PageOptions): Promise<Page> {
  const page = await browser.newPage(options);
  await page.goto(authorize());
  await page.getByRole("link", { name: "Forgot password?" }).click();
  await heading(page, "Forgot your password?");
  await page.locator("[name=username]").fill(person.username);
  await page.getByRole("button", { name: "Send message" }).click();
  await heading(page, "Choose a new password");
  await page.locator("[name=code]").fill(await mailedCode());
  await page.locator("[name=password]").fill(PASSWORD);
  await page.getByRole("button", { name: "Change password" }).click();
  await page.getByText("Your password has been changed.").waitFor();
  await signIn(page, person);
  await page.getByLabel("Don’t ask again in this browser").check();
  await page.getByLabel("Code from the app").fill(totpCode(SECRET, Date.now()));
  await page.getByRole("button", { name: "Continue" }).click();
  await heading(page, "Check your sign-in methods");
  return page;
}

/** The row with this name. */
const row = (page: Page, name: string) => page.getByRole("listitem").filter({ hasText: name });

describe("after a reset", () => {
  it.each([
    ["with scripts", PHONE],
    ["without scripts", { ...PHONE, javaScriptEnabled: false }],
  ])("a person looks at what signs in, removes some of it, and goes on, %s", async (_name, options) => {
    const page = await looking(options);
    const names = await page.locator("main strong").allInnerTexts();
    expect(names).toEqual(["Authenticator app", "Phone", "Chrome on Android"]);
    if (options === PHONE) await expectUsable(page);

    await row(page, "Chrome").getByRole("button", { name: "Remove" }).click();
    await page.getByRole("status").filter({ hasText: "no longer remembered" }).waitFor();
    const button = row(page, "Phone").getByRole("button", { name: "Remove" });
    expect(await button.evaluate((each) => each.getBoundingClientRect().height)).toBeGreaterThanOrEqual(44);
    // By keyboard.
    await button.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("status").filter({ hasText: "other devices are signed out" }).waitFor();
    await page.getByText("This is your last one").waitFor();
    await page.waitForLoadState();
    expect(await page.locator("main strong").allInnerTexts()).toEqual(["Authenticator app"]);
    if (options === PHONE) await expectUsable(page);

    const back = client.arrived(page);
    await page.getByRole("button", { name: "Continue" }).click();
    await back;
    const factors = await running.service.accounts.factors(person.sub);
    expect([factors?.app !== null, factors?.passkeys]).toEqual([true, []]);
  });

  it("a person removes everything, and the page says that only the password is left", async () => {
    const page = await looking(PHONE);
    for (const name of ["Phone", "Authenticator app"]) {
      await row(page, name).getByRole("button", { name: "Remove" }).click();
      await row(page, name).waitFor({ state: "detached" });
    }
    await page.getByText("Only your password signs you in now.").waitFor();
    await expectUsable(page);
    const back = client.arrived(page);
    await page.getByRole("button", { name: "Continue" }).click();
    await back;
  });
});
