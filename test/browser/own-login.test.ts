/** examples/own-login in a real browser: a front end of a team's own over the JSON interface. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { freePorts, type Running, start } from "../examples/processes.ts";
import { createTestProvider, type ProviderPerson, type TestProvider } from "../../testing/test-provider.ts";
import { atEnd, closing, newFolder } from "../closing.ts";
import { addAuthenticator, heading, useBrowser, violations } from "./chromium.ts";

const browser = useBrowser();
let example: Running;
let origin: string;

beforeAll(async () => {
  const port = await freePorts();
  origin = `http://localhost:${port}`;
  example = start("examples/own-login/main.ts", { env: { PORT: `${port}` } });
  await example.until(/Sign in at/);
});

afterAll(async () => {
  await example?.stop();
});

const press = (page: Page, name: string): Promise<void> =>
  page.getByRole("button", { name, exact: true }).click();

async function signIn(page: Page, username: string, password: string): Promise<void> {
  await heading(page, "Sign in");
  await page.getByLabel("Username or email address").fill(username);
  await page.getByLabel("Password").fill(password);
  await press(page, "Sign in");
}

/** Signing in at the client ends with these words. */
async function ends(page: Page, text: string): Promise<void> {
  await page.waitForURL(({ pathname }) => pathname === "/callback");
  await page.getByText(text, { exact: true }).waitFor();
}

/** In the page: the status of the description of a step. */
const statusOf = async (address: string): Promise<number> =>
  (await fetch(address, { headers: { accept: "application/json" } })).status;

const usedCodes = new Set<string>();

/** The code in the newest mail to this address, once it has one that was not used yet. */
async function codeFor(address: string, at = origin): Promise<string> {
  for (;;) {
    const list = await (await fetch(`${at}/dev/mail`)).text();
    const row = list.split("<li>").find((each) => each.includes(` · ${address}</span>`));
    const path = /href="(\/dev\/mail\/\d+)"/.exec(row ?? "")?.[1];
    const message = path === undefined ? "" : await (await fetch(at + path)).text();
    const code = /^[0-9A-Z]{4}[ -]?[0-9A-Z]{4}$/m.exec(message)?.[0];
    if (code !== undefined && !usedCodes.has(code)) {
      usedCodes.add(code);
      return code;
    }
    await pause(100);
  }
}

/** The configuration of the example, at this port. */
function ownConfig(port: number): { readonly seed: { readonly accounts: readonly object[] } } {
  const text = readFileSync(new URL("../../examples/own-login/own-login.json", import.meta.url), "utf8");
  return JSON.parse(text.replaceAll("localhost:3000", `localhost:${port}`)) as ReturnType<typeof ownConfig>;
}

/** Starts another one, with its own settings. */
async function startWith(config: object, port: number): Promise<Running> {
  const file = join(newFolder(), "own-login.json");
  writeFileSync(file, JSON.stringify(config));
  const started = start("examples/own-login/main.ts", { args: ["--config", file], env: { PORT: `${port}` } });
  atEnd(() => started.stop());
  await started.until(/Sign in at/);
  return started;
}

