/** Identities at other providers over a real storage: who has one, and what linking and unlinking change. */
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { ConfirmedAccount } from "../../../accounts/account.ts";
import type { LinkedAs } from "../../../accounts/identities/identity.ts";
import { canSignIn, kindsOf } from "../../../accounts/ways/ways.ts";
import { AlreadyExists } from "../../../core/errors.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { IDENTITY } from "../../../records/people/identity-kinds.ts";
import { AT, from, openPeople, PASSWORD, type PeopleStage } from "../people/stage.ts";

const GOOGLE = "https://accounts.google.com";
const CALLER = AT.caller;

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  ({ sub } = await stage.accounts.create({
    email: "ada@example.com",
    password: PASSWORD,
    email_verified: true,
  }));
});
afterEach(() => stage.storage.close());

const ada: LinkedAs = { provider: "google", issuer: GOOGLE, subject: "1", email: "ada@gmail.com" };
const other = (parts: Partial<LinkedAs>): LinkedAs => ({ ...ada, ...parts });

const recordOf = async (of = sub): Promise<AccountRecord> => (await stage.accounts.record(of))!;
const state = async (of = sub) => {
  const { sessions_generation } = await recordOf(of);
  return { sessions_generation, keepSession: "here" };
};
const link = async (identity = ada, of = sub) => stage.identities.link(of, identity, await state(of), AT);
const ownerOf = async (identity: Pick<LinkedAs, "issuer" | "subject">) =>
  (await stage.identities.find(identity))?.sub;
const stored = async () => (await stage.storage.records.all(IDENTITY.name)).length;

/** Registers an account with an identity. */
function register(parts: Partial<ConfirmedAccount> = {}, identity = ada) {
  const account = { sub: crypto.randomUUID(), email: "grace@example.com", ...parts };
  return stage.storage.records.transact((tx) =>
    stage.accounts.register(tx, { ...account, first: { kind: "identity", identity } }, CALLER),
  );
}

async function unlink(identity = ada, of = sub) {
  const all = await stage.identities.list(of);
  const { sessions_generation: generation } = await recordOf(of);
  const id = all.find(({ subject }) => subject === identity.subject)?.id ?? "none";
  return stage.identities.unlink(of, id, { generation }, AT);
}

describe("an identity", () => {
  it("is found with the account that it is linked to, and is one of its ways to sign in", async () => {
    const linked = await link();
    const { sessions_generation } = await recordOf();
    expect(linked).toEqual({ kind: "linked", id: expect.any(String), sessions_generation });
    await expect(ownerOf(ada)).resolves.toBe(sub);
    const record = await recordOf();
    expect([kindsOf(record), canSignIn({ ...record, ways: { provider: record.ways.provider! } })]).toEqual([
      ["password", "provider"],
      true,
    ]);
    await expect(stage.identities.list(sub)).resolves.toEqual([
      {
        id: expect.any(String),
        provider: "google",
        issuer: GOOGLE,
        subject: "1",
        email: "ada@gmail.com",
        linked_at: expect.any(Number),
        last_used_at: null,
      },
    ]);
  });

  it.each([
    ["another case of the subject", { subject: "ADA" }, { subject: "ada" }],
    ["another issuer", {}, { issuer: "https://accounts.google.com/" }],
    ["another form of the same letter", { subject: "\u00E9" }, { subject: "e\u0301" }],
    [
      "issuer and subject cut elsewhere",
      { issuer: "https://a", subject: "b,c" },
      { issuer: "https://a,b", subject: "c" },
    ],
    ["spaces around it", { subject: "1" }, { subject: " 1" }],
    ["the name of a member of every object", { subject: "constructor" }, { subject: "__proto__" }],
  ])("is another one with %s", async (_what, one, two) => {
    await link(other(one));
    await expect(ownerOf(other(two))).resolves.toBeUndefined();
    await expect(ownerOf(other(one))).resolves.toBe(sub);
  });

  it.each([
    ["no subject", { subject: "" }],
    ["a subject of 256 characters", { subject: "x".repeat(256) }],
    ["a subject of 10 kB", { subject: "x".repeat(10_240) }],
    ["an issuer of 10 kB", { issuer: `https://${"x".repeat(10_240)}` }],
    ["half of a character", { subject: "\uD83D" }],
  ])("with %s is nobody's, and can't be linked", async (_what, parts) => {
    await expect(ownerOf(other(parts))).resolves.toBeUndefined();
    await expect(link(other(parts))).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(register({}, other(parts))).rejects.toMatchObject({ code: "invalid_argument" });
    expect(await stored()).toBe(0);
  });

  it("with a subject of 255 characters, and one called __proto__, are linked", async () => {
    for (const [provider, subject] of [
      ["one", "x".repeat(255)],
      ["two", "__proto__"],
    ] as const) {
      await expect(link(other({ provider, subject }))).resolves.toMatchObject({ kind: "linked" });
      await expect(ownerOf({ issuer: GOOGLE, subject })).resolves.toBe(sub);
    }
  });
});

