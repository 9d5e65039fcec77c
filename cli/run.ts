/** Finds a command by its words, runs it, and reports errors. */
import { SignInError } from "../lib/errors.ts";
import type { Command, Surroundings } from "./command.ts";
import { CommandFailure, FAILED, misused } from "./command-failure.ts";
import { migrateCommand } from "./migrate.ts";
import { storageCheck } from "./storage-check.ts";
import { storageCopy } from "./storage-copy.ts";

/** All commands. */
const COMMANDS: readonly Command[] = [migrateCommand, storageCopy, storageCheck];

function overview(): string {
  const width = Math.max(...COMMANDS.map(({ words }) => words.join(" ").length)) + 2;
  const lines = COMMANDS.map(({ words, summary }) => `  ${words.join(" ").padEnd(width)}${summary}`);
  return [
    "Usage: sign-in-service COMMAND [options]",
    "",
    ...lines,
    "",
    "Run COMMAND --help for details.",
    "",
  ].join("\n");
}

const HELP: ReadonlySet<string> = new Set(["--help", "-h"]);

function find(args: readonly string[]): Command | undefined {
  return COMMANDS.find(({ words }) => words.every((word, index) => args[index] === word));
}

async function call(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const command = find(args);
  const wantsHelp = args.some((word) => HELP.has(word));
  if (wantsHelp) {
    surroundings.out.write(command?.usage ?? overview());
    return 0;
  }
  if (command === undefined) throw misused(args.length === 0 ? "A command is missing" : "Unknown command");
  return command.run(args.slice(command.words.length), surroundings);
}

/** The error as a sentence, without a stack trace or an address. */
function sentenceOf(error: unknown): string {
  if (error instanceof CommandFailure) return error.message;
  if (error instanceof SignInError) return `${error.message}.`;
  const { name = "unknown error", code } = Object(error) as { name?: string; code?: unknown };
  return `An unexpected error: ${typeof code === "string" ? code : name}.`;
}

/**
 * @param args the command line, without the program.
 * @returns the exit code: 0 done, 1 a problem, 2 wrong arguments.
 */
export async function run(args: readonly string[], surroundings: Surroundings): Promise<number> {
  try {
    return await call(args, surroundings);
  } catch (error) {
    surroundings.err.write(`${sentenceOf(error)}\n`);
    return error instanceof CommandFailure ? error.exitCode : FAILED;
  }
}
