/** Codes by mail that sign in, over a real storage: who gets one, what it opens, and what keeps guesses and mail within bounds. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { AT, from, NEW_PASSWORD, openPeople, PASSWORD, type PeopleStage, wrongCode } from "./stage.ts";
import { defaults } from "../../../config/schema.ts";
import type { CodeAskedAt } from "../../../accounts/people/sign-in-codes.ts";
import type { AskedAt } from "../../../accounts/people/requests.ts";

const OPERATOR = "0b0f6b3e-5a52-4f0e-9f0e-2f0b6a1f7d11";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const EMAIL = "ada@example.com";
const GONE = { kind: "gone" };
const SENT = { kind: "sent" };
const refused = expect.objectContaining({ kind: "limited" }) as unknown;

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople({}, defaults.rateLimits, {}, undefined, {
    signIn: { emailCode: true },
    operators: { [OPERATOR]: "administrator" },
  });
  const ada = { email: EMAIL, email_verified: true, username: "ada", password: PASSWORD, locale: "en" };
  ({ sub } = await stage.accounts.create(ada));
});

const asked = (at: AskedAt, userAgent?: string): CodeAskedAt => ({ ...at, userAgent });
const start = (login: string, interaction = "i", at: AskedAt = AT, isRecent = false) =>
  stage.signInCodes.start(interaction, login, isRecent, asked(at));
const use = (code: string, interaction = "i", at: AskedAt = AT, login = "ada") =>
  stage.signInCodes.use(interaction, login, code, at);

/** The browser of Ada. */
const own = (number: number): AskedAt => ({
  ...from(number),
  device: (account) => (account.sub === sub ? "phone" : undefined),
});

/** Asks for a code, and takes it out of the mail. */
async function coded(login = "ada", interaction = "i", at: AskedAt = AT): Promise<string> {
  await expect(start(login, interaction, at)).resolves.toEqual(SENT);
  return (await stage.mail()).code;
}

/** Whether somebody gets a code, or a mail that says that a code is not enough, or nothing. */
async function outcomeOf(
  login: string,
  isRecent = false,
  number = 1,
): Promise<"code" | "no code" | "nothing"> {
  await expect(start(login, `i${number}`, from(number), isRecent)).resolves.toEqual(SENT);
  const mail = (await stage.mails()).find(({ kind }) => kind === "sign-in-code");
  if (mail === undefined || mail.to === "") return "nothing";
  return mail.code === "" ? "no code" : "code";
}

