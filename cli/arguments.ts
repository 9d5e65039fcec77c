/** Options and operands of a command. */
import { parseArgs, type ParseArgsConfig } from "node:util";
import { misused } from "./command-failure.ts";

type Options = NonNullable<ParseArgsConfig["options"]>;

type Parsed<Known extends Options> = ReturnType<
  typeof parseArgs<{ options: Known; allowPositionals: true; args: string[] }>
>;

/** @throws CommandFailure with exit code 2. The message never contains an operand, which may hold a password. */
export function parseArguments<const Known extends Options>(
  args: readonly string[],
  options: Known,
): Parsed<Known> {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (cause) {
    // Node's messages name options, never values. The advice that follows is cut off.
    const [sentence = ""] = (cause as Error).message.split(/\.\s|\n/);
    throw misused(sentence, cause);
  }
}
