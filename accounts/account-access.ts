/** What an account may use: its services, and its sessions, codes and tokens. */
import { ConditionFailed, NotFound } from "../core/errors.ts";
import { clientNow } from "../records/audit/audit-event.ts";
import { CLIENT } from "../records/directory/directory-kinds.ts";
import { storedClientId } from "../records/directory/document-kinds.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import type { AccountServices } from "./services.ts";
import { ownValue, withEntry, withoutEntries } from "../core/untrusted-keys.ts";
import { type AccountInternals, isDisabled, passwordGeneration } from "./account.ts";
import type { AccountDecision, AccountWriter } from "./account-change.ts";
import { generationAt, raised } from "./generations.ts";
import type { Account, accounts } from "./operations/accounts.ts";
import type { Call, Handlers } from "./operations/operation.ts";
import { requireRoles } from "./roles.ts";

type Access = Pick<
  Handlers<typeof accounts.rows>,
  "assign" | "unassign" | "setRoles" | "endSessions" | "revokeTokens" | "disable" | "enable"
>;
type AccountAccess = Pick<AccountInternals, "assignAtSignIn" | "endOtherSessions">;

/** The error for a change of an account that does not exist. */
export function noAccount(): NotFound {
  return new NotFound("this account");
}

export function createAccountAccess(
  writer: AccountWriter,
  { clock, storage: { directory } }: Pick<AccountServices, "clock" | "storage">,
  toAccount: (record: AccountRecord) => Account,
): { readonly operations: Access; readonly internals: AccountAccess } {
  /** The account after a change. @throws NotFound if there is none. */
  function shown(record: AccountRecord | undefined): Account {
    if (record === undefined) throw noAccount();
    return toAccount(record);
  }

  async function setDisabled(
    { target: [sub], caller }: Call<typeof accounts.rows.disable>,
    action: "account.disabled" | "account.enabled",
  ): Promise<Account> {
    const disabled = action === "account.disabled";
    const { record } = await writer.change(sub, caller, (before) => {
      if (before === undefined || isDisabled(before) === disabled) return undefined;
      // Sessions and tokens that were issued before stay invalid after the account is enabled again.
      const after = disabled ? withoutTokens(withoutSessions(before)) : before;
      return { action, record: { ...after, disabled } };
    });
    return shown(record);
  }

  const operations: Access = {
    async assign({ target: [sub], input: { service, user_id_in_service: reported }, caller }) {
      const { record } = await writer.change(sub, caller, (before) => {
        if (before === undefined) return undefined;
        const current = ownValue(before.services, service);
        const value = reported === undefined ? (current ?? null) : reported;
        return current === value ? undefined : assigned(before, service, value);
      });
      return shown(record);
    },

    async unassign({ target: [sub], input: { services: keys }, caller }) {
      const clients = new Set(await clientsOf(directory, keys));
      const { changed } = await writer.change(sub, caller, (before) => {
        const leaving = keys.filter((key) => before !== undefined && Object.hasOwn(before.services, key));
        if (before === undefined || leaving.length === 0) return undefined;
        const record = {
          ...before,
          services: withoutEntries(before.services, new Set(leaving)),
          service_generations: raised(before.service_generations, leaving),
          consents: withoutEntries(before.consents, clients),
        };
        return { action: "account.unassigned", record, detail: { services: leaving.join(" ") } };
      });
      return changed;
    },

    async setRoles({ target: [sub], input: { service, roles }, caller }) {
      const { record } = await writer.change(sub, caller, async (before, tx) => {
        if (before === undefined) return undefined;
        await requireRoles(tx, before, { service, names: roles, clock });
        const current = ownValue(before.roles ?? {}, service) ?? [];
        if (current.join(" ") === roles.join(" ")) return undefined;
        const after = { ...before, roles: withEntry(before.roles ?? {}, service, roles) };
        return { action: "account.roles_set", record: after, detail: { service, roles: roles.join(" ") } };
      });
      return shown(record);
    },

    async endSessions({ target: [sub], caller }) {
      const { changed } = await writer.change(
        sub,
        caller,
        (before) => before && { action: "account.sessions_ended", record: withoutSessions(before) },
      );
      if (!changed) throw noAccount();
    },

    async revokeTokens({ target: [sub], input, caller }) {
      const client = input.client && storedClientId(input.client);
      const { changed } = await writer.change(sub, caller, async (before, tx) => {
        if (before === undefined) return undefined;
        const action = "account.tokens_revoked";
        if (client === undefined) return { action, record: { ...withoutTokens(before), consents: {} } };
        const record = {
          ...before,
          client_generations: raised(before.client_generations, [client]),
          consents: withoutEntries(before.consents, new Set([client])),
        };
        const [found] = await tx.peekAll([CLIENT.ref(client)]);
        return { action, record, client: clientNow({ client_id: client, service: found?.service }) };
      });
      if (!changed) throw noAccount();
    },

    disable: (call) => setDisabled(call, "account.disabled"),
    enable: (call) => setDisabled(call, "account.enabled"),
  };

  const internals: AccountAccess = {
    async assignAtSignIn(sub, service, signedIn, caller) {
      const { record } = await writer.change(sub, caller, (before) => {
        const isCurrent =
          before !== undefined &&
          before.tokens_generation === signedIn.tokensGeneration &&
          generationAt(before.service_generations, service) === signedIn.serviceGeneration;
        if (!isCurrent) throw new ConditionFailed("the sign-in was revoked before it finished");
        return Object.hasOwn(before.services, service) ? undefined : assigned(before, service, null);
      });
      if (record === undefined) throw new ConditionFailed("the account was deleted during the sign-in");
      return record;
    },

    async endOtherSessions(sub, { keepSession, generation }, caller) {
      const { changed, record } = await writer.change(sub, caller, (before) =>
        before?.sessions_generation === generation
          ? { action: "account.sessions_ended", record: withoutSessions(before), keepSession }
          : undefined,
      );
      return changed ? record : undefined;
    },
  };
  return { operations, internals };
}

function assigned(before: AccountRecord, service: string, value: number | null): AccountDecision {
  const record = { ...before, services: withEntry(before.services, service, value) };
  return { action: "account.assigned", record, detail: { service } };
}

/** Ends all sessions of the account. */
export function withoutSessions(before: AccountRecord): AccountRecord {
  return { ...before, sessions_generation: before.sessions_generation + 1 };
}

/** Ends all codes and tokens of the account. */
export function withoutTokens(before: AccountRecord): AccountRecord {
  return { ...before, tokens_generation: before.tokens_generation + 1 };
}

/** Replaces or removes the password, which ends all sessions and tokens. @param now seconds since the epoch. */
export function withPassword(before: AccountRecord, hash: string | null, now: number): AccountRecord {
  const password = { hash, generation: passwordGeneration(before) + 1, changed_at: now };
  return { ...withoutTokens(withoutSessions(before)), ways: { ...before.ways, password } };
}

/** The ids of all clients that belong to one of these services. */
async function clientsOf(
  directory: Pick<DirectoryRecords, "listClients">,
  services: readonly string[],
): Promise<string[]> {
  if (services.length === 0) return [];
  const clients = await directory.listClients();
  return clients
    .filter(({ service }) => service !== null && services.includes(service))
    .map((client) => client.client_id);
}
