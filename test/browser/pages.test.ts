/** The pages in a real browser, with and without JavaScript, and checked by axe. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { heading, signIn, useBrowser, useClientPage, violations } from "./chromium.ts";
import { ADA, BOB, useService } from "../flows/running-service.ts";

const browser = useBrowser();
const client = useClientPage();
const running = useService();

beforeAll(async () => {
  const { clients } = running.service;
  await clients.update("news", { redirect_uris: [client.callback] });
  await clients.update("partner", { redirect_uris: [client.callback] });
});

function authorize(base: string, parameters: Record<string, string> = {}): string {
  const query = {
    client_id: "news",
    response_type: "code",
    redirect_uri: client.callback,
    state: "s 1",
    ...parameters,
  };
  return `${base}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
}

/** Waits for the login form that says what was wrong. */
async function refused(page: Page): Promise<void> {
  await page.locator(".problem").first().waitFor();
  await page.waitForLoadState();
}

describe.each([
  ["with JavaScript", true],
  ["without JavaScript", false],
])("a browser %s", (_name, javaScriptEnabled) => {
  it("shows a login form, then redirects to the client with code and state [AUTHZ-2]", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize(running.oauth2));
    expect(await page.locator("button[type=submit]").count()).toBe(1);
    await signIn(page, ADA);
    await page.waitForURL(`${client.callback}?**`);
    const query = new URL(page.url()).searchParams;
    expect([...query.keys()]).toEqual(["code", "state"]);
    expect(query.get("state")).toBe("s 1");
    await page.goto(authorize(running.openid, { scope: "openid" }));
    expect(page.url().startsWith(client.callback)).toBe(true);
  });

  it("shows the same page for a wrong password and an unknown user", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    const texts: string[] = [];
    for (const username of [BOB.username, "nobody"]) {
      await page.goto(authorize(running.oauth2));
      await signIn(page, { username, password: "wrong password" });
      await refused(page);
      texts.push((await page.locator("main").innerText()).replace(username, "NAME"));
      await expect(page.getByLabel(/password/i).inputValue()).resolves.toBe("");
    }
    expect(texts[0]).toBe(texts[1]);
    expect(await page.locator(".problem").count()).toBe(1);
  });

  it("asks for consent for a third-party client, and accepts a refusal", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize(running.oauth2, { client_id: "partner" }));
    await signIn(page, BOB);
    await heading(page, "Share your data with Partner?");
    await page.getByRole("button", { name: "Don’t allow" }).click();
    await page.waitForURL(`${client.callback}?**`);
    expect(new URL(page.url()).searchParams.get("error")).toBe("access_denied");
  });

  it("changes the language of a sign-in, and keeps it", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize(running.oauth2, { client_id: "partner", ui_locales: "en" }));
    await page.getByRole("link", { name: "Polski" }).click();
    const signInButton = page.getByRole("button", { name: "Zaloguj się" });
    await page.getByLabel("Nazwa użytkownika lub adres e-mail").fill(ADA.username);
    await page.getByLabel("Hasło").fill("wrong password");
    await signInButton.click();
    await refused(page);
    expect(await page.locator(".problem").count()).toBe(1);
    await page.getByLabel("Hasło").fill(ADA.password);
    await signInButton.click();
    await page.getByRole("button", { name: "Zezwól" }).waitFor();
    await page.goto(`${running.oauth2}/account`);
    await heading(page, "Twoje konto");
    await page.getByRole("link", { name: "English" }).click();
    await heading(page, "Your account");
  });

  it("signs out after a confirmation", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize(running.oauth2));
    await signIn(page, ADA);
    await page.waitForURL(`${client.callback}?**`);
    await page.goto(`${running.openid}/oauth2/logout`);
    await page.locator('button[name="logout"]').click();
    await page.waitForURL(/logout\/success/);
    await page.goto(authorize(running.oauth2));
    await expect(page.getByLabel(/password/i).count()).resolves.toBe(1);
  });

  it("signs in another user instead of the current one", async () => {
    const page = await browser.newPage({ javaScriptEnabled });
    await page.goto(authorize(running.oauth2));
    await signIn(page, ADA);
    await page.waitForURL(`${client.callback}?**`);
    await page.goto(authorize(running.oauth2, { prompt: "login" }));
    await signIn(page, BOB);
    // The form between the two submits itself, or has a button without JavaScript.
    if (!javaScriptEnabled) {
      await page.getByLabel("Password").waitFor({ state: "detached" });
      await page.locator("noscript button, button").first().click();
    }
    await page.waitForURL(`${client.callback}?**`);
    expect(new URL(page.url()).searchParams.get("code")).toMatch(/^[\w-]{43}$/);
  });
});

