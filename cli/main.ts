#!/usr/bin/env node
/** The program `sign-in-service`: what operators do beside the running service. */
import { readVariable } from "../config/environment.ts";
import { createSystemClock } from "../lib/clock.ts";
import { run } from "./run.ts";

/** The first signal ends the command between two steps; a second one ends the process at once. */
function stopSignal(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  return stop.signal;
}

// Whoever reads may go away, such as `head`: what was begun is brought to its end all the same.
for (const output of [process.stdout, process.stderr]) output.on("error", () => undefined);

process.exitCode = await run(process.argv.slice(2), {
  clock: createSystemClock(),
  readVariable,
  out: process.stdout,
  err: process.stderr,
  signal: stopSignal(),
});
