/** Changes of the e-mail address by the person, over a real storage. */
import { factorStateOf } from "../../../accounts/factors/factor.ts";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { AT, NEW_PASSWORD, openPeople, PASSWORD, type PeopleStage, wrongCode } from "./stage.ts";

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  ({ sub } = await stage.accounts.create({ email: "ada@example.com", name: "Buy now!", locale: "en" }));
});

const GONE = { kind: "gone" };
const SENT = { kind: "sent" };
const start = (email: string, at = AT) => stage.addressChanges.start(sub, email, at);
const confirm = (proof: { code: string } | { link: string }, whose = sub) =>
  stage.addressChanges.confirm(whose, proof, AT);
const undo = (link: string) => stage.addressChanges.undo(link, AT);
const UNDONE = { kind: "undone", reset: expect.stringMatching(/^[\w-]{43}$/) };
const email = async () => (await stage.accounts.find(sub))?.email;

describe("a change of address", () => {
  it("takes effect when it is confirmed, and both addresses are notified [D-ADDRESS-1, D-ACCOUNT-12]", async () => {
    for (const kind of ["code", "link"] as const) {
      const address = `${kind}@example.com`;
      const old = await email();
      await expect(start(address)).resolves.toEqual(SENT);
      const mail = await stage.mail();
      expect(mail).toMatchObject({ kind: "confirm-address", to: address, locale: "en" });
      await expect(email()).resolves.toBe(old);
      await expect(stage.addressChanges.pending(sub)).resolves.toEqual({ email: address });
      await expect(confirm(kind === "code" ? { code: mail.code } : { link: mail.link })).resolves.toEqual({
        kind: "changed",
      });
      await expect(stage.accounts.find(sub)).resolves.toMatchObject({ email: address, email_verified: true });
      const told = (await stage.mails()).map(({ kind: what, to }) => `${what} ${to}`);
      expect(told.toSorted()).toEqual([old, address].map((to) => `address-changed ${to}`).toSorted());
      await expect(confirm({ link: mail.link })).resolves.toEqual(GONE);
      await expect(stage.addressChanges.pending(sub)).resolves.toBeUndefined();
    }
    const { items: records } = await stage.storage.audit.list({ account: sub, limit: 1 });
    expect(records).toMatchObject([{ action: "account.updated", actor: { kind: "account", id: sub } }]);
  });

  it("that changes only the spelling, or confirms the current address, notifies nobody", async () => {
    await start("Ada@example.com");
    await expect(confirm(await stage.mail())).resolves.toEqual({ kind: "changed" });
    await expect(stage.accounts.find(sub)).resolves.toMatchObject({
      email: "Ada@example.com",
      email_verified: true,
    });
    await expect(stage.mails()).resolves.toEqual([]);
  });

  it("is confirmed only by the account that asked for it [D-ADDRESS-1]", async () => {
    const other = await stage.accounts.create({ email: "eve@example.com" });
    await start("new@example.com");
    const { code, link } = await stage.mail();
    await expect(confirm({ link }, other.sub)).resolves.toEqual(GONE);
    await expect(confirm({ code }, other.sub)).resolves.toEqual(GONE);
    await expect(confirm({ code: wrongCode(code) })).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
    await expect(confirm({ link })).resolves.toEqual({ kind: "changed" });
  });

  it("to an address of another account looks the same, and its owner is notified without a code [D-ADDRESS-2]", async () => {
    await stage.accounts.create({ email: "eve@example.com", locale: "pl" });
    await expect(start("EVE@example.com")).resolves.toEqual(SENT);
    await expect(stage.mail()).resolves.toMatchObject({
      kind: "known-address",
      to: "EVE@example.com",
      locale: "pl",
      code: "",
      link: "",
    });
    await expect(stage.addressChanges.pending(sub)).resolves.toEqual({ email: "EVE@example.com" });
    await expect(confirm({ code: "00000000" })).resolves.toEqual({ kind: "wrong", triesLeft: 4 });
  });

  it("ends when somebody else takes the address first, and takes effect only once", async () => {
    await start("new@example.com");
    const { link } = await stage.mail();
    await stage.accounts.create({ email: "NEW@example.com" });
    await expect(confirm({ link })).resolves.toEqual(GONE);
    await start("free@example.com");
    const proof = await stage.mail();
    const results = await Promise.all([confirm(proof), confirm({ code: proof.code }), confirm(proof)]);
    expect(results.map(({ kind }) => kind).toSorted()).toEqual(["changed", "gone", "gone"]);
  });

  it.each([
    ["the password was changed", () => stage.accounts.setPassword(sub, NEW_PASSWORD)],
    ["the address was changed", () => stage.accounts.update(sub, { email: "third@example.com" })],
    ["the account was disabled", () => stage.accounts.disable(sub)],
    ["the account was deleted", () => stage.accounts.delete(sub)],
    ["it was cancelled", () => stage.addressChanges.cancel(sub)],
    ["another one was asked for", () => start("other@example.com")],
  ])("is void once %s", async (_what, act) => {
    await start("new@example.com");
    const { link } = await stage.mail();
    await act();
    await expect(confirm({ link })).resolves.toEqual(GONE);
    await expect(email()).resolves.not.toBe("new@example.com");
  });

  it("is refused for an invalid address or an unknown account, and expires after an hour", async () => {
    for (const wrong of [
      "",
      "x",
      "a@b\r\nBcc: c@d",
      "Eve <a@b>",
      "a@b,c@d",
      "a@localhost",
      "x".repeat(10_000),
    ])
      await expect(start(wrong)).resolves.toEqual({ kind: "invalid" });
    await expect(stage.addressChanges.start("nobody", "a@b.example", AT)).resolves.toEqual(GONE);
    await start("new@example.com");
    const { link } = await stage.mail();
    stage.clock.advance(3_600);
    await expect(confirm({ link })).resolves.toEqual(GONE);
  });

  it("is limited like all mail that a stranger gets [D-MAILLIMIT-1]", async () => {
    for (let count = 0; count < 5; count += 1)
      await expect(start("stranger@example.com", AT)).resolves.toEqual(SENT);
    await expect(start("stranger@example.com", AT)).resolves.toMatchObject({
      kind: "limited",
      retryAfter: 3_600,
    });
  });
});

