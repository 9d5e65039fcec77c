/** What the calculation of a day says, whatever the figures are. */
import { describe, expect, it } from "@jest/globals";
import {
  capacityTables,
  DEFAULT_INPUTS,
  type Inputs,
  readInputs,
  simulate,
} from "../../bench/growth/capacity.ts";
import { readFigures } from "../../bench/growth/figures.ts";

const figures = readFigures();
const day = (inputs: Partial<Inputs> = {}) => simulate({ ...DEFAULT_INPUTS, ...inputs }, figures);
const total = (inputs: Partial<Inputs>, event: "refresh" | "sweep" | "delivery"): number =>
  day(inputs).hours.reduce((sum, { rates }) => sum + rates[event] * 3_600, 0);

describe("the calculation of a day", () => {
  it("has all visits of the day, and the asked share of them in the busiest hour [D-GROW-3]", () => {
    const { accounts, visits, refreshes } = DEFAULT_INPUTS;
    for (const peak of [0.05, 0.12, 0.5]) {
      expect(total({ peak }, "refresh")).toBeCloseTo(accounts * visits * refreshes, -1);
      const busiest = Math.max(...day({ peak }).hours.map(({ rates }) => rates.refresh * 3_600));
      expect(busiest / (accounts * visits * refreshes)).toBeCloseTo(peak, 4);
    }
    expect(total({}, "sweep")).toBeGreaterThan(accounts * visits);
    expect(total({ receivers: 4 }, "delivery")).toBeCloseTo(2 * total({}, "delivery"), -1);
  });

  it("names what is used up first, and at how many accounts [D-GROW-3]", () => {
    const little = {
      accounts: 1_000_000,
      "server-cores": 1e6,
      cores: 1e6,
      reads: 1e9,
      throughput: 1e9,
      flushes: 1e9,
      disk: 1e9,
    };
    const first = (inputs: Partial<Inputs>) => day({ ...little, ...inputs }).limits[0];
    expect(first({ "server-cores": 1 })?.title).toBe("Cores of the servers");
    expect(first({ cores: 1 })?.title).toBe("Cores of PostgreSQL");
    expect(first({ throughput: 1 })).toMatchObject({ title: "Its log and the backup", hour: 5 });
    expect(first({ flushes: 1 })?.title).toBe("Commits");
    expect(first({ disk: 1 })).toMatchObject({ title: "Disk of PostgreSQL" });
    expect(first({ reads: 1, memory: 0 })?.title).toBe("Reads of its disk");
    // What fits into the memory is not read: the calculation holds at the number that it names.
    const reads = { ...little, reads: 100, memory: 1_000 };
    const { full: most = 0, title } = day(reads).limits[0] ?? {};
    expect(title).toBe("Reads of its disk");
    const there = day({ ...reads, accounts: most }).limits.find((limit) => limit.title === title);
    expect(there?.needs).toBeCloseTo(100, 3);
    const full = first({ cores: 1 })?.full ?? Number.NaN;
    const then = day({ ...little, cores: 1, accounts: full }).limits[0];
    expect(then?.needs).toBeCloseTo(then?.has ?? Number.NaN, 6);
    expect(capacityTables({ ...DEFAULT_INPUTS, disk: 1 }).first).toContain("Disk of PostgreSQL");
  });

  it("refuses numbers that make no sense [D-GROW-3]", () => {
    expect(readInputs(["--accounts", "5000", "--peak", "0.2"])).toEqual({
      ...DEFAULT_INPUTS,
      accounts: 5_000,
      peak: 0.2,
    });
    for (const wrong of [
      ["--accounts", "0"],
      ["--accounts", "many"],
      ["--accounts", ""],
      ["--visits", "1.5"],
      ["--peak", "0.01"],
      ["--peak", "0.99"],
      ["--disk=-1"],
      ["--backup-from", "24"],
      ["--backup-hours", "0"],
      ["--unknown", "1"],
    ])
      expect(() => readInputs(wrong)).toThrow();
  });
});
