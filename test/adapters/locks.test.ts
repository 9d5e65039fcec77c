/** A record that somebody else has locked: a commit waits for it until its deadline, and not a moment longer. */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { Client } from "pg";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../adapters/record-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { find, ref, thing } from "../../testing/storage/stage.ts";
import { BACKENDS, type Ground } from "./backends.ts";
import { openAt } from "./open-at.ts";
import { closing } from "../closing.ts";

const clock = createSystemClock();

/** Locks the record `held`, and returns what unlocks it. */
const LOCKS: Readonly<Record<string, (address: string) => Promise<() => Promise<void>>>> = {
  async PostgreSQL(address) {
    const client = new Client({ connectionString: address });
    await client.connect();
    await client.query("BEGIN");
    await client.query("SELECT FROM sign_in_records WHERE kind = 'thing' AND key = 'held' FOR UPDATE");
    return () => client.end();
  },
  async MongoDB(address) {
    const client = new MongoClient(address);
    const records = client.db().collection<{ readonly _id: string }>("records");
    const marks = client.db().collection<{ readonly _id: string }>("record_marks");
    const session = client.startSession();
    session.startTransaction();
    await records.updateOne({ _id: "thing held" }, { $set: { by: "somebody" } }, { session });
    await marks.updateOne(
      { _id: "guard thing held" },
      { $set: { by: "somebody" } },
      { session, upsert: true },
    );
    return async () => {
      await session.abortTransaction();
      await client.close();
    };
  },
};

describe.each(BACKENDS.filter(({ name }) => name in LOCKS))("$name", ({ name, start }) => {
  describe("a record that is locked", () => {
    let ground: Ground;
    let store: RecordStore;
    let unlock: (() => Promise<void>) | undefined;

    const commit = (wait: number, change: object): Promise<void> =>
      store.commit({ id: randomUUID(), deadline: clock.now() + wait, ...change });
    const replacing = { put: [thing("held", { value: { n: 2 } }), thing("beside")] };
    const relying = { expect: [{ ref: ref("held"), version: "present" }], put: [thing("beside")] };

    beforeAll(async () => {
      ground = closing(await start());
    });
    beforeEach(async () => {
      const address = await ground.newAddress();
      store = closing(await openAt(address, clock));
      await commit(4_500, { put: [thing("held")] });
      unlock = await LOCKS[name]?.(address);
    });
    afterEach(async () => {
      await unlock?.();
    });

    it.each([
      ["replaces", replacing],
      ["relies on", relying],
    ])(
      "refuses a commit that %s it at the deadline, and writes nothing of it later",
      async (_what, change) => {
        const begin = performance.now();
        await expect(commit(500, change)).rejects.toMatchObject({ code: "storage_unavailable" });
        expect(performance.now() - begin).toBeLessThan(10_000);
        expect((await find(store, "held"))?.value).toEqual({ key: "held" });
        await unlock?.();
        unlock = undefined;
        await pause(500);
        expect(await store.get([ref("held"), ref("beside")])).toMatchObject([
          { value: { key: "held" } },
          undefined,
        ]);
      },
    );

    it("accepts both when it is unlocked in time", async () => {
      const written = commit(10_000, replacing);
      await pause(200);
      await unlock?.();
      unlock = undefined;
      await written;
      expect((await find(store, "held"))?.value).toEqual({ n: 2 });
    });
  });
});
