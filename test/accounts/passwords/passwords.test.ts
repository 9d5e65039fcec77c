import { pbkdf2Sync, scryptSync } from "node:crypto";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { hash as hashArgon2 } from "@node-rs/argon2";
import { hash as hashBcrypt } from "@node-rs/bcrypt";
import { readForeignHash } from "../../../accounts/passwords/password-formats.ts";
import { createPasswords } from "../../../accounts/passwords/passwords.ts";
import { StorageUnavailable } from "../../../core/errors.ts";
import { openDomain, RULES, withCommit, type Domain } from "../open-domain.ts";

const PASSWORD = "correct horse";
const OURS = { memoryCost: RULES.memory, timeCost: RULES.passes, parallelism: RULES.lanes };

function b64(bytes: Buffer): string {
  return bytes.toString("base64").replace(/=+$/, "");
}

/** As passlib writes it. */
function ab64(bytes: Buffer): string {
  return b64(bytes).replaceAll("+", ".");
}

describe("a password", () => {
  const passwords = createPasswords(RULES);

  it("is kept as Argon2id with the parameters of the configuration [D-ACCOUNT-10]", async () => {
    const hash = await passwords.hash(PASSWORD);
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect(await passwords.verify(hash, PASSWORD)).toBe(true);
    expect(await passwords.verify(hash, "correct horsf")).toBe(false);
    expect(await passwords.hash(PASSWORD)).not.toBe(hash);
  });

  it("is never hashed below the minimum of OWASP [D-ACCOUNT-10]", () => {
    for (const [memory, passes] of [
      [19_455, 2],
      [19_456, 1],
      [7_167, 9],
      [8, 1],
    ] as const) {
      expect(() => createPasswords({ ...RULES, memory, passes })).toThrow(TypeError);
    }
    for (const [memory, passes] of [
      [47_104, 1],
      [19_456, 2],
      [12_288, 3],
      [9_216, 4],
      [7_168, 5],
    ] as const) {
      expect(() => createPasswords({ ...RULES, memory, passes })).not.toThrow();
    }
  });

  it("has 8 to 128 characters, counted in code points", () => {
    for (const password of [
      "1234567",
      "😀".repeat(7),
      "",
      "a".repeat(129),
      "😀".repeat(129),
      "12345678\0",
      "12345678\ud800",
    ]) {
      expect(() => passwords.checkForm(password)).toThrow(
        expect.objectContaining({ code: "invalid_password" }),
      );
      expect(() => passwords.checkForm(password)).not.toThrow(new RegExp(password.slice(0, 3) || "^$"));
    }
    for (const password of [
      "12345678",
      "😀".repeat(8),
      "a".repeat(128),
      "😀".repeat(128),
      "        ",
      "p ä ß 字 x",
    ]) {
      expect(() => passwords.checkForm(password)).not.toThrow();
    }
  });

  it("is the same one in every Unicode form, even if its hash is of another form [D-PASSWORD-1]", async () => {
    const composed = "zażółć gęślą";
    const decomposed = composed.normalize("NFD");
    const wide = "ｐａｓｓ ｗｏｒｄ ｗｉｄｅ";
    const ours = await passwords.hash(decomposed);
    for (const typed of [composed, decomposed]) expect(await passwords.verify(ours, typed)).toBe(true);
    expect(await passwords.verify(await passwords.hash(wide), "pass word wide")).toBe(true);
    // Old hashes, and those of other systems, are of what was typed.
    const theirs = await hashArgon2(decomposed, OURS);
    expect(await passwords.verify(theirs, decomposed)).toBe(true);
    expect(await passwords.verify(theirs, composed)).toBe(false);
    // 200 characters that are 100 in their normal form; and one that becomes eighteen.
    expect(() => passwords.checkForm("é".normalize("NFD").repeat(100))).not.toThrow();
    expect(() => passwords.checkForm("\ufdfa".repeat(100))).toThrow("at most 128");
    const long = await hashArgon2("\ufdfa".repeat(100), OURS);
    expect(await passwords.verify(long, "\ufdfa".repeat(100))).toBe(true);
    expect(await passwords.verify(null, "\ufdfa".repeat(100_000))).toBe(false);
  });

  it("needs a new hash when the parameters are raised or the algorithm changes", async () => {
    const hash = await passwords.hash(PASSWORD);
    const higher = { memory: 19_457, passes: 3, lanes: 2 };
    for (const [name, value] of Object.entries(higher)) {
      expect(createPasswords({ ...RULES, [name]: value }).needsRehash(hash)).toBe(true);
    }
    expect(passwords.needsRehash(hash)).toBe(false);
    expect(createPasswords({ ...RULES, memory: 12_288, passes: 2 + 1 }).needsRehash(hash)).toBe(true);
    expect(passwords.needsRehash(await hashArgon2(PASSWORD, { memoryCost: 65_536, timeCost: 3 }))).toBe(
      false,
    );
    expect(passwords.needsRehash(await hashBcrypt(PASSWORD, 4))).toBe(true);
    expect(passwords.needsRehash("garbage")).toBe(true);
  });
});

