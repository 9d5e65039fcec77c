/** What other parts of the administration hand to the console, until they are here. */
import type { Role } from "../../accounts/operations/operation.ts";
import { byCaller } from "../../accounts/arguments.ts";
import { invoke } from "../../accounts/operations/operation.ts";
import { allows } from "../../config/operators.ts";
import { NotFound, SignInError } from "../../core/errors.ts";
import { CALLS, type Calls, type Noun, rowsOf } from "../tables.ts";
import type { Actor, Caller } from "../../records/audit/audit-event.ts";

export type OperatorRole = Role | "deliveries";

export interface Administrator {
  readonly actor: Actor;
  readonly role: OperatorRole;
  readonly service?: string;
}

export type Perform = (
  who: Administrator,
  noun: string,
  verb: string,
  request: {
    readonly target: readonly string[];
    readonly input: Readonly<Record<string, unknown>>;
    readonly ifMatch?: string;
    readonly idempotencyKey?: string;
    readonly origin: Omit<Caller, "actor">;
  },
) => Promise<{ readonly result: unknown; readonly tag?: string }>;

/** By the roles, and nothing else. */
export const performOn =
  (calls: Calls): Perform =>
  async (who, noun, verb, { target, input, origin }) => {
    const row = rowsOf(noun as Noun)[verb];
    if (row === undefined) throw new NotFound(noun);
    if (!allows(who.role, row)) throw new SignInError("role_required", "needs another role");
    const options = byCaller({ ...origin, actor: who.actor });
    return { result: await invoke(CALLS[noun as Noun](calls), verb, row, { target, input, options }) };
  };
