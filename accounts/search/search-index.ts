/** Whether the search finds every account, and how the index of a storage that lacks some is built beside running servers. */
import type { KeyObject } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Found, RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import type { AuditEvent, AuditStore } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT, BY_NUMBER } from "../../records/directory/directory-kinds.ts";
import { CURRENT_INDEX, SEARCH_INDEX, SEARCH_WORDS } from "../../records/directory/search-kinds.ts";
import type { Stores } from "../../records/kinds.ts";
import { type Check, KindScan } from "../../records/record-check.ts";
import type { Records } from "../../records/records.ts";
import { searchRecord } from "./search-words.ts";

/** What a start says of an index that lacks accounts. */
export const INCOMPLETE_INDEX =
  "the search for people does not find every account: run sign-in-service storage reindex, which works beside running servers";

/** Whether every account is in the index. */
export async function isIndexComplete(records: Records): Promise<boolean> {
  return (await records.find(CURRENT_INDEX))?.value.complete === true;
}

/**
 * The same, for servers: the index of a storage without accounts is complete, because each account is written with its words. Every
 * process that writes accounts has called it, or uses a storage on which another one has.
 */
export function openSearchIndex(records: Records): Promise<boolean> {
  return records.transact(async (tx) => {
    const index = await tx.get(CURRENT_INDEX);
    if (index !== undefined) return index.complete;
    const [page] = await records.store.list([{ ...BY_NUMBER, limit: 1 }]);
    if (page?.records.length !== 0) return false;
    tx.put(SEARCH_INDEX.record({ complete: true }));
    return true;
  });
}

/** Accounts that are written in one commit. */
const PAGE = 100;

/** MongoDB holds the locks of a killed run until it ends the transaction, some time after a minute. */
const COMMIT_TIMEOUT_MS = 120_000;

interface IndexRun {
  /** Stops between two pages. */
  readonly signal: AbortSignal;
  /** How many accounts are done, with those of a run that this one continues. */
  readonly onProgress: (done: number) => void;
  /** Who wants it, for the audit. */
  readonly event: Omit<AuditEvent, "detail">;
}

const accountIn = ({ value }: Found): AccountRecord => value as unknown as AccountRecord;

/** The accounts that the index has not, or under other words than theirs. */
async function lackingOf(store: RecordStore, accounts: readonly Found[], key: KeyObject): Promise<Found[]> {
  const words = await store.get(accounts.map(({ key: sub }) => SEARCH_WORDS.ref(sub)));
  return accounts.filter(
    (found, index) => !isDeepStrictEqual(words[index]?.value, searchRecord(accountIn(found), key).value),
  );
}

/** Finds them, and gives them their words. Until the index is complete, that is the work of {@link buildSearchIndex}. */
export function searchCheck(stores: Stores, key: KeyObject, clock: Clock): Check {
  const scan = new KindScan(ACCOUNT, stores, clock);
  return {
    part: ACCOUNT.name,
    problem: "accounts that the search for people does not find by their names",
    async find(limit) {
      const [index] = await scan.store.get([CURRENT_INDEX]);
      if (index?.value["complete"] !== true) return [];
      return scan.find(limit, (accounts) => lackingOf(scan.store, accounts, key));
    },
    repair: (flaws) =>
      scan.repair(flaws, async (found) => ({ overwrite: [searchRecord(accountIn(found), key)] })),
  };
}

/** Gives the accounts of a page their words. If one of them changes meanwhile, they are read and written one by one. */
async function writePage(records: Records, page: readonly Found[], key: KeyObject): Promise<void> {
  const lacking = await lackingOf(records.store, page, key);
  if (lacking.length === 0) return;
  const options = { deadline: records.clock.now() + COMMIT_TIMEOUT_MS };
  let isFirst = true;
  const isDone = await records.transact((tx) => {
    if (!isFirst) return false;
    isFirst = false;
    for (const found of lacking) {
      tx.adopt(found);
      tx.overwrite(searchRecord(accountIn(found), key));
    }
    return true;
  }, options);
  if (isDone) return;
  for (const { sub } of lacking.map(accountIn))
    await records.transact(async (tx) => {
      const account = await tx.get(ACCOUNT.ref(sub));
      if (account !== undefined) tx.overwrite(searchRecord(account, key));
    }, options);
}

/**
 * Gives every account its words, and then calls the index complete. It may be stopped or killed at any time: the next run continues.
 * Services may change accounts meanwhile, because each change writes the words itself, on condition of the account as this does.
 * @returns how many accounts there were.
 */
export async function buildSearchIndex(
  { records, audit }: { readonly records: Records; readonly audit: Pick<AuditStore, "recordOf"> },
  key: KeyObject,
  { signal, onProgress, event }: IndexRun,
): Promise<number> {
  const index = (await records.find(CURRENT_INDEX))?.value;
  let { after, done = 0 } = index ?? {};
  onProgress(done);
  for (;;) {
    signal.throwIfAborted();
    const { records: page, next } = await records.store.scan(ACCOUNT.name, after, PAGE);
    await writePage(records, page, key);
    done += page.length;
    onProgress(done);
    await records.transact(async (tx) => {
      const { complete = false } = (await tx.get(CURRENT_INDEX)) ?? {};
      if (next !== undefined) return tx.put(SEARCH_INDEX.record({ complete, after: next, done }));
      tx.put(SEARCH_INDEX.record({ complete: true }));
      tx.create(audit.recordOf({ ...event, detail: { accounts: done } }));
    });
    if (next === undefined) return done;
    after = next;
  }
}
