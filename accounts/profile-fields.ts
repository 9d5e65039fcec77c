/**
 * The fields of a person, a row each. A service makes its list once, at the start: these rows, and those that are added to them.
 * Records, arguments, answers, claims, notifications and forms walk the list; the address has rules of its own.
 */
import { isDeepStrictEqual } from "node:util";
import { type Attribute, attributesOf } from "../config/attributes.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Clock } from "../core/clock.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import type { AttributeValue } from "../records/directory/directory.ts";
import { ATTRIBUTE_TYPES, type FieldInput, type ValueRule } from "./attribute-types.ts";
import { chosenUsernameProblem, FULL_NAME, personNameProblem, trimmed, usernameProblem } from "./names.ts";
import { birthDateProblem, keyProblem, localeProblem, type Problem, textProblem } from "./text-rules.ts";

/** Text that people read: one for all languages, or one for each language. */
export type LocalText = string | Readonly<Record<string, string>>;

export interface FieldRow extends ValueRule {
  /** Its name in arguments, answers and forms. */
  readonly name: string;
  /** Whether records, arguments and answers have it under `attributes`. Default: it is a member of their own. */
  readonly isAttribute?: true;
  /** What else is wrong with a value that a person chooses. Default: nothing. */
  readonly choiceProblem?: (value: string) => EnteredProblem | undefined;
  /** Who changes it: the person on the profile page, or only operators. */
  readonly edit: "person" | "operator";
  /** Whether the registration form asks for it. Default: it doesn't. */
  readonly registration?: "required" | "optional" | undefined;
  /** The claim that has its value, and the scope that asks for the claim. Default: no client reads it. */
  readonly claim?: { readonly name: string; readonly scope: string };
  /** The keys of the services whose clients may read it. Default: all services. */
  readonly readers?: readonly string[] | undefined;
  /** Whether the person doesn't see it. Then only clients of the organization itself read it. */
  readonly isHidden?: true;
  /** Whether it is a member of the documented profile. */
  readonly isDocumented: boolean;
  /** Whether a change is a `PROFILE_CHANGED`. */
  readonly notifies: boolean;
  /** Where a form of several sections has it. Default: with what is about the person. */
  readonly section?: "contact" | "address" | "more" | undefined;
  /** What people call it. Default: the texts of the locale files. */
  readonly texts?: { readonly label: LocalText; readonly options?: Readonly<Record<string, LocalText>> };
}

/** A row of a field that every service has: its values are texts, as the schemas of arguments see to. */
interface TextRow extends Omit<FieldRow, "name" | "isAttribute" | "problem" | "stored" | "read" | "input"> {
  readonly problem: (value: string, clock?: Clock) => Problem;
  readonly stored?: (value: string) => string;
  readonly input: FieldInput;
}

const profile = (name: string): NonNullable<FieldRow["claim"]> => ({ name, scope: "profile" });

const PERSON_NAME = "a text of 1 to 100 characters; white space at both ends is removed";

/** The comment of a row is the documentation of the field, in editors and in `docs/`. */
export const PERSON_FIELDS = {
  /**
   * A name to sign in with: 1 to 64 characters, no `@`; unique among usernames and e-mail addresses, regardless of case. Default:
   * none: the e-mail address is the only one.
   */
  username: {
    problem: usernameProblem,
    form: "1 to 64 characters without `@`",
    edit: "person",
    input: { type: "text", autocomplete: "username" },
    claim: profile("preferred_username"),
    isDocumented: false,
    notifies: true,
  },
  /** Given name. Default: none. */
  name: {
    problem: personNameProblem,
    form: PERSON_NAME,
    stored: trimmed,
    edit: "person",
    input: { type: "text", autocomplete: "given-name", beside: "surname" },
    claim: profile("given_name"),
    isDocumented: true,
    notifies: true,
  },
  /** Family name. Default: none. */
  surname: {
    problem: personNameProblem,
    form: PERSON_NAME,
    stored: trimmed,
    edit: "person",
    input: { type: "text", autocomplete: "family-name" },
    claim: profile("family_name"),
    isDocumented: true,
    notifies: true,
  },
  /** Date of birth, `YYYY-MM-DD`. Default: none. */
  date_of_birth: {
    problem: birthDateProblem,
    form: "a real date, `YYYY-MM-DD`, not before 1850 and not in the future",
    edit: "person",
    input: { type: "date", autocomplete: "bday", beside: "gender" },
    claim: profile("birthdate"),
    isDocumented: true,
    notifies: true,
  },
  /** Gender. Default: none. */
  gender: {
    problem: (text: string) => textProblem(text),
    form: "a text of 1 to 256 characters",
    edit: "person",
    input: { type: "select", autocomplete: "sex", options: ["female", "male", "other"] },
    claim: profile("gender"),
    isDocumented: true,
    notifies: true,
  },
  /**
   * The language of pages and mail, a BCP 47 tag such as `pl`; a change sends no notification. Default: none: that of the browser;
   * for mail, the first of `interactions.locales`.
   */
  locale: {
    problem: localeProblem,
    form: "a language tag (BCP 47) of at most 35 characters, such as `pl`",
    edit: "person",
    input: { type: "select", optionNames: "language" },
    claim: profile("locale"),
    isDocumented: false,
    notifies: false,
  },
  /** The key of the portal that the account belongs to. Default: none. */
  portal: {
    problem: keyProblem,
    form: "the key of a portal",
    edit: "operator",
    input: { type: "text" },
    isDocumented: false,
    notifies: false,
  },
} satisfies Readonly<Record<string, TextRow>>;

