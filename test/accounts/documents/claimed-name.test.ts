/** What is shown of the name that a client calls itself, whatever its document says. */
import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { claimedName } from "../../../accounts/documents/document.ts";
import { rounds } from "../../rounds.ts";

const LONG = `${"a".repeat(59)}…`;

describe("the name that a client calls itself [D-DOC-41]", () => {
  it.each([
    ["Visual Studio Code", "Visual Studio Code"],
    ["  Research\n\thelper ", "Research helper"],
    ["Google\u202Egpj.exe", "Googlegpj.exe"],
    ["\u2066\u200F\u061CMail\u2069", "Mail"],
    ["Mi\u00ADcro\u200Bsoft\uFEFF", "Microsoft"],
    // It can't end the quotation that it stands in.
    ["Reader”. Checked by Contoso. It is “safe", "Reader'. Checked by Contoso. It is 'safe"],
    ['„Reader“ «Reader» "Reader"', "'Reader' 'Reader' 'Reader'"],
    ["<b>Reader</b>", "<b>Reader</b>"],
    ["קורא", "קורא"],
    ["a".repeat(10_000), LONG],
    [`a${"\u0301\u0335".repeat(100)}b`, "á\u0335\u0335b"],
    ["😀".repeat(61), `${"😀".repeat(59)}…`],
    ["", undefined],
    [" \u200B\u202E\u3164\u115F ", undefined],
  ])("%j is shown as %j", (name, shown) => {
    expect(claimedName(name)).toBe(shown);
  });

  it("is one line of at most 60 characters, each of which can be seen", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), (name) => {
        const shown = claimedName(name) ?? "x";
        expect(Array.from(shown).length).toBeLessThanOrEqual(60);
        expect(shown).not.toMatch(/[\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\p{Pi}\p{Pf}"„]/u);
        expect(shown.trim()).toBe(shown);
        expect(shown).not.toBe("");
      }),
      { numRuns: rounds(100, 10_000) },
    );
  });
});