describe("a registration with an identity", () => {
  it("makes an account that has nothing else, in one commit", async () => {
    const { record, recoveryCodes } = await register();
    expect([kindsOf(record), recoveryCodes, record.email_verified]).toEqual([["provider"], [], true]);
    expect(record.ways.provider?.links).toMatchObject([{ provider: "google", registered: true }]);
    await expect(ownerOf(ada)).resolves.toBe(record.sub);
    await expect(stage.mails()).resolves.toEqual([]);
    const { items } = await stage.storage.audit.list({ account: record.sub, limit: 2 });
    expect(items).toMatchObject([{ action: "account.registered", detail: { provider: "google" } }]);
  });

  it("makes one account of two first sign-ins at once, and the other one goes on without", async () => {
    const results = await Promise.allSettled(
      ["a", "b", "c", "d"].map((name) => register({ email: `${name}@example.com` })),
    );
    const refused = results.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
    expect(refused).toEqual(refused.map(() => expect.any(AlreadyExists)));
    expect([refused.length, (await stage.accounts.list()).items.length, await stored()]).toEqual([3, 2, 1]);
  });

  it("leaves a transaction that can go on if the identity has an account", async () => {
    await link();
    const account = { sub: crypto.randomUUID(), email: "grace@example.com" };
    const went = await stage.storage.records.transact(async (tx) => {
      try {
        await stage.accounts.register(tx, { ...account, first: { kind: "identity", identity: ada } }, CALLER);
        return "registered";
      } catch (error) {
        return (error as AlreadyExists).code;
      }
    });
    expect(went).toBe("already_exists");
    await expect(stage.accounts.find(account.sub)).resolves.toBeUndefined();
  });
});

describe("linking", () => {
  it("refuses an identity of another account, which keeps it, also of two at once", async () => {
    const eve = await stage.accounts.create({ email: "eve@example.com", password: PASSWORD });
    const kinds = (await Promise.all([link(ada), link(ada, eve.sub)])).map(({ kind }) => kind);
    expect(kinds.toSorted()).toEqual(["linked", "taken"]);
    const owner = kinds[0] === "linked" ? sub : eve.sub;
    await expect(ownerOf(ada)).resolves.toBe(owner);
    await expect(link(ada, owner === sub ? eve.sub : sub)).resolves.toEqual({ kind: "taken" });
    await expect(link(ada, owner)).resolves.toEqual({ kind: "taken" });
    expect(await stored()).toBe(1);
  });

  it("takes one identity of each provider, also of two at once", async () => {
    const as = await state();
    const two = [ada, other({ subject: "2" })].map((each) => stage.identities.link(sub, each, as, AT));
    const kinds = (await Promise.all(two)).map(({ kind }) => kind);
    expect(kinds.toSorted()).toEqual(["changed", "linked"]);
    await expect(link(other({ subject: "3" }))).resolves.toEqual({ kind: "full" });
    await expect(link(other({ provider: "corp", issuer: "https://corp.example" }))).resolves.toMatchObject({
      kind: "linked",
    });
    expect(await stored()).toBe(2);
  });

  it.each<[string, () => Promise<unknown>]>([
    ["ended its sessions", () => stage.accounts.endSessions(sub)],
    ["was disabled", () => stage.accounts.disable(sub)],
    ["was deleted", () => stage.accounts.delete(sub)],
  ])("changes nothing once the account %s", async (_what, change) => {
    const as = await state();
    await change();
    await expect(stage.identities.link(sub, ada, as, AT)).resolves.toEqual({ kind: "changed" });
    expect(await stored()).toBe(0);
  });

  it("ends all other sessions and remembered browsers", async () => {
    await stage.accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    const before = await recordOf();
    const result = await link();
    const { sessions_generation, ways } = await recordOf();
    expect(result).toMatchObject({ sessions_generation });
    expect(sessions_generation).toBeGreaterThan(before.sessions_generation);
    expect(ways.generation).toBeGreaterThan(before.ways.generation!);
    expect(stage.changed.at(-1)).toMatchObject({ sub, sessions: true, keepSession: "here" });
  });
});

