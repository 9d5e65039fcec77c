#!/usr/bin/env node
/** The program `sign-in-service`: what operators do beside the running service. */
import { createInterface } from "node:readline/promises";
import { readVariable } from "../config/environment.ts";
import { createSystemClock } from "../lib/clock.ts";
import { run } from "./run.ts";

/** The first signal ends the command between two steps; a second one ends the process at once. */
function stopSignal(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  return stop.signal;
}

async function confirm(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/iu.test((await terminal.question(`${question} [y/N] `)).trim());
  } finally {
    terminal.close();
  }
}

// Whoever reads may go away, such as `head`: what was begun is brought to its end all the same.
for (const output of [process.stdout, process.stderr]) output.on("error", () => undefined);

process.exitCode = await run(process.argv.slice(2), {
  clock: createSystemClock(),
  readVariable,
  out: process.stdout,
  err: process.stderr,
  signal: stopSignal(),
  confirm: process.stdin.isTTY ? confirm : undefined,
});
