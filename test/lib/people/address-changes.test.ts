/** Changes of the e-mail address by the person, over a real storage. */
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { AT, from, NEW_PASSWORD, openPeople, type PeopleStage, wrongCode } from "./stage.ts";

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  ({ sub } = await stage.accounts.create({ email: "ada@example.com", name: "Buy now!", locale: "en" }));
});
afterEach(() => stage.storage.close());

const GONE = { kind: "gone" };
const SENT = { kind: "sent" };
const start = (email: string, at = AT) => stage.addressChanges.start(sub, email, at);
const confirm = (proof: { code: string } | { link: string }, whose = sub) =>
  stage.addressChanges.confirm(whose, proof, AT);
const email = async () => (await stage.accounts.find(sub))?.email;

describe("a change of address", () => {
  it("takes effect when it is confirmed, and both addresses are told [D-ADDRESS-1]", async () => {
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
      const told = (await stage.mails()).map(({ kind: what, to }) => [what, to]);
      expect(told).toEqual([
        ["address-changed", old],
        ["address-changed", address],
      ]);
      await expect(confirm({ link: mail.link })).resolves.toEqual(GONE);
      await expect(stage.addressChanges.pending(sub)).resolves.toBeUndefined();
    }
    const { records } = await stage.storage.audit.list({ account: sub, limit: 1 });
    expect(records).toMatchObject([{ action: "account.updated", actor: { kind: "account", id: sub } }]);
  });

  it("of the spelling only, or to show that the address is right, tells nobody", async () => {
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

  it("to an address of another account looks the same, and its owner is told without a code [D-ADDRESS-2]", async () => {
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

  it("ends when somebody else takes the address first, and is won once", async () => {
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

  it("is none to what is no address, of no account, and after an hour", async () => {
    for (const wrong of ["", "x", "a@b\r\nBcc: c@d", "Eve <a@b>", "a@b,c@d", "x".repeat(10_000)])
      await expect(start(wrong)).resolves.toEqual({ kind: "invalid" });
    await expect(stage.addressChanges.start("nobody", "a@b.example", AT)).resolves.toEqual(GONE);
    await start("new@example.com");
    const { link } = await stage.mail();
    stage.clock.advance(3_600);
    await expect(confirm({ link })).resolves.toEqual(GONE);
  });

  it("is limited like all mail that a stranger gets [D-MAILLIMIT-1]", async () => {
    for (let count = 0; count < 5; count += 1)
      await expect(start("stranger@example.com", from(count))).resolves.toEqual(SENT);
    await expect(start("stranger@example.com", from(9))).resolves.toEqual({
      kind: "limited",
      retryAfter: 3_600,
    });
  });
});
