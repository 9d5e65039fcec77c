/** Values of attributes that nobody reads: they are found by a check of the storage, and removed on request. */
import type { RecordStore } from "../adapters/record-store.ts";
import { pagesOf } from "../core/pages.ts";
import { ACCOUNT } from "../records/directory/directory-kinds.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import { type Stores, storeOf } from "../records/kinds.ts";
import type { Check } from "../records/record-check.ts";
import { readAccount, writeAccount } from "./account-write.ts";
import type { accounts } from "./operations/accounts.ts";
import type { Handlers } from "./operations/operation.ts";
import { type FieldSettings, unreadAttributes } from "./profile-fields.ts";
import type { AccountServices } from "./services.ts";

/** Accounts that are read at a time. */
const PAGE = 500;

type Pruning = Pick<Handlers<typeof accounts.rows>, "pruneAttributes">;

/** Removes them. No view of an account changes, so nobody is notified, and the account has not been updated. */
export function createPruning({
  storage: { records, directory, audit },
  configuration,
  clock,
  keys,
}: Pick<AccountServices, "storage" | "configuration" | "clock" | "keys">): Pruning {
  const unread = unreadAttributes(configuration.accounts);
  const hasUnread = (account: AccountRecord, attribute: string): boolean =>
    unread(account).includes(attribute);

  async function found(attribute: string): Promise<readonly string[]> {
    const subs: string[] = [];
    let after: number | undefined;
    for (;;) {
      const page = await directory.listAccounts({ limit: PAGE, after });
      subs.push(...page.filter((each) => hasUnread(each, attribute)).map(({ sub }) => sub));
      if (page.length < PAGE) return subs;
      after = page.at(-1)?.user_id;
    }
  }

  return {
    async pruneAttributes({ input: { attribute }, caller }) {
      const subs = await found(attribute);
      // Before the first change, so that none is without it. Whatever stops this, a repetition goes on.
      if (subs.length > 0)
        await audit.append({
          ...caller,
          action: "account.attributes_pruned",
          detail: { attribute, accounts: subs.length },
        });
      for (const sub of subs)
        await records.transact(async (tx) => {
          const before = await readAccount(tx, sub);
          if (before === undefined || !hasUnread(before, attribute)) return;
          const { attributes = {}, ...rest } = before;
          const kept = Object.entries(attributes).filter(([name]) => name !== attribute);
          const after = { ...rest, ...(kept.length > 0 && { attributes: Object.fromEntries(kept) }) };
          await writeAccount(tx, { before, after }, { clock, search: keys.search });
        });
      return { accounts: subs.length };
    },
  };
}

/** Finds them by attribute. People decide: the attribute may come back. */
export function attributeCheck(stores: Stores, accounts: FieldSettings["accounts"]): Check {
  const unread = unreadAttributes(accounts);
  const store: RecordStore = storeOf(stores, ACCOUNT);
  return {
    part: ACCOUNT.name,
    problem:
      "attributes with values that nobody reads: configure them again, or remove the values with accounts prune-attributes",
    async find(limit) {
      const counts = new Map<string, number>();
      for await (const { records } of pagesOf((after) => store.scan(ACCOUNT.name, after, PAGE)))
        for (const { value } of records)
          for (const name of unread(value)) counts.set(name, (counts.get(name) ?? 0) + 1);
      return [...counts].slice(0, limit).map(([name, count]) => ({
        id: name,
        shown: `${name} in ${count} account${count === 1 ? "" : "s"}`,
      }));
    },
  };
}
