/** examples/spa in a real browser: plain JavaScript with oauth4webapi, at another origin than the service. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Page, Response } from "playwright-core";
import { freePorts, type Running, start } from "../examples/processes.ts";
import { signIn, useBrowser, violations } from "./chromium.ts";

const ADA = { username: "ada", password: "lovelace-1843" };

const browser = useBrowser();
let example: Running;
let origin: string;
beforeAll(async () => {
  const port = await freePorts(2);
  origin = `http://localhost:${port + 1}`;
  example = start("examples/spa/main.ts", { env: { PORT: `${port}` } });
  await example.until(/Open http/);
});
afterAll(async () => {
  await example?.stop();
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
    const again = page.waitForResponse(isOfTokens);
    await press(page, "Refresh");
    expect((await again).status()).toBe(200);
    await says(page, "Signed in as ada@example.com");
    await other.reload();
    await says(other, "Signed in as ada@example.com");
  });

  it("signs in two tabs at once, and one that comes back in another tab", async () => {
    const page = await browser.newPage();
    const other = await page.context().newPage();
    for (const tab of [page, other]) {
      await tab.goto(origin);
      await press(tab, "Sign in");
      await tab.getByLabel("Password").waitFor();
    }
    for (const tab of [other, page]) await signIn(tab, ADA);
    for (const tab of [other, page]) await says(tab, "Signed in as ada@example.com");

    const begun = await browser.newPage();
    await begun.goto(origin);
    await press(begun, "Sign in");
    await begun.getByLabel("Password").waitFor();
    const elsewhere = await begun.context().newPage();
    await elsewhere.goto(begun.url());
    await signIn(elsewhere, ADA);
    await says(elsewhere, "Signed in as ada@example.com");
  });

  it("keeps the last five sign-ins that it began, each of which counts once", async () => {
    const page = await browser.newPage();
    for (let count = 0; count < 7; count += 1) {
      await page.goto(origin);
      await press(page, "Sign in");
      await page.getByLabel("Password").waitFor();
    }
    const back = page.waitForRequest((request) => request.url().startsWith(`${origin}/?code=`));
    await signIn(page, ADA);
    const address = (await back).url();
    await says(page, "Signed in as ada@example.com");
    expect(
      await page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("sign-in ")).length),
    ).toBe(4);
    await page.goto(address);
    // It was answered already, and nobody is signed out by a link.
    await says(page, "Signed in as ada@example.com");
    expect(page.url()).toBe(`${origin}/`);
    await page.evaluate(() => localStorage.removeItem("tokens"));
    await page.goto(address);
    await says(page, "Not signed in: this sign-in has ended");
  });

  it("signs out, here and at the service", async () => {
    const page = await signedIn();
    // The page that signs out has the same address as the page that comes after it.
    const back = page.waitForEvent("framenavigated", (frame) => frame.url() === `${origin}/`);
    await press(page, "Sign out");
    await back;
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
