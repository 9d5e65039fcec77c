/** One change of one account: everything that belongs to it in one transaction. */
import type { ClientSession, Collection } from "mongodb";
import { AlreadyExists, NameTaken, VersionConflict } from "../../lib/errors.ts";
import type { AccountChange, AccountRecord, DirectoryStore } from "../directory.ts";
import type { Connection } from "./connection.ts";
import { createDeliveryPlanner } from "./delivery-plan.ts";
import { createAuditPlanner } from "./directory-audit.ts";
import { createGuards, createRequireFree, type Reference } from "./directory-references.ts";
import { isDuplicate } from "./faults.ts";
import { clearKey, toKey } from "./keys.ts";

export interface StoredAccount {
  readonly _id: string;
  readonly user_id: number;
  readonly version: number;
  /** Left out when there is none. */
  readonly portal?: string;
  /** The keys of the services to which the account is assigned; left out when there are none. */
  readonly services?: readonly string[];
  /** The {@link AccountRecord} as JSON. */
  readonly json: string;
}

export interface StoredName {
  readonly _id: string;
  /** The `_id` of the account. */
  readonly sub: string;
  /** The name as JSON, where the `_id` is a hash of it. */
  readonly name?: string;
}

export function nameDocument(name: string, sub: string): StoredName {
  const id = toKey(name);
  return { _id: id, sub, ...(clearKey(id) === undefined && { name: JSON.stringify(name) }) };
}

/** An account change as documents, made before its transaction begins. */
interface PlannedAccount {
  readonly id: string;
  readonly expectedVersion: number | undefined;
  readonly document: StoredAccount | undefined;
  readonly claim: readonly StoredName[];
  readonly giveBack: readonly string[];
  readonly references: readonly Reference[];
}

export function toAccountDocument(id: string, record: AccountRecord): StoredAccount {
  const services = Object.keys(record.services).map((key) => toKey(key));
  return {
    _id: id,
    user_id: record.user_id,
    version: record.version,
    ...(record.portal === null ? {} : { portal: toKey(record.portal) }),
    ...(services.length === 0 ? {} : { services }),
    json: JSON.stringify(record),
  };
}

function planAccount(change: AccountChange): PlannedAccount {
  const { record, requirePortal } = change;
  const id = toKey(change.sub);
  const services = change.requireServices.map(
    (key) => ({ kind: "service", key, label: `service ${key}` }) as const,
  );
  return {
    id,
    expectedVersion: change.expectedVersion,
    document: record && toAccountDocument(id, record),
    claim: change.claimNames.map((name) => nameDocument(name, id)),
    giveBack: change.releaseNames.map((name) => toKey(name)),
    references:
      requirePortal === undefined
        ? services
        : [...services, { kind: "portal", key: requirePortal, label: `portal ${requirePortal}` }],
  };
}

/** Writes the record under the condition of its version; false when that does not hold. */
async function writeUnderCondition(
  accounts: Collection<StoredAccount>,
  { id, expectedVersion, document }: PlannedAccount,
  session: ClientSession,
): Promise<boolean> {
  const expected = { _id: id, version: expectedVersion ?? 0 };
  if (document === undefined) return (await accounts.deleteOne(expected, { session })).deletedCount > 0;
  if (expectedVersion !== undefined) {
    return (await accounts.replaceOne(expected, document, { session })).matchedCount > 0;
  }
  const created = await accounts.updateOne(
    { _id: id },
    { $setOnInsert: document },
    { session, upsert: true },
  );
  return created.upsertedCount > 0;
}

async function writeRecord(
  accounts: Collection<StoredAccount>,
  account: PlannedAccount,
  session: ClientSession,
): Promise<void> {
  try {
    if (await writeUnderCondition(accounts, account, session)) return;
  } catch (error) {
    throw isDuplicate(error) ? new AlreadyExists(`the user_id ${account.document?.user_id}`) : error;
  }
  throw new VersionConflict("the account was changed in between");
}

/** Gives names back and takes others. @throws NameTaken */
async function writeNames(
  names: Collection<StoredName>,
  { id: sub, claim, giveBack, document }: PlannedAccount,
  session: ClientSession,
): Promise<void> {
  if (document === undefined) await names.deleteMany({ sub }, { session });
  else if (giveBack.length > 0) await names.deleteMany({ _id: { $in: [...giveBack] }, sub }, { session });
  if (claim.length === 0) return;
  const writes = claim.map(({ _id, ...name }) => ({
    // Of another account it is not found here, and can't be inserted either.
    updateOne: { filter: { _id, sub }, update: { $set: name }, upsert: true },
  }));
  try {
    await names.bulkWrite(writes, { session });
  } catch (error) {
    throw isDuplicate(error) ? new NameTaken() : error;
  }
}

export function createAccountCommit(connection: Connection): DirectoryStore["commitAccount"] {
  const accounts = connection.collection<StoredAccount>("accounts");
  const names = connection.collection<StoredName>("names");
  const guards = createGuards(connection);
  const requireFree = createRequireFree(connection, "clients", "a client with this client_id");
  const planDeliveries = createDeliveryPlanner(connection);
  const planAudit = createAuditPlanner(connection);

  return async (change) => {
    // Made into documents now: the caller may change its objects before the transaction begins.
    const account = planAccount(change);
    const storeDeliveries = planDeliveries(change.deliveries);
    const storeAudit = planAudit(change.audit);
    await connection.inTransaction(async (session) => {
      await writeRecord(accounts, account, session);
      await writeNames(names, account, session);
      await storeAudit(session);
      await storeDeliveries(session);
      // Last, for these are the documents that most others want: they are held for the shortest time.
      await guards.require(account.references, session);
      if (account.expectedVersion === undefined) await requireFree(account.id, session);
    });
  };
}
