/**
 * Finds and repairs inconsistencies of a storage, also while services use it: a suspicious record is read again
 * before it counts, and a repair expects the version that was read.
 */
import { randomUUID } from "node:crypto";
import type { Found, Query, RecordData, RecordStore, Ref } from "../adapters/record-store.ts";
import type { Clock } from "../core/clock.ts";
import { ConditionFailed } from "../core/errors.ts";
import { type AnyKind, type Kinds, storeOf, type Stores } from "./kinds.ts";
import { PAGE } from "./records.ts";
import { pagesOf } from "../core/pages.ts";

/** One inconsistency. */
export interface Flaw {
  /** For `repair`. May contain personal data, so it is never printed. */
  readonly id: string;
  /** For operators: identifiers without personal data. */
  readonly shown: string;
}

/** Finds one kind of inconsistency. */
export interface Check {
  /** The kind of record that is checked, such as `account`. */
  readonly part: string;
  /** The problem of all flaws that this check finds, in the plural: `accounts with a sign-in name that is not theirs`. */
  readonly problem: string;
  /**
   * Finds at most `limit` flaws.
   * @throws StorageUnavailable when the store fails.
   */
  find(limit: number): Promise<readonly Flaw[]>;
  /**
   * Repairs the flaws. Missing if only people can decide what is right.
   * @throws StorageUnavailable when the store fails.
   */
  readonly repair?: (flaws: readonly Flaw[]) => Promise<void>;
}

const REPAIR_TIMEOUT_MS = 10_000;

/** What repairs a record. */
interface Repair {
  /** The record itself, and records that must be new. */
  readonly put?: readonly RecordData[];
  /** Records that replace whatever is there. */
  readonly overwrite?: readonly RecordData[];
  readonly remove?: readonly Ref[];
}

/** Checks all records of a kind, and the suspicious ones twice. */
export class KindScan {
  readonly kind: AnyKind;
  readonly store: RecordStore;
  readonly #clock: Clock;

  constructor(kind: AnyKind, stores: Stores, clock: Clock) {
    this.kind = kind;
    this.store = storeOf(stores, kind);
    this.#clock = clock;
  }

  /**
   * Finds flawed records. A record counts if it was judged flawed twice and has not changed in between, so that a
   * concurrent change is not mistaken for a flaw.
   * @param judge returns the flawed ones of some records.
   */
  async find(
    limit: number,
    judge: (records: readonly Found[]) => Promise<readonly Found[]>,
  ): Promise<Flaw[]> {
    const flaws = new Map<string, Flaw>();
    const scanned = pagesOf((after) => this.store.scan(this.kind.name, after, PAGE / 2));
    for await (const { records } of scanned) {
      for (const found of await this.#confirm(await judge(records), judge)) {
        flaws.set(found.key, { id: found.key, shown: this.show(found) });
      }
      if (flaws.size >= limit) break;
    }
    return [...flaws.values()].slice(0, limit);
  }

  async #confirm(
    suspects: readonly Found[],
    judge: (records: readonly Found[]) => Promise<readonly Found[]>,
  ): Promise<readonly Found[]> {
    if (suspects.length === 0) return [];
    const now = await this.store.get(suspects, { withParents: true });
    const same = now.filter((found, index) => found?.version === suspects[index]?.version);
    return judge(same.filter((found) => found !== undefined));
  }

  /** Identifies a record to operators. A key that identifies a person or is a secret is shortened. */
  show({ kind, key }: Ref): string {
    const { hashed = false, store } = this.kind.declaration;
    return `${kind} ${hashed || store === "artifacts" ? `…${key.slice(-6)}` : key}`;
  }

  /** Repairs the current version of each record, unless another commit changes it meanwhile. */
  async repair(flaws: readonly Pick<Flaw, "id">[], change: (found: Found) => Promise<Repair>): Promise<void> {
    for (const { id } of flaws) {
      const [found] = await this.store.get([{ kind: this.kind.name, key: id }], { withParents: true });
      if (found !== undefined) await this.write(found, await change(found));
    }
  }

  /** Writes on condition that the record has not changed since it was read, and does not retry. */
  async write(found: Found, { put = [], overwrite = [], remove = [] }: Repair): Promise<void> {
    if (put.length + overwrite.length + remove.length === 0) return;
    const { kind, key, version } = found;
    const absent = put
      .filter((record) => record.kind !== kind || record.key !== key)
      .map((record) => ({ ref: { kind: record.kind, key: record.key }, version: "absent" }));
    const expect = [{ ref: { kind, key }, version }, ...absent];
    try {
      const deadline = this.#clock.now() + REPAIR_TIMEOUT_MS;
      await this.store.commit({ id: randomUUID(), deadline, expect, put: [...put, ...overwrite], remove });
    } catch (error) {
      // Another commit changed the record. If it is still flawed, the next check finds it.
      if (!(error instanceof ConditionFailed)) throw error;
    }
  }
}

