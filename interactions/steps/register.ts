/** The step `register`: a new account. Known and unknown addresses, free and taken usernames get the same answer. */
import { trimmed } from "../../accounts/names.ts";
import { enteredValue, type FieldRow, holding } from "../../accounts/profile-fields.ts";
import type { RegistrationForm, RegistrationProblems } from "../../accounts/people/registration-form.ts";
import type { FieldInput } from "../../accounts/attribute-types.ts";
import { keptEnrolment } from "./confirm-email.ts";
import { askedAt, type Entry, type Field, type Outcome, type Step, type StepServices } from "./step.ts";

/** The action of somebody who wants a passkey instead. */
const WITHOUT_PASSWORD = "without-password";

export const register: Step = {
  isOpen: ({ prompt, state }, { registration }) =>
    prompt !== "consent" && registration !== undefined && state.usernameTaken === undefined,
  fields({ loginHint = "" }, { registration: { fields = [], terms } = {} }) {
    const email = loginHint.includes("@") ? loginHint : "";
    // Password managers store the password with the one field that has `username`, which must not be empty.
    const hasUsername = fields.some((row) => row.name === "username" && row.registration === "required");
    const address = hasUsername ? "email" : "username";
    return [
      { name: "email", type: "email", autocomplete: address, required: true, value: email },
      ...fields.map((row) => askedField(row, hasUsername)),
      { name: "password", type: "password", autocomplete: "new-password", required: true },
      ...(terms === undefined ? [] : [termsField(terms.version)]),
    ];
  },
  actions: (_signIn, { registration }) =>
    registration?.passwordless ? ["submit", WITHOUT_PASSWORD] : ["submit"],
  alternatives: () => ["login"],
  async submit(entry, services): Promise<Outcome> {
    const { registrations } = services.people;
    if (registrations === undefined) return { kind: "gone" };
    const form = formOf(entry, registrations.settings.fields);
    const result = await registrations.start(entry.signIn.uid, form, askedAt(entry, services));
    if (result.kind === "limited") return result;
    if (result.kind === "sent") {
      const kept = keptEnrolment(entry.signIn.state);
      return { kind: "next", state: { ...kept, step: "confirm-email", email: form.email } };
    }
    if (result.kind === "invalid") return problemsIn(result.problems, services);
    return REFUSED;
  },
};

/** The `check` of the configuration refuses. */
export const REFUSED: Outcome = { kind: "invalid", problems: [{ code: "refused", fields: [] }] };

/** The problems of a form of registration. */
export function problemsIn(
  problems: RegistrationProblems,
  { offers: { passwordLength } }: Pick<StepServices, "offers">,
): Outcome {
  const { min, max } = passwordLength;
  return {
    kind: "invalid",
    problems: Object.entries(problems).map(([field, code]) => ({
      code,
      fields: [field === "termsVersion" ? "terms" : field],
      values: { min, max },
    })),
  };
}

/** A field that the form of registration asks for. */
export function askedField(
  { name, registration, input = { type: "text" } }: FieldRow,
  hasUsername: boolean,
): Field {
  const { type, autocomplete: usual = "off", options, optionTexts }: FieldInput = input;
  return {
    name,
    type,
    autocomplete: name === "username" && !hasUsername ? "nickname" : usual,
    required: registration === "required",
    ...(options && { options }),
    ...(optionTexts && { optionTexts }),
  };
}

/** The checkbox for the terms. It sends their version, so that nobody accepts what the page did not show. */
export function termsField(version: string): Field {
  return { name: "terms", type: "checkbox", autocomplete: "off", required: true, value: version };
}

export function formOf({ values, locale, action }: Entry, fields: readonly FieldRow[]): RegistrationForm {
  const entered = fields.map((row) => [row, enteredValue(row, trimmed(values.get(row.name) ?? ""))] as const);
  return {
    email: trimmed(values.get("email") ?? ""),
    password: action === WITHOUT_PASSWORD ? null : (values.get("password") ?? ""),
    ...holding(entered),
    termsVersion: values.get("terms"),
    locale,
  };
}
