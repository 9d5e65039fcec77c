import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { StorageUnavailable } from "../../lib/errors.ts";
import { createWithinTime } from "../../compat/within-time.ts";

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

/** As the routes have it. */
const PATIENCE = 4_800;
/** Milliseconds within which a fault is answered. */
const PROMISED = 5_000;
/** Milliseconds until which a commit may begin. */
const DEADLINE = 4_500;

describe("the time that a request has", () => {
  let withinTime: ReturnType<typeof createWithinTime>;
  beforeEach(() => {
    withinTime = createWithinTime(PATIENCE, () => new StorageUnavailable("late"));
  });

  it("ends after the last commit may have begun and before 5 s are over, as a fault [D-TOKEN-5]", async () => {
    const work = Promise.withResolvers<void>();
    let outcome: unknown;
    const waiting = withinTime(work.promise).catch((error: unknown) => {
      outcome = error;
    });
    await jest.advanceTimersByTimeAsync(DEADLINE);
    expect(outcome).toBeUndefined();
    await jest.advanceTimersByTimeAsync(PROMISED - DEADLINE - 1);
    expect(outcome).toMatchObject({ code: "storage_unavailable" });
    await waiting;
    // What comes of the work later nobody hears.
    work.reject(new Error("too late"));
    await jest.runAllTimersAsync();
  });

  it("is each request's own", async () => {
    const never = new Promise<void>(() => undefined);
    const given: string[] = [];
    const wait = async (name: string): Promise<void> => {
      await withinTime(never).catch(() => given.push(name));
    };
    const first = wait("first");
    await jest.advanceTimersByTimeAsync(2_000);
    const second = wait("second");
    await jest.advanceTimersByTimeAsync(PROMISED - 2_000);
    expect(given).toEqual(["first"]);
    await jest.advanceTimersByTimeAsync(2_000);
    expect(given).toEqual(["first", "second"]);
    await Promise.all([first, second]);
  });

  it("is not watched when the work is done or has failed", async () => {
    await withinTime(Promise.resolve());
    await expect(withinTime(Promise.reject(new TypeError("its own")))).rejects.toThrow("its own");
    await jest.advanceTimersByTimeAsync(2 * PROMISED);
    expect(jest.getTimerCount()).toBe(0);
  });
});
