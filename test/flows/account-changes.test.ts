import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Account, Accounts } from "../../accounts/operations/accounts.ts";
import type { Clients } from "../../accounts/operations/clients.ts";
import { type Held, Holdings, STOP } from "./holdings.ts";
import { clientAt, signIn, enterPassword } from "./clients.ts";
import { send } from "../../testing/test-client.ts";
import { ADA, NEWS, SHOP, useService } from "./running-service.ts";
import { expectRefusal } from "./token-answers.ts";

let accounts: Accounts;
let holdings: Holdings;

const running = useService();
const oauth2 = clientAt(running, "oauth2", NEWS);
const openid = clientAt(running, "openid", NEWS);
beforeAll(() => {
  ({ accounts } = running.service);
  holdings = new Holdings(running);
});

const newcomer = (): ReturnType<Holdings["newcomer"]> => holdings.newcomer();
const everything = (): Promise<Held> => holdings.everything();
const left = (held: Held): ReturnType<Holdings["left"]> => holdings.left(held);

describe("what an account change ends immediately", () => {
  it("nothing without a change [D-ACCOUNT-9]", async () => {
    expect(await left(await everything())).toEqual([true, true, true]);
  });

  it("deletion ends everything [D-ACCOUNT-6, D-ACCOUNT-9]", async () => {
    const held = await everything();
    const cookie = held.browser.jar.header(new URL(openid.base));
    const racing = Array.from({ length: 10 }, () => send(openid.authorizeUrl(), { headers: { cookie } }));
    expect(await accounts.delete(held.account.sub)).toBe(true);
    for (const { status } of await Promise.all(racing)) expect([302, 303, 400]).toContain(status);
    expect(await left(held)).toEqual([false, false, false]);
    await held.browser.get(openid.authorizeUrl());
    await signIn(held.browser, held.person);
    expect([held.browser.status, held.browser.location]).toEqual([400, undefined]);
    expectRefusal(await oauth2.password(held.person), "invalid_grant");
  });

  it("a new password ends everything, and the old one no longer works [D-ACCOUNT-7]", async () => {
    const held = await everything();
    await accounts.setPassword(held.account.sub, "another password");
    expect(await left(held)).toEqual([false, false, false]);
    expectRefusal(await oauth2.password(held.person), "invalid_grant");
    const person = { ...held.person, password: "another password" };
    expect((await oauth2.exchange(await oauth2.code({ ...person, browser: held.browser }))).status).toBe(200);
  });

  it("endSessions ends only the session, revokeTokens only the tokens [D-ACCOUNT-8]", async () => {
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

  it("unassignment ends the tokens of the service's clients, not the session [D-ACCOUNT-5]", async () => {
    const held = await everything();
    expect(await accounts.unassign(held.account.sub, [SHOP.service])).toBe(true);
    expect(await left(held)).toEqual([true, false, true]);
    const nothing = await everything();
    expect(await accounts.unassign(nothing.account.sub, ["3"])).toBe(false);
    expect(await left(nothing)).toEqual([true, true, true]);
  });

  it.each<[what: string, change: (clients: Clients) => Promise<unknown>]>([
    [
      "a client that was disabled and enabled again",
      async (clients) => {
        await clients.disable(NEWS.client_id);
        await clients.enable(NEWS.client_id);
      },
    ],
    [
      "a client that was moved to another service",
      (clients) => clients.update(NEWS.client_id, { service: SHOP.service }),
    ],
    [
      "a client that was moved there and back",
      async (clients) => {
        await clients.update(NEWS.client_id, { service: SHOP.service });
        await clients.update(NEWS.client_id, { service: NEWS.service });
      },
    ],
  ])(
    "%s has lost its codes and tokens for good; the session lives on [D-ACCOUNT-18]",
    async (_what, change) => {
      const { clients } = running.service;
      const held = await everything();
      await change(clients);
      expect(await left(held)).toEqual([false, true, true]);
      await clients.update(NEWS.client_id, { service: NEWS.service });
      expect(
        (await openid.exchange(await openid.code({ ...held.person, browser: held.browser }))).status,
      ).toBe(200);
    },
  );

  it("an unfinished sign-in can't be completed after it [D-ACCOUNT-9]", async () => {
    for (const [change, works] of [
      [(sub: string) => accounts.delete(sub), false],
      [(sub: string) => accounts.endSessions(sub), false],
      // It ends existing codes and tokens, not the sign-in: see docs/security/how-accounts-are-protected.md.
      [(sub: string) => accounts.revokeTokens(sub), true],
      [
        async (sub: string) => {
          await accounts.revokeTokens(sub);
          await accounts.endSessions(sub);
        },
        false,
      ],
    ] as const) {
      const { account, person } = await newcomer();
      const browser = openid.browser();
      await browser.get(openid.authorizeUrl());
      const next = await enterPassword(browser, person);
      await change(account.sub);
      await browser.get(next);
      expect(browser.location?.searchParams.has("code") ?? false).toBe(works);
    }
  });
});

const services = async ({ sub }: Account): Promise<unknown> => (await accounts.find(sub))?.services;

describe("assignment", () => {
  it("happens at the first sign-in, before the code is issued [D-ACCOUNT-4]", async () => {
    for (const party of [oauth2, openid]) {
      const { account, person } = await newcomer();
      expect(await services(account)).toEqual({});
      const browser = party.browser(STOP);
      await browser.get(party.authorizeUrl());
      expect(await services(account)).toEqual({});
      const code = await party.code({ ...person, browser });
      expect(await services(account)).toEqual({ [NEWS.service]: null });
      await party.exchange(code);
      await clientAt(running, party.deployment, SHOP).authorize({ ...ADA, browser });
      expect(await services(account)).toEqual({ [NEWS.service]: null, [SHOP.service]: null });
    }
  });

  it("happens with the password grant, and keeps an existing number [D-ACCOUNT-4]", async () => {
    const { account, person } = await newcomer();
    expect((await oauth2.password({ ...person, password: "wrong" })).status).toBe(400);
    expect(await services(account)).toEqual({});
    expect((await oauth2.password(person)).status).toBe(200);
    expect(await services(account)).toEqual({ [NEWS.service]: null });
    await accounts.assign(account.sub, NEWS.service, 42);
    await oauth2.password(person);
    await openid.signIn(person);
    expect(await services(account)).toEqual({ [NEWS.service]: 42 });
  });

  it("does not happen at a code exchange or a refresh [D-ACCOUNT-4, D-ACCOUNT-5]", async () => {
    const { account, person } = await newcomer();
    const browser = openid.browser();
    const { refresh_token } = await openid.signIn({ ...person, browser });
    const code = await openid.code({ ...person, browser });
    await accounts.unassign(account.sub, [NEWS.service]);
    expectRefusal(await openid.refresh(refresh_token), "invalid_grant");
    expectRefusal(await openid.exchange(code), "invalid_grant");
    expect(await services(account)).toEqual({});
  });

  it("is restored by an interactive request, never by prompt=none [D-ACCOUNT-5]", async () => {
    for (const party of [oauth2, openid]) {
      const { account, person } = await newcomer();
      const browser = party.browser();
      await party.signIn({ ...person, browser });
      await accounts.unassign(account.sub, [NEWS.service]);
      await browser.get(party.authorizeUrl({ prompt: "none", state: "s" }));
      expect(browser.location?.searchParams.get("error")).toBe("interaction_required");
      expect(browser.location?.searchParams.get("state")).toBe("s");
      expect(await services(account)).toEqual({});
      // The session continues, so there is no form.
      await browser.get(party.authorizeUrl());
      const code = browser.location?.searchParams.get("code") ?? "";
      expect(await services(account)).toEqual({ [NEWS.service]: null });
      expect((await party.exchange(code)).status).toBe(200);
      await browser.get(party.authorizeUrl({ prompt: "none" }));
      expect(browser.location?.searchParams.has("code")).toBe(true);
    }
  });

  it("happens once for 20 concurrent requests, and each gets a code [D-ACCOUNT-4, D-AUTHZ-16]", async () => {
    const { account, person } = await newcomer();
    const browser = openid.browser(STOP);
    await clientAt(running, "openid", SHOP).authorize({ ...person, browser });
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
