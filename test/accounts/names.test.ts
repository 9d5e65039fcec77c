import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import {
  canonicalEmail,
  chosenUsernameProblem,
  emailProblem,
  enteredEmailProblem,
  normalName,
  personNameProblem,
  readName,
  shownEmail,
} from "../../accounts/names.ts";
import { rounds } from "../rounds.ts";
import { defaults } from "../../config/schema.ts";

const { reservedUsernames } = defaults.interactions;
const problem = (username: string): string | undefined => chosenUsernameProblem(username, reservedUsernames);

describe("a username that a person chooses", () => {
  it.each([
    "ada",
    "Łucja.Żółć-1_x",
    "Zoë",
    "михаил_7",
    "Ελένη",
    "山田たろう",
    "コーヒー",
    "김철수",
    "مريم٣",
    "x2",
    "administrator1",
    "deadbeef",
  ])("may be %s [D-NAME-7]", (username) => {
    expect(problem(username)).toBeUndefined();
    expect(problem(username.normalize("NFD"))).toBeUndefined();
  });

  it.each([
    ["a Cyrillic a", "\u0430dmin"],
    ["a Greek o", "r\u03bf\u03bft"],
    ["a Cherokee letter", "\u13a0da"],
    ["an Armenian letter", "ad\u0561"],
    ["Latin beside Han", "ada山"],
    ["digits of another script", "ada٣"],
    ["a mark that no script has", "ada\u0338"],
    ["a mathematical letter", "\u{1d41a}da"],
    ["a full-width digit", "ada\uff11"],
    ["a script of inscriptions", "\u{103a0}\u{103a1}"],
    ["a picture", "ada\u{1f451}"],
    ["a space", "ada lovelace"],
    ["a slash", "ada/../root"],
    ["markup", "<b>ada</b>"],
    ["an address", "ada@example.com"],
    ["a full-width @", "ada\uff20example"],
    ["a joiner", "ad\u200da"],
    ["only digits", "12345"],
    ["only digits of another script", "٣٤"],
    ["only full-width digits", "\uff11\uff12"],
    ["no letter", "1.2-3_4"],
    ["only dots", ".."],
    ["a UUID", "0190b8e2-7c4d-7abc-8def-0123456789ab"],
    ["a UUID in capitals", "0190B8E2-7C4D-7ABC-8DEF-0123456789AB"],
    ["a UUID without hyphens", "0190b8e27c4d7abc8def0123456789ab"],
    ["a full-width UUID", "\uff10190b8e2-7c4d-7abc-8def-0123456789ab"],
    ["too many characters", "x".repeat(65)],
  ])("has not %s [D-NAME-7]", (_what, username) => {
    expect(problem(username)).toBe("invalid");
  });

  it("is never a reserved one, however it is written [D-NAME-7]", () => {
    for (const username of ["admin", "Root", "SUPPORT", "\uff41\uff44\uff4d\uff49\uff4e", "No-Reply"])
      expect([username, problem(username)]).toEqual([username, "reserved"]);
    expect(chosenUsernameProblem("admin", [])).toBeUndefined();
    expect(chosenUsernameProblem("straße", ["STRASSE", "Straße"])).toBe("reserved");
  });
});

describe("a name as typed", () => {
  it.each([
    [" ada\t", "ada"],
    ["\u3000ADA\u00a0\ufeff\u0085", "ada"],
    ["\u00a0\uff21\uff44\uff41\u2028", "ada"],
    ["ada lovelace ", "ada lovelace"],
    [" Ada@B\u00dcCHER.example\n", "ada@xn--bcher-kva.example"],
    ["ada@bu\u0308cher\u3002example", "ada@xn--bcher-kva.example"],
    // A domain that fails stays as it is, and more than one @ is no address.
    ["ada@\u00fc.xn--a", "ada@\u00fc.xn--a"],
    ["ada@\u00fc%2eexample", "ada@\u00fc%2eexample"],
    ["a@b@\u00fc.example", "a@b@\u00fc.example"],
    ["", ""],
    [" \ufeff ", ""],
  ])("is read from %j [D-NAME-1]", (typed, name) => {
    expect(readName(typed)).toBe(name);
  });

  it("read twice is the same, for every character, in `test:all` also for those without a meaning [D-NAME-1]", () => {
    const changed: string[] = [];
    for (let code = 0; code <= 0x10ffff; code += 1) {
      const character = String.fromCodePoint(code);
      if (rounds(1, 0) === 1 && /[\p{Cn}\p{Co}]/u.test(character)) continue;
      const name = normalName(`${character}a@b${character}.${character}`);
      if (normalName(name) !== name || name.trim() !== name) changed.push(code.toString(16));
    }
    expect(changed).toEqual([]);
  }, 30_000);

  it("read twice is the same, and blanks around it change nothing [D-NAME-1]", () => {
    const special = fc.constantFrom(
      ..."@ @ . - a \u00df \u0130 \u03a3 \u0301 \ufdfa \u3002 xn--".split(" "),
      " ",
      "\u00b4",
      "\u2003",
    );
    const text = fc.string({
      unit: fc.oneof(special, fc.string({ unit: "binary", minLength: 1, maxLength: 1 })),
    });
    const blank = fc.string({
      unit: fc.constantFrom(
        ...Array.from(" \t\n\r\v\f\u0085\u00a0\u1680\u2000\u2028\u202f\u205f\u3000\ufeff"),
      ),
    });
    fc.assert(
      fc.property(text, blank, blank, (typed, before, after) => {
        const name = normalName(typed);
        expect(normalName(name)).toBe(name);
        expect(normalName(before + typed + after)).toBe(name);
      }),
      { numRuns: rounds(1_000, 20_000) },
    );
  });

  it("has at most 254 characters once it is read, and is not read beyond 16 KiB [D-LIMIT-2, D-NAME-1]", () => {
    const long = "a".repeat(254);
    expect([readName(long), readName(`${long}a`)]).toEqual([long, undefined]);
    expect(readName(`${" ".repeat(16_384 - 3)}ada`)).toBe("ada");
    expect(readName(`${" ".repeat(16_384 - 2)}ada`)).toBeUndefined();
    expect(readName(`${"\u3000".repeat(5_460)}ada`)).toBe("ada");
    expect(readName(`${"\u3000".repeat(5_461)}ada`)).toBeUndefined();
    // NFKC turns this character into eighteen.
    expect(readName("\ufdfa".repeat(14))).toHaveLength(14 * 18);
    expect(readName("\ufdfa".repeat(15))).toBeUndefined();
    for (const hostile of [
      " a".repeat(8_000),
      `a@${"\u00fc\u4e00".repeat(3_000)}`,
      "a\u0301\u0323".repeat(3_000),
    ])
      expect(readName(hostile)).toBeUndefined();
  });
});

