/** Accounts with their names, clients, entries with their guards, audit records, counters and what is kept. */
import type { ObjectId } from "mongodb";
import { type AccountTransfer, type TransferParts, UNFINISHED_COPY } from "../transfer.ts";
import type { Connection } from "./connection.ts";
import {
  nameDocument,
  type StoredAccount,
  type StoredName,
  toAccountDocument,
} from "./directory-account-commit.ts";
import { keptDocument, type StoredAudit, type StoredValue } from "./directory-audit.ts";
import { type StoredClient, toClientDocument } from "./directory-clients.ts";
import { type StoredEntry, toEntryDocument } from "./directory-entries.ts";
import { guardDocuments, type StoredGuard } from "./directory-references.ts";
import { clearKey, toKey } from "./keys.ts";
import { createCollectionPart, put } from "./transfer-collections.ts";

/** Makes ids whose order is that of their numbers, and before all that are made at their time. */
export interface NumberedIds {
  toId(text: string): ObjectId;
  /** @param number counted from 1. */
  at(number: number): ObjectId;
}

/** What a key was made of: a hash has it beside it. */
function written({ _id, name }: { readonly _id: string; readonly name?: string }): string {
  return name === undefined ? (clearKey(_id) ?? _id) : String(JSON.parse(name));
}

function createAccounts(connection: Connection): TransferParts["accounts"] {
  const names = connection.collection<StoredName>("names");

  async function namesOf(subs: readonly string[]): Promise<Map<string, string[]>> {
    const found = await names.find({ sub: { $in: [...subs] } }).toArray();
    const bySub = Map.groupBy(found, ({ sub }) => sub);
    return new Map([...bySub].map(([sub, own]) => [sub, own.map(written).toSorted()]));
  }

  /** All names of these accounts are those that came with them. */
  async function writeNames(items: readonly AccountTransfer[]): Promise<void> {
    const documents = items.flatMap(({ record, names: own }) =>
      own.map((name) => nameDocument(name, toKey(record.sub))),
    );
    const subs = items.map(({ record }) => toKey(record.sub));
    await names.deleteMany({ sub: { $in: subs }, _id: { $nin: documents.map(({ _id }) => _id) } });
    if (documents.length > 0) await names.bulkWrite(documents.map(put), { ordered: false });
  }

  return createCollectionPart(connection, {
    collection: connection.collection<StoredAccount>("accounts"),
    by: "user_id",
    places: { toPlace: String, toValue: Number },
    async toItems(documents) {
      const found = await namesOf(documents.map(({ _id }) => _id));
      return documents.map(({ _id, json }) => ({ record: JSON.parse(json), names: found.get(_id) ?? [] }));
    },
    toWrites: ({ record }) => [put(toAccountDocument(toKey(record.sub), record))],
    afterwards: writeNames,
  });
}

function createClients(connection: Connection): TransferParts["clients"] {
  return createCollectionPart(connection, {
    collection: connection.collection<StoredClient>("clients"),
    by: "_id",
    toItems: (documents) => documents.map(({ json }) => JSON.parse(json)),
    toWrites: (record) => [put(toClientDocument(record))],
  });
}

function createEntries(connection: Connection): TransferParts["entries"] {
  const guards = connection.collection<StoredGuard>("entry_guards");
  return createCollectionPart(connection, {
    collection: connection.collection<StoredEntry>("entries"),
    by: "_id",
    toItems: (documents) => documents.map(({ kind, json }) => ({ kind, record: JSON.parse(json) })),
    toWrites: ({ kind, record }) => [put(toEntryDocument(kind, record))],
    async afterwards(items) {
      const writes = items.flatMap(({ kind, record }) => guardDocuments(kind, record.key).map(put));
      if (writes.length > 0) await guards.bulkWrite(writes, { ordered: false });
    },
  });
}

function createAudit(connection: Connection, ids: NumberedIds): TransferParts["audit"] {
  return createCollectionPart(connection, {
    collection: connection.collection<StoredAudit>("audit"),
    by: "_id",
    places: { toPlace: String, toValue: (place) => ids.toId(place) },
    toItems: (documents) => documents.map(({ json }) => JSON.parse(json)),
    toWrites: (record, position) => [put({ _id: ids.at(position), json: JSON.stringify(record) })],
  });
}

function createCounters(connection: Connection): TransferParts["counters"] {
  return createCollectionPart(connection, {
    collection: connection.collection<{ readonly _id: string; readonly value: number }>("counters"),
    by: "_id",
    // The other one is the number of the schema.
    filter: () => ({ _id: { $in: ["user_id"] }, value: { $gt: 0 } }),
    toItems: (documents) => documents.map(({ _id, value }) => ({ name: _id, value })),
    toWrites: ({ name, value }) => [put({ _id: toKey(name), value })],
  });
}

function createKept(connection: Connection): TransferParts["kept"] {
  return createCollectionPart(connection, {
    collection: connection.collection<StoredValue>("kept"),
    by: "_id",
    toItems: (documents) =>
      documents
        .map((document) => ({ name: written(document), value: String(JSON.parse(document.json)) }))
        .filter(({ name }) => name !== UNFINISHED_COPY),
    toWrites: ({ name, value }) => [put(keptDocument(name, value))],
  });
}

type DirectoryParts = Pick<TransferParts, "accounts" | "clients" | "entries" | "audit" | "counters" | "kept">;

export function createDirectoryParts(connection: Connection, ids: NumberedIds): DirectoryParts {
  return {
    accounts: createAccounts(connection),
    clients: createClients(connection),
    entries: createEntries(connection),
    audit: createAudit(connection, ids),
    counters: createCounters(connection),
    kept: createKept(connection),
  };
}
