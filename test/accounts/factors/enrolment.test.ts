/** Enrolment, removal, the link that undoes a first factor, and remembered browsers, over a real storage. */
import { kindsOf } from "../../../accounts/ways/ways.ts";
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { Enrolment, Enrolments } from "../../../accounts/factors/enrolment.ts";
import { createRememberedBrowsers } from "../../../accounts/factors/remembered-browsers.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { totpCode } from "../../../testing/totp-code.ts";
import {
  AT,
  from,
  NEW_PASSWORD,
  openPeople,
  PASSWORD,
  type PeopleStage,
  wrongCode,
} from "../people/stage.ts";

let stage: PeopleStage;
let enrolments: Enrolments;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  enrolments = stage.factors.enrolments as Enrolments;
  ({ sub } = await stage.accounts.create({
    email: "ada@example.com",
    password: PASSWORD,
    email_verified: true,
  }));
});

const GONE = { kind: "gone" };
const record = async () => (await stage.accounts.record(sub)) as AccountRecord;

/** The code from the mail. */
async function mailedCode(place = "place"): Promise<string> {
  await expect(enrolments.sendCode(sub, place, AT)).resolves.toMatchObject({ kind: "sent" });
  return (await stage.mail()).code;
}

async function begin(code?: string, place = "place"): Promise<Enrolment> {
  const begun = await enrolments.begin(sub, place, code, AT);
  if (begun.kind !== "begun") throw new Error(begun.kind);
  return begun.enrolment;
}

const codeOf = ({ app }: Enrolment) => totpCode(app?.secret ?? "", stage.clock.now());
const addApp = (enrolment: Enrolment, keepSession?: string) =>
  enrolments.addApp(enrolment, codeOf(enrolment), { keepSession }, AT);

/** Adds the first factor. @returns the link in the mail about it. */
async function enrol(): Promise<string> {
  await expect(addApp(await begin(await mailedCode()))).resolves.toMatchObject({ kind: "changed" });
  return (await stage.mail()).link;
}

