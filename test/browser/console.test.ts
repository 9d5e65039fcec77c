/** The account page and the console in a real browser, by keyboard, and checked by axe. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import { ADA, OPERATOR, type RunningService, startService } from "../flows/running-service.ts";
import { signIn, useBrowser, violations } from "./chromium.ts";
import { closing } from "../closing.ts";

const browser = useBrowser();
let running: RunningService;
let inbox: Inbox;
let list: string;
/** A delivery that is parked. */
let parked: string;
/** The page of a person with an authenticator app. */
let person: string;

beforeAll(async () => {
  inbox = closing(await openInbox());
  inbox.react = () => (response) => response.writeHead(500).end(`<h1>Broken</h1>${"x".repeat(500)}`);
  running = await startService({
    config: {
      operators: { [OPERATOR.sub]: "administrator" },
      notifications: { allowedReceivers: ["127.0.0.1"], retryDelays: [] },
    },
  });
  list = `${running.oauth2}/account/deliveries`;
  const { accounts, directory, events, notifications } = running.service;
  await accounts.import(OPERATOR);
  const types = ["PROFILE_CHANGED"] as const;
  const settings = { url: inbox.url("/notify"), client_id: "r", client_secret: "the secret of it", types };
  await directory.services.put("8", { name: "Paused", receiver: settings });
  await directory.services.put("9", { name: "Failing", receiver: settings });
  await notifications.pause("service:8");
  const { sub } = await accounts.create({ email: "grace@example.com" });
  for (const service of ["8", "9"]) await accounts.assign(sub, service);
  await accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
  person = `${running.oauth2}/account/people/${sub}`;
  const failed = new Promise<string>((resolve) => {
    events.once("delivery.parked", ({ id }) => resolve(id));
  });
  await accounts.update(sub, { name: "Grace" });
  parked = await failed;
});

/** An operator on the list page. */
async function operator(options: { readonly javaScriptEnabled?: boolean } = {}): Promise<Page> {
  const page = await browser.newPage(options);
  await page.goto(list);
  await signIn(page, OPERATOR);
  await page.waitForURL(list);
  return page;
}

