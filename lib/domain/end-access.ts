/** `accounts.endSessions` and `accounts.revokeTokens`. */
import type { AccountRecord } from "../directory/directory.ts";
import { type AccountDeps, changeAccount } from "./account-change.ts";
import { anyString, clientId as clientIdSchema } from "./account-schema.ts";
import { checked } from "./arguments.ts";
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
