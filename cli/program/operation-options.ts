/** The options of an operation: their form, their example, and how they are read, from the members of its input. */
import { z } from "zod";
import { type AnyRow, membersOf } from "../../accounts/operations/operation.ts";
import { kebab } from "../../administration/tables.ts";
import { bare, isRequired, textsOf } from "../../config/documented-schema.ts";
import { seconds } from "../../core/clock.ts";
import { findSub } from "./account-name.ts";
import type { Arguments } from "./arguments.ts";
import type { CommandContext, CommandOption, Described } from "./command.ts";
import { misused } from "./command-failure.ts";
import { objectIn, readBytes, readJsonObject } from "./json-file.ts";
import { type Call, SERVICE_OPTIONS, YES } from "./on-service.ts";
import { readNewSecret } from "./secret-input.ts";

/** How the values of one kind of member are written as options. */
interface Kind {
  /** The value in the form of the option. Default: its name; `null`: a flag. */
  readonly value?: string | null;
  /** May be given several times, each time with one value. */
  readonly isList?: true;
  /** What the option says besides the comment of the member. */
  readonly about?: (schema: unknown) => string;
  /** `undefined` if the option is not given. The library checks the value. */
  readonly read: (args: Arguments, name: string, call: Pick<Call, "context" | "service">) => unknown;
  /** The values in an example. */
  readonly examples: (value: unknown, member: string) => readonly string[];
}

const written = (value: unknown): readonly string[] => [value as string];

const KINDS = {
  text: { read: (args, name) => args.text(name), examples: written },
  account: {
    value: "SUB",
    read: (args, name, { service }) => {
      const text = args.text(name);
      return text === undefined ? undefined : findSub(service.accounts, text);
    },
    examples: written,
  },
  choice: {
    about: (schema) => (schema instanceof z.ZodEnum ? `; one of ${schema.options.join(", ")}` : ""),
    read: (args, name) => args.text(name),
    examples: written,
  },
  number: {
    value: "N",
    read(args, name) {
      const text = args.text(name);
      return text !== undefined && /^-?\d{1,16}$/u.test(text) ? Number(text) : text;
    },
    examples: (value) => [String(value)],
  },
  /** Seconds. */
  duration: {
    value: "TIME",
    about: () => "; written with its unit, such as 10m",
    read: (args, name) => args.duration(name),
    examples: (value) => [
      Number(value) % 86_400 === 0 ? `${Number(value) / 86_400}d` : `${Number(value) / 60}m`,
    ],
  },
  /** Seconds since the epoch, written as how long ago that was. */
  time: {
    value: "TIME",
    about: () => "; written as how long ago that was, such as 7d",
    read(args, name, { context: { clock } }) {
      const ago = args.duration(name);
      return ago === undefined ? undefined : Math.max(0, seconds(clock) - ago);
    },
    examples: () => ["7d"],
  },
  answer: {
    value: "yes|no",
    read(args, name) {
      const answer = args.oneOf(name, ["yes", "no"]);
      return answer && answer === "yes";
    },
    examples: (value) => [value === true ? "yes" : "no"],
  },
  list: {
    isList: true,
    read(args, name) {
      const texts = args.list(name);
      return texts?.join("") === "" ? [] : texts;
    },
    examples: (value) => value as readonly string[],
  },
  /** `NAME=TEXT`. */
  map: {
    isList: true,
    read(args, name) {
      const entries = readPairs(args, name);
      return entries && Object.fromEntries(entries);
    },
    examples: (value) => Object.entries(value as Record<string, string>).map((pair) => pair.join("=")),
  },
  /** `NAME=TEXT`, `NAME:=JSON` for other values than texts, and `NAME=` to remove the value of that name. */
  changes: {
    value: "NAME=TEXT",
    isList: true,
    about: () => "; `NAME:=JSON` is a number, `true`, `false` or an object, and `NAME=` removes the value",
    read(args, name) {
      const entries = readPairs(args, name);
      return entries && Object.fromEntries(entries.map(changeIn));
    },
    examples: (value) =>
      Object.entries(value as Record<string, unknown>).map(([key, each]) =>
        typeof each === "string" || each === null
          ? `${key}=${each ?? ""}`
          : `${key}:=${JSON.stringify(each)}`,
      ),
  },
  /** `NAME TEXT TEXT`. */
  lists: {
    isList: true,
    about: () => ": 'IDENTIFIER SCOPE SCOPE'",
    read(args, name) {
      const entries = args.list(name)?.map((text): [string, string[]] => {
        const [key = "", ...texts] = text.split(" ").filter((word) => word !== "");
        return [key, texts];
      });
      return entries && Object.fromEntries(entries);
    },
    examples: (value) =>
      Object.entries(value as Record<string, readonly string[]>).map(([key, texts]) =>
        [key, ...texts].join(" "),
      ),
  },
  bytes: {
    value: "FILE",
    read(args, name) {
      const path = args.text(name);
      return path === undefined ? undefined : readBytes(path);
    },
    examples: (_value, member) => [member],
  },
  file: {
    value: "FILE",
    about: (schema) =>
      schema instanceof z.ZodObject
        ? `; a file with a JSON object of ${Object.keys(schema.shape).join(", ")}, or - for standard input`
        : "",
    read(args, name, { context }) {
      const path = args.text(name);
      return path === undefined ? undefined : readObject(path, context);
    },
    examples: (_value, member) => [`${member}.json`],
  },
  /** Never an argument, which other users can see. */
  secret: {
    value: null,
    about: () => "; asks for it, or reads it from standard input",
    read: (args, name, { context }) => (args.flag(name) ? readNewSecret(context, name) : undefined),
    examples: () => [],
  },
} as const satisfies Record<string, Kind>;

