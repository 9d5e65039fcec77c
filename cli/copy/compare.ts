/** Whether two storages hold the same: each part is read on both sides. */
import type { Artifact } from "../../adapters/artifacts.ts";
import { ORDERED, type PartName, type StorageTransfer, type TransferPart } from "../../adapters/transfer.ts";
import { Checksum, type Summary } from "./checksum.ts";
import type { CopyRun } from "./run.ts";

/** One part of both storages. */
export interface PartComparison {
  readonly part: PartName;
  readonly source: Summary;
  readonly target: Summary;
}

export function isSame({ source, target }: PartComparison): boolean {
  return source.count === target.count && source.checksum === target.checksum;
}

/** Records in one page. */
const PAGE = 500;
/** Milliseconds that comparing artifacts is thought to take; four times as many at each further try. */
const FIRST_SPAN = 30_000;
const LONGER = 4;

/** What both sides must have of a record; `undefined`: nothing, for one may have forgotten it before the other. */
type Comparable = (record: unknown) => unknown;

const asItIs: Comparable = (record) => record;

/** @param end in milliseconds since the epoch: what expires until then is left out. */
function lastingUntil(end: number): Comparable {
  return (record) => {
    const { expiresAt, replayUntil = Infinity } = record as Artifact;
    if (expiresAt <= end) return undefined;
    return replayUntil > end
      ? record
      : { ...(record as Artifact), replay: undefined, replayUntil: undefined };
  };
}

/** Told how many records were read by now. */
type OnCount = (count: number) => void;

async function summarise(
  part: TransferPart<unknown>,
  { name, comparable, signal }: { name: PartName; comparable: Comparable; signal: AbortSignal },
  onCount: OnCount,
): Promise<Summary> {
  const checksum = new Checksum({ repeats: part.repeats === true, numbered: ORDERED.has(name) });
  let count = 0;
  for (let after: string | undefined; ;) {
    signal.throwIfAborted();
    const page = await part.read({ limit: PAGE, ...(after !== undefined && { after }) });
    for (const record of page.records) {
      const compared = comparable(record);
      if (compared !== undefined) checksum.add(compared);
    }
    count += page.records.length;
    onCount(count);
    if (page.after === undefined) return checksum.summary;
    after = page.after;
  }
}

async function compareOnce(
  from: StorageTransfer,
  to: StorageTransfer,
  name: PartName,
  comparable: Comparable,
  { signal, onProgress }: CopyRun,
): Promise<PartComparison> {
  const [source, target] = [from.parts[name], to.parts[name]];
  const total = (await source.count()) + (await target.count());
  const done = { source: 0, target: 0 };
  const told = (side: keyof typeof done) => (count: number) => {
    done[side] = count;
    onProgress({ step: "comparing", part: name, done: done.source + done.target, total });
  };
  const what = { name, comparable, signal };
  const [ofSource, ofTarget] = await Promise.all([
    summarise(source, what, told("source")),
    summarise(target, what, told("target")),
  ]);
  return { part: name, source: ofSource, target: ofTarget };
}

/** Reads one part of both storages. What expires while that goes on is left out of both. */
export async function comparePart(
  from: StorageTransfer,
  to: StorageTransfer,
  name: PartName,
  run: CopyRun,
): Promise<PartComparison> {
  if (name !== "artifacts") return compareOnce(from, to, name, asItIs, run);
  for (let span = FIRST_SPAN; ; span *= LONGER) {
    const end = run.clock.now() + span;
    const found = await compareOnce(from, to, name, lastingUntil(end), run);
    if (run.clock.now() < end) return found;
  }
}
