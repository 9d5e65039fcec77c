import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { type AttemptResult, readRetryAfter } from "../../notifier/sending/deliver.ts";
import {
  afterFailure,
  afterPause,
  afterResume,
  afterSuccess,
  type ReceiverState,
  untouchedReceiver,
} from "../../records/deliveries/receiver-state.ts";
import { nextDelay, verdictOf } from "../../notifier/retry-schedule.ts";
import { reservedSlots, shareSlots } from "../../notifier/poller.ts";
import { defaults } from "../../config/schema.ts";

const { retryDelays, breaker } = defaults.notifications;
const middle = (): number => 0.5;

const at = (random: number): number | undefined =>
  nextDelay([100], { failures: 1, retryAfter: undefined }, () => random);

/** A receiver after so many failures. */
const failing = (times: number, from: ReceiverState = untouchedReceiver, now = 0, probe = false) => {
  let state = from;
  for (let time = 0; time < times; time += 1)
    state = afterFailure(state, breaker, { now, probe, error: "HTTP 500" });
  return state;
};

const answered = (status: number, more: object = {}) => ({ kind: "answered", status, answer: "", ...more });

describe("the retry schedule", () => {
  it("is 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h: ten attempts over 75.6 hours [D-NOTIFY-6, D-NOTIFY-14]", () => {
    const delays = Array.from({ length: 10 }, (_, index) =>
      nextDelay(retryDelays, { failures: index + 1, retryAfter: undefined }, middle),
    );
    const [second, minute, hour] = [1000, 60_000, 3_600_000];
    expect(delays).toEqual([
      5 * second,
      5 * minute,
      30 * minute,
      2 * hour,
      5 * hour,
      10 * hour,
      14 * hour,
      20 * hour,
      24 * hour,
      undefined,
    ]);
    const sum = delays.reduce<number>((all, delay) => all + (delay ?? 0), 0);
    expect((sum / hour).toFixed(1)).toBe("75.6");
  });

  it("moves each delay by up to 20 %, either way", () => {
    expect([at(0), at(0.25), at(1)]).toEqual([80_000, 90_000, 120_000]);
  });

  it("follows Retry-After between the planned delay and the larger of twice the delay and one hour [D-NOTIFY-14]", () => {
    const cases: [delay: number, retryAfter: number, expected: number][] = [
      [5, 0, 5],
      [5, 4, 5],
      [5, 60, 60],
      [5, 3600, 3600],
      [5, 3601, 3600],
      [5, 1e9, 3600],
      [7200, 60, 7200],
      [7200, 14_400, 14_400],
      [7200, 14_401, 14_400],
    ];
    for (const [delay, retryAfter, expected] of cases) {
      expect(nextDelay([delay], { failures: 1, retryAfter }, middle)).toBe(expected * 1000);
    }
  });

  it("is never sooner than planned and never later than allowed, for any Retry-After", () => {
    const numbers = fc.double({ min: 0, max: 1e7, noNaN: true });
    const asked = fc.option(numbers, { nil: undefined });
    const random = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(numbers, asked, random, (delay, retryAfter, number) => {
        const planned = delay * (0.8 + 0.4 * number);
        const next = (nextDelay([delay], { failures: 1, retryAfter }, () => number) ?? Number.NaN) / 1000;
        expect(next).toBeGreaterThanOrEqual(planned * 0.999_999);
        expect(next).toBeLessThanOrEqual(Math.max(2 * delay, 3600, planned) * 1.000_001);
      }),
    );
  });
});

describe("Retry-After", () => {
  const now = Date.parse("1994-11-06T08:49:00Z");
  it.each([
    ["0", 0],
    ["120", 120],
    [" 7 ", 7],
    ["9".repeat(400), 31_536_000],
    ["Sun, 06 Nov 1994 08:49:37 GMT", 37],
    ["Sunday, 06-Nov-94 08:49:37 GMT", 37],
    ["Sun Nov  6 08:49:37 1994", 37],
    ["Sun, 06 Nov 1994 08:48:00 GMT", 0],
    ["Sun, 06 Nov 2994 08:49:37 GMT", 31_536_000],
    ["-1", undefined],
    ["1.5", undefined],
    ["1e3", undefined],
    ["", undefined],
    ["soon", undefined],
    ["1994-11-06T08:49:37Z", undefined],
    ["Sun, 99 Nov 1994 08:49:37 GMT", undefined],
  ])("%j is %p seconds", (header, seconds) => {
    expect(readRetryAfter(header, now)).toBe(seconds);
  });
});

