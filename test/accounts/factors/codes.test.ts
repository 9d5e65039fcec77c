/** Codes of an app and recovery codes, over a real storage. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { StorageUnavailable } from "../../../core/errors.ts";
import { totpCode } from "../../../testing/totp-code.ts";
import { withCalls } from "../../servers/storage.ts";
import { AT, openPeople, PASSWORD, type PeopleStage } from "../people/stage.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const STEP = 30;

let stage: PeopleStage;
let sub: string;
let codes: readonly string[];
beforeEach(async () => {
  stage = await openPeople();
  ({ sub } = await stage.accounts.create({
    email: "ada@example.com",
    password: PASSWORD,
    email_verified: true,
  }));
  ({ recovery_codes: codes } = await stage.accounts.addApp(sub, { secret: SECRET }));
  await stage.mails();
});

const at = (steps: number): string => totpCode(SECRET, stage.clock.now() + steps * STEP * 1000);
const use = (code: string, who = stage.factors) => who.codes.useApp(sub, code, AT);
const recover = (code: string, who = stage.factors) => who.codes.useRecovery(sub, code, AT);
const wrong = () => (at(0) === "000000" || at(1) === "000000" || at(-1) === "000000" ? "111111" : "000000");
const RIGHT = { kind: "right" };
const WRONG = { kind: "wrong" };
const down = (): Promise<never> => Promise.reject(new StorageUnavailable("down"));
const kinds = (results: readonly { readonly kind: string }[]) => results.map(({ kind }) => kind).toSorted();

describe("a code of the app", () => {
  it("of the previous, the current or the next step is right; any other is wrong [D-FACTOR-1]", async () => {
    for (const step of [-3, -2, 2, 3]) {
      await expect(use(at(step))).resolves.toEqual(WRONG);
    }
    for (const step of [-1, 0, 1]) await expect(use(at(step))).resolves.toEqual(RIGHT);
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({
      app: { last_used_at: Math.floor(stage.clock.now() / 1000), stopped: false },
    });
  });

  it("that was used, and one of a step before it, is refused [D-FACTOR-2]", async () => {
    await expect(use(at(0))).resolves.toEqual(RIGHT);
    await expect(use(at(0))).resolves.toEqual(WRONG);
    await expect(use(at(-1))).resolves.toEqual(WRONG);
    stage.clock.advance(STEP);
    await expect(use(at(-1))).resolves.toEqual(WRONG);
    await expect(use(at(0))).resolves.toEqual(RIGHT);
  });

  it("is used once by two processes at the same moment [D-FACTOR-2]", async () => {
    const code = at(0);
    const others = [stage.factors, stage.otherFactors(), stage.otherFactors(), stage.otherFactors()];
    const results = await Promise.all(others.map((who) => use(code, who)));
    expect(kinds(results)).toEqual(["right", "wrong", "wrong", "wrong"]);
  });

  it("may be typed with spaces and in other digits; what can't be one takes no point", async () => {
    const typed = at(0);
    for (let count = 0; count < 20; count += 1)
      for (const slip of ["", "12345", "1234567", "12345a", "\0", "9".repeat(10_000), "\ud800"])
        await expect(use(slip)).resolves.toEqual(WRONG);
    await expect(use(` ${typed.slice(0, 3)} ${typed.slice(3)}`)).resolves.toEqual(RIGHT);
    stage.clock.advance(STEP);
    const wide = Array.from(at(0))
      .map((digit) => String.fromCodePoint(0xff10 + Number(digit)))
      .join("");
    await expect(use(wide)).resolves.toEqual(RIGHT);
  });

  it("can be guessed five times in 15 minutes, however many parallel requests two processes get [D-FACTOR-25]", async () => {
    const guesses = Array.from({ length: 1_000 }, (_each, number) => String(100_000 + number));
    const other = stage.otherFactors();
    const results = await Promise.all(
      guesses.map((code, index) => use(code, index % 2 ? stage.factors : other)),
    );
    expect(results.filter(({ kind }) => kind === "wrong")).toHaveLength(5);
    expect(results.filter(({ kind }) => kind === "limited")).toHaveLength(995);
    await expect(use(at(0))).resolves.toMatchObject({ kind: "limited", retryAfter: 900 });
    // A recovery code, and a browser that has signed in before, have points of their own.
    await expect(recover(codes[0] ?? "")).resolves.toMatchObject(RIGHT);
    await expect(stage.factors.codes.useApp(sub, at(0), { ...AT, device: () => "browser" })).resolves.toEqual(
      RIGHT,
    );
    stage.clock.advance(900);
    await expect(use(at(0))).resolves.toEqual(RIGHT);
  });

  it("gives its point back when it is right", async () => {
    for (let count = 0; count < 12; count += 1) {
      await expect(use(at(0))).resolves.toEqual(RIGHT);
      stage.clock.advance(STEP);
    }
  });

  it.each(["recovery code", "none"] as const)(
    "is not accepted after 100 wrong ones in a row, which the person is told once (%s) [D-FACTOR-26]",
    async (helper) => {
      for (let count = 0; count < 100; count += 1) {
        await expect(use(wrong())).resolves.toEqual(WRONG);
        if (count % 5 === 4) stage.clock.advance(900);
      }
      const stopped = (await stage.mails()).filter(({ kind }) => kind === "app-stopped");
      expect(stopped).toMatchObject([{ to: "ada@example.com", mail: { params: { count: "100" } } }]);
      await expect(use(at(0))).resolves.toEqual({ kind: "stopped" });
      await expect(stage.accounts.factors(sub)).resolves.toMatchObject({ app: { stopped: true } });
      if (helper === "none") return;
      await expect(recover(codes[0] ?? "")).resolves.toMatchObject(RIGHT);
      await expect(use(at(0))).resolves.toEqual(RIGHT);
    },
    60_000,
  );

  it("is accepted after 99 wrong ones, and counting begins anew", async () => {
    for (const count of [99, 99]) {
      for (let tries = 0; tries < count; tries += 1) {
        await expect(use(wrong())).resolves.toEqual(WRONG);
        if (tries % 5 === 4) stage.clock.advance(900);
      }
      stage.clock.advance(900);
      await expect(use(at(0))).resolves.toEqual(RIGHT);
    }
    await expect(stage.mails()).resolves.toEqual([]);
  });

  it("costs no try, and none of the 100, when the storage fails", async () => {
    let fails = false;
    const broken = await openPeople({}, undefined, {}, (store) =>
      withCalls(store, { commit: (...commit) => (fails ? down() : store.commit(...commit)) }),
    );
    const account = await broken.accounts.create({ email: "eve@example.com", app: { secret: SECRET } });
    const code = (typed: string) => broken.factors.codes.useApp(account.sub, typed, AT);
    fails = true;
    for (let tries = 0; tries < 6; tries += 1)
      await expect(code(wrong())).rejects.toBeInstanceOf(StorageUnavailable);
    fails = false;
    for (let tries = 0; tries < 5; tries += 1) await expect(code(wrong())).resolves.toEqual(WRONG);
    await expect(code(wrong())).resolves.toMatchObject({ kind: "limited" });
  });

  it.each([
    ["is disabled", () => stage.accounts.disable(sub)],
    ["is deleted", () => stage.accounts.delete(sub)],
    ["has no factor any more", () => stage.accounts.removeFactors(sub)],
  ])("is worth nothing when the account %s", async (_what, act) => {
    await act();
    await expect(use(at(0))).resolves.toEqual({ kind: "gone" });
    await expect(recover(codes[0] ?? "")).resolves.toEqual({ kind: "gone" });
  });

  it("of another account is wrong", async () => {
    const eve = await stage.accounts.create({ email: "eve@example.com" });
    await stage.accounts.addApp(eve.sub, { secret: "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ" });
    await expect(stage.factors.codes.useApp(eve.sub, at(0), AT)).resolves.toEqual(WRONG);
    await expect(stage.factors.codes.useRecovery(eve.sub, codes[0] ?? "", AT)).resolves.toEqual(WRONG);
    expect(stage.noted).toMatchObject(
      ["app", "recovery"].map((factor) => ({
        action: "second_factor",
        subject: eve.sub,
        outcome: "failure",
        reason: "wrong",
        detail: { factor },
      })),
    );
  });
});

describe("a recovery code", () => {
  it("works once, however it is typed, and its use is mailed with the number left [D-FACTOR-28]", async () => {
    expect(codes).toHaveLength(10);
    expect(new Set(codes).size).toBe(10);
    for (const code of codes) expect(code).toMatch(/^[0-9A-HJKMNP-TV-Z]{5}-[0-9A-HJKMNP-TV-Z]{5}$/);
    const [first = ""] = codes;
    const typed = ` ${first.toLowerCase().replace("-", " – ")}`;
    await expect(recover(typed)).resolves.toEqual({ kind: "right", left: 9 });
    await expect(recover(first)).resolves.toEqual(WRONG);
    await expect(stage.mail()).resolves.toMatchObject({
      kind: "recovery-code-used",
      mail: { params: { left: "9" } },
    });
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({ recovery_codes_left: 9 });
    const { items: records } = await stage.storage.audit.list({ account: sub, limit: 1 });
    expect(records).toMatchObject([{ action: "account.recovery_code_used", detail: { left: 9 } }]);
  });

  it("raced by parallel requests of two processes is spent once, and two codes are both spent [D-FACTOR-28]", async () => {
    const other = stage.otherFactors();
    const [one = "", two = ""] = codes;
    const results = await Promise.all([recover(one), recover(one, other), recover(two, other), recover(one)]);
    expect(kinds(results)).toEqual(["right", "right", "wrong", "wrong"]);
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({ recovery_codes_left: 8 });
  });

  it("can be guessed five times in 15 minutes [D-FACTOR-25]", async () => {
    const results = await Promise.all(Array.from({ length: 200 }, () => recover("00000-00000")));
    expect(results.filter(({ kind }) => kind === "wrong")).toHaveLength(5);
    await expect(recover(codes[0] ?? "")).resolves.toMatchObject({ kind: "limited" });
    await expect(use(at(0))).resolves.toEqual(RIGHT);
  });

  it("is void once there are new ones", async () => {
    const fresh = await stage.accounts.resetRecoveryCodes(sub);
    await expect(recover(codes[0] ?? "")).resolves.toEqual(WRONG);
    await expect(recover(fresh.recovery_codes[0] ?? "")).resolves.toMatchObject(RIGHT);
  });

  it("is stored as an HMAC, and the secret of an app sealed [D-FACTOR-45]", async () => {
    const stored = JSON.stringify([
      await stage.storage.records.all("recovery-codes"),
      await stage.storage.records.all("authenticator-app"),
    ]);
    for (const code of codes) expect(stored).not.toContain(code.replace("-", ""));
    expect(stored).not.toContain(SECRET);
  });
});
