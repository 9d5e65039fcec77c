/** A disabled account can do nothing, and no response reveals why. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Accounts } from "../../accounts/operations/accounts.ts";
import { Holdings } from "./holdings.ts";
import type { TestAnswer, TestTokens, TestVisitor } from "../../testing/test-client.ts";
import { clientAt, signIn, enterPassword } from "./clients.ts";
import { NEWS, PARTNER, SHOP, startService, useService } from "./running-service.ts";
import { expectRefusal } from "./token-answers.ts";

let accounts: Accounts;

const running = useService();
const oauth2 = clientAt(running, "oauth2", NEWS);
const openid = clientAt(running, "openid", NEWS);
const holdings = new Holdings(running);

beforeAll(() => {
  ({ accounts } = running.service);
});

/** The response to a submitted login form, without variable parts. */
async function answered(person: TestVisitor): Promise<{ status: number; html: string; cookies: string[] }> {
  const browser = openid.browser();
  await browser.get(openid.authorizeUrl());
  await signIn(browser, person);
  const html = browser.html
    .replaceAll(/value="[^"]*"/g, "")
    .replaceAll(/action="[^"]*"/g, "")
    .replaceAll(person.username, "NAME");
  return { status: browser.status, html, cookies: browser.jar.all().map(({ name }) => name) };
}

const shown = ({ status, headers, text }: TestAnswer): unknown => [
  status,
  [...headers].filter(([name]) => name !== "date" && name !== "x-request-id"),
  text,
];

describe("a disabled account", () => {
  it("loses sessions, codes and tokens immediately, at every endpoint [D-DISABLED-1]", async () => {
    const held = await holdings.everything();
    expect(await accounts.disable(held.account.sub)).toMatchObject({ disabled: true });
    expect(await holdings.left(held)).toEqual([false, false, false]);
    expect(await accounts.find(held.account.sub)).toMatchObject({ disabled: true });
  });

  it("gets the response of a wrong password, in the form and the password grant [D-DISABLED-1]", async () => {
    const [disabled, other] = [await holdings.newcomer(), await holdings.newcomer()];
    await accounts.disable(disabled.account.sub);
    const wrong = { ...other.person, password: "not this password" };
    expect(await answered(disabled.person)).toEqual(await answered(wrong));
    expect((await answered(disabled.person)).status).toBe(400);
    const [refused, likeIt] = [await oauth2.password(disabled.person), await oauth2.password(wrong)];
    expectRefusal(refused, "invalid_grant");
    expect(shown(refused)).toEqual(shown(likeIt));
    expect(await accounts.verifyPassword(disabled.account.sub, disabled.person.password)).toBe(false);
    const unknown = { username: "nobody-at-all", password: disabled.person.password };
    expect(await answered(disabled.person)).toEqual(await answered(unknown));
    const reasons = (await running.service.audit.list({ account: disabled.account.sub })).items;
    expect(
      new Set(reasons.filter(({ outcome }) => outcome === "failure").map(({ reason }) => reason)),
    ).toEqual(new Set(["disabled"]));
  });

  it("uses rate-limit points for its right password, as for a wrong one", async () => {
    const limited = await startService({ config: { rateLimits: {} } });
    const party = clientAt(limited, "oauth2", NEWS);
    const { account, person } = await new Holdings(limited).newcomer();
    await limited.service.accounts.disable(account.sub);
    const answers = [];
    for (let times = 0; times < 12; times += 1) answers.push(await party.password(person));
    expect(answers.map(({ headers }) => headers.has("retry-after"))).toEqual(
      answers.map((_answer, index) => index >= 10),
    );
  });

  it("can sign in after it is enabled again; ended tokens stay ended", async () => {
    const held = await holdings.everything();
    const { sub } = held.account;
    await accounts.disable(sub);
    expect(await accounts.enable(sub)).toMatchObject({ disabled: false });
    expect(await holdings.left(held)).toEqual([false, false, false]);
    expect(await accounts.find(sub)).toMatchObject({ disabled: false });
    const again = await openid.signIn(held.person);
    expect((await openid.userinfo(again.access_token)).status).toBe(200);
  });

  it("gets no code from an unfinished sign-in", async () => {
    const { account, person } = await holdings.newcomer();
    const browser = openid.browser();
    await browser.get(openid.authorizeUrl());
    const next = await enterPassword(browser, person);
    await accounts.disable(account.sub);
    await browser.get(next);
    expect(browser.location).toBeUndefined();
    await accounts.enable(account.sub);
    await browser.get(openid.authorizeUrl({ prompt: "none" }));
    expect(browser.location?.searchParams.get("error")).toBe("login_required");
  });

  it("can't give consent", async () => {
    const { account, person } = await holdings.newcomer();
    const partner = clientAt(running, "openid", PARTNER);
    const browser = partner.browser();
    await browser.get(partner.authorizeUrl());
    await signIn(browser, person);
    const form = browser.form("decision");
    await accounts.disable(account.sub);
    await browser.submit(form, { decision: "allow" });
    expect([browser.status, browser.location]).toEqual([400, undefined]);
    const { items: records } = await running.service.audit.list({ account: account.sub });
    expect(records.map(({ action }) => action)).not.toContain("account.consented");
  });

  it("gets no working tokens from concurrent sign-ins", async () => {
    const { account, person } = await holdings.newcomer();
    const shop = clientAt(running, "oauth2", { ...SHOP, redirect_uris: NEWS.redirect_uris });
    const browsers = Array.from({ length: 6 }, () => openid.browser());
    const codes = browsers.map((browser) => openid.code({ ...person, browser }).catch(() => undefined));
    const grants = Array.from({ length: 6 }, () => oauth2.password(person));
    await accounts.disable(account.sub);
    for (const code of await Promise.all(codes))
      if (code !== undefined) expect((await openid.exchange(code)).status).toBe(400);
    for (const { body } of await Promise.all(grants)) {
      if (body["access_token"] === undefined) continue;
      const { access_token, refresh_token } = body as unknown as TestTokens;
      expect((await oauth2.userinfo(access_token)).status).toBe(400);
      expect((await oauth2.refresh(refresh_token)).status).toBe(400);
    }
    for (const browser of browsers) {
      await browser.get(shop.authorizeUrl({ redirect_uri: undefined }));
      expect(browser.location?.searchParams.has("code") ?? false).toBe(false);
    }
  });

  it("has no account page", async () => {
    const { account, person } = await holdings.newcomer();
    const browser = openid.browser({ stopAt: [] });
    await browser.get(`${running.openid}/account`);
    await signIn(browser, person);
    expect([browser.status, browser.url.pathname]).toEqual([200, "/openid/account"]);
    await accounts.disable(account.sub);
    await browser.get(`${running.openid}/account`);
    expect(browser.html).toContain('name="password"');
    await signIn(browser, person);
    expect(browser.status).toBe(400);
  });
});

