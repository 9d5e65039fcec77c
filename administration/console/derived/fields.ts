/** The fields of a form from the members of an operation's input, and the input from what was sent. */
import { z } from "zod";
import { type AnyRow, membersOf } from "../../../accounts/operations/operation.ts";
import type { ArgumentProblem } from "../../../core/errors.ts";
import type { Translator } from "../../../core/texts.ts";
import type { Form, FormProblem } from "../../../interactions/forms.ts";
import { kebab } from "../../tables.ts";
import { OPERATION_TEXTS, plainText } from "../../operation-texts.ts";
import { type FormClock, localOf, secondsOf } from "../local-time.ts";
import { ruleText } from "./rules.ts";
import { choiceLabel, memberLabel } from "./values.ts";

/** A field of a form. */
export interface ConsoleField {
  /** The member; of a member inside a member, both with a dot. */
  readonly name: string;
  readonly label: string;
  readonly kind: "text" | "secret" | "number" | "time" | "choice" | "list" | "map" | "lists" | "json";
  readonly required: boolean;
  /** What helps to fill it in, or `""`. */
  readonly hint: string;
  readonly options?: readonly Option[] | undefined;
  readonly value: string;
  /** The heading above it: the member that it is in, or `""`. */
  readonly group: string;
  /** The kinds of clients that have it, with blanks between them; or `""` for all. */
  readonly kinds?: string;
  /** The option of the command that does the same, where the page shows that. */
  readonly option?: { readonly name: string; readonly takes: "value" | "lines" | "file" };
}

export interface Option {
  readonly value: string;
  readonly label: string;
}

/** What a JSON schema says about a member, and what its comment adds. */
interface MemberSchema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly items?: MemberSchema;
  readonly properties?: Readonly<Record<string, MemberSchema>>;
  readonly additionalProperties?: unknown;
  readonly anyOf?: readonly MemberSchema[];
  /** `lists`: an object of lists. */
  readonly option?: string;
  /** The type of the values of an object with any keys. */
  readonly values?: { readonly type?: string };
  /** `time`: seconds since the epoch. */
  readonly unit?: string;
}

/** A member that a form has a field for. */
interface Member {
  readonly name: string;
  readonly kind: ConsoleField["kind"];
  readonly options: readonly string[];
  readonly required: boolean;
  readonly nullable: boolean;
  readonly group?: string;
}

const SECRETS = /(?:^|\.|_)(?:secret|password)$/;
/** Members that are bytes, or answers of other programs: commands take files for them. */
const FILES: ReadonlySet<string> = new Set(["logo", "app"]);

/** The schema of a value that is there, and whether it may be `null`. */
function present(schema: MemberSchema): { readonly schema: MemberSchema; readonly nullable: boolean } {
  const { anyOf = [], type } = schema;
  if (typeof type === "object") {
    const [only, ...others] = type.filter((each) => each !== "null");
    const rest = others.length === 0 && only !== undefined ? { ...schema, type: only } : schema;
    return { schema: rest, nullable: type.includes("null") };
  }
  const others = anyOf.filter((each) => each.type !== "null");
  const [only] = others;
  return {
    schema: others.length === 1 && only !== undefined ? { ...schema, ...only } : schema,
    nullable: others.length < anyOf.length,
  };
}

function kindOf(name: string, schema: MemberSchema): ConsoleField["kind"] {
  const { type, enum: choices, items, option, values, unit } = schema;
  if (unit === "time") return "time";
  if (choices !== undefined || type === "boolean") return "choice";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") return SECRETS.test(name) ? "secret" : "text";
  if (type === "array" && items?.type === "string") return "list";
  if (option === "lists") return "lists";
  return values?.type === "string" ? "map" : "json";
}

/** The members of an object that has exactly these, each with a field of its own. */
function innerOf({ properties = {}, additionalProperties }: MemberSchema): [string, MemberSchema][] {
  const inner = Object.entries(properties);
  const isSimple = inner.every(([name, each]) => kindOf(name, present(each).schema) !== "json");
  return additionalProperties === false && isSimple ? inner : [];
}

