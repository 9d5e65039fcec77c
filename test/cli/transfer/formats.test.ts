/**
 * Files of other systems. The realms were written by Keycloak 26.4.7 (`kc.sh export --users same_file`); of what is not about people, most
 * was taken out.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { hash as hashBcrypt } from "@node-rs/bcrypt";
import { linesOf, TransferStage } from "./stage.ts";

let stage: TransferStage;
beforeAll(async () => {
  stage = await TransferStage.open();
});
afterAll(() => stage.close());

const find = (name: string) => stage.service.accounts.findByLogin(name);
const subOf = async (name: string): Promise<string> => (await find(name))?.sub ?? "";
const opens = async (name: string, password: string): Promise<boolean> =>
  stage.service.accounts.verifyPassword(await subOf(name), password);

const realm = (name: string): string => join(import.meta.dirname, `keycloak-${name}.json`);

describe("the users of a realm of Keycloak", () => {
  it("keep identifier, fields, password, app, identity and roles [D-ADM-219]", async () => {
    const { counts, refused, outcome } = await stage.import(realm("pbkdf2"), "--format", "keycloak");
    expect(counts).toMatchObject({ created: 2, refused: 1 });
    // Whoever has no address.
    expect(refused).toEqual([
      { line: expect.any(Number), code: "invalid_argument", message: "account.email: is required" },
    ]);
    expect(outcome.err).toContain("attribute shoe_size, realmRoles staff, role boss of the client news");
    expect(await find("ada@corp.example")).toMatchObject({
      sub: "c288ace3-60f1-40f3-9ab4-ebfd2ec244da",
      username: "ada",
      name: "Ada",
      surname: "Lovelace",
      email_verified: true,
      locale: "en",
      attributes: { department: "Engines" },
      services: { news: null },
      roles: { news: ["editor"] },
      disabled: false,
    });
    expect(await opens("ada", "the old password of ada")).toBe(true);
    expect(await opens("ada", "the old password of bob")).toBe(false);
    expect(await stage.service.accounts.identities(await subOf("ada"))).toEqual([
      expect.objectContaining({ provider: "google", subject: "1234567890" }),
    ]);
    const bob = await find("bob@corp.example");
    expect(bob).toMatchObject({ username: null, disabled: true });
    expect(
      await stage.service.accounts.exportLines({
        after: (bob?.user_id ?? 0) - 1,
        limit: 1,
        credentials: true,
      }),
    ).toEqual([
      // The characters of Keycloak's secret are the bytes of ours.
      expect.objectContaining({ app: { secret: "IFBEGRCFIZDUQSKKJNGE2TSPKBIVEU2U" } }),
    ]);
    const again = await stage.import(realm("pbkdf2"), "--format", "keycloak");
    expect(again.counts).toMatchObject({ created: 0, same: 2 });
  });

  it("sign in with a password that Keycloak hashed with Argon2 [D-ADM-219]", async () => {
    const text = readFileSync(realm("argon2"), "utf8")
      .replaceAll("@corp.example", "@argon.example")
      .replace('"ada"', '"ada.argon"')
      .replace('"1234567890"', '"987"');
    const { counts } = await stage.import(stage.write("argon.json", text), "--format", "keycloak");
    expect(counts).toMatchObject({ created: 2 });
    expect(await opens("ada.argon", "the old password of ada")).toBe(true);
  });

  it.each([
    ["that was cut", (text: string) => text.slice(0, text.indexOf('"bob@corp.example"')), 2],
    [
      "on one line, with an element that is too long",
      (text: string) =>
        JSON.stringify({
          ...JSON.parse(text),
          users: [{ id: "x".repeat(2_000_000) }, ...JSON.parse(text).users],
        }),
      1,
    ],
  ])("come from a document %s as far as it goes [D-ADM-219]", async (_name, change, least) => {
    const file = stage.write("changed.json", change(readFileSync(realm("pbkdf2"), "utf8")));
    const { counts, outcome } = await stage.import(file, "--format", "keycloak");
    expect(outcome.code).toBe(1);
    expect(counts["same"]).toBeGreaterThanOrEqual(1);
    expect(counts["refused"]).toBeGreaterThanOrEqual(least);
  });

  it.each([["{}"], ["[1"], ["null"], ['{"users":{"a":[]}}'], ['{"a":{"users":[{}]}}']])(
    "are not in %s [D-ADM-219]",
    async (text) => {
      const { code } = await stage.cli([
        "accounts",
        "import",
        stage.write("no.json", text),
        "--format",
        "keycloak",
      ]);
      expect(code).toBeGreaterThan(0);
    },
  );
});

describe("the users of Auth0", () => {
  const user = {
    user_id: "auth0|64fa1",
    email: "ada@auth0.example",
    email_verified: true,
    username: "ada.auth0",
    given_name: "Ada",
    family_name: "Lovelace",
    name: "Ada Lovelace",
    nickname: "ada",
    user_metadata: { department: "Engines", theme: "dark" },
    app_metadata: { floor: 3 },
    identities: [
      { provider: "auth0", user_id: "64fa1", connection: "users", isSocial: false },
      { provider: "google-oauth2", user_id: "998877", connection: "google-oauth2", isSocial: true },
      { provider: "facebook", user_id: "1", connection: "facebook", isSocial: true },
    ],
  };

  it("come from the list of its bulk import, with the hashes that it takes [D-ADM-220]", async () => {
    const salted = { value: "salt-and-pepper", encoding: "utf8", position: "prefix" };
    const { createHash } = await import("node:crypto");
    const digest = createHash("sha256").update("salt-and-pepperthe password of bob").digest("hex");
    const users = [
      {
        ...user,
        custom_password_hash: {
          algorithm: "bcrypt",
          hash: { value: await hashBcrypt("the password of ada", 4) },
        },
      },
      {
        user_id: "bob",
        email: "bob@auth0.example",
        blocked: true,
        custom_password_hash: { algorithm: "sha256", hash: { value: digest, encoding: "hex" }, salt: salted },
        mfa_factors: [
          { totp: { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" } },
          { phone: { value: "+48226950000" } },
        ],
      },
      {
        user_id: "md5",
        email: "md5@auth0.example",
        custom_password_hash: { algorithm: "md5", hash: { value: "5f4dcc3b5aa765d61d8327deb882cf99" } },
      },
    ];
    const file = stage.write("auth0.json", JSON.stringify(users, undefined, 2));
    const { counts, refused, outcome } = await stage.import(file, "--format", "auth0", "--map-sub");
    expect(counts).toMatchObject({ created: 2, refused: 1 });
    expect(refused).toEqual([expect.objectContaining({ message: expect.stringContaining("algorithm") })]);
    expect(outcome.err).toContain("attribute theme, factor phone, provider facebook");
    expect(
      linesOf(outcome.out)
        .map(({ id }) => id)
        .slice(0, 2),
    ).toEqual(["auth0|64fa1", "auth0|bob"]);
    expect(await find("ada@auth0.example")).toMatchObject({
      email_verified: true,
      username: "ada.auth0",
      name: "Ada",
      surname: "Lovelace",
      attributes: { department: "Engines", floor: 3 },
    });
    expect(await opens("ada.auth0", "the password of ada")).toBe(true);
    expect(await stage.service.accounts.identities(await subOf("ada.auth0"))).toEqual([
      expect.objectContaining({ provider: "google", subject: "998877" }),
    ]);
    expect(await find("bob@auth0.example")).toMatchObject({ disabled: true });
    const bob = await subOf("bob@auth0.example");
    await stage.service.accounts.enable(bob);
    expect(await opens("bob@auth0.example", "the password of bob")).toBe(true);
    expect((await stage.service.accounts.factors(bob))?.app).not.toBeNull();
  });

  it("come from the lines of an export, and from those with hashes, under the same identifiers [D-ADM-220]", async () => {
    const passwordHash = await hashBcrypt("the password of eve", 4);
    const eve = { _id: { $oid: "64fa2" }, email: "eve@auth0.example", email_verified: true, passwordHash };
    const file = stage.write("auth0.jsonl", [eve, user]);
    const { counts } = await stage.import(file, "--format", "auth0", "--map-sub");
    expect(counts).toMatchObject({ created: 1, same: 1, refused: 0 });
    expect(await opens("eve@auth0.example", "the password of eve")).toBe(true);
    const again = stage.write("auth0-again.jsonl", [{ user_id: "auth0|64fa2", email: "eve@auth0.example" }]);
    expect((await stage.import(again, "--format", "auth0", "--map-sub")).counts).toMatchObject({ same: 1 });
  });
});

describe("a table", () => {
  it("has columns of the names that an import has, quotes, line breaks and formulas [D-ADM-221]", async () => {
    const rows = [
      "sub,email,username,name,surname,email_verified,attribute:department,floor,service:news,roles:news,identity:google,user_id",
      'A0A0A0A0-0000-4000-8000-000000000001,ada@csv.example,ada.csv,"Ada, ""the"" first",=cmd|\' /C calc\'!A0,yes,Engines,3,7,editor author,55,4711',
      "",
      ",bob@csv.example,,Bob,,no,,,,,,",
      ',eve@csv.example,,"Eve\nMallory",,,,,,,,',
      ",max@csv.example,,Max,,perhaps,,,,,,",
      ",cells@csv.example,too few",
    ];
    const file = stage.write("people.csv", `\uFEFF${rows.join("\r\n")}\r\n`);
    const { counts, refused } = await stage.import(file, "--format", "csv");
    expect(refused.map(({ line, message }) => `${line} ${message.split(":")[0]}`)).toEqual([
      "6 account.name",
      "7 account.email_verified",
      "8 has another number of cells than the first row",
    ]);
    expect(counts).toMatchObject({ created: 2, refused: 3 });
    expect(await find("ada.csv")).toMatchObject({
      sub: "a0a0a0a0-0000-4000-8000-000000000001",
      user_id: 4_711,
      name: 'Ada, "the" first',
      surname: "=cmd|' /C calc'!A0",
      email_verified: true,
      attributes: { department: "Engines", floor: 3 },
      services: { news: 7 },
      roles: { news: ["editor", "author"] },
    });
    // Without an identifier, the address makes it: the same at the next run.
    expect((await stage.import(file, "--format", "csv")).counts).toMatchObject({ same: 2, created: 0 });
  });

  it.each([
    ["no row of names", "ada@csv.example,Ada\n"],
    ["an unknown column", "email,salary\nx@csv.example,1\n"],
    ["a column twice", "email,name,name\nx@csv.example,a,b\n"],
    ["no address", "name\nAda\n"],
  ])("with %s is refused as a whole [D-ADM-221]", async (_name, text) => {
    const file = stage.write("wrong.csv", text);
    const { code, err } = await stage.cli(["accounts", "import", file, "--format", "csv"]);
    expect([code, err]).toEqual([2, expect.stringContaining("docs/operate/day-to-day/moving-from-csv.md")]);
    expect(err).not.toMatch(/salary|csv\.example/u);
  });

  it("with a quote that never ends, or a cell that is not UTF-8, loses no other row [D-ADM-221]", async () => {
    const file = stage.write(
      "broken.csv",
      Buffer.concat([
        Buffer.from("email,name\none@csv.example,One\n"),
        Buffer.from("two@csv.example,\xff\n", "latin1"),
        Buffer.from('three@csv.example,Three\nfour@csv.example,"Four\n'),
      ]),
    );
    const { counts, refused } = await stage.import(file, "--format", "csv");
    expect(counts).toMatchObject({ created: 2 });
    expect(refused[0]).toEqual({ line: 3, code: "invalid_argument", message: "is not UTF-8" });
    expect(refused).toHaveLength(2);
  });
});
