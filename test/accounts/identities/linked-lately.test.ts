/** What is linked lately can be undone: by the link of the mail, on the account page, and by a new password. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { kindsOf } from "../../../accounts/ways/ways.ts";
import { AT, NEW_PASSWORD, PASSWORD } from "../people/stage.ts";
import { ada, corp, DAY, IdentityParty, other } from "./identity-party.ts";

const party = new IdentityParty();
beforeEach(() => party.open());

const linkIn = async (kind: string) =>
  (await party.stage.mails()).find((mail) => mail.kind === kind)?.link ?? "";

/** Chooses a new password with the mail of the account that {@link register} makes. */
async function resetByMail(): Promise<void> {
  await party.stage.passwordResets.start("i", "grace@example.com", AT);
  const { code } = (await party.stage.mails()).find(({ kind }) => kind === "reset-password")!;
  await expect(
    party.stage.passwordResets.finish({ code, interaction: "i" }, NEW_PASSWORD, AT),
  ).resolves.toMatchObject({ kind: "done" });
}

const notMe = async (identity = ada, of = party.sub, generation?: number) => {
  const all = await party.stage.identities.list(of);
  const id = all.find(({ subject }) => subject === identity.subject)?.id ?? "none";
  return party.stage.identities.notMe(of, id, generation ?? (await party.record(of)).sessions_generation, AT);
};

/** Registered with Google; with two more, one of them linked ten days later. */
async function withThree(): Promise<string> {
  const { record } = await party.register();
  await party.link(corp, record.sub);
  party.stage.clock.advance(10 * DAY);
  await party.link(other({ provider: "late", issuer: "https://late.example" }), record.sub);
  await party.stage.mails();
  return record.sub;
}
const left = async (of: string) => (await party.stage.identities.list(of)).map(({ provider }) => provider);
describe("the mail about a link", () => {
  it("names the provider and the address there, and its link undoes it [D-PROV-55]", async () => {
    await party.link();
    const { kind, to, mail, link: token } = await party.stage.mail();
    expect([kind, to, mail.params]).toEqual([
      "identity-linked",
      "ada@example.com",
      expect.objectContaining({ provider: "google", address: "ada@gmail.com", link: token }),
    ]);
    const before = await party.record();
    const undone = await party.stage.identities.undo(token, AT);
    const { reset } = undone as { readonly reset: string };
    const after = await party.record();
    expect([kindsOf(after), await party.ownerOf(ada), await party.stored()]).toEqual([[], undefined, 0]);
    expect(after.sessions_generation).toBeGreaterThan(before.sessions_generation);
    expect(after.tokens_generation).toBeGreaterThan(before.tokens_generation);
    await expect(party.stage.passwordResets.finish({ link: reset }, NEW_PASSWORD, AT)).resolves.toMatchObject(
      {
        kind: "done",
      },
    );
    await expect(party.stage.identities.undo(token, AT)).resolves.toEqual({ kind: "gone" });
    const { items } = await party.stage.storage.audit.list({ account: party.sub, limit: 9 });
    expect(items).toContainEqual(
      expect.objectContaining({ action: "account.identity_undone", detail: { provider: "google" } }),
    );
  });

  it("leaves out what is no address", async () => {
    await party.link(other({ email: "https://evil.example/ click here" }));
    expect((await party.stage.mail()).mail.params).not.toHaveProperty("address");
  });

  it.each<[string, () => Promise<unknown>]>([
    ["seven days", async () => party.stage.clock.advance(7 * DAY)],
    ["the person has unlinked it", () => party.unlink()],
    ["the account was deleted", () => party.stage.accounts.delete(party.sub)],
  ])("undoes nothing after %s", async (_what, happen) => {
    await party.link();
    const token = await linkIn("identity-linked");
    await happen();
    await expect(party.stage.identities.undo(token, AT)).resolves.toEqual({ kind: "gone" });
  });

  it("undoes nothing of another link, also of the same identity", async () => {
    await party.link();
    const first = await linkIn("identity-linked");
    await party.unlink();
    await party.link();
    const second = await linkIn("identity-linked");
    await party.link(corp);
    await expect(party.stage.identities.undo(first, AT)).resolves.toEqual({ kind: "gone" });
    await expect(party.stage.identities.undo(second, AT)).resolves.toMatchObject({ kind: "undone" });
    await expect(party.ownerOf(corp)).resolves.toBe(party.sub);
  });

  it("changes nothing while the account is disabled", async () => {
    await party.link();
    const token = await linkIn("identity-linked");
    await party.stage.accounts.disable(party.sub);
    await expect(party.stage.identities.undo(token, AT)).resolves.toEqual({ kind: "blocked" });
    await party.stage.accounts.enable(party.sub);
    await expect(party.stage.identities.undo(token, AT)).resolves.toMatchObject({ kind: "undone" });
  });

  it("goes with its link to the address before a change, for seven days [D-PROV-56]", async () => {
    await party.stage.addressChanges.start(party.sub, "thief@example.com", AT);
    const { code } = (await party.stage.mails()).find(({ kind }) => kind === "confirm-address")!;
    await party.stage.addressChanges.confirm(party.sub, { code }, AT);
    await party.stage.mails();
    await party.link();
    const mails = await party.stage.mails();
    expect(Object.fromEntries(mails.map(({ to, link: token }) => [to, token !== ""]))).toEqual({
      "ada@example.com": true,
      "thief@example.com": false,
    });
    await party.unlink();
    party.stage.clock.advance(7 * DAY);
    await party.stage.mails();
    await party.link();
    expect((await party.stage.mail()).to).toBe("thief@example.com");
  });

  it("has no link for an address that was never confirmed", async () => {
    const { sub: eve } = await party.stage.accounts.create({ email: "eve@example.com", password: PASSWORD });
    await party.link(ada, eve);
    expect((await party.stage.mail()).link).toBe("");
  });

  it("comes with every link, because there are at most ten in an hour", async () => {
    const linked = async (count: number) => {
      const { kind } = await party.link(other({ provider: `p${count}`, subject: String(count) }));
      return kind;
    };
    for (let count = 0; count < 10; count += 1) expect(await linked(count)).toBe("linked");
    expect(await linked(10)).toBe("limited");
    expect((await party.stage.mails()).filter((mail) => mail.link !== "")).toHaveLength(10);
    party.stage.clock.advance(3_600);
    expect(await linked(10)).toBe("linked");
  });
});

