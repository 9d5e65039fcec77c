/** How faults in the background are logged. */
import { expect, it, describe, beforeEach } from "@jest/globals";
import { StorageUnavailable } from "../../core/errors.ts";
import { createOutages } from "../../core/outages.ts";

let now: number;
let lines: unknown[][];
let outages: ReturnType<typeof createOutages>;
beforeEach(() => {
  now = 1_800_000_000_000;
  lines = [];
  const line =
    (level: string) =>
    (what: object, text?: string): void =>
      void lines.push([level, what, text]);
  outages = createOutages({ error: line("error"), warn: line("warn") } as never, { now: () => now });
});

const BEGINS = "work in the background fails; it is tried again until it works";
const GOES_ON = "work in the background still fails";
const ENDS = "work in the background works again";

/** The new log entries: level, work, failures, text. */
function logged(): unknown[] {
  return lines.splice(0).map(([level, what, text]) => {
    const { work, failures, seconds } = what as Record<string, unknown>;
    return [level, work ?? seconds, failures, text];
  });
}

describe("an outage", () => {
  it("logs one line when it begins, one a minute, and one when it ends", () => {
    const { failed, worked } = outages("look");
    worked();
    expect(logged()).toEqual([]);
    for (let second = 0; second <= 150; second += 1) {
      failed(new StorageUnavailable("gone"));
      now += 1000;
    }
    expect(logged()).toEqual([
      ["error", "look", 1, BEGINS],
      ["error", "look", 61, GOES_ON],
      ["error", "look", 121, GOES_ON],
    ]);
    worked();
    worked();
    expect(logged()).toEqual([["warn", 151, 151, ENDS]]);
    failed(new StorageUnavailable("gone again"));
    expect(logged()).toEqual([["error", "look", 1, BEGINS]]);
  });

  it("of several tasks is one outage, which ends when all of them work", () => {
    const [look, sweep, other] = [outages("look"), outages("sweep"), outages("other")];
    look.failed(new Error("a"));
    sweep.failed(new Error("b"));
    other.worked();
    look.worked();
    expect(logged()).toEqual([["error", "look", 1, BEGINS]]);
    now += 60_000;
    sweep.failed(new Error("b"));
    expect(logged()).toEqual([["error", "sweep", 3, GOES_ON]]);
    sweep.worked();
    expect(logged()).toEqual([["warn", 60, 3, ENDS]]);
  });

  it("logs the kind and place of the error, not its message", () => {
    outages("look").failed(new StorageUnavailable("mongodb://user:hunter2@host", { reason: "ENOTFOUND" }));
    expect(JSON.stringify(lines)).toContain('"defect":{"kind":"StorageUnavailable","reason":"ENOTFOUND"}');
    expect(JSON.stringify(lines)).not.toContain("hunter2");
  });

  it("is logged even if the clock is set back", () => {
    const { failed } = outages("look");
    failed(new Error("a"));
    now -= 3_600_000;
    failed(new Error("a"));
    expect(logged().map((line) => (line as unknown[])[3])).toEqual([BEGINS, GOES_ON]);
  });
});
