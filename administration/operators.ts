/** Whether the second factors of an operator open the console, and the confirmation of new ones. */
import type { AccountServices } from "../accounts/services.ts";
import { facade } from "../accounts/operations/operation.ts";
import { operators, type Operators } from "../accounts/operations/operators.ts";
import { isOperator } from "../config/operators.ts";
import { NotApplicable, NotFound } from "../core/errors.ts";
import { NEW_FACTOR_SECONDS, OPERATOR_CONFIRMATION } from "../records/administration/operator-kinds.ts";

/** `no_factor`: there is none; `factor_too_new`: the first one is younger than 24 hours, and nobody has confirmed it. */
export type ConsoleAccess = "yes" | "no_factor" | "factor_too_new";

export interface ConsoleOperators {
  readonly calls: Operators;
  /** Whether the second factors of an operator open the console now. @throws NotFound if there is no such account. */
  mayOpenConsole(account: { readonly sub: string }): Promise<ConsoleAccess>;
}

export function createOperators({
  accounts,
  clock,
  configuration,
  storage: { records, audit },
}: Pick<AccountServices, "clock" | "configuration" | "storage"> & {
  readonly accounts: Pick<AccountServices["accounts"], "factors">;
}): ConsoleOperators {
  const seconds = (): number => Math.floor(clock.now() / 1000);

  /** When the oldest factor of an account was added; `undefined` without one. @throws NotFound */
  async function firstFactor(sub: string): Promise<number | undefined> {
    const found = await accounts.factors(sub);
    if (found === undefined) throw new NotFound("the account");
    const { app, passkeys } = found;
    const times = [...(app === null ? [] : [app]), ...passkeys].map(({ added_at }) => added_at);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  return {
    calls: facade(operators, {
      async confirm({ target: [sub], caller }) {
        const added = await firstFactor(sub);
        if (!isOperator(configuration, sub)) throw new NotApplicable("the account is no operator");
        if (added === undefined) throw new NotApplicable("the operator has no second factor");
        await records.transact((tx) => {
          tx.overwrite(OPERATOR_CONFIRMATION.record({ sub, confirmed_at: seconds() }));
          tx.create(audit.recordOf({ ...caller, action: "operator.confirmed", subject: sub }));
        });
      },
    }),
    async mayOpenConsole({ sub }) {
      const added = await firstFactor(sub);
      if (added === undefined) return "no_factor";
      // Where it is more than a word: a service that people use is none.
      if (configuration.admin?.environment === "demo" && !configuration.production) return "yes";
      if (added + NEW_FACTOR_SECONDS <= seconds()) return "yes";
      const confirmed = await records.find(OPERATOR_CONFIRMATION.ref(sub));
      return confirmed !== undefined && added <= confirmed.value.confirmed_at ? "yes" : "factor_too_new";
    },
  };
}
