/** Every change of factors, whoever makes it, and everything that it must end or say. */
import { describe, expect, it } from "@jest/globals";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountInternals } from "../../accounts/account.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { linkIn } from "../interactions/self-service.ts";
import { formOf, METHODS, MethodsParty, NEW, startMethodsService } from "./methods-party.ts";
import { clientAt } from "./clients.ts";
import { NEWS } from "./running-service.ts";
import { beforeTests } from "../closing.ts";

const running = beforeTests(() => startMethodsService());
const news = clientAt(running, "openid", NEWS);

/** A person with one passkey and an app, or without factors, who is signed in in two browsers. */
async function stage(hasFactors: boolean) {
  const party = await MethodsParty.create(running);
  const first = await party.browser();
  if (hasFactors) {
    await party.add(first, "passkey");
    await party.add(first, "app");
  }
  const own = await party.browser();
  const other = await party.browser();
  return { party, own, other };
}

type Stage = Awaited<ReturnType<typeof stage>>;

/** The address of the page of the only passkey. */
async function passkeyPage({ own }: Stage): Promise<string> {
  await own.get(running.openid + METHODS);
  return /href="([^"]*change\?factor=[\w-]{22})"/.exec(own.html)?.[1] ?? "";
}

/** What a change does; only the session of the person's own page may go on. */
interface Expected {
  readonly action: string;
  /** In the mail. */
  readonly mail: string;
  /** Whether the browser in which it was made stays signed in. */
  readonly keepsOwn: boolean;
  /** Whether the mail contains the undo link. */
  readonly hasLink?: true;
}

type Change = readonly [
  what: string,
  hasFactors: boolean,
  change: (stage: Stage) => Promise<unknown>,
  expected: Expected,
];

const CHANGES: readonly Change[] = [
  [
    "the first app, on the page",
    false,
    ({ party, own }) => party.add(own, "app"),
    { action: "account.app_added", mail: "An authenticator app was added", keepsOwn: true, hasLink: true },
  ],
  [
    "the first passkey, on the page",
    false,
    ({ party, own }) => party.add(own, "passkey"),
    { action: "account.passkey_added", mail: "A passkey was added", keepsOwn: true, hasLink: true },
  ],
  [
    "another passkey, on the page",
    true,
    ({ party, own }) => party.add(own, "passkey", "Tablet"),
    { action: "account.passkey_added", mail: "A passkey was added", keepsOwn: true },
  ],
  [
    "removing a passkey, on the page",
    true,
    async (found) => {
      await found.own.get(await passkeyPage(found));
      await found.own.submit(formOf(found.own, "remove"));
    },
    { action: "account.factor_removed", mail: "A passkey of your account was removed", keepsOwn: true },
  ],
  [
    "removing the app, on the page",
    true,
    async ({ own }) => {
      await own.get(`${running.openid}${METHODS}/change?factor=app`);
      await own.submit(formOf(own, "remove"));
    },
    {
      action: "account.factor_removed",
      mail: "The authenticator app of your account was removed",
      keepsOwn: true,
    },
  ],
  [
    "new recovery codes, on the page",
    true,
    async ({ own }) => {
      await own.get(`${running.openid}${METHODS}/recovery-codes`);
      await own.submit(own.form("csrf"));
    },
    { action: "account.recovery_codes_replaced", mail: "new recovery codes", keepsOwn: true },
  ],
  [
    "an app by the library",
    false,
    ({ party }) => running.service.accounts.addApp(party.person.sub, { secret: "JBSWY3DPEHPK3PXP" }),
    { action: "account.app_added", mail: "An authenticator app was added", keepsOwn: false, hasLink: true },
  ],
  [
    "removing the app by the library",
    true,
    ({ party }) => running.service.accounts.removeFactor(party.person.sub, "app"),
    {
      action: "account.factor_removed",
      mail: "The authenticator app of your account was removed",
      keepsOwn: false,
    },
  ],
  [
    "removing all by the library",
    true,
    ({ party }) => running.service.accounts.removeFactors(party.person.sub),
    { action: "account.factors_removed", mail: "All passkeys", keepsOwn: false },
  ],
  [
    "new recovery codes by the library",
    true,
    ({ party }) => running.service.accounts.resetRecoveryCodes(party.person.sub),
    { action: "account.recovery_codes_replaced", mail: "new recovery codes", keepsOwn: false },
  ],
];

/** Whether the service still counts a remembered browser as one. */
async function remembered({ party }: Stage): Promise<() => Promise<boolean>> {
  const accounts = running.service.accounts as unknown as AccountInternals;
  const record = () => accounts.record(party.person.sub);
  const before = await record();
  expect(before).toBeDefined();
  const { generation = 0 } = before!.ways;
  // A remembered browser counts only while this generation is current.
  return async () => ((await record())!.ways.generation ?? 0) === generation;
}

const isSignedIn = async (browser: Browser): Promise<boolean> => {
  await browser.get(`${running.openid}/account`);
  return browser.title === "Your account";
};

describe.each(CHANGES)("%s", (_what, hasFactors, change, expected) => {
  it("ends what it must, and says so by mail and in the audit [D-FACTOR-9]", async () => {
    const found = await stage(hasFactors);
    const { party, own, other } = found;
    const waiting = new Browser();
    await waiting.get(`${running.openid}${NEW.app}`);
    const isRemembered = await remembered(found);
    const sent = running.sent.length;
    expect(await isSignedIn(other)).toBe(true);
    await change(found);
    expect(await isSignedIn(other)).toBe(false);
    expect(await isSignedIn(own)).toBe(expected.keepsOwn);
    expect(await isRemembered()).toBe(false);
    const about = () =>
      running.sent
        .slice(sent)
        .filter(({ to, text }) => to === party.person.email && text.includes(expected.mail));
    while (about().length === 0) await new Promise((resolve) => void setTimeout(resolve, 10));
    expect(about()).toHaveLength(1);
    expect(linkIn(about()[0]!) !== "").toBe(expected.hasLink ?? false);
    const { items: records } = await running.service.audit.list({
      account: party.person.sub,
      action: expected.action,
    });
    const byPerson: Partial<Caller> = { actor: { kind: "account", id: party.person.sub } };
    expect(records[0]).toMatchObject(expected.keepsOwn ? byPerson : { actor: expect.anything() });
  });

  it("leaves the tokens of clients alone, and no sign-in that was under way goes on", async () => {
    const found = await stage(hasFactors);
    const { party, own } = found;
    const tokens = await news.signIn(
      { ...party.person, browser: Object.assign(news.browser(), { jar: own.jar }) },
      { scope: "openid" },
    );
    await change(found);
    const answer = await news.userinfo(tokens.access_token);
    expect(answer.status).toBe(200);
    expect((await news.refresh(tokens.refresh_token)).status).toBe(200);
  });
});

it("renaming a passkey ends nothing and sends nothing, and is in the audit", async () => {
  const found = await stage(true);
  const { party, own, other } = found;
  await own.get(await passkeyPage(found));
  const isRemembered = await remembered(found);
  const sent = running.sent.filter(({ to }) => to === party.person.email).length;
  await own.submit(formOf(own, "rename"), { name: "Tablet" });
  expect([await isSignedIn(own), await isSignedIn(other), await isRemembered()]).toEqual([true, true, true]);
  expect(running.sent.filter(({ to }) => to === party.person.email)).toHaveLength(sent);
  expect((await party.actions())[0]).toBe("account.passkey_renamed");
});