describe("a code by mail", () => {
  it("signs in once, however it is typed, in the sign-in that asked for it [D-MAILCODE-2, D-MAILCODE-3]", async () => {
    for (const login of ["ada", "ADA@example.com", "ＡＤＡ", " ada\u3000"]) {
      const at = from(login.length);
      const code = await coded(login, "i", at);
      expect(code).toMatch(/^[0-9A-HJKMNP-TV-Z]{8}$/);
      await expect(use(code, "j", at, login)).resolves.toEqual(GONE);
      const typed = ` ${code.slice(0, 4).toLowerCase()}-${code.slice(4)} `;
      await expect(use(typed, "i", at, login)).resolves.toMatchObject({ kind: "right", record: { sub } });
      await expect(use(code, "i", at, login)).resolves.toEqual(GONE);
    }
  });

  it("is used once, however many have it at once [D-MAILCODE-2]", async () => {
    const code = await coded();
    const used = await Promise.all(Array.from({ length: 5 }, () => use(code)));
    expect(used.map(({ kind }) => kind).toSorted()).toEqual(["gone", "gone", "gone", "gone", "right"]);
  });

  it("works for ten minutes, and its mail is not sent later [D-MAILCODE-2]", async () => {
    await start("ada");
    const { code, mail } = await stage.mail();
    expect(mail.expiresAt).toBe(stage.clock.now() + 600_000);
    stage.clock.advance(599);
    await start("ada", "j");
    const { code: newer } = await stage.mail();
    stage.clock.advance(1);
    await expect(use(code)).resolves.toEqual(GONE);
    await expect(use(newer, "j")).resolves.toMatchObject({ kind: "right" });
  });

  it("is replaced by a newer one of its sign-in, and not by one of another [D-MAILCODE-4]", async () => {
    const codes = [await coded(), await coded(), await coded("ada", "j")];
    await expect(use(codes[0]!)).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
    await expect(use(codes[1]!)).resolves.toMatchObject({ kind: "right" });
    await expect(use(codes[2]!, "j")).resolves.toMatchObject({ kind: "right" });
  });

  it("has five tries, also when they come at once and from several processes [D-MAILCODE-2, D-MAILCODE-7]", async () => {
    const code = await coded();
    const other = stage.otherPeople().signInCodes!;
    const wrong = wrongCode(code);
    const tries = Array.from({ length: 8 }, (_none, number) =>
      (number % 2 === 0 ? stage.signInCodes : other).use("i", "ada", wrong, from(number)),
    );
    const left = (await Promise.all(tries)).map((each) => (each.kind === "wrong" ? each.triesLeft : -1));
    expect(left.toSorted((one, two) => one - two)).toEqual([0, 0, 0, 0, 1, 2, 3, 4]);
    await expect(other.use("i", "ada", code, from(9))).resolves.toEqual({ kind: "wrong", triesLeft: 0 });
  });

  it("says in its mail who asked, from where and when, and not the code in the subject [D-MAILCODE-6]", async () => {
    const firefox = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0";
    const at = { ...AT, caller: { ...AT.caller, browser: "Firefox" }, clientName: "News" };
    await stage.signInCodes.start("i", "ada", false, asked(at, firefox));
    const { mail, code, link } = await stage.mail();
    expect([link, mail.locale]).toEqual(["", "en"]);
    expect(mail.params).toEqual({
      at: String(stage.clock.now()),
      code,
      link: "",
      client: "News",
      browser: "Firefox",
      system: "Windows",
      network: "192.0.2.0/24",
    });
    // What a header says comes from fixed lists.
    const strange = { ...AT, caller: { ...AT.caller, browser: "other" } };
    await stage.signInCodes.start("i", "ada", false, asked(strange, "<b>Call 555-1234</b>"));
    expect(Object.keys((await stage.mail()).mail.params).toSorted()).toEqual([
      "at",
      "code",
      "link",
      "network",
    ]);
  });

  it.each([
    ["the password was changed", () => stage.accounts.setPassword(sub, NEW_PASSWORD)],
    ["the address was changed", () => stage.accounts.update(sub, { email: "new@example.com" })],
    ["a second factor was added", () => stage.accounts.addApp(sub, { secret: SECRET })],
    ["its sessions were ended", () => stage.accounts.endSessions(sub)],
    ["the account was disabled", () => stage.accounts.disable(sub)],
    ["the account was deleted", () => stage.accounts.delete(sub)],
  ])("is void once %s [D-MAILCODE-15]", async (_what, act) => {
    const code = await coded();
    await act();
    await expect(use(code)).resolves.toEqual(GONE);
  });

  it("is never in the storage in plain text, nor is the name [D-MAILCODE-2]", async () => {
    const code = await coded();
    const all = await stage.storage.records.all("confirmation");
    expect(all).toHaveLength(1);
    expect(JSON.stringify(all)).not.toMatch(new RegExp(`${code}|ada`, "i"));
  });
});

