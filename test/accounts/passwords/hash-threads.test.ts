/** Every task of a hash thread gets a result or an error, whatever happens to its thread. */
import { execFile } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, it, jest } from "@jest/globals";
import { createHashThreads, type HashThreads } from "../../../accounts/passwords/hash-threads.ts";
import { createPasswords } from "../../../accounts/passwords/passwords.ts";
import { RULES } from "../open-domain.ts";
import { newFolder } from "../../closing.ts";

const COST = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
/** Half a second of work, twenty times as much. */
const EXPENSIVE = { memoryCost: 262_144, timeCost: 4, parallelism: 1 };
const CHEAP = { memoryCost: 1_024, timeCost: 1, parallelism: 1 };
const PASSWORD = "correct horse battery staple";

const made: HashThreads[] = [];
function threadsOf(count: number, script?: string): HashThreads {
  const threads = createHashThreads(count, script);
  made.push(threads);
  return threads;
}

/** How many threads this process has. */
const threadsNow = (): number => readdirSync("/proc/self/task").length;

/** Several hashes at once. */
const several = (threads: HashThreads): Promise<string[]> =>
  Promise.all([1, 2, 3].map(() => threads.hash(PASSWORD, COST)));

function codeOrMessage(error: unknown): unknown {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  return code ?? message;
}

afterEach(async () => {
  await Promise.all(made.splice(0).map((threads) => threads.close()));
});

describe("threads that hash passwords", () => {
  it("hash and compare in parallel without mixing up answers", async () => {
    const threads = threadsOf(2);
    const passwords = Array.from({ length: 12 }, (_each, index) => `${PASSWORD} ${index} \u{1f511}`);
    const hashes = await Promise.all(passwords.map((password) => threads.hash(password, CHEAP)));
    expect(new Set(hashes).size).toBe(12);
    const answers = hashes.flatMap((hash, row) =>
      passwords.map(
        async (password, column) =>
          (await threads.compare(hash, password, { duration: "usual" })) === (row === column),
      ),
    );
    expect(await Promise.all(answers)).not.toContain(false);
  });

  it("start when several passwords come at once, and are gone after closing", async () => {
    const threads = threadsOf(2);
    // Starts Node's thread pool.
    const hash = await threads.hash(PASSWORD, COST);
    const before = threadsNow();
    expect(await threads.compare(hash, PASSWORD, { duration: "usual" })).toBe(true);
    expect(await threads.compare(hash, "wrong", { duration: "usual", costIfWrong: COST })).toBe(false);
    expect(await threads.compare("no hash", PASSWORD, { duration: "usual" })).toBe(false);
    expect(threadsNow()).toBe(before);
    await several(threads);
    expect(threadsNow()).toBeGreaterThan(before);
    await threads.close();
    expect(threadsNow()).toBeLessThanOrEqual(before);
  });

  it("end after a minute without work, and start again with new work", async () => {
    jest.useFakeTimers({ doNotFake: ["nextTick", "setImmediate", "queueMicrotask", "performance"] });
    try {
      const before = threadsNow();
      const threads = threadsOf(1);
      await several(threads);
      jest.advanceTimersByTime(59_000);
      await threads.hash(PASSWORD, COST);
      jest.advanceTimersByTime(59_000);
      expect(threadsNow()).toBeGreaterThan(before);
      jest.advanceTimersByTime(1_000);
      while (threadsNow() > before) await new Promise((resolve) => void setImmediate(resolve));
      expect(await several(threads)).toHaveLength(3);
    } finally {
      jest.useRealTimers();
    }
  });

  it("answer false for a malformed hash, and pass on errors of the algorithm", async () => {
    const threads = threadsOf(1);
    expect(await threads.compare("no hash", PASSWORD, { duration: "long" })).toBe(false);
    await expect(threads.hash(PASSWORD, { ...COST, memoryCost: 1 })).rejects.toThrow(/memory/i);
    expect(await threads.compare(await threads.hash(PASSWORD, COST), PASSWORD, { duration: "usual" })).toBe(
      true,
    );
  });

  it("refuse running tasks when they are closed, and start again for the next task", async () => {
    const threads = threadsOf(1);
    // The first one does not need a thread, and is finished.
    const lost = [COST, EXPENSIVE, COST]
      .map((cost) => threads.hash(PASSWORD, cost))
      .map((each) =>
        each.then(
          () => "answered",
          (error: unknown) => String(Reflect.get(Object(error), "code")),
        ),
      );
    await threads.close();
    expect(await Promise.all(lost)).toEqual(["answered", "storage_unavailable", "storage_unavailable"]);
    expect(await threads.hash(PASSWORD, COST)).toMatch(/^\$argon2id\$/);
  });

  it("report the error that ended them, and start again for the next task", async () => {
    const folder = newFolder();
    const script = join(folder, "thread.mjs");
    const threads = threadsOf(1, script);
    const died = (): Promise<unknown> => threads.hash(PASSWORD, COST).then(String, codeOrMessage);
    // As in a bundle that leaves the script out.
    expect(await died()).toMatch(/MODULE_NOT_FOUND/);
    writeFileSync(script, 'throw new TypeError("no such algorithm")');
    expect(await Promise.all([died(), died()])).toEqual(["no such algorithm", "no such algorithm"]);
    const own = new URL("../../../accounts/passwords/hash-thread.ts", import.meta.url).href;
    writeFileSync(script, `import ${JSON.stringify(own)};`);
    expect(await died()).toMatch(/^\$argon2id\$/);
  });

  it("don't make usual hashes wait for a long one", async () => {
    const threads = threadsOf(2);
    const hash = await threads.hash(PASSWORD, EXPENSIVE);
    const order: string[] = [];
    const dear = threads.compare(hash, PASSWORD, { duration: "long" }).then(() => order.push("dear"));
    // The second one finds a task at each of the two.
    for (let number = 0; number < 3; number += 1) {
      await Promise.all([threads.hash(PASSWORD, COST), threads.hash(PASSWORD, COST)]);
      order.push("two");
    }
    await dear;
    expect(order).toEqual(["two", "two", "two", "dear"]);
  });

  it("keep the process alive until the answer, and no longer", async () => {
    const source = new URL("../../../accounts/passwords/hash-threads.ts", import.meta.url).href;
    const script = `import { createHashThreads } from ${JSON.stringify(source)};
      console.log((await createHashThreads(2).hash("secret", ${JSON.stringify(COST)})).slice(0, 9));`;
    const run = promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
    expect(await run).toEqual({ stdout: "$argon2id\n", stderr: "" });
  });

  it("are as many as the rules say, and end when passwords are closed", async () => {
    const passwords = createPasswords({ ...RULES, parallel: 3 });
    const before = threadsNow();
    const hashes = await Promise.all(Array.from({ length: 9 }, () => passwords.hash(PASSWORD)));
    expect(new Set(hashes).size).toBe(9);
    await passwords.close();
    expect(threadsNow()).toBeLessThanOrEqual(before);
  });

  it("start no waiting task after passwords are closed", async () => {
    const passwords = createPasswords({ ...RULES, parallel: 1 });
    const before = threadsNow();
    const waiting = Promise.allSettled([
      ...Array.from({ length: 9 }, () => passwords.hash(PASSWORD)),
      ...Array.from({ length: 9 }, () => passwords.verify(null, PASSWORD)),
    ]);
    await passwords.close();
    // The first one does not need a thread, and is finished.
    for (const each of (await waiting).slice(1))
      expect(each).toMatchObject({ reason: { code: "storage_unavailable" } });
    expect(threadsNow()).toBeLessThanOrEqual(before);
  });
});