function readPairs(args: Arguments, name: string): (readonly [string, string])[] | undefined {
  return args.list(name)?.map((text) => {
    const equals = text.indexOf("=");
    if (equals === -1) throw misused(`--${name} must be NAME=TEXT`);
    return [text.slice(0, equals), text.slice(equals + 1)];
  });
}

/** What becomes of one name. @throws CommandFailure if what follows `:=` is not JSON. */
function changeIn([name, text]: readonly [string, string]): readonly [string, unknown] {
  if (!name.endsWith(":")) return [name, text === "" ? null : text];
  try {
    return [name.slice(0, -1), JSON.parse(text)];
  } catch {
    throw misused("NAME:=JSON must have JSON, such as 12 or true, after its :=");
  }
}

async function readObject(path: string, context: Pick<CommandContext, "readInput">): Promise<object> {
  return path === "-" ? objectIn(await context.readInput(), "standard input") : readJsonObject(path);
}

function kindOf(member: string, schema: z.ZodType): keyof typeof KINDS {
  const { holds, unit, option } = textsOf(schema);
  const inner = bare(schema);
  if (holds === "secret") return "secret";
  if (unit !== undefined) return unit;
  if (option !== undefined) return option;
  if (inner instanceof z.ZodArray) return "list";
  if (inner instanceof z.ZodPipe) return inner.in instanceof z.ZodString ? "text" : "map";
  if (inner instanceof z.ZodRecord) return "map";
  if (inner instanceof z.ZodObject) return "file";
  if (inner instanceof z.ZodBoolean) return "answer";
  if (inner instanceof z.ZodEnum) return "choice";
  if (inner instanceof z.ZodNumber) return "number";
  return member === "account" ? "account" : "text";
}

/** A member of an input as an option. */
interface Member {
  readonly member: string;
  readonly schema: z.ZodType;
  /** Without the dashes; of a list singular. */
  readonly name: string;
  readonly kind: Kind;
  readonly isNeeded: boolean;
  /** Whether the command always asks for it, and so needs no option. */
  readonly isAsked: boolean;
  /** Whether it is an operand: what the library takes first by position, and needs. */
  readonly isOperand: boolean;
  /** What removes the value; `undefined` if it can't be removed: only a change keeps what is left out. */
  readonly nothing: unknown;
}

function optionMembers(row: AnyRow): Member[] {
  return Object.entries(membersOf(row)).map(([member, schema]) => {
    const name = kindOf(member, schema);
    const kind: Kind = KINDS[name];
    const removed = row.effect === "change" ? [null, [], {}] : [];
    return {
      member,
      schema,
      name: kebab(kind.isList ? member.replace(/s$/u, "") : member),
      kind,
      isNeeded: isRequired(schema),
      isAsked: isRequired(schema) && kind === KINDS.secret,
      isOperand: isRequired(schema) && kind !== KINDS.secret && row.positional?.[0] === member,
      // Each of several values is removed by itself.
      nothing: name === "changes" ? undefined : removed.find((each) => schema.safeParse(each).success),
    };
  });
}

/** `--role ROLE`. */
function formOf({ name, kind, schema }: Member): string {
  const { value = name.replaceAll(/.*-/gu, "").toUpperCase() } = kind;
  if (value === null) return `--${name}`;
  return `--${name} ${kind === KINDS.map || bare(schema) instanceof z.ZodRecord ? `${value}=TEXT` : value}`;
}

