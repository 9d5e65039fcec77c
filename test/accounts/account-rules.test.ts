import { beforeEach, describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { emailProblem, normalName, usernameProblem } from "../../accounts/names.ts";
import { codeOf, openDomain, type Domain } from "./open-domain.ts";
import { rounds } from "../rounds.ts";

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
});

describe("sign-in names", () => {
  it("share one namespace of e-mail addresses and usernames, after NFKC and lowercasing [D-ACCOUNT-2]", async () => {
    await domain.accounts.create({ email: "Ada@Example.com", username: "Straße" });
    for (const email of ["ada@example.com", "ADA@EXAMPLE.COM"]) {
      expect(await codeOf(domain.accounts.create({ email }))).toBe("name_taken");
    }
    for (const username of ["STRAßE", "ｓtraße", "straße"]) {
      expect(await codeOf(domain.accounts.create({ email: "x@y", username }))).toBe("name_taken");
    }
    expect((await domain.accounts.findByLogin("ＡＤＡ@ＥＸＡＭＰＬＥ.com"))?.email).toBe("Ada@example.com");
  });

  it("are addresses in one form: the domain as A-labels in lower case [D-ACCOUNT-2]", async () => {
    const { sub, email } = await domain.accounts.create({ email: "Ada@Bu\u0308cher.Example" });
    expect(email).toBe("Ada@xn--bcher-kva.example");
    for (const same of ["ada@bücher.example", "ADA@XN--BCHER-KVA.example", "ada@bücher。example"]) {
      expect((await domain.accounts.findByLogin(same))?.sub).toBe(sub);
      expect(await codeOf(domain.accounts.create({ email: same }))).toBe("name_taken");
    }
    const changed = await domain.accounts.update(sub, { email: "ada@ŻÓŁW.example" });
    expect(changed.email).toBe("ada@xn--w-uga1v8h.example");
    expect((await domain.accounts.findByLogin("ada@żółw.example"))?.sub).toBe(sub);
    expect((await domain.accounts.create({ email: "x@127.1" })).email).toBe("x@127.1");
  });

  it("are never addresses that compare as a different mailbox than the one that gets the mail [D-ACCOUNT-2]", async () => {
    const others = [
      "x@exam․ple.com",
      "ａda@example.com",
      "ada@ｅxample.com",
      "ﬁ@example.com",
      "x²@example.com",
    ];
    for (const email of others) expect(emailProblem(email)).toContain("characters that stand for others");
    for (const domainName of ["a%2eb", "a/b", "a#b", "a?b", "ü%40b", "ü..b", "ü/b", "ü 1"])
      expect(emailProblem(`x@${domainName}`)).toBeDefined();
    for (const email of ["Ada@Example.com", "zoe\u0308@example.com", "ada@ÉCOLE.example"])
      expect(emailProblem(email)).toBeUndefined();
    expect(await codeOf(domain.accounts.create({ email: "x@exam․ple.com" }))).toContain("account.email: ");
  });

  it("never have an @ in a username, in any Unicode form [D-ACCOUNT-2]", () => {
    for (const username of ["a@b", "a＠b", "a﹫b"])
      expect(usernameProblem(username)).toContain("must not have an @");
    for (const email of ["a＠b@c", "a@b﹫c"]) expect(emailProblem(email)).toContain("one @");
  });

  it("that the library or an import sets may be what no person may choose [D-NAME-7]", async () => {
    const others = ["12345", "admin", "\u0430dmin", "0190b8e2-7c4d-7abc-8def-0123456789ab", "ada lovelace"];
    for (const [index, username] of others.entries()) {
      const email = `x${index}@example.com`;
      const { sub } = await domain.accounts.create({ email, username });
      expect((await domain.accounts.find(sub))?.username).toBe(username);
      await domain.accounts.delete(sub);
      const imported = await domain.accounts.import({ email, username });
      expect(imported.username).toBe(username);
    }
  });

  it("are free again after a change or a deletion, not before", async () => {
    const ada = await domain.accounts.create({ email: "ada@example.com", username: "ada" });
    await domain.accounts.update(ada.sub, { email: "new@example.com", username: null });
    const second = await domain.accounts.create({ email: "ada@example.com", username: "ADA" });
    expect(await codeOf(domain.accounts.update(ada.sub, { username: "ada" }))).toBe("name_taken");
    await domain.accounts.delete(second.sub);
    expect((await domain.accounts.update(ada.sub, { username: "ada" })).username).toBe("ada");
    expect((await domain.accounts.update(ada.sub, { username: "ADA" })).username).toBe("ADA");
  });

  it("have one normal form, which is stable and independent of case", () => {
    const text = fc.string({ unit: "binary" });
    fc.assert(
      fc.property(text, (name) => {
        const once = normalName(name);
        expect(normalName(once)).toBe(once);
        expect(once.normalize("NFKC")).toBe(once);
        expect(normalName(name.normalize("NFD"))).toBe(once);
      }),
      { numRuns: rounds(300, 3_000) },
    );
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."a b z ä ö ñ é œ Ω 1 . _ -".split(" ")) }), (name) => {
        expect(normalName(name.toUpperCase())).toBe(normalName(name));
      }),
    );
    expect(normalName("H̱")).toBe(normalName("ẖ"));
  });

  it("are looked up without delay, even with five million characters", async () => {
    await domain.accounts.create({ email: "a@b", username: "a".repeat(64) });
    expect(await domain.accounts.findByLogin("a".repeat(5_000_000))).toBeUndefined();
    const { ok, record } = await domain.accounts.authenticate("a".repeat(5_000_000), "a password");
    expect([ok, record]).toEqual([false, undefined]);
  });

  it("are looked up only with at most 254 characters, once they are read [D-LIMIT-2]", async () => {
    const lookups: string[] = [];
    const { accounts } = domain.reopen({
      storage(storage) {
        const { directory } = storage;
        const findAccountByName = (name: string) => {
          lookups.push(name);
          return directory.findAccountByName(name);
        };
        return { ...storage, directory: { ...directory, findAccountByName } };
      },
    });
    const email = `${"a".repeat(64)}@${"b".repeat(63)}.${"c".repeat(63)}.${"d".repeat(61)}`;
    const { sub } = await accounts.create({ email, password: "a password" });
    lookups.length = 0;
    expect((await accounts.findByLogin(email.toUpperCase()))?.sub).toBe(sub);
    expect((await accounts.authenticate(email, "a password")).ok).toBe(true);
    expect(lookups).toEqual([email, email]);
    // NFKC turns this character into eighteen, so fifteen are too long.
    for (const long of [`${email}a`, "a".repeat(255), "\ufdfa".repeat(15), "\ufdfa".repeat(254)]) {
      expect(await accounts.findByLogin(long)).toBeUndefined();
      expect((await accounts.authenticate(long, "a password")).ok).toBe(false);
    }
    expect(lookups).toHaveLength(2);
    await accounts.findByLogin("\ufdfa".repeat(14));
    expect(lookups[2]).toHaveLength(14 * 18);
  });

  it("find the account of every name that passes the rules", async () => {
    const part = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
    const names = fc.tuple(part, part).filter(([a, b]) => !usernameProblem(a) && !emailProblem(`${b}@x`));
    await fc.assert(
      fc.asyncProperty(names, async ([username, local]) => {
        const { sub } = await domain.accounts.create({ email: `${local}@x`, username });
        expect((await domain.accounts.findByLogin(username))?.sub).toBe(sub);
        expect((await domain.accounts.findByLogin(`${local}@x`.normalize("NFKD")))?.sub).toBe(sub);
        await domain.accounts.delete(sub);
      }),
      { numRuns: 100 },
    );
  });
});

