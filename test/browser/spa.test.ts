/** examples/spa in a real browser: plain JavaScript with oauth4webapi, at another origin than the service. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import type { Page, Response } from "playwright-core";
import { freePorts, type Running, start } from "../examples/processes.ts";
import { signIn, TestBrowser, violations } from "./chromium.ts";

const ADA = { username: "ada", password: "lovelace-1843" };

let browser: TestBrowser;
let example: Running;
let origin: string;
beforeAll(async () => {
  browser = await TestBrowser.launch();
  const port = await freePorts(2);
  origin = `http://localhost:${port + 1}`;
  example = start("examples/spa/main.ts", { env: { PORT: `${port}` } });
  await example.until(/Open http/);
});
afterEach(async () => {
  expect(await browser.settle()).toEqual([]);
});
afterAll(async () => {
  await example?.stop();
  await browser?.close();
});

const says = (page: Page, text: string): Promise<void> =>
  page.getByRole("status").getByText(text, { exact: true }).waitFor();
const press = (page: Page, name: string): Promise<void> =>
  page.getByRole("button", { name, exact: true }).click();

/** The tokens that the page has stored. */
const stored = (page: Page): Promise<Record<string, string>> =>
  page.evaluate(() => JSON.parse(localStorage.getItem("tokens") ?? "{}") as Record<string, string>);

async function signedIn(): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(origin);
  await says(page, "Not signed in");
  await press(page, "Sign in");
  await signIn(page, ADA);
  await says(page, "Signed in as ada@example.com");
  return page;
}

const isOfTokens = (response: Response): boolean =>
  response.url().endsWith("/oauth2/token") && response.request().method() === "POST";

describe("a single-page application", () => {
  it("signs a person in and reads userinfo from another origin [D-KIND-6]", async () => {
    const page = await signedIn();
    // Neither the code nor anything else stays in the address.
    expect(page.url()).toBe(`${origin}/`);
    expect(await violations(page)).toEqual([]);
    await page.reload();
    await says(page, "Signed in as ada@example.com");
  });

  it("refreshes: each time with a new token [D-KIND-3]", async () => {
    const page = await signedIn();
    const before = await stored(page);
    for (let round = 0; round < 2; round += 1) {
      const { refresh_token } = await stored(page);
      await press(page, "Refresh");
      await page.waitForFunction(
        (old) => !(localStorage.getItem("tokens") ?? old).includes(old),
        refresh_token ?? "",
      );
      await says(page, "Signed in as ada@example.com");
    }
    expect((await stored(page))["access_token"]).not.toBe(before["access_token"]);
  });

  it("refreshes in two tabs at once: nobody is signed out [D-KIND-3]", async () => {
    const page = await signedIn();
    const other = await page.context().newPage();
    await other.goto(origin);
    await says(other, "Signed in as ada@example.com");
    const { refresh_token = "" } = await stored(page);
    const answers: number[] = [];
    // What a tab shows may be from before its own answer.
    const answered = [page, other].map((tab) => {
      tab.on("response", (response) => void (isOfTokens(response) && answers.push(response.status())));
      return tab.waitForResponse(isOfTokens);
    });
    await Promise.all([press(page, "Refresh"), press(other, "Refresh"), ...answered]);
    await page.waitForFunction(
      (old) => !(localStorage.getItem("tokens") ?? old).includes(old),
      refresh_token,
    );
    for (const tab of [page, other]) await says(tab, "Signed in as ada@example.com");
    expect(answers).toEqual([200, 200]);
    await press(page, "Refresh");
    await says(page, "Signed in as ada@example.com");
    await other.reload();
    await says(other, "Signed in as ada@example.com");
  });

  it("signs out, here and at the service", async () => {
    const page = await signedIn();
    await press(page, "Sign out");
    await page.waitForURL(`${origin}/`);
    await says(page, "Not signed in");
    await press(page, "Sign in");
    await page.getByLabel("Password").waitFor();
  });

  it("says that the person refused, and stays usable", async () => {
    const page = await browser.newPage();
    await page.goto(`${origin}/?error=access_denied&state=x`);
    await page.getByText(/^Not signed in: /).waitFor();
    await press(page, "Sign in");
    await page.getByLabel("Password").waitFor();
  });
});
