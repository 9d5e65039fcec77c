import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "@jest/globals";
import { createUntil } from "../../lib/until.ts";

const HOUR = 3_600_000;
const until = createUntil(() => new Error("too late"));
const never = new Promise<never>(() => undefined);

/** The end of a piece of work, as text. */
function outcome(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: unknown) => String(error));
}

describe("work with a deadline", () => {
  it("is waited for, whether it succeeds or fails", async () => {
    const end = performance.now() + HOUR;
    expect(await until(end, Promise.resolve("done"))).toBe("done");
    expect(await outcome(until(end, Promise.reject(new Error("its own"))))).toBe("Error: its own");
  });

  it("is given up at the deadline, each piece at its own", async () => {
    const now = performance.now();
    const long = until(now + HOUR, Promise.resolve("in time"));
    const ends = [now + 30, now + 10, now + 20].map((end) => outcome(until(end, never)));
    expect(await Promise.all(ends)).toEqual(Array<string>(3).fill("Error: too late"));
    expect(await long).toBe("in time");
  });

  it.each([
    ["that never ends", () => never],
    ["that is done", () => Promise.resolve("done")],
    ["that has failed", () => Promise.reject(new Error("its own"))],
  ])("is given up at once when the deadline has passed: work %s", async (_what, work) => {
    for (const end of [performance.now(), performance.now() - 1, 0, -HOUR, -Infinity]) {
      expect([end, await outcome(until(end, work()))]).toEqual([end, "Error: too late"]);
    }
    // Deadlines that are still to come are kept all the same.
    expect(await outcome(until(performance.now() + 5, never))).toBe("Error: too late");
    expect(await until(performance.now() + HOUR, Promise.resolve("done"))).toBe("done");
  });

  it("prints nothing when deadlines pass unseen, because the process was busy or was told of them too late", async () => {
    const script = `
      import { createUntil } from ${JSON.stringify(new URL("../../lib/until.ts", import.meta.url).href)};
      const until = createUntil(() => new Error("too late"));
      const awake = setInterval(() => undefined, 1000);
      const never = new Promise(() => undefined);
      const given = [until(performance.now() - 5, never), until(performance.now() - 5, Promise.reject(new Error()))];
      for (let count = 0; count < 50; count += 1) given.push(until(performance.now() + 1 + count / 50, never));
      const busy = performance.now() + 100;
      while (performance.now() < busy);
      const ends = await Promise.allSettled(given);
      clearInterval(awake);
      console.log(new Set(ends.map(({ reason }) => reason.message)).size, ends.length);
    `;
    const args = ["--disable-warning=ExperimentalWarning", "--input-type=module", "--eval", script];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args);
    expect([stdout, stderr]).toEqual(["1 52\n", ""]);
  });
});
