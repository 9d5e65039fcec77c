/** The page for the code of a device in a real browser, with the command-line programs of examples/cli-login. */
import { afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import type { Page } from "playwright-core";
import { ADA, useService } from "../flows/running-service.ts";
import { TELEVISION } from "../flows/devices.ts";
import { type Running, start } from "../examples/processes.ts";
import { heading, type PageOptions, signIn, useBrowser, violations } from "./chromium.ts";

const browser = useBrowser();
const programs: Running[] = [];

const running = useService();

beforeAll(async () => {
  await running.service.clients.register(TELEVISION);
  await running.service.clients.register({
    kind: "public",
    native: true,
    client_id: "program",
    name: "Program",
    service: "1",
    redirect_uris: ["http://127.0.0.1/callback"],
  });
});
afterEach(async () => {
  await Promise.all(programs.splice(0).map((each) => each.stop("SIGKILL")));
});

function program(file: string, clientId: string): Running {
  const started = start(`examples/cli-login/${file}`, { args: [running.openid, clientId] });
  programs.push(started);
  return started;
}

const press = (page: Page, name: string): Promise<void> =>
  page.getByRole("button", { name, exact: true }).click();

/** The program that waits, and its page with the question. */
async function asked(options: PageOptions = {}): Promise<{ readonly page: Page; readonly device: Running }> {
  const { javaScriptEnabled: hasScripts = true } = options;
  const device = program("device.ts", "television");
  const [, address = "", code = ""] = await device.until(/Open (\S+) and enter the code ([A-Z-]{9})/);
  const page = await browser.newPage(options);
  await page.goto(address);
  await signIn(page, ADA);
  await heading(page, "Connect a device");
  if (hasScripts) expect(await violations(page)).toEqual([]);
  await page.getByLabel("Code").pressSequentially(code.toLowerCase());
  // Typing alone sends nothing.
  await heading(page, "Connect a device");
  await press(page, "Check the code");
  await heading(page, "Connect News on TV?");
  expect(await page.getByText(code, { exact: true }).isVisible()).toBe(true);
  if (hasScripts) expect(await violations(page)).toEqual([]);
  return { page, device };
}

describe("a device", () => {
  it.each([
    ["with scripts", {}],
    ["without scripts, on a phone", { javaScriptEnabled: false, viewport: { width: 360, height: 640 } }],
  ])("is connected by its code, %s", async (_how, options) => {
    const { page, device } = await asked(options);
    await press(page, "Continue");
    await heading(page, "Your device is connected");
    await device.until(/Signed in as ada@example.com/);
    expect(await device.ended).toBe(0);
    // A reload and the button back decide nothing again.
    await page.reload();
    await heading(page, "Your device is connected");
    await page.goto(`${running.openid}/account/services`);
    await page.getByRole("heading", { name: "Devices" }).waitFor();
    if (!("javaScriptEnabled" in options)) expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: "End access" }).first().click();
    await page.getByText("The device no longer has access.").waitFor();
  });

  it("is refused: the program says so and ends", async () => {
    const { page, device } = await asked();
    await press(page, "Cancel");
    await heading(page, "No device was connected");
    await device.until(/Not signed in: access_denied/);
    expect(await device.ended).toBe(1);
  });

  it("shows a wrong code at its field", async () => {
    const page = await browser.newPage();
    await page.goto(`${running.openid}/device?user_code=BCDF-GHJK`);
    await signIn(page, ADA);
    await heading(page, "Connect a device");
    expect(await page.getByLabel("Code").inputValue()).toBe("BCDF-GHJK");
    await press(page, "Check the code");
    await page.getByText("No device is waiting for this code.").waitFor();
    expect(await page.getByLabel("Code").getAttribute("aria-invalid")).toBe("true");
    expect(await violations(page)).toEqual([]);
  });
});

describe("a command-line program", () => {
  it("signs a person in through a port of this machine, and asks in a browser that is signed in", async () => {
    const page = await browser.newPage();
    for (const round of [1, 2]) {
      const native = program("loopback.ts", "program");
      const [, address = ""] = await native.until(/\n(http\S+)\n/);
      await page.goto(address);
      if (round === 1) await signIn(page, ADA);
      else {
        await heading(page, "Continue as ada@example.com?");
        await press(page, "Continue");
      }
      await page.getByText("Done. You can close this page").waitFor();
      await native.until(/Signed in as ada@example.com/);
      expect(await native.ended).toBe(0);
    }
  });

  it("says that the person cancelled", async () => {
    const page = await browser.newPage();
    await page.goto(`${running.openid}/account`);
    await signIn(page, ADA);
    await heading(page, "Your account");
    const native = program("loopback.ts", "program");
    const [, address = ""] = await native.until(/\n(http\S+)\n/);
    await page.goto(address);
    await press(page, "Cancel");
    await native.until(/Not signed in: access_denied/);
    expect(await native.ended).toBe(1);
  });
});