function memberIn(name: string, given: MemberSchema, required: boolean, group?: string): Member[] {
  const { schema, nullable } = present(given);
  const inner = group === undefined ? innerOf(schema) : [];
  if (inner.length > 0)
    return inner.flatMap(([each, itsSchema]) => memberIn(`${name}.${each}`, itsSchema, false, name));
  const options =
    schema.type === "boolean"
      ? ["yes", "no"]
      : (schema.enum ?? []).filter((each) => typeof each === "string");
  const kind = kindOf(name, schema);
  return [{ name, kind, options, required, nullable, ...(group !== undefined && { group }) }];
}

/** The members that a form can have, with those inside members. */
function membersIn(row: AnyRow): readonly Member[] {
  return Object.entries(membersOf(row)).flatMap(([name, schema]) => {
    if (FILES.has(name)) return [];
    const shape = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
    const required = !schema.safeParse(undefined).success && row.effect !== "change" && row.effect !== "list";
    return memberIn(name, shape as MemberSchema, required);
  });
}

/** What stands in a field for a value of the record. */
function written(kind: ConsoleField["kind"], value: unknown, zone: string): string {
  if (value === undefined || value === null) return "";
  if (kind === "time") return localOf(value as number, zone);
  if (typeof value === "boolean") return value ? "yes" : "no";
  // The record can have a member of this name in another shape: of roles, those of each service.
  if (kind === "list") return Array.isArray(value) ? value.join("\n") : "";
  if (kind === "map")
    return Object.entries(value as Record<string, string>)
      .map((pair) => pair.join(" = "))
      .join("\n");
  if (kind === "lists")
    return Object.entries(value as Record<string, readonly string[]>)
      .map(([name, list]) => [name, ...list].join(" "))
      .join("\n");
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** The value of a member in the record: `receiver.url` is inside `receiver`. */
function valueIn(record: Readonly<Record<string, unknown>>, name: string): unknown {
  return name.split(".").reduce<unknown>((inside, part) => {
    if (typeof inside !== "object" || inside === null || !Object.hasOwn(inside, part)) return undefined;
    return (inside as Readonly<Record<string, unknown>>)[part];
  }, record);
}

/** How the fields of an operation differ from what its members say. */
export interface FieldLook {
  /** What was sent before; else the values come from the record, if there is one. */
  readonly filled?: Form;
  readonly record?: Readonly<Record<string, unknown>>;
  /** What can be chosen for a member that takes any text or number. */
  readonly options?: Readonly<Record<string, readonly Option[]>>;
  /** The time zone in which times are entered. Default: UTC. */
  readonly zone?: string;
  /** The kinds of clients that have a member. */
  readonly kindsOf?: (member: string) => string;
}

const HOW: ReadonlySet<string> = new Set(["list", "map", "lists", "json"]);

/** The fields of a form. @param about the noun and the verb, for the comments of the members. */
export function fieldsOf(
  t: Translator,
  row: AnyRow,
  about: string,
  { filled, record = {}, options: chosen = {}, zone = "UTC", kindsOf = () => "" }: FieldLook = {},
): readonly ConsoleField[] {
  return membersIn(row).map(({ name, kind, options, required, group }) => {
    const inner = name.split(".").at(-1) ?? name;
    return {
      name,
      label:
        kind === "time" ? t("admin.zoned", { label: memberLabel(t, inner), zone }) : memberLabel(t, inner),
      kind,
      required,
      hint: [hintOf(t, about, name, chosen[name] !== undefined), HOW.has(kind) ? t(`admin.how.${kind}`) : ""]
        .filter(Boolean)
        .join(" "),
      options:
        chosen[name] ??
        (options.length === 0
          ? undefined
          : options.map((value) => ({ value, label: choiceLabel(t, inner, value) }))),
      value: kind === "secret" ? "" : (filled?.get(name) ?? written(kind, valueIn(record, name), zone)),
      group: group === undefined ? "" : memberLabel(t, group),
      kinds: kindsOf(group ?? name),
    };
  });
}

/** The hint in the language; in English, the comment of the member is one, unless there is a choice. */
function hintOf(t: Translator, about: string, name: string, isChosen: boolean): string {
  const inner = name.split(".").at(-1) ?? name;
  const [noun = ""] = about.split(".");
  const keys = [`admin.hint.${noun}.${name}`, `admin.hint.${name}`, `admin.hint.${inner}`];
  const key = keys.find((each) => t.has(each));
  if (key !== undefined) return t(key);
  if (isChosen) return "";
  const comment = OPERATION_TEXTS.operations[about]?.members?.[name];
  return comment !== undefined && t.locale.startsWith("en") ? plainText(comment) : "";
}

/** What a form says that the library does not understand. */
export class UnreadableField extends Error {
  readonly field: string;
  constructor(field: string) {
    super("admin.problem.unreadable");
    this.field = field;
  }
}

const linesIn = (text: string): string[] =>
  text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "");

