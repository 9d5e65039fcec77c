/** Where a client that needs a second factor meets the rest: devices, and the removal of the last factor. */
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { decide, DeviceParty, enter, TELEVISION } from "./device-party.ts";
import { formOf, METHODS, MethodsParty, type MethodsService, startMethodsService } from "./methods-party.ts";

const VAULT = { ...TELEVISION, client_id: "vault", name: "Vault", second_factor: "required" } as const;

let running: MethodsService;
let party: MethodsParty;
let device: DeviceParty;
beforeEach(async () => {
  running = await startMethodsService();
  await running.service.clients.register(VAULT);
  party = await MethodsParty.create(running);
  device = new DeviceParty(running, "openid", VAULT);
});
afterEach(() => running.close());

const atDevicePage = (browser: Browser): Promise<Browser> => browser.get(`${running.openid}/device`);

describe("the code of a device whose client needs a second factor", () => {
  it("connects nothing for a person without one, whatever the form says", async () => {
    const codes = await device.codes();
    const browser = await atDevicePage(await party.browser());
    const form = browser.form("user_code");
    for (const action of ["", "connect"]) {
      await browser.submit(form, { user_code: codes.user_code, action });
      expect([browser.status, browser.html.includes("needs a second factor")]).toEqual([400, true]);
    }
    expect((await device.poll(codes)).body["error"]).toBe("authorization_pending");
    await browser.submit(form, { user_code: codes.user_code, action: "refuse" });
    running.clock.advance(10);
    expect((await device.poll(codes)).body["error"]).toBe("access_denied");
  });

  it("connects a person whose session has shown one", async () => {
    const codes = await device.codes();
    // Adding a factor shows it.
    const browser = await party.add(await party.browser(), "app");
    await enter(await atDevicePage(browser), codes.user_code);
    await decide(browser, "connect");
    expect((await device.poll(codes)).status).toBe(200);
  });
});

describe("the last factor", () => {
  it.each([
    ["can't be removed while a client of a service that the person uses needs one", true, 1],
    ["can be removed by a person who does not use such a service", false, 0],
  ])("%s", async (_name, uses, left) => {
    await party.add(await party.browser(), "app");
    if (uses) await running.service.accounts.assign(party.person.sub, VAULT.service);
    const browser = await party.browser(`${METHODS}/change?factor=app`);
    await browser.submit(formOf(browser, "remove"));
    expect(browser.html.includes("You can’t remove your last second factor")).toBe(uses);
    const factors = await party.factors();
    expect([factors.app === null ? 0 : 1, factors.recovery_codes_left]).toEqual([left, left * 10]);
    // Operators help people who have lost theirs.
    await expect(running.service.accounts.removeFactor(party.person.sub, "app")).resolves.toBe(uses);
  });
});
