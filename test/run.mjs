// What `npm test` runs: jest, with what the tests need of the machine, a time-out around it all, and a
// count as the last line. Arguments go to jest: `npm test -- test/config`.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { prepareMachine } from "./machine.mjs";

/** Milliseconds for everything; a whole run takes a few minutes. */
const TIME_OUT = Number(process.env.TEST_TIMEOUT_SECONDS ?? 25 * 60) * 1000;
/** Milliseconds in which jest has to end after its last test: what is still open then was leaked. */
const GRACE = 15_000;
/** What jest says of a worker that did not end by itself; it is no failure for jest. */
const LEAKED = "failed to exit gracefully";

const root = join(import.meta.dirname, "..");
const bin = join(root, "node_modules", ".bin");
const [major = 0] = process.versions.node.split(".").map(Number);
const node = major >= 24 ? process.execPath : join(bin, "node");

/** Kills jest and everything that it started: they are one process group. */
function killGroup(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    // All of it has ended by itself.
  }
}

/** Runs jest; resolves with what went wrong beside failed tests. */
function runJest(outputFile) {
  const child = spawn(
    node,
    [
      "--experimental-vm-modules",
      "--disable-warning=ExperimentalWarning",
      join(root, "node_modules", "jest", "bin", "jest.js"),
      "--json",
      `--outputFile=${outputFile}`,
      ...process.argv.slice(2),
    ],
    {
      cwd: root,
      // With --json jest says on stderr what is for people.
      stdio: ["ignore", "inherit", "pipe"],
      env: {
        ...process.env,
        PATH: `${bin}${delimiter}${process.env.PATH ?? ""}`,
        NODE_ENV: "test",
        ...colours(),
      },
      detached: true,
    },
  );
  let said = "";
  child.stderr.on("data", (chunk) => {
    process.stderr.write(chunk);
    said = (said + chunk).slice(-20_000);
  });
  return new Promise((resolve) => {
    let problem;
    let doneAt;
    const stop = (why) => {
      if (problem !== undefined) return;
      problem = why;
      killGroup(child, "SIGTERM");
      setTimeout(() => killGroup(child, "SIGKILL"), 5_000).unref();
    };
    const timeOut = setTimeout(() => stop(`not ready after ${TIME_OUT / 1000} seconds`), TIME_OUT);
    const watch = setInterval(() => {
      if (!existsSync(outputFile)) return;
      doneAt ??= performance.now();
      if (performance.now() - doneAt > GRACE)
        stop("the tests are over, but something that they opened is not closed");
    }, 250);
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
      process.on(signal, () => stop(`stopped by ${signal}`));
    const finish = (ended) => {
      clearTimeout(timeOut);
      clearInterval(watch);
      if (said.includes(LEAKED)) problem ??= "a test left something open: its worker had to be killed";
      resolve({ problem, ended });
    };
    child.on("error", (error) => finish((problem ??= error.message)));
    child.on("exit", (code, signal) => {
      // Whatever jest left behind ends with it, and must not keep its end of the pipe open.
      killGroup(child, "SIGKILL");
      child.stderr.on("close", () => finish(signal ?? code));
      setTimeout(() => finish(signal ?? code), 2_000).unref();
    });
  });
}

/** jest asks the pipe for colours, not the terminal behind it. */
function colours() {
  return process.stderr.isTTY && process.env.FORCE_COLOR === undefined ? { FORCE_COLOR: "1" } : {};
}

/** Passed and failed tests of jest's report; a file that can't be loaded is a failed test. */
function count(outputFile) {
  if (!existsSync(outputFile)) return undefined;
  const report = JSON.parse(readFileSync(outputFile, "utf8"));
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + report.numRuntimeErrorTestSuites,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}

const missing = prepareMachine();
for (const sentence of missing) console.error(`\n!!! ${sentence}\n`);
const folder = mkdtempSync(join(tmpdir(), "sign-in-service-test-"));
const outputFile = join(folder, "report.json");
const { problem, ended } = await runJest(outputFile);
const result = count(outputFile);
rmSync(folder, { recursive: true, force: true });

const why = problem ?? (result === undefined ? "jest wrote no report" : undefined);
if (why !== undefined) console.error(`\n!!! ${why}\n`);
const { passed = 0, skipped = 0 } = result ?? {};
let failed = (result?.failed ?? 0) + (why === undefined ? 0 : 1);
if (process.env.CI === "true") failed += missing.length;
// jest may fail for a reason that is not in its report, such as a coverage threshold.
if (ended !== 0 && failed === 0) failed = 1;
if (skipped > 0) console.log(`${skipped} skipped`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
