/** Compares two storages: every record of each side is looked up on the other. */
import { isDeepStrictEqual } from "node:util";
import type { Found, RecordStore } from "../../adapters/record-store.ts";
import { type AnyKind, storeOf, type Stores } from "../../records/kinds.ts";
import { pagesOf } from "../../core/pages.ts";

/** One kind on both sides. */
export interface KindComparison {
  readonly kind: string;
  /** How many records each side has. */
  readonly source: number;
  readonly target: number;
  /** How many are missing on one side, or differ. */
  readonly different: number;
}

/** Records in one page. */
const PAGE = 200;

/** Called with the number of records that were looked up. */
interface ComparisonRun {
  readonly signal: AbortSignal;
  readonly onCount: (count: number) => void;
}

/** Compares the copied parts. Versions differ between stores, and parents follow from the values. */
function isSameRecord(kind: AnyKind, one: Found | undefined, other: Found | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return (
    one.expiresAt === other.expiresAt && isDeepStrictEqual(kind.carried(one).value, kind.carried(other).value)
  );
}

/** Looks up all records of one side on the other. */
async function lookUp(
  kind: AnyKind,
  [from, to]: readonly [RecordStore, RecordStore],
  { signal, onCount }: ComparisonRun,
): Promise<{ readonly count: number; readonly different: ReadonlySet<string> }> {
  let count = 0;
  const different = new Set<string>();
  signal.throwIfAborted();
  for await (const { records } of pagesOf((after) => from.scan(kind.name, after, PAGE))) {
    const others = await to.get(records);
    for (const [index, record] of records.entries()) {
      if (isSameRecord(kind, record, others[index])) continue;
      // One of them, or its parent, may have expired since the other was read.
      const [[again], [other]] = await Promise.all([from.get([record]), to.get([record])]);
      if (!isSameRecord(kind, again, other)) different.add(record.key);
    }
    count += records.length;
    onCount(records.length);
    signal.throwIfAborted();
  }
  return { count, different };
}

/** Compares the records of one kind. */
export async function compareKind(
  kind: AnyKind,
  from: Stores,
  to: Stores,
  run: ComparisonRun,
): Promise<KindComparison> {
  const [source, target] = [storeOf(from, kind), storeOf(to, kind)];
  const there = await lookUp(kind, [source, target], run);
  const back = await lookUp(kind, [target, source], run);
  const different = new Set([...there.different, ...back.different]).size;
  return { kind: kind.name, source: there.count, target: back.count, different };
}