describe("hashes of other systems [D-ACCOUNT-11]", () => {
  it("verify: published examples, and hashes made by other code", async () => {
    const salt = Buffer.from("0123456789abcdef");
    const sha256 = pbkdf2Sync(PASSWORD, salt, 1000, 32, "sha256");
    const known: readonly (readonly [string, string])[] = [
      [
        "password",
        "$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iCs5E",
      ],
      [
        "toomanysecrets",
        "$pbkdf2-sha256$29000$N2YMIWQsBWBMae09x1jrPQ$1t8iyB2A.WF/Z5JZv.lfCIhXXN33N23OSgQYThBYRfk",
      ],
      ["U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"],
      [PASSWORD, (await hashBcrypt(PASSWORD, 4)).replace("$2b$", "$2y$")],
      [
        PASSWORD,
        `$scrypt$ln=10,r=8,p=1$${b64(salt)}$${b64(scryptSync(PASSWORD, salt, 32, { N: 1024, r: 8, p: 1 }))}`,
      ],
      [PASSWORD, `$pbkdf2-sha512$1000$${ab64(salt)}$${ab64(pbkdf2Sync(PASSWORD, salt, 1000, 64, "sha512"))}`],
      [PASSWORD, `$pbkdf2-sha256$1000$${ab64(salt)}$${ab64(sha256)}`],
      [PASSWORD, `pbkdf2_sha256$1000$${salt.toString()}$${sha256.toString("base64")}`],
      [PASSWORD, await hashArgon2(PASSWORD, { memoryCost: 8192, timeCost: 1, algorithm: 1 })],
      [PASSWORD, await hashArgon2(PASSWORD, { memoryCost: 8192, timeCost: 1, algorithm: 0 })],
      [PASSWORD, await hashArgon2(PASSWORD, { memoryCost: 8192, timeCost: 1, version: 0 })],
    ];
    const passwords = createPasswords(RULES);
    for (const [password, hash] of known) {
      expect([hash, await passwords.verify(hash, password)]).toEqual([hash, true]);
      expect([hash, await passwords.verify(hash, `${password}x`)]).toEqual([hash, false]);
    }
  });

  it("are refused when they are malformed, have a short digest or cost too much", () => {
    const digest = Buffer.alloc(32).toString("base64");
    const argon2 = "c29tZXNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for (const hash of [
      "",
      "password",
      "5f4dcc3b5aa765d61d8327deb882cf99",
      "$1$salt$hash",
      "$2x$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
      "$2b$15$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
      "$2b$03$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
      "$2b$05$short",
      `$argon2id$v=19$m=4294967295,t=1,p=1$${argon2}`,
      `$argon2id$v=19$m=1048576,t=99,p=1$${argon2}`,
      `$argon2id$v=19$m=65536,t=1,p=255$${argon2}`,
      `$argon2id$v=19$m=65536,t=1,p=1$c29tZXNhbHQ$AAAA`,
      "$argon2id$garbage",
      `$scrypt$ln=30,r=8,p=1$c2FsdA$${digest}`,
      `$scrypt$ln=16,r=999,p=1$c2FsdA$${digest}`,
      `$scrypt$ln=20,r=8,p=16$c2FsdA$${digest}`,
      `$scrypt$ln=0,r=8,p=1$c2FsdA$${digest}`,
      "$scrypt$ln=10,r=8,p=1$c2FsdA$AAAA",
      `$pbkdf2-sha256$2000001$c2FsdA$${digest}`,
      `$pbkdf2-sha256$0$c2FsdA$${digest}`,
      `$pbkdf2-md5$1000$c2FsdA$${digest}`,
      "$pbkdf2-sha256$1000$c2FsdA$AAAA",
      `pbkdf2_sha256$1000$salt$${"A".repeat(2000)}`,
    ]) {
      expect([hash, readForeignHash(hash)]).toEqual([hash, undefined]);
    }
    expect(readForeignHash(`$argon2id$v=19$m=65536,t=3,p=4$${argon2}`)?.algorithm).toBe("argon2");
    expect(readForeignHash(`$scrypt$ln=17,r=8,p=1$c2FsdA$${digest}`)?.algorithm).toBe("scrypt");
    expect(readForeignHash(`$pbkdf2-sha256$1200000$c2FsdA$${digest}`)?.algorithm).toBe("pbkdf2");
  });
});