describe("the fields of an account", () => {
  const wrong: Record<string, readonly unknown[]> = {
    email: [
      undefined,
      null,
      1,
      "",
      "a",
      "a@",
      "@b",
      "a@b@c",
      "a b@c",
      " a@b",
      "a@b ",
      "a\0@b",
      "a@b\n",
      "a\u200b@b",
      `${"a".repeat(250)}@bcde`,
      "\ud800@b",
      "<a@b>",
      "a,b@c",
      "a..b@c",
      "a@b.",
    ],
    username: [
      "",
      " a",
      "a ",
      "a\0",
      "a\u0007",
      "a\u202eb",
      "a\u200bb",
      "a".repeat(65),
      "\ud800",
      5,
      {},
      "´a",
      "ﷺﷺﷺﷺ",
      "\u00a0",
    ],
    name: ["", " ", "a\0", "a\nb", "a\u202eb", "a".repeat(101), 1, [], "\udfff"],
    date_of_birth: [
      "",
      "1990-13-01",
      "2023-02-29",
      "1990-1-1",
      "0000-01-01",
      "1849-12-31",
      "2999-01-01",
      "1990-12-10T00:00:00Z",
      "１９９０-12-10",
      19901210,
    ],
    portal: ["", "a b", "a/b", "ä", "x".repeat(65), 1],
    email_verified: ["true", 1, null],
    password: [1, {}, true],
  };

  it("are refused with the name of the option and never its value, on create and update", async () => {
    const { sub } = await domain.accounts.create({ email: "ok@example.com" });
    for (const [option, values] of Object.entries(wrong)) {
      for (const value of values) {
        const message = await codeOf(domain.accounts.create({ email: "x@y", [option]: value }));
        expect(message).toMatch(new RegExp(`^TypeError account\\.${option}: (?:must|is required)`));
        if (option === "password" || value === undefined) continue;
        expect(await codeOf(domain.accounts.update(sub, { [option]: value }))).toContain(
          `account.${option}: must`,
        );
      }
    }
    expect(await codeOf(domain.accounts.create({ email: "Secret Value" }))).not.toContain("Secret");
    expect((await domain.accounts.list()).items).toHaveLength(1);
  });

  it("take a date of birth from 1850 until today, on every call [D-NAME-6]", async () => {
    const now = domain.clock.now();
    const [today, tomorrow] = [now, now + 86_400_000].map((at) => new Date(at).toISOString().slice(0, 10));
    const { accounts } = domain;
    for (const date_of_birth of ["1850-01-01", today]) {
      const { sub } = await accounts.import({ email: "born@example.com", date_of_birth });
      expect(await accounts.update(sub, { date_of_birth })).toMatchObject({ date_of_birth });
      await accounts.delete(sub);
    }
    const { sub } = await accounts.create({ email: "ok@example.com" });
    for (const date_of_birth of ["1849-12-31", tomorrow]) {
      const account = { email: "born@example.com", date_of_birth };
      for (const refused of [accounts.create(account), accounts.import(account)])
        expect(await codeOf(refused)).toMatch(/^TypeError account\.date_of_birth: must not be /);
      expect(await codeOf(accounts.update(sub, { date_of_birth }))).toMatch(
        /^TypeError account\.date_of_birth: must not be /,
      );
    }
  });

  it("keep names without white space at both ends [D-NAME-5]", async () => {
    const account = { email: "x@example.com", name: " Ada\u3000", surname: "\tLovelace " };
    expect(await domain.accounts.create(account)).toMatchObject({ name: "Ada", surname: "Lovelace" });
  });

  it("take names and texts in all scripts", async () => {
    const account = await domain.accounts.create({
      email: "josé.ñandú+tag@пример.рф",
      username: "Łukasz Ż 😀",
      name: "مُحَمَّد",
      surname: "O’Neill-Șerban \u200d",
      date_of_birth: "2024-02-29",
      gender: "x".repeat(256),
    });
    expect((await domain.accounts.findByLogin("łUKASZ ż 😀"))?.sub).toBe(account.sub);
  });

  it.each(["pl", "en-GB", "zh-Hant-TW", "de-CH-1901", "pl-x-own"])("take the language %s", async (locale) => {
    expect((await domain.accounts.create({ email: "a@b", locale })).locale).toBe(locale);
  });

  it.each(["", "p", "pl_PL", "en-", "*", "pl en", "PL;q=1", "__proto__", "x".repeat(36), "<b>", "pl\0"])(
    "refuse the language %j",
    async (locale) => {
      expect(await codeOf(domain.accounts.create({ email: "a@b", locale }))).toBe(
        "TypeError account.locale: must be a language tag, such as pl or en-GB",
      );
    },
  );

  it("are refused with unknown keys, hostile shapes and __proto__", async () => {
    expect(await codeOf(domain.accounts.create({ email: "a@b", usrname: "a" } as never))).toBe(
      "TypeError account: unknown key usrname; did you mean username?",
    );
    const hidden = await codeOf(domain.accounts.create({ email: "a@b", "my secret": 1 } as never));
    expect(hidden).toBe("TypeError account: unknown key");
    const polluted = JSON.parse('{"email":"a@b","__proto__":{"username":"x"}}') as { email: string };
    expect(await codeOf(domain.accounts.create(polluted))).toContain("unknown key __proto__");
    for (const shape of [undefined, null, "a@b", 5, ["a@b"], () => {}]) {
      expect(await codeOf(domain.accounts.create(shape as never))).toMatch(
        /^TypeError account(?:: must be an object|\.email: is required)/,
      );
    }
    for (const call of [
      () => domain.accounts.find(undefined as never),
      () => domain.accounts.delete({} as never),
      () => domain.accounts.update(5 as never, {}),
      () => domain.accounts.findByLogin(["a"] as never),
      () => domain.accounts.verifyPassword("x", 5 as never),
    ]) {
      expect(await codeOf(call())).toMatch(/^TypeError (?:sub|usernameOrEmail|password): must be a string/);
    }
  });

  it("are refused with all problems at once", async () => {
    const message = await codeOf(domain.accounts.create({ email: "x", username: "@", date_of_birth: "y" }));
    for (const option of ["email", "username", "date_of_birth"])
      expect(message).toContain(`account.${option}: `);
  });
});
