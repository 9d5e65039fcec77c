/** Operators whose first second factor somebody has confirmed, because it is new. */
import { ACCOUNT } from "../directory/directory-kinds.ts";
import { defineKind, type Kind } from "../kinds.ts";

/** How long a first factor is new. */
export const NEW_FACTOR_SECONDS: number = 24 * 60 * 60;

export interface OperatorConfirmation {
  readonly sub: string;
  /** Seconds since the epoch. Factors that were added later are not confirmed. */
  readonly confirmed_at: number;
}

export const OPERATOR_CONFIRMATION: Kind<OperatorConfirmation> = defineKind<OperatorConfirmation>({
  name: "operator-confirmation",
  holds: "that the new second factors of an operator were confirmed",
  key: "the `sub` of the operator",
  keyOf: ({ sub }) => sub,
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  expires: "after 24 hours: what was confirmed is old enough then",
  expiresAt: ({ confirmed_at }) => (confirmed_at + NEW_FACTOR_SECONDS) * 1000,
  store: "storage",
  exported: true,
  afterRestore: "removed",
  personal: "the `sub` of an operator",
});
