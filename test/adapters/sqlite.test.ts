import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, open, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import * as runner from "@jest/globals";
import { openSqlite } from "../../adapters/sqlite/index.ts";
import type { Storage } from "../../adapters/storage.ts";
import { createSystemClock } from "../../lib/clock.ts";
import { artifact, ManualClock, type StorageBackend } from "../../lib/testing/contract/stage.ts";
import { describeStorage } from "../../lib/testing/contract/storage.ts";
import { DatabaseFiles } from "./sqlite/database-files.ts";

const { afterAll, beforeAll, beforeEach, describe, expect, it } = runner;
const files = new DatabaseFiles();
const clock = createSystemClock();

beforeAll(() => files.create());
afterAll(() => files.remove());

const inFile: StorageBackend = {
  open: (stageClock) => openSqlite({ path: files.next(), clock: stageClock }),
  restart: { reopen: (stageClock) => openSqlite({ path: files.path, clock: stageClock }) },
};
const inMemory: StorageBackend = {
  open: (stageClock) => openSqlite({ path: ":memory:", clock: stageClock }),
  restart: { impossible: "a database in memory ends with its connection" },
};

describeStorage("an SQLite file", inFile, runner);
describeStorage("SQLite in memory", inMemory, runner);

const attempt = (path: string): Promise<Storage> => openSqlite({ path, clock });
describe("a path that can't be opened", () => {
  const unavailable = { code: "storage_unavailable" };

  beforeEach(() => {
    files.next();
  });

  it("is a directory, or lies below a file", async () => {
    await mkdir(files.path);
    await expect(attempt(files.path)).rejects.toMatchObject(unavailable);
    await writeFile(`${files.path}.txt`, "");
    await expect(attempt(join(`${files.path}.txt`, "sign-in.db"))).rejects.toMatchObject(unavailable);
  });

  it("may not be written", async () => {
    await chmod(dirname(files.path), 0o755);
    await writeFile(files.path, "", { mode: 0o444 });
    const script = join(import.meta.dirname, "sqlite", "child.ts");
    const child = spawn(process.execPath, [script, "open", files.path], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const said: string[] = [];
    child.stdout.setEncoding("utf8").on("data", (text: string) => said.push(text));
    await once(child, "close");
    expect(said.join("").trim()).toBe("storage_unavailable");
  });

  it("holds something else than a database", async () => {
    await writeFile(files.path, "something else ".repeat(5000));
    await expect(attempt(files.path)).rejects.toMatchObject(unavailable);
  });

  it("holds another program's database, or one of a later version", async () => {
    const database = new DatabaseSync(files.path);
    database.exec("CREATE TABLE songs (title TEXT)");
    database.close();
    await expect(attempt(files.path)).rejects.toMatchObject({
      code: "configuration",
      problems: ["config.storage: this file is another program's SQLite database"],
    });
    files.next();
    await (await attempt(files.path)).close();
    const later = new DatabaseSync(files.path);
    later.exec("PRAGMA user_version = 1000");
    later.close();
    await expect(attempt(files.path)).rejects.toMatchObject({ code: "configuration" });
  });

  it("holds a damaged database: a call answers or is refused, and none hangs", async () => {
    const storage = await attempt(files.path);
    const keys = Array.from({ length: 300 }, (_, index) => String(index));
    await storage.artifacts.commit({
      id: "all",
      deadline: clock.now() + 5000,
      writes: keys.map((key) => ({ kind: "put", artifact: artifact(new ManualClock(4e12), "Session", key) })),
    });
    await storage.close();
    const database = new DatabaseSync(files.path);
    const roots = Number(database.prepare("SELECT max(rootpage) AS last FROM sqlite_schema").get()?.["last"]);
    database.close();
    const handle = await open(files.path, "r+");
    const { size } = await handle.stat();
    // The schema and the first page of each table and index stay as they are, so that it can be opened.
    const first = 4096 * roots;
    await handle.write(Buffer.alloc(size - first, 0xa5), 0, size - first, first);
    await handle.close();
    const damaged = await attempt(files.path);
    const results = await Promise.allSettled([
      ...keys.map((key) => damaged.artifacts.find("Session", key)),
      ...keys.map((key) =>
        damaged.artifacts.commit({
          id: key,
          deadline: clock.now() + 5000,
          writes: [{ kind: "put", artifact: artifact(clock, "Session", `new ${key}`) }],
        }),
      ),
    ]);
    const refused = results.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    expect(refused.length).toBeGreaterThan(0);
    for (const reason of refused) expect(reason).toMatchObject(unavailable);
    await damaged.close();
  });
});