describe("who gets a code", () => {
  it("is nobody without an account, with a disabled one, or without a confirmed address [D-MAILCODE-5, D-MAILCODE-14]", async () => {
    await stage.accounts.disable(sub);
    await stage.accounts.create({ email: "open@example.com", password: PASSWORD });
    const names = [
      "ada",
      "nobody",
      "",
      "open@example.com",
      "a".repeat(10_000),
      "__proto__",
      "\0\r\nBcc: a@b",
    ];
    for (const [number, name] of names.entries()) {
      await expect(outcomeOf(name, false, number)).resolves.toBe("nothing");
      await expect(use("00000000", `i${number}`, from(number), name)).resolves.toEqual({
        kind: "wrong",
        triesLeft: 4,
      });
    }
  });

  it("is no operator: the mail says that a code is not enough [D-MAILCODE-10]", async () => {
    const email = "root@example.com";
    await stage.accounts.import({ sub: OPERATOR, email, email_verified: true, password: PASSWORD });
    await expect(outcomeOf(email)).resolves.toBe("no code");
    await stage.accounts.import({ email: "plain@example.com", email_verified: true, password: PASSWORD });
    await expect(outcomeOf("plain@example.com", false, 2)).resolves.toBe("code");
  });

  it("is for a recent sign-in nobody with a password or passkey, and everybody without [D-MAILCODE-11, D-MAILCODE-13]", async () => {
    await stage.accounts.import({ email: "bare@example.com", email_verified: true });
    await expect(outcomeOf("ada", true)).resolves.toBe("no code");
    await expect(outcomeOf("bare@example.com", true, 2)).resolves.toBe("code");
    const { sub: withApp } = await stage.accounts.import({ email: "app@example.com", email_verified: true });
    await stage.accounts.addApp(withApp, { secret: SECRET });
    await expect(outcomeOf("app@example.com", true, 3)).resolves.toBe("code");
  });

  it("is nobody with a password for seven days after a change of address, and whoever has nothing else [D-MAILCODE-14]", async () => {
    const { sub: bare } = await stage.accounts.import({ email: "bare@example.com", email_verified: true });
    for (const [each, email] of [
      [sub, "moved@example.com"],
      [bare, "bare-moved@example.com"],
    ] as const) {
      await stage.addressChanges.start(each, email, AT);
      const { code } = await stage.mail();
      await expect(stage.addressChanges.confirm(each, { code }, AT)).resolves.toEqual({ kind: "changed" });
      await stage.mails();
    }
    await expect(outcomeOf("moved@example.com")).resolves.toBe("no code");
    await expect(outcomeOf("bare-moved@example.com", false, 2)).resolves.toBe("code");
    stage.clock.advance(7 * 86_400 - 1);
    await expect(outcomeOf("moved@example.com", false, 3)).resolves.toBe("no code");
    stage.clock.advance(1);
    await expect(outcomeOf("moved@example.com", false, 4)).resolves.toBe("code");
  });

  it("is nobody of a domain whose only way in is its provider [D-MAILCODE-16]", async () => {
    const provider = {
      issuer: "https://id.example",
      client_id: "service",
      client_secret: "a-secret-of-thirty-two-characters",
      name: "Corp",
      domains: ["example.com"],
      only: true,
    };
    const other = stage.withProviders({ corp: provider }).signInCodes;
    await other.start("i", "ada", false, asked(AT));
    expect((await stage.mails()).map(({ to }) => to)).toEqual([""]);
    // A code that was sent before the start with the provider.
    const code = await coded();
    await expect(other.use("i", "ada", code, AT)).resolves.toEqual(GONE);
  });
});

