import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { hash as hashBcrypt } from "@node-rs/bcrypt";
import { MAIL, type StoredMail } from "../../../records/people/mail-kinds.ts";
import { OPERATOR, TransferStage } from "./stage.ts";

const APP = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let stage: TransferStage;
let sub: string;
let email: string;
let count = 0;
beforeAll(async () => {
  stage = await TransferStage.open();
  await stage.service.directory.services.put("watched", {
    name: "Watched",
    receiver: {
      url: "https://receiver.example/",
      client_id: "a",
      client_secret: "the-secret-of-the-receiver",
      types: ["PROFILE_CHANGED"],
    },
  });
});
afterAll(() => stage.close());

beforeEach(async () => {
  count += 1;
  email = `person${count}@example.com`;
  const password_hash = await hashBcrypt("the first password", 4);
  const account = await stage.service.accounts.import({
    email,
    email_verified: true,
    username: `person${count}`,
    name: "Ada",
    surname: "Lovelace",
    attributes: { department: "Engines" },
    password_hash,
    services: { watched: null },
  });
  ({ sub } = account);
});

const record = async () => stage.service.accounts.record(sub);
const imports = (line: object, ...options: readonly string[]) =>
  stage.import(stage.write("update.jsonl", [{ sub, email, ...line }]), ...options);
const deliveries = async () => (await stage.service.notifications.list({ account: sub })).items;

/** The kinds of the mails that wait. */
async function mails(): Promise<readonly string[]> {
  const found = await stage.storage.records.all<StoredMail>(MAIL.name);
  return found.map(({ kind }) => kind).toSorted((one, other) => (one < other ? -1 : 1));
}

describe("accounts import --update", () => {
  it("changes the fields that a line has, and leaves the others [D-ADM-209]", async () => {
    const before = await record();
    const { counts } = await imports({ surname: "King", attributes: { floor: 2 } }, "--update");
    expect(counts).toMatchObject({ updated: 1, refused: 0 });
    const after = await record();
    expect(after).toEqual({
      ...before,
      surname: "King",
      attributes: { department: "Engines", floor: 2 },
      updated_at: after?.updated_at,
    });
    const again = await imports({ surname: "King", attributes: { floor: 2 } }, "--update");
    expect(again.counts).toMatchObject({ updated: 0, same: 1 });
  });

  it("tells nobody unless --notify asks for it [D-ADM-209]", async () => {
    await imports({ surname: "King" }, "--update");
    expect(await deliveries()).toEqual([]);
    await imports({ surname: "Byron" }, "--update", "--notify");
    expect(await deliveries()).toHaveLength(1);
  });

  it("without it an account that exists stays as it is [D-ADM-209]", async () => {
    const before = await record();
    const { counts } = await imports({ surname: "King", password: "another password" });
    expect(counts).toMatchObject({ same: 1 });
    expect(await record()).toEqual(before);
  });

  it("never changes what people sign in with [D-ADM-210]", async () => {
    const before = await record();
    const line = {
      email_verified: false,
      password: "another password",
      app: { secret: APP },
      identities: [{ provider: "google", subject: `g${count}` }],
      disabled: true,
      services: { news: 1 },
      roles: { news: ["editor"] },
    };
    const { counts } = await imports(line, "--update");
    expect(counts).toMatchObject({ same: 1, refused: 0 });
    expect(await record()).toEqual(before);
  });

  it.each<readonly [string, () => object, string]>([
    ["another address", () => ({ email: `other${count}@example.com` }), "not_applicable"],
    ["the user_id of somebody", () => ({ user_id: 1 }), "already_exists"],
    ["a user_id that is free", () => ({ user_id: 999_999 }), "already_exists"],
    ["the name of somebody else", () => ({ username: "person1" }), "name_taken"],
  ])("refuses %s [D-ADM-210]", async (_name, line, code) => {
    const before = await record();
    const { refused } = await imports(line(), "--update");
    expect(refused).toEqual([expect.objectContaining({ line: 1, code })]);
    expect(await record()).toEqual(before);
  });

  it("swaps two names within one commit only as far as each is free, and loses none [D-ADM-210]", async () => {
    const first = { sub, email, username: `free${count}` };
    const other = await stage.service.accounts.create({
      email: `second${count}@example.com`,
      username: `b${count}`,
    });
    const file = stage.write("swap.jsonl", [
      first,
      { sub: other.sub, email: other.email, username: `person${count}` },
    ]);
    const { counts } = await stage.import(file, "--update");
    expect(counts).toMatchObject({ updated: 2, refused: 0 });
    const { accounts } = stage.service;
    expect((await accounts.findByLogin(`person${count}`))?.sub).toBe(other.sub);
    expect((await accounts.findByLogin(`free${count}`))?.sub).toBe(sub);
    expect(await accounts.findByLogin(`b${count}`)).toBeUndefined();
  });
});

