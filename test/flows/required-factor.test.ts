/** Where a client that needs a second factor meets the rest: devices, and the removal of the last factor. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { ACR_MFA } from "../../provider/authentication.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { clientAt, signIn } from "./clients.ts";
import { decide, enter, TELEVISION } from "./devices.ts";
import { readTokens, type TestClient } from "../../testing/test-client.ts";
import { formOf, METHODS, MethodsParty, type MethodsService, startMethodsService } from "./methods-party.ts";
import { NEWS } from "./running-service.ts";
import { ARTICLES } from "./sample-apis.ts";

const VAULT = { ...TELEVISION, client_id: "vault", name: "Vault", second_factor: "required" } as const;

let running: MethodsService;
let party: MethodsParty;
let device: TestClient;
beforeEach(async () => {
  running = await startMethodsService();
  await running.service.clients.register(VAULT);
  party = await MethodsParty.create(running);
  device = clientAt(running, "openid", VAULT);
});

const atDevicePage = (browser: Browser): Promise<Browser> => browser.get(`${running.openid}/device`);

const codeAt = (browser: Browser): string => browser.location?.searchParams.get("code") ?? "";

/** Signs in with the box ticked, signs out, and signs in again with only the password. */
async function remembered(): Promise<Browser> {
  await party.add(await party.browser(), "app");
  const browser = await new Browser().get(running.openid + METHODS);
  await signIn(browser, party.person);
  await browser.submit(browser.forms()[0], { code: party.appCode(), remember: "1" });
  await browser.get(`${running.openid}/oauth2/logout`);
  await browser.submit(browser.form("logout"), { logout: "yes" });
  await browser.get(`${running.openid}/device`);
  await signIn(browser, party.person);
  expect(browser.url.pathname).toBe("/openid/device");
  return browser;
}

describe("the code of a device whose client needs a second factor", () => {
  it("connects nothing for a person without one, whatever the form says", async () => {
    const codes = await device.deviceCodes();
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
    const codes = await device.deviceCodes();
    // Adding a factor shows it.
    const browser = await party.add(await party.browser(), "app");
    await enter(await atDevicePage(browser), codes.user_code);
    await decide(browser, "connect");
    expect((await device.poll(codes)).status).toBe(200);
  });
});

describe("a session of a remembered browser, which has shown only the password", () => {
  it("steps up before a device is connected, and comes back with the code", async () => {
    const codes = await device.deviceCodes();
    const browser = await remembered();
    await enter(browser, codes.user_code);
    expect(browser.title).toContain("Confirm that it’s you");
    expect((await device.poll(codes)).body["error"]).toBe("authorization_pending");
    await browser.submit(browser.forms()[0], { code: party.appCode() });
    expect(browser.url.pathname).toBe("/openid/device");
    await browser.submit(browser.form("user_code"));
    await decide(browser, "connect");
    running.clock.advance(10);
    expect((await device.poll(codes)).status).toBe(200);
  });

  it("steps up for acr_values without the scope openid (RFC 9470)", async () => {
    const browser = await remembered();
    const news = clientAt(running, "oauth2", NEWS);
    await browser.get(news.authorizeUrl({ acr_values: ACR_MFA }));
    expect(browser.title).toContain("Confirm that it’s you");
  });
});

describe("an API that needs a second factor", () => {
  it("holds at the authorization of each client, at a refresh and at a device, and nothing is used up by a refusal [D-API-16]", async () => {
    const { directory, clients } = running.service;
    const settings = { name: "Articles", service: "1", scopes: { "articles:read": "Read your articles" } };
    const api = await directory.apis.put(ARTICLES, settings);
    expect(api.second_factor).toBe("optional");
    const apis = { [ARTICLES]: ["articles:read"] };
    for (const client_id of [NEWS.client_id, "television"]) {
      if (client_id === "television") await clients.register({ ...TELEVISION, client_id });
      await clients.update(client_id, { apis });
    }
    await running.service.accounts.assign(party.person.sub, "1");
    const news = clientAt(running, "oauth2", NEWS);
    const request = news.authorizeUrl({ resource: ARTICLES, scope: "articles:read" });
    const browser = await party.signIn(await news.browser().get(request));
    const weak = readTokens(await news.exchange(codeAt(browser)));
    await browser.get(request);
    const weakCode = codeAt(browser);
    await directory.apis.update(ARTICLES, { second_factor: "required" });

    // What was granted with a password alone gives no more tokens, and works again afterwards.
    const tooWeak = { error: "invalid_grant", error_description: "second_factor" };
    expect((await news.refresh(weak.refresh_token)).body).toEqual(tooWeak);
    expect((await news.exchange(weakCode)).body).toEqual(tooWeak);
    const ofPerson = { resource: ARTICLES, scope: "articles:read" };
    expect((await news.password(party.person, ofPerson)).body).toEqual(tooWeak);
    await directory.apis.update(ARTICLES, { second_factor: "optional" });
    expect((await news.refresh(weak.refresh_token)).status).toBe(200);
    expect((await news.exchange(weakCode)).status).toBe(200);
    await directory.apis.update(ARTICLES, { second_factor: "required" });

    // Without the API, the client asks for nothing.
    await browser.get(news.authorizeUrl());
    expect(codeAt(browser)).not.toBe("");
    await browser.get(`${request}&prompt=none`);
    expect(browser.location?.searchParams.get("error")).toBe("interaction_required");
    const television = clientAt(running, "openid", TELEVISION);
    const codes = await television.deviceCodes(ofPerson);
    await enter(await atDevicePage(browser), codes.user_code);
    expect([browser.status, browser.html.includes("needs a second factor")]).toEqual([400, true]);

    // A person without a factor adds one in the sign-in; a session that has shown one goes through.
    await signIn(await browser.get(request), party.person);
    expect([browser.location, browser.title]).toEqual([undefined, "Secure your account"]);
    await party.add(await party.browser(), "app");
    const strong = await party.signIn(await news.browser().get(request));
    const tokens = readTokens(await news.exchange(codeAt(strong)));
    expect((await news.refresh(tokens.refresh_token)).status).toBe(200);
    expect((await news.refresh(weak.refresh_token)).body).toEqual(tooWeak);
    const methods = await party.browser(`${METHODS}/change?factor=app`);
    await methods.submit(formOf(methods, "remove"));
    expect(methods.html).toContain("You can’t remove your last second factor");
  });
});

describe("the last factor [D-FACTOR-10]", () => {
  it.each([
    ["can't be removed while a client of a service that the person uses needs one", true, false, 1],
    ["can be removed by a person who does not use such a service", false, false, 0],
    ["can be removed while that client is disabled", true, true, 0],
  ])("%s", async (_name, uses, isDisabled, left) => {
    await party.add(await party.browser(), "app");
    if (uses) await running.service.accounts.assign(party.person.sub, VAULT.service);
    if (isDisabled) await running.service.clients.disable(VAULT.client_id);
    const browser = await party.browser(`${METHODS}/change?factor=app`);
    await browser.submit(formOf(browser, "remove"));
    expect(browser.html.includes("You can’t remove your last second factor")).toBe(left === 1);
    const factors = await party.factors();
    expect([factors.app === null ? 0 : 1, factors.recovery_codes_left]).toEqual([left, left * 10]);
    // Operators help people who have lost theirs.
    await expect(running.service.accounts.removeFactor(party.person.sub, "app")).resolves.toBe(left === 1);
  });
});
