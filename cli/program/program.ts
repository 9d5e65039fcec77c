/** Builds the command line from the table of commands, and runs it. */
import { Command as Program, CommanderError } from "commander";
import { packageVersion } from "../../core/package-version.ts";
import type { Command, CommandOption, CommandContext, CommandTable } from "./command.ts";
import { CommandFailure, exitCodeOf, INTERRUPTED, misused, sentenceOf } from "./command-failure.ts";
import { Arguments } from "./arguments.ts";
import { printable } from "./printable.ts";

const ABOUT = `Runs a sign-in service, and administers its accounts, clients, notifications, keys and storage. Commands work on the
storage directly, while the server runs.`;

const AFTER = `
help COMMAND, or --help after it, shows the options of a command and an example.
Durations are 30s, 15m, 12h or 90d. With --json, the output is one JSON object a line.
Exit codes: 0 done; 1 could not be done; 2 wrong usage or configuration; 3 the storage or another server can't be
reached; 130 interrupted.
`;

/** `--client ID` as commander writes it. */
function withBrackets({ form }: CommandOption): string {
  return form.replace(/ (\S+)$/u, " <$1>");
}

/** The name of an option without its dashes and its value. */
function nameOf({ form }: CommandOption): string {
  return form.slice(2).replace(/ .*$/u, "");
}

/** What commander calls the value of this option. */
function attributeOf(name: string): string {
  return name.replaceAll(/-(\w)/gu, (_dash, letter: string) => letter.toUpperCase());
}

function collect(value: string, values: readonly string[] | undefined): readonly string[] {
  return [...(values ?? []), value];
}

/** The usage without the brackets of required operands, as in the documentation. */
function bare(text: string): string {
  return text.replaceAll(/[<>]/gu, "");
}

function addCommand(
  parent: Program,
  command: Command,
  onCall: (command: Command, args: Arguments) => Promise<void>,
): void {
  const { words, summary, about, operands = [], options = [], examples } = command;
  // Its message about too many operands does not name them.
  const program = parent
    .command(words.at(-1) ?? "")
    .summary(summary)
    .allowExcessArguments(true);
  // commander wraps each line: a paragraph must be one.
  const paragraphs = about === undefined ? "" : `\n\n${about.replaceAll(/(?<!\n)\n(?!\n)/gu, " ")}`;
  program.description(`${capitalised(summary)}.${paragraphs}`);
  for (const { form, about: meaning } of operands) {
    program.argument(form.startsWith("[") ? form : `<${form}>`, meaning);
  }
  for (const option of options) {
    if (option.isList) program.option(withBrackets(option), option.about, collect);
    else program.option(withBrackets(option), option.about);
  }
  const calls = examples.map((example) => `  sign-in-service ${example}`).join("\n");
  program.addHelpText("after", `\nExample${examples.length === 1 ? "" : "s"}:\n${calls}`);
  program.action(async () => {
    const takesMore = operands.at(-1)?.form.endsWith("...]") === true;
    if (!takesMore && program.args.length > operands.length)
      throw tooMany(command, program.args.slice(operands.length));
    const values: Readonly<Record<string, string | boolean | readonly string[] | undefined>> = program.opts();
    const named = options.map((option) => {
      const name = nameOf(option);
      // commander keeps --no-client as the value false of client.
      if (name.startsWith("no-"))
        return [name, values[attributeOf(name.slice(3))] === false || undefined] as const;
      return [name, values[attributeOf(name)]] as const;
    });
    await onCall(command, new Arguments(program.args, new Map(named)));
  });
}

/** Commands that ask for a secret, which somebody may have typed as an operand. */
function takesSecret({ words, options = [] }: Command): boolean {
  return [...words, ...options.map(({ form }) => form)].some((each) => /password|secret/u.test(each));
}

/** The failure for operands that a command does not have. Passwords, also those in addresses, are not shown. */
function tooMany(command: Command, rest: readonly string[]): CommandFailure {
  const { words, operands = [] } = command;
  const takes = `${words.join(" ")} takes ${operands.length === 0 ? "none" : operands.map(({ form }) => form).join(" ")}`;
  if (takesSecret(command))
    return misused(`Too many arguments: ${takes}, and asks for a secret or reads it from standard input`);
  const named = rest.map((each) => `'${printable(each).replace(/(?<=:\/\/).*/u, "…")}'`).join(", ");
  return misused(`Too many arguments: ${named}. ${takes}; put quotes around a value with spaces`);
}

function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/**
 * @param argv the command line. Nouns that are not in it get no commands: a start need not wait for all their options.
 * @param onCall carries out a command.
 */
