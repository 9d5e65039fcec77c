/** Runs a command in the process of the test. */
import { readEnvironment } from "../../config/environment.ts";
import { COMMANDS } from "../../cli/commands.ts";
import type { CommandContext, CommandTable } from "../../cli/program/command.ts";
import { run } from "../../cli/program/program.ts";
import { createSystemClock } from "../../core/clock.ts";

export interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/**
 * @param context default: no variables, no terminal, and an empty standard input.
 * @param table default: the commands of the program.
 */
export async function here(
  words: readonly string[],
  context: Partial<CommandContext> = {},
  table: CommandTable = COMMANDS,
): Promise<Outcome> {
  const said = { out: "", err: "" };
  const code = await run(words, table, {
    clock: createSystemClock(),
    environment: () => readEnvironment({}),
    readVariable: () => undefined,
    variables: new Map(),
    out: { write: (part: string) => void (said.out += part) },
    err: { write: (part: string) => void (said.err += part) },
    signal: new AbortController().signal,
    readInput: async () => "",
    ...context,
  });
  return { code, ...said };
}
