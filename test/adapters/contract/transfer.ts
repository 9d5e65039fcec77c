/** What copying asks of a backend: all that it keeps comes out, and serves as before where it was put in. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Storage } from "../../../adapters/storage.ts";
import { PARTS, type StorageTransfer, UNFINISHED_COPY } from "../../../adapters/transfer.ts";
import { attempt, heads, OTHER, SPAN, TERMS } from "../../../lib/testing/contract/deliveries.ts";
import {
  account,
  change,
  commit,
  creation,
  delivery,
  hostileKeys,
  ManualClock,
  type Stage,
  START,
} from "../../../lib/testing/contract/stage.ts";
import { copyAll, fill, readAll, readParts, seen } from "./transfer-samples.ts";

/** One place where a backend keeps things: any number of connections to it. */
export interface Place {
  /** A storage with all parts that this backend has not from another. */
  open(clock: ManualClock): Promise<Storage>;
  openTransfer(clock: ManualClock): Promise<StorageTransfer>;
}

export interface TransferBackend {
  /** A new place with nothing in it. */
  place(): Promise<Place>;
}

function describeReading(backend: TransferBackend): void {
  // Filled in before each case; the cases read it when they run.
  const stage = {} as Stage;
  let source: StorageTransfer;
  const transfer = (): StorageTransfer => source;

  beforeEach(async () => {
    stage.clock = new ManualClock();
    const place = await backend.place();
    stage.storage = await place.open(stage.clock);
    source = await place.openTransfer(stage.clock);
  });
  afterEach(async () => {
    await source.close();
    await stage.storage.close();
  });

  it("hands out nothing of an empty storage", async () => {
    const parts = await readParts(transfer().parts);
    for (const name of PARTS) expect([name, parts[name]]).toEqual([name, []]);
  });

  it("hands out the same records whatever the size of the pages is", async () => {
    await fill(stage);
    const all = await readParts(transfer().parts);
    await expect(readParts(transfer().parts, 1)).resolves.toEqual(all);
    await expect(readParts(transfer().parts, 2)).resolves.toEqual(all);
    for (const name of PARTS) {
      expect(all[name].length).toBeGreaterThan(0);
      await expect(transfer().parts[name].count()).resolves.toBeGreaterThanOrEqual(all[name].length);
    }
  });

  it("hands out each record as the service has it, with its names, its place and its lease", async () => {
    await fill(stage);
    const parts = await readParts(transfer().parts);
    const accounts = await stage.storage.directory.listAccounts({ limit: 1000 });
    expect(parts.accounts.map(({ record }) => record)).toEqual(accounts);
    expect(parts.accounts[3]?.names).toEqual(["name A", "person4@example.com"]);
    expect(parts.audit.map(({ at }) => at)).toEqual(hostileKeys.map((_, index) => index + 1));
    expect(parts.counters).toEqual([{ name: "user_id", value: hostileKeys.length + 1 }]);
    expect(parts.lanes.find(({ receiver }) => receiver === "service:held")).toEqual({
      receiver: "service:held",
      sub: "ada",
      lastSequence: 2,
      lastDelivered: 0,
      fence: 1,
      lease: { owner: TERMS.owner, end: START + SPAN, claimed: "held0" },
    });
    expect(parts.deliveries.find(({ id }) => id === "failed0")).toMatchObject({
      failedAt: START,
      nextAttemptAt: START + 5000,
    });
    expect(parts.attempts).toEqual([{ ...attempt, number: 1, delivery: "failed0" }]);
    const models = parts.artifacts.map(({ model, key }) => `${model} ${key}`);
    expect(models).not.toContain("Session gone");
    expect(parts.artifacts.find(({ key }) => key === "r")).toMatchObject({
      consumedAt: START,
      replay: "answer\ud800",
      replayUntil: START + 30_000,
    });
  });

  it("keeps a mark that is no record, until it is taken away", async () => {
    await expect(transfer().readMark()).resolves.toBeUndefined();
    await transfer().writeMark("here");
    await transfer().writeMark("there\ud800");
    await expect(transfer().readMark()).resolves.toBe("there\ud800");
    await expect(stage.storage.directory.kept(UNFINISHED_COPY)).resolves.toBe("there\ud800");
    await expect(readAll(transfer().parts, "kept")).resolves.toEqual([]);
    await transfer().writeMark(undefined);
    await expect(transfer().readMark()).resolves.toBeUndefined();
    await expect(stage.storage.directory.kept(UNFINISHED_COPY)).resolves.toBeUndefined();
  });
}