describe("an e-mail address", () => {
  const local = "x".repeat(64);
  it.each([
    "ada@example.com",
    "x@localhost",
    "x@127.1",
    "x@xn--fa-hia.example",
    `${local}@example.com`,
    `x@${"a".repeat(63)}.example`,
    "o'neil+news@a--b.example",
    "zo\u00eb@b\u00fccher.example",
  ])("may be %s [D-NAME-4]", (email) => {
    expect(emailProblem(email)).toBeUndefined();
    expect(emailProblem(canonicalEmail(email))).toBeUndefined();
  });

  it.each([
    ["65 characters before the @", `x${local}@example.com`],
    ["65 characters before the @ in lower case", `${"\u0130".repeat(33)}@example.com`],
    ["255 characters", `${local}@${"a".repeat(63)}.${"b".repeat(63)}.${"c".repeat(62)}`],
    ["a label of 64 characters", `x@${"a".repeat(64)}.example`],
    ["an empty label", "x@a..example"],
    ["a dot at the end", "x@example."],
    ["a hyphen at the beginning of a label", "x@-a.example"],
    ["a hyphen at the end of a label", "x@a-.example"],
    ["an underscore in its domain", "x@a_b.example"],
    ["a label that only looks like an A-label", "x@xn--a.example"],
    ["an A-label for plain letters", "x@xn--example-.com"],
    ["a direction override", "x\u202ey@example.com"],
    ["a lone surrogate", "x\ud800@example.com"],
  ])("has not %s [D-NAME-4]", (_what, email) => {
    expect(emailProblem(email)).toBeDefined();
  });

  it("that a person enters has a domain with a dot, unless the configuration lists it [D-NAME-2]", () => {
    expect(enteredEmailProblem("x@localhost")).toContain("a domain with a dot");
    expect(enteredEmailProblem("x@localhost", ["corp"])).toContain("a domain with a dot");
    expect(enteredEmailProblem("x@CORP", ["corp"])).toBeUndefined();
    expect(enteredEmailProblem("x@example.com", ["corp"])).toBeUndefined();
    expect(enteredEmailProblem("x@b@c.d")).toContain("one @");
  });

  it.each([
    ["ada@xn--bcher-kva.example", "ada@b\u00fccher.example"],
    ["ada@xn--wgv71a119e.xn--q9jyb4c", "ada@\u65e5\u672c\u8a9e.\u307f\u3093\u306a"],
    ["ada@xn--80ak6aa92e.com", "ada@\u0430\u0440\u0440\u04cf\u0435.com"],
    // A Cyrillic letter among Latin ones, a picture, and no A-labels at all.
    ["ada@xn--exmple-4nf.com", "ada@xn--exmple-4nf.com"],
    ["ada@xn--bcher-kva.xn--exmple-4nf.com", "ada@xn--bcher-kva.xn--exmple-4nf.com"],
    ["ada@xn--ls8h.example", "ada@xn--ls8h.example"],
    ["ada@xn--a.example", "ada@xn--a.example"],
    ["Ada@example.com", "Ada@example.com"],
  ])("%s is shown as %s [D-NAME-3]", (email, shown) => {
    expect(shownEmail(email)).toBe(shown);
  });
});

describe("what a person is called", () => {
  it.each([
    "Ada",
    "\u0141ucja \u017b\u00f3\u0142\u0107",
    "\u5c71\u7530 \u592a\u90ce",
    "\u0645\u0631\u064a\u0645",
    "Ada \u{1f469}\u200d\u{1f4bb}",
    "\u{1f469}".repeat(100),
    ` ${"x".repeat(100)}\u3000`,
  ])("may be %s [D-NAME-5]", (name) => {
    expect(personNameProblem(name)).toBeUndefined();
  });

  it.each([
    ["only blanks", " \u3000"],
    ["101 characters", "\u{1f469}".repeat(101)],
    ["a control character", "Ada\u0007"],
    ["a line separator", "Ada\u2028Lovelace"],
    ["a lone surrogate", "Ada\udfff"],
    ["a tag", "Ada\u{e0041}"],
    ...["\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"].map(
      (control) => [`U+${control.codePointAt(0)?.toString(16)}`, `Ada${control}ecalevoL`] as const,
    ),
  ])("has not %s [D-NAME-5]", (_what, name) => {
    expect(personNameProblem(name)).toBeDefined();
  });
});
