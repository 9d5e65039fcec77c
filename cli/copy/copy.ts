/** Copies all that one storage keeps into another, page by page, and compares the two. */
import { PARTS, type PartName, type StorageTransfer, type TransferPart } from "../../adapters/transfer.ts";
import { CommandFailure } from "../command-failure.ts";
import { comparePart, type PartComparison } from "./compare.ts";
import { type Mark, type PartMark, readMark, writeMark } from "./mark.ts";
import type { CopyRun } from "./run.ts";

/** Records in one page: a transaction of the target. */
const PAGE = 500;

async function isEmptyPart(part: TransferPart<unknown>): Promise<boolean> {
  for (let after: string | undefined; ;) {
    const page = await part.read({ limit: 1, ...(after !== undefined && { after }) });
    if (page.records.length > 0) return false;
    if (page.after === undefined) return true;
    after = page.after;
  }
}

/** The parts of a storage that hold something. */
async function filledParts({ parts }: StorageTransfer): Promise<PartName[]> {
  const filled: PartName[] = [];
  for (const name of PARTS) if (!(await isEmptyPart(parts[name]))) filled.push(name);
  return filled;
}

/**
 * The mark of an earlier run, or a new one. It is written before anything else: what a copy has begun is never taken
 * for something else.
 * @throws CommandFailure when the target holds anything else than an unfinished copy of this source.
 */
async function findMark(from: StorageTransfer, to: StorageTransfer, source: string): Promise<Mark> {
  if ((await from.readMark()) !== undefined) {
    throw new CommandFailure("FROM is itself the target of a copy that was not finished.");
  }
  const text = await to.readMark();
  if (text !== undefined) {
    const mark = readMark(text);
    if (mark?.source === source) return mark;
    throw new CommandFailure("TO holds an unfinished copy of another storage. Empty it first.");
  }
  if ((await filledParts(from)).length === 0) throw new CommandFailure("There is nothing in FROM.");
  const filled = await filledParts(to);
  if (filled.length > 0) {
    throw new CommandFailure(`TO must be empty, but there is something in it already: ${filled.join(", ")}.`);
  }
  const mark = { source, parts: {} };
  await to.writeMark(writeMark(mark));
  return mark;
}

async function copyPart(
  source: TransferPart<unknown>,
  target: TransferPart<unknown>,
  begun: PartMark | undefined,
  told: (mark: PartMark) => Promise<void>,
): Promise<void> {
  let mark: PartMark = begun ?? { count: 0, isDone: false };
  while (!mark.isDone) {
    const { count, after } = mark;
    const page = await source.read({ limit: PAGE, ...(after !== undefined && { after }) });
    if (page.records.length > 0) await target.write(page.records, count);
    mark = {
      count: count + page.records.length,
      isDone: page.after === undefined,
      ...(page.after !== undefined && { after: page.after }),
    };
    await told(mark);
  }
}

export interface CopyReport {
  /** Whether it went on with an earlier run. */
  readonly isResumed: boolean;
  readonly parts: readonly PartComparison[];
}

/**
 * Copies, or goes on where an earlier run stopped, and then compares. The target keeps a mark until `finishCopy`.
 * @param source what the copy is of: another run goes on only when it says the same.
 * @throws CommandFailure when the target holds something else.
 * @throws the reason of the signal, between two pages.
 */
export async function copyStorage(
  from: StorageTransfer,
  to: StorageTransfer,
  { source, ...run }: CopyRun & { readonly source: string },
): Promise<CopyReport> {
  let mark = await findMark(from, to, source);
  const isResumed = Object.keys(mark.parts).length > 0;
  for (const part of PARTS) {
    const total = await from.parts[part].count();
    await copyPart(from.parts[part], to.parts[part], mark.parts[part], async (reached) => {
      mark = { source, parts: { ...mark.parts, [part]: reached } };
      await to.writeMark(writeMark(mark));
      run.onProgress({ step: "copying", part, done: reached.count, total });
      run.signal.throwIfAborted();
    });
  }
  const parts: PartComparison[] = [];
  for (const part of PARTS) parts.push(await comparePart(from, to, part, run));
  return { isResumed, parts };
}

/** Takes the mark away: from now on the target is a storage like any other, and a service starts on it. */
export function finishCopy(to: StorageTransfer): Promise<void> {
  return to.writeMark(undefined);
}