describe("a receiver that fails", () => {
  it("opens after 5 failures in a row, for 30 s and rising to 5 min", () => {
    const known = { failingSince: 0, lastError: "HTTP 500" };
    expect(failing(4)).toEqual({ ...untouchedReceiver, ...known, failures: 4 });
    let state = failing(5, untouchedReceiver, 1000);
    expect(state).toMatchObject({ failures: 5, circuitOpenUntil: 31_000 });
    const spans: number[] = [];
    for (let probe = 1; probe <= 6; probe += 1) {
      const now = state.circuitOpenUntil ?? 0;
      state = failing(1, state, now, true);
      spans.push(((state.circuitOpenUntil ?? 0) - now) / 1000);
    }
    expect(spans).toEqual([60, 120, 240, 300, 300, 300]);
  });

  it("stays open no longer because of attempts that were in flight when it opened", () => {
    const open = failing(5);
    expect(failing(20, open, 29_000)).toEqual({ ...open, failures: 25 });
  });

  it("counts from zero after a success, and one success makes all failed deliveries due", () => {
    expect(afterSuccess(untouchedReceiver, 5)).toBeUndefined();
    expect(afterSuccess(failing(4), 5)).toEqual(untouchedReceiver);
    expect(afterSuccess(failing(5), 5)).toEqual({ ...untouchedReceiver, releaseUntil: 5 });
    expect(afterSuccess({ ...failing(1), releaseUntil: 3 }, 5)).toMatchObject({ releaseUntil: 3 });
  });

  it("stays paused, however attempts in flight end, until it is resumed", () => {
    const failed = { now: 9, error: "HTTP 410" };
    const paused = afterPause(failing(5), { reason: "410", failed }) as ReceiverState;
    expect(paused).toMatchObject({ paused: true, reason: "410", failures: 5, failingSince: 0 });
    expect(afterPause(paused, { reason: "again" })).toBeUndefined();
    expect(failing(1, paused)).toMatchObject({ paused: true, reason: "410" });
    expect(afterSuccess(paused, 5)).toMatchObject({ paused: true, reason: "410" });
    const known = { failingSince: 0, lastError: "HTTP 410" };
    const resumed = afterResume(paused, 7);
    expect(resumed).toEqual({ ...untouchedReceiver, ...known, releaseUntil: 7 });
    expect(afterSuccess(resumed, 8)).toEqual({ ...untouchedReceiver, releaseUntil: 7 });
  });
});

describe("the result of an attempt", () => {
  const timing = { startedAt: 0, duration: 1 };
  const schedule = { delays: [5, 300], random: middle, signal: new AbortController().signal, now: 1_000 };
  const verdict = (result: object, failures = 0, signal = schedule.signal) =>
    verdictOf({ ...timing, ...result } as AttemptResult, { failures }, { ...schedule, signal });

  it("is no retry from when on the delivery is not worth sending [D-EVENT-10]", () => {
    const result = { ...timing, ...answered(500) } as AttemptResult;
    const outcomeUntil = (until: number) => verdictOf(result, { failures: 0, until }, schedule).outcome;
    expect(outcomeUntil(6_001)).toEqual({ kind: "retry", after: 5_000 });
    expect(outcomeUntil(6_000)).toEqual({ kind: "parked", reason: "too_late" });
  });

  it("is a success for any 2xx, and a failure for everything else but 410", () => {
    for (let status = 100; status < 600; status += 1) {
      const { outcome, receiver } = verdict(answered(status));
      const expected = status >= 200 && status < 300 ? "delivered" : status === 410 ? "kept" : "retry";
      expect([status, outcome.kind]).toEqual([status, expected]);
      const said = { delivered: "well", retry: "failing", kept: { paused: "it answered 410 Gone" } };
      expect(receiver).toEqual(said[expected]);
    }
  });

  it("without a response is a failure; after the last one the delivery is parked", () => {
    const failed = { kind: "failed", code: "ECONNREFUSED" };
    expect(verdict(failed, 0).outcome).toEqual({ kind: "retry", after: 5000 });
    expect(verdict(failed, 1).outcome).toEqual({ kind: "retry", after: 300_000 });
    expect(verdict(failed, 2).outcome).toEqual({ kind: "parked", reason: "attempts_used_up" });
    expect(verdict(answered(503, { retryAfter: 60 })).outcome).toEqual({ kind: "retry", after: 60_000 });
  });

  it("that the URL guard refused pauses the receiver and keeps the delivery [D-NOTIFY-22]", () => {
    expect(verdict({ kind: "refused", reason: "10.0.0.1 is private" }, 9)).toEqual({
      outcome: { kind: "kept" },
      recorded: true,
      receiver: { paused: "10.0.0.1 is private" },
    });
  });

  it("that the worker aborted is not counted [D-NOTIFY-22]", () => {
    const signal = AbortSignal.abort();
    const none = { outcome: { kind: "kept" }, recorded: false, receiver: "nothing" };
    expect(verdict({ kind: "failed", code: "aborted" }, 9, signal)).toEqual(none);
    expect(verdict({ kind: "failed", code: "ECONNRESET" }, 0, signal).outcome.kind).toBe("retry");
    expect(verdict({ kind: "failed", code: "aborted" }, 0).outcome.kind).toBe("retry");
    expect(verdict(answered(200), 0, signal).outcome.kind).toBe("delivered");
  });
});

