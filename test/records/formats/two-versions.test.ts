/**
 * This version and the next one, whose format a test has planted, on one storage: together, while the storage is migrated, and after it.
 * The other storages run in `npm run test:all`.
 */
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { createSystemClock } from "../../../core/clock.ts";
import { packageVersion } from "../../../core/package-version.ts";
import { ACCOUNT } from "../../../records/directory/directory-kinds.ts";
import { PROCESS } from "../../../records/formats/processes.ts";
import { BACKENDS } from "../../adapters/backends.ts";
import { openAt } from "../../adapters/open-at.ts";
import { closing } from "../../closing.ts";
import { withStores } from "../../cli/stage.ts";
import { here } from "../../cli/here.ts";
import { rounds } from "../../rounds.ts";
import { account } from "../rules/stage.ts";
import { FORMAT, VersionStage } from "./version-stage.ts";

const MANY = rounds(600, 6_000);
const KILLS = rounds(2, 12);
const TIMEOUT_MS = 300_000;
const NEXT = "expand and contract";

describe.each(BACKENDS.slice(0, rounds(2, BACKENDS.length)))("two versions on $name", (backend) => {
  const hasFunctions = backend.name === "PostgreSQL";

  it(
    "sign in, refresh and deliver for each other, and migrate beside the new one, killed at random [D-UP-1, D-UP-2, D-UP-3, D-UP-4, D-UP-10]",
    async () => {
      const stage = await VersionStage.open(backend, MANY);
      // Each request goes to the other version than the one before.
      const [old, next] = await Promise.all([stage.serve(), stage.serve(NEXT)]);
      const people = [];
      for (let count = 0; count < 3; count += 1) people.push(await stage.signIn());
      await stage.expectAllWorks(people);
      // The new one writes what the old one reads.
      expect(await stage.expectFormat(FORMAT)).toMatchObject({ accounts: MANY + stage.people });

      const migrate = (...words: readonly string[]) =>
        stage.run(NEXT, ["storage", "migrate", "--yes", ...words]);
      const refused = migrate();
      expect([await refused.ended, refused.output()]).toEqual([
        1,
        expect.stringMatching(/In the way: server of version [\d.]+ on .*Stop this process first/su),
      ]);
      await stage.expectAllWorks(people);
      await stage.stop(old);
      const check = migrate("--check", "--json");
      expect([await check.ended, check.output()]).toEqual([
        1,
        expect.stringContaining(`"from":${FORMAT},"to":${FORMAT + 1},"under_way":false`),
      ]);

      // A process of the old version that nobody has seen, such as a command.
      await withStores(stage.place, async (stores) => {
        const output = await stage.migrate(NEXT, {
          kills: KILLS,
          onKill: async () => people.push(await stage.signIn()),
        });
        expect(output.includes("Dropped 3 parts of the database that only other versions need")).toBe(
          hasFunctions,
        );
        const put = [ACCOUNT.record(account(999_999))];
        await expect(
          stores.storage.commit({ id: "too late", deadline: Date.now() + 30_000, put }),
        ).rejects.toMatchObject({ code: "storage_unavailable", reason: "format" });
      });

      // Everything is as the new version writes it, and nothing that was given has ended.
      const all = MANY + stage.people;
      expect(await stage.expectFormat(FORMAT + 1)).toEqual({ accounts: all, entries: all });
      people.push(await stage.signIn());
      await stage.expectAllWorks(people);
      const nothing = `Nothing to migrate: the storage is in format ${FORMAT + 1}\n`;
      const again = migrate("--check");
      expect([await again.ended, again.output()]).toEqual([0, nothing]);
      const refusedHere = await here(["accounts", "list", "--config", stage.file]);
      expect(refusedHere).toMatchObject({
        code: 2,
        err: expect.stringContaining("a later version wrote this storage"),
      });

      // A version with this format and other functions, which a rolling upgrade has beside this one.
      if (hasFunctions) {
        const other = closing(await openAt(stage.place.storage, createSystemClock()));
        const id = randomUUID();
        const seen = {
          id,
          role: "worker",
          format: FORMAT + 1,
          host: "elsewhere",
          seenAt: Date.now(),
        } as const;
        const announced = PROCESS.record({ ...seen, version: `${packageVersion()}-other` });
        await other.commit({ id: "announced", deadline: Date.now() + 5_000, put: [announced] });
        const kept = migrate();
        expect([await kept.ended, kept.output()]).toEqual([
          0,
          expect.stringMatching(
            /Kept 3 parts of the database .*worker of version [\d.]+-other on elsewhere/su,
          ),
        ]);
        await other.commit({ id: "stopped", deadline: Date.now() + 5_000, remove: [PROCESS.ref(id)] });
        const wouldDrop = migrate("--check");
        expect([await wouldDrop.ended, wouldDrop.output()]).toEqual([
          0,
          expect.stringMatching(/To be dropped: 3 parts .*sign_in_commit_[\da-f]{8}, sign_in_erase_/su),
        ]);
        const dropped = migrate();
        expect([await dropped.ended, dropped.output()]).toEqual([
          0,
          expect.stringContaining("Dropped 3 parts"),
        ]);
        const last = migrate();
        expect([await last.ended, last.output()]).toEqual([0, nothing]);
        await stage.expectAllWorks(people);
      }
      await stage.stop(next);
      expect(stage.errors()).toBe("");
    },
    TIMEOUT_MS,
  );
});
