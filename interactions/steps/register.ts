/** The step `register`: a new account. Known and unknown addresses, free and taken usernames get the same answer. */
import { trimmed } from "../../accounts/names.ts";
import type { RegistrationForm } from "../../accounts/people/registrations.ts";
import { keptEnrolment } from "./confirm-email.ts";
import { askedAt, type Entry, type Field, type Outcome, type Problem, type Step } from "./step.ts";

/** The action of somebody who wants a passkey instead. */
const WITHOUT_PASSWORD = "without-password";

/** The values that the pages offer for `gender`, besides leaving it empty. */
const GENDERS: readonly string[] = ["female", "male", "other"];

/** The fields that the configuration can ask for, in the order of the page. */
const ASKED: readonly (Omit<Field, "required" | "name"> & { readonly name: Extra })[] = [
  { name: "username", type: "text", autocomplete: "username" },
  { name: "name", type: "text", autocomplete: "given-name" },
  { name: "surname", type: "text", autocomplete: "family-name" },
  { name: "date_of_birth", type: "date", autocomplete: "bday" },
  { name: "gender", type: "select", autocomplete: "sex", options: GENDERS },
];

type Extra = "username" | "name" | "surname" | "date_of_birth" | "gender";

export const register: Step = {
  isOpen: ({ prompt, state }, { registration }) =>
    prompt !== "consent" && registration !== undefined && state.usernameTaken === undefined,
  fields({ loginHint = "" }, { registration: { fields = {}, terms } = {} }) {
    const email = loginHint.includes("@") ? loginHint : "";
    // Password managers store the password with the one field that has `username`, which must not be empty.
    const hasUsername = fields.username === "required";
    const address = hasUsername ? "email" : "username";
    return [
      { name: "email", type: "email", autocomplete: address, required: true, value: email },
      ...ASKED.flatMap((field) => {
        const asked = fields[field.name];
        const autocomplete = field.name === "username" && !hasUsername ? "nickname" : field.autocomplete;
        return asked === undefined ? [] : [{ ...field, autocomplete, required: asked === "required" }];
      }),
      { name: "password", type: "password", autocomplete: "new-password", required: true },
      ...(terms === undefined ? [] : [termsField(terms.version)]),
    ];
  },
  actions: (_signIn, { registration }) =>
    registration?.passwordless ? ["submit", WITHOUT_PASSWORD] : ["submit"],
  ways: () => ["login"],
  async submit(entry, services): Promise<Outcome> {
    const { registrations } = services.people;
    if (registrations === undefined) return { kind: "gone" };
    const form = formOf(entry);
    const result = await registrations.start(entry.signIn.uid, form, askedAt(entry, services));
    if (result.kind === "limited") return result;
    if (result.kind === "sent") {
      const kept = keptEnrolment(entry.signIn.state);
      return { kind: "next", state: { ...kept, step: "confirm-email", email: form.email } };
    }
    if (result.kind === "refused") return { kind: "invalid", problems: [{ code: "refused", fields: [] }] };
    const { min, max } = services.offers.passwordLength;
    const problems = Object.entries(result.problems).map(([field, code]): Problem => ({
      code,
      fields: [field === "termsVersion" ? "terms" : field],
      values: { min, max },
    }));
    return { kind: "invalid", problems };
  },
};

/** The checkbox for the terms. It sends their version, so that nobody accepts what the page did not show. */
export function termsField(version: string): Field {
  return { name: "terms", type: "checkbox", autocomplete: "off", required: true, value: version };
}

function formOf({ values, locale, action }: Entry): RegistrationForm {
  const entered = ASKED.flatMap(({ name }) => {
    const value = trimmed(values.get(name) ?? "");
    return value === "" ? [] : [[name, value] as const];
  });
  return {
    email: trimmed(values.get("email") ?? ""),
    password: action === WITHOUT_PASSWORD ? null : (values.get("password") ?? ""),
    ...Object.fromEntries(entered),
    termsVersion: values.get("terms"),
    locale,
  };
}
