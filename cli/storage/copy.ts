/** Copies one storage to another, page by page, and compares the two. */
import { randomUUID } from "node:crypto";
import type { Found, RecordData, RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import { ConditionFailed } from "../../core/errors.ts";
import { type CopiedKind, UNFINISHED_COPY, type UnfinishedCopy } from "../../records/formats/format.ts";
import { type AnyKind, type Kinds, storeOf, type Stores } from "../../records/kinds.ts";
import { CommandFailure } from "../program/command-failure.ts";
import { compareKind, type KindComparison } from "./compare.ts";
import { pagesOf } from "../../core/pages.ts";

/** MongoDB holds the locks of a killed run until it ends the transaction, some time after a minute. */
const COMMIT_TIMEOUT_MS = 120_000;

/** A page is one commit of the target. */
const PAGE_RECORDS = 100;

/** How many records are done, out of approximately `total` if that is known. */
interface CopyProgress {
  readonly step: "copying" | "comparing";
  readonly kind: string;
  readonly done: number;
  readonly total?: number;
}

/** The parameters of a copy. */
interface CopyRun {
  readonly kinds: Kinds;
  readonly clock: Clock;
  /** Identifies the source. Another run only continues a copy of the same source. */
  readonly source: string;
  /** Stops it between two pages. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: CopyProgress) => void;
}

/** The kinds to copy, parents before their children. Facts about one storage are not copied. */
function copiedKinds({ all }: Kinds): AnyKind[] {
  return all.filter(({ declaration }) => declaration.exported);
}

async function isEmpty(store: RecordStore, { name }: AnyKind): Promise<boolean> {
  for await (const { records } of pagesOf((after) => store.scan(name, after, 1)))
    if (records.length > 0) return false;
  return true;
}

/** The kinds that have records in a storage. */
async function filledKinds(stores: Stores, kinds: Kinds): Promise<string[]> {
  const filled: string[] = [];
  for (const kind of copiedKinds(kinds)) {
    if (!(await isEmpty(storeOf(stores, kind), kind))) filled.push(kind.name);
  }
  return filled;
}

const MARK = UNFINISHED_COPY.ref("current");

async function findMark({ storage }: Stores): Promise<UnfinishedCopy | undefined> {
  const [found] = await storage.get([MARK]);
  return found?.value as UnfinishedCopy | undefined;
}

/** Stores how far the copy is, in its target, so that the next run can continue. */
async function putMark({ storage }: Stores, mark: UnfinishedCopy, clock: Clock): Promise<void> {
  const deadline = clock.now() + COMMIT_TIMEOUT_MS;
  await storage.commit({ id: randomUUID(), deadline, put: [UNFINISHED_COPY.record(mark)] });
}

/**
 * Reads the mark of an earlier run, or writes a new one. The mark is the first record of the target, so an unfinished
 * copy can always be recognized.
 * @throws CommandFailure when the target contains anything but an unfinished copy of this source.
 */
async function openMark(
  from: Stores,
  to: Stores,
  { kinds, source, clock }: CopyRun,
): Promise<UnfinishedCopy> {
  if ((await findMark(from)) !== undefined)
    throw new CommandFailure("FROM is the target of an unfinished copy.");
  const found = await findMark(to);
  if (found?.source === source) return found;
  if (found !== undefined)
    throw new CommandFailure("TO holds an unfinished copy of another storage. Empty it first.");
  if ((await filledKinds(from, kinds)).length === 0) throw new CommandFailure("FROM is empty.");
  const filled = await filledKinds(to, kinds);
  if (filled.length > 0)
    throw new CommandFailure(`TO must be empty, but it already contains ${filled.join(", ")}.`);
  const mark: UnfinishedCopy = { source, kinds: {} };
  await putMark(to, mark, clock);
  return mark;
}

/** The records to write. A record that occurs twice in a page is written once. */
function toWrites(kind: AnyKind, found: readonly Found[]): RecordData[] {
  const byKey = new Map(found.map((record) => [record.key, kind.restore(kind.carried(record))] as const));
  return [...byKey.values()];
}

/** Writes a page. Drops records whose parent has been removed since they were read. */
async function write(
  source: RecordStore,
  target: RecordStore,
  records: readonly RecordData[],
  clock: Clock,
): Promise<void> {
  if (records.length === 0) return;
  try {
    await target.commit({ id: randomUUID(), deadline: clock.now() + COMMIT_TIMEOUT_MS, put: records });
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error;
    const still = await source.get(records);
    const left = records.filter((_record, index) => still[index] !== undefined);
    if (left.length === records.length) {
      const [{ kind } = { kind: "" }] = records;
      throw new CommandFailure(
        `A ${kind} belongs to a record that is missing in TO. Is a service still running on FROM? Stop it, empty TO, and copy again.`,
        { cause: error },
      );
    }
    await write(source, target, left, clock);
  }
}

async function copyKind(
  kind: AnyKind,
  [source, target]: readonly [RecordStore, RecordStore],
  begun: CopiedKind | undefined,
  { clock }: CopyRun,
  onPage: (progress: CopiedKind) => Promise<void>,
): Promise<void> {
  let progress: CopiedKind = begun ?? { count: 0, isDone: false };
  while (!progress.isDone) {
    const page = await source.scan(kind.name, progress.after, PAGE_RECORDS);
    const records = toWrites(kind, page.records);
    await write(source, target, records, clock);
    progress = {
      count: progress.count + records.length,
      isDone: page.next === undefined,
      ...(page.next !== undefined && { after: page.next }),
    };
    await onPage(progress);
  }
  const { counter } = kind.declaration;
  // This uses up one number of the source, which is never assigned.
  if (counter !== undefined) await target.next(counter, await source.next(counter));
}

/**
 * Copies, or continues where an earlier run stopped, and then compares. The mark stays in the target until `finishCopy`.
 * @throws CommandFailure when the target contains something else.
 * @throws the reason of the signal, between two pages.
 */
export async function copyStorage(from: Stores, to: Stores, run: CopyRun): Promise<KindComparison[]> {
  const { source, kinds: begun } = await openMark(from, to, run);
  const reached = new Map(Object.entries(begun));
  const copied = copiedKinds(run.kinds);
  for (const kind of copied) {
    await copyKind(
      kind,
      [storeOf(from, kind), storeOf(to, kind)],
      reached.get(kind.name),
      run,
      async (progress) => {
        reached.set(kind.name, progress);
        await putMark(to, { source, kinds: Object.fromEntries(reached) }, run.clock);
        run.onProgress({ step: "copying", kind: kind.name, done: progress.count });
        run.signal.throwIfAborted();
      },
    );
  }
  const comparisons: KindComparison[] = [];
  for (const kind of copied) {
    const total = 2 * (reached.get(kind.name)?.count ?? 0);
    let done = 0;
    const onCount = (count: number): void => {
      done += count;
      run.onProgress({ step: "comparing", kind: kind.name, done, total });
    };
    comparisons.push(await compareKind(kind, from, to, { signal: run.signal, onCount }));
  }
  return comparisons;
}

/** Removes the mark, so that services can start on the target. */
export async function finishCopy({ storage }: Stores, clock: Clock): Promise<void> {
  await storage.commit({ id: randomUUID(), deadline: clock.now() + COMMIT_TIMEOUT_MS, remove: [MARK] });
}
