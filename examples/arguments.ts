/** Reads the arguments of the examples. Each error is one sentence. */
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { misused, nearestOption } from "../cli/program/command-failure.ts";

/** The values of the options that were given. */
export type Values<T extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ args: string[]; options: T }>
>["values"];

/** @throws CommandFailure with exit code 2. */
export function parseArguments<T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
): Values<T> {
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (cause) {
    // The message of Node.js, without its advice about positional arguments.
    const [sentence = ""] = (cause as Error).message.split(/\.\s|\n/);
    const [, option] = /^Unknown option '--([\w-]+)'/u.exec(sentence) ?? [];
    throw misused(
      option === undefined ? sentence : sentence + nearestOption(option, Object.keys(options)),
      cause,
    );
  }
}

/** Reads a number without a sign. @throws CommandFailure with exit code 2. */
export function toNumber(name: string, text: string, most: number): number {
  const value = Number(text);
  if (/^\d+(?:\.\d+)?$/.test(text) && value <= most) return value;
  throw misused(`${name} must be a number from 0 to ${most}`);
}

/** Reads a whole number. @throws CommandFailure with exit code 2. */
export function toWhole(name: string, text: string, [least, most]: readonly [number, number]): number {
  const value = Number(text);
  if (/^\d{1,10}$/.test(text) && value >= least && value <= most) return value;
  throw misused(`${name} must be a whole number from ${least} to ${most}`);
}

/** @throws CommandFailure with exit code 2. */
export function toPort(text: string, name = "--port"): number {
  return toWhole(name, text, [0, 65_535]);
}

/** Reads the file name of `--config`. @throws CommandFailure with exit code 2. */
export function toConfigFile(text: string | undefined): string | undefined {
  if (text === "") throw misused("--config needs the name of a file");
  return text;
}
