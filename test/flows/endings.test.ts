import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Account } from "../../lib/domain/account.ts";
import type { Accounts } from "../../lib/domain/accounts.ts";
import type { Browser } from "../../lib/testing/browser/browser.ts";
import { basic, type Person, type RelyingParty, relyingParty, send, type Tokens } from "./relying-party.ts";
import { CALLBACK, NEWS, type RunningService, SHOP, startService } from "./running-service.ts";
import { expectRefusal } from "./token-answers.ts";

const STOP = { stopAt: [CALLBACK, ...SHOP.redirect_uris] };

let running: RunningService;
let accounts: Accounts;
let oauth2: RelyingParty;
let openid: RelyingParty;
let shop: RelyingParty;

beforeAll(async () => {
  running = await startService();
  ({ accounts } = running.service);
  oauth2 = relyingParty(running, "oauth2", NEWS);
  openid = relyingParty(running, "openid", NEWS);
  shop = relyingParty(running, "openid", SHOP);
});
afterAll(() => running.close());

/** A new account, with which nothing has happened. */
async function newcomer(): Promise<{ account: Account; person: Person }> {
  const username = `user-${randomBytes(6).toString("hex")}`;
  const password = "a password of a newcomer";
  const account = await accounts.create({ email: `${username}@example.com`, username, password });
  return { account, person: { username, password } };
}

/** Everything that a person and two clients hold. */
interface Held {
  readonly account: Account;
  readonly person: Person;
  readonly browser: Browser;
  readonly news: Tokens;
  readonly newsCode: string;
  readonly shop: Tokens;
  readonly shopCode: string;
}

async function everything(): Promise<Held> {
  const { account, person } = await newcomer();
  const browser = openid.browser(STOP);
  return {
    account,
    person,
    browser,
    news: await openid.tokens({ scope: "openid" }, person, browser),
    shop: await shop.tokens({ scope: "openid" }, person, browser),
    newsCode: await openid.code({}, person, browser),
    shopCode: await shop.code({}, person, browser),
  };
}

/** Whether RFC 7662 calls the token active. */
async function isActive(client: typeof NEWS, token: string): Promise<unknown> {
  const { body } = await send(`${running.openid}/oauth2/introspect`, {
    method: "POST",
    headers: { authorization: basic(client) },
    body: new URLSearchParams({ token }),
  });
  return body["active"];
}

/** What works of what a client holds: userinfo, the standard one, both introspections, refresh, code. */
async function alive(party: RelyingParty, tokens: Tokens, code: string): Promise<boolean> {
  const seen = [
    (await party.userinfo(tokens.access_token)).status === 200,
    (await party.profile(tokens.access_token)).status === 200,
    (await party.bearer("/oauth2/userinfo", tokens.access_token)).status === 200,
    (await isActive(party.client, tokens.access_token)) === true,
    (await isActive(party.client, tokens.refresh_token)) === true,
    (await party.refresh(tokens.refresh_token)).status === 200,
    (await party.exchange(code)).status === 200,
  ];
  const [first = false] = seen;
  // All or nothing: nothing of it may end alone.
  expect(seen).toEqual(seen.map(() => first));
  return first;
}

async function isSignedIn({ browser }: Held): Promise<boolean> {
  await browser.get(openid.authorizeUrl({ prompt: "none" }));
  return browser.location?.searchParams.has("code") ?? false;
}

/** What is left: the news' tokens, the shop's, the session. */
async function left(held: Held): Promise<[news: boolean, shop: boolean, session: boolean]> {
  const news = await alive(openid, held.news, held.newsCode);
  const other = await alive(shop, held.shop, held.shopCode);
  return [news, other, await isSignedIn(held)];
}

describe("what an account change ends, at once", () => {
  it("nothing, as long as nothing happens [D-ACCOUNT-9]", async () => {
    expect(await left(await everything())).toEqual([true, true, true]);
  });

  it("deletion ends everything [D-ACCOUNT-6, D-ACCOUNT-9]", async () => {
    const held = await everything();
    expect(await accounts.delete(held.account.sub)).toBe(true);
    expect(await left(held)).toEqual([false, false, false]);
    await held.browser.get(openid.authorizeUrl());
    await held.browser.submit(held.browser.form("password"), { ...held.person });
    expect([held.browser.status, held.browser.location]).toEqual([400, undefined]);
    expectRefusal(await oauth2.password(held.person), "invalid_grant");
  });

  it("a new password by the API ends everything, and the old one signs nobody in [D-ACCOUNT-7]", async () => {
    const held = await everything();
    await accounts.setPassword(held.account.sub, "another password");
    expect(await left(held)).toEqual([false, false, false]);
    expectRefusal(await oauth2.password(held.person), "invalid_grant");
    const person = { ...held.person, password: "another password" };
    expect((await oauth2.exchange(await oauth2.code({}, person, held.browser))).status).toBe(200);
  });

  it("endSessions ends the session alone, revokeTokens the tokens alone [D-ACCOUNT-8]", async () => {
    const held = await everything();
    await accounts.endSessions(held.account.sub);
    expect(await left(held)).toEqual([true, true, false]);
    const other = await everything();
    await accounts.revokeTokens(other.account.sub);
    expect(await left(other)).toEqual([false, false, true]);
    const one = await everything();
    await accounts.revokeTokens(one.account.sub, NEWS.client_id);
    expect(await left(one)).toEqual([false, true, true]);
  });

  it("unassignment ends what the clients of the service hold, and not the session [D-ACCOUNT-5]", async () => {
    const held = await everything();
    expect(await accounts.unassign(held.account.sub, [SHOP.service])).toBe(true);
    expect(await left(held)).toEqual([true, false, true]);
    const nothing = await everything();
    expect(await accounts.unassign(nothing.account.sub, ["3"])).toBe(false);
    expect(await left(nothing)).toEqual([true, true, true]);
  });

  it("a sign-in that was begun before is of no use after it [D-ACCOUNT-9]", async () => {
    for (const [change, works] of [
      [(sub: string) => accounts.delete(sub), false],
      [(sub: string) => accounts.endSessions(sub), false],
      [(sub: string) => accounts.revokeTokens(sub), true],
    ] as const) {
      const { account, person } = await newcomer();
      const browser = openid.browser();
      const form = (await browser.get(openid.authorizeUrl())).form("password");
      // The right password is sent, and before the browser comes back the account changes.
      const sent = new URLSearchParams(form.fields.map(([name, value]) => [name, value]));
      sent.set("username", person.username);
      sent.set("password", person.password);
      const answer = await fetch(form.action, {
        method: "POST",
        body: sent,
        redirect: "manual",
        headers: { cookie: browser.jar.header(form.action), origin: running.origin },
      });
      expect(answer.status).toBe(303);
      browser.jar.take(form.action, answer.headers.getSetCookie());
      await change(account.sub);
      await browser.get(answer.headers.get("location") ?? "");
      expect(browser.location?.searchParams.has("code") ?? false).toBe(works);
    }
  });
});

