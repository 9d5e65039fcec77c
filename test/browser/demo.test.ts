/** The demo in a real browser, without scripts, and checked by axe. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { freePorts, type Running, start } from "../examples/processes.ts";
import { signIn, useBrowser, violations } from "./chromium.ts";

const browser = useBrowser();
let demo: Running;
let client: string;

beforeAll(async () => {
  const port = await freePorts(4);
  client = `http://localhost:${port + 1}/`;
  demo = start("cli/main.ts", { args: ["serve", "--demo", "--port", `${port}`] });
  await demo.until(/Ctrl\+C stops it/);
});

afterAll(async () => {
  await demo?.stop("SIGKILL");
});

/** Presses a button and waits for its result. */
async function press(page: Page, button: string, notice: RegExp): Promise<void> {
  await page.getByRole("button", { name: button }).click();
  await page.getByRole("status").filter({ hasText: notice }).waitFor();
}

describe("the demo in a browser", () => {
  it("refreshes, changes, fails, shows its deliveries, and signs out", async () => {
    const page = await browser.newPage({ javaScriptEnabled: false });
    await page.goto(client);
    await page.getByRole("link", { name: "Sign in with OpenID Connect" }).click();
    await signIn(page, { username: "ada", password: "lovelace-1843" });
    await page.waitForURL(client);
    await press(page, "Refresh the token", /new access token/);
    await press(page, "Fail three times", /The next three notifications fail/);
    await press(page, "Change my name", /Your name is now Augusta/);
    await demo.until(/request 1 of 3 at \S+ msg_\S+: answered 503/);
    await page.getByRole("link", { name: "delivery console" }).click();
    await page.getByRole("cell", { name: "group:media" }).waitFor();
    await page.goto(client);
    await press(page, "Revoke the token", /The access token is revoked/);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: /sign out/i }).waitFor();
  });

  it("has accessible pages, as axe sees them", async () => {
    const page = await browser.newPage();
    await page.goto(client);
    expect(await violations(page)).toEqual([]);
    await page.getByRole("link", { name: "Sign in with OAuth 2.0" }).click();
    await signIn(page, { username: "ada", password: "lovelace-1843" });
    await page.waitForURL(client);
    expect(await violations(page)).toEqual([]);
  });
});
