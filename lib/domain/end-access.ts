/** `accounts.endSessions`, `accounts.revokeTokens`, `accounts.disable` and `accounts.enable`. */
import type { AccountRecord } from "../directory/directory.ts";
import { isDisabled } from "./account.ts";
import { type AccountDeps, changeAccount } from "./account-change.ts";
import { clientId as clientIdSchema } from "./account-schema.ts";
import { anyString, checked } from "./arguments.ts";
import { type CallOptions, callerOf } from "./call-options.ts";
import { raised } from "./generations.ts";
import { withoutEntries } from "./own-entries.ts";

/** See `Accounts.endSessions`. */
export async function endSessions(
  deps: AccountDeps,
  sub: string,
  options: CallOptions | undefined,
): Promise<boolean> {
  checked("sub", anyString, sub);
  const caller = callerOf(options);
  const { changed } = await changeAccount(deps, sub, caller, (before) => {
    if (before === undefined) return undefined;
    const record = { ...before, sessions_generation: before.sessions_generation + 1 };
    return { action: "account.sessions_ended", record };
  });
  return changed;
}

/** See `Accounts.revokeTokens`. */
export async function revokeTokens(
  deps: AccountDeps,
  sub: string,
  clientId: string | undefined,
  options: CallOptions | undefined,
): Promise<boolean> {
  checked("sub", anyString, sub);
  const caller = callerOf(options);
  const id = checked("client_id", clientIdSchema.optional(), clientId);
  const { changed } = await changeAccount(deps, sub, caller, (before) => {
    if (before === undefined) return undefined;
    const record = id === undefined ? withoutTokens(before) : withoutTokensAt(before, id);
    return { action: "account.tokens_revoked", record, ...(id === undefined ? {} : { client: id }) };
  });
  return changed;
}

/** See `Accounts.disable` and `Accounts.enable`. */
export async function setDisabled(
  deps: AccountDeps,
  sub: string,
  disabled: boolean,
  options: CallOptions | undefined,
): Promise<boolean> {
  checked("sub", anyString, sub);
  const { record: after } = await changeAccount(deps, sub, callerOf(options), (before) => {
    if (before === undefined || isDisabled(before) === disabled) return undefined;
    if (!disabled) return { action: "account.enabled", record: { ...before, disabled } };
    // What was given out before does not come back when the account is enabled.
    const record = {
      ...before,
      disabled,
      sessions_generation: before.sessions_generation + 1,
      tokens_generation: before.tokens_generation + 1,
    };
    return { action: "account.disabled", record };
  });
  return after !== undefined;
}

function withoutTokens(before: AccountRecord): AccountRecord {
  return { ...before, tokens_generation: before.tokens_generation + 1, consents: {} };
}

function withoutTokensAt(before: AccountRecord, id: string): AccountRecord {
  return {
    ...before,
    client_generations: raised(before.client_generations, [id]),
    consents: withoutEntries(before.consents, new Set([id])),
  };
}
