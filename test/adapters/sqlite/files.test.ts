/** The file of an SQLite store: how it is opened, its locks and its cache. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmod, mkdir, open, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { Commit, RecordStore } from "../../../adapters/record-store.ts";
import { openSqlite } from "../../../adapters/sqlite/record-store.ts";
import { createWhole } from "../../../cli/program/new-file.ts";
import { readOrMakeKeyFile } from "../../../config/keys.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { find, outcomes, ref, thing } from "../../../testing/storage/stage.ts";
import { DatabaseFiles } from "./database-files.ts";

const files = new DatabaseFiles();
const clock = createSystemClock();
const opened: RecordStore[] = [];
const children: ChildProcess[] = [];
const UNAVAILABLE = { code: "storage_unavailable" };

beforeEach(() => void files.next());
afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  await Promise.all(opened.splice(0).map((store) => store.close()));
});

async function openFile(path = files.path): Promise<RecordStore> {
  const store = await openSqlite({ path, clock });
  opened.push(store);
  return store;
}

const commit = (store: RecordStore, change: Omit<Commit, "id" | "deadline">, wait = 5_000): Promise<void> =>
  store.commit({ id: randomUUID(), deadline: clock.now() + wait, ...change });
const put = (store: RecordStore, key: string, wait?: number): Promise<void> =>
  commit(store, { put: [thing(key)] }, wait);

/** Starts another process on the file, whose output arrives line by line. */
function start(task: string, prefix = ""): { child: ChildProcess; lines: AsyncIterableIterator<string> } {
  const script = join(import.meta.dirname, "child.ts");
  const command = `${prefix} exec "${process.execPath}" "${script}" ${task} "${files.path}"`;
  const child = spawn("sh", ["-c", command], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
}

/** Another process that has the write lock. */
async function lockElsewhere(): Promise<ChildProcess> {
  const { child, lines } = start("lock");
  await lines.next();
  return child;
}

/** Reads the file itself. */
function ask(sql: string): unknown {
  const database = new DatabaseSync(files.path);
  try {
    return Object.values(database.prepare(sql).get() ?? {})[0];
  } finally {
    database.close();
  }
}

describe("a path that can't be opened", () => {
  it("is a directory, or lies below a file", async () => {
    await mkdir(files.path);
    await expect(openFile()).rejects.toMatchObject(UNAVAILABLE);
    await writeFile(`${files.path}.txt`, "");
    await expect(openFile(join(`${files.path}.txt`, "sign-in.db"))).rejects.toMatchObject(UNAVAILABLE);
  });

  it("may not be written", async () => {
    await chmod(dirname(files.path), 0o755);
    await writeFile(files.path, "", { mode: 0o444 });
    await expect(start("open").lines.next()).resolves.toMatchObject({ value: "storage_unavailable" });
  });

  it("is in a folder that needs another owner: the message says which", async () => {
    await chmod(dirname(files.path), 0o755);
    await mkdir(files.path, { mode: 0o555 });
    const database = join(files.path, "sign-in.db");
    const isRoot = process.geteuid?.() === 0;
    // Root may write everywhere.
    if (isRoot) process.seteuid?.(65_534);
    try {
      const user = process.geteuid?.();
      const folder = `the folder ${files.path} must be writable for user ${user}, as whom this process runs (chown ${user})`;
      await expect(openFile(database)).rejects.toMatchObject({
        ...UNAVAILABLE,
        message: `the database file ${database} can't be opened: EACCES; ${folder}`,
      });
      await expect(readOrMakeKeyFile(`${database}.keys`, { mayCreate: true })).rejects.toMatchObject({
        code: "unusable_secrets",
        message: `the key file ${database}.keys can't be made (EACCES); ${folder}`,
      });
      await expect(createWhole(`${database}.backup`, async () => undefined)).rejects.toMatchObject({
        message: `${database}.backup can't be written: EACCES; ${folder}.`,
      });
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  });

  it("is not a database", async () => {
    await writeFile(files.path, "something else ".repeat(5000));
    await expect(openFile()).rejects.toMatchObject(UNAVAILABLE);
  });

  it.each([
    [
      "another program's",
      "CREATE TABLE songs (title TEXT)",
      "this file is another program's SQLite database",
    ],
    [
      "a later version's",
      "PRAGMA application_id = 0x5349474e; PRAGMA user_version = 1000",
      "a later version wrote this database, in layout 1000; this version reads layout 4 only. Use that version, or start with an empty storage",
    ],
    [
      "an earlier version's",
      "PRAGMA application_id = 0x5349474e; PRAGMA user_version = 3",
      "an earlier version wrote this database, in layout 3; this version reads layout 4 only. Use that version, or start with an empty storage",
    ],
  ])("holds %s database", async (_whose, sql, problem) => {
    const database = new DatabaseSync(files.path);
    database.exec(sql);
    database.close();
    const problems = [`config.storage: ${problem}`];
    await expect(openFile()).rejects.toMatchObject({ code: "invalid_configuration", problems });
  });

  it("is a damaged database: every call succeeds or is refused, and none hangs", async () => {
    const store = await openFile();
    const keys = Array.from({ length: 300 }, (_, index) => String(index));
    await commit(store, {
      put: keys.map((key) => thing(key, { index: [{ name: "all", at: "x", order: 1 }] })),
    });
    await store.close();
    const roots = Number(ask("SELECT max(rootpage) AS last FROM sqlite_schema"));
    const handle = await open(files.path, "r+");
    const { size } = await handle.stat();
    // The schema and the first page of each table and index stay as they are, so that it can be opened.
    const first = 4096 * roots;
    await handle.write(Buffer.alloc(size - first, 0xa5), 0, size - first, first);
    await handle.close();
    const damaged = await openFile();
    const codes = await outcomes([
      ...keys.map((key) => find(damaged, key)),
      ...keys.map((key) => put(damaged, `new-${key}`)),
      damaged.list([{ kind: "thing", index: "all", at: "x", limit: 999 }]),
      damaged.scan("thing", undefined, 999),
    ]);
    expect(new Set(codes.filter((code) => code !== "done"))).toEqual(new Set(["storage_unavailable"]));
  });
});

describe("a file", () => {
  it("is created with its folder, for its owner only, and is written through a log", async () => {
    const path = join(dirname(files.path), "deep", "er", "sign-in.db");
    await put(await openFile(path), "a");
    const modes = await Promise.all(
      ["", "-wal", "-shm"].map(async (end) => (await stat(path + end)).mode & 0o777),
    );
    expect(modes).toEqual([0o600, 0o600, 0o600]);
    await openFile();
    expect(ask("PRAGMA journal_mode")).toBe("wal");
  });

  it("is opened when the process that locks a new file releases it", async () => {
    const child = await lockElsewhere();
    const opening = openFile();
    await pause(30);
    child.stdin?.end();
    await put(await opening, "a");
  });

  it("that may not grow refuses new records, and keeps the others", async () => {
    // The limit counts blocks of 512 bytes in a POSIX shell: 2 MiB.
    const { lines } = start("fill", "ulimit -f 4096;");
    const said: string[] = [];
    for await (const line of lines) said.push(line);
    const [code, small, kept] = said;
    expect(code).toBe("storage_unavailable");
    expect(small).toMatch(/^(written|storage_unavailable),storage_unavailable$/);
    expect(kept).toBe("true");
    expect(ask("PRAGMA integrity_check")).toBe("ok");
  });
});

describe("what a version before had in a file", () => {
  it("is dropped when this version has it no longer, while another process reads [D-UP-10]", async () => {
    const [store, other] = [await openFile(), await openFile()];
    const database = new DatabaseSync(files.path);
    database.exec(
      `CREATE TABLE former (id INT, gone INT, "it's" INT); CREATE INDEX ended ON former (id); INSERT INTO former VALUES (1, 2, 3)`,
    );
    const former = ["ended", "former.gone", "former.it's", "former.never", "never", 'no"thing'];
    expect(await store.leftovers?.(former)).toEqual(["ended", "former.gone", "former.it's"]);
    await store.dropLeftovers?.(former);
    expect(await other.leftovers?.([...former, "former"])).toEqual(["former"]);
    expect(database.prepare("SELECT * FROM former").all()).toEqual([{ id: 1 }]);
    database.close();
    await put(other, "after");
  });
});

describe("another process's lock", () => {
  it("is waited for until the deadline, without blocking the event loop or reads", async () => {
    const store = await openFile();
    await put(store, "before");
    await lockElsewhere();
    let turns = 0;
    const timer = setInterval(() => void (turns += 1), 5);
    const refused = put(store, "refused", 300);
    const counted = store.next("people");
    await expect(refused).rejects.toMatchObject({
      ...UNAVAILABLE,
      cause: { code: "ERR_SQLITE_ERROR", errcode: 5 },
    });
    expect(turns).toBeGreaterThan(2);
    clearInterval(timer);
    expect(await find(store, "before")).toBeDefined();
    await store.ping();
    await expect(counted).rejects.toMatchObject(UNAVAILABLE);
    expect(await find(store, "refused")).toBeUndefined();
  });

  it.each<[string, (child: ChildProcess) => unknown]>([
    ["is released in time", (child) => child.stdin?.end()],
    ["ends with its holder", (child) => child.kill("SIGKILL")],
  ])("that %s lets the waiting writer in", async (_how, release) => {
    const store = await openFile();
    const child = await lockElsewhere();
    const written = Promise.all([put(store, "a", 30_000), put(store, "b", 30_000)]);
    await pause(30);
    expect(await find(store, "a")).toBeUndefined();
    release(child);
    await written;
    expect(await find(store, "b")).toBeDefined();
  });

  it("delays no caller beyond the deadline when the store closes", async () => {
    const store = await openFile();
    await lockElsewhere();
    const written = put(store, "a", 200);
    const closed = store.close();
    await expect(written).rejects.toMatchObject(UNAVAILABLE);
    await closed;
  });
});

describe("the cache of a file", () => {
  it("is never older than an acknowledged commit of another connection", async () => {
    const [one, other] = [await openFile(), await openFile()];
    await commit(one, { put: [thing("parent"), thing("child", { parent: ref("parent") })] });
    for (let round = 1; round <= 20; round += 1) {
      const [writer, reader] = round % 2 === 0 ? [one, other] : [other, one];
      await reader.get([ref("child")], { withParents: true });
      await commit(writer, { put: [thing("parent", { value: { round } })] });
      for (const store of [one, other]) {
        const [child] = await store.get([ref("child")], { withParents: true });
        expect(child?.parent?.value).toEqual({ round });
      }
    }
    await commit(other, { remove: [ref("parent")] });
    expect(await one.get([ref("parent"), ref("child")])).toEqual([undefined, undefined]);
  });

  it("has nothing of a failed commit", async () => {
    const store = await openFile();
    await put(store, "a");
    const before = await find(store, "a");
    await put(store, "b");
    const changed = thing("a", { value: { n: 2 } });
    // The second one is found when the record is already written.
    for (const change of [
      { expect: [{ ref: ref("c"), version: "present" }], put: [changed] },
      { expect: [{ ref: ref("b"), version: "absent" }], put: [changed, thing("new"), thing("b")] },
    ]) {
      await expect(commit(store, change)).rejects.toMatchObject({ code: "condition_failed" });
      expect(await find(store, "a")).toEqual(before);
      expect(await find(store, "new")).toBeUndefined();
    }
    await commit(store, { expect: [{ ref: ref("a"), version: before?.version ?? "" }], put: [changed] });
    expect((await find(store, "a"))?.value).toEqual({ n: 2 });
  });

  it("has only some of many records, and each is found", async () => {
    const store = await openFile();
    const all = Array.from({ length: 1_100 }, (_, number) => thing(String(number)));
    await commit(store, { put: all });
    for (let round = 0; round < 2; round += 1) {
      const found = await Promise.all(all.map(({ key }) => find(store, key)));
      expect(found.map((record) => record?.value)).toEqual(all.map(({ value }) => value));
    }
  });

  it("is not updated by a store that is closing", async () => {
    const store = await openFile();
    await put(store, "a");
    await find(store, "a");
    const closing = store.close();
    await expect(find(store, "a")).rejects.toMatchObject(UNAVAILABLE);
    await closing;
  });
});