describe("the first factor", () => {
  it("needs a code from the confirmed address, and comes with recovery codes [D-FACTOR-1, D-FACTOR-5, D-FACTOR-8]", async () => {
    await expect(enrolments.begin(sub, "place", undefined, AT)).resolves.toEqual({ kind: "code-required" });
    await expect(enrolments.begin(sub, "place", "00000000", AT)).resolves.toEqual(GONE);
    const code = await mailedCode();
    await expect(enrolments.begin(sub, "place", wrongCode(code), AT)).resolves.toEqual({
      kind: "wrong",
      triesLeft: 4,
    });
    // Where another sign-in waits, the code is worth nothing.
    await expect(enrolments.begin(sub, "elsewhere", code, AT)).resolves.toEqual(GONE);
    const enrolment = await begin(code);
    await expect(enrolments.begin(sub, "place", code, AT)).resolves.toEqual(GONE);
    expect(enrolment.app?.uri).toMatch(/^otpauth:\/\/totp\/.*secret=/);
    const wrong = codeOf(enrolment) === "000000" ? "111111" : "000000";
    await expect(enrolments.addApp(enrolment, wrong, {}, AT)).resolves.toEqual({ kind: "wrong" });
    await expect(stage.accounts.factors(sub)).resolves.toEqual({
      app: null,
      passkeys: [],
      recovery_codes_left: 0,
    });
    const { sessions_generation } = await record();
    const added = await addApp(enrolment, "my session");
    expect(added).toMatchObject({ kind: "changed", sessions_generation: sessions_generation + 1 });
    expect(stage.changed).toMatchObject([{ sub, sessions: true, keepSession: "my session" }]);
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({ recovery_codes_left: 10 });
    await expect(stage.mail()).resolves.toMatchObject({
      kind: "factors-changed",
      to: "ada@example.com",
      link: expect.stringMatching(/^[\w-]{43}$/),
      mail: { params: { change: "app-added" } },
    });
    // The code that added it is used.
    await expect(stage.factors.codes.useApp(sub, codeOf(enrolment), AT)).resolves.toEqual({ kind: "wrong" });
    const { items: records } = await stage.storage.audit.list({ account: sub, limit: 1 });
    expect(records).toMatchObject([{ action: "account.app_added", actor: { kind: "account", id: sub } }]);
  });

  it("of one account is not opened by the code of another", async () => {
    const eve = await stage.accounts.create({ email: "eve@example.com", email_verified: true });
    const code = await mailedCode();
    await expect(enrolments.begin(eve.sub, "place", code, AT)).resolves.toEqual(GONE);
  });

  it("is guarded by the address before it for seven days after a change [D-FACTOR-7]", async () => {
    await stage.addressChanges.start(sub, "thief@example.com", AT);
    await stage.addressChanges.confirm(sub, { code: (await stage.mail()).code }, AT);
    await stage.mails();
    await expect(enrolments.sendCode(sub, "place", AT)).resolves.toMatchObject({ kind: "sent" });
    const { to, code } = await stage.mail();
    expect(to).toBe("ada@example.com");
    await addApp(await begin(code));
    const told = (await stage.mails()).map((mail) => `${mail.to} ${mail.link !== ""}`);
    expect(told.toSorted()).toEqual(["ada@example.com true", "thief@example.com false"]);
    await stage.accounts.removeFactors(sub);
    await stage.mails();
    stage.clock.advance(7 * 86_400);
    await enrolments.sendCode(sub, "place", AT);
    await expect(stage.mail()).resolves.toMatchObject({ to: "thief@example.com" });
  });

  it("is guarded even by an address that was never confirmed, which gets no link that takes over the account", async () => {
    await stage.accounts.update(sub, { email_verified: false });
    await stage.addressChanges.start(sub, "thief@example.com", AT);
    await stage.addressChanges.confirm(sub, { code: (await stage.mail()).code }, AT);
    const links = (await stage.mails()).map(({ to, link }) => [to, link]);
    expect(links).toEqual([
      ["ada@example.com", ""],
      ["thief@example.com", ""],
    ]);
    await enrolments.sendCode(sub, "place", AT);
    await expect(stage.mail()).resolves.toMatchObject({ to: "ada@example.com" });
    await stage.accounts.addApp(sub, { secret: "GEZDGNBVGY3TQOJQ" });
    const told = (await stage.mails()).map(({ to, link }) => [to, link]);
    expect(new Set(told)).toEqual(new Set(links));
    await stage.accounts.removeFactors(sub);
    await stage.mails();
    stage.clock.advance(7 * 86_400);
    await enrolments.sendCode(sub, "place", AT);
    await expect(stage.mail()).resolves.toMatchObject({ to: "thief@example.com" });
  });

  it("confirms an address that was not confirmed [D-FACTOR-5]", async () => {
    await stage.accounts.update(sub, { email_verified: false });
    await begin(await mailedCode());
    await expect(stage.accounts.find(sub)).resolves.toMatchObject({ email_verified: true });
  });

  it.each([
    ["the password was changed", () => stage.accounts.setPassword(sub, NEW_PASSWORD)],
    ["the address was changed", () => stage.accounts.update(sub, { email: "new@example.com" })],
    ["the sessions were ended", () => stage.accounts.endSessions(sub)],
    ["another factor was added", () => stage.accounts.addApp(sub, { secret: "GEZDGNBVGY3TQOJQ" })],
    ["the account was deleted", () => stage.accounts.delete(sub)],
    ["ten minutes have passed", async () => stage.clock.advance(600)],
  ])("is not added once %s", async (_what, act) => {
    const enrolment = await begin(await mailedCode());
    await act();
    const { kind } = await addApp(enrolment);
    expect(["stale", "not_found"]).toContain(kind);
  });

  it.each([
    ["the password was changed", () => stage.accounts.setPassword(sub, NEW_PASSWORD)],
    ["the address was changed", () => stage.accounts.update(sub, { email: "new@example.com" })],
    ["the sessions were ended", () => stage.accounts.endSessions(sub)],
    ["somebody else has added one", () => stage.accounts.addApp(sub, { secret: "GEZDGNBVGY3TQOJQ" })],
  ])("is not begun with a code, right or wrong, once %s", async (_what, act) => {
    const code = await mailedCode();
    await act();
    for (const typed of [wrongCode(code), "", code]) {
      const { kind } = await enrolments.begin(sub, "place", typed, AT);
      expect(["gone", "wrong"]).toContain(kind);
    }
  });

  it("is added once by two enrolments at the same moment [D-FACTOR-12]", async () => {
    const one = await begin(await mailedCode("one"), "one");
    const two = await begin(await mailedCode("two"), "two");
    const results = await Promise.all([addApp(one), addApp(two), addApp(one)]);
    expect(results.map(({ kind }) => kind).toSorted()).toEqual(["changed", "stale", "stale"]);
  });

  it("comes ten times an hour, each with its link; a further one is refused, and can be added later [D-MAILLIMIT-3]", async () => {
    const again = async (number: number) => {
      await expect(enrolments.sendCode(sub, "place", from(number))).resolves.toMatchObject({ kind: "sent" });
      return begin((await stage.mail()).code);
    };
    for (let number = 0; number < 10; number += 1) {
      await expect(addApp(await again(number))).resolves.toMatchObject({ kind: "changed" });
      expect((await stage.mail()).link).not.toBe("");
      await stage.accounts.removeFactor(sub, "app");
      await stage.mails();
    }
    const further = await again(10);
    await expect(addApp(further)).resolves.toMatchObject({ kind: "limited" });
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({ app: null });
    await expect(stage.mails()).resolves.toEqual([]);
    stage.clock.advance(3_600);
    await expect(addApp(await again(11))).resolves.toMatchObject({ kind: "changed" });
    expect((await stage.mail()).link).not.toBe("");
  });

  it("that is not added, because the account has changed, takes no point [D-MAILLIMIT-3]", async () => {
    for (let number = 0; number < 10; number += 1) {
      await expect(enrolments.sendCode(sub, "place", from(number))).resolves.toMatchObject({ kind: "sent" });
      const enrolment = await begin((await stage.mail()).code);
      await stage.accounts.endSessions(sub);
      await expect(addApp(enrolment)).resolves.toEqual({ kind: "stale" });
    }
    await expect(enrolments.sendCode(sub, "place", from(10))).resolves.toMatchObject({ kind: "sent" });
    await expect(addApp(await begin((await stage.mail()).code))).resolves.toMatchObject({ kind: "changed" });
  });

  it("is undone with the link in the mail, within seven days: factors, sessions, tokens and the password end [D-FACTOR-6]", async () => {
    const link = await enrol();
    stage.clock.advance(7 * 86_400 - 1);
    const before = await record();
    const undone = await enrolments.undo(link, AT);
    expect(undone).toEqual({ kind: "undone", reset: expect.stringMatching(/^[\w-]{43}$/) });
    const after = await record();
    expect(after).toMatchObject({ ways: { password: { hash: null } } });
    expect(kindsOf(after)).toEqual([]);
    expect(after.sessions_generation).toBeGreaterThan(before.sessions_generation);
    expect(after.tokens_generation).toBeGreaterThan(before.tokens_generation);
    await expect(stage.accounts.factors(sub)).resolves.toEqual({
      app: null,
      passkeys: [],
      recovery_codes_left: 0,
    });
    await expect(enrolments.undo(link, AT)).resolves.toEqual(GONE);
    if (undone.kind !== "undone") throw new Error(undone.kind);
    const finished = await stage.passwordResets.finish({ link: undone.reset }, NEW_PASSWORD, AT);
    expect(finished).toMatchObject({ kind: "done", sub });
  });

  it("is not undone after seven days, nor once an operator has removed it [D-FACTOR-6]", async () => {
    const link = await enrol();
    await stage.accounts.removeFactors(sub);
    await expect(enrolments.undo(link, AT)).resolves.toEqual(GONE);
    await stage.mails();
    const second = await enrol();
    stage.clock.advance(7 * 86_400);
    await expect(enrolments.undo(second, AT)).resolves.toEqual(GONE);
  });

  it("stays after a password reset by mail, and another one needs no code [D-FACTOR-40]", async () => {
    await enrol();
    await expect(enrolments.sendCode(sub, "place", AT)).resolves.toEqual(GONE);
    await expect(stage.mails()).resolves.toEqual([]);
    await stage.passwordResets.start(undefined, "ada@example.com", AT);
    const { link } = await stage.mail();
    await stage.passwordResets.finish({ link }, NEW_PASSWORD, AT);
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({ app: { stopped: false } });
  });
});

