/** The interface of commands, and the context in which they run. */
import type { Environment } from "../../config/environment.ts";
import type { Clock } from "../../core/clock.ts";
import type { Arguments } from "./arguments.ts";
import type { Output } from "./progress.ts";

/** The value of an environment variable; `undefined` if it is not set. */
export type ReadVariable = (name: string) => string | undefined;

/** What a command may use of its process. */
export interface CommandContext {
  readonly clock: Clock;
  /** Any variable of the environment that the operator names. */
  readonly readVariable: ReadVariable;
  /** The variables of the configuration: all that begin with `SIGN_IN_`. */
  readonly variables: ReadonlyMap<string, string>;
  /** Reads PORT, HOST and LOG_LEVEL. @throws ConfigurationError with all problems. */
  readonly environment: () => Environment;
  /** Results. */
  readonly out: Output;
  /** Progress, questions and errors. */
  readonly err: Output;
  /** Aborted when the process should stop. */
  readonly signal: AbortSignal;
  /** Asks the operator a yes-or-no question. Missing without a terminal. */
  readonly confirm?: ((question: string) => Promise<boolean>) | undefined;
  /** Asks for a line of text. Missing without a terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
  /** Asks for a secret without showing it. Missing without a terminal. */
  readonly askSecret?: ((question: string) => Promise<string>) | undefined;
  /** Reads standard input to its end. */
  readonly readInput: () => Promise<string>;
}

/** An operand or option as `--help` shows it. */
export interface Described {
  /** `SUB`, `[FILE]`, or `[WORD...]` for any number; of an option `--yes` or `--client ID`. */
  readonly form: string;
  /** What it means: a phrase without a full stop. */
  readonly about: string;
  /** Everything that can stand there, if that is a short list. */
  readonly values?: readonly string[] | undefined;
}

export interface CommandOption extends Described {
  /** Whether it may be given more than once. */
  readonly isList?: true | undefined;
}

/**
 * @returns the exit code: 0, or 1 when a problem was found.
 * @throws CommandFailure, or an error of the storage.
 */
export type Run = (args: Arguments, context: CommandContext) => Promise<number>;

export interface Command {
  /** The words that call it. */
  readonly words: readonly [string] | readonly [noun: string, verb: string];
  /** One line for the list of commands. */
  readonly summary: string;
  /** Paragraphs for `--help`. */
  readonly about?: string;
  readonly operands?: readonly Described[];
  readonly options?: readonly CommandOption[];
  /** Calls for `--help` and the documentation, without the name of the program. */
  readonly examples: readonly string[];
  /** Loads the code of the command. The service is loaded only then, so that `--help` is fast. */
  readonly load: () => Promise<Run>;
}

/** All commands, in the order of `--help`. */
export interface CommandTable {
  /** The nouns that commands begin with, and what they are about. */
  readonly nouns: Readonly<Record<string, string>>;
  readonly commands: readonly Command[];
}