/** Changes it as whoever is signed in. @returns the link in the mail to the address before. */
async function change(address: string): Promise<string> {
  await start(address);
  const { link } = await stage.mail();
  await expect(confirm({ link })).resolves.toEqual({ kind: "changed" });
  return (await stage.mails()).find(({ mail }) => mail.params["address"] === "old")?.link ?? "";
}

describe("undoing a change of address", () => {
  beforeEach(async () => {
    await stage.accounts.update(sub, { email_verified: true });
    await stage.accounts.setPassword(sub, PASSWORD);
    await stage.mails();
  });

  it("brings back the address before it, and ends sessions, tokens and the password [D-ADDRESS-3]", async () => {
    const link = await change("thief@example.com");
    const before = await stage.accounts.record(sub);
    stage.clock.advance(7 * 86_400 - 1);
    const result = await undo(link);
    expect(result).toEqual(UNDONE);
    const after = await stage.accounts.record(sub);
    expect(after).toMatchObject({
      email: "ada@example.com",
      email_verified: true,
      ways: { password: { hash: null } },
    });
    expect(after?.sessions_generation).not.toBe(before?.sessions_generation);
    expect(after?.tokens_generation).not.toBe(before?.tokens_generation);
    expect(stage.ended).toMatchObject([{ sub }, { sub }]);
    await expect(stage.accounts.verifyPassword(sub, PASSWORD)).resolves.toBe(false);
    const told = await stage.mails();
    expect(told.map(({ to, link: token }) => `${to} ${token}`).toSorted()).toEqual([
      "ada@example.com ",
      "thief@example.com ",
    ]);
    const { items: records } = await stage.storage.audit.list({ account: sub, limit: 1 });
    expect(records).toMatchObject([
      { action: "account.address_restored", actor: { kind: "account", id: sub } },
    ]);
    // The way to a new password is open, and the link works once.
    const reset = result.kind === "undone" ? result.reset : "";
    await expect(stage.passwordResets.finish({ link: reset }, NEW_PASSWORD, AT)).resolves.toMatchObject({
      kind: "done",
    });
    await expect(stage.accounts.verifyPassword(sub, NEW_PASSWORD)).resolves.toBe(true);
    await expect(undo(link)).resolves.toEqual(GONE);
  });

  it("removes the second factors that were added since, and leaves earlier ones [D-ADDRESS-3]", async () => {
    const passkey = {
      public_key: "AA",
      counter: 0,
      transports: [],
      backup_eligible: true,
      backed_up: true,
      rp_id: "login.example",
      name: "Phone",
    };
    const addPasskey = async (id: string): Promise<void> => {
      const state = factorStateOf((await stage.accounts.record(sub))!);
      const factor = { kind: "passkey", passkey: { id, ...passkey }, userHandle: "AAAA" } as const;
      const added = await stage.accounts.addFactor(sub, factor, state, {}, AT.caller);
      expect(added.kind).toBe("changed");
    };
    await addPasskey("of-ada");
    await stage.mails();
    stage.clock.advance(60);
    const link = await change("thief@example.com");
    await addPasskey("of-thief");
    await stage.accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    stage.clock.advance(86_400);
    await expect(undo(link)).resolves.toEqual(UNDONE);
    await expect(stage.accounts.factors(sub)).resolves.toMatchObject({
      app: null,
      passkeys: [{ id: "of-ada" }],
    });
    const { items: records } = await stage.storage.audit.list({ account: sub, limit: 1 });
    expect(records).toMatchObject([{ action: "account.address_restored", detail: { factors: 2 } }]);
  });

  it("leaves the password alone as the way in, if all second factors were added since [D-ADDRESS-3]", async () => {
    const link = await change("thief@example.com");
    await stage.accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    await expect(undo(link)).resolves.toEqual(UNDONE);
    const none = { app: null, passkeys: [], recovery_codes_left: 0 };
    await expect(stage.accounts.factors(sub)).resolves.toEqual(none);
  });

  it("works after further changes of address and password, and voids their links [D-ADDRESS-3]", async () => {
    const first = await change("thief@example.com");
    await stage.accounts.setPassword(sub, NEW_PASSWORD);
    await stage.mails();
    const second = await change("thief2@example.com");
    await expect(undo(second)).resolves.toEqual(UNDONE);
    await expect(email()).resolves.toBe("thief@example.com");
    await stage.mails();
    const third = await change("thief3@example.com");
    await expect(undo(first)).resolves.toEqual(UNDONE);
    await expect(email()).resolves.toBe("ada@example.com");
    await expect(undo(third)).resolves.toEqual(GONE);
    await expect(email()).resolves.toBe("ada@example.com");
  });

  it("voids what the thief has asked for: another change, and a new password", async () => {
    const link = await change("thief@example.com");
    await start("thief2@example.com");
    const next = await stage.mail();
    await stage.passwordResets.start(undefined, "thief@example.com", AT);
    const reset = await stage.mail();
    await undo(link);
    await expect(confirm({ link: next.link })).resolves.toEqual(GONE);
    await expect(stage.passwordResets.finish({ link: reset.link }, NEW_PASSWORD, AT)).resolves.toEqual(GONE);
    await expect(email()).resolves.toBe("ada@example.com");
  });

  it("comes with every change, ten an hour; a further change is refused, and its code works later [D-ADDRESS-4]", async () => {
    const first = await change("thief0@example.com");
    for (let count = 1; count < 10; count += 1)
      expect(await change(`thief${count}@example.com`)).not.toBe("");
    await start("thief10@example.com");
    const { code } = await stage.mail();
    await expect(confirm({ code })).resolves.toEqual({ kind: "limited", retryAfter: 3_600 });
    await expect(email()).resolves.toBe("thief9@example.com");
    stage.clock.advance(3_599);
    await expect(confirm({ code })).resolves.toMatchObject({ kind: "limited", retryAfter: 1 });
    await start("thief11@example.com");
    const later = await stage.mail();
    stage.clock.advance(1);
    await expect(confirm({ code: later.code })).resolves.toEqual({ kind: "changed" });
    expect((await stage.mails()).map(({ link }) => link !== "")).toEqual([true, false]);
    // No link has given way to it.
    await expect(undo(first)).resolves.toEqual(UNDONE);
    await expect(email()).resolves.toBe("ada@example.com");
  });

  it("is won once; of two links, the earlier address stays", async () => {
    const first = await change("thief@example.com");
    const second = await change("thief2@example.com");
    const results = await Promise.all([undo(first), undo(first), undo(second), undo(first)]);
    expect(results.filter(({ kind }, index) => kind === "undone" && index !== 2)).toHaveLength(1);
    await expect(email()).resolves.toBe("ada@example.com");
  });

  it("changes nothing while another account has the address, and works once that account gives it up", async () => {
    const link = await change("thief@example.com");
    const other = await stage.accounts.create({ email: "Ada@example.com" });
    await expect(undo(link)).resolves.toEqual({ kind: "taken" });
    await expect(email()).resolves.toBe("thief@example.com");
    await stage.accounts.delete(other.sub);
    await expect(undo(link)).resolves.toEqual(UNDONE);
  });

  it("is not offered to an address that was not confirmed, and not for a change by the operator", async () => {
    await stage.accounts.update(sub, { email: "typo@example.com" });
    expect((await stage.mails()).map(({ link }) => link)).toEqual(["", ""]);
    expect(await change("ada@example.com")).toBe("");
  });

  it.each([
    ["after seven days", async () => stage.clock.advance(7 * 86_400), GONE],
    ["once the account is disabled", () => stage.accounts.disable(sub), { kind: "blocked" }],
    ["once the account is deleted", () => stage.accounts.delete(sub), GONE],
  ])("does nothing %s", async (_what, act, answer) => {
    const link = await change("thief@example.com");
    await act();
    await expect(undo(link)).resolves.toEqual(answer);
    await expect(email()).resolves.not.toBe("ada@example.com");
  });

  it("accepts no link for another purpose, and its link works for no other", async () => {
    const link = await change("thief@example.com");
    await expect(confirm({ link })).resolves.toEqual(GONE);
    await expect(stage.passwordResets.finish({ link }, NEW_PASSWORD, AT)).resolves.toEqual(GONE);
    await stage.passwordResets.start(undefined, "thief@example.com", AT);
    await expect(undo((await stage.mail()).link)).resolves.toEqual(GONE);
    for (const wrong of ["", "x", "a".repeat(43), "__proto__"])
      await expect(undo(wrong)).resolves.toEqual(GONE);
  });
});