describe("every change of factors", () => {
  it.each([
    ["removeFactor", () => stage.accounts.removeFactor(sub, "app"), "account.factor_removed", "app-removed"],
    ["removeFactors", () => stage.accounts.removeFactors(sub), "account.factors_removed", "all-removed"],
    [
      "resetRecoveryCodes",
      () => stage.accounts.resetRecoveryCodes(sub),
      "account.recovery_codes_replaced",
      "recovery-codes",
    ],
  ] as const)(
    "%s ends sessions and remembered browsers, and is mailed and in the audit [D-FACTOR-9]",
    async (_name, act, action, change) => {
      await enrol();
      const before = await record();
      const kept = await stage.factors.rememberedBrowsers.remember(before, {}, AT.caller);
      await act();
      const after = await record();
      expect(after.sessions_generation).toBe(before.sessions_generation + 1);
      expect(after.tokens_generation).toBe(before.tokens_generation);
      await expect(stage.factors.rememberedBrowsers.isRemembered(after, kept?.cookie ?? "")).resolves.toBe(
        false,
      );
      await expect(stage.mail()).resolves.toMatchObject({
        kind: "factors-changed",
        mail: { params: { change } },
      });
      const { items: records } = await stage.storage.audit.list({ account: sub, limit: 1 });
      expect(records).toMatchObject([{ action }]);
    },
  );

  it("of a missing factor changes nothing", async () => {
    await expect(stage.accounts.factors("nobody")).resolves.toBeUndefined();
    await expect(stage.accounts.removeFactor(sub, "app")).resolves.toBe(false);
    await expect(stage.accounts.removeFactors(sub)).resolves.toBe(false);
    await expect(stage.accounts.resetRecoveryCodes(sub)).rejects.toMatchObject({ code: "not_applicable" });
    await expect(stage.accounts.resetRecoveryCodes("nobody")).rejects.toMatchObject({ code: "not_found" });
    await expect(stage.accounts.addApp("nobody", { secret: "GEZDGNBVGY3TQOJQ" })).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(stage.accounts.addApp(sub, { secret: "secret!" })).rejects.toThrow(TypeError);
    await stage.accounts.addApp(sub, { secret: "gezd gnbv gy3t qojq" });
    await expect(stage.accounts.addApp(sub, { secret: "GEZDGNBVGY3TQOJQ" })).rejects.toMatchObject({
      code: "already_exists",
    });
    await expect(stage.mails()).resolves.toHaveLength(1);
  });

  it("an account is created with an app of another system [D-FACTOR-44]", async () => {
    const secret = "GEZDGNBVGY3TQOJQ";
    const made = await stage.accounts.create({ email: "eve@example.com", app: { secret } });
    const imported = await stage.accounts.import({ email: "bob@example.com", app: { secret } });
    for (const account of [made, imported]) {
      const code = totpCode(secret, stage.clock.now());
      await expect(stage.factors.codes.useApp(account.sub, code, AT)).resolves.toEqual({ kind: "right" });
      await expect(stage.accounts.factors(account.sub)).resolves.toMatchObject({ recovery_codes_left: 0 });
    }
    await expect(stage.mails()).resolves.toEqual([]);
  });
});

