/** Identities at other providers over a real storage: who has one, and what linking and unlinking change. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { canSignIn, kindsOf } from "../../../accounts/ways/ways.ts";
import { AlreadyExists } from "../../../core/errors.ts";
import { AT, from, PASSWORD } from "../people/stage.ts";
import { ada, corp, GOOGLE, IdentityParty, other } from "./identity-party.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

const party = new IdentityParty();
beforeEach(() => party.open());

describe("an identity", () => {
  it("is found with the account that it is linked to, and is one of its ways to sign in [D-PROV-61]", async () => {
    const linked = await party.link();
    const { sessions_generation } = await party.record();
    expect(linked).toEqual({
      kind: "linked",
      id: expect.any(String),
      linked_at: expect.any(Number),
      sessions_generation,
    });
    await expect(party.ownerOf(ada)).resolves.toBe(party.sub);
    const record = await party.record();
    expect([kindsOf(record), canSignIn({ ...record, ways: { provider: record.ways.provider! } })]).toEqual([
      ["password", "provider"],
      true,
    ]);
    await expect(party.stage.identities.list(party.sub)).resolves.toEqual([
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
  ])("is another one with %s [D-PROV-50]", async (_what, one, two) => {
    await party.link(other(one));
    await expect(party.ownerOf(other(two))).resolves.toBeUndefined();
    await expect(party.ownerOf(other(one))).resolves.toBe(party.sub);
  });

  it.each([
    ["no subject", { subject: "" }],
    ["a subject of 256 characters", { subject: "x".repeat(256) }],
    ["a subject of 10 kB", { subject: "x".repeat(10_240) }],
    ["an issuer of 10 kB", { issuer: `https://${"x".repeat(10_240)}` }],
    ["half of a character", { subject: "\uD83D" }],
  ])("with %s is nobody's, and can't be linked [D-PROV-50]", async (_what, parts) => {
    await expect(party.ownerOf(other(parts))).resolves.toBeUndefined();
    await expect(party.link(other(parts))).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(party.register({}, other(parts))).rejects.toMatchObject({ code: "invalid_argument" });
    expect(await party.stored()).toBe(0);
  });

  it("with a subject of 255 characters, and one called __proto__, are linked", async () => {
    for (const [provider, subject] of [
      ["one", "x".repeat(255)],
      ["two", "__proto__"],
    ] as const) {
      await expect(party.link(other({ provider, subject }))).resolves.toMatchObject({ kind: "linked" });
      await expect(party.ownerOf({ issuer: GOOGLE, subject })).resolves.toBe(party.sub);
    }
  });
});

describe("a registration with an identity", () => {
  it("makes an account that has nothing else, in one commit", async () => {
    const { record, recoveryCodes } = await party.register();
    expect([kindsOf(record), recoveryCodes, record.email_verified]).toEqual([["provider"], [], true]);
    expect(record.ways.provider?.links).toMatchObject([{ provider: "google", registered: true }]);
    await expect(party.ownerOf(ada)).resolves.toBe(record.sub);
    await expect(party.stage.mails()).resolves.toEqual([]);
    const { items } = await party.stage.storage.audit.list({ account: record.sub, limit: 2 });
    expect(items).toMatchObject([{ action: "account.registered", detail: { provider: "google" } }]);
  });

  it("makes one account of two first sign-ins at once, and the other one goes on without [D-PROV-51]", async () => {
    const results = await Promise.allSettled(
      ["a", "b", "c", "d"].map((name) => party.register({ email: `${name}@example.com` })),
    );
    const refused = results.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
    expect(refused).toEqual(refused.map(() => expect.any(AlreadyExists)));
    expect([refused.length, (await party.stage.accounts.list()).items.length, await party.stored()]).toEqual([
      3, 2, 1,
    ]);
  });

  it("leaves a transaction that can go on if the identity has an account", async () => {
    await party.link();
    const account = { sub: crypto.randomUUID(), email: "grace@example.com" };
    const went = await party.stage.storage.records.transact(async (tx) => {
      try {
        await party.stage.accounts.register(
          tx,
          { ...account, first: { kind: "identity", identity: ada } },
          AT.caller,
        );
        return "registered";
      } catch (error) {
        return (error as AlreadyExists).code;
      }
    });
    expect(went).toBe("already_exists");
    await expect(party.stage.accounts.find(account.sub)).resolves.toBeUndefined();
  });
});

describe("linking", () => {
  it("refuses an identity of another account, which keeps it, also of two at once [D-PROV-52]", async () => {
    const eve = await party.stage.accounts.create({ email: "eve@example.com", password: PASSWORD });
    const kinds = (await Promise.all([party.link(ada), party.link(ada, eve.sub)])).map(({ kind }) => kind);
    expect(kinds.toSorted()).toEqual(["linked", "taken"]);
    const owner = kinds[0] === "linked" ? party.sub : eve.sub;
    await expect(party.ownerOf(ada)).resolves.toBe(owner);
    await expect(party.link(ada, owner === party.sub ? eve.sub : party.sub)).resolves.toEqual({
      kind: "taken",
    });
    await expect(party.link(ada, owner)).resolves.toEqual({ kind: "taken" });
    expect(await party.stored()).toBe(1);
  });

  it("takes one identity of each provider, also of two at once [D-PROV-53]", async () => {
    const as = await party.state();
    const two = [ada, other({ subject: "2" })].map((each) =>
      party.stage.identities.link(party.sub, each, as, AT),
    );
    const kinds = (await Promise.all(two)).map(({ kind }) => kind);
    expect(kinds.toSorted()).toEqual(["changed", "linked"]);
    await expect(party.link(other({ subject: "3" }))).resolves.toEqual({ kind: "full" });
    await expect(
      party.link(other({ provider: "corp", issuer: "https://corp.example" })),
    ).resolves.toMatchObject({
      kind: "linked",
    });
    expect(await party.stored()).toBe(2);
  });

  it.each<[string, () => Promise<unknown>]>([
    ["ended its sessions", () => party.stage.accounts.endSessions(party.sub)],
    ["was disabled", () => party.stage.accounts.disable(party.sub)],
    ["was deleted", () => party.stage.accounts.delete(party.sub)],
  ])("changes nothing once the account %s", async (_what, change) => {
    const as = await party.state();
    await change();
    await expect(party.stage.identities.link(party.sub, ada, as, AT)).resolves.toEqual({ kind: "changed" });
    expect(await party.stored()).toBe(0);
  });

  it("ends all other sessions and remembered browsers [D-PROV-54]", async () => {
    await party.stage.accounts.addApp(party.sub, { secret: SECRET });
    const before = await party.record();
    const result = await party.link();
    const { sessions_generation, ways } = await party.record();
    expect(result).toMatchObject({ sessions_generation });
    expect(sessions_generation).toBeGreaterThan(before.sessions_generation);
    expect(ways.generation).toBeGreaterThan(before.ways.generation!);
    expect(party.stage.changed.at(-1)).toMatchObject({ sub: party.sub, sessions: true, keepSession: "here" });
  });
});

describe("unlinking", () => {
  it("ends sessions, and the identity then belongs to nobody", async () => {
    await party.link();
    await party.stage.mails();
    const before = await party.record();
    await expect(party.unlink()).resolves.toMatchObject({ kind: "changed" });
    const after = await party.record();
    expect(after.sessions_generation).toBeGreaterThan(before.sessions_generation);
    expect(after.ways).not.toHaveProperty("provider");
    expect([await party.ownerOf(ada), await party.stored()]).toEqual([undefined, 0]);
    const { items } = await party.stage.storage.audit.list({ account: party.sub, limit: 1 });
    expect(items).toMatchObject([{ action: "account.identity_unlinked", detail: { provider: "google" } }]);
  });

  it("refuses the last way to sign in, also of two at once [D-PROV-58]", async () => {
    const { record } = await party.register();
    await expect(party.unlink(ada, record.sub)).resolves.toEqual({ kind: "last_sign_in_method" });
    await party.link(corp, record.sub);
    const { sessions_generation: generation } = await party.record(record.sub);
    const ids = (await party.stage.identities.list(record.sub)).map(({ id }) => id);
    const results = await Promise.all(
      ids.map((id) => party.stage.identities.unlink(record.sub, id, { generation }, AT)),
    );
    expect(results.map(({ kind }) => kind).toSorted()).toEqual(["changed", "stale"]);
    expect(canSignIn(await party.record(record.sub))).toBe(true);
  });

  it("counts no identity of a provider that is not configured any more", async () => {
    const { record } = await party.register();
    await party.link(other({ provider: "gone", issuer: "https://gone.example" }), record.sub);
    await expect(party.unlink(ada, record.sub)).resolves.toEqual({ kind: "last_sign_in_method" });
    // The key of its provider may have changed, so it may still sign in.
    const renamed = other({ provider: "old", issuer: "https://old.example" });
    const alone = await party.register({ email: "alone@example.com" }, renamed);
    await expect(party.unlink(renamed, alone.record.sub)).resolves.toEqual({ kind: "last_sign_in_method" });
  });

  it("is not something that removing all factors does", async () => {
    await party.link();
    await expect(party.stage.accounts.removeFactors(party.sub)).resolves.toBe(false);
    await party.stage.accounts.addApp(party.sub, { secret: SECRET });
    await expect(party.stage.accounts.removeFactors(party.sub)).resolves.toBe(true);
    await expect(party.ownerOf(ada)).resolves.toBe(party.sub);
    await expect(party.stage.accounts.factors(party.sub)).resolves.toEqual({
      app: null,
      passkeys: [],
      recovery_codes_left: 0,
    });
  });

  it("goes with the account, and who comes back gets a new one [D-PROV-59]", async () => {
    const { record } = await party.register();
    await party.link(corp, record.sub);
    await party.stage.accounts.delete(record.sub);
    expect([await party.ownerOf(ada), await party.ownerOf(corp), await party.stored()]).toEqual([
      undefined,
      undefined,
      0,
    ]);
    await expect(party.stage.storage.records.all("confirmation")).resolves.toEqual([]);
    const { record: again } = await party.register();
    expect(again.sub).not.toBe(record.sub);
    await expect(party.ownerOf(ada)).resolves.toBe(again.sub);
  });
});

describe("a sign-in with an identity", () => {
  it("is remembered with its commit", async () => {
    await party.link();
    party.stage.clock.advance(60);
    await party.stage.storage.records.transact((tx) => party.stage.identities.used(tx, ada));
    const [identity] = await party.stage.identities.list(party.sub);
    expect(identity!.last_used_at).toBe(identity!.linked_at + 60);
    await party.stage.storage.records.transact((tx) =>
      party.stage.identities.used(tx, other({ subject: "2" })),
    );
    expect(await party.stored()).toBe(1);
  });

  it("is of another generation once the identity is unlinked [D-PROV-65]", async () => {
    await party.link();
    const found = await party.stage.identities.find(ada);
    const [identity] = await party.stage.identities.list(party.sub);
    const { sessions_generation: generation } = await party.record();
    await party.stage.identities.unlink(party.sub, identity!.id, { generation }, from(1));
    expect((await party.record()).sessions_generation).not.toBe(found!.sessions_generation);
    await expect(party.stage.identities.find(ada)).resolves.toBeUndefined();
  });
});

describe("operators", () => {
  const MICROSOFT = "72f988bf-86f1-41af-91ab-2d7cd011db47";

  it("list identities without the address there", async () => {
    await party.link();
    await expect(party.stage.accounts.identities(party.sub)).resolves.toEqual([
      {
        provider: "google",
        issuer: GOOGLE,
        subject: "1",
        linked_at: expect.any(Number),
        last_used_at: null,
      },
    ]);
    await expect(party.stage.accounts.identities(crypto.randomUUID())).resolves.toEqual([]);
  });

  it("link an identity ahead, with the mail that undoes it [D-PROV-63]", async () => {
    const { accounts } = party.stage;
    const made = await accounts.linkIdentity(party.sub, { provider: "google", subject: "1" });
    await expect(accounts.identities(party.sub)).resolves.toEqual([made]);
    await expect(party.ownerOf(ada)).resolves.toBe(party.sub);
    const { kind, link } = await party.stage.mail();
    expect([kind, link]).toEqual(["identity-linked", expect.stringMatching(/^[\w-]{43}$/u)]);
    const { items } = await party.stage.storage.audit.list({ account: party.sub, limit: 1 });
    expect(items).toMatchObject([{ action: "account.identity_linked", detail: { provider: "google" } }]);
  });

  it("name the tenant of Microsoft with the subject", async () => {
    const subject = `${MICROSOFT}:11111111-2222-4333-8444-555555555555`;
    await expect(
      party.stage.accounts.linkIdentity(party.sub, { provider: "microsoft", subject }),
    ).resolves.toMatchObject({ issuer: `https://login.microsoftonline.com/${MICROSOFT}/v2.0`, subject });
  });

  it.each([
    ["a provider that is not configured", { provider: "gogle", subject: "1" }, "unknown_reference"],
    ["a name of every object", { provider: "__proto__", subject: "1" }, "unknown_reference"],
    ["an empty subject", { provider: "google", subject: "" }, "invalid_argument"],
    ["a subject of 10 kB", { provider: "google", subject: "x".repeat(10_240) }, "invalid_argument"],
    [
      "a subject of Microsoft without its tenant",
      { provider: "microsoft", subject: "1" },
      "invalid_argument",
    ],
    ["a second identity of a provider", { provider: "google", subject: "2" }, "already_exists"],
    ["an identity of another account", { provider: "github", subject: "7" }, "already_exists"],
  ])("can't link %s", async (_what, input, code) => {
    const eve = await party.stage.accounts.create({ email: "eve@example.com" });
    await party.stage.accounts.linkIdentity(eve.sub, { provider: "github", subject: "7" });
    await party.link();
    await expect(party.stage.accounts.linkIdentity(party.sub, input)).rejects.toMatchObject({ code });
    expect(await party.stored()).toBe(2);
  });

  it("can't link to an account that does not exist", async () => {
    const input = { provider: "google", subject: "1" };
    await expect(party.stage.accounts.linkIdentity(crypto.randomUUID(), input)).rejects.toMatchObject({
      code: "not_found",
    });
    expect(await party.stored()).toBe(0);
  });

  it("unlink an identity, but not the last way to sign in", async () => {
    const { accounts } = party.stage;
    await expect(accounts.unlinkIdentity(party.sub, "google")).resolves.toBe(false);
    const { record } = await party.register();
    await expect(accounts.unlinkIdentity(record.sub, "google")).rejects.toMatchObject({
      code: "last_sign_in_method",
    });
    await accounts.setPassword(record.sub, PASSWORD);
    await expect(accounts.unlinkIdentity(record.sub, "google")).resolves.toBe(true);
    await expect(party.ownerOf(ada)).resolves.toBeUndefined();
  });

  it("link and unlink while the account is disabled, which stays so", async () => {
    const { accounts } = party.stage;
    await accounts.disable(party.sub);
    await accounts.linkIdentity(party.sub, { provider: "google", subject: "1" });
    expect((await party.stage.identities.find(ada))?.disabled).toBe(true);
    await expect(accounts.unlinkIdentity(party.sub, "google")).resolves.toBe(true);
  });
});