describe("disabling", () => {
  it("writes once, and notifies no receiver [D-DISABLED-1]", async () => {
    const { account } = await holdings.newcomer();
    const changes: unknown[] = [];
    const listen = ({
      sub,
      action,
      deliveries,
    }: {
      sub: string;
      action: string;
      deliveries: number;
    }): void => {
      if (sub === account.sub) changes.push([action, deliveries]);
    };
    running.service.events.on("account.changed", listen);
    expect(await Promise.all(Array.from({ length: 5 }, () => accounts.disable(account.sub)))).toMatchObject(
      Array.from({ length: 5 }, () => ({ disabled: true })),
    );
    expect(await Promise.all(Array.from({ length: 5 }, () => accounts.enable(account.sub)))).toMatchObject(
      Array.from({ length: 5 }, () => ({ disabled: false })),
    );
    running.service.events.off("account.changed", listen);
    expect(changes).toEqual([
      ["account.disabled", 0],
      ["account.enabled", 0],
    ]);
  });

  it("accepts any string as a sub: unknown accounts are not_found [D-RESULT-1]", async () => {
    for (const sub of ["nobody", "", "\0", "__proto__", "x".repeat(10_000)]) {
      await expect(accounts.disable(sub)).rejects.toMatchObject({ code: "not_found" });
      await expect(accounts.enable(sub)).rejects.toMatchObject({ code: "not_found" });
    }
    await expect(accounts.disable(7 as unknown as string)).rejects.toThrow(TypeError);
  });
});
