/** The command line in its process: the terminal, the environment and the signals. */
import { createInterface } from "node:readline/promises";
import { text } from "node:stream/consumers";
import type * as ProcessEnvironment from "../../config/environment.ts";
import { createSystemClock } from "../../core/clock.ts";
import type { CommandTable } from "./command.ts";
import { run } from "./program.ts";
import { askWithoutEcho } from "./secret-input.ts";
import { onStopSignal } from "./stop-signals.ts";

async function ask(question: string, stop: AbortController): Promise<string> {
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

async function confirm(question: string, stop: AbortController): Promise<boolean> {
  return /^y(?:es)?$/iu.test((await ask(`${question} [y/N] `, stop)).trim());
}

/**
 * Runs a command line.
 * @param args without the program.
 * @param environment reads the environment variables.
 * @returns the exit code.
 */
export async function runProcess(
  args: readonly string[],
  table: CommandTable,
  { readVariable, configurationVariables, readEnvironment }: typeof ProcessEnvironment,
): Promise<number> {
  // The first signal stops the command after its current step.
  const stop = new AbortController();
  onStopSignal(() => stop.abort());
  // The reader may close the pipe early, as `head` does. The command still finishes its work.
  for (const output of [process.stdout, process.stderr]) output.on("error", () => undefined);
  const { isTTY } = process.stdin;
  return run(args, table, {
    clock: createSystemClock(),
    readVariable,
    variables: configurationVariables(),
    environment: readEnvironment,
    out: process.stdout,
    err: process.stderr,
    signal: stop.signal,
    confirm: isTTY ? (question) => confirm(question, stop) : undefined,
    ask: isTTY ? (question) => ask(question, stop) : undefined,
    askSecret: isTTY
      ? (question) => askWithoutEcho(question, { input: process.stdin, output: process.stderr, stop })
      : undefined,
    readInput: () => text(process.stdin),
  });
}