describe("accounts import --update-credentials", () => {
  it.each<readonly [string, () => object, readonly string[]]>([
    ["a password", () => ({ password: "another password" }), ["password-changed"]],
    [
      "an address",
      () => ({ email: `other${count}@example.com`, email_verified: true }),
      ["address-changed", "address-changed"],
    ],
    ["an app", () => ({ app: { secret: APP } }), ["factors-changed"]],
    [
      "an identity",
      () => ({ identities: [{ provider: "google", subject: `g${count}` }] }),
      ["identity-linked"],
    ],
    ["that the address is not confirmed", () => ({ email_verified: false }), []],
  ])(
    "changes %s, ends sessions and tokens, and mails the person [D-ADM-211]",
    async (_name, line, expected) => {
      const before = await record();
      const earlier = await mails();
      const { counts, refused } = await imports(line(), "--update-credentials");
      expect(refused).toEqual([]);
      expect(counts).toMatchObject({ updated: 1 });
      const after = await record();
      expect(after?.sessions_generation).toBeGreaterThan(before?.sessions_generation ?? 0);
      expect(after?.tokens_generation).toBeGreaterThan(before?.tokens_generation ?? 0);
      const fresh = await mails();
      for (const kind of earlier) (fresh as string[]).splice(fresh.indexOf(kind), 1);
      expect(fresh).toEqual(expected);
      expect(await deliveries()).toEqual([]);
      const again = await imports(line(), "--update-credentials");
      expect(again.counts).toMatchObject({ updated: 0, same: 1 });
    },
  );

  it("sets what the line says, and it works [D-ADM-211]", async () => {
    const { accounts } = stage.service;
    const identities = [{ provider: "google", subject: `g${count}`, linked_at: 1_700_000_000 }];
    await imports({ password: "another password", identities }, "--update-credentials");
    expect(await accounts.verifyPassword(sub, "the first password")).toBe(false);
    expect(await accounts.verifyPassword(sub, "another password")).toBe(true);
    expect(await accounts.identities(sub)).toEqual([
      expect.objectContaining({ provider: "google", subject: `g${count}`, linked_at: 1_700_000_000 }),
    ]);
  });

  it.each<readonly [string, () => Promise<object>, string]>([
    [
      "the identity of somebody else",
      async () => {
        const other = await stage.service.accounts.create({ email: `owner${count}@example.com` });
        await stage.service.accounts.linkIdentity(other.sub, { provider: "google", subject: `g${count}` });
        return { identities: [{ provider: "google", subject: `g${count}` }] };
      },
      "already_exists",
    ],
    [
      "a second identity of one provider",
      async () => {
        await stage.service.accounts.linkIdentity(sub, { provider: "google", subject: "mine" });
        return { identities: [{ provider: "google", subject: "yours" }] };
      },
      "already_exists",
    ],
    ["the address of somebody else", async () => ({ email: "person1@example.com" }), "name_taken"],
  ])("refuses %s [D-ADM-211]", async (_name, prepare, code) => {
    const line = await prepare();
    const before = await record();
    const { refused } = await imports(line, "--update-credentials");
    expect(refused).toEqual([expect.objectContaining({ line: 1, code })]);
    expect(await record()).toEqual(before);
  });

  it("never changes the account of an operator [D-ADM-212]", async () => {
    const { accounts } = stage.service;
    await accounts.import({
      sub: OPERATOR,
      email: "operator@example.com",
      password: "the operator's password",
    });
    const before = await accounts.record(OPERATOR);
    const line = {
      sub: OPERATOR,
      email: "operator@example.com",
      surname: "Evil",
      password: "another password",
    };
    const file = stage.write("operator.jsonl", [line]);
    for (const option of ["--update", "--update-credentials"]) {
      const { refused } = await stage.import(file, option);
      expect(refused).toEqual([expect.objectContaining({ line: 1, code: "operator_protected" })]);
    }
    expect((await stage.import(file)).counts).toMatchObject({ same: 1 });
    expect(await accounts.record(OPERATOR)).toEqual(before);
  });
});
