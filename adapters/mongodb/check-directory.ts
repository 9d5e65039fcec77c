/** Whether what is looked up by says the same as the records: names, fields, guards, the counter, references. */
import type { Collection } from "mongodb";
import type { Check } from "../check.ts";
import type { AccountRecord, ClientRecord, EntryRecord } from "../directory.ts";
import { createDocumentCheck, type DocumentCheck, type WrongDocument } from "./check-documents.ts";
import type { Connection } from "./connection.ts";
import { type StoredAccount, type StoredName, toAccountDocument } from "./directory-account-commit.ts";
import { type StoredClient, toClientDocument } from "./directory-clients.ts";
import { type StoredEntry, toEntryDocument } from "./directory-entries.ts";
import { guardDocuments, type StoredGuard } from "./directory-references.ts";
import { clearKey } from "./keys.ts";
import { PAGE_TIME, put } from "./transfer-collections.ts";

const recordOf = ({ json }: StoredAccount): AccountRecord => JSON.parse(json);
const shownAccount = (account: StoredAccount): string => `account ${recordOf(account).sub}`;

function accountOf(account: StoredAccount): StoredAccount {
  const { _id: sub } = account;
  return toAccountDocument(sub, recordOf(account));
}

function clientOf({ json }: StoredClient): StoredClient {
  return toClientDocument(JSON.parse(json) as ClientRecord);
}

function entryOf({ kind, json }: StoredEntry): StoredEntry {
  return toEntryDocument(kind, JSON.parse(json) as EntryRecord);
}

function guardsOf({ kind, json }: StoredEntry): StoredGuard[] {
  return guardDocuments(kind, (JSON.parse(json) as EntryRecord).key);
}

/** A field that repairs leave behind, and the next change takes away. */
const HOLDS = "holds";

/** Whether a document has the fields of another one, and no others. */
function isLike(document: object, wanted: object): boolean {
  const [found, right] = [document, wanted].map((each) => new Map<string, unknown>(Object.entries(each)));
  const names = new Set([...(found?.keys() ?? []), ...(right?.keys() ?? [])]);
  names.delete(HOLDS);
  return [...names].every((name) => JSON.stringify(found?.get(name)) === JSON.stringify(right?.get(name)));
}

/** The documents that are not those that follow from their records. */
function unlike<Stored extends object>(
  documents: readonly Stored[],
  wanted: (document: Stored) => Stored,
  shown: (document: Stored) => string,
): WrongDocument<Stored>[] {
  return documents
    .filter((document) => !isLike(document, wanted(document)))
    .map((document) => ({ document, shown: shown(document) }));
}

/** Writes documents anew, as they follow from their records. */
function rewriting<Stored extends { readonly _id: string }>(
  collection: Collection<Stored>,
  wanted: (document: Stored) => Stored,
): DocumentCheck<Stored>["fix"] {
  return async (documents, session) => {
    await collection.bulkWrite(
      documents.map((each) => put(wanted(each))),
      { session },
    );
  };
}

function createFieldChecks(connection: Connection): Check[] {
  const accounts = connection.collection<StoredAccount>("accounts");
  const clients = connection.collection<StoredClient>("clients");
  const entries = connection.collection<StoredEntry>("entries");
  return [
    createDocumentCheck(connection, {
      part: "accounts",
      problem: "accounts whose version, portal or assignments are kept wrongly",
      collection: accounts,
      wrong: (documents) => unlike(documents, accountOf, shownAccount),
      fix: rewriting(accounts, accountOf),
    }),
    createDocumentCheck(connection, {
      part: "clients",
      problem: "clients whose version or service is kept wrongly",
      collection: clients,
      wrong: (documents) =>
        unlike(documents, clientOf, ({ json }) => `client ${(JSON.parse(json) as ClientRecord).client_id}`),
      fix: rewriting(clients, clientOf),
    }),
    createDocumentCheck(connection, {
      part: "directory",
      problem: "entries whose group is kept wrongly",
      collection: entries,
      wrong: (documents) => unlike(documents, entryOf, shownEntry),
      fix: rewriting(entries, entryOf),
    }),
  ];
}

function shownEntry({ kind, json }: StoredEntry): string {
  return `${kind} ${(JSON.parse(json) as EntryRecord).key}`;
}

/** Without its guards nothing can refer to an entry. */
function createGuardCheck(connection: Connection): Check {
  const guards = connection.collection<StoredGuard>("entry_guards");
  return createDocumentCheck(connection, {
    part: "directory",
    problem: "entries without all of their guards",
    collection: connection.collection<StoredEntry>("entries"),
    async wrong(documents, session) {
      const wanted = documents.flatMap(guardsOf).map(({ _id }) => _id);
      const found = await guards.find({ _id: { $in: wanted } }, { session }).toArray();
      const ids = new Set(found.map(({ _id }) => _id));
      return documents
        .filter((entry) => guardsOf(entry).some(({ _id }) => !ids.has(_id)))
        .map((document) => ({ document, shown: shownEntry(document) }));
    },
    async fix(documents, session) {
      const writes = documents.flatMap(guardsOf).map(({ _id, ...guard }) => ({
        updateOne: { filter: { _id }, update: { $setOnInsert: guard }, upsert: true },
      }));
      await guards.bulkWrite(writes, { session });
    },
  });
}

function createCounterCheck(connection: Connection): Check {
  const counters = connection.collection<{ readonly _id: string; readonly value: number }>("counters");
  const accounts = connection.collection<StoredAccount>("accounts");
  const last = async (): Promise<number> =>
    (await accounts.findOne({}, { sort: { user_id: -1 }, hint: { user_id: 1 } }))?.user_id ?? 0;
  return {
    part: "counters",
    problem: "counters below a number that was given out",
    find: () =>
      connection.run(async () => {
        // In this order: an account that is made in between has counted up before.
        const [highest, counter] = [await last(), await counters.findOne({ _id: "user_id" })];
        return (counter?.value ?? 0) < highest ? [{ id: "user_id", shown: "user_id" }] : [];
      }, PAGE_TIME),
    repair: () =>
      connection.run(async () => {
        await counters.updateOne({ _id: "user_id" }, { $max: { value: await last() } }, { upsert: true });
      }, PAGE_TIME),
  };
}

/** What refers to entries, and to which. */
const REFERENCES = [
  ["accounts", "services", "service", "services with accounts that are not in the directory"],
  ["clients", "service", "service", "services with clients that are not in the directory"],
  ["entries", "group", "group", "groups with services that are not in the directory"],
  ["accounts", "portal", "portal", "portals with accounts that are not in the directory"],
] as const;

function createReferenceChecks(connection: Connection): Check[] {
  const entries = connection.collection<StoredEntry>("entries");
  return REFERENCES.map(([from, field, kind, problem]) => ({
    part: "directory",
    problem,
    find: (limit: number) =>
      connection.run(async () => {
        const used: unknown[] = await connection.collection<StoredName>(from).distinct(field);
        const there = await entries.find({ kind }).toArray();
        const keys = new Set(there.map(({ key }) => key));
        const missing = used.filter((key): key is string => typeof key === "string" && !keys.has(key));
        return missing
          .slice(0, limit)
          .map((key) => ({ id: key, shown: `${kind} ${clearKey(key) ?? "with a long name"}` }));
      }, PAGE_TIME),
  }));
}

export function createDirectoryChecks(connection: Connection): Check[] {
  return [
    ...createFieldChecks(connection),
    createGuardCheck(connection),
    createCounterCheck(connection),
    ...createReferenceChecks(connection),
  ];
}