describe("free places", () => {
  const asker = fc.record({ running: fc.nat(12), served: fc.nat(5) });
  const askers = fc
    .array(asker, { maxLength: 12 })
    .map((all) => all.map((each, index) => Object.assign(each, { receiver: `r${index}` })));

  it("are all given, to nobody more than its share, and to nobody before one that has less", () => {
    fc.assert(
      fc.property(askers, fc.nat(60), fc.integer({ min: 1, max: 10 }), (all, free, most) => {
        const shares = shareSlots(all, { free, perReceiver: most, reserved: 0 });
        const given = [...shares.values()].reduce((sum, each) => sum + each, 0);
        const wanted = all.reduce((sum, { running }) => sum + Math.max(0, most - running), 0);
        expect(given).toBe(Math.min(free, wanted));
        const after = all.map(({ receiver, running }) => running + (shares.get(receiver) ?? 0));
        for (const [index, { receiver, running }] of all.entries()) {
          if (!shares.has(receiver)) continue;
          expect(after[index]).toBeLessThanOrEqual(most);
          expect(shares.get(receiver)).toBeGreaterThan(0);
          // A receiver that got a slot is at most one above every other that could have had it.
          for (const [other, level] of after.entries()) {
            if (level < most && (all[other]?.running ?? 0) < most) {
              expect(after[index]).toBeLessThanOrEqual(Math.max(level + 1, running + 1));
            }
          }
        }
      }),
    );
  });

  it("are kept for receivers that have none: these get theirs first, and nobody a further one of those", () => {
    fc.assert(
      fc.property(
        askers,
        fc.nat(60),
        fc.integer({ min: 1, max: 10 }),
        fc.nat(20),
        (all, free, most, reserved) => {
          const shares = shareSlots(all, { free, perReceiver: most, reserved });
          const without = all.filter(({ running }) => running === 0).map(({ receiver }) => receiver);
          const first = without.filter((receiver) => shares.has(receiver)).length;
          expect(first).toBe(Math.min(without.length, free));
          const further = [...shares.values()].reduce((sum, each) => sum + each, 0) - first;
          expect(further).toBeLessThanOrEqual(Math.max(0, free - first - reserved));
        },
      ),
    );
  });

  it("are kept as far as one receiver can't have all of them", () => {
    expect(reservedSlots({ total: 50, perReceiver: 10 })).toBe(10);
    expect(reservedSlots({ total: 10, perReceiver: 9 })).toBe(1);
    expect(reservedSlots({ total: 10, perReceiver: 10 })).toBe(0);
    expect(reservedSlots({ total: 4, perReceiver: 100 })).toBe(0);
  });

  it("go to the one that has waited longest when there is one", () => {
    const asking = [3, 1, 2].map((served) => ({ receiver: `r${served}`, running: 0, served }));
    expect([...shareSlots(asking, { free: 1, perReceiver: 10, reserved: 0 })]).toEqual([["r1", 1]]);
    expect([...shareSlots(asking, { free: 2, perReceiver: 10, reserved: 0 }).keys()]).toEqual(["r1", "r2"]);
  });
});
