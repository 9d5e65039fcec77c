import { describe, expect, it } from "@jest/globals";
import { defaults } from "../../config/defaults.ts";
import { chosenUsernameProblem } from "../../accounts/chosen-usernames.ts";

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
  ])("may be %s", (username) => {
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
  ])("has not %s", (_what, username) => {
    expect(problem(username)).toBe("invalid");
  });

  it("is never a reserved one, however it is written", () => {
    for (const username of ["admin", "Root", "SUPPORT", "\uff41\uff44\uff4d\uff49\uff4e", "No-Reply"])
      expect([username, problem(username)]).toEqual([username, "reserved"]);
    expect(chosenUsernameProblem("admin", [])).toBeUndefined();
    expect(chosenUsernameProblem("straße", ["STRASSE", "Straße"])).toBe("reserved");
  });
});
