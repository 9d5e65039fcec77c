import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { withTimeout } from "../../core/with-timeout.ts";
import { COMMIT_TIMEOUT_MS, WORK_TIMEOUT_MS } from "../../compat/routes.ts";
import { StorageUnavailable } from "../../core/errors.ts";

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

/** Milliseconds until the response to a fault. */
const PROMISED = 5_000;

const inTime = (work: Promise<void>): Promise<void> =>
  withTimeout(WORK_TIMEOUT_MS, work, () => new StorageUnavailable("late"));

describe("the time limit of a request", () => {
  it("ends after the last possible commit and before 5 s, with a fault [D-TOKEN-5]", async () => {
    const work = Promise.withResolvers<void>();
    let outcome: unknown;
    const waiting = inTime(work.promise).catch((error: unknown) => {
      outcome = error;
    });
    await jest.advanceTimersByTimeAsync(COMMIT_TIMEOUT_MS);
    expect(outcome).toBeUndefined();
    await jest.advanceTimersByTimeAsync(PROMISED - COMMIT_TIMEOUT_MS - 1);
    expect(outcome).toMatchObject({ code: "storage_unavailable" });
    await waiting;
    // The late result of the work is ignored.
    work.reject(new Error("too late"));
    await jest.runAllTimersAsync();
  });

  it("applies to each request separately", async () => {
    const never = new Promise<void>(() => undefined);
    const expired: string[] = [];
    const wait = async (name: string): Promise<void> => {
      await inTime(never).catch(() => expired.push(name));
    };
    const first = wait("first");
    await jest.advanceTimersByTimeAsync(2_000);
    const second = wait("second");
    await jest.advanceTimersByTimeAsync(PROMISED - 2_000);
    expect(expired).toEqual(["first"]);
    await jest.advanceTimersByTimeAsync(2_000);
    expect(expired).toEqual(["first", "second"]);
    await Promise.all([first, second]);
  });

  it("leaves no timer after the work succeeds or fails", async () => {
    await inTime(Promise.resolve());
    await expect(inTime(Promise.reject(new TypeError("its own")))).rejects.toThrow("its own");
    expect(jest.getTimerCount()).toBe(0);
  });
});
