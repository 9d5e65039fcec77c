/**
 * A storage that gets to the next format in one step, which a test has planted: all servers are stopped, `storage migrate` is killed and
 * continued, and backups of the format before are restored. The other storages run in `npm run test:all`.
 */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { Client } from "pg";
import { BACKENDS } from "../../adapters/backends.ts";
import type { Running } from "../../examples/processes.ts";
import { rounds } from "../../rounds.ts";
import { FORMAT, VersionStage } from "./version-stage.ts";

const MANY = rounds(300, 6_000);
const KILLS = rounds(1, 6);
const TIMEOUT_MS = 300_000;
const NEXT = "in one step";

const resultOf = async (running: Running): Promise<readonly [unknown, string]> => [
  await running.ended,
  running.output(),
];

/** Copies a database of PostgreSQL as it is, as a restored dump of it would be. @returns the address of the copy. */
async function copyDatabase(storage: string): Promise<string> {
  const [from, to] = [new URL(storage), new URL(storage)];
  to.pathname = `${from.pathname}_restored`;
  const admin = new URL(storage);
  admin.pathname = "/postgres";
  const client = new Client({ connectionString: admin.href });
  await client.connect();
  await client.query(`CREATE DATABASE ${to.pathname.slice(1)} TEMPLATE ${from.pathname.slice(1)}`);
  await client.end();
  return to.href;
}

describe.each(BACKENDS.slice(0, rounds(2, BACKENDS.length)))("a change in one step on $name", (backend) => {
  it(
    "stops servers of both versions until storage migrate has finished, and backups of before can be restored [D-UP-11]",
    async () => {
      const stage = await VersionStage.open(backend, MANY);
      const all = MANY + stage.people;
      const old = await stage.serve();
      const people = [await stage.signIn(), await stage.signIn()];
      await stage.expectAllWorks(people);
      const [backup, key] = [join(stage.folder, "before.backup"), join(stage.folder, "backup.key")];
      writeFileSync(key, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
      const hasBackups = stage.place.storage.startsWith("sqlite:");
      if (hasBackups) expect(await stage.run(undefined, ["backup", backup, "--key-file", key]).ended).toBe(0);

      const migrate = (...words: readonly string[]) =>
        stage.run(NEXT, ["storage", "migrate", "--yes", ...words]);
      expect(await resultOf(migrate())).toEqual([
        1,
        expect.stringMatching(
          /All servers and workers must be stopped.*In the way: server of version [\d.]+ on .*Stop this process first/su,
        ),
      ]);
      await stage.stop(old);
      const list = (next?: typeof NEXT) => resultOf(stage.run(next, ["accounts", "list", "--json"]));
      expect(await list(NEXT)).toEqual([
        2,
        expect.stringContaining("stop all servers, and run sign-in-service storage migrate"),
      ]);
      expect(await resultOf(migrate("--check"))).toEqual([
        1,
        expect.stringMatching(
          new RegExp(
            `format ${FORMAT} to ${FORMAT + 1}; records to rewrite: .*${all.toLocaleString("en")} of account`,
            "su",
          ),
        ),
      ]);
      // Nothing has changed yet, so the old version could go on.
      expect((await list())[0]).toBe(0);
      const copy = backend.name === "PostgreSQL" ? await copyDatabase(stage.place.storage) : undefined;

      let hasStopped = false;
      await stage.migrate(NEXT, {
        kills: KILLS,
        async onKill() {
          const [code, said] = await list(NEXT);
          // Only a later one may have finished just before it was killed.
          if (!hasStopped || code !== 0)
            expect([code, said]).toEqual([
              2,
              expect.stringContaining(
                "its change to a new format has not finished: run sign-in-service storage migrate",
              ),
            ]);
          hasStopped = true;
          expect(await list()).toEqual([2, expect.stringContaining("a later version wrote this storage")]);
        },
      });
      expect(await stage.expectFormat(FORMAT + 1)).toEqual({ accounts: all, entries: all });
      const next = await stage.serve(NEXT);
      people.push(await stage.signIn());
      await stage.expectAllWorks(people);
      await stage.stop(next);
      expect((await list())[0]).toBe(2);

      if (hasBackups) {
        const inFile = (name: string) => {
          const storage = `sqlite:${join(stage.folder, name)}`;
          return { storage, artifacts: storage };
        };
        const restored = inFile("restored.db");
        const file = stage.fileFor(restored, "restored.json");
        const words = ["restore", backup, "--key-file", key];
        expect(await resultOf(stage.run(NEXT, words, file))).toEqual([
          0,
          expect.stringContaining(`with ${stage.people} accounts`),
        ]);
        expect(await stage.expectFormat(FORMAT + 1, restored)).toEqual({ accounts: all, entries: all });
        // A version can't know what a later one has written.
        const later = `${backup}.later`;
        expect(await stage.run(NEXT, ["backup", later, "--key-file", key]).ended).toBe(0);
        const empty = stage.fileFor(inFile("empty.db"), "empty.json");
        expect(await resultOf(stage.run(undefined, ["restore", later, "--key-file", key], empty))).toEqual([
          1,
          expect.stringContaining("The backup was made by another version of this service"),
        ]);
      }
      if (copy !== undefined) {
        const restored = { storage: copy, artifacts: copy };
        const file = stage.fileFor(restored, "restored.json");
        expect(await stage.run(NEXT, ["storage", "migrate", "--yes"], file).ended).toBe(0);
        expect(await resultOf(stage.run(NEXT, ["storage", "restored", "--yes"], file))).toEqual([
          0,
          expect.stringContaining("Renewed: "),
        ]);
        expect(await stage.expectFormat(FORMAT + 1, restored)).toEqual({ accounts: all, entries: all });
      }
      expect(stage.errors()).toBe("");
    },
    TIMEOUT_MS,
  );
});
