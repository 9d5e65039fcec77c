/** The fields of a person that forms ask for, a row each: its rule, whoever enters it, and how a form asks for it. */
import type { REGISTRATION_FIELDS } from "../config/pages.ts";
import type { Clock } from "../core/clock.ts";
import { personNameProblem, usernameProblem } from "./names.ts";
import { pastBirthDateProblem, type Problem, textProblem } from "./text-rules.ts";

/** A field that a form can ask for, besides the address. */
export type ProfileField = (typeof REGISTRATION_FIELDS)[number];

interface ProfileRow {
  /** What is wrong with a value, completing "must …". */
  readonly problem: (value: string, clock: Clock) => Problem;
  readonly type: "text" | "date" | "select";
  /** A value of the HTML attribute `autocomplete`. */
  readonly autocomplete: string;
  /** What people choose from. The library takes other values, too. */
  readonly options?: readonly string[];
}

const GENDERS = ["female", "male", "other"];

export const PROFILE_FIELDS: Readonly<Record<ProfileField, ProfileRow>> = {
  username: { problem: usernameProblem, type: "text", autocomplete: "username" },
  name: { problem: personNameProblem, type: "text", autocomplete: "given-name" },
  surname: { problem: personNameProblem, type: "text", autocomplete: "family-name" },
  date_of_birth: { problem: pastBirthDateProblem, type: "date", autocomplete: "bday" },
  gender: { problem: textProblem, type: "select", autocomplete: "sex", options: GENDERS },
};

/** What is wrong with a value that a person has entered, completing "must …". */
export function enteredProblem(field: ProfileField, value: string, clock: Clock): Problem {
  const { problem, options } = PROFILE_FIELDS[field];
  const isOffered = options === undefined || options.includes(value);
  return isOffered ? problem(value, clock) : `must be one of ${options.join(", ")}`;
}
