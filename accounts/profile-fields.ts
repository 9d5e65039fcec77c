/**
 * The fields of a person, a row each. A service makes its list once, at the start: these rows, and those that are added to them.
 * Records, arguments, answers, claims, notifications and forms walk the list; the address has rules of its own.
 */
import type { InteractionSettings } from "../config/pages.ts";
import type { Clock } from "../core/clock.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import { chosenUsernameProblem, FULL_NAME, personNameProblem, trimmed, usernameProblem } from "./names.ts";
import { birthDateProblem, keyProblem, localeProblem, type Problem, textProblem } from "./text-rules.ts";

/** Text that people read: one for all languages, or one for each language. */
export type LocalText = string | Readonly<Record<string, string>>;

export interface FieldRow {
  /** Its name in arguments, answers and forms. */
  readonly name: string;
  /** Whether records, arguments and answers have it under `attributes`. Default: it is a member of their own. */
  readonly isAttribute?: true;
  /** What is wrong with a value, completing "must …". Some values are wrong only at a certain time. */
  readonly problem: (value: string, clock?: Clock) => Problem;
  /** What its rule takes, in words. */
  readonly form: string;
  /** A value as it is stored. Default: as it was given. */
  readonly stored?: (value: string) => string;
  /** What else is wrong with a value that a person chooses. Default: nothing. */
  readonly choiceProblem?: (value: string) => EnteredProblem | undefined;
  /** Who changes it: the person on the profile page, or only operators. */
  readonly edit: "person" | "operator";
  /** Whether the registration form asks for it. Default: it doesn't. */
  readonly registration?: "required" | "optional" | undefined;
  /** How a form asks for it. */
  readonly input: {
    readonly type: "text" | "date" | "select";
    /** A value of the HTML attribute `autocomplete`. */
    readonly autocomplete?: string;
    /** What people choose from. The library takes other values, too. */
    readonly options?: readonly string[];
    /** The field that stands beside it, on the same line, if it comes next. */
    readonly beside?: string;
  };
  /** The claim that has its value, and the scope that asks for the claim. Default: no client reads it. */
  readonly claim?: { readonly name: string; readonly scope: string };
  /** Whether it is a member of the documented profile. */
  readonly isDocumented: boolean;
  /** Whether a change is a `PROFILE_CHANGED`. */
  readonly notifies: boolean;
  /** What people call it. Default: the texts of the locale files. */
  readonly texts?: { readonly label: LocalText; readonly options?: Readonly<Record<string, LocalText>> };
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
    problem: textProblem,
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
    input: { type: "select" },
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
} satisfies Readonly<Record<string, Omit<FieldRow, "name" | "isAttribute">>>;

/** A field that every service has. */
export type PersonField = keyof typeof PERSON_FIELDS;

const ROWS: Readonly<Record<PersonField, Omit<FieldRow, "name">>> = PERSON_FIELDS;

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
  readonly attributes?: Readonly<Record<string, string | null>> | undefined;
};

/** The value of a field; `null` without one. */
export function valueOf({ name, isAttribute }: FieldRow, values: FieldValues): string | null {
  const members: Readonly<Record<string, unknown>> = isAttribute ? (values.attributes ?? {}) : values;
  return (ownValue(members, name) ?? null) as string | null;
}

/** Something that is wrong with a value, by the path to it. */
interface FieldIssue {
  readonly path: readonly string[];
  readonly message: string;
}

/** The fields of the persons of one service. */
export interface PersonFields {
  /** In the order in which an account shows them. */
  readonly rows: readonly FieldRow[];
  /** Those that people change themselves, in the order of the profile page: the full name first. */
  readonly own: readonly FieldRow[];
  /** Those that the registration form asks for, in its order. */
  readonly registered: readonly FieldRow[];
  /** Those whose value is in a claim, by the name of the claim; those of the documented profile first. */
  readonly ofClaim: ReadonlyMap<string, FieldRow>;
  /** The values of all fields as an account shows them. */
  shown(values: FieldValues): FieldAnswers & {
    readonly attributes?: Readonly<Record<string, string | null>>;
  };
  /** The members of the record of an account after a change. What is left out of the change stays as it was. */
  stored(before: FieldValues, changes: FieldValues): StoredValues;
  /** The names of the fields whose values differ. */
  changed(before: FieldValues, after: FieldValues): string[];
  /** What is wrong with values now. The schemas of arguments know neither the time nor the attributes. */
  problems(values: FieldValues, clock: Clock): FieldIssue[];
  /** The texts of the added fields in a language, by their keys in the locale files. */
  texts(locale: string): Readonly<Record<string, string>>;
}

/** The values in the record of an account. */
type StoredValues = FieldAnswers & {
  readonly attributes?: Readonly<Record<string, string>>;
};

