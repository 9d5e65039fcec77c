import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { createTimeLimit, withTimeout } from "../../core/with-timeout.ts";
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

const limited = () => createTimeLimit(WORK_TIMEOUT_MS, () => new StorageUnavailable("late"));

describe("waiting for a server of somebody else", () => {
  it("takes no time from the request, which has all of it again afterwards [D-PROV-85]", async () => {
    const limit = limited();
    const elsewhere = Promise.withResolvers<void>();
    const work = Promise.withResolvers<string>();
    let outcome: unknown;
    const handle = async (): Promise<string> => {
      await limit.lift(() => elsewhere.promise);
      return work.promise;
    };
    const request = limit.hold(handle).then((value) => (outcome = value));
    await jest.advanceTimersByTimeAsync(2 * WORK_TIMEOUT_MS);
    elsewhere.resolve();
    await jest.advanceTimersByTimeAsync(WORK_TIMEOUT_MS - 1);
    expect(outcome).toBeUndefined();
    work.resolve("done");
    await request;
    expect([outcome, jest.getTimerCount()]).toEqual(["done", 0]);
  });

  it("is followed by the time limit of the rest, also after a failure there", async () => {
    const limit = limited();
    const never = new Promise<void>(() => undefined);
    const request = limit
      .hold(() => limit.lift(() => Promise.reject(new TypeError("there"))).catch(() => never))
      .catch((error: unknown) => error);
    await jest.advanceTimersByTimeAsync(WORK_TIMEOUT_MS);
    expect(await request).toMatchObject({ code: "storage_unavailable" });
    expect(jest.getTimerCount()).toBe(0);
  });

  it("that goes on after the answer starts no timer", async () => {
    const limit = limited();
    const elsewhere = Promise.withResolvers<void>();
    const left = limit.lift(() => elsewhere.promise);
    await limit.hold(() => Promise.resolve());
    elsewhere.resolve();
    await left;
    expect(jest.getTimerCount()).toBe(0);
  });
});
