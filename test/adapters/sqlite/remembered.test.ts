/** What is remembered of receivers and entries is never older than the file, whoever has written to it. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { type ReceiverState, untouchedReceiver } from "../../../adapters/deliveries.ts";
import { openSqlite } from "../../../adapters/sqlite/index.ts";
import type { Storage } from "../../../adapters/storage.ts";
import { claimable, claimOne, TERMS } from "../../../lib/testing/contract/deliveries.ts";
import { delivery, entry, ManualClock, type Stage, store } from "../../../lib/testing/contract/stage.ts";
import { DatabaseFiles } from "./database-files.ts";

const PAUSED: ReceiverState = { ...untouchedReceiver, paused: true, reason: "by hand" };
const HELD: ReceiverState = { ...untouchedReceiver, failures: 5, heldUntil: Number.MAX_SAFE_INTEGER };
const ONWARD = { lease: TERMS, onward: true } as const;
const RECEIVER = "service:1";

const files = new DatabaseFiles();
const clock = new ManualClock();
let one: Storage;
let other: Storage;
let stage: Stage;

beforeAll(() => files.create());
beforeEach(async () => {
  const path = files.next();
  one = await openSqlite({ path, clock });
  other = await openSqlite({ path, clock });
  stage = { storage: one, clock };
});
afterEach(async () => {
  await one.close();
  await other.close();
});
afterAll(() => files.remove());

const set = ({ deliveries }: Storage, state: ReceiverState): Promise<unknown> =>
  deliveries.changeReceiver(RECEIVER, () => state);

/** Runs in a process of its own, over a storage of its own on the file. */
async function elsewhere(work: string): Promise<void> {
  const source = `
    import { openSqlite } from ${JSON.stringify(join(import.meta.dirname, "../../../adapters/sqlite/index.ts"))};
    const { deliveries, directory, close } = await openSqlite({ path: ${JSON.stringify(files.path)}, clock: Date });
    ${work}
    await close();`;
  const run = promisify(execFile);
  await run(process.execPath, ["--input-type=module-typescript", "-e", source]);
}

describe("the state of a receiver", () => {
  it.each([
    ["paused", PAUSED],
    ["held back", HELD],
  ])(
    "that another connection says is %s stops claims, and what follows a result, at once",
    async (_, state) => {
      await store(stage, ...["a", "b", "c"].map((id) => delivery(id, id)));
      const claim = await claimOne(stage);
      await expect(one.deliveries.receiver(RECEIVER)).resolves.toEqual(untouchedReceiver);
      const { next } = await one.deliveries.finish(claim, { kind: "delivered" }, ONWARD);
      await set(other, state);
      await expect(one.deliveries.receiver(RECEIVER)).resolves.toEqual(state);
      await expect(one.deliveries.finish(next!, { kind: "delivered" }, ONWARD)).resolves.toEqual({
        recorded: true,
      });
      await expect(claimable(stage)).resolves.toEqual([]);
      await set(other, untouchedReceiver);
      await expect(claimable(stage)).resolves.toEqual(["c"]);
    },
  );

  it("that another process changes is seen by the next claim, though nothing else was read in between", async () => {
    await store(stage, delivery("a", "a"));
    await expect(one.deliveries.receiver(RECEIVER)).resolves.toEqual(untouchedReceiver);
    await elsewhere(
      `await deliveries.changeReceiver(${JSON.stringify(RECEIVER)}, () => (${JSON.stringify(PAUSED)}));`,
    );
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(one.deliveries.receiver(RECEIVER)).resolves.toEqual(PAUSED);
  });

  it("that is written together with a claim counts for the claim", async () => {
    await store(stage, delivery("a", "a"), delivery("b", "b"));
    await expect(one.deliveries.receiver(RECEIVER)).resolves.toEqual(untouchedReceiver);
    // Both of one turn, so of one transaction.
    const paused = set(one, PAUSED);
    const claims = one.deliveries.claimDue(RECEIVER, 2, TERMS);
    await paused;
    await expect(claims).resolves.toEqual([]);
    await expect(one.deliveries.receiver(RECEIVER)).resolves.toEqual(PAUSED);
  });

  it("that a failed change leaves as it was stays so", async () => {
    await expect(one.deliveries.receiver(RECEIVER)).resolves.toEqual(untouchedReceiver);
    await set(one, PAUSED);
    const failing = one.deliveries.changeReceiver(RECEIVER, () => {
      throw new TypeError("no");
    });
    await expect(failing).rejects.toThrow("no");
    await expect(one.deliveries.receiver(RECEIVER)).resolves.toEqual(PAUSED);
  });
});

describe("an entry of the directory", () => {
  it("that another connection or process has changed or removed is read as it is now", async () => {
    await one.directory.putEntry("service", entry("1"));
    const find = () => one.directory.findEntry("service", "1");
    await expect(find()).resolves.toEqual(entry("1"));
    await other.directory.putEntry("service", entry("1", { name: "Other" }));
    await expect(find()).resolves.toEqual(entry("1", { name: "Other" }));
    await elsewhere(
      `await directory.putEntry("service", { ...(${JSON.stringify(entry("1"))}), name: "Elsewhere" });`,
    );
    await expect(find()).resolves.toMatchObject({ name: "Elsewhere" });
    await elsewhere(`await directory.removeEntry("service", "1");`);
    await expect(find()).resolves.toBeUndefined();
  });

  it("that this connection has changed or removed is read as it is now", async () => {
    for (const name of ["first", "second"]) {
      await one.directory.putEntry("group", entry("g", { name }));
      await expect(one.directory.findEntry("group", "g")).resolves.toMatchObject({ name });
    }
    // Another kind with the same key is another entry.
    await expect(one.directory.findEntry("portal", "g")).resolves.toBeUndefined();
    await one.directory.removeEntry("group", "g");
    await expect(one.directory.findEntry("group", "g")).resolves.toBeUndefined();
  });

  it("is not told any more by a storage that was closed, however often it was asked for", async () => {
    await one.directory.putEntry("service", entry("1"));
    await one.directory.findEntry("service", "1");
    const closing = one.close();
    await expect(one.directory.findEntry("service", "1")).rejects.toMatchObject({
      code: "storage_unavailable",
    });
    await closing;
  });
});
