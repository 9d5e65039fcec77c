import { describe, expect, it } from "@jest/globals";
import { findHeld, later, listed, missing, sentences, unknown } from "../build/traceability.ts";
import { drifted } from "../build/docs.ts";
import { readTree } from "../build/tree.ts";

const all = sentences();
const notYet = later();

describe("the sentences of the interface", () => {
  it("gives every sentence a unique id and a text", () => {
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    expect(all.filter(({ section, sentence }) => section === "" || sentence === "")).toEqual([]);
    expect(new Set(notYet).size).toBe(notYet.length);
  });

  it("finds the tags in titles of every form, and none in skipped tests, comments and other calls", () => {
    const source = `
      describe("one [AUTHZ-1]", () => {
        it('two [AUTHZ-2, ERR-1]', () => {});
        it.each([1, 2])("three %d [D-RUN-1]", () => {});
        test(\`four \${1 + 1} [ERR-2] and five [ERR-3]\`, () => {});
        it.skip("six [ERR-4]", () => {});
        it.todo("seven [ERR-4]");
        // it("eight [ERR-4]")
        expect("nine [ERR-4]").toBe("it('ten [ERR-4]')");
        it("no id: [abc] [] [ERR]", () => {});
      });`;
    expect(
      findHeld(
        new Map([
          ["test/a.test.ts", source],
          ["test/rows.ts", 'it("not a test file [ERR-4]", () => {});'],
        ]),
      ),
    ).toEqual([
      { file: "test/a.test.ts", title: "one", ids: ["AUTHZ-1"] },
      { file: "test/a.test.ts", title: "two", ids: ["AUTHZ-2", "ERR-1"] },
      { file: "test/a.test.ts", title: "three %d", ids: ["D-RUN-1"] },
      { file: "test/a.test.ts", title: "four … and five", ids: ["ERR-2", "ERR-3"] },
    ]);
  });

  it("finds the tests of the list, and refuses an entry without a test", () => {
    const files = new Map([["test/a.test.ts", 'it("one", () => {});']]);
    const entry = { file: "test/a.test.ts", title: "one", ids: ["A-1"] };
    expect(findHeld(files, [entry])).toEqual([entry]);
    expect(() => findHeld(files, [{ ...entry, title: "two" }])).toThrow("test/a.test.ts › two");
  });

  it("distinguishes sentences without a test, sentences not built yet, and unknown tags", () => {
    const rows = ["A-1", "A-2", "A-3"].map((id) => ({ id, section: "A", sentence: `says | ${id}` }));
    const held = [{ file: "test/a.test.ts", title: "a < b", ids: ["A-1", "B-9"] }];
    expect(missing(rows, held, ["A-3"]).map(({ id }) => id)).toEqual(["A-2"]);
    expect(unknown(rows, held, ["A-3", "C-1"])).toEqual([
      "test/a.test.ts: B-9",
      "test/traceability/later.json: C-1",
    ]);
  });

  it("has a sentence for every tag in the tests", () => {
    expect(unknown(all, findHeld(readTree(), listed()), notYet)).toEqual([]);
  });

  it("has a test for every built sentence", () => {
    expect(missing(all, findHeld(readTree(), listed()), notYet).map(({ id }) => id)).toEqual([]);
  });
});

describe("the generated pages", () => {
  it("agree with the code (npm run docs updates them)", async () => {
    expect(await drifted(false)).toEqual([]);
  });
});
