/** `completion`: what a shell offers at Tab. The scripts ask the program, so they know every command of its version. */
import type { Command, CommandOption, CommandTable, Described } from "./program/command.ts";
import { misused } from "./program/command-failure.ts";

/** The line that asks the shell for its own completion of paths. */
const FILES = ":files";

/** bash splits words at `=` and `:`, and adds what it gets after the last of them. */
const BASH = `_sign_in_service() {
  local value about word=\${COMP_WORDS[COMP_CWORD]}
  [[ $word == [=:] ]] && word=
  COMPREPLY=()
  while IFS=$'\\t' read -r value about; do
    if [[ $value == ${FILES} ]]; then
      compopt -o filenames
      while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -f -- "$word")
    else
      [[ $word != --* && $value == --*=* ]] && value=\${value#*=}
      COMPREPLY+=("$value")
    fi
  done < <("\${COMP_WORDS[0]}" completion bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _sign_in_service sign-in-service
`;

const ZSH = `#compdef sign-in-service
_sign-in-service() {
  local line
  local -a offers
  while IFS= read -r line; do
    if [[ $line == ${FILES} ]]; then
      [[ $PREFIX == --*=* ]] && compset -P '*='
      _files
    else
      offers+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    fi
  done < <("\${words[1]}" completion zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  (( $#offers )) && _describe sign-in-service offers
}
if [[ $funcstack[1] == _sign-in-service ]]; then _sign-in-service "$@"; else compdef _sign-in-service sign-in-service; fi
`;

const FISH = `function __sign_in_service
  set -l words (commandline -opc)
  set -l word (commandline -ct)
  for line in ($words[1] completion fish -- $words[2..-1] "$word" 2>/dev/null)
    if test "$line" = ${FILES}
      __fish_complete_path (string replace -r '^--[^=]*=' '' -- "$word")
    else
      echo $line
    end
  end
end
complete -c sign-in-service -f -a '(__sign_in_service)'
`;

const SCRIPTS: Readonly<Record<string, string>> = { bash: BASH, zsh: ZSH, fish: FISH };
const SHELLS = Object.keys(SCRIPTS);

/** Something that can follow, and what it means. */
export type Offer = readonly [value: string, about: string];

const HELP: Offer = ["--help", "shows the options and an example"];
const FIRST: readonly Offer[] = [
  ["help", "explains a command"],
  ["--version", "shows the version"],
];

const isOption = (word: string): boolean => word.startsWith("--");

/** `--client` and `CLIENT` of `--client CLIENT`. */
function partsOf({ form }: CommandOption): readonly [name: string, value: string | undefined] {
  const [name = "", value] = form.split(" ");
  return [name, value];
}

/** What can stand for `FILE`, `yes|no`, or one of a few. @param before what stands in front of it in the same word. */
function valuesOf({ form, values }: Described, before = ""): readonly Offer[] {
  const place = form.replaceAll(/^--\S+ |[[\]]/gu, "");
  if (place === "FILE") return [[FILES, ""]];
  const all = values ?? (place === "yes|no" ? ["yes", "no"] : []);
  return all.map((value) => [`${before}${value}`, ""]);
}

/** The words that a command begins with. */
function wordsAfter({ nouns, commands }: CommandTable, given: readonly string[]): readonly Offer[] {
  const [noun, ...more] = given;
  const isNext = ({ words: [first, verb] }: Command): boolean =>
    noun === undefined ? verb === undefined : first === noun && verb !== undefined && more.length === 0;
  const all = commands.filter(isNext).map(({ words, summary }): Offer => [words.at(-1) ?? "", summary]);
  return noun === undefined ? [...all, ...Object.entries(nouns)] : all;
}

