/** Forgotten passwords, over a real storage. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import {
  AT,
  from,
  NEW_PASSWORD,
  everyMailLimit,
  openPeople,
  PASSWORD,
  type PeopleStage,
  wrongCode,
} from "./stage.ts";
import { defaults } from "../../../config/schema.ts";

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  const ada = { email: "Ada@example.com", username: "ada", name: "Ada", password: PASSWORD, locale: "en" };
  ({ sub } = await stage.accounts.create(ada));
});

const GONE = { kind: "gone" };
const SENT = { kind: "sent" };
const start = (login: string, interaction: string | undefined = "i", at = AT) =>
  stage.passwordResets.start(interaction, login, at);
const finish = (proof: { link: string } | { interaction: string; code: string }, password = NEW_PASSWORD) =>
  stage.passwordResets.finish(proof, password, AT);
const isPassword = (password: string) => stage.accounts.verifyPassword(sub, password);

describe("a forgotten password", () => {
  it("is replaced by its owner, who gets a code and a link at the stored address [D-RESET-1]", async () => {
    for (const login of ["ada", "ADA@example.com", "ＡＤＡ", " ada\u3000", "\ufeffada@example.com "]) {
      await expect(start(login, "i", from(login.length))).resolves.toEqual(SENT);
      const mail = await stage.mail();
      // In the language of the account, and only to its address as it is stored.
      expect(mail).toMatchObject({ kind: "reset-password", to: "Ada@example.com", locale: "en" });
      expect(mail.mail).toMatchObject({ deployment: "openid", expiresAt: stage.clock.now() + 3_600_000 });
    }
    await start("ada", "i", from(1));
    const { code } = await stage.mail();
    await expect(finish({ interaction: "i", code })).resolves.toMatchObject({ kind: "done", sub });
    await expect(isPassword(NEW_PASSWORD)).resolves.toBe(true);
    await expect(isPassword(PASSWORD)).resolves.toBe(false);
  });

  it("is tried with thirty new passwords in an hour, of which other services hear no more [D-BREACH-1]", async () => {
    let asked = 0;
    stage = await openPeople({}, defaults.rateLimits, {
      isBreached: async (password) => (asked += 1) > 0 && password !== NEW_PASSWORD,
    });
    ({ sub } = await stage.accounts.import({ email: "ada@example.com", username: "ada" }));
    await start("ada");
    const { link, code } = await stage.mail();
    for (const password of ["short", "password1"])
      await expect(finish({ link }, password)).resolves.toMatchObject({ kind: "refused-password" });
    expect(asked).toBe(0);
    const proofs = [{ link }, { interaction: "i", code }];
    for (let each = 0; each < 30; each += 1)
      await expect(finish(proofs[each % 2]!, "a breached one")).resolves.toEqual({
        kind: "refused-password",
        problem: "breached",
      });
    for (const proof of proofs)
      await expect(finish(proof)).resolves.toEqual({ kind: "limited", retryAfter: 3_600 });
    expect(asked).toBe(30);
    expect(stage.refusals).toMatchObject([
      { action: "account.password_reset", detail: { limit: "newPasswords" } },
      { action: "account.password_reset" },
    ]);
    stage.clock.advance(3_599);
    await start("ada");
    stage.clock.advance(1);
    await expect(finish({ link: (await stage.mail()).link })).resolves.toMatchObject({ kind: "done", sub });
  });

  it("ends everything of the account, and its owner is notified [D-RESET-2]", async () => {
    const before = (await stage.accounts.record(sub))!;
    await start("ada");
    const { link } = await stage.mail();
    await finish({ link });
    const after = (await stage.accounts.record(sub))!;
    expect(after.sessions_generation).toBe(before.sessions_generation + 1);
    expect(after.tokens_generation).toBe(before.tokens_generation + 1);
    expect(after.ways.password?.generation).toBe(1);
    expect(stage.ended).toEqual([{ sub, reason: "password" }]);
    await expect(stage.mail()).resolves.toMatchObject({ kind: "password-changed", to: "Ada@example.com" });
    const { items: records } = await stage.storage.audit.list({ account: sub, limit: 1 });
    expect(records).toMatchObject([
      { action: "account.password_reset", actor: { kind: "account", id: sub }, client: "news" },
    ]);
  });

  it("of an unknown name gets the same answer and no mail [D-RESET-1]", async () => {
    await stage.accounts.disable((await stage.accounts.create({ email: "off@example.com" })).sub);
    for (const name of ["nobody", "", "off@example.com", "a".repeat(10_000), "__proto__", "\0\r\nBcc: a@b"]) {
      await expect(start(name)).resolves.toEqual(SENT);
      const [mail, ...more] = await stage.mails();
      expect([mail?.to, more]).toEqual(["", []]);
      // A code typed there is wrong, as it would be for a known name.
      await expect(finish({ interaction: "i", code: "00000000" })).resolves.toEqual({
        kind: "wrong",
        triesLeft: 4,
      });
      stage.clock.advance(3_600);
    }
  });

  it("of one unknown name is one reset, however it is written [D-NAME-1]", async () => {
    await start("nobody", "one");
    await start(" NOBODY\u3000", "two");
    const code = "00000000";
    await expect(finish({ interaction: "one", code })).resolves.toEqual(GONE);
    await expect(finish({ interaction: "two", code })).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
  });

  it("counts every way to write a name as one [D-NAME-1]", async () => {
    for (const name of ["nobody", " nobody", "nobody\u3000", "NOBODY", "\ufeffｎobody"])
      await expect(start(name)).resolves.toEqual(SENT);
    await expect(start("nobody\t")).resolves.toMatchObject({ kind: "limited" });
  });

  it("is checked without being used up, but a wrong code costs a try", async () => {
    const { passwordResets } = stage;
    await start("ada");
    const { code, link } = await stage.mail();
    const valid = { kind: "valid", interaction: "i" };
    await expect(passwordResets.check({ link })).resolves.toEqual(valid);
    await expect(passwordResets.check({ link })).resolves.toEqual(valid);
    const wrong = { interaction: "i", code: wrongCode(code) };
    await expect(passwordResets.check(wrong)).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
    await expect(passwordResets.check({ interaction: "i", code })).resolves.toEqual(valid);
    await expect(passwordResets.check({ interaction: "j", code })).resolves.toEqual(GONE);
    await expect(finish({ link })).resolves.toMatchObject({ kind: "done" });
    await expect(passwordResets.check({ link })).resolves.toEqual(GONE);
  });

  it.each([
    ["too-short", "seven77"],
    ["too-long", "x".repeat(10_000)],
    ["common", "password123"],
    ["name", "ada@example.com"],
    ["characters", "nine\0nine"],
  ])("can't be one that is %s, and the code still works", async (problem, password) => {
    await start("ada");
    const { code, link } = await stage.mail();
    const refused = { kind: "refused-password", problem };
    await expect(finish({ link }, password)).resolves.toEqual(refused);
    await expect(finish({ interaction: "i", code }, password)).resolves.toEqual(refused);
    // The rules tell nothing about the code.
    await expect(finish({ interaction: "i", code: wrongCode(code) }, password)).resolves.toMatchObject({
      kind: "wrong",
    });
    await expect(finish({ interaction: "i", code })).resolves.toMatchObject({ kind: "done" });
  });

  it("can't be guessed with refused passwords: parallel tries have five in all [D-CODE-2]", async () => {
    await start("ada");
    const { code } = await stage.mail();
    const guesses = Array.from({ length: 9 }, () =>
      finish({ interaction: "i", code: wrongCode(code) }, "short"),
    );
    await Promise.all(guesses);
    await expect(finish({ interaction: "i", code }, "short")).resolves.toEqual({
      kind: "wrong",
      triesLeft: 0,
    });
  });
});

describe("the link of a reset", () => {
  it("works once, in any browser, without a sign-in that waits [D-CODE-1]", async () => {
    await stage.passwordResets.start(undefined, "ada", AT);
    const { link, code } = await stage.mail();
    await expect(finish({ interaction: "i", code })).resolves.toEqual(GONE);
    const results = await Promise.all(Array.from({ length: 4 }, () => finish({ link })));
    expect(results.filter(({ kind }) => kind === "done")).toHaveLength(1);
    expect(results.filter(({ kind }) => kind === "gone")).toHaveLength(3);
  });

  it("of an older request does not work, and neither does one after an hour [D-CODE-1]", async () => {
    await start("ada");
    const older = await stage.mail();
    await start("ada", "j");
    const newer = await stage.mail();
    await expect(finish(older)).resolves.toEqual(GONE);
    stage.clock.advance(3_600);
    await expect(finish(newer)).resolves.toEqual(GONE);
    await expect(isPassword(PASSWORD)).resolves.toBe(true);
  });

  it.each([
    ["the password was changed", () => stage.accounts.setPassword(sub, NEW_PASSWORD)],
    ["the address was changed", () => stage.accounts.update(sub, { email: "new@example.com" })],
    ["the account was disabled", () => stage.accounts.disable(sub)],
    ["the account was deleted", () => stage.accounts.delete(sub)],
  ])("is void once %s", async (_what, act) => {
    await start("ada");
    const { link } = await stage.mail();
    await act();
    await expect(finish({ link }, "yet another password")).resolves.toEqual(GONE);
    await expect(isPassword("yet another password")).resolves.toBe(false);
  });

  it("does not work if it is for another purpose, or made up", async () => {
    await stage.addressChanges.start(sub, "new@example.com", AT);
    const { link } = await stage.mail();
    for (const made of [link, "", "x".repeat(10_000), "\0", "a".repeat(43)])
      await expect(finish({ link: made })).resolves.toEqual(GONE);
  });
});

describe("mail that a stranger asks for", () => {
  const DAY = 86_400;
  const refused = expect.objectContaining({ kind: "limited" }) as unknown;

  it("is limited to five an hour and ten a day for one name and one caller, known or not [D-MAILLIMIT-1]", async () => {
    for (const name of ["ada@example.com", "nobody@example.com"]) {
      const answers: unknown[] = [];
      const ask = async (count: number): Promise<void> => {
        for (let number = 0; number < count; number += 1) answers.push(await start(name, "i", from(1)));
      };
      await ask(6);
      stage.clock.advance(3_600);
      await ask(6);
      stage.clock.advance(3_600);
      await ask(1);
      const five = Array.from({ length: 5 }, () => SENT);
      expect(answers).toEqual([...five, refused, ...five, refused, refused]);
      expect(answers.at(-1)).toMatchObject({ retryAfter: DAY - 7_200 });
      // The owner can still get a new password.
      await expect(start(name, "i", from(2))).resolves.toEqual(SENT);
    }
    expect(JSON.stringify(stage.refusals)).not.toMatch(/example/);
  });

  it("is limited to twenty an hour and forty a day for one name over all callers [D-MAILLIMIT-1]", async () => {
    for (const name of ["ada@example.com", "nobody@example.com"]) {
      const ask = (number: number) => start(name, "i", from(100 + number));
      for (let number = 0; number < 20; number += 1) await expect(ask(number)).resolves.toEqual(SENT);
      await expect(ask(20)).resolves.toEqual({ kind: "limited", retryAfter: 3_600, whose: "nameMail" });
      stage.clock.advance(3_600);
      for (let number = 0; number < 20; number += 1) await expect(ask(number)).resolves.toEqual(SENT);
      stage.clock.advance(3_600);
      await expect(ask(20)).resolves.toMatchObject({ kind: "limited", retryAfter: DAY - 7_200 });
    }
  });

  it("leaves a link that works when strangers have used up the mail, under any name and until there can be more [D-RESET-4]", async () => {
    const { storage, clock } = stage;
    const flood = async (name: string, network: number): Promise<void> => {
      for (let number = 0; number < 20; number += 1)
        await start(name, "i", from(network * 100 + (number % 4)));
    };
    const newest = async () => (await stage.mails()).findLast(({ to }) => to !== "")!;
    await flood("ada", 1);
    const hourly = await newest();
    // It says until when, and newer mail to a browser that knows the account does not replace it.
    expect(hourly.mail.params["until"]).toBe(String(clock.now() + 3_600_000));
    await start("ada", "i", { ...from(7), device: () => "phone" });
    expect((await newest()).mail.params).not.toHaveProperty("until");
    await expect(stage.passwordResets.check(hourly)).resolves.toMatchObject({ kind: "valid" });
    clock.advance(3_600);
    await expect(stage.passwordResets.check(hourly)).resolves.toEqual(GONE);

    await flood("ada", 2);
    const last = await newest();
    // For any name of the account, nothing more is sent, with the answer of any other name.
    await expect(start("ada", "i", from(9))).resolves.toEqual(refused);
    await expect(start("ada@example.com", "i", from(9))).resolves.toEqual(SENT);
    expect((await stage.mails()).map(({ to }) => to)).toEqual([""]);
    clock.advance(DAY - 3_600 - 1);
    await expect(stage.passwordResets.check(last)).resolves.toMatchObject({ kind: "valid" });
    await expect(finish(last)).resolves.toMatchObject({ kind: "done", sub });
    await expect(stage.passwordResets.check(last)).resolves.toEqual(GONE);
    expect((await storage.audit.list({ account: sub, limit: 1 })).items[0]?.action).toBe(
      "account.password_reset",
    );
  });

  it("lasts as long as any name of the account is used up [D-RESET-4]", async () => {
    for (let hour = 0; hour < 2; hour += 1) {
      for (let number = 0; number < 20; number += 1) await start("ada", "i", from(hour * 4 + (number % 4)));
      stage.clock.advance(3_600);
    }
    const last = (await stage.mails()).findLast(({ to }) => to !== "")!;
    // Strangers use up the other name as late as they can.
    stage.clock.advance(19 * 3_600);
    for (let hour = 0; hour < 2; hour += 1) {
      for (let number = 0; number < 20; number += 1)
        await start("ada@example.com", "i", from(100 + hour * 4 + (number % 4)));
      stage.clock.advance(3_600);
    }
    expect((await stage.mails()).filter(({ to }) => to !== "")).toEqual([]);
    stage.clock.advance(5 * 3_600);
    await expect(stage.passwordResets.check(last)).resolves.toMatchObject({ kind: "valid" });
  });

  it("has totals for each kind of mail [D-MAILLIMIT-1]", async () => {
    for (let number = 0; number < 20; number += 1) await start("new@example.com", "i", from(number));
    await expect(start("new@example.com", "i", from(99))).resolves.toEqual(refused);
    const at = from(100);
    await expect(stage.addressChanges.start(sub, "new@example.com", at)).resolves.toEqual(SENT);
    await expect(
      stage.registrations.start("r", { email: "new@example.com", password: PASSWORD }, at),
    ).resolves.toEqual(SENT);
    expect((await stage.mails()).filter(({ to }) => to !== "").map(({ kind }) => kind)).toEqual([
      "confirm-address",
      "confirm-registration",
    ]);
  });

  it("has a limit of its own in a browser that has signed in to the account, which others don't use up [D-MAILLIMIT-1]", async () => {
    for (let number = 0; number < 20; number += 1) await start("ada@example.com", "i", from(number % 4));
    await expect(start("ada@example.com", "i", from(9))).resolves.toEqual(refused);
    const own = {
      ...from(1),
      device: (account: { sub: string }) => (account.sub === sub ? "phone" : undefined),
    };
    for (let number = 0; number < 5; number += 1)
      await expect(start("ada@example.com", "i", own)).resolves.toEqual(SENT);
    await expect(start("ada@example.com", "i", own)).resolves.toEqual(refused);
    const answers = await Promise.all([start("nobody@example.com", "i", own), start("bob", "i", own)]);
    expect(answers).toEqual([SENT, SENT]);
  });

  it("is limited for one address, whatever name it was asked for with [D-MAILLIMIT-1]", async () => {
    for (let count = 0; count < 4; count += 1) {
      await expect(start("ada", "i", from(1))).resolves.toEqual(SENT);
      await expect(start("ada@example.com", "i", from(1))).resolves.toEqual(SENT);
    }
    const sent = (await stage.mails()).map(({ to }) => to);
    expect(sent.filter((to) => to !== "")).toHaveLength(5);
    expect(sent).toHaveLength(8);
  });

  it("is in the audit, with the account if there is one, and never with the name", async () => {
    await start("ada", "i", from(1));
    await start("nobody@example.com", "i", from(1));
    expect(stage.noted).toMatchObject([
      {
        action: "password_reset.requested",
        actor: { kind: "anonymous" },
        subject: sub,
        client: { client_id: "news" },
      },
      { action: "password_reset.requested", actor: { kind: "anonymous" } },
    ]);
    expect(stage.noted[1]).not.toHaveProperty("subject");
    expect(JSON.stringify(stage.noted)).not.toMatch(/example|nobody/);
  });

  it("is limited to a hundred an hour from one caller [D-MAILLIMIT-1]", async () => {
    for (let count = 0; count < 100; count += 1)
      await expect(start(`person${count}@example.com`)).resolves.toEqual(SENT);
    await expect(start("another@example.com")).resolves.toMatchObject({
      kind: "limited",
      whose: "networkMail",
    });
    await expect(start("another@example.com", "i", from(1))).resolves.toEqual(SENT);
    expect(stage.refusals).toMatchObject([
      { action: "mail.requested", actor: { kind: "anonymous" }, detail: { limit: "mail.caller" } },
    ]);
  });

  it("leaves notices about security alone", async () => {
    const mail = everyMailLimit({ points: 1, seconds: 3_600 });
    const limited = await openPeople({}, { ...defaults.rateLimits, mail });
    const { sub: other } = await limited.accounts.create({ email: "bob@example.com" });
    await limited.passwordResets.start("i", "bob@example.com", AT);
    for (let count = 0; count < 8; count += 1)
      await limited.accounts.setPassword(other, `${NEW_PASSWORD} ${count}`);
    const kinds = (await limited.mails()).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "password-changed")).toHaveLength(8);
  });
});