describe("the pages", () => {
  it.each(["light", "dark"] as const)("have no problems that axe finds (%s)", async (colorScheme) => {
    const page = await browser.newPage();
    await page.emulateMedia({ colorScheme });
    await page.goto(authorize(running.oauth2));
    await expect(violations(page)).resolves.toEqual([]);
    await signIn(page, { username: "ada", password: "wrong password" });
    await refused(page);
    await expect(violations(page)).resolves.toEqual([]);
    await page.goto(authorize(running.oauth2, { client_id: "partner" }));
    await signIn(page, ADA);
    await heading(page, "Share your data with Partner?");
    await expect(violations(page)).resolves.toEqual([]);
    await page.goto(`${running.openid}/oauth2/logout`);
    await expect(violations(page)).resolves.toEqual([]);
    await page.goto(authorize(running.oauth2, { client_id: "nobody" }));
    await expect(violations(page)).resolves.toEqual([]);
    await page.goto(`${running.oauth2}/interaction/unknown`);
    await expect(violations(page)).resolves.toEqual([]);
  });

  it("load nothing from other hosts", async () => {
    const page = await browser.newPage();
    const origins: string[] = [];
    page.on("request", (request) => origins.push(new URL(request.url()).origin));
    await page.goto(authorize(running.oauth2));
    expect(new Set(origins.filter((origin) => origin !== "null"))).toEqual(new Set([running.origin]));
  });

  it("send the response by form post if the client requests it", async () => {
    const page = await browser.newPage();
    await page.goto(authorize(running.openid, { scope: "openid", response_mode: "form_post" }));
    await signIn(page, ADA);
    await page.waitForURL(client.callback);
    await expect(page.locator("#got").innerText()).resolves.toMatch(/^POST code=[\w-]{43}&state=s\+1&iss=/);
  });

  it("fit a narrow screen and the keyboard", async () => {
    const page = await browser.newPage();
    await page.setViewportSize({ width: 320, height: 640 });
    await page.goto(authorize(running.oauth2));
    const overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    await expect(page.evaluate(overflow)).resolves.toBe(0);
    await page.getByLabel(/user ?name|e-mail/i).focus();
    await page.keyboard.type(ADA.username);
    await page.keyboard.press("Tab");
    await page.keyboard.type(ADA.password);
    await page.keyboard.press("Enter");
    await page.waitForURL(`${client.callback}?**`);
  });

  it("lead through consent by keyboard alone: the list is there, and the first button allows", async () => {
    const page = await browser.newPage();
    await page.goto(authorize(running.oauth2, { client_id: "partner" }));
    // The first field has the focus, as soon as the browser has drawn the page.
    await page.locator("input[name=username]:focus").waitFor();
    await page.keyboard.type(BOB.username);
    await page.keyboard.press("Tab");
    await page.keyboard.type(BOB.password);
    await page.keyboard.press("Enter");
    await heading(page, "Share your data with Partner?");
    await page.getByText("Date of birth", { exact: true }).waitFor({ state: "visible" });
    await page.keyboard.press("Tab");
    await expect(page.locator(":focus").innerText()).resolves.toBe("Allow");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${client.callback}?**`);
    expect(new URL(page.url()).searchParams.has("code")).toBe(true);
  });
});

describe("the script of the pages", () => {
  it("shows and hides a password, keeps the focus, and sends it hidden", async () => {
    const page = await browser.newPage();
    await page.goto(authorize(running.oauth2, { login_hint: ADA.username }));
    const password = page.getByLabel("Password");
    await page.locator("input[name=password]:focus").waitFor();
    await password.fill("a secret");
    await page.getByRole("button", { name: "Show" }).click();
    await expect(password.getAttribute("type")).resolves.toBe("text");
    await page.getByRole("button", { name: "Hide" }).click();
    await expect(password.getAttribute("type")).resolves.toBe("password");
    await page.getByRole("button", { name: "Show" }).click();
    await password.fill(ADA.password);
    await page.keyboard.press("Enter");
    await page.waitForURL(`${client.callback}?**`);
  });

  it("shows a button for more time when time is short, and what was typed stays", async () => {
    const page = await browser.newPage();
    await page.clock.install();
    await page.goto(authorize(running.oauth2));
    const more = page.getByRole("button", { name: "Give me more time" });
    await page.clock.fastForward(3_200_000);
    expect(await more.count()).toBe(0);
    await page.getByLabel(/user ?name/i).fill(ADA.username);
    await page.clock.fastForward(100_000);
    await more.click();
    await more.waitFor({ state: "detached" });
    await expect(page.getByLabel(/user ?name/i).inputValue()).resolves.toBe(ADA.username);
  });

  it("sends a form once, and again when the browser goes back to it", async () => {
    const page = await browser.newPage();
    await page.goto(authorize(running.oauth2, { client_id: "partner", prompt: "login" }));
    const posts: string[] = [];
    page.on("request", (request) => request.method() === "POST" && posts.push(request.url()));
    await page.getByLabel(/user ?name/i).fill(ADA.username);
    await page.getByLabel("Password").fill(ADA.password);
    const button = page.locator("button[type=submit]");
    const clicked = button.evaluate((node) => {
      (node as unknown as { click(): void }).click();
      (node as unknown as { click(): void }).click();
      return (node as unknown as { getAttribute(name: string): string }).getAttribute("aria-busy");
    });
    await expect(clicked).resolves.toBe("true");
    await page.getByRole("button", { name: "Allow", exact: true }).waitFor();
    expect(posts).toHaveLength(1);
  });

  it("loads with two requests after the first at most, and breaks no policy", async () => {
    const page = await browser.newPage();
    const requests: string[] = [];
    page.on("request", (request) => requests.push(new URL(request.url()).pathname));
    await page.goto(authorize(running.oauth2, { client_id: "partner", prompt: "login" }));
    await page.getByRole("button", { name: "Show" }).waitFor();
    expect(requests.filter((path) => !path.startsWith("/oauth2/authorize"))).toEqual([
      expect.stringMatching(/^\/interaction\//),
      "/pages.js",
    ]);
  });
});
