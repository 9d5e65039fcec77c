/** examples/own-login in a real browser: a front end of a team's own over the JSON interface. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { freePorts, type Running, start } from "../examples/processes.ts";
import { atEnd, newFolder } from "../closing.ts";
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
  await page.waitForURL(`${origin}/callback?**`);
  await page.getByText(text, { exact: true }).waitFor();
}

/** In the page: the status of the description of a step. */
const statusOf = async (address: string): Promise<number> =>
  (await fetch(address, { headers: { accept: "application/json" } })).status;

const usedCodes = new Set<string>();

/** The code in the newest mail to this address, once it has one that was not used yet. */
async function codeFor(address: string): Promise<string> {
  for (;;) {
    const list = await (await fetch(`${origin}/dev/mail`)).text();
    const row = list.split("<li>").find((each) => each.includes(` · ${address}</span>`));
    const path = /href="(\/dev\/mail\/\d+)"/.exec(row ?? "")?.[1];
    const message = path === undefined ? "" : await (await fetch(origin + path)).text();
    const code = /^[0-9A-Z]{4}[ -]?[0-9A-Z]{4}$/m.exec(message)?.[0];
    if (code !== undefined && !usedCodes.has(code)) {
      usedCodes.add(code);
      return code;
    }
    await pause(100);
  }
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
    const folder = newFolder();
    const text = readFileSync(new URL("../../examples/own-login/own-login.json", import.meta.url), "utf8");
    const port = await freePorts();
    const storage = `sqlite:${join(folder, "sign-in.db")}`;
    const own = {
      ...(JSON.parse(text.replaceAll("localhost:3000", `localhost:${port}`)) as object),
      storage,
    };
    const begin = async (lifetimes: object): Promise<Running> => {
      const file = join(folder, "own-login.json");
      writeFileSync(file, JSON.stringify({ ...own, lifetimes }));
      const begun = start("examples/own-login/main.ts", {
        args: ["--config", file],
        env: { PORT: `${port}` },
      });
      atEnd(() => begun.stop());
      await begun.until(/Sign in at/);
      return begun;
    };
    const brief = await begin({ interaction: 10 });
    const page = await browser.newPage();
    await page.goto(`http://localhost:${port}`);
    await heading(page, "Sign in");
    const address = new URL(page.url()).searchParams.get("interaction") ?? "";
    // Until the service says that the sign-in has ended.
    while ((await page.evaluate(statusOf, address)) !== 410) await pause(100);
    // The next one has all the time that a slow machine needs.
    await brief.stop();
    await begin({});
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
