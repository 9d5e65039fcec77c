/** Stores accounts, with their sign-in names and `user_id`s. */
import type { AccountChange, AccountRecord, DirectoryStore, EntryKind } from "./directory.ts";
import type { Ref } from "../../adapters/record-store.ts";
import type { AuditStore } from "../audit/audit-event.ts";
import { planAdding, type Positions } from "../deliveries/add-deliveries.ts";
import type { LaneAccess } from "../deliveries/lane-access.ts";
import { deliveryRef } from "../deliveries/delivery-kinds.ts";
import {
  AlreadyExists,
  ConditionFailed,
  IdentifierTaken,
  NameTaken,
  UnknownReference,
  UsedUp,
  VersionConflict,
} from "../../core/errors.ts";
import { mailRecord } from "../people/mail-kinds.ts";
import { Changes, type Read } from "../records.ts";
import {
  type IdentifierOwner,
  accountIn,
  accountRecord,
  accountRef,
  BY_NUMBER,
  entryRef,
  isOpen,
  type StoredEntry,
  nameRecord,
  nameRef,
  numberRecord,
  numberRef,
  type AccountReference,
} from "./directory-kinds.ts";

type Accounts = Pick<
  DirectoryStore,
  | "findAccount"
  | "findAccountByName"
  | "findAccountByNumber"
  | "listAccounts"
  | "nextUserId"
  | "passUserId"
  | "commitAccount"
>;

/** The counter that numbers the accounts. */
const COUNTER = "user-id";

export function createAccounts(
  records: LaneAccess,
  audit: Pick<AuditStore, "recordOf">,
  positions: Positions,
): Accounts {
  async function findAccount(sub: string): Promise<AccountRecord | undefined> {
    return accountIn((await records.find<IdentifierOwner>(accountRef(sub)))?.value);
  }

  /** Adds the account itself, on condition that it still has the version that the caller read. */
  async function planAccount(
    changes: Changes,
    { sub, expectedVersion, record }: AccountChange,
  ): Promise<void> {
    const owner = await records.find<IdentifierOwner>(accountRef(sub));
    const before = accountIn(owner?.value);
    if (before?.version !== expectedVersion) throw new VersionConflict("the account was changed in between");
    if (owner !== undefined && before === undefined)
      throw new IdentifierTaken("a client with this client_id");
    if (record === undefined) {
      if (owner === undefined || before === undefined) return;
      changes.delete(accountRef(sub), owner);
      changes.drop(numberRef(before.user_id));
      return;
    }
    changes.write(accountRecord(record), owner);
    if (before?.user_id === record.user_id) return;
    const holder = await records.find<AccountReference>(numberRef(record.user_id));
    if (holder !== undefined) throw new AlreadyExists(`the user_id ${record.user_id}`);
    changes.write(numberRecord(record.user_id, sub), undefined);
    if (before !== undefined) changes.drop(numberRef(before.user_id));
  }

  async function planNames(
    changes: Changes,
    { sub, claimNames, releaseNames }: AccountChange,
  ): Promise<void> {
    const names = [...new Set([...claimNames, ...releaseNames])];
    const owners = await records.get<readonly AccountReference[]>(names.map((name) => nameRef(name)));
    for (const [index, name] of names.entries()) {
      const owner = owners[index];
      const isOwn = owner?.value.sub === sub;
      if (claimNames.includes(name)) {
        if (owner !== undefined && !isOwn) throw new NameTaken();
        changes.write(nameRecord(name, sub), owner);
      } else if (owner !== undefined && isOwn) changes.delete(nameRef(name), owner);
    }
  }

  /** Adds the condition that the required entries exist. An entry that is being removed does not count. */
  async function planReferences(changes: Changes, change: AccountChange): Promise<void> {
    const wanted: (readonly [EntryKind, string])[] = change.requireServices.map((key) => ["service", key]);
    if (change.requirePortal !== undefined) wanted.push(["portal", change.requirePortal]);
    const refs: Ref[] = wanted.map(([kind, key]) => entryRef(kind, key));
    const found: readonly (Read<StoredEntry> | undefined)[] = await records.get<readonly StoredEntry[]>(refs);
    for (const [index, [kind, key]] of wanted.entries()) {
      const entry = found[index];
      if (!isOpen(entry, records.clock)) throw new UnknownReference(`${kind} ${key}`);
      changes.expect(entryRef(kind, key), entry);
    }
  }

  /** Adds the removal of what the change uses up. Another use or a newer one ends the change. */
  async function planUses(changes: Changes, { uses = [] }: AccountChange): Promise<void> {
    const refs = uses.map(({ ref }) => ref);
    const found: readonly (Read<unknown> | undefined)[] =
      refs.length === 0 ? [] : await records.get<readonly unknown[]>(refs);
    for (const [index, { ref, version }] of uses.entries()) {
      if (found[index]?.version !== version) throw new UsedUp();
      changes.delete(ref, { version });
    }
  }

  async function commitOnce(change: AccountChange): Promise<void> {
    const changes = new Changes();
    await planUses(changes, change);
    await planAccount(changes, change);
    await planNames(changes, change);
    await planReferences(changes, change);
    if (change.deliveries.length > 0) changes.merge(await planAdding(records, positions, change.deliveries));
    for (const mail of change.mails ?? []) changes.add(mailRecord(mail));
    for (const record of change.adds ?? []) changes.add(record);
    if (change.audit !== undefined) changes.add(audit.recordOf(change.audit));
    try {
      await records.commit(changes);
    } catch (error) {
      const added = new Set(change.deliveries.map(({ id }) => deliveryRef(id).key));
      const isTwin =
        error instanceof ConditionFailed &&
        error.refs.some(({ kind, key }) => kind === "delivery" && added.has(key));
      throw isTwin ? new AlreadyExists("a delivery with this id") : error;
    }
  }

  return {
    findAccount,
    async findAccountByName(name) {
      const owner = await records.find<AccountReference>(nameRef(name));
      return owner && findAccount(owner.value.sub);
    },
    async findAccountByNumber(userId) {
      const owner = await records.find<AccountReference>(numberRef(userId));
      return owner && findAccount(owner.value.sub);
    },
    async listAccounts({ after, limit }) {
      if (limit <= 0) return [];
      const last = after === undefined ? undefined : await findAccount(after);
      if (after !== undefined && last === undefined) return [];
      const bounds = last === undefined ? {} : { from: last.user_id + 1 };
      const page = await records.list<AccountRecord>({ ...BY_NUMBER, ...bounds }, limit);
      return page.map(({ value }) => value);
    },
    nextUserId: () => records.store.next(COUNTER),
    async passUserId(userId) {
      await records.store.next(COUNTER, userId);
    },
    commitAccount(change) {
      // The caller may change its objects before the commit.
      const copy = structuredClone(change);
      return records.retry(() => commitOnce(copy));
    },
  };
}
