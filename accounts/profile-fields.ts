/**
 * The fields of a person, a row each. Records, arguments, answers, claims, notifications and forms
 * walk these rows; the address has rules of its own.
 */
import type { REGISTRATION_FIELDS } from "../config/pages.ts";
import type { Clock } from "../core/clock.ts";
import { FULL_NAME, personNameProblem, usernameProblem } from "./names.ts";
import { birthDateProblem, keyProblem, localeProblem, type Problem, textProblem } from "./text-rules.ts";

/** A field that the registration form can ask for. */
export type ProfileField = (typeof REGISTRATION_FIELDS)[number];

interface FieldRow {
  /** What is wrong with a value, completing "must …". Some values are wrong only at a certain time. */
  readonly problem: (value: string, clock?: Clock) => Problem;
  /** How a form asks people for it. Missing: only operators set it. */
  readonly input?: {
    readonly type: "text" | "date" | "select";
    /** A value of the HTML attribute `autocomplete`. */
    readonly autocomplete?: string;
    /** What people choose from. The library takes other values, too. */
    readonly options?: readonly string[];
    /** The field that stands beside it, on the same line, if it comes next. */
    readonly beside?: string;
  };
  /** The claim of the scope `profile` that has its value. */
  readonly claim?: string;
  /** Whether it is a member of the documented profile. */
  readonly isDocumented: boolean;
  /** Whether a change is a `PROFILE_CHANGED`. */
  readonly notifies: boolean;
}

const GENDERS = ["female", "male", "other"];

const rows = {
  username: {
    problem: usernameProblem,
    input: { type: "text", autocomplete: "username" },
    claim: "preferred_username",
    isDocumented: false,
    notifies: true,
  },
  name: {
    problem: personNameProblem,
    input: { type: "text", autocomplete: "given-name", beside: "surname" },
    claim: "given_name",
    isDocumented: true,
    notifies: true,
  },
  surname: {
    problem: personNameProblem,
    input: { type: "text", autocomplete: "family-name" },
    claim: "family_name",
    isDocumented: true,
    notifies: true,
  },
  date_of_birth: {
    problem: birthDateProblem,
    input: { type: "date", autocomplete: "bday", beside: "gender" },
    claim: "birthdate",
    isDocumented: true,
    notifies: true,
  },
  gender: {
    problem: textProblem,
    input: { type: "select", autocomplete: "sex", options: GENDERS },
    claim: "gender",
    isDocumented: true,
    notifies: true,
  },
  locale: {
    problem: localeProblem,
    input: { type: "select" },
    claim: "locale",
    isDocumented: false,
    notifies: false,
  },
  portal: {
    problem: keyProblem,
    isDocumented: false,
    notifies: false,
  },
} satisfies Readonly<Record<string, FieldRow>>;

export type PersonField = keyof typeof rows;

export const PERSON_FIELDS: Readonly<Record<PersonField, FieldRow>> = rows;

/** In the order in which an account shows them. */
export const PERSON_FIELD_NAMES = Object.keys(rows) as readonly PersonField[];

/** A field that people can change themselves. */
export type OwnField = {
  [field in PersonField]: (typeof rows)[field] extends { readonly input: object } ? field : never;
}[PersonField];

/** The fields that people can change themselves, in the order of the profile page: the full name first. */
export const OWN_FIELDS: readonly OwnField[] = [
  ...FULL_NAME,
  ...PERSON_FIELD_NAMES.filter((field): field is OwnField => PERSON_FIELDS[field].input !== undefined).filter(
    (field) => !FULL_NAME.some((part) => part === field),
  ),
];

/** The fields of a form by line. Two that belong together share one. */
export function inLines<F extends { readonly name: string }>(fields: readonly F[]): F[][] {
  const lines: F[][] = [];
  for (const field of fields) {
    const line = lines.at(-1) ?? [];
    const isNext = PERSON_FIELD_NAMES.some(
      (name) => name === line.at(-1)?.name && PERSON_FIELDS[name].input?.beside === field.name,
    );
    if (isNext) line.push(field);
    else lines.push([field]);
  }
  return lines;
}

/** The members of the documented profile after `sub` and `email`, in their order. */
export const DOCUMENTED_FIELDS = PERSON_FIELD_NAMES.filter((field) => PERSON_FIELDS[field].isDocumented);

/** The field that each claim of the scope `profile` has the value of, those of the documented profile first. */
export const FIELD_OF_CLAIM: ReadonlyMap<string, PersonField> = new Map(
  [...DOCUMENTED_FIELDS, ...PERSON_FIELD_NAMES].flatMap((field) => {
    const { claim } = PERSON_FIELDS[field];
    return claim === undefined ? [] : [[claim, field] as const];
  }),
);

/** The name by which people see a field: that of the documented profile, or else its claim. */
export function shownName(field: PersonField): string {
  const { isDocumented, claim = field } = PERSON_FIELDS[field];
  return isDocumented ? field : claim;
}

type FieldValues = Readonly<Record<PersonField, string | null>>;

/** The fields of a record or an argument, in the order of the rows; `null` for those without a value. */
export function personFields(from: {
  readonly [field in PersonField]?: string | null | undefined;
}): FieldValues {
  return Object.fromEntries(PERSON_FIELD_NAMES.map((field) => [field, from[field] ?? null])) as FieldValues;
}

/** What is wrong with a value that a person has entered, completing "must …". */
export function enteredProblem(field: ProfileField, value: string, clock: Clock): Problem {
  const { problem, input: { options } = {} } = PERSON_FIELDS[field];
  const isOffered = options === undefined || options.includes(value);
  return isOffered ? problem(value, clock) : `must be one of ${options.join(", ")}`;
}