/** What can follow a command. @param given its arguments. @param word the one that is being typed. */
function argumentsAfter(
  { operands = [], options = [] }: Command,
  given: readonly string[],
  word: string,
): readonly Offer[] {
  const byName = new Map(options.map((option) => [partsOf(option)[0], option]));
  const taken = new Set<string>();
  let waiting: CommandOption | undefined;
  let typed = 0;
  let hasEnded = false;
  for (const each of given) {
    if (waiting !== undefined) waiting = undefined;
    else if (each === "--" && !hasEnded) hasEnded = true;
    else if (!isOption(each) || hasEnded) typed += 1;
    else {
      const [name = "", value] = each.split("=", 2);
      const option = byName.get(name);
      if (option?.isList !== true) taken.add(name);
      if (option !== undefined && value === undefined && partsOf(option)[1] !== undefined) waiting = option;
    }
  }
  if (waiting !== undefined) return valuesOf(waiting);
  const [name = ""] = word.split("=", 1);
  const assigned = word.includes("=") ? byName.get(name) : undefined;
  if (assigned !== undefined && !hasEnded) return valuesOf(assigned, `${name}=`);
  const operand = operands[typed];
  const offers = isOption(word) || operand === undefined ? [] : valuesOf(operand);
  if (offers.length > 0 || hasEnded) return offers;
  const left = options.map((option): Offer => [partsOf(option)[0], option.about]);
  return [...left, HELP].filter(([each]) => !taken.has(each));
}

/** The words as they were typed, where a shell has split them at `=` and `:`. */
function joined(words: readonly string[]): readonly string[] {
  const all: string[] = [];
  for (const [index, word] of words.entries()) {
    const before = words[index - 1] ?? "";
    const belongs = index > 0 && (/^[=:]+$/u.test(word) || /^[=:]+$/u.test(before));
    if (belongs) all.push(`${all.pop() ?? ""}${word}`);
    else all.push(word);
  }
  return all;
}

/** What can stand in place of the last of these words, which has been typed so far. They follow the program. */
export function offersFor(table: CommandTable, typed: readonly string[]): readonly Offer[] {
  const words = joined(typed);
  const [word, given] = [words.at(-1) ?? "", words.slice(0, -1)];
  const [noun = "", verb] = given;
  const command = table.commands.find(
    ({ words: [first, second] }) => first === noun && (second === undefined || second === verb),
  );
  if (command !== undefined)
    return startingWith(word, argumentsAfter(command, given.slice(command.words.length), word));
  if (noun === "help") return startingWith(word, wordsAfter(table, given.slice(1)));
  const first = given.length === 0 ? FIRST : [];
  return startingWith(word, [...wordsAfter(table, given), ...first, ...(isOption(word) ? [HELP] : [])]);
}

function startingWith(word: string, offers: readonly Offer[]): readonly Offer[] {
  return offers.filter(([value]) => value === FILES || value.startsWith(word));
}

/** @param table of all commands, this one among them. */
export function completionCommand(table: () => CommandTable): Command {
  return {
    words: ["completion"],
    summary: "prints a script with which a shell completes commands",
    about: `The script asks this program at each Tab for what can follow: commands, options, and values of which there are few. For that, no
configuration is read and no storage opened. With words after the shell and --, prints what the script would get for them.`,
    operands: [
      { form: "SHELL", about: "bash, zsh or fish", values: SHELLS },
      { form: "[WORD...]", about: "words after the program, the last of them not complete" },
    ],
    options: [],
    examples: ["completion bash", "completion fish -- accounts f"],
    load: async () => async (args, context) => {
      const script = Object.hasOwn(SCRIPTS, args.operand(0)) ? SCRIPTS[args.operand(0)] : undefined;
      if (script === undefined) throw misused(`SHELL must be one of ${SHELLS.join(", ")}`);
      const words = args.operands.slice(1);
      // A shell passes on the word at the cursor, even if nothing of it is typed.
      const offers = offersFor(table(), words).map((offer) => `${offer.join("\t").trimEnd()}\n`);
      context.out.write(words.length === 0 ? script : offers.join(""));
      return 0;
    },
  };
}
