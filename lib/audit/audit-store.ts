/** The audit over the record store: written in commits of changes or by itself, and read by time, account, client and action. */
import type { Found, Page, Query, RecordData, Ref } from "../../adapters/record-store.ts";
import type { Key } from "../kinds.ts";
import { Changes, type Read, type Records } from "../records.ts";
import type { AuditEvent, AuditFilter, AuditRecord, AuditStore, CollectedEvent } from "./audit-event.ts";
import {
  accountsOf,
  AUDIT,
  auditRecord,
  clientsOf,
  DAY,
  HOUR,
  type KeptAudit,
  PARTITIONS,
  refusalRecord,
  refusalRef,
  toAuditRecord,
} from "./records.ts";

/** Records in one look at a partition. */
const LOOK = 200;
/** Partitions in one look: they double while nothing is found. */
const MOST_PARTITIONS = 256;
/** Of one page: records that are read and partitions that are looked at, however few of them fit. */
const MOST_READ = 5_000;
const MOST_LOOKED_AT = 2_500;
/** Microseconds by which another process may be ahead of this one. */
const AHEAD = HOUR;

/** A place in the audit: everything older comes after it. With a key, also what is of the same time and behind that. */
interface Place {
  readonly order: number;
  readonly key?: string;
}

function readPlace(after: string): Place {
  const [, order, key] = /^(\d{1,16})(?:\.([\x21-\x7e]{1,200}))?$/.exec(after) ?? [];
  if (order === undefined || !Number.isSafeInteger(Number(order)))
    throw new TypeError("after: must be `next` of another page");
  return { order: Number(order), ...(key === undefined ? {} : { key }) };
}

const writePlace = ({ order, key }: Place): string => (key === undefined ? String(order) : `${order}.${key}`);

/** An index with the partitions to look through, from the newest to the oldest. */
interface Way {
  readonly index: keyof typeof PARTITIONS;
  /** The name of the partition that holds this time. */
  readonly at: (order: number) => Key;
  /** Microseconds that one partition spans. */
  readonly span: number;
}

/** The index in which the fewest records have to be passed over. */
function wayOf({ account, client, action }: AuditFilter): Way {
  if (account !== undefined)
    return { index: "account", at: () => PARTITIONS.account(account), span: Number.MAX_SAFE_INTEGER };
  if (client !== undefined)
    return { index: "client", at: (order) => PARTITIONS.client(client, order), span: DAY };
  if (action !== undefined)
    return { index: "action", at: (order) => PARTITIONS.action(action, order), span: DAY };
  return { index: "hour", at: PARTITIONS.hour, span: HOUR };
}

function fits(kept: KeptAudit, { account, client, action }: AuditFilter): boolean {
  if (action !== undefined && kept.action !== action) return false;
  if (account !== undefined && !accountsOf(kept).includes(account)) return false;
  return client === undefined || clientsOf(kept).includes(client);
}

/** A reading of the audit from the newest record on. */
class Reading {
  readonly found: AuditRecord[] = [];
  /** Where the next page goes on; `undefined` when there is nothing behind this one. */
  next: Place | undefined;
  readonly #filter: AuditFilter;
  readonly #limit: number;
  #after: Place | undefined;
  #read = 0;

  constructor(filter: AuditFilter, limit: number, after: Place | undefined) {
    this.#filter = filter;
    this.#limit = limit;
    this.#after = after;
  }

  /** Takes what fits of one look. @returns whether the page is complete. */
  take(records: readonly Found[]): boolean {
    for (const record of this.#behind(records)) {
      const kept = record.value as unknown as KeptAudit;
      this.#read += 1;
      if (fits(kept, this.#filter)) this.found.push(toAuditRecord(record));
      if (this.found.length < this.#limit && this.#read < MOST_READ) continue;
      this.next = { order: kept.order, key: record.key };
      return true;
    }
    return false;
  }

  /** Records of one time come in a sequence of the store's own: of those the ones up to the place were given before. */
  #behind(records: readonly Found[]): readonly Found[] {
    const after = this.#after;
    if (after?.key === undefined) return records;
    const last = records.findIndex(({ key }) => key === after.key);
    const older = records.findIndex(({ value }) => (value as unknown as KeptAudit).order < after.order);
    if (last === -1 && older === -1) return [];
    this.#after = undefined;
    return records.slice(last === -1 ? older : last + 1);
  }
}

/** @param retention seconds for which a record is kept. */
export function createAuditStore(records: Records, positions: () => number, retention: number): AuditStore {
  const recordOf = (event: AuditEvent): RecordData => auditRecord(event, positions(), retention);

  async function storeCollected(events: readonly CollectedEvent[]): Promise<void> {
    const changes = new Changes();
    const counted: (CollectedEvent & { readonly ref: Ref })[] = [];
    for (const one of events) {
      if (one.refusal === undefined) changes.add(auditRecord(one.event, one.order, retention));
      else counted.push({ ...one, ref: refusalRef(one.refusal, one.order) });
    }
    const before: readonly (Read<KeptAudit> | undefined)[] =
      counted.length === 0 ? [] : await records.get<readonly KeptAudit[]>(counted.map(({ ref }) => ref));
    for (const [index, { ref, ...one }] of counted.entries())
      changes.write(refusalRecord(ref, one, before[index]?.value, retention), before[index]);
    await records.commit(changes, { relaxed: true });
  }

  /** All that some partitions have. @param pages the first look at each. @returns whether the page is complete. */
  async function readAll(
    reading: Reading,
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
    place: Place | undefined,
    now: number,
  ): { readonly oldest: number; readonly newest: number } {
    return {
      oldest: Math.max(since * 1_000_000, now - retention * 1_000_000, 0),
      newest: Math.min(now + AHEAD, until * 1_000_000 - 1, place?.order ?? Number.POSITIVE_INFINITY),
    };
  }

  return {
    position: positions,
    recordOf,
    async append(event) {
      const changes = new Changes();
      changes.add(recordOf(event));
      await records.commit(changes);
    },
    appendCollected: (events) => records.retry(() => storeCollected(events)),
    async list({ after, limit, ...filter }) {
      const place = after === undefined ? undefined : readPlace(after);
      const { oldest, newest } = boundsOf(filter, place, Math.floor(records.clock.now() * 1_000));
      const { index, at, span } = wayOf(filter);
      const reading = new Reading(filter, limit, place);
      let looked = 0;
      for (let top = newest, many = 1; top >= oldest; many = Math.min(2 * many, MOST_PARTITIONS)) {
        if (looked >= MOST_LOOKED_AT) {
          reading.next = { order: top };
          break;
        }
        const queries: Query[] = [];
        for (; queries.length < many && top >= oldest; top = Math.floor(top / span) * span - 1) {
          const bounds = { from: oldest, to: newest, limit: LOOK, descending: true };
          queries.push({ ...AUDIT.where(index, at(top)), ...bounds });
        }
        const pages = await records.store.list(queries);
        if (await readAll(reading, queries, pages)) break;
        if (pages.some((page) => page.records.length > 0)) many = 1;
        looked += queries.length;
      }
      const { found, next } = reading;
      return { records: found, ...(next === undefined ? {} : { next: writePlace(next) }) };
    },
  };
}