function valueOf({ name, kind, options }: Member, text: string, clock: FormClock): unknown {
  if (kind === "time") {
    const seconds = secondsOf(text, clock);
    if (Number.isNaN(seconds)) throw new UnreadableField(name);
    return seconds;
  }
  if (kind === "list") return linesIn(text);
  if (kind === "choice") return options.join() === "yes,no" ? text === "yes" : text;
  if (kind === "number") return /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text;
  if (kind === "map") {
    const pairs = linesIn(text).map((line) => {
      const at = line.indexOf("=");
      if (at < 0) throw new UnreadableField(name);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()] as const;
    });
    return Object.fromEntries(pairs);
  }
  if (kind === "lists")
    return Object.fromEntries(
      linesIn(text).map((line) => {
        const [first = "", ...others] = line.split(/\s+/);
        return [first, others] as const;
      }),
    );
  if (kind !== "json") return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UnreadableField(name);
  }
}

/**
 * The input of an operation. A field that is empty is left out; in a change, one that says what the record says is left out, and one
 * that was emptied removes the value.
 * @throws UnreadableField
 */
export function inputFrom(
  row: AnyRow,
  form: Form,
  {
    record,
    without = [],
    clock,
  }: {
    readonly record?: Readonly<Record<string, unknown>> | undefined;
    readonly without?: readonly string[] | undefined;
    readonly clock: FormClock;
  },
): Readonly<Record<string, unknown>> {
  const isChange = row.effect === "change";
  const members = membersIn(row).filter(({ name }) => !without.includes(name));
  const input: Record<string, unknown> = {};
  const groups = new Map<string, Record<string, unknown>>();
  for (const member of members) {
    const { name, kind, nullable, group } = member;
    const text = form.get(name) ?? "";
    if (group !== undefined) {
      const inner = groups.get(group) ?? {};
      groups.set(group, inner);
      if (text.trim() !== "") inner[name.slice(group.length + 1)] = valueOf(member, text, clock);
      continue;
    }
    const before = written(kind, record && valueIn(record, name), clock.zone);
    if (isChange && text.replaceAll("\r\n", "\n") === before) continue;
    if (text.trim() !== "") input[name] = valueOf(member, text, clock);
    else if (isChange && kind === "list") input[name] = [];
    else if (isChange && (kind === "map" || kind === "lists")) input[name] = {};
    else if (isChange && nullable && kind !== "secret") input[name] = null;
  }
  for (const [group, inner] of groups) {
    const was = record?.[group] ?? null;
    if (Object.keys(inner).length > 0 && !isSame(inner, was)) input[group] = inner;
    else if (Object.keys(inner).length === 0 && isChange && was !== null && isRemovable(row, group))
      input[group] = null;
  }
  return input;
}

/** Whether a change may remove a member. */
const isRemovable = (row: AnyRow, name: string): boolean =>
  membersOf(row)[name]?.safeParse(null).success === true;

