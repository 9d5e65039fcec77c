/** Accounts, their sign-in names and their numbers, as they are read and counted. */
import type { AccountRecord, DirectoryStore } from "../directory.ts";
import type { Connection } from "./connection.ts";
import { createAccountCommit, type StoredAccount, type StoredName } from "./directory-account-commit.ts";
import { toKey } from "./keys.ts";

type Accounts = Pick<
  DirectoryStore,
  "findAccount" | "findAccountByName" | "listAccounts" | "nextUserId" | "passUserId" | "commitAccount"
>;

interface StoredCounter {
  readonly _id: string;
  readonly value: number;
}

function toRecord({ json }: Pick<StoredAccount, "json">): AccountRecord {
  return JSON.parse(json);
}

type Counting = Pick<Accounts, "nextUserId" | "passUserId">;

/** The counter is there since the database was prepared. */
function createCounting(connection: Connection): Counting {
  const counters = connection.collection<StoredCounter>("counters");
  const own = { _id: "user_id" };
  return {
    async nextUserId() {
      const counter = await connection.run(() =>
        counters.findOneAndUpdate(own, { $inc: { value: 1 } }, { returnDocument: "after", upsert: true }),
      );
      return counter?.value ?? 1;
    },
    async passUserId(userId) {
      await connection.run(() => counters.updateOne(own, { $max: { value: userId } }, { upsert: true }));
    },
  };
}

/** The accounts of the directory. */
export function createAccounts(connection: Connection): Accounts {
  const accounts = connection.collection<StoredAccount>("accounts");
  const names = connection.collection<StoredName>("names");

  async function byName(_id: string): Promise<AccountRecord | undefined> {
    // One way to the server and back for both.
    const [found] = await names
      .aggregate<{ account: StoredAccount[] }>([
        { $match: { _id } },
        { $lookup: { from: accounts.collectionName, localField: "sub", foreignField: "_id", as: "account" } },
      ])
      .toArray();
    const account = found?.account[0];
    return account && toRecord(account);
  }

  async function page(after: string | undefined, limit: number): Promise<AccountRecord[]> {
    const last = after === undefined ? { user_id: 0 } : await accounts.findOne({ _id: toKey(after) });
    if (last === null) return [];
    const found = await accounts
      .find({ user_id: { $gt: last.user_id } })
      .sort({ user_id: 1 })
      .limit(limit)
      .toArray();
    return found.map(toRecord);
  }

  return {
    ...createCounting(connection),
    async findAccount(sub) {
      const found = await connection.run(() => accounts.findOne({ _id: toKey(sub) }));
      return found === null ? undefined : toRecord(found);
    },
    findAccountByName: (name) => connection.run(() => byName(toKey(name))),
    // For MongoDB a limit of zero is none.
    listAccounts: async ({ after, limit }) => (limit < 1 ? [] : connection.run(() => page(after, limit))),
    commitAccount: createAccountCommit(connection),
  };
}
