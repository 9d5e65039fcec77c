/**
 * What can be wrong with what a storage keeps, and how it is put right. All of it may be done beside a running service:
 * what looks wrong is looked at again before it counts, and a repair relies on what was read.
 */
import { randomUUID } from "node:crypto";
import type { Found, Query, RecordData, RecordStore, Ref } from "../adapters/record-store.ts";
import type { Clock } from "./clock.ts";
import { ConditionFailed } from "./errors.ts";
import { type AnyKind, type Kinds, storeOf, type Stores } from "./kinds.ts";
import { PAGE } from "./records.ts";

/** One thing that is wrong. */
export interface Flaw {
  /** For `repair`. May hold personal data: never shown. */
  readonly id: string;
  /** For an operator: identifiers, no personal data. */
  readonly shown: string;
}

/** Finds one kind of flaw. */
export interface Check {
  /** What is looked at, such as `account`. */
  readonly part: string;
  /** What all flaws that it finds have in common, in the plural: `sign-in names that lead to no account`. */
  readonly problem: string;
  /** At most so many flaws. @throws StorageUnavailable when it can't be looked at. */
  find(limit: number): Promise<readonly Flaw[]>;
  /**
   * Puts right what can be put right. Missing: only people can decide what is right.
   * @throws StorageUnavailable when the store refuses.
   */
  readonly repair?: (flaws: readonly Flaw[]) => Promise<void>;
}

/** Milliseconds for one repair. */
const DEADLINE = 10_000;

/** Looks at all records of a kind, and again at those that looked wrong. */
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
   * The records in which something is wrong: seen twice with the record unchanged, so that what changes meanwhile is not
   * taken for wrong.
   * @param judge gives those that look wrong.
   */
  async find(
    limit: number,
    judge: (records: readonly Found[]) => Promise<readonly Found[]>,
  ): Promise<Flaw[]> {
    const flaws = new Map<string, Flaw>();
    for (let after: string | undefined; flaws.size < limit;) {
      const page = await this.store.scan(this.kind.name, after, PAGE / 2);
      for (const found of await this.#confirm(await judge(page.records), judge)) {
        flaws.set(found.key, { id: found.key, shown: this.show(found) });
      }
      if (page.next === undefined) break;
      after = page.next;
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

  /** A record by what names it; what may name a person, or opens something, is cut short. */
  show({ kind, key }: Ref): string {
    const { hashed = false, store } = this.kind.declaration;
    return `${kind} ${hashed || store === "artifacts" ? `…${key.slice(-6)}` : key}`;
  }

  /** Repairs each record as it is now, unless somebody changes it. */
  async repair(
    flaws: readonly Pick<Flaw, "id">[],
    change: (
      found: Found,
    ) => Promise<{ readonly put?: readonly RecordData[]; readonly remove?: readonly Ref[] }>,
  ): Promise<void> {
    for (const { id } of flaws) {
      const [found] = await this.store.get([{ kind: this.kind.name, key: id }], { withParents: true });
      if (found !== undefined) await this.write(found, await change(found));
    }
  }

  /** Writes under the condition that a record is as it was read. What else it puts must be new, or that record. */
  async write(
    found: Found,
    { put = [], remove = [] }: { readonly put?: readonly RecordData[]; readonly remove?: readonly Ref[] },
  ): Promise<void> {
    if (put.length + remove.length === 0) return;
    const { kind, key, version } = found;
    const absent = put
      .filter((record) => record.kind !== kind || record.key !== key)
      .map((record) => ({ ref: { kind: record.kind, key: record.key }, version: "absent" }));
    const expect = [{ ref: { kind, key }, version }, ...absent];
    try {
      const deadline = this.#clock.now() + DEADLINE;
      await this.store.commit({ id: randomUUID(), deadline, expect, put, remove });
    } catch (error) {
      // Somebody was faster: what is still wrong is found again.
      if (!(error instanceof ConditionFailed)) throw error;
    }
  }
}

/** Whether indexes lead to the records that they should lead to, one answer for each record. */
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
    for (const [place, { index, query }] of some.entries()) {
      const { key } = records[index] as Found;
      let page = pages[place];
      while (page !== undefined && !page.records.some((record) => record.key === key)) {
        if (page.next === undefined) lost.add(index);
        page = page.next === undefined ? undefined : (await store.list([{ ...query, after: page.next }]))[0];
      }
    }
  }
  return records.map((_record, index) => !lost.has(index));
}

/** Whether the end and the parent of a record are what its value says. It is read with its parent. */
function isPlaced({ kind }: KindScan, found: Found): boolean {
  const { expiresAt, parent } = kind.restore(found);
  if (expiresAt !== found.expiresAt) return false;
  return parent?.kind === found.parent?.kind && parent?.key === found.parent?.key;
}

function indexCheck(scan: KindScan): Check {
  const { kind, store } = scan;

  /** Those that are not where they should be. A scan does not give parents, so they are read again. */
  async function misplaced(refs: readonly Ref[]): Promise<Found[]> {
    const records = (await store.get(refs, { withParents: true })).filter((found) => found !== undefined);
    const indexed = await areIndexed(scan, records);
    return records.filter((record, index) => indexed[index] !== true || !isPlaced(scan, record));
  }

  const rewrite = (flaws: readonly Pick<Flaw, "id">[]): Promise<void> =>
    scan.repair(flaws, async (found) => ({ put: [kind.restore(found)] }));

  return {
    part: kind.name,
    problem: "records that are not where their value says: in an index, under a parent, or until an end",
    find: (limit) => scan.find(limit, misplaced),
    async repair(flaws) {
      await rewrite(flaws);
      const left = await misplaced(flaws.map(({ id }) => ({ kind: kind.name, key: id })));
      const still = left.map(({ key }) => ({ id: key }));
      // A store may leave entries alone that have not changed: they are taken away first.
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
    problem: "records under a key that is not theirs",
    find: (limit) =>
      scan.find(limit, async (records) =>
        records.filter(({ key, value }) => kind.record(value as never).key !== key),
      ),
  };
}

function referenceCheck(scan: KindScan, kinds: Kinds, stores: Stores): Check {
  const { kind } = scan;
  const referred = ({ value }: Found): readonly Ref[] => kind.declaration.references?.(value as never) ?? [];

  /** What is not there of what these refer to. */
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
    problem: "records that refer to what is not there",
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

/** What follows from the declarations of the kinds: each record under its key, in its indexes, under its parent, until its end. */
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
