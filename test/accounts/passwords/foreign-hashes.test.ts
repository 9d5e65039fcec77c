import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "@jest/globals";
import { hash as hashArgon2 } from "@node-rs/argon2";
import { readForeignHash, wrappedSha } from "../../../accounts/passwords/password-formats.ts";
import { createPasswords } from "../../../accounts/passwords/passwords.ts";
import { RULES } from "../open-domain.ts";

/** Made by the other systems themselves: each entry says how. */
const OTHERS = JSON.parse(
  readFileSync(join(import.meta.dirname, "hashes-of-others.json"), "utf8"),
) as readonly { readonly by: string; readonly password: string; readonly hashes: readonly string[] }[];

const DIGEST = Buffer.alloc(32).toString("base64");
const LONG_DIGEST = Buffer.alloc(64).toString("base64");
const ARGON2 = "c29tZXNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const BCRYPT = "CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
const FIREBASE = `ss=Bw==,sk=${LONG_DIGEST}$42xEC+ixf3L2lw==$${LONG_DIGEST}`;

describe("the hashes that other systems made", () => {
  const passwords = createPasswords(RULES);
  afterAll(() => passwords.close());

  it.each(OTHERS)("open for their password only, and are replaced: $by [D-ADM-200]", async (each) => {
    expect(each.hashes.length).toBeGreaterThan(0);
    for (const hash of each.hashes) {
      expect([hash, await passwords.verify(hash, each.password)]).toEqual([hash, true]);
      expect([hash, await passwords.verify(hash, `${each.password}x`)]).toEqual([hash, false]);
      // Those that are Argon2id as ours are replaced when they are weaker.
      if (!hash.startsWith("$argon2id$")) expect(passwords.needsRehash(hash)).toBe(true);
    }
  });

  it("are compared with the text as typed and with its normal form, always both [D-ADM-201]", async () => {
    const compared: string[] = [];
    const decomposed = "zażółć gęślą".normalize("NFD");
    const cost = { memoryCost: 8, timeCost: 1 };
    for (const text of [decomposed, decomposed.normalize("NFKC")]) {
      const timings: number[] = [];
      const counted = createPasswords(RULES, { onHashed: () => timings.push(1) });
      expect(await counted.verify(await hashArgon2(text, cost), decomposed)).toBe(true);
      compared.push(`${timings.length} comparisons`);
      await counted.close();
    }
    expect(compared).toEqual(["2 comparisons", "2 comparisons"]);
  });
});

describe("the bounds of imported hashes [D-ADM-202]", () => {
  it.each([
    ["bcrypt", `$2b$14$${BCRYPT}`, `$2b$15$${BCRYPT}`],
    ["bcrypt of Spring", `{bcrypt}$2a$14$${BCRYPT}`, `{bcrypt}$2a$15$${BCRYPT}`],
    ["PBKDF2", `$pbkdf2-sha512$2000000$c2FsdA$${DIGEST}`, `$pbkdf2-sha512$2000001$c2FsdA$${DIGEST}`],
    ["PBKDF2 of Django", `pbkdf2_sha1$2000000$salt$${DIGEST}`, `pbkdf2_sha1$2000001$salt$${DIGEST}`],
    ["scrypt's memory", `$scrypt$ln=17,r=8,p=1$c2FsdA$${DIGEST}`, `$scrypt$ln=18,r=8,p=1$c2FsdA$${DIGEST}`],
    ["scrypt's lanes", `$scrypt$ln=10,r=8,p=16$c2FsdA$${DIGEST}`, `$scrypt$ln=10,r=8,p=17$c2FsdA$${DIGEST}`],
    ["scrypt of Django", `scrypt$131072$salt$8$1$${DIGEST}`, `scrypt$262144$salt$8$1$${DIGEST}`],
    ["scrypt of Spring", `{scrypt}$110801$c2FsdA==$${DIGEST}`, `{scrypt}$120801$c2FsdA==$${DIGEST}`],
    ["Firebase", `$fbscrypt$v=1,n=17,r=8,p=1,${FIREBASE}`, `$fbscrypt$v=1,n=18,r=8,p=1,${FIREBASE}`],
    [
      "Argon2's memory",
      `$argon2i$v=19$m=262144,t=1,p=1$${ARGON2}`,
      `$argon2i$v=19$m=262145,t=1,p=1$${ARGON2}`,
    ],
    ["Argon2's passes", `$argon2d$v=19$m=64,t=10,p=1$${ARGON2}`, `$argon2d$v=19$m=64,t=11,p=1$${ARGON2}`],
  ])("%s: the dearest that is accepted, and one above it", (_name, accepted, refused) => {
    expect(readForeignHash(accepted)).toBeDefined();
    expect(readForeignHash(refused)).toBeUndefined();
  });

  it.each([
    ["a key of PBKDF2 that has many blocks costs one", `$pbkdf2$1000$c2FsdA$${LONG_DIGEST}`, true],
    ["scrypt whose N is no power of two", `scrypt$16383$salt$8$1$${DIGEST}`, false],
    ["Firebase without the key of the project", `$fbscrypt$v=1,n=14,r=8,p=1$c2FsdA==$${DIGEST}`, false],
    [
      "Firebase with a key of another length",
      `$fbscrypt$v=1,n=14,r=8,p=1,sk=${DIGEST}$c2FsdA==$${LONG_DIGEST}`,
      false,
    ],
    ["salted SHA without a salt", `$salted-sha256$o=salt-password$$${DIGEST}`, false],
    ["salted SHA without a layout", `$salted-sha256$c2FsdA==$${DIGEST}`, false],
    ["salted SHA with another digest", `$salted-sha512$o=salt-password$c2FsdA==$${DIGEST}`, false],
    ["SHA-1", "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0", false],
    ["SHA-256 without a salt", `{SSHA256}${DIGEST}`, false],
    ["an encoder of Spring that nobody knows", "{noop}password", false],
    ["a wrapped hash that nothing wraps", `$wrapped-sha256$o=salt-password$c2FsdA==$2b$04$${BCRYPT}`, false],
    [
      "a wrapped hash that costs too much",
      `$wrapped-sha256$o=salt-password$c2FsdA==$argon2id$v=19$m=262145,t=1,p=1$${ARGON2}`,
      false,
    ],
  ])("%s", (_name, hash, accepted) => {
    expect(readForeignHash(hash) !== undefined).toBe(accepted);
  });
});

it("a wrapped salted SHA opens for the same password, costs what ours costs, and holds no SHA [D-ADM-203]", async () => {
  const passwords = createPasswords(RULES);
  const [plain = ""] = OTHERS.at(-1)?.hashes ?? [];
  const password = OTHERS.at(-1)?.password ?? "";
  const wrapped = (await wrappedSha(plain, (text) => passwords.hash(text))) ?? "";
  expect(wrapped).toMatch(/^\$wrapped-sha256\$o=password-salt\$[\w+/]+={0,2}\$argon2id\$v=19\$/u);
  const digest = Buffer.from(plain.slice("{SSHA256}".length), "base64").subarray(0, 32);
  expect(wrapped).not.toContain(digest.toString("base64").slice(0, 20));
  expect(await passwords.verify(wrapped, password)).toBe(true);
  expect(await passwords.verify(wrapped, `${password}x`)).toBe(false);
  expect(passwords.needsRehash(wrapped)).toBe(true);
  expect(await wrappedSha(wrapped, (text) => passwords.hash(text))).toBeUndefined();
  await passwords.close();
});
