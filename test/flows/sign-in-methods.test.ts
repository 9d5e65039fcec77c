/** The page "Sign-in methods" over HTTP: what it shows, and adding, renaming and removing. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { codeIn } from "../interactions/self-service.ts";
import { formOf, METHODS, MethodsParty, NEW, startMethodsService, textOf } from "./methods-party.ts";
import { beforeTests } from "../closing.ts";

let party: MethodsParty;

const running = beforeTests(() => startMethodsService());
// Checked after each test, because at the end the server of the storage has already stopped.

beforeEach(async () => {
  party = await MethodsParty.create(running);
});

describe("the page", () => {
  it("shows what there is, what is missing, and when each was added and used [D-FACTOR-11]", async () => {
    const browser = await party.browser("/account");
    expect(textOf(browser)).toContain("Sign-in methods Password");
    await browser.get(running.openid + METHODS);
    expect(browser.title).toBe("Sign-in methods");
    expect(textOf(browser)).toContain("Anyone who learns your password can sign in.");
    expect(textOf(browser)).not.toContain("Recovery codes");
    await party.add(browser, "app");
    expect(browser.title).toBe("Recovery codes");
    expect(party.recoveryCodes).toHaveLength(10);
    await browser.click("I have saved the codes");
    expect(browser.url.pathname).toBe(`/openid${METHODS}`);
    expect(textOf(browser)).toMatch(/Authenticator app Added .* Never used/);
    expect(textOf(browser)).toContain("10 codes left.");
    expect(textOf(browser)).toContain("If you lose this one, only your recovery codes are left.");
    await party.add(browser, "passkey", "My phone");
    expect([browser.url.pathname, browser.status]).toEqual([`/openid${METHODS}`, 200]);
    expect(textOf(browser)).toContain("The passkey has been added. You are signed out everywhere else.");
    expect(textOf(browser)).toMatch(/My phone Added .* Never used/);
    expect(textOf(browser)).toContain("Well protected");
    await browser.get(`${running.openid}/account`);
    expect(textOf(browser)).toContain("Password, 1 passkey, and authenticator app");
  });

  it("renames and removes a passkey, and removes the app with its codes", async () => {
    const browser = await party.browser();
    await party.add(browser, "passkey", "Phone");
    await party.add(browser, "app");
    await browser.get(running.openid + METHODS);
    const change = /href="([^"]*change\?factor=[\w-]{22})"/.exec(browser.html)?.[1] ?? "";
    await browser.get(change);
    expect(browser.title).toBe("Phone");
    await browser.submit(formOf(browser, "rename"), { name: "  Tablet " });
    expect(textOf(browser)).toContain("The name has been saved.");
    expect((await party.factors()).passkeys.map(({ name }) => name)).toEqual(["Tablet"]);
    await browser.get(change);
    await browser.submit(formOf(browser, "remove"));
    expect(textOf(browser)).toContain("The passkey has been removed.");
    await browser.get(`${running.openid}${METHODS}/change?factor=app`);
    expect(textOf(browser)).toContain("This is your last one");
    await browser.submit(formOf(browser, "remove"));
    expect(await party.factors()).toEqual({ app: null, passkeys: [], recovery_codes_left: 0 });
    expect(textOf(browser)).toContain("The authenticator app has been removed.");
    expect((await party.actions()).slice(0, 5)).toEqual([
      "account.factor_removed",
      "account.factor_removed",
      "account.passkey_renamed",
      "account.app_added",
      "account.passkey_added",
    ]);
  });

  it("makes new recovery codes, shows them once, and the old ones end [D-FACTOR-30]", async () => {
    const browser = await party.browser();
    await party.add(browser, "app");
    const [old = ""] = party.recoveryCodes;
    await browser.get(running.openid + METHODS);
    await browser.click("Make new recovery codes");
    expect(textOf(browser)).toContain("10 codes left.");
    await browser.submit(browser.form("csrf"));
    const codes = [...browser.html.matchAll(/<li><code>([^<]+)/g)].map(([, code = ""]) => code);
    expect(new Set(codes).size).toBe(10);
    expect(codes).not.toContain(old);
    await browser.get(browser.url);
    for (const code of codes) expect(browser.html).not.toContain(code);
  });
});

describe("the first factor", () => {
  it("needs a code from the mail, however often the form is sent without [D-FACTOR-5]", async () => {
    const browser = await party.browser(NEW.app);
    expect(browser.html).not.toContain("otpauth:");
    await browser.submit(formOf(browser, "send"));
    expect(textOf(browser)).toContain("A message with a code is on its way.");
    const code = await party.mailedCode();
    const form = formOf(browser, "code");
    for (const [typed, text] of [
      ["", "Enter the code."],
      [code.startsWith("A") ? "BBBBBBBB" : "AAAAAAAA", "You have 4 tries left."],
    ] as const) {
      await browser.submit(form, { code: typed });
      expect([browser.status, textOf(browser)]).toEqual([400, expect.stringContaining(text)]);
      expect(browser.html).not.toContain("otpauth:");
    }
    await browser.submit(form, { code: ` ${code.toLowerCase()}` });
    expect(browser.html).toContain("otpauth:");
    // It works once.
    await browser.submit(form, { code });
    expect([browser.status, textOf(browser)]).toEqual([
      400,
      expect.stringContaining("This code no longer works."),
    ]);
  });

  it("of an account without a confirmed address confirms the address", async () => {
    const { accounts } = running.service;
    await accounts.update(party.person.sub, { email_verified: false });
    const browser = await party.browser();
    await party.add(browser, "app");
    expect(browser.title).toBe("Recovery codes");
    await expect(accounts.find(party.person.sub)).resolves.toMatchObject({ email_verified: true });
  });

  it("goes to the address before it for seven days after a change [D-FACTOR-7]", async () => {
    const browser = await party.browser("/account/email/new");
    await browser.submit(browser.form("email"), { email: `new-${party.person.email}` });
    await browser.submit(formOf(browser, "code"), {
      code: codeIn(await party.mail(`new-${party.person.email}`)),
    });
    expect(textOf(browser)).toContain("Your email address has been changed.");
    await party.mail();
    await browser.get(running.openid + NEW.app);
    expect(textOf(browser)).toContain("so the code goes to the previous one.");
    await browser.submit(formOf(browser, "send"));
    expect(await party.mailedCode()).toMatch(/^[0-9A-Z]{8}$/);
  });

  it("is tried before it counts: after a wrong code the same key is shown again [D-FACTOR-8]", async () => {
    const browser = await party.begin(await party.browser(), "app");
    const key = /app-key">([^<]*)/.exec(browser.html)?.[1];
    await browser.submit(formOf(browser, "app"), { code: "12345" });
    expect([browser.status, textOf(browser)]).toEqual([400, expect.stringContaining("This code is wrong")]);
    expect(/app-key">([^<]*)/.exec(browser.html)?.[1]).toBe(key);
    expect((await party.factors()).app).toBeNull();
    await party.finish(browser, "app");
    expect((await party.factors()).app).not.toBeNull();
  });

  it("on the oauth2 deployment, too", async () => {
    const browser = await party.browser(NEW.passkey, "oauth2");
    await browser.submit(formOf(browser, "send"));
    await browser.submit(formOf(browser, "code"), { code: await party.mailedCode() });
    await party.finish(browser, "passkey");
    expect((await party.factors()).passkeys).toHaveLength(1);
  });
});