/** What can be chosen from; of a list what each of its values can be. */
function valuesOf(schema: unknown): readonly string[] | undefined {
  if (schema instanceof z.ZodArray) return valuesOf(bare(schema.element));
  return schema instanceof z.ZodEnum ? schema.options.map(String) : undefined;
}

/** Whether the command asks each time. */
export const asksAlways = ({ confirm }: AnyRow): boolean => confirm === "final" || confirm === "typed";

/** Whether the command may ask. Replacing something may remove a part of it. */
export const asks = (row: AnyRow): boolean =>
  asksAlways(row) || row.effect === "put" || row.final !== undefined;

/** The operand for the first argument by position, if the operation needs one. @param texts what each member means. */
export function operandOf(row: AnyRow, texts: Readonly<Record<string, string>>): Described | undefined {
  const operand = optionMembers(row).find(({ isOperand }) => isOperand);
  return operand && { form: operand.name.toUpperCase(), about: texts[operand.member] ?? "" };
}

/** The options of the command. @param texts what each member means. */
export function optionsOf(row: AnyRow, texts: Readonly<Record<string, string>>): CommandOption[] {
  const members = optionMembers(row);
  const removable = members.filter(({ nothing }) => nothing !== undefined).map(({ name }) => name);
  const own = members
    .filter(({ isAsked, isOperand }) => !isAsked && !isOperand)
    .map((each): CommandOption => {
      const { member, schema, kind, isNeeded } = each;
      const text = texts[member] ?? textsOf(schema).description ?? "";
      const about = `${text}${kind.about?.(bare(schema)) ?? ""}${isNeeded ? "; required" : ""}`;
      return { form: formOf(each), about, values: valuesOf(bare(schema)), isList: kind.isList };
    });
  const again = row.confirm === "typed" ? `, the ${row.target.join(" ").toUpperCase()} typed again` : "";
  return [
    ...SERVICE_OPTIONS,
    ...own,
    ...(removable.length > 0
      ? [
          {
            form: "--remove MEMBER",
            about: `removes a value; any of ${removable.join(", ")}`,
            values: removable,
            isList: true,
          } as const,
        ]
      : []),
    ...(row.effect === "list"
      ? [{ form: "--limit N", about: `maximum number; default: ${row.latest ?? "all"}` }]
      : []),
    ...(asks(row) ? [{ ...YES, about: `${YES.about}${again}` }] : []),
  ];
}

/** Quotes what a shell would split. */
const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/u.test(text) ? text : `'${text}'`);

/** A call of the command, from the example of the row. */
export function exampleOf(words: readonly string[], row: AnyRow): string {
  const { example } = row;
  const given = optionMembers(row).flatMap(({ member, name, kind, isAsked, isOperand }) => {
    const value: unknown = Reflect.get(example.input, member);
    if (value === undefined || isAsked) return [];
    if (value === null) return ["--remove", name];
    const values = kind.examples(value, member);
    if (isOperand) return values.map(quoted);
    return kind.value === null ? [`--${name}`] : values.flatMap((each) => [`--${name}`, quoted(each)]);
  });
  const confirmed = asksAlways(row) ? ["--yes"] : [];
  const asked = optionMembers(row).flatMap(({ member, isAsked }) => (isAsked ? ["<", `${member}.txt`] : []));
  return [...words, ...example.target, ...given, ...confirmed, ...asked].join(" ");
}

/** The input in the arguments. @throws CommandFailure if a required member is missing, or one is both set and removed. */
export async function readInput(row: AnyRow, call: Call): Promise<Readonly<Record<string, unknown>>> {
  const members = optionMembers(row);
  const input: Record<string, unknown> = {};
  const removed = call.args.list("remove") ?? [];
  const removable = members.filter(({ nothing }) => nothing !== undefined).map(({ name }) => name);
  if (removed.some((name) => !removable.includes(name)))
    throw misused(`--remove takes one of ${removable.join(", ")}`);
  for (const { member, name, kind, isNeeded, isAsked, isOperand, nothing } of members) {
    if (isOperand) {
      const text = call.args.operands.at(-1) ?? "";
      input[member] = kind.isList ? [text] : text;
      continue;
    }
    if (isAsked) {
      input[member] = await readNewSecret(call.context, name);
      continue;
    }

    const isRemoved = removed.includes(name);
    if (isRemoved && call.args.has(name)) throw misused(`--${name} is both set and removed`);
    if (isNeeded && !call.args.has(name)) throw misused(`--${name} is missing`);
    const value: unknown = isRemoved ? nothing : await kind.read(call.args, name, call);
    if (value !== undefined) input[member] = value;
  }
  if (row.effect === "change" && Object.keys(input).length === 0) throw misused("There is nothing to change");
  return input;
}
