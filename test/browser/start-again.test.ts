/** The ways into a sign-in that has ended, and out of them, in a real browser. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { builtInLocales } from "../../core/texts.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { ADA, useService } from "../flows/running-service.ts";
import { localeFile } from "../interactions/every-page.ts";
import { expectUsable, heading, signIn, useBrowser, useClientPage } from "./chromium.ts";

const NIGHT = 14 * 3_600;

const browser = useBrowser();
const client = useClientPage();
const clock = new TestClock();

const running = useService({
  config: { clock, interactions: { locales: builtInLocales() } },
});

beforeAll(async () => {
  const home = "https://news.example/";
  await running.service.clients.update("news", { redirect_uris: [client.callback], client_uri: home });
});

function authorize(parameters: Record<string, string> = {}): string {
  const query = {
    client_id: "news",
    response_type: "code",
    redirect_uri: client.callback,
    state: "s 1",
    ...parameters,
  };
  return `${running.oauth2}/oauth2/authorize?${new URLSearchParams(query)}`;
}

async function expectBack(page: Page): Promise<void> {
  await page.waitForURL(`${client.callback}?**`);
  expect(new URL(page.url()).searchParams.get("state")).toBe("s 1");
}

describe.each([
  ["with JavaScript", true],
  ["without JavaScript", false],
])("a browser %s", (_name, javaScriptEnabled) => {
  it("sends a form that was left open over night, and starts again with the name [D-AGAIN-1]", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize());
    clock.advance(NIGHT);
    await signIn(page, ADA);
    await heading(page, "This sign-in has run out of time");
    await page.getByRole("button", { name: "Start again" }).click();
    await heading(page, "Sign in");
    await expect(page.getByLabel(/user ?name/i).inputValue()).resolves.toBe(ADA.username);
    await signIn(page, ADA);
    await expectBack(page);
  });

  it("goes back after the sign-in, and on to the client [D-AGAIN-1]", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize());
    await signIn(page, ADA);
    await expectBack(page);
    await page.goBack();
    await heading(page, "This sign-in is complete");
    await page.getByRole("link", { name: "Go to your account" }).waitFor();
    if (!javaScriptEnabled) return;
    await expectUsable(page);
    // The browser has kept the request for this page.
    await page.getByRole("button", { name: "Start again" }).click();
    await expectBack(page);
  });

  it("has two tabs, one of which is late [D-AGAIN-1]", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize());
    const other = await page.context().newPage();
    await other.goto(page.url());
    await signIn(other, ADA);
    await other.waitForURL(`${client.callback}?**`);
    await signIn(page, ADA);
    await heading(page, "This sign-in is complete");
    await page.getByRole("button", { name: "Continue to News" }).click();
    await expectBack(page);
  });

  it("blocks cookies, reads so, allows them, and starts again [D-AGAIN-1]", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    // A browser that blocks cookies follows the redirect without any.
    const { headers } = await fetch(authorize(), { redirect: "manual" });
    await page.goto(headers.get("location") ?? "");
    await heading(page, "Your browser sent no cookies");
    if (javaScriptEnabled) await expectUsable(page);
    await page.getByRole("button", { name: "Start again" }).click();
    await heading(page, "Sign in");
    await signIn(page, ADA);
    await expectBack(page);
  });
});

describe("the open page", () => {
  it("says when its time is over, keeps what was typed, and starts again with the name [D-AGAIN-4]", async () => {
    const page = await browser.newPage();
    await page.clock.install();
    await page.goto(authorize());
    await page.getByLabel(/user ?name/i).fill(ADA.username);
    const over = page.getByText("The time for this page is over.");
    await expect(over.isVisible()).resolves.toBe(false);
    await page.clock.fastForward(3_500_000);
    await expect(over.isVisible()).resolves.toBe(false);
    await page.clock.fastForward(160_000);
    await over.waitFor();
    await expect(page.getByRole("button", { name: "Sign in" }).count()).resolves.toBe(0);
    await expect(page.getByLabel(/user ?name/i).inputValue()).resolves.toBe(ADA.username);
    await expectUsable(page);
    clock.advance(NIGHT);
    await page.getByRole("button", { name: "Start again" }).click();
    await heading(page, "Sign in");
    await expect(page.getByLabel(/user ?name/i).inputValue()).resolves.toBe(ADA.username);
  });

  it("that comes anew after a night has kept its request [D-AGAIN-1]", async () => {
    const page = await browser.newPage();
    await page.goto(authorize());
    await page.getByLabel(/user ?name/i).waitFor();
    clock.advance(NIGHT);
    await page.context().clearCookies({ name: /interaction/ });
    await page.reload();
    await heading(page, "This sign-in has run out of time");
    await page.getByRole("button", { name: "Start again" }).click();
    await heading(page, "Sign in");
    await signIn(page, ADA);
    await expectBack(page);
  });
});

describe("another host name", () => {
  it("leads to the right one before the sign-in begins [D-HOST-2]", async () => {
    const page = await browser.newPage();
    await page.goto(authorize().replace("127.0.0.1", "localhost"));
    expect(new URL(page.url()).origin).toBe(running.origin);
    await signIn(page, ADA);
    await expectBack(page);
  });
});

describe.each(["light", "dark"] as const)("the pages (%s)", (colorScheme) => {
  it.each(builtInLocales())("have no problems that axe finds, in %s", async (locale) => {
    const texts = localeFile(locale);
    const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
    await page.emulateMedia({ colorScheme });
    await page.goto(authorize({ ui_locales: locale }));
    clock.advance(NIGHT);
    await page.locator("#username").fill("ada");
    await page.locator("#password").fill("x");
    await page.locator("#step button[type=submit]").click();
    await heading(page, texts["ended.expired.title"] ?? "");
    await expectUsable(page);
    await page.getByRole("button", { name: texts["again.submit"] ?? "" }).click();
    await page.locator("#username").fill(ADA.username);
    await page.locator("#password").fill(ADA.password);
    await page.locator("#step button[type=submit]").click();
    await page.waitForURL(`${client.callback}?**`);
    await page.goto(authorize({ ui_locales: locale, prompt: "select_account" }));
    await heading(page, (texts["continue.title"] ?? "").replace("{account}", ADA.email));
    await expectUsable(page);
    await page.getByRole("button", { name: texts["continue.another-account"] ?? "" }).click();
    await page.locator("#username").waitFor();
  });
});
