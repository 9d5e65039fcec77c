/**
 * An import as a process: killed at any moment, and how much memory it takes. With `TEST_IMPORT_LINES=1000000` the file is as long as that, and
 * the process is killed ten times.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { BY_NUMBER } from "../../../records/directory/directory-kinds.ts";
import { ROOT } from "../../examples/documents.ts";
import { bareEnvironment } from "../../examples/processes.ts";
import { TransferStage } from "./stage.ts";

const LINES = Number(process.env["TEST_IMPORT_LINES"] ?? 3_000);
const KILLS = LINES > 10_000 ? 10 : 3;
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

/** Starts the command. It reports its memory when it ends. */
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
    const peak = stage.path("peak");
    stage.write(
      "memory.mjs",
      `import { writeFileSync } from "node:fs";
     process.on("exit", () => writeFileSync(${JSON.stringify(peak)}, String(process.resourceUsage().maxRSS)));`,
    );
    for (let kill = 1; kill <= KILLS; kill += 1) {
      const { child, exit, out } = start();
      // Once so much is there that it must have been in the middle of the file.
      const goal = Math.floor((Math.random() * LINES) / KILLS) + (kill - 1) * Math.floor(LINES / KILLS);
      while (child.exitCode === null && (await count()) < goal)
        await new Promise((resolve) => setTimeout(resolve, 5));
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
    expect(Number(readFileSync(peak, "utf8")) / 1024).toBeLessThan(250);
  },
  TIMEOUT_MS,
);
