import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import {
  currentFormat,
  type FormatPath,
  STORAGE_FORMATS,
  type StorageFormat,
} from "../../../core/storage-formats.ts";
import { isReadable, STORAGE_FORMAT, useOf } from "../../../records/formats/format.ts";
import { openRedis } from "../../../adapters/redis/record-store.ts";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { openStorage, type Storage } from "../../../records/storage.ts";
import { BACKENDS, type Ground } from "../../adapters/backends.ts";
import { openAt } from "../../adapters/open-at.ts";
import { Workshop } from "../../cli/stage.ts";
import { ManualClock } from "../rules/stage.ts";
import { closing } from "../../closing.ts";

const { format: FORMAT } = currentFormat();
const clock = new ManualClock();

/** The storage beside a Redis. */
const workshop = new Workshop();
const { storage: beside } = workshop.sqlite();

const isRedis = (address: string): boolean => address.startsWith("redis:");

const open = (address: string): Promise<Storage> =>
  openStorage({ storage: isRedis(address) ? beside : address, artifacts: address, clock });

/** The store at the address itself; in Redis, what it has for the storage beside it. */
async function openItself(address: string): Promise<RecordStore> {
  if (!isRedis(address)) return openAt(address, clock);
  const storage = await openStorage({ storage: beside, artifacts: beside, clock });
  const storageId = (await storage.watch.read())?.id;
  await storage.close();
  return openRedis({ url: address, clock, storageId });
}

for (const backend of BACKENDS)
  describe(`a store in ${backend.name}`, () => {
    let ground: Ground;
    beforeAll(async () => {
      ground = closing(await backend.start());
    });

    it("gets its format when it is first used, and is opened again", async () => {
      const address = await ground.newAddress();
      await (await open(address)).close();
      const store = await openItself(address);
      await expect(store.get([STORAGE_FORMAT.ref("current")])).resolves.toMatchObject([
        { value: { format: FORMAT } },
      ]);
      await store.close();
      await (await open(address)).close();
    });

    it.each([
      ["a later version", FORMAT + 1, "Use that version"],
      [
        "an earlier version",
        FORMAT - 1,
        "Use the versions in between one after the other, each with its storage migrate (docs/operate/day-to-day/upgrading.md)",
      ],
    ])("that %s wrote is refused, and not changed", async (version, format, fix) => {
      const address = await ground.newAddress();
      const store = await openItself(address);
      const put = [STORAGE_FORMAT.record({ format }, { key: "current" })];
      await store.commit({ id: randomUUID(), deadline: clock.now() + 5_000, put });
      const key = isRedis(address) ? "artifacts" : "storage";
      await expect(open(address)).rejects.toMatchObject({
        code: "invalid_configuration",
        problems: [
          `config.${key}: ${version} wrote this storage, in format ${format}; this version reads format ${FORMAT} only. ` +
            `${fix}, or start with an empty storage`,
        ],
      });
      const [found] = await store.get([STORAGE_FORMAT.ref("current")]);
      expect(found?.value).toEqual({ format });
      await store.close();
    });
  });

/** Runs with a next format. Nothing else runs meanwhile, because it waits for nothing. */
function withNext<T>(path: FormatPath, run: (next: number) => T): T {
  const formats = STORAGE_FORMATS as StorageFormat[];
  formats.push({ format: FORMAT + 1, since: "0.4.0", what: "planted", path, changes: [] });
  try {
    return run(FORMAT + 1);
  } finally {
    formats.pop();
  }
}

describe("with a next format", () => {
  it.each([
    ["expand and contract", ["before", "use", "use"]],
    ["in one step", ["migrate", "migrate", "use"]],
  ] as const)("%s: a store of the one before, one between both, and one of the next", (path, uses) => {
    withNext(path, (next) => {
      const stores = [{ format: FORMAT }, { format: next, from: FORMAT }, { format: next }];
      expect(stores.map(useOf)).toEqual(uses);
      // Each minor version restores the backups of the one before.
      expect(stores.map(isReadable)).toEqual([true, true, true]);
      const others = [{ format: FORMAT - 1 }, { format: next + 1 }, { format: FORMAT, from: FORMAT - 1 }];
      expect(others.map(useOf)).toEqual(["earlier", "later", "earlier"]);
      expect(others.map(isReadable)).toEqual([false, false, false]);
    });
  });
});
