/** The operation on operators. It can't be asked for over HTTP: who has stolen a password could confirm a factor of their own. */
import { type Facade, NONE, operation, operations } from "./operation.ts";

export const operators = operations("operator", {
  /**
   * Confirms the second factors that an operator has now, so that they open the console.
   *
   * A first factor opens it 24 hours after it was added, or at once when it is confirmed: somebody with nothing but the password of
   * an operator could have added it. Ask the operator in person, or call back on a known number, before you confirm it.
   *
   * @throws NotFound if there is no such account.
   * @throws SignInError `not_applicable` if the account is no operator, or has no second factor.
   */
  confirm: operation({
    effect: "verb",
    target: ["sub"],
    input: NONE,
    output: NONE,
    role: "administrator",
    limited: false,
    surfaces: ["library", "command"],
    confirm: "none",
    audit: ["operator.confirmed"],
    errors: ["not_found", "not_applicable"],
    columns: [],
    example: { target: ["SUB"], input: {} },
  }),
});

/** The call for operators. */
export type Operators = Facade<typeof operators.rows>;
