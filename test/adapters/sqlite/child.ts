/** What another process does to a database file: `node child.ts TASK PATH`. */
import { once } from "node:events";
import { writeSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { openSqlite } from "../../../adapters/sqlite/index.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import { account, artifact, creation, delivery } from "../../../lib/testing/contract/stage.ts";

const clock = createSystemClock();

/** Written at once: a line that the parent reads was true before it was written. */
function say(line: string): void {
  writeSync(1, `${line}\n`);
}

const codeOf = (error: unknown): string => String(Reflect.get(Object(error), "code"));

/** Commits for ever, several at once, and says the number of each one that was acknowledged. */
async function commit(path: string): Promise<void> {
  const storage = await openSqlite({ path, clock });
  let number = 0;
  const loop = async (): Promise<never> => {
    for (;;) {
      number += 1;
      const own = number;
      const person = account(own);
      await storage.artifacts.commit({
        id: String(own),
        deadline: clock.now() + 5000,
        writes: ["one", "two"].map((part) => ({
          kind: "put",
          artifact: artifact(clock, "AccessToken", `${own} ${part}`, { expiresAt: clock.now() + 3_600_000 }),
        })),
      });
      await storage.directory.commitAccount(
        creation(person, { deliveries: [delivery(String(own), person.sub)] }),
      );
      say(String(own));
    }
  };
  await Promise.all(Array.from({ length: 8 }, loop));
}

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

/** Opens the file when its input ends, and says the numbers that it got from the counter. */
async function count(path: string): Promise<void> {
  say("ready");
  process.stdin.resume();
  await once(process.stdin, "end");
  const storage = await openSqlite({ path, clock });
  for (let round = 0; round < 25; round += 1) say(String(await storage.directory.nextUserId()));
  await storage.close();
}

/** Opens the file as somebody who is not root, and says how that ended. */
async function open(path: string): Promise<void> {
  if (process.getuid?.() === 0) process.seteuid?.(65_534);
  try {
    const storage = await openSqlite({ path, clock });
    await storage.close();
    say("opened");
  } catch (error) {
    say(codeOf(error));
  }
}

/** Writes until the file may not grow any more; then says what still works. */
async function fill(path: string): Promise<void> {
  const storage = await openSqlite({ path, clock });
  const write = (key: string, length: number) =>
    storage.artifacts.commit({
      id: key,
      deadline: clock.now() + 5000,
      writes: [
        { kind: "put", artifact: artifact(clock, "Session", key, { payload: { text: "x".repeat(length) } }) },
      ],
    });
  let written = 0;
  try {
    for (; written < 1000; written += 1) await write(String(written), 100_000);
  } catch (error) {
    say(codeOf(error));
  }
  const small = await Promise.allSettled([write("small", 1), write("large", 4_000_000)]);
  say(small.map((one) => (one.status === "fulfilled" ? "written" : codeOf(one.reason))).join());
  const found = await Promise.all(
    Array.from({ length: written }, (_, key) => storage.artifacts.find("Session", String(key))),
  );
  say(String(written > 0 && found.every((one) => one !== undefined)));
  await storage.close();
}

const tasks: Readonly<Record<string, (path: string) => Promise<void>>> = { commit, lock, count, open, fill };
const [, , task = "", path = ""] = process.argv;
await tasks[task]?.(path);
