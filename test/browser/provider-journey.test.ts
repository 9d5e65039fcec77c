/** Another provider in a real browser the size of a phone: from the first sign-in to an account that no longer needs it. */
import { describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import type { MailMessage } from "../../config/mail.ts";
import { newProof } from "../../testing/test-client.ts";
import { beforeTests } from "../closing.ts";
import { startWithProvider } from "../flows/provider-party.ts";
import { onLocalhost, UNLIMITED } from "../flows/running-service.ts";
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
const METHODS = "/account/sign-in-methods";

const client = useClientPage();
const browser = useBrowser();
const sent: MailMessage[] = [];
let people = 0;

const party = beforeTests(async () => {
  const started = await startWithProvider(
    { trustsEmail: true, name: "Corp ID" },
    {
      deployments: onLocalhost,
      config: {
        rateLimits: UNLIMITED,
        mail: { send: async (message) => void sent.push(message) },
        interactions: { registration: {}, locales: ["en", "de", "pl", "uk"] },
      },
    },
  );
  await started.service.clients.register({ ...GARDEN, redirect_uris: [client.callback] });
  return started;
});

/** Somebody new at the provider. */
function newcomer(): { readonly sub: string; readonly email: string } {
  people += 1;
  const person = { sub: `there-${people}`, email: `person${people}@corp.example` };
  party.provider.signIn({ ...person, email_verified: true, name: "Grace Hopper" });
  return person;
}

async function open(page: Page, kind: "oauth2" | "openid" = "openid", more: Record<string, string> = {}) {
  const { request } = newProof();
  const parameters = { response_type: "code", client_id: GARDEN.client_id, redirect_uri: client.callback };
  const query = new URLSearchParams({ ...parameters, ...request, ...more });
  await page.goto(`${party[kind]}/oauth2/authorize?${query}`);
}

async function mailedCode(email: string): Promise<string> {
  for (;;) {
    const codes = sent.flatMap(({ to, text }) =>
      to === email ? (/^([0-9A-Z]{8})$/m.exec(text)?.[1] ?? []) : [],
    );
    const code = codes.at(-1);
    if (code !== undefined) return code;
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

describe("a person who comes by a provider", () => {
  it("makes an account, adds a passkey, removes the provider, and still gets in", async () => {
    const { email } = newcomer();
    const page = await browser.newPage(PHONE);
    await addAuthenticator(page);
    await open(page);
    await expectUsable(page);
    await page.getByRole("button", { name: "Sign in with Corp ID" }).click();
    await heading(page, "Create your account");
    await expectUsable(page);
    await page.getByRole("button", { name: "Create account" }).click();
    await client.arrived(page);

    await page.goto(party.openid + METHODS);
    await heading(page, "Sign-in methods");
    await page.getByText("This is your only way to sign in.").waitFor();
    await expectUsable(page);
    await page.getByRole("link", { name: "Add a passkey" }).click();
    await page.getByRole("button", { name: "Send a code" }).click();
    await page.getByLabel("Code").fill(await mailedCode(email));
    await page.getByLabel("Name of the passkey").waitFor();
    await page.getByRole("button", { name: "Create a passkey" }).click();
    await heading(page, "Recovery codes");
    await page.getByRole("link", { name: "I have saved the codes" }).click();
    await page.getByRole("link", { name: "Remove…" }).click();
    await heading(page, "Remove Corp ID?");
    await expectUsable(page);
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByText("The linked account has been removed.").waitFor();

    await page.goto(`${party.openid}/account`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await heading(page, "You are signed out");
    // The browser may suggest the passkey by itself, and its authenticator always says yes.
    await page.goto(party.openid + METHODS, { waitUntil: "commit" });
    await heading(page, "Sign-in methods");
    await page.getByRole("button", { name: "Link Corp ID" }).waitFor();
  });

  it.each(["oauth2", "openid"] as const)("needs no JavaScript at %s", async (kind) => {
    newcomer();
    const page = await browser.newPage({ ...PHONE, javaScriptEnabled: false });
    await open(page, kind);
    await page.getByRole("button", { name: "Sign in with Corp ID" }).click();
    await heading(page, "Create your account");
    await page.getByRole("button", { name: "Create account" }).click();
    await client.arrived(page);
  });

  it("is back with the client after the page that its hint asks for", async () => {
    const { sub, email } = newcomer();
    const { sub: account } = await party.service.accounts.create({ email, email_verified: true });
    await party.link(account, { sub, email });
    const page = await browser.newPage(PHONE);
    await open(page, "openid", { provider_hint: "corp" });
    await heading(page, "Sign in with Corp ID");
    await expectUsable(page);
    await page.getByRole("button", { name: "Continue to Corp ID" }).click();
    await client.arrived(page);
  });

  it("links it on the account page, and sees both parties first", async () => {
    newcomer();
    const username = `owner${people}`;
    const email = `${username}@example.com`;
    const password = "a password of one's own";
    await party.service.accounts.create({ username, email, password, email_verified: true });
    const page = await browser.newPage(PHONE);
    await page.goto(party.openid + METHODS);
    await page.getByLabel("Username or email address").fill(username);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await heading(page, "Sign-in methods");
    await page.getByRole("button", { name: "Link Corp ID" }).click();
    await page.getByRole("button", { name: "Send a code" }).click();
    await page.getByLabel("Code").fill(await mailedCode(email));
    await heading(page, "Link Corp ID to your account?");
    await expectUsable(page);
    await page.getByRole("button", { name: "Link", exact: true }).click();
    await page.getByText("The account has been linked.").waitFor();
    await expectUsable(page);
  });

  it.each([
    ["de", "Mit Corp ID anmelden"],
    ["pl", "Corp ID"],
    ["uk", "Corp ID"],
  ])("reads it in %s", async (ui_locales, words) => {
    newcomer();
    const page = await browser.newPage(PHONE);
    await open(page, "openid", { ui_locales });
    expect(await page.locator("html").getAttribute("lang")).toBe(ui_locales);
    await page.getByRole("button", { name: words }).click();
    await page.locator("form#step").waitFor();
    expect(await page.locator("html").getAttribute("lang")).toBe(ui_locales);
    await expectUsable(page);
  });
});