/** A field that every service has. */
export type PersonField = keyof typeof PERSON_FIELDS;

const ROWS: Readonly<Record<PersonField, TextRow>> = PERSON_FIELDS;

/** In the order in which an account shows them. */
export const PERSON_FIELD_NAMES = Object.keys(PERSON_FIELDS) as readonly PersonField[];

/** The members of the documented profile after `sub` and `email`, in their order. No service adds to it. */
export const DOCUMENTED_FIELDS = PERSON_FIELD_NAMES.filter((field) => ROWS[field].isDocumented);

/** The members of an argument, with the comments of the rows. */
export type FieldArguments = {
  readonly [field in keyof typeof PERSON_FIELDS]?: string | null | undefined;
};

/** The members of an answer, with the comments of the rows. */
export type FieldAnswers = { readonly [field in keyof typeof PERSON_FIELDS]: string | null };

/** What has values of the fields: a record, an argument, an answer or a form. */
export type FieldValues = FieldArguments & {
  /** Missing: none. */
  readonly attributes?: Readonly<Record<string, AttributeValue | null>> | undefined;
};

/** The value of a field as it was given or stored, right or wrong; `null` without one. */
export function givenValue({ name, isAttribute }: FieldRow, values: FieldValues): AttributeValue | null {
  const members: Readonly<Record<string, unknown>> = isAttribute ? (values.attributes ?? {}) : values;
  return (ownValue(members, name) ?? null) as AttributeValue | null;
}

/** The value of a field. One that no longer fits the type of its attribute is kept, and read by nobody. */
export function valueOf(row: FieldRow, values: FieldValues): AttributeValue | null {
  const value = givenValue(row, values);
  return value !== null && row.isAttribute && row.problem(value) !== undefined ? null : value;
}

/** The value that a text of a form stands for, or the text itself if it stands for none. */
export const enteredValue = (row: FieldRow, text: string): AttributeValue =>
  row.read ? (row.read(text) ?? text) : text;

