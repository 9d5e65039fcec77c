/** Options and operands of a command. */
import { parseArgs, type ParseArgsConfig } from "node:util";
import { misused } from "./command-failure.ts";

type Options = NonNullable<ParseArgsConfig["options"]>;

type Parsed<Known extends Options> = ReturnType<
  typeof parseArgs<{ options: Known; allowPositionals: true; args: string[] }>
>;

/** @throws CommandFailure with exit code 2. No sentence repeats an operand, which may hold a password. */
export function parseArguments<const Known extends Options>(
  args: readonly string[],
  options: Known,
): Parsed<Known> {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (cause) {
    // Node's own sentences name an option, never a value; without the advice that follows.
    const [sentence = ""] = (cause as Error).message.split(/\.\s|\n/);
    throw misused(sentence, cause);
  }
}
