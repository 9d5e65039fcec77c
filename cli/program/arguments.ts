/** The operands and options of a command. */
import { misused } from "./command-failure.ts";

type Value = string | boolean | readonly string[] | undefined;

const SECONDS_IN_UNIT: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Reads operands by their position and options by their name without dashes. Messages never contain a value. */
export class Arguments {
  readonly operands: readonly string[];
  readonly #options: ReadonlyMap<string, Value>;

  constructor(operands: readonly string[], options: ReadonlyMap<string, Value>) {
    this.operands = operands;
    this.#options = options;
  }

  /** A required operand. */
  operand(index: number): string {
    return this.operands[index] ?? "";
  }

  text(name: string): string | undefined {
    const value = this.#options.get(name);
    return typeof value === "string" ? value : undefined;
  }

  /** @throws CommandFailure if it is missing. */
  required(name: string): string {
    const value = this.text(name);
    if (value === undefined) throw misused(`--${name} is missing`);
    return value;
  }

  /** Whether the option was given. */
  has(name: string): boolean {
    return this.#options.get(name) !== undefined;
  }

  flag(name: string): boolean {
    return this.#options.get(name) === true;
  }

  /** The values of an option that may be given more than once; `undefined` if it was not given. */
  list(name: string): readonly string[] | undefined {
    const value = this.#options.get(name);
    return Array.isArray(value) ? value : undefined;
  }

  /** A whole number. @throws CommandFailure for anything else. */
  count(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    if (!/^[1-9]\d{0,8}$/u.test(text)) throw misused(`--${name} must be a whole number from 1`);
    return Number(text);
  }

  /** A port; 0 is any free one. @throws CommandFailure for anything else. */
  port(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    if (!/^\d{1,5}$/u.test(text) || Number(text) > 65_535)
      throw misused(`--${name} must be a whole number from 0 to 65535`);
    return Number(text);
  }

  /** A duration in seconds. @throws CommandFailure for anything else. */
  duration(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const [, digits = "", unit = ""] = /^(\d{1,6})([smhd])$/u.exec(text) ?? [];
    const seconds = SECONDS_IN_UNIT[unit];
    if (seconds === undefined) throw misused(`--${name} must be a duration such as 30s, 15m, 12h or 90d`);
    return Number(digits) * seconds;
  }

  /** One of these words. @throws CommandFailure for another one. */
  oneOf<const T extends string>(name: string, words: readonly T[]): T | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const word = words.find((each) => each === text);
    if (word === undefined) throw misused(`--${name} must be one of ${words.join(", ")}`);
    return word;
  }
}