function buildProgram(
  argv: readonly string[],
  { commands, nouns }: CommandTable,
  { out }: Pick<CommandContext, "out">,
  onCall: (command: Command, args: Arguments) => Promise<void>,
): Program {
  const program = new Program("sign-in-service")
    .description(ABOUT)
    .helpOption("--help", "shows this text")
    .version(packageVersion(), "--version", "shows the version")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void out.write(text),
      writeErr: () => undefined,
      outputError: () => undefined,
    })
    .configureHelp({
      helpWidth: 120,
      optionTerm: ({ flags }) => bare(flags),
      subcommandTerm: (each) => each.name(),
      argumentTerm: (each) => each.name(),
      commandUsage: usageOf,
    })
    .addHelpText("after", AFTER);
  for (const command of commands.filter(({ words }) => words.length === 1)) {
    addCommand(program, command, onCall);
  }
  for (const [noun, about] of Object.entries(nouns)) {
    const parent = program
      .command(noun)
      .summary(about)
      .description(`${capitalised(about)}.`);
    if (!argv.includes(noun)) continue;
    for (const command of commands.filter(
      ({ words: [first, verb] }) => first === noun && verb !== undefined,
    )) {
      addCommand(parent, command, onCall);
    }
  }
  return program;
}

/** `sign-in-service accounts find NAME [options]`. */
function usageOf(program: Program): string {
  const names: string[] = [];
  for (let each: Program | null = program; each !== null; each = each.parent) names.unshift(each.name());
  if (program.commands.length > 0) return [...names, "COMMAND"].join(" ");
  const operands = program.registeredArguments.map((each) =>
    each.required ? each.name() : `[${each.name()}${each.variadic ? "..." : ""}]`,
  );
  return [...names, ...operands, "[options]"].join(" ");
}

/** Whether the help or the version was shown, so that there is nothing more to do. */
function isHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.exitCode === 0;
}

/** What is missing after these words. */
function missingCommand({ commands }: CommandTable, [noun = ""]: readonly string[]): string {
  const verbs = commands.flatMap(({ words: [first, verb] }) => (first === noun && verb ? [verb] : []));
  return verbs.length === 0 ? "A command is missing" : `${noun} needs one of ${verbs.join(", ")}`;
}

/**
 * The error of commander as a sentence. Its messages can contain an operand or a value, which may be a password: only the
 * names of options, and its suggestion, are taken from them.
 */
function explainUsage(error: unknown, table: CommandTable, args: readonly string[]): unknown {
  if (!(error instanceof CommanderError)) return error;
  const [, option = ""] = /'(--?[\w-]*)[^']*'/u.exec(error.message) ?? [];
  const [, operand = ""] = /argument '(\w+)'/u.exec(error.message) ?? [];
  const [, nearest] = /\n\(Did you mean (?:one of )?([\w, -]+)\?\)$/u.exec(error.message) ?? [];
  const hint = nearest === undefined ? "" : `; did you mean ${nearest.replace(/, (?=[^,]*$)/u, " or ")}?`;
  switch (error.code) {
    case "commander.help":
      return misused(missingCommand(table, args), error);
    case "commander.unknownCommand":
      return misused(`Unknown command${hint}`, error);
    case "commander.unknownOption":
      // All options begin with two dashes.
      return misused(
        `Unknown option '${option}'${option.startsWith("--") ? hint : ". If it is a value, put -- before it"}`,
        error,
      );
    case "commander.optionMissingArgument":
      return misused(`${option} needs a value`, error);
    case "commander.missingArgument":
      return misused(`${operand} is missing`, error);
    default:
      return misused("This can't be understood", error);
  }
}

/** `help`, `help COMMAND`, `accounts help find` and no arguments, as calls of `--help`. */
function withHelp(argv: readonly string[], { commands, nouns }: CommandTable): readonly string[] {
  const at = argv.slice(0, 2).indexOf("help");
  if (argv.length > 0 && at < 0) return argv;
  const words = argv.filter((_word, index) => index !== at);
  const [noun = "", verb = ""] = words.filter((word) => !word.startsWith("-"));
  const isKnown =
    words.length === 0 ||
    (Object.hasOwn(nouns, noun) && verb === "") ||
    commands.some(({ words: [first, second = verb] }) => first === noun && second === verb);
  // A command that does not exist is reported, and nothing else can run.
  return isKnown ? [...words, "--help"] : words;
}

/**
 * Runs a command line, and reports errors.
 *
 * @param argv the command line, without the program.
 * @returns the exit code: 0 done; 1 could not be done; 2 wrong usage or configuration; 3 a server can't be reached;
 * 130 interrupted.
 */
export async function run(
  argv: readonly string[],
  table: CommandTable,
  context: CommandContext,
): Promise<number> {
  let exitCode = 0;
  const words = withHelp(argv, table);
  const program = buildProgram(words, table, context, async (command, args) => {
    const carryOut = await command.load();
    exitCode = await carryOut(args, context);
  });
  try {
    await program.parseAsync(words, { from: "user" });
    return exitCode;
  } catch (error) {
    if (isHelp(error)) return 0;
    if (context.signal.aborted && !(error instanceof CommandFailure)) {
      context.err.write("Interrupted.\n");
      return INTERRUPTED;
    }
    const explained = explainUsage(error, table, words);
    context.err.write(`${sentenceOf(explained)}\n`);
    return exitCodeOf(explained);
  }
}
