/** Changes the records of a storage to the format of this version. Each step can be interrupted, and goes on where it was. */
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../../core/clock.ts";
import { currentFormat, type FormatPath, type KindChange } from "../../core/storage-formats.ts";
import { packageVersion } from "../../core/package-version.ts";
import { pagesOf } from "../../core/pages.ts";
import { KINDS } from "../all-kinds.ts";
import { storeOf, type Stores } from "../kinds.ts";
import { Records } from "../records.ts";
import { rewritePage } from "../rewriting.ts";
import { FORMAT_REF, type FormatProgress, formatRecord, readFormat, type StoredFormat } from "./format.ts";
import { listProcesses, type StoredProcess } from "./processes.ts";
import { FORMAT_KNOWN_MS, TranslatedStore } from "./translated-store.ts";

const PAGE = 100;
/** The longest time a commit can take. A commit that a server began in the old format has ended by then. */
const COMMIT_MS = 5_000;

/** A store that has to be migrated. */
export interface StorePlan {
  readonly name: "storage" | "artifacts";
  readonly from: number;
  readonly to: number;
  /** Whether it has begun. */
  readonly isUnderWay: boolean;
  /** How many records of each kind are rewritten. */
  readonly records: Readonly<Record<string, number>>;
}

/** Functions, tables, indexes and columns in the databases that only other versions need. */
export interface Leftovers {
  readonly names: readonly string[];
  /** The processes of other versions, which may need them. */
  readonly usedBy: readonly StoredProcess[];
}

export interface MigrationPlan {
  readonly path: FormatPath;
  /** Empty if there is nothing to do. */
  readonly stores: readonly StorePlan[];
  /** The processes that have to be stopped first. */
  readonly inTheWay: readonly StoredProcess[];
  readonly leftovers: Leftovers;
}

/** Stops a run between two pages, and follows it. */
export interface MigrationRun {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** @param done records of all kinds. */
  readonly onProgress: (what: string, done: number) => void;
}

type Named = readonly (readonly ["storage" | "artifacts", Stores["storage"]])[];

const named = ({ storage, artifacts }: Stores): Named =>
  artifacts === storage
    ? [["storage", storage]]
    : [
        ["storage", storage],
        ["artifacts", artifacts],
      ];

/** The changes to records in this store. */
const changesIn = (stores: Stores, store: Stores["storage"]): readonly KindChange[] =>
  currentFormat().changes.filter(({ kind }) => storeOf(stores, KINDS.get(kind)) === store);

const isLeft = (stored: StoredFormat | undefined): stored is StoredFormat =>
  stored !== undefined && (stored.format !== currentFormat().format || stored.from !== undefined);

/** Plans the migration: counts the records to rewrite, and finds the processes in the way. Writes nothing. */
export async function planMigration(
  stores: Stores,
  { clock, signal, onProgress }: MigrationRun,
): Promise<MigrationPlan> {
  const { format, path = "expand and contract" } = currentFormat();
  const plans: StorePlan[] = [];
  let done = 0;
  for (const [name, store] of named(stores)) {
    const stored = await readFormat(store);
    if (!isLeft(stored)) continue;
    const records: Record<string, number> = {};
    for (const { kind } of changesIn(stores, store)) {
      records[kind] = 0;
      for await (const page of pagesOf((after) => store.scan(kind, after, PAGE))) {
        signal.throwIfAborted();
        records[kind] += page.records.length;
        onProgress(`counting ${kind}`, (done += page.records.length));
      }
    }
    const isUnderWay = stored.from !== undefined;
    plans.push({ name, from: stored.from ?? stored.format, to: format, isUnderWay, records });
  }
  const all = await listProcesses(new Records(stores.storage, clock, KINDS));
  const inTheWay = all.filter((each) => path === "in one step" || each.format < format);
  return {
    path,
    stores: plans,
    inTheWay: plans.length === 0 ? [] : inTheWay,
    leftovers: await findLeftovers(stores, clock),
  };
}

const formerParts = (): readonly string[] => currentFormat().drops ?? [];

async function findLeftovers(stores: Stores, clock: Clock): Promise<Leftovers> {
  const names: string[] = [];
  for (const [, store] of named(stores)) names.push(...((await store.leftovers?.(formerParts())) ?? []));
  const [version, { format }] = [packageVersion(), currentFormat()];
  const all = await listProcesses(new Records(stores.storage, clock, KINDS));
  const usedBy = all.filter((each) => each.version !== version || each.format !== format);
  return { names, usedBy: names.length === 0 ? [] : usedBy };
}

/**
 * Drops what only other versions need, unless one of their processes has been seen in the last three minutes. A process that nobody
 * saw, such as a long import, creates its functions again.
 */
export async function dropLeftovers(stores: Stores, clock: Clock): Promise<Leftovers> {
  const found = await findLeftovers(stores, clock);
  if (found.names.length > 0 && found.usedBy.length === 0)
    for (const [, store] of named(stores)) await store.dropLeftovers?.(formerParts());
  return found;
}

/** From now on, servers of this version write its format, and those of the version before refuse the store. */
async function begin(records: Records): Promise<StoredFormat> {
  const { format } = currentFormat();
  return records.transact(async (tx) => {
    const stored = await tx.get(FORMAT_REF);
    if (stored === undefined || !isLeft(stored) || stored.from !== undefined) return stored ?? { format };
    const begun = { format, from: stored.format, progress: { since: records.clock.now(), done: 0 } };
    tx.put(formatRecord(begun));
    return begun;
  });
}

async function note(records: Records, progress: FormatProgress): Promise<void> {
  await records.transact(async (tx) => {
    const stored = await tx.get(FORMAT_REF);
    if (stored?.from !== undefined) tx.put(formatRecord({ ...stored, progress }));
  });
}

async function migrateStore(
  records: Records,
  changes: readonly KindChange[],
  { clock, signal, onProgress }: MigrationRun,
): Promise<number> {
  const begun = await begin(records);
  if (begun.from === undefined || begun.progress === undefined) return 0;
  if (records.store instanceof TranslatedStore) await records.store.look();
  const { since } = begun.progress;
  for (let left: number; (left = since + FORMAT_KNOWN_MS + COMMIT_MS - clock.now()) > 0;) {
    onProgress("seconds until all servers have noticed", Math.ceil(left / 1000));
    await pause(Math.min(left, 1_000), undefined, { signal });
  }
  let { done } = begun.progress;
  const first = Math.max(
    0,
    changes.findIndex(({ kind }) => kind === begun.progress?.kind),
  );
  for (const { kind } of changes.slice(first)) {
    let after = kind === begun.progress.kind ? begun.progress.after : undefined;
    do {
      signal.throwIfAborted();
      const page = await records.store.scan(kind, after, PAGE);
      await rewritePage(records, page.records, (found) => KINDS.get(kind).restore(found));
      after = page.next;
      onProgress(`rewriting ${kind}`, (done += page.records.length));
      // The last page of a kind is done again after an interruption, which changes nothing.
      if (after !== undefined) await note(records, { since, kind, after, done });
    } while (after !== undefined);
  }
  await records.transact(async (tx) => {
    const stored = await tx.get(FORMAT_REF);
    if (stored?.from !== undefined) tx.put(formatRecord({ format: stored.format }));
  });
  return done;
}

/** Migrates all stores of a plan. @returns how many records it rewrote, with those of an interrupted run. */
export async function migrate(stores: Stores, run: MigrationRun): Promise<number> {
  let done = 0;
  for (const [, store] of named(stores))
    done += await migrateStore(new Records(store, run.clock, KINDS), changesIn(stores, store), run);
  return done;
}