describe("the limits of codes by mail", () => {
  const DAY = 86_400;

  it("are those of mail to people, in buckets of their own: 5 an hour and 10 a day for a caller, 20 and 40 for all [D-MAILCODE-7]", async () => {
    for (const name of [EMAIL, "nobody@example.com"]) {
      const answers: unknown[] = [];
      for (let number = 0; number < 6; number += 1) answers.push(await start(name, "i", from(1)));
      expect(answers).toEqual([SENT, SENT, SENT, SENT, SENT, refused]);
      for (let number = 5; number < 20; number += 1)
        await expect(start(name, "i", from(100 + number))).resolves.toEqual(SENT);
      await expect(start(name, "i", from(200))).resolves.toEqual({
        kind: "limited",
        retryAfter: 3_600,
        whose: "nameMail",
      });
      // A reset is another kind of mail.
      await expect(stage.passwordResets.start("i", name, from(201))).resolves.toEqual(SENT);
    }
  });

  it("leave a stranger who asks every minute ten mails a day, and the owner the rest [D-MAILCODE-7]", async () => {
    let sent = 0;
    for (let minute = 0; minute < DAY / 60; minute += 1) {
      const answer = await start("ada", "thief", from(1));
      if (answer.kind === "sent") sent += 1;
      stage.clock.advance(60);
    }
    // Windows end within the day.
    expect(sent).toBeLessThanOrEqual(20);
    await stage.mails();
    const code = await coded("ada", "owner", from(2));
    await expect(use(code, "owner", from(2))).resolves.toMatchObject({ kind: "right" });
  }, 60_000);

  it("leave one of a hundred that are asked for at once: five mails, and the last code [D-MAILCODE-4, D-MAILCODE-7]", async () => {
    const answers = await Promise.all(Array.from({ length: 100 }, () => start("ada")));
    expect(answers.filter(({ kind }) => kind === "sent")).toHaveLength(5);
    const codes = (await stage.mails()).map(({ code }) => code);
    expect([codes.length, new Set(codes).size]).toEqual([5, 5]);
    expect(await stage.storage.records.all("confirmation")).toHaveLength(1);
    const results = [];
    for (const code of codes) results.push((await use(code)).kind);
    expect(results.filter((kind) => kind === "right")).toHaveLength(1);
  });

  it("are its own for a browser with the device cookie of the account, which others don't use up [D-MAILCODE-7]", async () => {
    for (let number = 0; number < 20; number += 1) await start("ada", "i", from(number % 4));
    await expect(start("ada", "i", from(9))).resolves.toEqual(refused);
    await stage.mails();
    for (let number = 0; number < 5; number += 1) {
      const code = await coded("ada", "own", own(1));
      // The points of the form are gone as well.
      for (let each = 0; each < 10; each += 1) await use("00000000", "elsewhere", from(1));
      await expect(use(code, "own", from(1))).resolves.toEqual(refused);
      await expect(use(code, "own", own(1))).resolves.toMatchObject({ kind: "right" });
    }
    await expect(start("ada", "own", own(1))).resolves.toEqual(refused);
  });

  it("count wrong codes over sign-ins with wrong passwords of the form, and right ones give their points back [D-MAILCODE-7]", async () => {
    const at = from(1);
    const codes: string[] = [];
    for (const interaction of ["a", "b", "c"]) codes.push(await coded("ada", interaction, at));
    for (let number = 0; number < 8; number += 1)
      await expect(use(wrongCode(codes[number % 2]!), ["a", "b"][number % 2], at)).resolves.toMatchObject({
        kind: "wrong",
      });
    const right = await use(codes[2]!, "c", at);
    if (right.kind !== "right") throw new Error(right.kind);
    await right.attempt.succeed();
    await expect(use("00000000", "a", at)).resolves.toMatchObject({ kind: "wrong" });
    await expect(stage.signIn("ada", "wrong", at)).resolves.toMatchObject({ kind: "refused" });
    await expect(use(wrongCode(codes[1]!), "b", at)).resolves.toEqual(refused);
    await expect(stage.signIn("ada", PASSWORD, at)).resolves.toMatchObject({ kind: "limited" });
    // The name of nobody has the same limit.
    for (let number = 0; number < 10; number += 1)
      await expect(use("00000000", "a", at, "nobody")).resolves.not.toEqual(refused);
    await expect(use("00000000", "a", at, "nobody")).resolves.toEqual(refused);
  });

  it("are in the audit, without the name or the code [D-MAILCODE-7]", async () => {
    const code = await coded();
    await start("nobody");
    await use(wrongCode(code));
    await use(wrongCode(code), "i", AT, "nobody");
    const client = { client_id: "news" };
    const actor = { kind: "anonymous" };
    const reason = "credentials";
    const detail = { factor: "email" };
    expect(stage.noted).toMatchObject([
      { action: "sign_in.code_requested", actor, client, subject: sub },
      { action: "sign_in.code_requested", actor, client },
      { action: "sign_in", actor, client, subject: sub, outcome: "failure", reason, detail },
      { action: "sign_in", actor, client, outcome: "failure", reason, detail },
    ]);
    expect(JSON.stringify(stage.noted)).not.toMatch(/nobody|ada/);
  });
});
