// Runs jest once, in its own process group and with a time-out.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, relative } from "node:path";

/** Jest must end within this time after its last test. What is open after that is a leak. */
const EXIT_TIMEOUT_MS = 15_000;

const root = join(import.meta.dirname, "..");
const bin = join(root, "node_modules", ".bin");
const [major = 0] = process.versions.node.split(".").map(Number);
const node = major >= 24 ? process.execPath : join(bin, "node");

/** Kills jest and its child processes: they are one process group. */
function killGroup(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    // They have all ended already.
  }
}

/** jest looks at the pipe, not at the terminal behind it. */
function colours() {
  return process.stderr.isTTY && process.env.FORCE_COLOR === undefined ? { FORCE_COLOR: "1" } : {};
}

function spawnJest(outputFile, args, env) {
  return spawn(
    node,
    [
      "--disable-warning=ExperimentalWarning",
      join(root, "node_modules", "jest", "bin", "jest.js"),
      "--json",
      `--outputFile=${outputFile}`,
      ...args,
    ],
    {
      cwd: root,
      // With --json, jest prints its report for people on stderr.
      stdio: ["ignore", "inherit", "pipe"],
      env: {
        ...process.env,
        PATH: `${bin}${delimiter}${process.env.PATH ?? ""}`,
        NODE_ENV: "test",
        ...colours(),
        ...env,
      },
      detached: true,
    },
  );
}

/** Resolves with how jest ended, and with problems other than failed tests. */
function watch(child, outputFile, timeOut) {
  child.stderr.on("data", (chunk) => process.stderr.write(chunk));
  return new Promise((resolve) => {
    let problem;
    let doneAt;
    const stop = (why) => {
      if (problem !== undefined) return;
      problem = why;
      killGroup(child, "SIGTERM");
      setTimeout(() => killGroup(child, "SIGKILL"), 5_000).unref();
    };
    const late = setTimeout(() => stop("the tests are not ready in time"), timeOut);
    const look = setInterval(() => {
      if (!existsSync(outputFile)) return;
      doneAt ??= performance.now();
      if (performance.now() - doneAt > EXIT_TIMEOUT_MS)
        stop("the tests are over, but something that they opened is not closed");
    }, 250);
    const signals = ["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => [
      signal,
      () => stop(`stopped by ${signal}`),
    ]);
    for (const [signal, listener] of signals) process.on(signal, listener);
    const finish = (ended) => {
      clearTimeout(late);
      clearInterval(look);
      for (const [signal, listener] of signals) process.off(signal, listener);
      resolve({ problem, ended });
    };
    child.on("error", (error) => finish((problem ??= error.message)));
    child.on("exit", (code, signal) => {
      // Ends what jest left behind: it would keep the pipe open.
      killGroup(child, "SIGKILL");
      child.stderr.on("close", () => finish(signal ?? code));
      setTimeout(() => finish(signal ?? code), 2_000).unref();
    });
  });
}

/** What failed in a file, a line each with the beginning of its message. */
function failuresOf({ name, message, assertionResults }) {
  const where = relative(root, name);
  const failed = assertionResults.filter(({ status }) => status === "failed");
  if (failed.length === 0) return [`${where}\n${message}`];
  return failed.map(
    ({ fullName, failureMessages }) => `${where}: ${fullName}\n${failureMessages.join("\n")}`,
  );
}

/** Counts the tests in jest's report. A file that can't be loaded is a failed test. */
function count(outputFile) {
  if (!existsSync(outputFile)) return undefined;
  const report = JSON.parse(readFileSync(outputFile, "utf8"));
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + report.numRuntimeErrorTestSuites,
    skipped: report.numPendingTests + report.numTodoTests,
    failures: report.testResults.filter(({ status }) => status === "failed").flatMap(failuresOf),
  };
}

/**
 * Runs jest with these arguments and this environment, for at most `timeOut` milliseconds. Resolves with the numbers
 * of tests and the texts of failures. Every failure outside a test counts as a failed test. `stopped`: a signal ended it;
 * run nothing else.
 */
export async function runJest({ args, env, timeOut }) {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-service-test-"));
  const outputFile = join(folder, "report.json");
  const child = spawnJest(outputFile, args, { ...env, TEST_RUN_FOLDER: folder });
  const { problem, ended } = await watch(child, outputFile, timeOut);
  const result = count(outputFile);
  rmSync(folder, { recursive: true, force: true });

  const why = problem ?? (result === undefined ? "jest wrote no report" : undefined);
  if (why !== undefined) console.error(`\n!!! ${why}\n`);
  const { passed = 0, skipped = 0, failures = [] } = result ?? {};
  let failed = (result?.failed ?? 0) + (why === undefined ? 0 : 1);
  // jest may fail for a reason that is not in its report, such as a coverage threshold.
  if (ended !== 0 && failed === 0) failed = 1;
  return { passed, failed, skipped, failures, stopped: problem?.startsWith("stopped by") ?? false };
}
