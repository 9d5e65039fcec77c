/** The audit on the record store: written with changes or on its own, and read by time, account, client and action. */
import type { Found, Page, Query, RecordData } from "../../adapters/record-store.ts";
import type { Key } from "../kinds.ts";
import type { Records, Transaction } from "../records.ts";
import type { AuditEvent, AuditFilter, AuditRecord, AuditStore, CollectedEvent } from "./audit-event.ts";
import {
  accountsOf,
  AUDIT,
  auditRecord,
  clientsOf,
  DAY,
  HOUR,
  type StoredAudit,
  PARTITIONS,
  refusalRecord,
  refusalRef,
  toAuditRecord,
} from "./audit-kinds.ts";

/** Records that one read of a partition returns. */
const PAGE_SIZE = 200;
/** Partitions in one read. Their number doubles while nothing is found. */
const MOST_PARTITIONS = 256;
/** The most records and partitions that are read for one page, however few records match. */
const MOST_READ = 5_000;
const MOST_LOOKED_AT = 2_500;
/** Microseconds by which the clock of another process may differ. */
const CLOCK_SKEW = HOUR;

/** A position in the audit: older records come after it. With a key, also records of the same time behind that key. */
interface Position {
  readonly order: number;
  readonly key?: string;
}

function parsePosition(after: string): Position {
  const [, order, key] = /^(\d{1,16})(?:\.([\x21-\x7e]{1,200}))?$/.exec(after) ?? [];
  if (order === undefined || !Number.isSafeInteger(Number(order)))
    throw new TypeError("after: must be `next` of another page");
  return { order: Number(order), ...(key === undefined ? {} : { key }) };
}

const formatPosition = ({ order, key }: Position): string =>
  key === undefined ? String(order) : `${order}.${key}`;

/** An index and its partitions, which are read from the newest to the oldest. */
interface Partitions {
  readonly index: keyof typeof PARTITIONS;
  /** The name of the partition for this time. */
  readonly at: (order: number) => Key;
  /** Microseconds that one partition spans. */
  readonly span: number;
}

/** The index with the fewest records that don't match. */
function partitionsFor({ account, client, action }: AuditFilter): Partitions {
  if (account !== undefined)
    return { index: "account", at: () => PARTITIONS.account(account), span: Number.MAX_SAFE_INTEGER };
  if (client !== undefined)
    return { index: "client", at: (order) => PARTITIONS.client(client, order), span: DAY };
  if (action !== undefined)
    return { index: "action", at: (order) => PARTITIONS.action(action, order), span: DAY };
  return { index: "hour", at: PARTITIONS.hour, span: HOUR };
}

function fits(stored: StoredAudit, { account, client, action }: AuditFilter): boolean {
  if (action !== undefined && stored.action !== action) return false;
  if (account !== undefined && !accountsOf(stored).includes(account)) return false;
  return client === undefined || clientsOf(stored).includes(client);
}

/** One page of the audit while it is read, from the newest record on. */
class PageReader {
  readonly found: AuditRecord[] = [];
  /** Where the next page begins; `undefined` at the end. */
  next: Position | undefined;
  readonly #filter: AuditFilter;
  readonly #limit: number;
  #after: Position | undefined;
  #read = 0;

  constructor(filter: AuditFilter, limit: number, after: Position | undefined) {
    this.#filter = filter;
    this.#limit = limit;
    this.#after = after;
  }