const remember = async (cookie?: string) => {
  const kept = await stage.factors.rememberedBrowsers.remember(await record(), { cookie }, AT.caller);
  return kept?.cookie ?? "";
};
const isRemembered = async (cookie: string) =>
  stage.factors.rememberedBrowsers.isRemembered(await record(), cookie);

describe("a remembered browser", () => {
  beforeEach(async () => {
    await enrol();
  });

  it("is remembered for its account and its days, listed and ended [D-FACTOR-22, D-FACTOR-23]", async () => {
    const cookie = await remember();
    await expect(isRemembered(cookie)).resolves.toBe(true);
    for (const wrong of ["", "x", "A".repeat(43), `${cookie}=`, "\0".repeat(43)])
      await expect(isRemembered(wrong)).resolves.toBe(false);
    const eve = await stage.accounts.create({
      email: "eve@example.com",
      app: { secret: "GEZDGNBVGY3TQOJQ" },
    });
    const other = (await stage.accounts.record(eve.sub)) as AccountRecord;
    const { rememberedBrowsers } = stage.factors;
    await expect(rememberedBrowsers.isRemembered(other, cookie)).resolves.toBe(false);
    const [listed] = await rememberedBrowsers.list(await record());
    expect(JSON.stringify(listed)).not.toContain(cookie);
    await expect(rememberedBrowsers.end(eve.sub, listed?.id ?? "", AT.caller)).resolves.toBe(false);
    await expect(rememberedBrowsers.end(sub, listed?.id ?? "", AT.caller)).resolves.toBe(true);
    await expect(isRemembered(cookie)).resolves.toBe(false);
    const again = await remember();
    stage.clock.advance(30 * 86_400);
    await expect(isRemembered(again)).resolves.toBe(false);
    await expect(rememberedBrowsers.list(await record())).resolves.toEqual([]);
  });

  it.each([
    ["the password is changed", () => stage.accounts.setPassword(sub, NEW_PASSWORD)],
    ["the address is changed", () => stage.accounts.update(sub, { email: "new@example.com" })],
    ["all sessions end", () => stage.accounts.endSessions(sub)],
    [
      "all other sessions end",
      async () => {
        const { sessions_generation: generation } = await record();
        await stage.accounts.endOtherSessions(sub, { keepSession: "mine", generation }, AT.caller);
      },
    ],
    ["the factor is removed", () => stage.accounts.removeFactor(sub, "app")],
  ])("ends when %s [D-FACTOR-23]", async (_what, act) => {
    const cookie = await remember();
    await act();
    await expect(isRemembered(cookie)).resolves.toBe(false);
  });

  it("is one no longer where the configuration has fewer days, or none", async () => {
    const cookie = await remember();
    const [fewer, none] = [7, undefined].map((days) => createRememberedBrowsers(stage, days));
    for (const [days, isStill] of [
      [0, true],
      [7, false],
    ] as const) {
      stage.clock.advance(days * 86_400);
      const account = await record();
      await expect(isRemembered(cookie)).resolves.toBe(true);
      await expect(fewer!.isRemembered(account, cookie)).resolves.toBe(isStill);
      await expect(fewer!.list(account)).resolves.toHaveLength(isStill ? 1 : 0);
      await expect(none!.isRemembered(account, cookie)).resolves.toBe(false);
      await expect(none!.list(account)).resolves.toEqual([]);
    }
  });

  it("stays when only the profile changes", async () => {
    const cookie = await remember();
    await stage.accounts.update(sub, { name: "Ada" });
    await expect(isRemembered(cookie)).resolves.toBe(true);
  });

  it("is not remembered if the factors have changed since they were shown", async () => {
    const shown = await record();
    await stage.accounts.resetRecoveryCodes(sub);
    await expect(stage.factors.rememberedBrowsers.remember(shown, {}, AT.caller)).resolves.toBeUndefined();
  });
});

