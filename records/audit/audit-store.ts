/** The audit on the record store: written with changes or on its own, and read by time or by account. */
import type { Found, Page, Query, RecordData } from "../../adapters/record-store.ts";
import { InvalidArgument } from "../../core/errors.ts";
import type { Records, RefTo, Transaction } from "../records.ts";
import { takeAccountEvents } from "./account-events.ts";
import type { AuditEvent, AuditFilter, AuditRecord, AuditStore, CollectedEvent } from "./audit-event.ts";
import {
  type AuditRetention,
  accountsOf,
  AUDIT,
  auditRecord,
  clientsOf,
  DAY_MICROSECONDS,
  dayOf,
  serviceDay,
  servicesOf,
  type StoredAudit,
  refusalRecord,
  refusalRef,
  toAuditRecord,
} from "./audit-kinds.ts";

/** Records that one read of a partition returns. */
const PAGE_SIZE = 200;
/** The same for one partition in which few records may match. */
const FILTERED_PAGE_SIZE = 1_000;
/** Partitions in one read. Their number doubles while nothing is found. */
const MAX_PARTITIONS_PER_READ = 32;
/** What a page reads at most, even if few records match. */
const MAX_RECORDS_READ = 5_000;
const MAX_PARTITIONS_READ = 2_500;
/** Microseconds by which the clock of another process may differ. */
const CLOCK_SKEW = DAY_MICROSECONDS / 24;

/** A position in the audit: older records come after it. With a key, also records of the same time behind that key. */
interface Position {
  readonly order: number;
  readonly key?: string | undefined;
}

function parsePosition(after: string): Position {
  const [, order, key] = /^(\d{1,16})(?:\.([\x21-\x7e]{1,200}))?$/.exec(after) ?? [];
  if (order === undefined || !Number.isSafeInteger(Number(order)))
    throw new InvalidArgument({ path: "after", message: "must be `next` of another page" });
  return { order: Number(order), key };
}

const formatPosition = ({ order, key }: Position): string =>
  key === undefined ? String(order) : `${order}.${key}`;

/** An index whose partitions are read from the newest to the oldest. */
interface Partitions {
  /** The partition for this time. */
  readonly at: (order: number) => Pick<Query, "kind" | "index" | "at">;
  /** Microseconds that one partition spans. */
  readonly span: number;
}

/** What is asked for; of a service, only what is about it. */
type Filter = AuditFilter & { readonly service?: string };

/** An account has one partition for all times, a service one for each day: what is about others is not even read. */
function partitionsFor({ account, service }: Filter): Partitions {
  if (service !== undefined)
    return { at: (order) => AUDIT.where("service", serviceDay(service, order)), span: DAY_MICROSECONDS };
  if (account === undefined)
    return { at: (order) => AUDIT.where("day", dayOf(order)), span: DAY_MICROSECONDS };
  const partition = AUDIT.where("account", account);
  return { at: () => partition, span: Number.MAX_SAFE_INTEGER };
}

function fits(stored: StoredAudit, { account, client, action, request }: Filter): boolean {
  if (request !== undefined && stored.request !== request) return false;
  if (action !== undefined && stored.action !== action) return false;
  if (account !== undefined && !accountsOf(stored).includes(account)) return false;
  return client === undefined || clientsOf(stored).includes(client);
}

/** One page of the audit while it is read, from the newest record on. */
class PageReader {
  readonly found: AuditRecord[] = [];
  /** Where the next page begins; `undefined` at the end. */
  next: Position | undefined;
  readonly #filter: Filter;
  readonly #limit: number;
  #after: Position | undefined;
  #read = 0;

  constructor(filter: Filter, limit: number, after: Position | undefined) {
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
      if (this.found.length < this.#limit && this.#read < MAX_RECORDS_READ) continue;
      this.next = { order: stored.order, key: record.key };
      return true;
    }
    return false;
  }

  /** The records after this position. Each store orders records of the same time in its own way. */
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

export function createAuditStore(
  records: Records,
  positions: () => number,
  retention: AuditRetention,
): AuditStore {
  const recordOf = (event: AuditEvent): RecordData => auditRecord(event, positions(), retention);

  /** Refusals are counted in records that every process writes; all other records are new. */
  async function storeCollected(tx: Transaction, collected: readonly CollectedEvent[]): Promise<void> {
    const events = await takeAccountEvents(tx, collected);
    const counted = new Map<string, CollectedEvent & { readonly ref: RefTo<StoredAudit> }>();
    for (const one of events) {
      if (one.refusal === undefined) {
        tx.create(auditRecord(one.event, one.order, retention));
        continue;
      }
      const ref = refusalRef(one.refusal, one);
      const earlier = counted.get(ref.key);
      counted.set(ref.key, { ref, ...(earlier ?? one), count: (earlier?.count ?? 0) + one.count });
    }
    const refusals = [...counted.values()];
    const before = await tx.peekAll(refusals.map(({ ref }) => ref));
    for (const [index, { ref, ...one }] of refusals.entries())
      tx.put(refusalRecord(ref, one, before[index], retention));
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
      oldest: Math.max(since * 1_000_000, now - retention.retention * 1_000_000, 0),
      newest: Math.min(now + CLOCK_SKEW, until * 1_000_000 - 1, position?.order ?? Number.POSITIVE_INFINITY),
    };
  }

  return {
    position: positions,
    recordOf,
    append: (event) => records.transact((tx) => tx.create(recordOf(event))),
    appendCollected: (events) => records.transact((tx) => storeCollected(tx, events), { relaxed: true }),
    async find(id, service) {
      const found = await records.find(AUDIT.ref(id));
      if (found === undefined) return undefined;
      if (service !== undefined && !servicesOf(found.value).includes(service)) return undefined;
      return toAuditRecord({ key: id, value: found.value as object as Found["value"] });
    },
    async list({ after, limit, ...filter }) {
      const position = after === undefined ? undefined : parsePosition(after);
      const { oldest, newest } = boundsOf(filter, position, Math.floor(records.clock.now() * 1_000));
      const { at, span } = partitionsFor(filter);
      const reading = new PageReader(filter, limit, position);
      const isFiltered = [filter.client, filter.action, filter.request].some((each) => each !== undefined);
      const size = isFiltered ? FILTERED_PAGE_SIZE : PAGE_SIZE;
      let looked = 0;
      for (let top = newest, many = 1; top >= oldest; many = Math.min(2 * many, MAX_PARTITIONS_PER_READ)) {
        if (looked >= MAX_PARTITIONS_READ) {
          reading.next = { order: top };
          break;
        }
        const queries: Query[] = [];
        for (; queries.length < many && top >= oldest; top = Math.floor(top / span) * span - 1) {
          const limitOfEach = many === 1 ? size : PAGE_SIZE;
          const bounds = { from: oldest, to: newest, limit: limitOfEach, descending: true };
          queries.push({ ...at(top), ...bounds });
        }
        const pages = await records.store.list(queries);
        if (await readAll(reading, queries, pages)) break;
        if (pages.some((page) => page.records.length > 0)) many = 1;
        looked += queries.length;
      }
      const { found, next } = reading;
      return { items: found, next: next === undefined ? null : formatPosition(next) };
    },
  };
}