/** Whether a form says about the members of an object what the record says. */
function isSame(inner: Readonly<Record<string, unknown>>, was: unknown): boolean {
  const before = new Map(Object.entries(was ?? {}));
  return (
    was !== null &&
    Object.entries(inner).every(([name, value]) => JSON.stringify(value) === JSON.stringify(before.get(name)))
  );
}

const SHELL_WORD = /^[\w@%+=:,./-]+$/u;

/** A word of a command for a POSIX shell. */
const quoted = (word: string): string =>
  SHELL_WORD.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;

/** The option of a command that says what a field says; nothing for what is secret. */
export function optionOf({ name, kind }: Pick<ConsoleField, "name" | "kind">): ConsoleField["option"] {
  if (kind === "secret") return undefined;
  // What is inside a member is a file.
  const [member = "", inner] = name.split(".");
  if (inner !== undefined || kind === "json" || kind === "map")
    return { name: `--${kebab(member)}`, takes: "file" };
  const isList = kind === "list" || kind === "lists";
  return {
    name: `--${kebab(isList ? member.replace(/s$/u, "") : member)}`,
    takes: isList ? "lines" : "value",
  };
}

/** The command that does what a form says, an option a line. `FOLLOWING` does the same in a browser. */
export function commandOf(
  words: string,
  fields: readonly Pick<ConsoleField, "name" | "kind" | "value">[],
): string {
  const options = fields.flatMap((field) => {
    const option = optionOf(field);
    if (option === undefined || field.value.trim() === "") return [];
    if (option.takes === "file") return [`${option.name} FILE`];
    const values = option.takes === "lines" ? linesIn(field.value) : [field.value];
    return values.map((value) => `${option.name} ${quoted(value)}`);
  });
  return [`sign-in-service ${words}`, ...new Set(options)].join(" \\\n  ");
}

/** The script of a page with a form and the command that does the same: the command follows what is typed. */
export const FOLLOWING = String.raw`const form = document.querySelector("main .form");
const shown = document.querySelector("pre.command");
const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
form.addEventListener("input", () => {
  const { kind, proof } = form.elements;
  const isAsked = (field) => {
    const kinds = [field.closest("div[data-kind]"), field.closest("fieldset[data-kind]")];
    const isOfKind = kinds.every((each) => !each || each.dataset.kind.split(" ").includes(kind.value));
    return isOfKind && (!field.closest("[data-proof]") || proof.value === "keys");
  };
  const options = [...form.querySelectorAll("[data-option]")].flatMap((field) => {
    const { option, takes } = field.dataset;
    if (field.value.trim() === "" || !isAsked(field)) return [];
    if (takes === "file") return [option + " FILE"];
    const values = takes === "lines" ? field.value.split("\n").map((line) => line.trim()).filter(Boolean) : [field.value];
    return values.map((value) => option + " " + quoted(value));
  });
  const words = shown.dataset.command + (kind.value === "web" ? "" : " \\\n  --kind " + kind.value);
  shown.textContent = [words, ...new Set(options)].join(" \\\n  ");
});`;

/** The problems of a refused input, at their fields. */
export function problemsAt(
  t: Translator,
  fields: readonly ConsoleField[],
  problems: readonly ArgumentProblem[],
): readonly FormProblem[] {
  return problems.map(({ path, message: said }) => {
    const message = ruleText(t, said);
    const place = path.replace(/^[^.[]*\.?/, "");
    const name = place.replaceAll(/\[\d+\].*$/g, "");
    const line = /\[(\d+)\]/.exec(place)?.[1];
    const field =
      fields.find((each) => each.name === name) ?? fields.find((each) => name.startsWith(`${each.name}.`));
    const text =
      line === undefined ? message : t("admin.problem.line", { line: Number(line) + 1, problem: message });
    return field === undefined
      ? { fields: [], text: place === "" ? message : `${place}: ${message}` }
      : { fields: [field.name], text, label: `${field.label}: ${text}` };
  });
}