describe("this wasn't me", () => {
  it("does what the link of the mail does [D-PROV-62]", async () => {
    await party.link();
    const token = await linkIn("identity-linked");
    await party.link(corp);
    await expect(notMe()).resolves.toEqual({ kind: "undone", reset: expect.any(String) });
    const record = await party.record();
    expect([kindsOf(record), record.ways.review]).toEqual([["provider"], "due"]);
    await expect(party.stage.identities.undo(token, AT)).resolves.toEqual({ kind: "gone" });
  });

  it("is for seven days, for the session that asks, and not for what the account was registered with", async () => {
    const { record } = await party.register();
    await expect(notMe(ada, record.sub)).resolves.toEqual({ kind: "gone" });
    await party.link(corp);
    await expect(notMe(corp, party.sub, 1)).resolves.toEqual({ kind: "gone" });
    party.stage.clock.advance(7 * DAY);
    await expect(notMe(corp)).resolves.toEqual({ kind: "gone" });
    await expect(party.ownerOf(corp)).resolves.toBe(party.sub);
  });
});

describe("a new password", () => {
  it.each<[string, (of: string) => Promise<unknown>]>([
    [
      "of its owner",
      async (of) => party.stage.accounts.setOwnPassword(of, NEW_PASSWORD, await party.session(of), AT.caller),
    ],
    ["by an operator", (of) => party.stage.accounts.setPassword(of, NEW_PASSWORD)],
    ["after a reset", resetByMail],
  ])(
    "%s unlinks what was linked in the seven days before, and has the rest reviewed [D-PROV-57, D-PROV-64]",
    async (_who, set) => {
      const of = await withThree();
      await set(of);
      expect(await left(of)).toEqual(["google", "corp"]);
      expect((await party.record(of)).ways.review).toBe("due");
      const { items } = await party.stage.storage.audit.list({ account: of, limit: 1 });
      expect(items).toMatchObject([{ detail: { identities: 1 } }]);
      expect(await party.stored()).toBe(2);
    },
  );

  it("leaves what the account was registered with, unless it is reset", async () => {
    const { record } = await party.register();
    await party.stage.accounts.setPassword(record.sub, PASSWORD);
    expect(await left(record.sub)).toEqual(["google"]);
    await resetByMail();
    expect([await left(record.sub), (await party.record(record.sub)).ways.review]).toEqual([[], undefined]);
  });

  it("unlinks what is linked at the same moment, or refuses to link it", async () => {
    const as = await party.state();
    const [linked] = await Promise.all([
      party.stage.identities.link(party.sub, ada, as, AT),
      party.stage.accounts.setPassword(party.sub, NEW_PASSWORD),
    ]);
    expect(["linked", "changed"]).toContain(linked.kind);
    await expect(party.ownerOf(ada)).resolves.toBeUndefined();
  });
});

describe("an account that signs in at its provider only", () => {
  const staff = other({ provider: "corp", issuer: "https://login.corp.example", email: "ada@staff.example" });

  beforeEach(async () => {
    await party.stage.accounts.update(party.sub, { email: "ada@staff.example", email_verified: true });
    await party.link(staff);
  });

  it("is led to the provider by the link of the mail, and by no password [D-PROV-60]", async () => {
    const { link, mail } = (await party.stage.mails()).find(({ kind }) => kind === "identity-linked")!;
    expect(mail.params).toMatchObject({ only: "1" });
    await expect(party.stage.identities.undo(link, AT)).resolves.toEqual({ kind: "undone", reset: null });
    await expect(party.ownerOf(staff)).resolves.toBeUndefined();
  });

  it("keeps its identity there, unless an operator removes it [D-PROV-58]", async () => {
    await expect(party.unlink(staff)).resolves.toEqual({ kind: "last_sign_in_method" });
    await expect(party.stage.accounts.unlinkIdentity(party.sub, "corp")).resolves.toBe(true);
  });
});