describe("a login page of a team's own", () => {
  it("signs in after a wrong password, and asks for consent", async () => {
    const page = await browser.newPage();
    await page.goto(origin);
    await signIn(page, "ada", "wrong-password");
    await page.locator("input[name=password][aria-invalid=true]").waitFor();
    expect(await violations(page)).toEqual([]);
    await signIn(page, "ada", "lovelace-1843");
    await heading(page, "Share your data with Partner?");
    await page.getByRole("listitem").filter({ hasText: "Date of birth" }).waitFor();
    expect(await violations(page)).toEqual([]);
    await press(page, "Don’t allow");
    await ends(page, "You are not signed in.");
  });

  it("registers with a code from a mail", async () => {
    const page = await browser.newPage();
    await page.goto(origin);
    await press(page, "Create an account");
    await heading(page, "Create an account");
    await page.getByLabel("Email address").fill("grace@example.com");
    await page.getByLabel("Password").fill("cobol-and-the-moth");
    await press(page, "Create account");
    await heading(page, "Confirm your email address");
    await page.getByText("We have sent a message to grace@example.com.").waitFor();
    await page.getByLabel(/code/i).fill(await codeFor("grace@example.com"));
    await press(page, "Continue");
    await heading(page, "Share your data with Partner?");
    await press(page, "Allow");
    await ends(page, "You are signed in.");
  });

  it("signs in with a code from a mail, and asks for another one", async () => {
    const page = await browser.newPage();
    await page.goto(origin);
    await press(page, "Email me a code instead");
    await heading(page, "Sign in with a code");
    await page.getByLabel("Username or email address").fill("ada");
    await press(page, "Email me a code");
    await heading(page, "Enter your code");
    await page.getByText("ada", { exact: true }).waitFor();
    expect(await violations(page)).toEqual([]);
    await codeFor("ada@example.com");
    await press(page, "Send a new code");
    await page.getByText(/a new code is on its way/).waitFor();
    await page.getByLabel(/code/i).fill(await codeFor("ada@example.com"));
    await press(page, "Sign in");
    await heading(page, "Share your data with Partner?");
    await press(page, "Don’t allow");
    await ends(page, "You are not signed in.");
  });

  it("sets a new password for somebody who forgot theirs", async () => {
    const page = await browser.newPage();
    await page.goto(origin);
    await press(page, "Forgot password?");
    await heading(page, "Forgot your password?");
    await page.getByLabel("Username or email address").fill("ada");
    await press(page, "Send message");
    await heading(page, "Choose a new password");
    await page.getByLabel(/code/i).fill(await codeFor("ada@example.com"));
    await page.getByLabel(/password/i).fill("analytical-engine-1843");
    await press(page, "Change password");
    await signIn(page, "ada", "analytical-engine-1843");
    await heading(page, "Share your data with Partner?");
    await press(page, "Allow");
    await ends(page, "You are signed in.");
  });

  it("adds a passkey for a client that needs one, and looks at it after a reset", async () => {
    const page = await browser.newPage();
    await addAuthenticator(page);
    await page.goto(`${origin}/oauth2/authorize?response_type=code&client_id=vault`);
    await signIn(page, "grace@example.com", "cobol-and-the-moth");
    await heading(page, "Secure your account");
    await page.getByLabel(/code/i).fill(await codeFor("grace@example.com"));
    await press(page, "Continue");
    await heading(page, "Add a second factor");
    expect(await violations(page)).toEqual([]);
    await page.getByLabel("Name of the passkey").fill("Laptop");
    await press(page, "Create a passkey");
    await heading(page, "Save your recovery codes");
    expect(await page.locator("code").count()).toBe(10);
    await page.getByLabel("I have saved the codes").check();
    await press(page, "Continue");
    await ends(page, "You are signed in.");

    // After a reset, the list of sign-in methods. The last one stays, because the client requires it.
    await page.goto(`${origin}/oauth2/authorize?response_type=code&client_id=vault&prompt=login`);
    await heading(page, "Sign in");
    await press(page, "Forgot password?");
    await heading(page, "Forgot your password?");
    await page.getByLabel("Username or email address").fill("grace@example.com");
    await press(page, "Send message");
    await heading(page, "Choose a new password");
    await page.getByLabel(/code/i).fill(await codeFor("grace@example.com"));
    await page.getByLabel(/password/i).fill("the-second-moth-1947");
    await press(page, "Change password");
    await signIn(page, "grace@example.com", "the-second-moth-1947");
    await heading(page, "Confirm that it’s you");
    await press(page, "Use a passkey");
    await heading(page, "Check your sign-in methods");
    expect(await violations(page)).toEqual([]);
    const option = page.getByRole("option", { name: "Laptop (Passkey · Added " });
    await page.getByLabel("Sign-in method").selectOption((await option.getAttribute("value")) ?? "");
    await press(page, "Remove");
    await page.getByRole("alert").filter({ hasText: "your last second factor" }).waitFor();
    await press(page, "Continue");
    await ends(page, "You are signed in.");
  });

  it("starts a sign-in that has expired again, and keeps the name [D-AGAIN-4]", async () => {
    const port = await freePorts();
    const own = { ...ownConfig(port), storage: `sqlite:${join(newFolder(), "sign-in.db")}` };
    const brief = await startWith({ ...own, lifetimes: { interaction: 10 } }, port);
    const page = await browser.newPage();
    await page.goto(`http://localhost:${port}`);
    await heading(page, "Sign in");
    const address = new URL(page.url()).searchParams.get("interaction") ?? "";
    // Until the service says that the sign-in has ended.
    while ((await page.evaluate(statusOf, address)) !== 410) await pause(100);
    // The next one has all the time that a slow machine needs.
    await brief.stop();
    await startWith(own, port);
    await signIn(page, "ada", "lovelace-1843");
    await heading(page, "This sign-in is over");
    expect(await violations(page)).toEqual([]);
    await press(page, "Start again");
    await heading(page, "Sign in");
    expect(new URL(page.url()).searchParams.get("interaction")).not.toBe(address);
    expect(await page.getByLabel("Username or email address").inputValue()).toBe("ada");
    await page.getByLabel("Password").fill("lovelace-1843");
    await press(page, "Sign in");
    await heading(page, "Share your data with Partner?");
    await press(page, "Allow");
    await page.getByText("You are signed in.", { exact: true }).waitFor();
  });

  it("speaks the language of the person", async () => {
    const page = await browser.newPage();
    await page.goto(`${origin}/oauth2/authorize?response_type=code&client_id=partner&ui_locales=pl`);
    await heading(page, "Zaloguj się");
    await page.getByRole("button", { name: "Nie pamiętasz hasła?" }).waitFor();
    expect(await page.locator("html").getAttribute("lang")).toBe("pl");
    expect(await violations(page)).toEqual([]);
  });

  it.each([
    "//evil.example/interaction/1",
    "https://evil.example/interaction/1",
    "/dev/mail",
    "/oauth2/authorize?client_id=partner",
    "/interaction/1?action=deny",
    "/interaction/../oauth2/logout",
    "/interaction/1/../../dev/mail",
    "/elsewhere/interaction/1",
    "javascript:alert(1)",
  ])("follows no address but that of a sign-in: not %s", async (address) => {
    const page = await browser.newPage();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(`${origin}/login?${new URLSearchParams({ interaction: address })}`);
    await heading(page, "This sign-in is over");
    const others = asked.filter((url) => !url.startsWith(`${origin}/login`) && !url.startsWith("data:"));
    expect(others).toEqual([]);
  });
});

