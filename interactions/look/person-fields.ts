/** The fields of a person in a form, by section, and their values in words. */
import { trimmed } from "../../accounts/names.ts";
import type { FieldInput } from "../../accounts/attribute-types.ts";
import { labelKey } from "../../accounts/field-texts.ts";
import {
  enteredProblem,
  enteredValue,
  type FieldRow,
  holding,
  inLines,
  textOf,
  valueOf,
} from "../../accounts/profile-fields.ts";
import type { Clock } from "../../core/clock.ts";
import type { Translator } from "../../core/texts.ts";
import type { AccountRecord, AttributeValue } from "../../records/directory/directory.ts";
import type { PageField } from "../account/person-view.ts";
import type { Form } from "../forms.ts";
import type { Problem } from "../steps/step.ts";
import { languageName } from "./language.ts";

/** What the fields of a form contain, by name. */
export type Entered = Readonly<Record<string, string>>;

/** A field of a form: a value, or one part of it. */
interface RowInput extends FieldInput {
  readonly name: string;
  readonly part?: string;
}

/** No field of a person has a `.` in its name. */
function inputsOf({ name, input = { type: "text" }, parts }: FieldRow): readonly RowInput[] {
  if (parts === undefined) return [{ ...input, name }];
  return Object.entries(parts).map(([part, each]) =>
    Object.assign({}, each, { name: `${name}.${part}`, part }),
  );
}

function textIn(value: AttributeValue | null, { part }: RowInput): string {
  if (part === undefined) return textOf(value);
  return typeof value === "object" && value !== null ? (new Map(Object.entries(value)).get(part) ?? "") : "";
}

/** What the fields contain before anybody types. */
export const storedTexts = (rows: readonly FieldRow[], account: AccountRecord): Entered =>
  Object.fromEntries(
    rows.flatMap((row) => {
      const value = valueOf(row, account);
      return inputsOf(row).map((input) => [input.name, textIn(value, input)]);
    }),
  );

/** What a form calls the text that a field had when the page was shown. */
const WAS = "was.";

/**
 * What the form contains. A field that it does not have, or that the person has not touched, stays as it is now: somebody else
 * may have changed it since the page was shown.
 */
export const typedTexts = (rows: readonly FieldRow[], form: Form, before: Entered): Entered =>
  Object.fromEntries(
    rows.flatMap(inputsOf).map(({ name }) => {
      const text = form.get(name);
      const isUntouched = text === undefined || text === form.get(WAS + name);
      return [name, isUntouched ? (before[name] ?? "") : trimmed(text)];
    }),
  );

const isChanged =
  (values: Entered, before: Entered) =>
  ({ name }: RowInput): boolean =>
    values[name] !== before[name];

/** What the form changes. What is left alone is not sent: somebody else may change it now. */
export function typedChanges(rows: readonly FieldRow[], values: Entered, before: Entered) {
  const changed = rows.filter((row) => inputsOf(row).some(isChanged(values, before)));
  return holding(changed.map((row): [FieldRow, AttributeValue | null] => [row, valueIn(row, values)]));
}

function valueIn(row: FieldRow, values: Entered): AttributeValue | null {
  const texts = inputsOf(row).map(({ name, part }) => [part ?? name, values[name] ?? ""] as const);
  const filled = texts.filter(([, text]) => text !== "");
  if (filled.length === 0) return null;
  return row.parts === undefined ? enteredValue(row, filled[0]?.[1] ?? "") : Object.fromEntries(filled);
}

/** Why a value is refused, by the type of its input. */
const REASONS = { text: "text", tel: "phone", url: "url", date: "date", select: "choice" } as const;

/** What is wrong with what was typed. Values that have not changed are accepted, whatever they are. */
export function typedProblems(
  rows: readonly FieldRow[],
  values: Entered,
  before: Entered,
  clock: Clock,
): Problem[] {
  const isNew = isChanged(values, before);
  return rows.flatMap((row) =>
    inputsOf(row).flatMap((input): Problem[] => {
      const { name, part, type, reason = REASONS[type] } = input;
      const text = values[name] ?? "";
      if (text === "" || !isNew(input)) return [];
      const problem =
        part === undefined
          ? enteredProblem(row, enteredValue(row, text), clock)
          : row.parts?.[part]?.problem(text) && "invalid";
      if (problem === undefined) return [];
      if (problem === "reserved") return [{ code: problem, fields: [name] }];
      return [{ code: name === "username" ? name : reason, fields: [name] }];
    }),
  );
}