const services = async ({ sub }: Account): Promise<unknown> => (await accounts.find(sub))?.services;

describe("assignment", () => {
  it("happens at the first sign-in, before there is a code [D-ACCOUNT-4]", async () => {
    for (const party of [oauth2, openid]) {
      const { account, person } = await newcomer();
      expect(await services(account)).toEqual({});
      const browser = party.browser(STOP);
      await browser.get(party.authorizeUrl());
      expect(await services(account)).toEqual({});
      const code = await party.code({}, person, browser);
      expect(await services(account)).toEqual({ [NEWS.service]: null });
      await party.exchange(code);
      await relyingParty(running, party.kind, SHOP).authorize(browser);
      expect(await services(account)).toEqual({ [NEWS.service]: null, [SHOP.service]: null });
    }
  });

  it("happens with the password grant, and keeps a number that is known [D-ACCOUNT-4]", async () => {
    const { account, person } = await newcomer();
    expect((await oauth2.password({ ...person, password: "wrong" })).status).toBe(400);
    expect(await services(account)).toEqual({});
    expect((await oauth2.password(person)).status).toBe(200);
    expect(await services(account)).toEqual({ [NEWS.service]: null });
    await accounts.assign(account.sub, NEWS.service, 42);
    await oauth2.password(person);
    await openid.tokens({}, person);
    expect(await services(account)).toEqual({ [NEWS.service]: 42 });
  });

  it("does not happen at an exchange or a refresh [D-ACCOUNT-4, D-ACCOUNT-5]", async () => {
    const { account, person } = await newcomer();
    const browser = openid.browser();
    const { refresh_token } = await openid.tokens({}, person, browser);
    const code = await openid.code({}, person, browser);
    await accounts.unassign(account.sub, [NEWS.service]);
    expectRefusal(await openid.refresh(refresh_token), "invalid_grant");
    expectRefusal(await openid.exchange(code), "invalid_grant");
    expect(await services(account)).toEqual({});
  });

  it("comes back with a sign-in that the person sees, and never with prompt=none [D-ACCOUNT-5]", async () => {
    for (const party of [oauth2, openid]) {
      const { account, person } = await newcomer();
      const browser = party.browser();
      await party.tokens({}, person, browser);
      await accounts.unassign(account.sub, [NEWS.service]);
      await browser.get(party.authorizeUrl({ prompt: "none", state: "s" }));
      expect(browser.location?.searchParams.get("error")).toBe("interaction_required");
      expect(browser.location?.searchParams.get("state")).toBe("s");
      expect(await services(account)).toEqual({});
      // The session lives on, so the browser is redirected directly.
      await browser.get(party.authorizeUrl());
      const code = browser.location?.searchParams.get("code") ?? "";
      expect(await services(account)).toEqual({ [NEWS.service]: null });
      expect((await party.exchange(code)).status).toBe(200);
      await browser.get(party.authorizeUrl({ prompt: "none" }));
      expect(browser.location?.searchParams.has("code")).toBe(true);
    }
  });

  it("of 20 browsers at once is one, and each gets its code [D-ACCOUNT-4, D-AUTHZ-16]", async () => {
    const { account, person } = await newcomer();
    const browser = openid.browser(STOP);
    await shop.authorize(browser, {}, person);
    const cookie = browser.jar.header(new URL(running.origin));
    const answers = await Promise.all(
      Array.from({ length: 20 }, () =>
        fetch(openid.authorizeUrl(), { headers: { cookie }, redirect: "manual" }),
      ),
    );
    const codes = answers.map(({ headers }) =>
      new URL(headers.get("location") ?? "").searchParams.get("code"),
    );
    expect(new Set(codes).size).toBe(20);
    expect(await services(account)).toEqual({ [NEWS.service]: null, [SHOP.service]: null });
    const exchanged = await Promise.all(codes.map((code) => openid.exchange(code ?? "")));
    expect(exchanged.map(({ status }) => status)).toEqual(codes.map(() => 200));
  });
});
