/** Servers that stop, hang and lose responses: every backend knows the outcome of a commit and recovers by itself. */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../adapters/record-store.ts";
import type { Commit, Expectation, Ref } from "../../adapters/record-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { find, outcomes, ref, thing } from "../../testing/storage/stage.ts";
import { rounds } from "../rounds.ts";
import { Wire } from "../servers/wire.ts";
import { type Server, SERVERS, through } from "./backends.ts";
import { openAt } from "./open-at.ts";
import { closing } from "../closing.ts";

const clock = createSystemClock();
const RECOVERY_TIMEOUT_MS = 30_000;
/** Milliseconds within which every call ends. */
const ANSWERED = 8_000;
/** How often connections break. */
const CUTS = rounds(6, 20);
/** What no error may repeat. */
const SECRET = "a-secret-that-is-nowhere";

let server: Server;
let wire: Wire;
let opened: RecordStore;

const commit = (wait: number, change: Omit<Commit, "id" | "deadline">): Promise<void> =>
  opened.commit({ id: randomUUID(), deadline: clock.now() + wait, ...change });
const having = (key: string, version: string): { readonly expect: readonly Expectation[] } => ({
  expect: [{ ref: ref(key), version }],
});

/** A call of each kind. */
function calls(store: RecordStore): (() => Promise<unknown>)[] {
  const query = { kind: "thing", index: "all", at: SECRET, limit: 9 };
  const index = [{ name: "all", at: SECRET, order: 1 }];
  const put = [thing(SECRET, { value: { SECRET }, index })];
  return [
    () => store.ping(),
    () => store.get([ref(SECRET)]),
    () => store.list([query]),
    () => store.scan("thing", undefined, 9),
    () => store.count([query]),
    () => commit(4_500, { put }),
    () => commit(4_500, { put: [thing(`${SECRET}-relaxed`)], relaxed: true }),
    () => commit(4_500, { ...having("none", "present"), put }),
    () => store.next(SECRET),
    () => store.sweep(9, clock.now()),
  ];
}

/** Repeats all calls until they succeed. */
async function untilHealed(): Promise<void> {
  const end = performance.now() + RECOVERY_TIMEOUT_MS;
  for (;;) {
    const codes = await outcomes(calls(opened).map((call) => call()));
    const wrong = codes.filter((code) => code !== "done" && code !== "condition_failed");
    if (wrong.length === 0) return;
    expect(new Set(wrong)).toEqual(new Set(["storage_unavailable"]));
    if (performance.now() > end) throw new Error(`not healed: ${codes.join(", ")}`);
    await pause(50);
  }
}

async function expectRefused(): Promise<void> {
  const begin = performance.now();
  const results = await Promise.allSettled(calls(opened).map((call) => call()));
  expect(performance.now() - begin).toBeLessThan(ANSWERED);
  for (const [index, result] of results.entries()) {
    expect([index, result]).toMatchObject([index, { reason: { code: "storage_unavailable" } }]);
    const { reason } = result as PromiseRejectedResult;
    const all = `${JSON.stringify(reason)} ${(reason as Error).stack} ${String((reason as Error).cause)}`;
    expect(all).not.toContain(SECRET);
  }
}

/** Commits as soon as the server accepts it, once. */
async function commitOnce(change: Omit<Commit, "id" | "deadline">): Promise<void> {
  for (;;) {
    const [code] = await outcomes([commit(4_500, change)]);
    if (code === "done") return;
    expect(code).toBe("storage_unavailable");
  }
}

/** Two records of the same commit. */
const both = (keys: readonly string[]): Ref[] => keys.flatMap((key) => [ref(key), ref(`${key}-too`)]);