/** What waits: kind, recipient, and what operators are told. */
const mailed = async (): Promise<readonly unknown[]> =>
  (await stage.mails()).map(({ kind, to, link, mail }) => [
    kind,
    to,
    kind === "operator-factor" ? [mail.params["operator"], link] : undefined,
  ]);

describe("the first factor of an operator", () => {
  const [ADA, BOB, EVE, GONE_SUB] = [1, 2, 3, 4].map((n) => `0a000000-0000-4000-8000-00000000000${n}`) as [
    string,
    string,
    string,
    string,
  ];
  const SECRET = "GEZDGNBVGY3TQOJQ";

  beforeEach(async () => {
    const operators = {
      [ADA]: "support",
      [BOB]: "viewer",
      [EVE]: "administrator",
      [GONE_SUB]: "viewer",
    } as const;
    stage = await openPeople({}, undefined, {}, undefined, { operators });
    for (const [name, its] of Object.entries({ ada: ADA, bob: BOB, eve: EVE }))
      await stage.accounts.import({ sub: its, email: `${name}@example.org`, password: PASSWORD });
    await stage.mails();
  });

  it("is mailed to every other operator, with the addition, and to nobody else [D-ADM-97]", async () => {
    await stage.accounts.addApp(ADA, { secret: SECRET });
    const own = ["factors-changed", "ada@example.org", undefined];
    const others = ["bob", "eve"].map((name) => ["operator-factor", `${name}@example.org`, [ADA, ""]]);
    expect(await mailed()).toEqual(expect.arrayContaining([own, ...others]));
    await expect(stage.accounts.addApp(ADA, { secret: SECRET })).rejects.toMatchObject({
      code: "already_exists",
    });
    expect(await mailed()).toEqual([]);
    const person = await stage.accounts.create({ email: "person@example.org", password: PASSWORD });
    await stage.accounts.addApp(person.sub, { secret: SECRET });
    expect(await mailed()).toEqual([["factors-changed", "person@example.org", undefined]]);
  });

  it("fills nobody's mailbox, however often it is added [D-ADM-97]", async () => {
    for (let times = 0; times < 12; times += 1) {
      await stage.accounts.addApp(ADA, { secret: SECRET });
      await stage.accounts.removeFactors(ADA);
    }
    const about = (await stage.mails()).filter(({ kind }) => kind === "operator-factor");
    for (const name of ["bob", "eve"])
      expect([name, about.filter(({ to }) => to === `${name}@example.org`).length]).toEqual([name, 10]);
    expect(about).toHaveLength(20);
  });
});
