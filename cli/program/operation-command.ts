/** The command of an operation: operands, options, confirmation and what is printed follow from its row. */
import { z } from "zod";
import {
  type AnyRow,
  type AnyTable,
  invoke,
  isOn,
  membersOf,
  type Page,
} from "../../accounts/operations/operation.ts";
import { bare } from "../../config/documented-schema.ts";
import { pagesOf } from "../../core/pages.ts";
import { OPERATION_TEXTS, phraseOf, plainText } from "../../administration/operation-texts.ts";
import { CALLS, kebab, type Noun, rowsOf, TABLES } from "../../administration/tables.ts";
import type { SignInService } from "../../lib/service.ts";
import { findSub } from "./account-name.ts";
import type { Command, Described } from "./command.ts";
import { misused } from "./command-failure.ts";
import { type Call, onService, unknown } from "./on-service.ts";
import { asks, asksAlways, exampleOf, operandOf, optionsOf, readInput } from "./operation-options.ts";

/** What a command has read for an operation. */
export interface Read {
  /** The target as it was typed: an account may be named by its e-mail address. */
  readonly named: string;
  readonly target: readonly string[];
  readonly input: Readonly<Record<string, unknown>>;
}

/** A command with a code of its own. It calls the service and prints. */
export type ByHand = (call: Call, read: Read) => Promise<void>;

const capitalized = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** How many items of a list a command reads at a time. */
export const PAGE = 500;

const isEmpty = (value: unknown): boolean =>
  value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0);

/** Values of the record that would be removed for good. Numbers, answers and choices have defaults instead. */
function losses(before: object, input: Readonly<Record<string, unknown>>, row: AnyRow): string[] {
  const final: readonly string[] = row.final ?? [];
  return Object.entries(membersOf(row)).flatMap(([member, schema]) => {
    if (row.effect !== "put" && !(final.includes(member) && member in input)) return [];
    if (bare(schema) instanceof z.ZodEnum) return [];
    const was: unknown = Reflect.get(before, member);
    const is = input[member] ?? schema.safeParse(undefined).data;
    return isLost(was, is) ? [member] : [];
  });
}

function isLost(was: unknown, is: unknown): boolean {
  if (Array.isArray(was)) return was.some((each) => !(Array.isArray(is) && is.includes(each)));
  return typeof was !== "number" && typeof was !== "boolean" && !isEmpty(was) && isEmpty(is);
}

/** Asks before something is lost. What it is about has to exist. */
async function ask(
  call: Call,
  { noun, rows }: AnyTable,
  words: string,
  row: AnyRow,
  read: Read,
  calls: object,
): Promise<void> {
  const { target, input } = read;
  const { named: name } = read;
  const { find } = rows;
  if (!asks(row)) return undefined;
  if (find?.target.join() !== row.target.join()) return asksAlways(row) ? confirmed() : undefined;
  const before = await invoke(calls, "find", find, { target, input: {}, options: {} });
  if (!asksAlways(row)) {
    const lost = before === undefined ? [] : losses(before as object, input, row);
    return lost.length > 0 ? call.confirm(`Remove the ${lost.join(" and the ")} of ${name}?`) : undefined;
  }
  if (before === undefined) throw unknown(noun);
  return confirmed();

  function confirmed(): Promise<void> {
    const summary = phraseOf(OPERATION_TEXTS.operations[words]?.summary ?? "");
    return row.confirm === "typed"
      ? call.confirmTyped(`${capitalized(summary)}.`, name)
      : call.confirm(`${capitalized(summary)}: ${name}?`);
  }
}

/** `Removed: news`. */
function participle(verb: string): string {
  return capitalized(
    kebab(verb)
      .replaceAll("-", " ")
      .replace(/^(\w+?)e?\b/u, "$1ed"),
  );
}

async function print(
  call: Call,
  verb: string,
  row: AnyRow,
  { target }: Read,
  result: unknown,
): Promise<void> {
  if (Array.isArray(result)) call.print.rows(result as object[], row.columns);
  else if (typeof result === "object" && result !== null) call.print.record(result);
  else
    call.print.done(
      `${participle(verb)}: ${target.join(" ")}`,
      Object.fromEntries(row.target.map((name, index) => [name, target[index]])),
    );
}