describe.each(SERVERS)("a store in $name", ({ start }) => {
  describe("whose server fails", () => {
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server.close());
    beforeEach(async () => {
      const address = await server.newAddress();
      wire = closing(await Wire.to(Number(new URL(address).port)));
      opened = closing(await openAt(through(wire.port, address), clock));
      await untilHealed();
    });
    afterEach(() => {
      server.resume();
    });

    it("refuses every call while the server is down, and has everything acknowledged when it is back", async () => {
      await commit(4_500, { put: [thing("before")] });
      await server.kill();
      await expectRefused();
      await expectRefused();
      await server.start();
      await untilHealed();
      expect(await find(opened, "before")).toBeDefined();
    });

    it("refuses every call while the server hangs, and recovers when it continues", async () => {
      server.pause();
      await expectRefused();
      server.resume();
      await untilHealed();
    });

    it.each([500, 3_500])(
      "has not written what it refused at the deadline of %i ms, and a retry succeeds",
      async (wait) => {
        await commit(4_500, { put: [thing("code"), thing("other")] });
        const version = (await find(opened, "code"))?.version ?? "";
        const exchange = { ...having("code", version), put: [thing("token")], remove: [ref("code")] };
        const change = { put: [thing("other", { value: { changed: true } })], relaxed: true };
        server.pause();
        const refused = await outcomes([commit(wait, exchange), commit(wait, change)]);
        server.resume();
        expect(refused).toEqual(["storage_unavailable", "storage_unavailable"]);
        await untilHealed();
        // By now the server has processed what was in transit.
        await pause(300);
        const [code, token, other] = await opened.get(["code", "token", "other"].map((key) => ref(key)));
        expect([code?.version, token, other?.value]).toEqual([version, undefined, { key: "other" }]);
        await commitOnce(exchange);
        expect(await find(opened, "token")).toBeDefined();
      },
    );

    it.each([300, 3_000])(
      "writes once what waits for a server that sleeps for %i ms, whether the connection was given up or not",
      async (sleep) => {
        await commit(4_500, { put: [thing("code")] });
        const version = (await find(opened, "code"))?.version ?? "";
        const exchange = { ...having("code", version), put: [thing("token")], remove: [ref("code")] };
        server.pause();
        const written = commit(30_000, exchange);
        await pause(sleep);
        server.resume();
        await written;
        expect(await find(opened, "token")).toBeDefined();
        await untilHealed();
        await expect(commit(4_500, exchange)).rejects.toMatchObject({ code: "condition_failed" });
      },
    );

    it("knows the outcome of a commit, whichever response is lost", async () => {
      for (let answer = 1; answer <= 8; answer += 1) {
        await commit(4_500, { put: [thing("code"), thing("parent")] });
        const version = (await find(opened, "code"))?.version ?? "";
        const child = thing(`child-${answer}`, { parent: ref("parent") });
        const exchange = { ...having("code", version), put: [child], remove: [ref("code")] };
        const lost = wire.loseAnswer(answer);
        expect([answer, ...(await outcomes([commit(4_500, exchange)]))]).toEqual([answer, "done"]);
        if (!wire.loseNothing()) await lost;
        await untilHealed();
        void wire.loseAnswer(answer);
        expect([answer, ...(await outcomes([commit(4_500, exchange)]))]).toEqual([
          answer,
          "condition_failed",
        ]);
        wire.loseNothing();
        await untilHealed();
        expect(await find(opened, `child-${answer}`)).toBeDefined();
      }
    });

    it("hands out no number of a counter twice, whichever response is lost", async () => {
      const numbers: number[] = [];
      for (let answer = 1; numbers.length < 20; answer = (answer % 4) + 1) {
        void wire.loseAnswer(answer);
        const results = await Promise.allSettled(Array.from({ length: 4 }, () => opened.next("people")));
        wire.loseNothing();
        numbers.push(...results.flatMap((each) => (each.status === "fulfilled" ? each.value : [])));
        await untilHealed();
      }
      expect(new Set(numbers).size).toBe(numbers.length);
    });

    it("loses no acknowledged commit and writes no refused one, however often connections break", async () => {
      const acknowledged: string[] = [];
      const refused: string[] = [];
      const stop = new AbortController();
      const writers = Array.from({ length: 8 }, async (_, writer) => {
        for (let number = 0; !stop.signal.aborted; number += 1) {
          const key = `${writer}-${number}`;
          // Two records in one commit: neither may be stored alone.
          const [code] = await outcomes([commit(4_500, { put: [thing(key), thing(`${key}-too`)] })]);
          (code === "done" ? acknowledged : refused).push(key);
          if (code !== "done") await pause(5);
        }
      });
      for (let round = 0; round < CUTS; round += 1) {
        const before = acknowledged.length;
        while (acknowledged.length < before + 10) await pause(5);
        if (round % 2 === 0) wire.cut();
        else await wire.loseAnswer(1);
      }
      stop.abort();
      await Promise.all(writers);
      await untilHealed();
      const there = await opened.get(both(acknowledged));
      expect(there.filter((record) => record === undefined)).toEqual([]);
      expect((await opened.get(both(refused))).filter((record) => record !== undefined)).toEqual([]);
    });

    it("closes while the server does not respond", async () => {
      server.pause();
      const asked = outcomes(calls(opened).map((call) => call()));
      await pause(20);
      const closed = opened.close();
      await expect(opened.get([ref("a")])).rejects.toMatchObject({ code: "storage_unavailable" });
      await closed;
      expect(new Set(await asked)).toEqual(new Set(["storage_unavailable"]));
    });
  });
});