/** All cases are about one copy, each about another side of it; the last two move the clock. */
function describeWriting(backend: TransferBackend): void {
  const stage = {} as Stage;
  const copy = {} as Stage;
  let source: StorageTransfer;
  let target: StorageTransfer;

  beforeAll(async () => {
    stage.clock = new ManualClock();
    copy.clock = stage.clock;
    const [from, to] = [await backend.place(), await backend.place()];
    stage.storage = await from.open(stage.clock);
    await fill(stage);
    source = await from.openTransfer(stage.clock);
    target = await to.openTransfer(stage.clock);
    await copyAll(source, target);
    copy.storage = await to.open(copy.clock);
  });
  afterAll(async () => {
    await target.close();
    await source.close();
    await copy.storage.close();
    await stage.storage.close();
  });

  it("takes in what it hands out, also when every page is written twice", async () => {
    await expect(readParts(target.parts)).resolves.toEqual(await readParts(source.parts));
    await expect(seen(copy.storage)).resolves.toEqual(await seen(stage.storage));
  });

  it("counts on: user ids, the audit's order, the order of deliveries, the places in a lane", async () => {
    const { directory, deliveries } = copy.storage;
    const user_id = await directory.nextUserId();
    expect(user_id).toBe(hostileKeys.length + 2);
    await directory.appendAudit({ at: 99, action: "later", subject: "x" });
    const [newest] = await directory.listAudit({ limit: 1 });
    expect(newest?.at).toBe(99);
    await directory.commitAccount(
      creation(account(user_id), { deliveries: [delivery("later", "ada", "service:done")] }),
    );
    await expect(deliveries.find("later")).resolves.toMatchObject({ sequence: 4 });
    const [last] = await deliveries.list({ limit: 1, first: "newest" });
    expect(last?.id).toBe("later");
  });

  it("keeps names, references and versions: they are refused as before", async () => {
    const { directory } = copy.storage;
    const known = (await directory.findAccount("sub A"))!;
    const other = (await directory.findAccount("sub a"))!;
    await expect(
      directory.commitAccount(change(known, {}, { claimNames: ["name a"] })),
    ).rejects.toMatchObject({ code: "name_taken" });
    await expect(directory.removeEntry("service", "hA")).rejects.toMatchObject({
      references: ["account:sub A"],
    });
    await expect(directory.removeEntry("group", "group")).rejects.toMatchObject({ code: "still_referenced" });
    await expect(directory.removeEntry("portal", "portal")).rejects.toMatchObject({
      code: "still_referenced",
    });
    await directory.commitAccount(change(other, { services: {} }, { releaseNames: ["name a"] }));
    await expect(directory.removeEntry("service", "ha")).resolves.toBe(true);
    await directory.commitAccount(change(known, {}, { claimNames: ["name a"] }));
  });

  it("goes on with the lanes: a lease still counts, and ends; what was delivered can't be passed", async () => {
    const { deliveries } = copy.storage;
    await expect(deliveries.claimDue("service:held", 9, OTHER)).resolves.toEqual([]);
    stage.clock.advance(SPAN);
    const [held] = await deliveries.claimDue("service:held", 9, OTHER);
    expect(held).toMatchObject({ fence: 2, delivery: { id: "held0" } });
    await deliveries.finish(held!, { kind: "delivered" });
    await expect(heads(copy, "service:held")).resolves.toMatchObject([{ id: "held1" }]);
    await expect(deliveries.redrive(["parked0"], { passable: ["PROFILE_CHANGED"] })).resolves.toEqual(
      new Map([["parked0", "redriven"]]),
    );
    await expect(deliveries.reconcile({ limit: 1000 })).resolves.toEqual({ repaired: 0 });
  });

  it("ends families, accounts and clients of artifacts as before", async () => {
    await commit(copy, { kind: "revoke", grantKey: "g" });
    await expect(copy.storage.artifacts.find("RefreshToken", "r")).resolves.toBeUndefined();
    await expect(copy.storage.artifacts.removeByAccount({ accountId: "a" })).resolves.toBe(1);
    await expect(copy.storage.artifacts.removeByClient("A")).resolves.toBe(1);
    await expect(
      commit(copy, { kind: "consume", model: "AuthorizationCode", key: "c", at: START }),
    ).rejects.toMatchObject({ code: "condition_failed" });
    stage.clock.advance(60_000);
    await expect(readAll(target.parts, "artifacts")).resolves.toEqual([]);
  });
}

/** The shared suite of copying. */
export function describeTransfer(name: string, backend: TransferBackend): void {
  describe(`copying from and into ${name}`, () => {
    describe("reading", () => describeReading(backend));
    describe("writing", () => describeWriting(backend));
  });
}