/** Whether each record is found in all of its indexes. */
async function areIndexed({ kind, store }: KindScan, records: readonly Found[]): Promise<boolean[]> {
  const wanted = records.flatMap((record, index) =>
    (kind.restore(record).index ?? []).map(({ name, at, order }) => ({
      index,
      query: { kind: kind.name, index: name, at, from: order, to: order, limit: PAGE } satisfies Query,
    })),
  );
  const lost = new Set<number>();
  const STEP = 100;
  for (let start = 0; start < wanted.length; start += STEP) {
    const some = wanted.slice(start, start + STEP);
    const pages = await store.list(some.map(({ query }) => query));
    for (const [position, { index, query }] of some.entries()) {
      const { key } = records[index] as Found;
      let page = pages[position];
      while (page !== undefined && !page.records.some((record) => record.key === key)) {
        if (page.next === undefined) lost.add(index);
        page = page.next === undefined ? undefined : (await store.list([{ ...query, after: page.next }]))[0];
      }
    }
  }
  return records.map((_record, index) => !lost.has(index));
}

/** Whether the record has the expiry and the parent that follow from its value. It must be read with its parent. */
function isPlaced({ kind }: KindScan, found: Found): boolean {
  const { expiresAt, parent } = kind.restore(found);
  if (expiresAt !== found.expiresAt) return false;
  return parent?.kind === found.parent?.kind && parent?.key === found.parent?.key;
}

function indexCheck(scan: KindScan): Check {
  const { kind, store } = scan;

  /**
   * Finds the records whose indexes, parent or expiry are wrong. A scan does not return parents, so they are read
   * again.
   */
  async function misplaced(refs: readonly Ref[]): Promise<Found[]> {
    const records = (await store.get(refs, { withParents: true })).filter((found) => found !== undefined);
    const indexed = await areIndexed(scan, records);
    return records.filter((record, index) => indexed[index] !== true || !isPlaced(scan, record));
  }

  const rewrite = (flaws: readonly Pick<Flaw, "id">[]): Promise<void> =>
    scan.repair(flaws, async (found) => ({ put: [kind.restore(found)] }));

  return {
    part: kind.name,
    problem: "records with wrong index entries, a wrong parent or a wrong expiry",
    find: (limit) => scan.find(limit, misplaced),
    async repair(flaws) {
      await rewrite(flaws);
      const left = await misplaced(flaws.map(({ id }) => ({ kind: kind.name, key: id })));
      const still = left.map(({ key }) => ({ id: key }));
      // A store may skip index entries that have not changed, so remove all of them first.
      await scan.repair(still, async (found) => {
        const { index: _entries, ...bare } = kind.restore(found);
        return { put: [bare] };
      });
      await rewrite(still);
    },
  };
}

function keyCheck(scan: KindScan): Check {
  const { kind } = scan;
  return {
    part: kind.name,
    problem: "records with a wrong key",
    find: (limit) =>
      scan.find(limit, async (records) =>
        records.filter(({ key, value }) => kind.record(value as never).key !== key),
      ),
  };
}

function referenceCheck(scan: KindScan, kinds: Kinds, stores: Stores): Check {
  const { kind } = scan;
  const referred = ({ value }: Found): readonly Ref[] => kind.declaration.references?.(value as never) ?? [];

  /** The records that these refer to and that are missing. */
  async function missing(records: readonly Found[]): Promise<Ref[]> {
    const refs = new Map(records.flatMap(referred).map((ref) => [`${ref.kind} ${ref.key}`, ref] as const));
    const byStore = Map.groupBy(refs.values(), (ref) => storeOf(stores, kinds.get(ref.kind)));
    const gone = await Promise.all(
      [...byStore].map(async ([store, wanted]) => {
        const found = await store.get(wanted);
        return wanted.filter((_ref, index) => found[index] === undefined);
      }),
    );
    return gone.flat();
  }

  return {
    part: kind.name,
    problem: "records that refer to missing records",
    async find(limit) {
      const flaws = await scan.find(limit, async (records) => {
        const gone = new Set((await missing(records)).map((ref) => `${ref.kind} ${ref.key}`));
        return records.filter((record) => referred(record).some((ref) => gone.has(`${ref.kind} ${ref.key}`)));
      });
      return Promise.all(
        flaws.map(async ({ id, shown }) => {
          const found = (await scan.store.get([{ kind: kind.name, key: id }])).filter(
            (each) => each !== undefined,
          );
          const names = (await missing(found)).map((ref) => `${ref.kind} ${ref.key}`);
          return { id, shown: `${shown} → ${names.join(", ")}` };
        }),
      );
    },
  };
}

/** The checks that follow from the declarations of the kinds: keys, indexes, parents, expiry and references. */
export function kindChecks(kinds: Kinds, stores: Stores, clock: Clock): Check[] {
  return kinds.all.flatMap((kind) => {
    const { index, parent, expiresAt, keyOf, references } = kind.declaration;
    const scan = new KindScan(kind, stores, clock);
    return [
      ...(keyOf === undefined ? [] : [keyCheck(scan)]),
      ...(index === undefined && parent === undefined && expiresAt === undefined ? [] : [indexCheck(scan)]),
      ...(references === undefined ? [] : [referenceCheck(scan, kinds, stores)]),
    ];
  });
}