  /** Takes the matching records. @returns whether the page is complete. */
  take(records: readonly Found[]): boolean {
    for (const record of this.#afterPosition(records)) {
      const stored = record.value as unknown as StoredAudit;
      this.#read += 1;
      if (fits(stored, this.#filter)) this.found.push(toAuditRecord(record));
      if (this.found.length < this.#limit && this.#read < MOST_READ) continue;
      this.next = { order: stored.order, key: record.key };
      return true;
    }
    return false;
  }

  /** Records of the same time come in an order of the store's own. Those up to the position were on the page before. */
  #afterPosition(records: readonly Found[]): readonly Found[] {
    const after = this.#after;
    if (after?.key === undefined) return records;
    const last = records.findIndex(({ key }) => key === after.key);
    const older = records.findIndex(({ value }) => (value as unknown as StoredAudit).order < after.order);
    if (last === -1 && older === -1) return [];
    this.#after = undefined;
    return records.slice(last === -1 ? older : last + 1);
  }
}

/** @param retention seconds until a record expires. */
export function createAuditStore(records: Records, positions: () => number, retention: number): AuditStore {
  const recordOf = (event: AuditEvent): RecordData => auditRecord(event, positions(), retention);

  /** Refusals are counted in records that every process writes; all other records are new. */
  async function storeCollected(tx: Transaction, events: readonly CollectedEvent[]): Promise<void> {
    const counted = events.flatMap((one) =>
      one.refusal === undefined ? [] : [{ ...one, ref: refusalRef(one.refusal, one.order) }],
    );
    const before = await tx.peekAll(counted.map(({ ref }) => ref));
    for (const [index, { ref, ...one }] of counted.entries())
      tx.put(refusalRecord(ref, one, before[index], retention));
    for (const { event, order, refusal } of events)
      if (refusal === undefined) tx.overwrite(auditRecord(event, order, retention));
  }

  /** Reads some partitions to their ends. @param pages the first page of each. @returns whether the audit page is complete. */
  async function readAll(
    reading: PageReader,
    queries: readonly Query[],
    pages: readonly Page[],
  ): Promise<boolean> {
    for (const [number, query] of queries.entries()) {
      for (let page = pages[number]; page !== undefined;) {
        if (reading.take(page.records)) return true;
        if (page.next === undefined) break;
        [page] = await records.store.list([{ ...query, after: page.next }]);
      }
    }
    return false;
  }

  /** @param now microseconds since the epoch. */
  function boundsOf(
    { since = 0, until = Number.POSITIVE_INFINITY }: AuditFilter,
    position: Position | undefined,
    now: number,
  ): { readonly oldest: number; readonly newest: number } {
    return {
      oldest: Math.max(since * 1_000_000, now - retention * 1_000_000, 0),
      newest: Math.min(now + CLOCK_SKEW, until * 1_000_000 - 1, position?.order ?? Number.POSITIVE_INFINITY),
    };
  }

  return {
    position: positions,
    recordOf,
    append: (event) => records.transact((tx) => tx.overwrite(recordOf(event))),
    appendCollected: (events) => records.transact((tx) => storeCollected(tx, events), { relaxed: true }),
    async list({ after, limit, ...filter }) {
      const position = after === undefined ? undefined : parsePosition(after);
      const { oldest, newest } = boundsOf(filter, position, Math.floor(records.clock.now() * 1_000));
      const { index, at, span } = partitionsFor(filter);
      const reading = new PageReader(filter, limit, position);
      let looked = 0;
      for (let top = newest, many = 1; top >= oldest; many = Math.min(2 * many, MOST_PARTITIONS)) {
        if (looked >= MOST_LOOKED_AT) {
          reading.next = { order: top };
          break;
        }
        const queries: Query[] = [];
        for (; queries.length < many && top >= oldest; top = Math.floor(top / span) * span - 1) {
          const bounds = { from: oldest, to: newest, limit: PAGE_SIZE, descending: true };
          queries.push({ ...AUDIT.where(index, at(top)), ...bounds });
        }
        const pages = await records.store.list(queries);
        if (await readAll(reading, queries, pages)) break;
        if (pages.some((page) => page.records.length > 0)) many = 1;
        looked += queries.length;
      }
      const { found, next } = reading;
      return { records: found, ...(next === undefined ? {} : { next: formatPosition(next) }) };
    },
  };
}
