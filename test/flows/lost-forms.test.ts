/** Forms of the account pages whose sign-in has ended in the meantime. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { formOf, METHODS, MethodsParty, startMethodsService, textOf } from "./methods-party.ts";
import type { Account } from "../../accounts/operations/accounts.ts";
import { signIn } from "./clients.ts";
import { beforeTests } from "../closing.ts";

let party: MethodsParty;

const running = beforeTests(() => startMethodsService());
beforeEach(async () => {
  party = await MethodsParty.create(running);
});

/** A browser of the person, on a page of the account. */
async function open(path: string): Promise<Browser> {
  return signIn(await new Browser().get(`${running.openid}/account${path}`), party.person);
}

const account = (): Promise<Account | undefined> => running.service.accounts.find(party.person.sub);

/** What the page says after a form that came too late. */
const LOST = "Nothing was saved, because your sign-in had ended or was too old. Please do it again.";

describe("a form of a sign-in that has ended", () => {
  it.each([
    [
      "/profile",
      "name",
      { name: "Augusta" },
      (): Promise<unknown> => running.service.accounts.endSessions(party.person.sub),
    ],
    ["/password", "password", { password: "a whole new password" }, (): void => running.clock.advance(301)],
  ] as const)("is lost, and %s says so after the sign-in", async (path, field, values, end) => {
    const browser = await open(path);
    expect(textOf(browser)).not.toContain(LOST);
    const form = browser.form(field);
    await end();
    const before = await account();
    await browser.submit(form, values);
    const visits = [...browser.visits];
    expect(browser.hasForm("password")).toBe(true);
    await signIn(browser, party.person);
    expect([browser.status, browser.url.pathname]).toEqual([200, `/openid/account${path}`]);
    expect(textOf(browser)).toContain(LOST);
    expect(await account()).toEqual(before);
    // Nothing that was typed is in an address.
    const addresses = [...visits, ...browser.visits].map(({ url }) => decodeURIComponent(url.href));
    expect(addresses.filter((each) => each.includes(Object.values(values)[0] ?? ""))).toEqual([]);
    // It is said about this page, for ten minutes.
    const { searchParams } = browser.url;
    const other = path === "/profile" ? "/sessions" : "/profile";
    for (const address of [`${other}?${searchParams}`, `${path}?unsaved=1.x`, `${path}?unsaved=`]) {
      await browser.get(`${running.openid}/account${address}`);
      expect([address, textOf(browser).includes(LOST)]).toEqual([address, false]);
    }
    running.clock.advance(601);
    await browser.get(`${running.openid}/account${path}?${searchParams}`);
    if (path === "/password") await signIn(browser, party.person);
    expect(textOf(browser)).not.toContain(LOST);
  });

  it("is not one that was only opened", async () => {
    const browser = await open("/profile");
    await running.service.accounts.endSessions(party.person.sub);
    await browser.get(`${running.openid}/account/profile`);
    await signIn(browser, party.person);
    expect([browser.url.search, textOf(browser).includes(LOST)]).toEqual(["", false]);
  });

  it("says so on the list where a page of one sign-in method is not open any more", async () => {
    await party.add(await party.browser(), "app");
    const browser = await party.browser(`${METHODS}/change?factor=app`);
    const form = formOf(browser, "remove");
    await running.service.accounts.endSessions(party.person.sub);
    await browser.submit(form);
    await party.signIn(browser);
    expect([browser.url.pathname, textOf(browser).includes(LOST)]).toEqual([`/openid${METHODS}`, true]);
    expect((await party.factors()).app).not.toBeNull();
  });
});
