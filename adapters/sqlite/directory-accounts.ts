/** Accounts, their sign-in names and their numbers. */
import {
  AlreadyExists,
  IdentifierTaken,
  NameTaken,
  UnknownReference,
  VersionConflict,
} from "../../lib/errors.ts";
import type { AccountChange, AccountRecord, DirectoryStore } from "../directory.ts";
import type { Connection } from "./connection.ts";
import { createDeliveryPlanner } from "./deliveries.ts";
import { createAuditPlanner } from "./directory-audit.ts";
import { RecordCache } from "./record-cache.ts";
import { numberAt, rowLimit, type Row, textAt } from "./rows.ts";
import { toOptionalText, toText } from "./text.ts";

type Accounts = Pick<
  DirectoryStore,
  "findAccount" | "findAccountByName" | "listAccounts" | "nextUserId" | "passUserId" | "commitAccount"
>;

function toRecord(row: Row): AccountRecord {
  return JSON.parse(textAt(row, 0));
}

/** Writes the names of an account. @throws NameTaken */
function createNameWriter(
  connection: Connection,
): (sub: string, claim: readonly string[], giveBack: readonly string[]) => void {
  const release = connection.change("DELETE FROM names WHERE name = ? AND sub = ?");
  const claim = connection.change(
    "INSERT INTO names (name, sub) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET sub = sub WHERE sub = excluded.sub",
  );
  return (sub, claimed, givenBack) => {
    for (const name of givenBack) release(name, sub);
    for (const name of claimed) if (claim(name, sub) === 0) throw new NameTaken();
  };
}

/** Keeps the rows (account, service) the same as the account's record: `removeEntry` looks there. */
function createAssignmentWriter(
  connection: Connection,
): (sub: string, services: ReadonlySet<string>) => void {
  const assigned = connection.all("SELECT service FROM assignments WHERE sub = ?");
  const add = connection.change("INSERT INTO assignments (sub, service) VALUES (?, ?)");
  const remove = connection.change("DELETE FROM assignments WHERE sub = ? AND service = ?");
  return (sub, services) => {
    const before = new Set(assigned(sub).map((row) => textAt(row, 0)));
    for (const service of before) if (!services.has(service)) remove(sub, service);
    for (const service of services) if (!before.has(service)) add(sub, service);
  };
}

/** Writes the record under the condition of its version. */
function createRecordWriter(connection: Connection): (change: PlannedAccount) => void {
  const current = connection.first("SELECT version FROM accounts WHERE sub = ?");
  const owner = connection.first("SELECT sub FROM accounts WHERE user_id = ?");
  const client = connection.first("SELECT 1 FROM clients WHERE client_id = ?");
  const remove = connection.change("DELETE FROM accounts WHERE sub = ?");
  const insert = connection.change(
    "INSERT INTO accounts (user_id, version, portal, record, sub) VALUES (?, ?, ?, ?, ?)",
  );
  const update = connection.change(
    "UPDATE accounts SET user_id = ?, version = ?, portal = ?, record = ? WHERE sub = ?",
  );
  return ({ sub, expectedVersion, row }) => {
    const version = current(sub)?.[0];
    if (version !== expectedVersion) throw new VersionConflict("the account was changed in between");
    if (row === undefined) {
      remove(sub);
      return;
    }
    if (version === undefined && client(sub) !== undefined) {
      throw new IdentifierTaken("a client with this client_id");
    }
    const [userId] = row;
    const holder = owner(userId)?.[0];
    if (holder !== undefined && holder !== sub) throw new AlreadyExists(`the user_id ${userId}`);
    const put = version === undefined ? insert : update;
    put(...row, sub);
  };
}

/** An account change as parameters, made before its transaction begins. */
interface PlannedAccount {
  readonly sub: string;
  readonly expectedVersion: number | undefined;
  readonly row: readonly [userId: number, version: number, portal: string | null, record: string] | undefined;
  readonly claim: readonly string[];
  readonly giveBack: readonly string[];
  readonly services: ReadonlySet<string>;
  /** Kind, stored key, and how the error names it. */
  readonly required: readonly (readonly [kind: string, key: string, label: string])[];
}

function planAccount(change: AccountChange): PlannedAccount {
  const { record, requirePortal } = change;
  return {
    sub: toText(change.sub),
    expectedVersion: change.expectedVersion,
    row: record && [record.user_id, record.version, toOptionalText(record.portal), JSON.stringify(record)],
    claim: change.claimNames.map(toText),
    giveBack: change.releaseNames.map(toText),
    services: new Set(record && Object.keys(record.services).map(toText)),
    required: [
      ...change.requireServices.map((key) => ["service", toText(key), `service ${key}`] as const),
      ...(requirePortal === undefined
        ? []
        : [["portal", toText(requirePortal), `portal ${requirePortal}`] as const]),
    ],
  };
}

function createCommit(
  connection: Connection,
  cache: RecordCache<AccountRecord>,
): DirectoryStore["commitAccount"] {
  const writeRecord = createRecordWriter(connection);
  const writeNames = createNameWriter(connection);
  const releaseAll = connection.change("DELETE FROM names WHERE sub = ?");
  const writeAssignments = createAssignmentWriter(connection);
  const entry = connection.first("SELECT 1 FROM entries WHERE kind = ? AND key = ?");
  const planDeliveries = createDeliveryPlanner(connection);
  const planAudit = createAuditPlanner(connection);

  return async (change) => {
    // Made into parameters now: the caller may change its objects before the transaction begins.
    const account = planAccount(change);
    const storeDeliveries = planDeliveries(change.deliveries);
    const storeAudit = planAudit(change.audit);
    const { sub } = change;
    await connection.write(() => {
      cache.forget(sub);
      writeRecord(account);
      writeNames(account.sub, account.claim, account.giveBack);
      if (account.row === undefined) releaseAll(account.sub);
      writeAssignments(account.sub, account.services);
      for (const [kind, key, label] of account.required) {
        if (entry(kind, key) === undefined) throw new UnknownReference(label);
      }
      storeDeliveries();
      storeAudit();
    });
  };
}

/** The accounts of the directory. */
export function createAccounts(connection: Connection): Accounts {
  const bySub = connection.first("SELECT record FROM accounts WHERE sub = ?");
  const cache = new RecordCache(connection, (sub) => {
    const row = bySub(toText(sub));
    return row && toRecord(row);
  });
  const byName = connection.first("SELECT record FROM names JOIN accounts USING (sub) WHERE name = ?");
  // Without `after` the page begins at the first; after an unknown account there is nothing.
  const page = connection.all(`
    SELECT record FROM accounts
    WHERE user_id > iif(?1 IS NULL, 0, (SELECT user_id FROM accounts WHERE sub = ?1))
    ORDER BY user_id LIMIT ?2`);
  const count = connection.first(
    "UPDATE counters SET value = value + 1 WHERE name = 'user_id' RETURNING value",
  );
  const pass = connection.change("UPDATE counters SET value = max(value, ?) WHERE name = 'user_id'");

  return {
    findAccount: (sub) => connection.read(() => cache.find(sub)),
    findAccountByName: (name) =>
      connection.read(() => {
        const row = byName(toText(name));
        return row && toRecord(row);
      }),
    listAccounts: ({ after, limit }) =>
      connection.read(() => page(toOptionalText(after), rowLimit(limit)).map(toRecord)),
    async nextUserId() {
      return numberAt((await connection.write(count)) ?? {}, 0);
    },
    async passUserId(userId) {
      await connection.write(() => pass(userId));
    },
    commitAccount: createCommit(connection, cache),
  };
}