/** Each of these is an item of a list: the parties. */
async function shows(page: Page, ...parties: string[]): Promise<void> {
  expect(await page.getByRole("listitem").allInnerTexts()).toEqual(parties);
  expect(await violations(page)).toEqual([]);
}

/** Allows what the client asks for, which is the end. */
async function allow(page: Page): Promise<void> {
  await heading(page, "Share your data with Partner?");
  await press(page, "Allow");
  await ends(page, "You are signed in.");
}

/** Somebody whose address the provider vouches for. */
const vouched = (sub: string, email: string) => ({ sub, email, email_verified: true });

describe("a provider", () => {
  const BOB = { username: "bob", email: "bob@example.com", password: "engine-number-2" };
  let provider: TestProvider;
  let site: string;

  beforeAll(async () => {
    provider = await createTestProvider();
    closing(provider);
    const port = await freePorts();
    site = `http://localhost:${port}`;
    const { seed, ...own } = ownConfig(port);
    const bob = { ...BOB, email_verified: true, name: "Bob", surname: "Babbage" };
    const providers = { corp: { ...provider.settings, name: "Corp ID", trustsEmail: true } };
    const config = { ...own, providers, seed: { ...seed, accounts: [...seed.accounts, bob] } };
    await startWith(config, port);
  });

  /** A page at the beginning of a sign-in. */
  async function open(more: Readonly<Record<string, string>> = {}): Promise<Page> {
    const page = await browser.newPage();
    await begin(page, more);
    return page;
  }
  async function begin(page: Page, more: Readonly<Record<string, string>> = {}): Promise<void> {
    const query = { response_type: "code", client_id: "partner", ...more };
    await page.goto(`${site}/oauth2/authorize?${new URLSearchParams(query)}`);
  }
  /** Goes to the provider, where this person is signed in. */
  async function comeBack(page: Page, person: ProviderPerson | undefined): Promise<void> {
    provider.signIn(person);
    await press(page, "Sign in with Corp ID");
  }
  async function enterCode(page: Page, address: string): Promise<void> {
    await page.getByLabel(/code/i).fill(await codeFor(address, site));
    await press(page, "Continue");
  }

  it("registers somebody whom nobody knows, and signs in by it from then on", async () => {
    const page = await open();
    await comeBack(page, { ...vouched("grace-there", "grace@example.com"), given_name: "Grace" });
    await heading(page, "Create your account");
    await shows(page, "Corp ID grace@example.com");
    expect(await page.getByLabel("Email address").inputValue()).toBe("grace@example.com");
    await page.getByRole("button", { name: "Sign in and link Corp ID to it" }).waitFor();
    await press(page, "Create account");
    await allow(page);
    const next = await open();
    await press(next, "Sign in with Corp ID");
    await ends(next, "You are signed in.");
  });

  it("links the account with the address, after its password and a code", async () => {
    const page = await open();
    await comeBack(page, vouched("ada-there", "ada@example.com"));
    await heading(page, "You have an account already");
    await shows(page, "Corp ID ada@example.com");
    // For password managers.
    expect(await page.locator("input[autocomplete=username]").inputValue()).toBe("ada@example.com");
    await press(page, "Create an account with another address");
    await heading(page, "Create your account");
    expect(await page.getByLabel("Email address").inputValue()).toBe("");
    await page.reload();
    await heading(page, "You have an account already");
    await page.getByLabel("Password").fill("lovelace-1843");
    await press(page, "Sign in");
    await heading(page, "Confirm that it’s you");
    await shows(page, "Corp ID ada@example.com");
    await enterCode(page, "ada@example.com");
    await heading(page, "Link Corp ID to your account?");
    await shows(page, "Corp ID ada@example.com", "ada@example.com");
    await press(page, "Link");
    await allow(page);

    // Where the provider does not say when, a recent sign-in takes the password.
    const again = await open({ prompt: "login" });
    await comeBack(again, { ...vouched("ada-there", "ada@example.com"), auth_time: null });
    await heading(again, "Confirm that it’s you");
    expect(await violations(again)).toEqual([]);
    await again.getByLabel("Password").fill("lovelace-1843");
    await press(again, "Continue");
    await ends(again, "You are signed in.");
  });

  it("warns that the addresses differ, and goes on without linking", async () => {
    const page = await open();
    await comeBack(page, vouched("robert-there", "robert@example.org"));
    await heading(page, "Create your account");
    await press(page, "Sign in and link Corp ID to it");
    await signIn(page, BOB.username, BOB.password);
    await heading(page, "Confirm that it’s you");
    await enterCode(page, BOB.email);
    await heading(page, "Link Corp ID to your account?");
    await page.getByText("The two addresses differ.").waitFor();
    await shows(page, "Corp ID robert@example.org", `Bob Babbage ${BOB.email}`);
    await press(page, "Continue without linking");
    await allow(page);
  });

  it("links the account with the address, after its passkey", async () => {
    const page = await browser.newPage();
    await addAuthenticator(page);
    await begin(page, { client_id: "vault" });
    await signIn(page, BOB.username, BOB.password);
    await heading(page, "Secure your account");
    await enterCode(page, BOB.email);
    await heading(page, "Add a second factor");
    await page.getByLabel("Name of the passkey").fill("Laptop");
    await press(page, "Create a passkey");
    await heading(page, "Save your recovery codes");
    await page.getByLabel("I have saved the codes").check();
    await press(page, "Continue");
    await ends(page, "You are signed in.");

    await page.context().clearCookies();
    await begin(page, { client_id: "vault" });
    await comeBack(page, vouched("bob-there", BOB.email));
    await heading(page, "You have an account already");
    await press(page, "Sign in with a passkey");
    await heading(page, "Link Corp ID to your account?");
    await press(page, "Link");
    await ends(page, "You are signed in.");
  });

  it("that can't be used is left for another way, or tried again, also after a hint", async () => {
    const page = await open({ provider_hint: "corp" });
    await heading(page, "Sign in with Corp ID");
    expect(await violations(page)).toEqual([]);
    provider.signIn(vouched("new-there", "new@example.org"));
    provider.lies.set("wrong key");
    await press(page, "Continue to Corp ID");
    await heading(page, "The answer from Corp ID can’t be used");
    expect(await violations(page)).toEqual([]);
    await press(page, "Sign in another way");
    await page.getByLabel("Password").waitFor();
    await press(page, "Sign in with Corp ID");
    await heading(page, "The answer from Corp ID can’t be used");
    provider.lies.clear();
    await press(page, "Try Corp ID again");
    await heading(page, "Create your account");
  });

  it("that nobody signs in with leads back to the first page", async () => {
    const page = await open();
    provider.authorizationPage = {
      status: 200,
      headers: { "content-type": "text/html" },
      body: "<h1>Corp ID</h1>",
    };
    await press(page, "Sign in with Corp ID");
    await heading(page, "Corp ID");
    provider.authorizationPage = undefined;
    await page.goBack();
    await heading(page, "Sign in");
    await comeBack(page, undefined);
    await page.getByRole("status").filter({ hasText: "You didn’t sign in with Corp ID." }).waitFor();
    await page.getByLabel("Password").waitFor();
    expect(await violations(page)).toEqual([]);
  });
});
