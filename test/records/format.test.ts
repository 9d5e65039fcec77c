import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FORMAT, STORAGE_FORMAT } from "../../records/format.ts";
import { openStorage } from "../../records/storage.ts";
import { BACKENDS, type Ground } from "../adapters/backends.ts";
import { openAt } from "../adapters/open-at.ts";
import { ManualClock } from "./rules/stage.ts";

const clock = new ManualClock();

const open = (address: string) =>
  address.startsWith("redis:")
    ? openStorage({ storage: "sqlite::memory:", artifacts: address, clock })
    : openStorage({ storage: address, artifacts: address, clock });

for (const backend of BACKENDS)
  describe(`a store in ${backend.name}`, () => {
    let ground: Ground;
    beforeAll(async () => {
      ground = await backend.start();
    });
    afterAll(() => ground.close());

    it("gets its format when it is first used, and is opened again", async () => {
      const address = await ground.newAddress();
      await (await open(address)).close();
      const store = await openAt(address, clock);
      await expect(store.get([STORAGE_FORMAT.ref("current")])).resolves.toMatchObject([
        { value: { format: FORMAT } },
      ]);
      await store.close();
      await (await open(address)).close();
    });

    it.each([
      ["a later version", FORMAT + 1],
      ["an earlier version", FORMAT - 1],
    ])("that %s wrote is refused, and not changed", async (version, format) => {
      const address = await ground.newAddress();
      const store = await openAt(address, clock);
      const put = [STORAGE_FORMAT.record({ format }, { key: "current" })];
      await store.commit({ id: randomUUID(), deadline: clock.now() + 5_000, put });
      const key = address.startsWith("redis:") ? "artifacts" : "storage";
      await expect(open(address)).rejects.toMatchObject({
        code: "configuration",
        problems: [
          `config.${key}: ${version} wrote this storage, in format ${format}; this version reads format ${FORMAT} only. ` +
            "Use that version, or start with an empty storage",
        ],
      });
      const [found] = await store.get([STORAGE_FORMAT.ref("current")]);
      expect(found?.value).toEqual({ format });
      await store.close();
    });
  });
