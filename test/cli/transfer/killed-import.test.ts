/** An import as a process: killed at any moment, and how much memory it takes; in `npm run test:all` of a million accounts, killed ten times. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { BY_NUMBER } from "../../../records/directory/directory-kinds.ts";
import { ROOT } from "../../examples/documents.ts";
import { bareEnvironment } from "../../examples/processes.ts";
import { rounds } from "../../rounds.ts";
import { TransferStage } from "./stage.ts";

const LINES = Number(process.env["TEST_IMPORT_LINES"] ?? rounds(5_000, 1_000_000));
const KILLS = rounds(3, 10);
/** Counting a million accounts takes a while, and keeps a core busy. */
const POLL_MS = rounds(5, 500);
/** For each start of the program, beside other tests, and for the lines. */
const TIMEOUT_MS = (KILLS + 1) * 60_000 + LINES * 10;

let stage: TransferStage;
let file: string;
beforeAll(async () => {
  stage = await TransferStage.open();
  file = stage.path("many.jsonl");
  const out = createWriteStream(file);
  for (let index = 0; index < LINES; index += 1)
    if (
      !out.write(`${JSON.stringify({ email: `person${index}@example.com`, username: `person${index}` })}\n`)
    )
      await once(out, "drain");
  // A line of a hundred megabytes, and one behind it.
  for (let part = 0; part < 100; part += 1) if (!out.write("x".repeat(1_000_000))) await once(out, "drain");
  out.end(`\n${JSON.stringify({ email: "last@example.com" })}\n`);
  await once(out, "finish");
});
afterAll(() => stage.close());

/** Starts the command. It writes down its peak of memory, also before it is killed. */
function start() {
  const words = ["accounts", "import", file, "--json", "--config", stage.path("sign-in.json")];
  const child = spawn(
    process.execPath,
    [
      "--disable-warning=ExperimentalWarning",
      "--import",
      stage.path("memory.mjs"),
      join(ROOT, "cli/main.ts"),
      ...words,
    ],
    { env: bareEnvironment(), stdio: ["ignore", "pipe", "pipe"] },
  );
  return { child, out: text(child.stdout), err: text(child.stderr), exit: once(child, "exit") };
}

async function count(): Promise<number> {
  const [accounts = 0] = await stage.storage.records.store.count([{ ...BY_NUMBER, limit: 2 * LINES }]);
  return accounts;
}

it(
  "a killed import is continued by the same command, with each account once and under 250 MB [D-ADM-208, D-ADM-213]",
  async () => {
    stage.write(
      "memory.mjs",
      `import { writeFileSync } from "node:fs";
     const path = ${JSON.stringify(stage.path("peak-"))} + process.pid;
     const write = () => writeFileSync(path, String(process.resourceUsage().maxRSS));
     setInterval(write, 100).unref();
     process.on("exit", write);`,
    );
    for (let kill = 1; kill <= KILLS; kill += 1) {
      const { child, exit, out } = start();
      // Once so much is there that it must have been in the middle of the file.
      const goal = Math.floor((Math.random() * LINES) / KILLS) + (kill - 1) * Math.floor(LINES / KILLS);
      while (child.exitCode === null && (await count()) < goal)
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      child.kill("SIGKILL");
      await Promise.all([exit, out]);
    }
    const { exit, out, err } = start();
    const [code] = await exit;
    expect([code, await err]).toEqual([1, expect.stringContaining("is longer than")]);
    const { created = 0, same = 0, refused } = JSON.parse((await out).trim()) as Record<string, number>;
    expect([created + same, refused]).toEqual([LINES + 1, 1]);
    expect(await count()).toBe(LINES + 1);
    const { items } = await stage.service.audit.list({ action: "account.imported", limit: 1 });
    expect(items).toHaveLength(1);
    const peaks = readdirSync(stage.path("."))
      .filter((name) => name.startsWith("peak-"))
      .map((name) => Number(readFileSync(stage.path(name), "utf8")) / 1024);
    expect(Math.max(...peaks)).toBeLessThan(250);
  },
  TIMEOUT_MS,
);
