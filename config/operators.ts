/** The key `operators`: who may use the console, and what for. A role is never stored: it is read at each request. */
import { z } from "zod";
import { described, list, text } from "./documented-schema.ts";
import { isUuid } from "./value-forms.ts";

/** What a person or a token may do, each more than the one before. */
export const ROLES = ["viewer", "support", "administrator"] as const;
export type Role = (typeof ROLES)[number];

/** `deliveries`: deliveries and receivers in the console with all that can be done there, and nothing else. */
export const OPERATOR_ROLES = [...ROLES, "deliveries"] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/** The role of each operator, by `sub`. It has no prototype. */
export type Operators = Readonly<Record<string, OperatorRole>>;

const MAX_OPERATORS = 1000;
const SUB_FORM = "the `sub` of an account (a UUID in lower case)";
const sub = text(36, (value) => isUuid(value) && value === value.toLowerCase(), SUB_FORM);
const role = z.enum(OPERATOR_ROLES).meta({
  form: "`viewer`, `support`, `administrator` or `deliveries`",
});
const roles = z
  .record(sub, role)
  .refine((written) => Object.keys(written).length <= MAX_OPERATORS)
  .readonly();

/** A map, or the old form: a list, whose entries have the role `deliveries`. */
export const operators = described(z.union([list(sub, 0), roles]), {
  form: `an object of at most ${MAX_OPERATORS} entries: each key ${SUB_FORM}, each value \`viewer\`, \`support\`, \`administrator\` or \`deliveries\`; or a list of such keys, with the role \`deliveries\``,
});

/** The roles, whichever form they are written in. */
export function operatorsOf(written: z.output<typeof operators>): Operators {
  const pairs = isList(written)
    ? written.map((each) => [each, "deliveries"] as const)
    : Object.entries(written);
  const found: Record<string, OperatorRole> = Object.create(null);
  for (const [each, itsRole] of pairs) found[each] = itsRole;
  return Object.freeze(found);
}

/** Whether the old form is in use. */
export function isList(written: z.output<typeof operators>): written is readonly string[] {
  return Array.isArray(written);
}

/** The role of an account; `undefined` for everybody who is no operator. */
export function roleOf(
  configuration: { readonly operators: Operators },
  account: string,
): OperatorRole | undefined {
  return Object.hasOwn(configuration.operators, account) ? configuration.operators[account] : undefined;
}

/** Whether the account is an operator, of any role. */
export function isOperator(configuration: { readonly operators: Operators }, account: string): boolean {
  return roleOf(configuration, account) !== undefined;
}

/** What an operation asks of a role. */
export interface RoleRule {
  /** The least role. */
  readonly role: Role;
  /** Also the role `deliveries`. */
  readonly deliveries?: true;
}

/** Whether a role is enough for an operation. */
export function allows(held: OperatorRole, { role: least, deliveries }: RoleRule): boolean {
  if (held === "deliveries") return deliveries === true;
  return ROLES.indexOf(held) >= ROLES.indexOf(least);
}
