/** What another process does to a database file: `node child.ts TASK PATH`. */
import { randomUUID } from "node:crypto";
import { writeSync } from "node:fs";
import { once } from "node:events";
import { DatabaseSync } from "node:sqlite";
import { openSqlite } from "../../../adapters/sqlite/record-store.ts";
import { createSystemClock } from "../../../core/clock.ts";

const clock = createSystemClock();

const say = (line: string): void => void writeSync(1, `${line}\n`);
const codeOf = (error: unknown): string => String(Reflect.get(Object(error), "code"));

/** Takes the write lock and holds it until its input ends. */
async function lock(path: string): Promise<void> {
  const database = new DatabaseSync(path);
  database.exec("BEGIN EXCLUSIVE");
  say("locked");
  process.stdin.resume();
  await once(process.stdin, "end");
  database.exec("ROLLBACK");
  database.close();
}

/** Opens the file as a user other than root, and prints the outcome. */
async function open(path: string): Promise<void> {
  if (process.getuid?.() === 0) process.seteuid?.(65_534);
  try {
    await (await openSqlite({ path, clock })).close();
    say("opened");
  } catch (error) {
    say(codeOf(error));
  }
}

/** Writes until the file can't grow any more, and then prints what still works. */
async function fill(path: string): Promise<void> {
  const store = await openSqlite({ path, clock });
  const write = (key: string, length: number): Promise<void> =>
    store.commit({
      id: randomUUID(),
      deadline: clock.now() + 5000,
      put: [{ kind: "thing", key, value: { text: "x".repeat(length) } }],
    });
  let written = 0;
  try {
    for (; written < 1000; written += 1) await write(String(written), 100_000);
  } catch (error) {
    say(codeOf(error));
  }
  const small = await Promise.allSettled([write("small", 1), write("large", 4_000_000)]);
  say(small.map((one) => (one.status === "fulfilled" ? "written" : codeOf(one.reason))).join());
  const all = Array.from({ length: written }, (_, key) => ({ kind: "thing", key: String(key) }));
  const before = await store.get(all);
  const [replaced] = await Promise.allSettled([write("0", 4_000_000)]);
  const [first] = await store.get(all.slice(0, 1));
  const kept = before.every((one) => one !== undefined) && first?.version === before[0]?.version;
  say(String(written > 0 && replaced.status === "rejected" && kept));
  await store.close();
}

const tasks: Readonly<Record<string, (path: string) => Promise<void>>> = { lock, open, fill };
const [, , task = "", path = ""] = process.argv;
await tasks[task]?.(path);
