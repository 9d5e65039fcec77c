/** What makes a person look at their second factors, and when they have, over a real storage. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { AccountRecord, FactorsReview } from "../../../records/directory/directory.ts";
import { AT, from, NEW_PASSWORD, openPeople, PASSWORD, type PeopleStage } from "../people/stage.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const EMAIL = "ada@example.com";
const CALLER = AT.caller;

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  ({ sub } = await stage.accounts.create({ email: EMAIL, password: PASSWORD, email_verified: true }));
});

const record = async (): Promise<AccountRecord> => (await stage.accounts.record(sub))!;
const review = async (): Promise<FactorsReview | undefined> => (await record()).ways.review;

async function addApp(): Promise<void> {
  await stage.accounts.addApp(sub, { secret: SECRET });
}

async function removeAll(): Promise<void> {
  await stage.accounts.removeFactors(sub);
}

/** A link or a code in the mail that waits. */
async function mailed(kind: string): Promise<{ readonly code: string; readonly link: string }> {
  const found = (await stage.mails()).findLast((mail) => mail.kind === kind && mail.to !== "");
  if (found === undefined) throw new Error(`no mail ${kind}`);
  return found;
}

let resets = 0;

/** Asks for a new password, and returns what chooses it. */
async function resetting(): Promise<() => Promise<unknown>> {
  resets += 1;
  const interaction = `reset-${resets}`;
  await stage.passwordResets.start(interaction, EMAIL, from(resets));
  const { code } = await mailed("reset-password");
  return () => stage.passwordResets.finish({ code, interaction }, NEW_PASSWORD, AT);
}

async function reset(): Promise<void> {
  await (
    await resetting()
  )();
}

/** Changes the address, and undoes it from the old one. */
async function undoneAddress(): Promise<void> {
  await stage.addressChanges.start(sub, "thief@example.com", AT);
  const { code } = await mailed("confirm-address");
  await stage.addressChanges.confirm(sub, { code }, AT);
  const { link } = (await stage.mails()).find(({ to }) => to === EMAIL) ?? { link: "" };
  await expect(stage.addressChanges.undo(link, AT)).resolves.toMatchObject({ kind: "undone" });
}

describe("a person has to look at the second factors", () => {
  it.each<[string, FactorsReview | undefined, () => Promise<unknown>]>([
    ["a reset by mail", "due", reset],
    ["a change of address that is undone", "due", undoneAddress],
    ["an undone change of address, and then a reset", "due", () => undoneAddress().then(reset)],
    [
      "a new password by its owner or an operator",
      undefined,
      () => stage.accounts.setPassword(sub, NEW_PASSWORD),
    ],
    ["the end of all sessions", undefined, () => stage.accounts.endSessions(sub)],
    ["new recovery codes", undefined, () => stage.accounts.resetRecoveryCodes(sub)],
    [
      "a reset, and the end of all sessions",
      "due",
      () => reset().then(() => stage.accounts.endSessions(sub)),
    ],
    ["a reset, and the removal of all factors", undefined, () => reset().then(removeAll)],
    ["a reset, and factors that are new after that", undefined, () => reset().then(removeAll).then(addApp)],
  ])("after %s: %s", async (_what, expected, act) => {
    await addApp();
    // A change of address that is undone takes away what was added since.
    stage.clock.advance(60);
    await act();
    expect(await review()).toBe(expected);
  });

  it.each([
    ["a reset", reset],
    ["a change of address that is undone", undoneAddress],
    [
      "a first factor that is undone",
      async () => {
        await addApp();
        const { link } = await mailed("factors-changed");
        await expect(stage.factors.enrolments?.undo(link, AT)).resolves.toMatchObject({ kind: "undone" });
      },
    ],
  ])("only if there are any, not after %s of an account without", async (_what, act) => {
    await act();
    expect(await review()).toBeUndefined();
  });

  it("only after a reset that succeeded", async () => {
    await addApp();
    const choose = await resetting();
    await stage.accounts.disable(sub);
    await expect(choose()).resolves.toMatchObject({ kind: "gone" });
    expect(await review()).toBeUndefined();
  });
});

const AMR = { password: ["pwd"], passkey: ["swk", "user", "mfa"] };
const looked = async (shown: keyof typeof AMR, generation?: number) =>
  stage.accounts.reviewedFactors(sub, AMR[shown], generation ?? (await record()).sessions_generation, CALLER);
const looks = async (): Promise<number> => {
  const { items: records } = await stage.storage.audit.list({ account: sub, limit: 100 });
  return records.filter(({ action }) => action === "account.factors_reviewed").length;
};

describe("a person who has looked", () => {
  beforeEach(async () => {
    await addApp();
    await reset();
  });

  it("with the password need not look again, and nothing ends", async () => {
    const before = await record();
    const after = await looked("password");
    const { review: _seen, ...ways } = before.ways;
    expect(after).toEqual({ ...before, ways });
    expect(await record()).toEqual(after);
    await expect(looked("password")).resolves.toEqual(after);
    expect(await looks()).toBe(1);
  });

  it("with a passkey alone looks once more with the password, whoever has the passkey", async () => {
    for (let times = 0; times < 2; times += 1)
      await expect(looked("passkey")).resolves.toMatchObject({ ways: { review: "half" } });
    expect(await looks()).toBe(1);
    await looked("password");
    expect(await review()).toBeUndefined();
    await looked("passkey");
    expect([await review(), await looks()]).toEqual([undefined, 2]);
  });

  it("in two browsers at once has looked once", async () => {
    const { sessions_generation } = await record();
    const all = await Promise.all([1, 2, 3, 4].map(() => looked("password", sessions_generation)));
    expect(all.map((each) => each?.ways.review)).toEqual([undefined, undefined, undefined, undefined]);
    expect(all).not.toContain(undefined);
    expect(await looks()).toBe(1);
  });

  it("has not looked for a sign-in that has ended, or a disabled account", async () => {
    const { sessions_generation } = await record();
    await stage.accounts.endSessions(sub);
    await expect(looked("password", sessions_generation)).resolves.toBeUndefined();
    await stage.accounts.disable(sub);
    await expect(looked("password")).resolves.toBeUndefined();
    expect([await review(), await looks()]).toEqual(["due", 0]);
    await stage.accounts.delete(sub);
    await expect(stage.accounts.reviewedFactors(sub, ["pwd"], 1, CALLER)).resolves.toBeUndefined();
  });

  it("has not looked after another reset, not even one at the same moment", async () => {
    for (let round = 0; round < 5; round += 1) {
      const choose = await resetting();
      const { sessions_generation } = await record();
      await Promise.all([choose(), looked("password", sessions_generation)]);
      expect(await review()).toBe("due");
    }
  });
});

const remove = (change: { readonly generation: number; readonly keepsLast?: boolean }) =>
  stage.accounts.removeOwnFactor(sub, "app", change, CALLER);

describe("a factor that its owner removes", () => {
  it("stays if the account has changed since, and the last one if it is needed", async () => {
    await addApp();
    const { sessions_generation: generation } = await record();
    await expect(remove({ generation: generation - 1 })).resolves.toEqual({ kind: "stale" });
    await expect(remove({ generation, keepsLast: true })).resolves.toEqual({ kind: "required" });
    await expect(remove({ generation })).resolves.toMatchObject({ kind: "changed" });
  });
});
