/** The page for the second factor in a real browser, with the authenticator that Chromium has for tests. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { CDPSession, Page } from "playwright-core";
import type { AccountInternals } from "../../accounts/account.ts";
import { factorStateOf } from "../../accounts/factors/factor.ts";
import { createPasskeys, type PasskeysOptions } from "../../accounts/factors/passkeys.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { newProof } from "../flows/public-party.ts";
import { ADA, BOB, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { type PageOptions, signIn, TestBrowser, violations } from "./chromium.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const PHONE: PageOptions = { viewport: { width: 390, height: 844 } };

let browser: TestBrowser;
let running: RunningService;
let page: Page;
let authenticator: { readonly session: CDPSession; readonly authenticatorId: string };

beforeAll(async () => {
  browser = await TestBrowser.launch();
  running = await startService({
    // Browsers make no passkeys for IP addresses.
    deployments(origin) {
      const base = origin.replace("127.0.0.1", "localhost");
      return { oauth2: { url: base }, openid: { url: `${base}/openid` } };
    },
  });
  await running.service.accounts.addApp(running.bob.sub, { secret: SECRET });
});
beforeEach(async () => {
  page = await browser.newPage(PHONE);
  const session = await page.context().newCDPSession(page);
  await session.send("WebAuthn.enable");
  const { authenticatorId } = await session.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  authenticator = { session, authenticatorId };
});
afterEach(async () => {
  expect(await browser.settle()).toEqual([]);
});
afterAll(async () => {
  await running?.close();
  await browser?.close();
});

/** Adds a passkey of Chromium to Ada's account. No page does so yet. */
async function addPasskey(): Promise<void> {
  const { origin } = new URL(running.openid);
  const accounts = running.service.accounts as unknown as AccountInternals;
  const account = await accounts.record(running.ada.sub);
  if (account === undefined) throw new Error("no account");
  const relyingParty = { id: "localhost", previousIds: [], origins: [origin], name: "Sign-in" };
  const passkeys = createPasskeys({ relyingParty, clock: Date } as unknown as PasskeysOptions);
  const { challenge } = passkeys.challenge();
  const handle = account.factors?.user_handle ?? Buffer.alloc(32, 1).toString("base64url");
  const options = await passkeys.creation({ ...account, factors: undefined } as never, challenge, handle);
  await page.goto(`${running.oauth2}/health`);
  const made = await page.evaluate(async (json) => {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(json as never);
    return JSON.stringify(await navigator.credentials.create({ publicKey }));
  }, options as unknown);
  const passkey = await passkeys.checkNew(JSON.parse(made) as never, challenge, "Phone");
  if (passkey === undefined) throw new Error("the passkey was refused");
  const factor = { kind: "passkey", passkey, userHandle: handle } as const;
  const caller = { actor: { kind: "system" } } as never;
  const added = await accounts.addFactor(running.ada.sub, factor, factorStateOf(account), {}, caller);
  expect(added.kind).toBe("changed");
}

function authorize(): string {
  const [redirect_uri = ""] = NEWS.redirect_uris;
  const { code_challenge } = newProof();
  const parameters = { response_type: "code", client_id: NEWS.client_id, redirect_uri, scope: "openid" };
  const query = new URLSearchParams({ ...parameters, code_challenge, code_challenge_method: "S256" });
  return `${running.openid}/oauth2/authorize?${query}`;
}

/** Waits until the browser is sent back with a code. The client's address does not exist. */
const arrived = (): Promise<unknown> =>
  page.waitForRequest((request) => request.url().startsWith(`${NEWS.redirect_uris[0]}?code=`));

describe("a passkey after the password", () => {
  it("is asked for with one button, and signs in; refused or cancelled, the page stays", async () => {
    await addPasskey();
    await page.goto(authorize());
    await signIn(page, ADA);
    const button = page.getByRole("button", { name: "Use a passkey" });
    await button.waitFor();
    expect(await violations(page)).toEqual([]);

    const { session, authenticatorId } = authenticator;
    await session.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
    await button.click();
    await page.locator("button:focus").waitFor();
    expect(await button.isVisible()).toBe(true);

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
