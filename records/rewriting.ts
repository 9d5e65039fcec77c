/** Rewrites the records of a storage page by page. Services may use the storage meanwhile. */
import type { Found, RecordData, Ref } from "../adapters/record-store.ts";
import type { AnyKind } from "./kinds.ts";
import type { Records, Transaction } from "./records.ts";
import { pagesOf } from "../core/pages.ts";

/** Records that are written in one commit. */
const PAGE = 100;

/** MongoDB holds the locks of a killed run until it ends the transaction, some time after a minute. */
const COMMIT_TIMEOUT_MS = 120_000;

/** Stops a run, and follows its progress. */
export interface RewritingRun {
  /** Stops between two pages. */
  readonly signal: AbortSignal;
  /** @param done records of this kind that were looked at. */
  readonly onProgress: (kind: string, done: number) => void;
}

/** The record to write in place of another. `undefined` leaves it as it is. */
export type Rewrite = (found: Found) => RecordData | "removed" | undefined;

/** Calls `onPage` with every page of a kind. */
export async function eachPage(
  { store }: Pick<Records, "store">,
  { name }: AnyKind,
  { signal, onProgress }: RewritingRun,
  onPage: (page: readonly Found[]) => Promise<void>,
): Promise<void> {
  let done = 0;
  signal.throwIfAborted();
  for await (const { records } of pagesOf((after) => store.scan(name, after, PAGE))) {
    await onPage(records);
    onProgress(name, (done += records.length));
    signal.throwIfAborted();
  }
}

/** @returns how many records were changed. */
function write(tx: Transaction, page: readonly Found[], rewrite: Rewrite): number {
  let count = 0;
  for (const found of page) {
    const record = rewrite(found);
    if (record === undefined) continue;
    tx.adopt(found);
    if (record === "removed") tx.remove(found);
    else tx.put(record);
    count += 1;
  }
  return count;
}

const deadlineOf = ({ clock }: Records): number => clock.now() + COMMIT_TIMEOUT_MS;

/** Reads one record and rewrites it. @returns how many were changed. */
export function rewriteOne(records: Records, ref: Ref, rewrite: Rewrite): Promise<number> {
  return records.transact(
    async (tx) => {
      const [found] = await records.store.get([ref]);
      return found === undefined ? 0 : write(tx, [found], rewrite);
    },
    { deadline: deadlineOf(records) },
  );
}

/**
 * Rewrites a page in one commit. If a service changes part of it meanwhile, its records are read and written one by one.
 * @returns how many were changed.
 */
export async function rewritePage(
  records: Records,
  page: readonly Found[],
  rewrite: Rewrite,
): Promise<number> {
  let isFirst = true;
  const count = await records.transact(
    (tx) => {
      if (!isFirst) return undefined;
      isFirst = false;
      return write(tx, page, rewrite);
    },
    { deadline: deadlineOf(records) },
  );
  if (count !== undefined) return count;
  let written = 0;
  for (const ref of page) written += await rewriteOne(records, ref, rewrite);
  return written;
}
