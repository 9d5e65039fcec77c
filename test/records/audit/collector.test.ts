import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { type AuditEvent, type CollectedEvent, SYSTEM } from "../../../records/audit/audit-event.ts";
import { type AuditCollector, createAuditCollector } from "../../../records/audit/collector.ts";
import { StorageUnavailable } from "../../../core/errors.ts";

const SIGN_IN: AuditEvent = { ...SYSTEM, action: "sign_in" };
const REFUSAL = { limit: "signIn.account", bucket: "b", seconds: 900 };

let stored: (readonly CollectedEvent[])[];
let failure: Error | undefined;
let warnings: string[];
let reports: string[];
let order: number;
let collector: AuditCollector;

beforeEach(() => {
  jest.useFakeTimers();
  [stored, failure, warnings, reports, order] = [[], undefined, [], [], 1_000_000];
  collector = createAuditCollector(
    {
      position: () => (order += 1),
      async appendCollected(events) {
        if (failure !== undefined) throw failure;
        stored.push(events);
      },
    },
    { worked: () => void reports.push("worked"), failed: () => void reports.push("failed") },
    (text) => void warnings.push(text),
  );
});
afterEach(() => {
  jest.useRealTimers();
});

const counts = (): number[][] => stored.map((events) => events.map(({ count }) => count));

describe("what is collected", () => {
  it("is stored within a second, in the order of the events [D-AUDIT-3]", async () => {
    collector.note({ ...SIGN_IN, subject: "a" });
    await jest.advanceTimersByTimeAsync(900);
    collector.note({ ...SIGN_IN, subject: "b" });
    expect(stored).toEqual([]);
    await jest.advanceTimersByTimeAsync(100);
    expect(stored.map((events) => events.map(({ event }) => event.subject))).toEqual([["a", "b"]]);
    expect(stored[0]?.map((one) => one.order)).toEqual([1_000_001, 1_000_002]);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(stored).toHaveLength(1);
  });

  it("is 300 records an hour for one account, and then one with a count for each action [D-OWN-7]", async () => {
    const event = { ...SIGN_IN, subject: "a" };
    for (let round = 0; round < 700; round += 1) {
      collector.note(event);
      if (round % 2 === 0) collector.note({ ...event, action: "grant.created" });
    }
    collector.note({ ...SIGN_IN, subject: "b" });
    await collector.flush();
    const all = stored.flat();
    expect(all.filter(({ refusal }) => refusal === undefined)).toHaveLength(301);
    expect(all.filter(({ refusal }) => refusal !== undefined)).toMatchObject([
      { event: { action: "sign_in", subject: "a", detail: { limit: "audit" } }, count: 500 },
      { event: { action: "grant.created", subject: "a", detail: { limit: "audit" } }, count: 250 },
    ]);
    order += 3_600_000_000;
    collector.note(event);
    await collector.flush();
    expect(stored.flat().at(-1)).toMatchObject({ event, count: 1 });
  });

  it("counts the refusals of one bucket in one window as one record", async () => {
    for (let times = 0; times < 5; times += 1) collector.noteRefusal(SIGN_IN, REFUSAL);
    collector.noteRefusal(SIGN_IN, { ...REFUSAL, bucket: "c" });
    order += 900_000_000;
    collector.noteRefusal(SIGN_IN, REFUSAL);
    await collector.flush();
    expect(counts()).toEqual([[5, 1, 1]]);
  });

  it("is split into several commits if there is a lot of it", async () => {
    for (let times = 0; times < 1_001; times += 1) collector.note(SIGN_IN);
    await collector.flush();
    expect(stored.map(({ length }) => length)).toEqual([500, 500, 1]);
  });

  it("is stored before the collector is closed", async () => {
    collector.note(SIGN_IN);
    await collector.close();
    expect(counts()).toEqual([[1]]);
    expect(warnings).toEqual([]);
    expect(jest.getTimerCount()).toBe(0);
  });
});

describe("while the storage is unavailable", () => {
  it("events wait, and are stored once as soon as the storage works again", async () => {
    failure = new StorageUnavailable("away");
    collector.note(SIGN_IN);
    collector.noteRefusal(SIGN_IN, REFUSAL);
    await jest.advanceTimersByTimeAsync(2_500);
    collector.noteRefusal(SIGN_IN, REFUSAL);
    failure = undefined;
    await jest.advanceTimersByTimeAsync(1_000);
    expect(counts()).toEqual([[1, 2]]);
    expect([...new Set(reports)]).toEqual(["failed", "worked"]);
    expect(warnings).toEqual([]);
  });

  it("a limited number of events waits, and a warning says how many are lost", async () => {
    failure = new StorageUnavailable("away");
    for (let times = 0; times < 10_007; times += 1) collector.note(SIGN_IN);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(warnings).toEqual(["7 audit records could not be stored and are lost"]);
    await collector.close();
    expect(warnings.slice(1)).toEqual(["10000 audit records could not be stored and are lost"]);
    expect(jest.getTimerCount()).toBe(0);
  });
});

it("events that the storage rejects do not block later ones", async () => {
  failure = new TypeError("a defect");
  collector.note(SIGN_IN);
  await collector.flush();
  failure = undefined;
  collector.note({ ...SIGN_IN, subject: "next" });
  await collector.flush();
  expect(stored.map((events) => events.map(({ event }) => event.subject))).toEqual([["next"]]);
  expect(warnings).toEqual(["1 audit records could not be stored and are lost"]);
});