/** Presses Tab until the element with this text or label has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  const focused = `(() => { const it = document.activeElement;
    return it.labels?.[0]?.innerText ?? it.ariaLabel ?? it.innerText; })()`;
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press("Tab");
    if (String(await page.evaluate(focused)).trim() === name) return;
  }
  throw new Error(`Tab does not reach "${name}"`);
}

describe("the account page and the console", () => {
  it.each(["light", "dark"] as const)("have no problems that axe finds (%s)", async (colorScheme) => {
    const page = await operator();
    await page.emulateMedia({ colorScheme });
    const at = `${running.oauth2}/account`;
    for (const address of [
      at,
      list,
      `${list}?state=parked`,
      `${list}?state=discarded`,
      `${list}?sub=nobody`,
      `${list}?state=lost`,
      `${list}/receivers`,
      `${list}/${parked}`,
      `${list}/msg_0`,
      `${at}/callback`,
      person,
      `${person}?remove=app`,
    ]) {
      await page.goto(address);
      for (const each of await page.locator("summary:visible").all()) await each.click();
      expect([address, await violations(page)]).toEqual([address, []]);
    }
    await page.goto(`${list}/receivers`);
    await page.getByRole("button", { name: "Send a test" }).first().click();
    await expect(page.getByRole("status").innerText()).resolves.toContain("did not accept the test: 500");
    await expect(violations(page)).resolves.toEqual([]);
  });

  it("tell other users that they are not operators", async () => {
    const page = await browser.newPage();
    await page.goto(list);
    await signIn(page, ADA);
    await page.locator("main").filter({ hasText: "for operators only" }).waitFor();
    await expect(violations(page)).resolves.toEqual([]);
  });

  it("fit a narrow screen", async () => {
    const page = await operator();
    await page.setViewportSize({ width: 320, height: 640 });
    const overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    const deliveries = ["", "?state=parked", "/receivers", `/${parked}`].map((path) => list + path);
    for (const path of [...deliveries, person, `${person}?remove=app`]) {
      await page.goto(path);
      for (const each of await page.locator("summary:visible").all()) await each.click();
      expect([path, await page.evaluate(overflow)]).toEqual([path, 0]);
    }
  });

  it("fold the filter on a phone, and lead on from every place of a row", async () => {
    const page = await operator({ javaScriptEnabled: false });
    const filter = page.getByLabel("Account (sub)");
    await filter.waitFor({ state: "visible" });
    await page.setViewportSize({ width: 390, height: 760 });
    await filter.waitFor({ state: "hidden" });
    await page.getByText("Filter", { exact: true }).click();
    await page.getByLabel("State").selectOption("parked");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByText("Filter: Parked").waitFor();
    // The link of the row lies over its cells.
    await page.getByRole("cell", { name: "PROFILE_CHANGED" }).click({ force: true });
    await page.waitForURL(`${list}/${parked}`);
  });

  it("show a response as text", async () => {
    const page = await operator();
    await page.goto(`${list}/${parked}`);
    await page.getByText("Response to attempt 1").click();
    await expect(page.locator("pre").innerText()).resolves.toMatch(/^<h1>Broken<\/h1>x+$/);
    await expect(page.locator("h1").count()).resolves.toBe(1);
  });

  it.each([true, false])("work by keyboard (JavaScript: %s)", async (javaScriptEnabled) => {
    const page = await operator({ javaScriptEnabled });
    if (javaScriptEnabled) {
      await tabTo(page, "Receivers");
      await page.keyboard.press("Enter");
      await page.waitForURL(`${list}/receivers`);
      await tabTo(page, "Pause");
      await page.keyboard.press("Enter");
      await page.waitForURL(`${list}/receivers?**`);
      await expect(page.getByRole("status").innerText()).resolves.toContain("service:9 is paused");
      await running.service.notifications.resume("service:9");
      return;
    }
    await page.goto(`${list}/${parked}`);
    await page.getByRole("button", { name: "Send again" }).focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(`${list}/${parked}?**`);
    await expect(page.getByRole("status").innerText()).resolves.toContain("sent again");
    // The result has the focus, so that screen readers read it first.
    await expect(page.locator(":focus").getAttribute("role")).resolves.toBe("status");
  });

  it("refuse filters by e-mail address, which stays out of the address bar", async () => {
    const page = await operator();
    await page.getByLabel("Account (sub)").fill("grace@example.com");
    await page.getByRole("button", { name: "Show" }).click();
    await expect(page.evaluate("document.querySelector('#sub').validity.valid")).resolves.toBe(false);
    expect(page.url()).toBe(list);
  });

  it.each([true, false])("help a person who has lost an app (JavaScript: %s)", async (javaScriptEnabled) => {
    const { accounts } = running.service;
    const { sub } = await accounts.create({ email: `lost.${javaScriptEnabled}@example.com`, name: "Lost" });
    await accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    const page = await operator({ javaScriptEnabled });
    await page.getByRole("link", { name: "People" }).click();
    const name = page.getByLabel("Email address, username");
    await name.fill(`Lost.${javaScriptEnabled}@example.org`);
    await name.press("Enter");
    await page.getByText("No account has exactly this").waitFor();
    // axe is a script, too.
    if (javaScriptEnabled) await expect(violations(page)).resolves.toEqual([]);
    await expect(name.inputValue()).resolves.toBe(`Lost.${javaScriptEnabled}@example.org`);
    await name.fill(`Lost.${javaScriptEnabled}@example.com`);
    await name.press("Enter");
    await page.waitForURL(`**/account/people/${sub}`);
    await page.getByRole("link", { name: "Remove", exact: true }).click();
    await page.getByRole("link", { name: "Cancel" }).click();
    await page.getByRole("link", { name: "Remove", exact: true }).click();
    await page.getByRole("button", { name: "Remove the authenticator app" }).click();
    await expect(page.getByRole("status").innerText()).resolves.toContain("It has been removed.");
    await expect(accounts.factors(sub)).resolves.toMatchObject({ app: null });
    expect(page.url()).not.toContain("example");
  });
});