describe("unlinking", () => {
  it("ends sessions, and the identity then belongs to nobody", async () => {
    await link();
    await stage.mails();
    const before = await recordOf();
    await expect(unlink()).resolves.toMatchObject({ kind: "changed" });
    const after = await recordOf();
    expect(after.sessions_generation).toBeGreaterThan(before.sessions_generation);
    expect(after.ways).not.toHaveProperty("provider");
    expect([await ownerOf(ada), await stored()]).toEqual([undefined, 0]);
    const { items } = await stage.storage.audit.list({ account: sub, limit: 1 });
    expect(items).toMatchObject([{ action: "account.identity_unlinked", detail: { provider: "google" } }]);
  });

  it("refuses the last way to sign in, also of two at once", async () => {
    const { record } = await register();
    await expect(unlink(ada, record.sub)).resolves.toEqual({ kind: "last_sign_in_method" });
    const corp = other({ provider: "corp", issuer: "https://corp.example", subject: "7" });
    await link(corp, record.sub);
    const { sessions_generation: generation } = await recordOf(record.sub);
    const ids = (await stage.identities.list(record.sub)).map(({ id }) => id);
    const results = await Promise.all(
      ids.map((id) => stage.identities.unlink(record.sub, id, { generation }, AT)),
    );
    expect(results.map(({ kind }) => kind).toSorted()).toEqual(["changed", "stale"]);
    expect(canSignIn(await recordOf(record.sub))).toBe(true);
  });

  it("is not something that removing all factors does", async () => {
    await link();
    await expect(stage.accounts.removeFactors(sub)).resolves.toBe(false);
    await stage.accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    await expect(stage.accounts.removeFactors(sub)).resolves.toBe(true);
    await expect(ownerOf(ada)).resolves.toBe(sub);
    await expect(stage.accounts.factors(sub)).resolves.toEqual({
      app: null,
      passkeys: [],
      recovery_codes_left: 0,
    });
  });

  it("goes with the account, and who comes back gets a new one", async () => {
    const { record } = await register();
    await stage.accounts.delete(record.sub);
    expect([await ownerOf(ada), await stored()]).toEqual([undefined, 0]);
    const { record: again } = await register();
    expect(again.sub).not.toBe(record.sub);
    await expect(ownerOf(ada)).resolves.toBe(again.sub);
  });
});

describe("a sign-in with an identity", () => {
  it("is remembered with its commit", async () => {
    await link();
    stage.clock.advance(60);
    await stage.storage.records.transact((tx) => stage.identities.used(tx, ada));
    const [identity] = await stage.identities.list(sub);
    expect(identity!.last_used_at).toBe(identity!.linked_at + 60);
    await stage.storage.records.transact((tx) => stage.identities.used(tx, other({ subject: "2" })));
    expect(await stored()).toBe(1);
  });

  it("is of another generation once the identity is unlinked", async () => {
    await link();
    const found = await stage.identities.find(ada);
    const [identity] = await stage.identities.list(sub);
    const { sessions_generation: generation } = await recordOf();
    await stage.identities.unlink(sub, identity!.id, { generation }, from(1));
    expect((await recordOf()).sessions_generation).not.toBe(found!.sessions_generation);
    await expect(stage.identities.find(ada)).resolves.toBeUndefined();
  });
});
