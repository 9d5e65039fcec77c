/** Whether sign-in names lead to their accounts, and nowhere else. */
import type { ClientSession, Collection } from "mongodb";
import type { Check, NamesOf } from "../check.ts";
import type { AccountRecord } from "../directory.ts";
import { createDocumentCheck } from "./check-documents.ts";
import type { Connection } from "./connection.ts";
import { nameDocument, type StoredAccount, type StoredName } from "./directory-account-commit.ts";

/** What the checks of names have in common. */
interface Names {
  readonly connection: Connection;
  readonly accounts: Collection<StoredAccount>;
  readonly names: Collection<StoredName>;
  /** Those that must lead to an account. */
  readonly wanted: (account: StoredAccount) => StoredName[];
}

function idsOf(documents: readonly { readonly _id: string }[]): string[] {
  return documents.map(({ _id }) => _id);
}

function shown({ json }: StoredAccount): string {
  return `account ${(JSON.parse(json) as AccountRecord).sub}`;
}

/** The names that lead to these accounts, by account. */
async function leading(
  { names }: Names,
  documents: readonly StoredAccount[],
  session: ClientSession,
): Promise<Map<string, StoredName[]>> {
  const found = await names.find({ sub: { $in: idsOf(documents) } }, { session }).toArray();
  return Map.groupBy(found, ({ sub }) => sub);
}

/** Whoever changes one of these accounts at the same time conflicts. */
async function hold(
  { accounts }: Names,
  documents: readonly StoredAccount[],
  session: ClientSession,
): Promise<void> {
  await accounts.updateMany({ _id: { $in: idsOf(documents) } }, { $inc: { holds: 1 } }, { session });
}

function createLostNames({ connection, accounts, names }: Names): Check {
  return createDocumentCheck(connection, {
    part: "accounts",
    problem: "sign-in names that lead to no account",
    collection: names,
    async wrong(documents, session) {
      const subs = documents.map(({ sub }) => sub);
      const found = new Set(idsOf(await accounts.find({ _id: { $in: subs } }, { session }).toArray()));
      return documents
        .filter(({ sub }) => !found.has(sub))
        .map((document) => ({ document, shown: `account ${document.sub}` }));
    },
    async fix(documents, session) {
      await names.deleteMany({ _id: { $in: idsOf(documents) } }, { session });
    },
  });
}

function createFormerNames(all: Names): Check {
  const { connection, accounts, names, wanted } = all;
  async function former(documents: readonly StoredAccount[], session: ClientSession): Promise<StoredName[]> {
    const found = await leading(all, documents, session);
    return documents.flatMap((account) => {
      const { _id: sub } = account;
      const own = new Set(idsOf(wanted(account)));
      return (found.get(sub) ?? []).filter(({ _id }) => !own.has(_id));
    });
  }
  return createDocumentCheck(connection, {
    part: "accounts",
    problem: "accounts with a sign-in name that is not theirs any more",
    collection: accounts,
    async wrong(documents, session) {
      const subs = new Set((await former(documents, session)).map(({ sub }) => sub));
      return documents
        .filter(({ _id }) => subs.has(_id))
        .map((document) => ({ document, shown: shown(document) }));
    },
    async fix(documents, session) {
      await hold(all, documents, session);
      await names.deleteMany({ _id: { $in: idsOf(await former(documents, session)) } }, { session });
    },
  });
}

function createMissingNames(all: Names): Check {
  const { connection, accounts, names, wanted } = all;
  return createDocumentCheck(connection, {
    part: "accounts",
    problem: "accounts that one of their sign-in names does not lead to",
    collection: accounts,
    async wrong(documents, session) {
      const found = await leading(all, documents, session);
      return documents
        .filter((account) => {
          const { _id: sub } = account;
          const own = new Set(idsOf(found.get(sub) ?? []));
          return wanted(account).some(({ _id }) => !own.has(_id));
        })
        .map((document) => ({ document, shown: shown(document) }));
    },
    async fix(documents, session) {
      await hold(all, documents, session);
      const writes = documents.flatMap(wanted).map(({ _id, ...name }) => ({
        // Names of others are left to them.
        updateOne: { filter: { _id }, update: { $setOnInsert: name }, upsert: true },
      }));
      await names.bulkWrite(writes, { session });
    },
  });
}

export function createNameChecks(connection: Connection, namesOf: NamesOf): Check[] {
  const all: Names = {
    connection,
    accounts: connection.collection<StoredAccount>("accounts"),
    names: connection.collection<StoredName>("names"),
    wanted({ _id: sub, json }) {
      return namesOf(JSON.parse(json) as AccountRecord).map((name) => nameDocument(name, sub));
    },
  };
  return [createLostNames(all), createFormerNames(all), createMissingNames(all)];
}