/** Values with their fields, as a record, an argument or an answer has them. */
export function holding<Value>(values: readonly (readonly [FieldRow, Value])[]): {
  readonly [field in PersonField]?: Value;
} & { readonly attributes?: Readonly<Record<string, Value>> } {
  const named = (isAttribute: boolean) =>
    Object.fromEntries(
      values
        .filter(([row]) => (row.isAttribute ?? false) === isAttribute)
        .map(([{ name }, value]) => [name, value] as const),
    );
  const attributes = named(true);
  return { ...named(false), ...(Object.keys(attributes).length > 0 && { attributes }) };
}

/** The fields of a service, with those that are added to what every service has. */
export function createPersonFields(
  {
    locales,
    reservedUsernames,
    registration,
  }: Pick<InteractionSettings, "locales" | "reservedUsernames" | "registration">,
  added: readonly FieldRow[] = [],
): PersonFields {
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
  const all: readonly FieldRow[] = [
    ...PERSON_FIELD_NAMES.map((name) => ({
      ...ROWS[name],
      ...own[name],
      name,
      registration: ownValue(asked, name),
    })),
    ...added,
  ];
  const isInName = ({ name }: FieldRow): boolean => FULL_NAME.some((part) => part === name);
  const first = (rank: (row: FieldRow) => boolean): readonly FieldRow[] => [
    ...all.filter(rank),
    ...all.filter((row) => !rank(row)),
  ];
  const attributes = new Set(all.flatMap(({ isAttribute, name }) => (isAttribute ? [name] : [])));
  const ofClaim = first(({ isDocumented }) => isDocumented).flatMap((row) =>
    row.claim === undefined ? [] : [[row.claim.name, row] as const],
  );
  return {
    rows: all,
    own: first(isInName).filter(({ edit }) => edit === "person"),
    registered: all.filter(({ registration: when }) => when !== undefined),
    ofClaim: new Map(ofClaim),
    shown: (values) =>
      holding(all.map((row) => [row, valueOf(row, values)])) as ReturnType<PersonFields["shown"]>,
    stored(before, changes) {
      const members = PERSON_FIELD_NAMES.map((name) => {
        const given = changes[name];
        if (given === undefined) return [name, before[name] ?? null] as const;
        return [name, given && (ROWS[name].stored?.(given) ?? given)] as const;
      });
      // An attribute that the service no longer has stays.
      const kept = Object.entries({ ...before.attributes, ...changes.attributes }).filter(
        (entry): entry is [string, string] => entry[1] !== null,
      );
      return {
        ...(Object.fromEntries(members) as FieldAnswers),
        ...(kept.length > 0 && { attributes: Object.fromEntries(kept) }),
      };
    },
    changed: (before, after) =>
      all.filter((row) => valueOf(row, before) !== valueOf(row, after)).map(({ name }) => name),
    problems(values, clock) {
      const unknown = Object.keys(values.attributes ?? {}).filter((name) => !attributes.has(name));
      return [
        ...unknown.map((name) => ({ path: ["attributes", name], message: "is not a field of this service" })),
        ...all.flatMap((row) => {
          const value = valueOf(row, values);
          const message = value === null ? undefined : row.problem(value, clock);
          const path = row.isAttribute ? ["attributes", row.name] : [row.name];
          return message === undefined ? [] : [{ path, message }];
        }),
      ];
    },
    texts: (locale) => Object.fromEntries(all.flatMap((row) => textsOf(row, locale))),
  };
}

function textsOf(row: FieldRow, locale: string): (readonly [string, string])[] {
  const { name, texts } = row;
  if (texts === undefined) return [];
  const inLocale = (text: LocalText): string =>
    typeof text === "string" ? text : (ownValue(text, locale) ?? name);
  const label = inLocale(texts.label);
  return [
    ...new Map([
      [`field.${name}`, label],
      [`field.${shownName(row)}`, label],
      ...Object.entries(texts.options ?? {}).map(
        ([option, text]) => [`${name}.${option}`, inLocale(text)] as const,
      ),
    ]),
  ];
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

/** The name by which people see a field: that of the documented profile, or else its claim. */
export function shownName({ name, isDocumented, claim }: FieldRow): string {
  return isDocumented ? name : (claim?.name ?? name);
}

/** What is wrong with a value that a person has entered. `reserved`: nobody may choose it. */
export type EnteredProblem = "invalid" | "reserved";

/** What is wrong with a value that a person has entered. */
export function enteredProblem(
  { problem, choiceProblem, input: { options } }: FieldRow,
  value: string,
  clock: Clock,
): EnteredProblem | undefined {
  const isOffered = options === undefined || options.includes(value);
  return isOffered && problem(value, clock) === undefined ? choiceProblem?.(value) : "invalid";
}
