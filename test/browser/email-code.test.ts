/** A code by mail in a real browser the size of a phone: the sign-in, and an account with nothing but its address. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import type { MailMessage } from "../../config/mail.ts";
import { newProof } from "../../testing/test-client.ts";
import { onLocalhost, UNLIMITED, useService } from "../flows/running-service.ts";
import {
  addAuthenticator,
  expectUsable,
  heading,
  type PageOptions,
  useBrowser,
  useClientPage,
} from "./chromium.ts";

const PHONE: PageOptions = { viewport: { width: 390, height: 844 } };
const GARDEN = { client_id: "garden", name: "Garden", service: "1" } as const;

const client = useClientPage();
const sent: MailMessage[] = [];
const browser = useBrowser();
let people = 0;

const running = useService({
  deployments: onLocalhost,
  config: {
    rateLimits: UNLIMITED,
    signIn: { emailCode: true },
    mail: { send: async (message) => void sent.push(message) },
    interactions: { registration: { passwordless: true }, locales: ["en", "de"] },
  },
});

beforeAll(() => running.service.clients.register({ ...GARDEN, redirect_uris: [client.callback] }));

const newAddress = (): string => `person${(people += 1)}@example.com`;

async function open(page: Page): Promise<void> {
  const { request } = newProof();
  const parameters = { response_type: "code", client_id: GARDEN.client_id, redirect_uri: client.callback };
  await page.goto(`${running.oauth2}/oauth2/authorize?${new URLSearchParams({ ...parameters, ...request })}`);
}

const used = new Set<string>();

/** The newest code that was not used yet. */
async function mailedCode(email: string): Promise<string> {
  for (;;) {
    const codes = sent.flatMap(({ to, text }) =>
      to === email ? (/^([0-9A-Z]{8})$/m.exec(text)?.[1] ?? []) : [],
    );
    const code = codes.findLast((each) => !used.has(each));
    if (code !== undefined) {
      used.add(code);
      return code;
    }
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

/** Up to the page for the code. */
async function asking(page: Page, email: string): Promise<void> {
  await open(page);
  await page.getByRole("link", { name: "Email me a code instead" }).click();
  await heading(page, "Sign in with a code");
  await page.getByLabel("Username or email address").fill(email);
  await page.getByRole("button", { name: "Email me a code" }).click();
  await heading(page, "Enter your code");
}

describe("a code by mail", () => {
  it("signs in as soon as it is complete, after a wrong one and another name", async () => {
    const email = newAddress();
    await running.service.accounts.import({ email, email_verified: true, password: "a long sentence" });
    const page = await browser.newPage(PHONE);
    await asking(page, "nobody@example.com");
    await expectUsable(page);
    await page.getByRole("button", { name: "Change" }).click();
    await heading(page, "Sign in with a code");
    await expectUsable(page);
    await page.getByLabel("Username or email address").fill(email);
    await page.getByRole("button", { name: "Email me a code" }).click();
    await heading(page, "Enter your code");
    await page.getByText(email, { exact: true }).waitFor();
    const field = page.getByLabel("Code from the message");
    expect(await field.getAttribute("autocomplete")).toBe("one-time-code");
    await field.fill("00000000");
    await page.getByText("This code is wrong.").first().waitFor();
    await expectUsable(page);
    await mailedCode(email);
    await page.getByRole("button", { name: "Send a new code" }).click();
    await page.getByRole("status").getByText("a new code is on its way").waitFor();
    await expectUsable(page);
    const back = client.arrived(page);
    await field.fill(await mailedCode(email));
    await back;
  });

  it("signs in without scripts, in German", async () => {
    const email = newAddress();
    await running.service.accounts.import({ email, email_verified: true });
    const page = await browser.newPage({ ...PHONE, javaScriptEnabled: false });
    await asking(page, email);
    await page.getByRole("link", { name: "Deutsch" }).click();
    await heading(page, "Code eingeben");
    await page.getByLabel("Code").fill(await mailedCode(email));
    const back = client.arrived(page);
    await page.getByRole("button", { name: "Anmelden" }).click();
    await back;
  });
});

describe("an account with nothing but its address", () => {
  it("is made without a passkey, and offered one at the first sign-in by code [D-MAILCODE-17, D-MAILCODE-18]", async () => {
    const email = newAddress();
    const page = await browser.newPage(PHONE);
    await addAuthenticator(page);
    await open(page);
    await page.getByRole("link", { name: "Create an account" }).click();
    await page.getByLabel("Email address").fill(email);
    await page.getByRole("button", { name: "Continue without a password" }).click();
    await heading(page, "Confirm your email address");
    await page.getByLabel("Code from the message").fill(await mailedCode(email));
    await heading(page, "Create your passkey");
    await expectUsable(page);
    const back = client.arrived(page);
    await page.getByRole("button", { name: "Not now" }).click();
    await back;
    await page.context().clearCookies();
    await asking(page, email);
    await page.locator("input[name=can_add_passkey]").waitFor({ state: "attached" });
    await page.getByLabel("Code from the message").fill(await mailedCode(email));
    await heading(page, "Sign in faster next time");
  });
});
