/** Runs a command line, and reports errors. */
import { ConfigurationError, SignInError, StorageUnavailable } from "../../lib/errors.ts";
import type { Surroundings } from "./command.ts";
import { CommandFailure, FAILED, INTERRUPTED, MISUSED, UNREACHABLE } from "./command-failure.ts";
import { buildProgram, explainUsage, isHelp } from "./program.ts";

/** The message of a wrong argument of a public call: it names the argument and never repeats its value. */
const WRONG_ARGUMENT = /^[a-z]\w*(?:\.\w+)*: /u;

function isWrongArgument(error: unknown): error is TypeError {
  return error instanceof TypeError && WRONG_ARGUMENT.test(error.message);
}

/** The error as a sentence, without a stack trace or an address. */
function sentenceOf(error: unknown): string {
  if (error instanceof CommandFailure) return error.message;
  if (error instanceof ConfigurationError) return error.problems.join("\n");
  if (error instanceof SignInError || isWrongArgument(error)) {
    const message = error.message.endsWith(".") ? error.message : `${error.message}.`;
    return message.slice(0, 1).toUpperCase() + message.slice(1);
  }
  const { name = "unknown error", code } = Object(error) as { name?: string; code?: unknown };
  return `An unexpected error: ${typeof code === "string" ? code : name}.`;
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommandFailure) return error.exitCode;
  if (error instanceof StorageUnavailable) return UNREACHABLE;
  return error instanceof ConfigurationError || isWrongArgument(error) ? MISUSED : FAILED;
}

/**
 * @param args the command line, without the program.
 * @returns the exit code: 0 done; 1 could not be done; 2 wrong usage or configuration; 3 a server can't be reached;
 * 130 interrupted.
 */
export async function run(args: readonly string[], surroundings: Surroundings): Promise<number> {
  let exitCode = 0;
  const program = buildProgram(surroundings, async (command, given) => {
    const carryOut = await command.load();
    exitCode = await carryOut(given, surroundings);
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    if (isHelp(error)) return 0;
    if (surroundings.signal.aborted && !(error instanceof CommandFailure)) {
      surroundings.err.write("Interrupted.\n");
      return INTERRUPTED;
    }
    const explained = explainUsage(error);
    surroundings.err.write(`${sentenceOf(explained)}\n`);
    return exitCodeOf(explained);
  }
}
