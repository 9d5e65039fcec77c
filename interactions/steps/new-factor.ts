/** How each kind of factor is added, at the step `enrol` and on the page of the account: what to enter, and what it does. */
import type { Enrolment, Enrolments } from "../../accounts/factors/enrolment.ts";
import { type NewFactor, type OwnFactorChange, passkeyName } from "../../accounts/factors/factor.ts";
import type { AskedAt } from "../../accounts/people/requests.ts";
import { AMR_CODE, amrOfPasskey } from "../../provider/authentication.ts";
import { codeField } from "./mailed-code.ts";
import { parsed } from "./passkey-sign-in.ts";
import type { Field, Outcome, Problem, Values } from "./step.ts";

export type FactorKind = NewFactor["kind"];

type Invalid = Extract<Outcome, { readonly kind: "invalid" }>;

/** What adding ended with. `shown` is what the person has shown by it, as `amr`. */
type Added =
  | Exclude<Awaited<ReturnType<Enrolments["addApp"]>>, { readonly kind: "changed" | "wrong" }>
  | (Extract<Awaited<ReturnType<Enrolments["addApp"]>>, { readonly kind: "changed" }> & {
      readonly shown: readonly string[];
    })
  | Invalid;

interface NewFactorRow {
  readonly field: Field;
  /** Tries the factor, and adds it if it works. */
  readonly add: (
    enrolments: Enrolments,
    made: Enrolment,
    values: Values,
    change: OwnFactorChange,
    at: AskedAt,
  ) => Promise<Added>;
}

const invalid = (problem: Problem): Invalid => ({ kind: "invalid", problems: [problem] });

export const PASSKEY_REFUSED: Invalid = invalid({ code: "new-passkey-refused", fields: [] });

export const NAME_REFUSED: Invalid = invalid({ code: "passkey-name", fields: ["name"] });

/** The problem with the name of a new passkey; `undefined` if there is none. */
export const nameProblem = (values: Values): Invalid | undefined =>
  passkeyName(values.get("name") ?? "") === undefined ? NAME_REFUSED : undefined;

/** By the name of the action that adds it. */
export const NEW_FACTORS: Readonly<Record<FactorKind, NewFactorRow>> = {
  app: {
    field: codeField,
    async add(enrolments, made, values, change, at) {
      const added = await enrolments.addApp(made, values.get("code") ?? "", change, at);
      if (added.kind === "wrong") return invalid({ code: "wrong-app-code", fields: ["code"] });
      return added.kind === "changed" ? { ...added, shown: AMR_CODE } : added;
    },
  },
  passkey: {
    field: { name: "name", type: "text", autocomplete: "off", required: true },
    async add(enrolments, made, values, change, at) {
      const unnamed = nameProblem(values);
      if (unnamed !== undefined) return unnamed;
      const credential = parsed(values.get("credential"));
      const added = await enrolments.addPasskey(made, credential, values.get("name") ?? "", change, at);
      if (added.kind === "wrong") return PASSKEY_REFUSED;
      return added.kind === "changed" ? { ...added, shown: amrOfPasskey(added.backupEligible) } : added;
    },
  },
};