describe("signing in with a password", () => {
  let domain: Domain;
  beforeEach(async () => {
    domain = await openDomain();
  });

  it("takes the same work for a wrong password, an unknown name and an account without a password", async () => {
    await domain.accounts.create({ email: "with@example.com", username: "with", password: PASSWORD });
    await domain.accounts.create({ email: "without@example.com" });
    const before = { ...domain.counts };
    expect((await domain.accounts.authenticate("WITH", "wrong password")).ok).toBe(false);
    expect(domain.counts).toEqual({ ...before, verify: before.verify + 1 });
    for (const login of ["nobody", "without@example.com", "", "\0", "\ud800", "x".repeat(100_000)]) {
      expect((await domain.accounts.authenticate(login, PASSWORD)).ok).toBe(false);
    }
    expect(domain.counts).toEqual({ ...before, verify: before.verify + 1, verifyNothing: 6 });
    expect((await domain.accounts.authenticate("with@EXAMPLE.com", PASSWORD)).ok).toBe(true);
  });

  it("computes a hash for an unknown account too, and none for an oversized password", async () => {
    const passwords = createPasswords({ ...RULES, parallel: 1 });
    const hash = await passwords.hash(PASSWORD);
    // A comparison without a hash uses the only slot, so the next one waits: it does work.
    const order: string[] = [];
    const nothing = passwords.verify(null, PASSWORD).then((ok) => order.push(`nothing ${ok}`));
    const known = passwords.verify(hash, PASSWORD).then((ok) => order.push(`known ${ok}`));
    const endless = [null, hash].map((each) =>
      passwords.verify(each, "a".repeat(129)).then((ok) => order.push(`endless ${ok}`)),
    );
    await Promise.all([nothing, known, ...endless]);
    expect(order).toEqual(["endless false", "endless false", "nothing false", "known true"]);
  });

  it("never takes less work for a wrong password against an imported hash than for an unknown name [D-IMPORT-1]", async () => {
    // Expensive enough to stand out in this process.
    const dear = createPasswords({ ...RULES, passes: 40, parallel: 1 });
    const cpuOf = async (hash: string | null): Promise<number> => {
      const before = process.cpuUsage();
      expect(await dear.verify(hash, "wrong password")).toBe(false);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    await dear.verify(null, "the thread is started");
    const salt = Buffer.from("0123456789abcdef");
    const cheap = {
      bcrypt: await hashBcrypt(PASSWORD, 4),
      pbkdf2: `$pbkdf2-sha256$1$${ab64(salt)}$${ab64(pbkdf2Sync(PASSWORD, salt, 1, 32, "sha256"))}`,
      scrypt: `$scrypt$ln=1,r=1,p=1$${b64(salt)}$${b64(scryptSync(PASSWORD, salt, 32, { N: 2, r: 1, p: 1 }))}`,
      "argon2i of the same cost": await hashArgon2(PASSWORD, { ...OURS, timeCost: 40, algorithm: 1 }),
      "our own of a lower cost": await hashArgon2(PASSWORD, OURS),
    };
    const withoutHash = await cpuOf(null);
    for (const [name, hash] of Object.entries(cheap)) {
      expect([name, (await cpuOf(hash)) > withoutHash / 2]).toEqual([name, true]);
    }
    const before = process.cpuUsage();
    expect(await dear.verify(cheap.bcrypt, PASSWORD)).toBe(true);
    expect(process.cpuUsage(before).user).toBeLessThan(withoutHash / 2);
    await dear.close();
  });

  it("replaces an imported hash at the first success and changes nothing else [D-ACCOUNT-10]", async () => {
    const password_hash = await hashBcrypt(PASSWORD, 4);
    const { sub } = await domain.accounts.import({ email: "a@b", password_hash });
    const before = await domain.accounts.record(sub);
    await domain.accounts.authenticate("a@b", "wrong");
    await domain.accounts.settled();
    expect(await domain.accounts.record(sub)).toEqual(before);
    domain.clock.seconds += 100;
    expect((await domain.accounts.authenticate("a@b", PASSWORD)).ok).toBe(true);
    await domain.accounts.settled();
    const after = await domain.accounts.record(sub);
    const hash = after?.ways.password?.hash;
    expect(hash).toMatch(/^\$argon2id\$/);
    expect(after).toEqual({ ...before, ways: { password: { ...before?.ways.password, hash } } });
    expect(await domain.accounts.verifyPassword(sub, PASSWORD)).toBe(true);
    await domain.accounts.settled();
    expect(await domain.accounts.record(sub)).toEqual(after);
  });

  it("does not undo a concurrent password change, and succeeds when rehashing fails", async () => {
    const { sub } = await domain.accounts.import({
      email: "a@b",
      password_hash: await hashBcrypt(PASSWORD, 4),
    });
    const [signedIn] = await Promise.all([
      domain.accounts.authenticate("a@b", PASSWORD),
      domain.accounts.setPassword(sub, "another password"),
    ]);
    await domain.accounts.settled();
    expect(signedIn.record?.tokens_generation).not.toBe(
      (await domain.accounts.record(sub))?.tokens_generation,
    );
    expect(await domain.accounts.verifyPassword(sub, "another password")).toBe(true);
    expect(await domain.accounts.verifyPassword(sub, PASSWORD)).toBe(false);

    const broken = domain.reopen({
      rules: { ...RULES, passes: 3 },
      storage: (storage) =>
        withCommit(storage, async () => {
          throw new StorageUnavailable("planted");
        }),
    });
    expect(await broken.accounts.verifyPassword(sub, "another password")).toBe(true);
    await broken.accounts.settled();
    expect(broken.faults).toEqual([{ where: "rehash", code: "storage_unavailable" }]);
  });
});
