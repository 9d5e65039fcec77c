import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { findJsonFault } from "../../config/json-text.ts";
import { rounds } from "../rounds.ts";

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe("handwritten JSON", () => {
  it.each([
    ['{\n  "a": 1,\n}', 3, 1, "expected a key in double quotes"],
    ['{ "a": 1\n  "b": 2 }', 2, 3, "expected a comma or }"],
    ['{ "a" 1 }', 1, 7, "expected a colon"],
    ["{ 'a': 1 }", 1, 3, "expected a key in double quotes"],
    ['{ "a": tru }', 1, 8, "expected a value: a text in double quotes, a number, true, false, null, { or ["],
    ['["a" "b"]', 1, 6, "expected a comma or ]"],
    ['{ "a": {', 1, 9, "the text ends too early"],
    ["", 1, 1, "the text ends too early"],
    ["{}\n// the end", 2, 1, "expected the end of the text"],
    ['{ "a": { "b": 1, "\\u0062": 2 } }', 1, 18, "duplicate key"],
  ])("%j: line %i, column %i: %s", (text, line, column, what) => {
    expect(findJsonFault(text)).toEqual({ line, column, what });
  });

  it("finds an error in exactly the texts that JSON.parse refuses", () => {
    const whole = fc.json({ maxDepth: 4 });
    const broken = fc
      .tuple(whole, fc.nat(), fc.nat(3), fc.string({ maxLength: 3 }))
      .map(([text, at, length, put]) => {
        const from = text.length === 0 ? 0 : at % text.length;
        return text.slice(0, from) + put + text.slice(from + length);
      });
    const signs = fc.string({
      unit: fc.constantFrom(...Array.from('{}[]:," \\\n\t-+.eE01true"falsn\u0000\u0085é')),
    });
    fc.assert(
      fc.property(fc.oneof(whole, broken, signs), (text) => {
        const fault = findJsonFault(text);
        if (fault?.what === "duplicate key") return;
        expect(fault === undefined).toBe(parses(text));
      }),
      { numRuns: rounds(300, 3_000) },
    );
  });

  it("refuses what is nested deeper than anything handwritten, however deep", () => {
    for (const [sign, depth] of [
      ["[", 300],
      ['{"a":', 1_000_000],
    ] as const)
      expect(findJsonFault(sign.repeat(depth))).toMatchObject({ what: "nested too deeply" });
    expect(findJsonFault("[".repeat(150) + "]".repeat(150))).toBeUndefined();
  });

  it("does not quote the text", () => {
    const fault = findJsonFault('{ "client_secret": "hunter2" "x" }');
    expect(JSON.stringify(fault)).not.toMatch(/hunter2|client_secret/);
  });
});