/** A value as a form has it; empty without one. */
export function textOf(value: AttributeValue | null): string {
  if (value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Of all attributes of an account together, as JSON. */
const MAX_ATTRIBUTE_BYTES = 8_192;

/** Something that is wrong with a value, by the path to it. */
interface FieldIssue {
  readonly path: readonly string[];
  readonly message: string;
}

/** The fields of the persons of one service. */
export interface PersonFields {
  /** In the order in which an account shows them. */
  readonly rows: readonly FieldRow[];
  /** Those that people change themselves on a page, in the order of the profile page: the full name first. */
  readonly own: readonly FieldRow[];
  /** Those that the registration form asks for, in its order. */
  readonly registered: readonly FieldRow[];
  /** Those whose value is in a claim, by the name of the claim; those of the documented profile first. */
  readonly ofClaim: ReadonlyMap<string, FieldRow>;
  /** The values of all fields as an account shows them. */
  shown(values: FieldValues): FieldAnswers & {
    readonly attributes?: Readonly<Record<string, AttributeValue | null>>;
  };
  /** The members of the record of an account after a change. What is left out of the change stays as it was. */
  stored(before: FieldValues, changes: FieldValues): StoredValues;
  /** The names of the fields whose values differ. */
  changed(before: FieldValues, after: FieldValues): string[];
  /** What is wrong with values now. The schemas of arguments know neither the time nor the attributes. */
  problems(values: FieldValues, clock: Clock): FieldIssue[];
  /** Whether the attributes of an account have more than 8 KiB. */
  isTooLarge(values: FieldValues): boolean;
}

/** The values in the record of an account. */
type StoredValues = FieldAnswers & {
  readonly attributes?: Readonly<Record<string, AttributeValue>>;
};

/** Values with their fields, as a record, an argument or an answer has them. */
export function holding<Value>(values: readonly (readonly [FieldRow, Value])[]): {
  readonly [field in PersonField]?: Exclude<Value, number | boolean | object>;
} & { readonly attributes?: Readonly<Record<string, Value>> } {
  const named = (isAttribute: boolean) =>
    Object.fromEntries(
      values
        .filter(([row]) => (row.isAttribute ?? false) === isAttribute)
        .map(([{ name }, value]) => [name, value] as const),
    );
  const attributes = named(true);
  return {
    ...(named(false) as { [field in PersonField]?: Exclude<Value, number | boolean | object> }),
    ...(Object.keys(attributes).length > 0 && { attributes }),
  };
}

/** What the fields of a service depend on. */
export interface FieldSettings {
  readonly accounts: Configuration["accounts"];
  readonly interactions: Pick<
    Configuration["interactions"],
    "locales" | "reservedUsernames" | "registration"
  >;
}

/** The row of an attribute. */
function attributeRow(attribute: Attribute): FieldRow {
  const { name, type, label, options, edit, registration, visible, scope, claim, readers, notify, section } =
    attribute;
  return {
    ...ATTRIBUTE_TYPES[type](attribute),
    name,
    isAttribute: true,
    edit,
    registration,
    ...(scope !== undefined && claim !== undefined && { claim: { name: claim, scope } }),
    readers,
    ...(!visible && { isHidden: true }),
    section,
    isDocumented: false,
    notifies: notify,
    ...(label !== undefined && { texts: { label, ...(options && { options }) } }),
  };
}

const VERIFIED = "phone_number_verified";

/** Whether the number of a phone is the person's own, as operators have found out. Who reads the number reads this. */
const verified = ({ label: _label, registration: _registration, ...phone }: Attribute): Attribute => ({
  ...phone,
  name: VERIFIED,
  type: "boolean",
  edit: "operator",
  claim: VERIFIED,
});

/** The answer that is `false` again when this attribute changes. */
const DEPENDENT: Readonly<Record<string, string>> = { phone_number: VERIFIED };

/** In the order of the configuration. */
export function attributeRows(accounts: FieldSettings["accounts"]): readonly FieldRow[] {
  return attributesOf(accounts)
    .flatMap((attribute) =>
      attribute.name === "phone_number" ? [attribute, verified(attribute)] : attribute,
    )
    .map(attributeRow);
}

/** The fields of a service: those that every service has, and the attributes of its configuration. */
export function createPersonFields({
  accounts,
  interactions: { locales, reservedUsernames, registration },
}: FieldSettings): PersonFields {
  const asked: Readonly<Partial<Record<string, FieldRow["registration"]>>> =
    typeof registration === "object" ? (registration.fields ?? {}) : {};
  const own: Readonly<Partial<Record<PersonField, Partial<FieldRow>>>> = {
    username: { choiceProblem: (value) => chosenUsernameProblem(value, reservedUsernames) },
    // One language is no choice.
    locale: {
      edit: locales.length > 1 ? "person" : "operator",
      input: { ...PERSON_FIELDS.locale.input, options: locales },
    },
  };
  const all = [
    ...PERSON_FIELD_NAMES.map((name) => ({
      ...ROWS[name],
      ...own[name],
      name,
      registration: ownValue(asked, name),
    })),
    ...attributeRows(accounts),
  ] as readonly FieldRow[];
  const isInName = ({ name }: FieldRow): boolean => FULL_NAME.some((part) => part === name);
  const first = (rank: (row: FieldRow) => boolean): readonly FieldRow[] => [
    ...all.filter(rank),
    ...all.filter((row) => !rank(row)),
  ];
  const attributes = new Map(all.flatMap((row) => (row.isAttribute ? [[row.name, row] as const] : [])));
  const ofClaim = first(({ isDocumented }) => isDocumented).flatMap((row) =>
    row.claim === undefined ? [] : [[row.claim.name, row] as const],
  );
  return {
    rows: all,
    own: first(isInName).filter(
      ({ edit, input, parts }) => edit === "person" && (input ?? parts) !== undefined,
    ),
    registered: all.filter(({ registration: when, input }) => when !== undefined && input !== undefined),
    ofClaim: new Map(ofClaim),
    shown: (values) =>
      holding(all.map((row) => [row, valueOf(row, values)])) as ReturnType<PersonFields["shown"]>,
    stored(before, changes) {
      const members = PERSON_FIELD_NAMES.map((name) => {
        const given = changes[name];
        if (given === undefined) return [name, before[name] ?? null] as const;
        return [name, given && (ROWS[name].stored?.(given) ?? given)] as const;
      });
      const sent = Object.entries(changes.attributes ?? {}).map(
        ([name, value]) =>
          [name, value === null ? null : (attributes.get(name)?.stored?.(value) ?? value)] as const,
      );
      // An attribute that the service no longer has stays.
      const after = new Map<string, AttributeValue | null>([
        ...Object.entries(before.attributes ?? {}),
        ...sent,
      ]);
      for (const [name, dependent] of Object.entries(DEPENDENT)) {
        const isKept = (before.attributes?.[name] ?? null) === (after.get(name) ?? null);
        if (isKept || changes.attributes?.[dependent] !== undefined) continue;
        if ((after.get(name) ?? null) === null) after.delete(dependent);
        else after.set(dependent, false);
      }
      const kept = [...after].filter((entry): entry is [string, AttributeValue] => entry[1] !== null);
      return {
        ...(Object.fromEntries(members) as FieldAnswers),
        ...(kept.length > 0 && { attributes: Object.fromEntries(kept) }),
      };
    },
    changed: (before, after) => all.filter((row) => !isSame(row, before, after)).map(({ name }) => name),
    problems(values, clock) {
      const unknown = Object.keys(values.attributes ?? {}).filter((name) => !attributes.has(name));
      return [
        ...unknown.map((name) => ({ path: ["attributes", name], message: "is not a field of this service" })),
        ...all.flatMap((row) => {
          const value = givenValue(row, values);
          const message = value === null ? undefined : row.problem(value, clock);
          const path = row.isAttribute ? ["attributes", row.name] : [row.name];
          return message === undefined ? [] : [{ path, message }];
        }),
      ];
    },
    isTooLarge: ({ attributes: values = {} }) =>
      Buffer.byteLength(JSON.stringify(values)) > MAX_ATTRIBUTE_BYTES,
  };
}

/** Whether a client may read a field, if its scope is granted. */
export function isReadBy(
  { readers, isHidden }: FieldRow,
  { service, first_party }: { readonly service: string | null; readonly first_party: boolean },
): boolean {
  if (isHidden && !first_party) return false;
  return readers === undefined || (service !== null && readers.includes(service));
}

/** Whether a field has the same value in both. */
export function isSame(row: FieldRow, one: FieldValues, other: FieldValues): boolean {
  return isDeepStrictEqual(givenValue(row, one), givenValue(row, other));
}

/** The names of the attributes of an account with a value that nobody reads: not configured, or not for such a value. */
export function unreadAttributes(accounts: FieldSettings["accounts"]): (values: FieldValues) => string[] {
  const rows = new Map(attributeRows(accounts).map((row) => [row.name, row]));
  return ({ attributes = {} }) =>
    Object.entries(attributes).flatMap(([name, value]) => {
      const row = rows.get(name);
      return row !== undefined && row.problem(value) === undefined ? [] : [name];
    });
}

/** The fields of a form by line. Two that belong together share one. */
export function inLines<F extends { readonly name: string }>(fields: readonly F[]): F[][] {
  const lines: F[][] = [];
  for (const field of fields) {
    const line = lines.at(-1) ?? [];
    const isNext = PERSON_FIELD_NAMES.some(
      (name) => name === line.at(-1)?.name && ROWS[name].input.beside === field.name,
    );
    if (isNext) line.push(field);
    else lines.push([field]);
  }
  return lines;
}

/** What is wrong with a value that a person has entered. `reserved`: nobody may choose it. */
export type EnteredProblem = "invalid" | "reserved";

/** What is wrong with a value that a person has entered. */
export function enteredProblem(
  row: FieldRow,
  value: AttributeValue,
  clock: Clock,
): EnteredProblem | undefined {
  const isOffered = row.input?.options?.includes(textOf(value)) ?? true;
  if (!isOffered || row.problem(value, clock) !== undefined) return "invalid";
  return typeof value === "string" ? row.choiceProblem?.(value) : undefined;
}
