#!/usr/bin/env node
/** The program `sign-in-service`: commands for operators. */
import { enableCompileCache } from "node:module";
import { createInterface } from "node:readline/promises";
import { text } from "node:stream/consumers";
import { configurationVariables, readEnvironment, readVariable } from "../config/environment.ts";
import { createSystemClock } from "../lib/clock.ts";
import { askWithoutEcho } from "./program/secret-input.ts";
import { onStopSignal } from "./program/stop-signals.ts";

/** The first signal stops the command after its current step. */
const stop = new AbortController();
onStopSignal(() => stop.abort());

async function ask(question: string): Promise<string> {
  // The terminal itself edits the line. Node's editor would leave listeners behind, and questions come one after another.
  const terminal = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  // At Ctrl+D, the question would never be answered.
  terminal.once("close", () => stop.abort());
  try {
    const { signal } = stop;
    const answer = await terminal.question(question, { signal });
    terminal.removeAllListeners("close");
    return answer;
  } finally {
    terminal.close();
  }
}

async function confirm(question: string): Promise<boolean> {
  return /^y(?:es)?$/iu.test((await ask(`${question} [y/N] `)).trim());
}

// The reader may close the pipe early, as `head` does. The command still finishes its work.
for (const output of [process.stdout, process.stderr]) output.on("error", () => undefined);

// Commands load most of the package. From the second run on, the compiled code is read from Node's cache.
enableCompileCache();
const { run } = await import("./program/run.ts");
process.exitCode = await run(process.argv.slice(2), {
  clock: createSystemClock(),
  readVariable,
  variables: configurationVariables(),
  environment: readEnvironment,
  out: process.stdout,
  err: process.stderr,
  signal: stop.signal,
  confirm: process.stdin.isTTY ? confirm : undefined,
  ask: process.stdin.isTTY ? ask : undefined,
  askSecret: process.stdin.isTTY
    ? (question) => askWithoutEcho(question, { input: process.stdin, output: process.stderr, stop })
    : undefined,
  readInput: () => text(process.stdin),
});
// What an interrupted command has begun, such as a connection, doesn't hold the process.
setTimeout(() => process.exit(), 100).unref();
