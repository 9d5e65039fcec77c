import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "@jest/globals";
import { openSqlite } from "../../adapters/sqlite/record-store.ts";
import { describeStorage, type StorageBackend, type TestRunner } from "../../testing/index.ts";

/** A case that was passed to a runner. */
interface Described {
  readonly title: string;
  readonly skipped: boolean;
  readonly body: () => void | Promise<void>;
}

/** Describes the suite to a runner that only records the cases. */
function describedFor(differences: Readonly<Record<string, string>>): Described[] {
  const cases: Described[] = [];
  const take = (skipped: boolean) => (title: string, body: Described["body"]) =>
    void cases.push({ title, skipped, body });
  const runner: TestRunner = {
    describe: (_title, body) => body(),
    it: Object.assign(take(false), { skip: take(true) }),
    beforeEach: () => undefined,
    afterEach: () => undefined,
    expect,
  };
  const backend: StorageBackend = {
    open: (clock) => openSqlite({ path: ":memory:", clock }),
    differences,
  };
  describeStorage("a store", backend, runner);
  return cases;
}

const skippedOf = (cases: readonly Described[]): string[] =>
  cases.filter(({ skipped }) => skipped).map(({ title }) => title);

describe("the contract suite", () => {
  it("skips no case by default", () => {
    expect(skippedOf(describedFor({}))).toEqual([]);
  });

  it("skips the cases that a backend does not support, and says why", () => {
    const ofAll = describedFor({});
    const cases = describedFor({
      "records > are gone from the millisecond on in which they expire, swept or not": "it has seconds",
      "from opening to closing > finishes what was begun before it is closed": "nobody is there",
    });
    expect(skippedOf(cases)).toEqual([
      "are gone from the millisecond on in which they expire, swept or not (left out: it has seconds)",
      "finishes what was begun before it is closed (left out: nobody is there)",
    ]);
    expect(cases).toHaveLength(ofAll.length);
    expect(cases.at(-1)?.body).not.toThrow();
  });

  it("fails if the skipped case does not exist", () => {
    const cases = describedFor({ "records > keep nothing at all": "it was renamed" });
    expect(skippedOf(cases)).toEqual([]);
    expect(cases.at(-1)?.body).toThrow("records > keep nothing at all");
  });

  it("runs with a runner that is not Jest", async () => {
    const file = join(import.meta.dirname, "contract-with-node.ts");
    const { stdout } = await promisify(execFile)(process.execPath, ["--test", "--test-reporter=tap", file], {
      maxBuffer: 2 ** 26,
    });
    const count = (what: string): number => Number(new RegExp(`^# ${what} (\\d+)$`, "m").exec(stdout)?.[1]);
    const wanted = describedFor({}).length;
    expect({ pass: count("pass"), fail: count("fail"), skipped: count("skipped") }).toEqual({
      pass: wanted - 1,
      fail: 0,
      skipped: 1,
    });
    expect(stdout).toContain("(left out: to see a case left out)");
  });
});