/** Prints the pages of a list. */
export async function printList(
  call: Call,
  verb: string,
  row: AnyRow,
  { target, input }: Read,
  calls: object,
): Promise<void> {
  let left = call.args.count("limit") ?? row.latest ?? Infinity;
  const pages = pagesOf(async (after) => {
    call.context.signal.throwIfAborted();
    const page = { ...input, limit: Math.min(PAGE, left), ...(after !== undefined && { after }) };
    return (await invoke(calls, verb, row, { target, input: page, options: {} })) as Page<object>;
  });
  for await (const { items } of pages) {
    call.print.rows(items, row.columns);
    left -= items.length;
    if (left <= 0) return;
  }
}

/** The words that name a target of the command, and what must stand there literally. */
function wordsOf(
  noun: string,
  verb: string,
  { words }: AnyRow,
): { readonly words: [string, string]; readonly fixed: string[] } {
  const [first = noun, second = kebab(verb), ...fixed] = words?.split(" ") ?? [];
  return { words: [first, second], fixed };
}

/** The command of an operation. @param callsOf the object that has the calls of the table. @param byHand replaces what it does after the arguments are read. */
export function commandOf(
  noun: string,
  verb: string,
  table: AnyTable,
  callsOf: (service: SignInService) => object,
  byHand?: ByHand,
): Command {
  const row = table.rows[verb] as AnyRow;
  const name = `${noun}.${verb}`;
  const texts = OPERATION_TEXTS.operations[name];
  const summary = phraseOf(texts?.summary ?? "");
  const about = texts?.about?.split("\n\n").map(plainText).join("\n\n");
  const members = Object.fromEntries(
    Object.entries(texts?.members ?? {}).map(([member, sentence]) => [member, phraseOf(sentence)]),
  );
  const { words, fixed } = wordsOf(noun, verb, row);
  const operands: Described[] = [
    ...fixed.map((word) => ({ form: word, about: `the word ${word}`, values: [word] })),
    ...row.target.map((each) => ({
      form: each.toUpperCase(),
      about: phraseOf(OPERATION_TEXTS.operands[each] ?? ""),
    })),
    ...[operandOf(row, members)].filter((each) => each !== undefined),
  ];
  async function carryOut(call: Call): Promise<void> {
    const { args, service, by } = call;
    for (const [index, word] of fixed.entries())
      if (args.operand(index) !== word) throw misused(`${words.join(" ")} takes ${word}`);
    const target: string[] = [];
    for (const [index, each] of row.target.entries()) {
      const text = args.operand(fixed.length + index);
      target.push(each === "sub" ? await findSub(service.accounts, text) : text);
    }
    const named = args.operands[fixed.length] ?? "";
    const read = { named, target, input: await readInput(row, call) };
    const calls = callsOf(service);
    if (byHand !== undefined) return byHand(call, read);
    if (row.effect === "list") return printList(call, verb, row, read, calls);
    await ask(call, table, name, row, read, calls);
    const result = await invoke(calls, verb, row, { ...read, options: by });
    if (result === false || (result === undefined && row.effect === "read"))
      throw unknown(row.missing ?? table.noun);
    await print(call, verb, row, read, result);
  }
  return {
    words,
    summary,
    ...(about !== undefined && { about }),
    operands,
    options: optionsOf(row, members),
    examples: [exampleOf([...words, ...fixed], row)],
    load: async () => onService(carryOut),
  };
}

/**
 * The commands of a noun.
 * @param byHand code of their own, by the name of the operation; `null`: its command is not made here.
 */
export function commandsOf<N extends Noun>(
  noun: N,
  byHand: { readonly [V in keyof (typeof TABLES)[N]["rows"]]?: ByHand | null } = {},
): Command[] {
  return Object.entries(rowsOf(noun)).flatMap(([verb, row]) => {
    const own = byHand[verb as keyof typeof byHand];
    return own === null || !isOn(row, "command")
      ? []
      : [commandOf(noun, verb, TABLES[noun], CALLS[noun], own)];
  });
}
