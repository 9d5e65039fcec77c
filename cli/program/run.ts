/** Runs a command line, and reports errors. */
import type { Surroundings } from "./command.ts";
import { CommandFailure, exitCodeOf, INTERRUPTED, sentenceOf } from "./command-failure.ts";
import { buildProgram, explainUsage, isHelp } from "./program.ts";

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