/** The sections of a form, in their order. */
const SECTIONS = ["person", "contact", "address", "more"] as const;

/** The fields of a form, by section. With one section, there is no need for its heading. */
export function fieldsIn(t: Translator, rows: readonly FieldRow[], values: Entered): readonly PageField[] {
  const sections = SECTIONS.map((section) => ({
    heading: t(`profile.section.${section}`),
    rows: rows.filter((row) => (row.section ?? "person") === section),
  })).filter((each) => each.rows.length > 0);
  return sections.flatMap(({ heading, rows: all }) =>
    all.flatMap((row) =>
      inputsOf(row).map((input) =>
        Object.assign(
          fieldOf(t, row, input, values[input.name] ?? ""),
          sections.length > 1 && { section: heading },
        ),
      ),
    ),
  );
}

/** The same for a view: each section with its lines. @param before what the account has now. */
export function sectionsIn(fields: readonly PageField[], before: Entered) {
  const headings = new Set(fields.map(({ section = "" }) => section));
  const all = fields.map((field) => ({
    ...field,
    was: { name: WAS + field.name, value: before[field.name] ?? "" },
  }));
  return [...headings].map((heading) => ({
    heading,
    lines: inLines(all.filter(({ section = "" }) => section === heading)),
  }));
}

function fieldOf(t: Translator, row: FieldRow, input: RowInput, value: string): PageField {
  const { name, part, type, autocomplete = "", options = [] } = input;
  const none = `profile.${name}.none`;
  const hint = [`hint.profile.${name}`, `hint.${name}`, `hint.input.${type}`].find((key) => t.has(key));
  const choices = options.map((option) => ({ value: option, label: optionLabel(t, row, input, option) }));
  if (input.optionNames === "region") choices.sort((a, b) => a.label.localeCompare(b.label, t.locale));
  return {
    name,
    label: t(part === undefined ? labelKey(row) : `field.${row.name}.${part}`),
    type,
    value,
    autocomplete,
    required: false,
    ...(hint !== undefined && { hint: t(hint) }),
    ...(type === "select" && {
      options: withChoice([{ value: "", label: t(t.has(none) ? none : "profile.none") }, ...choices], value),
    }),
  };
}

/** A value that was set elsewhere stays until the person chooses another one. */
function withChoice(
  choices: NonNullable<PageField["options"]>,
  value: string,
): NonNullable<PageField["options"]> {
  const isOffered = choices.some((choice) => choice.value === value);
  return isOffered ? choices : [...choices, { value, label: value }];
}

function optionLabel(
  t: Translator,
  { name }: FieldRow,
  { optionTexts = name, optionNames }: FieldInput,
  option: string,
): string {
  if (optionNames === "language") return languageName(option);
  if (optionNames === "region")
    return new Intl.DisplayNames([t.locale], { type: "region" }).of(option) ?? option;
  return t(`${optionTexts}.${option}`);
}

/** An attribute that a page shows without a field for it. */
export interface ShownAttribute {
  readonly row: FieldRow;
  readonly value: AttributeValue;
}

/** The attributes that an account has. */
export const attributesOf = (
  rows: readonly FieldRow[],
  account: Pick<AccountRecord, "attributes">,
): readonly ShownAttribute[] =>
  rows.flatMap((row) => {
    const value = row.isAttribute ? valueOf(row, account) : null;
    return value === null ? [] : [{ row, value }];
  });

/** An attribute as people read it: an address by its parts, in their order. */
export function inWords(
  t: Translator,
  { row, value }: ShownAttribute,
): { readonly name: string; readonly label: string; readonly value: string } {
  const words = inputsOf(row).flatMap((input) => {
    const text = textIn(value, input);
    if (text === "") return [];
    return [input.options === undefined ? text : optionLabel(t, row, input, text)];
  });
  return { name: row.name, label: t(labelKey(row)), value: words.join(", ") };
}
