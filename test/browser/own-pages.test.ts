/** examples/theme and examples/own-views in a real browser, checked by axe. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { freePorts, type Running, start } from "../examples/processes.ts";
import { heading, useBrowser, violations } from "./chromium.ts";

const browser = useBrowser();
const examples: Running[] = [];
const origins: Record<string, string> = {};

beforeAll(async () => {
  const port = await freePorts(2);
  await Promise.all(
    ["theme", "own-views"].map(async (name, index) => {
      const example = start(`examples/${name}/main.ts`, { env: { PORT: `${port + index}` } });
      examples.push(example);
      await example.until(/Sign in at/);
      origins[name] = `http://localhost:${port + index}`;
    }),
  );
});

afterAll(async () => {
  await Promise.all(examples.map((example) => example.stop()));
});

async function open(name: string, viewport = { width: 1280, height: 720 }): Promise<Page> {
  const page = await browser.newPage({ javaScriptEnabled: false, viewport });
  await page.goto(`${origins[name]}/`);
  return page;
}

async function signIn(page: Page, password: string): Promise<void> {
  await page.getByLabel("Username or email address").fill("ada");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** The width of an image that has been loaded; 0 if it could not be. */
const widths = (page: Page): Promise<number[]> =>
  page
    .locator("img")
    .evaluateAll((images) => images.map((image) => (image as { naturalWidth?: number }).naturalWidth ?? 0));

/** Nothing is wider than the page. */
const fits = (page: Page): Promise<boolean> =>
  page.locator("html").evaluate((html) => html.scrollWidth <= html.clientWidth);

describe("the example of a theme", () => {
  it("has its name, logo, color, links and texts, and the look of its client, up to the consent [D-LOOK-4]", async () => {
    const page = await open("theme");
    await heading(page, "Sign in with your city account");
    await page.getByRole("img", { name: "Harbour City" }).waitFor();
    expect(await widths(page)).toEqual([240, 96]);
    expect(await page.getByRole("link", { name: "Privacy" }).getAttribute("href")).toBe(
      "https://harbour-city.example/en/privacy",
    );
    await page.getByRole("link", { name: "Polski" }).click();
    await heading(page, "Zaloguj się kontem miejskim");
    await page.getByRole("link", { name: "English" }).click();
    await heading(page, "Sign in with your city account");
    await signIn(page, "lovelace-1843");
    await heading(page, /City Library/);
    expect(
      await page.getByRole("link", { name: "Privacy policy of City Library" }).getAttribute("href"),
    ).toBe("https://library.example/privacy");
    expect(await widths(page)).toEqual([240, 96]);
    await page.getByRole("button", { name: "Allow", exact: true }).click();
    await page.getByText("You are signed in.").waitFor();
  });
});

describe("the example of views of one's own", () => {
  it("shows its own top, form and end, and the built-in rest, and signs in after a wrong password", async () => {
    const page = await open("own-views");
    await page.getByText("Maps and huts for long walks").waitFor();
    await page.getByText("Your maps, bookings and tours are one step away.").waitFor();
    await page.getByText("I can’t sign in").click();
    await page.getByText("Ask at any hut").waitFor();
    await signIn(page, "not this password");
    await page.getByText("Wrong username or password.").first().waitFor();
    await page.getByText("on foot since 1932").waitFor();
    await signIn(page, "lovelace-1843");
    await page.getByText("You are signed in.").waitFor();
  });
});

it.each(["theme", "own-views"])("%s fits a phone and a desk, and axe finds nothing", async (name) => {
  for (const viewport of [
    { width: 320, height: 640 },
    { width: 1280, height: 720 },
  ]) {
    const page = await browser.newPage({ viewport });
    await page.goto(`${origins[name]}/`);
    expect([viewport.width, await fits(page), await violations(page)]).toEqual([viewport.width, true, []]);
  }
});
