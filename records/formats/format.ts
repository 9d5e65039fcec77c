/** What a store says about itself: its format, how far its change to that format is, and whether a copy into it is unfinished. */
import type { Position, RecordStore } from "../../adapters/record-store.ts";
import { ConfigurationError, StorageMissing } from "../../core/errors.ts";
import { currentFormat, formerFormat } from "../../core/storage-formats.ts";
import { defineKind, type Kind } from "../kinds.ts";
import type { Records, RefTo } from "../records.ts";

/** How far `storage migrate` is. */
export interface FormatProgress {
  /** When it began, in milliseconds since the epoch. */
  readonly since: number;
  /** The kind whose records are rewritten; missing before the first one. */
  readonly kind?: string;
  /** Where the next page of this kind begins; missing on its first one. */
  readonly after?: Position;
  /** Records of all kinds that were looked at. */
  readonly done: number;
}

export interface StoredFormat {
  /** The format in which servers write. */
  readonly format: number;
  /** The format before, while records of it are left to be rewritten. Missing otherwise. */
  readonly from?: number;
  /** Only with `from`. */
  readonly progress?: FormatProgress;
}

export const STORAGE_FORMAT: Kind<StoredFormat> = defineKind<StoredFormat>({
  name: "storage-format",
  holds: "the number of the store's format, and how far `storage migrate` is",
  key: "`current`",
  store: "each",
  exported: false,
  afterRestore: "kept",
  personal: undefined,
});

/** How far the copy of one kind is. */
export interface CopiedKind {
  /** Records written. */
  readonly count: number;
  /** Where the next page begins. */
  readonly after?: Position;
  readonly isDone: boolean;
}

/** An unfinished copy. */
export interface UnfinishedCopy {
  /** Identifies the source: see `identityOf`. */
  readonly source: string;
  /** By the name of the kind. */
  readonly kinds: Readonly<Record<string, CopiedKind>>;
}

/** No service starts on a storage with this record. */
export const UNFINISHED_COPY: Kind<UnfinishedCopy> = defineKind<UnfinishedCopy>({
  name: "unfinished-copy",
  holds: "the progress of a copy into this storage",
  key: "always the same",
  keyOf: () => "current",
  expires: "when the copy is finished",
  store: "storage",
  exported: false,
  afterRestore: "kept",
  personal: undefined,
});

const CURRENT = "current";
export const FORMAT_REF: RefTo<StoredFormat> = STORAGE_FORMAT.ref(CURRENT);

/** The record of a format. */
export const formatRecord = (stored: StoredFormat) => STORAGE_FORMAT.record(stored, { key: CURRENT });

/** A store, and its name in messages. */
interface CheckedStore {
  readonly store: Pick<RecordStore, "get">;
  /** The key of the configuration that names it. */
  readonly key: "storage" | "artifacts";
}

export async function readFormat(store: Pick<RecordStore, "get">): Promise<StoredFormat | undefined> {
  const [found] = await store.get([FORMAT_REF]);
  return found?.value as StoredFormat | undefined;
}

/**
 * What this version may do with a store: `use` it; use it in the format `before`, until `storage migrate`; only `migrate` it; or nothing,
 * because a `later` or an `earlier` version wrote it.
 */
export type FormatUse = "use" | "before" | "migrate" | "later" | "earlier";

export function useOf({ format, from }: StoredFormat): FormatUse {
  const { format: current, path } = currentFormat();
  const former = formerFormat()?.format;
  if (format > current) return "later";
  if (format < current) {
    // Its migration was begun by the version before, and ends there.
    if (format !== former || from !== undefined) return "earlier";
    return path === "in one step" ? "migrate" : "before";
  }
  return from !== undefined && path === "in one step" ? "migrate" : "use";
}

/**
 * Whether a backup of a storage in this format can be restored: also one that would have to be migrated, because a restore writes every
 * record in the format of this version.
 */
export function isReadable(stored: StoredFormat): boolean {
  return ["use", "before", "migrate"].includes(useOf(stored));
}

/** For operators: why a store can't be used. */
export function refusalOf(stored: StoredFormat): string {
  const { format: current } = currentFormat();
  const use = useOf(stored);
  if (use === "migrate")
    return stored.from === undefined
      ? `it is in format ${stored.format}, and this version writes format ${current}: stop all servers, and run sign-in-service storage migrate`
      : "its change to a new format has not finished: run sign-in-service storage migrate until it says so";
  const writer = use === "later" ? "a later version" : "an earlier version";
  const former = formerFormat()?.format;
  const readable = former === undefined ? `format ${current} only` : `the formats ${former} and ${current}`;
  const fix =
    use === "later"
      ? "Use that version"
      : "Use the versions in between one after the other, each with its storage migrate (docs/operate/day-to-day/upgrading.md)";
  return `${writer} wrote this storage, in format ${stored.format}; this version reads ${readable}. ${fix}, or start with an empty storage`;
}

interface CheckOptions {
  /** Writes nothing: an empty storage is an error, and empty artifacts stay empty, because a Redis may have lost everything. */
  readonly mustExist?: boolean | undefined;
  /** Accepts a store that has to be migrated first. */
  readonly isMigrating?: boolean | undefined;
}

/** Whether the store has a format. @throws ConfigurationError when this version can't use it. */
async function hasFormat(
  { store, key }: CheckedStore,
  { isMigrating = false }: CheckOptions,
): Promise<boolean> {
  const stored = await readFormat(store);
  if (stored === undefined) return false;
  const use = useOf(stored);
  if (use === "use" || use === "before" || (use === "migrate" && isMigrating)) return true;
  throw new ConfigurationError([`config.${key}: ${refusalOf(stored)}`]);
}

/**
 * Call it before using a store. An empty store gets the current format.
 * @throws ConfigurationError when the store was written by a version whose format this one does not read.
 * @throws StorageMissing when an empty storage must exist.
 */
export async function checkFormat(
  checked: CheckedStore,
  records: Records,
  options: CheckOptions = {},
): Promise<void> {
  if (await hasFormat(checked, options)) return;
  if (options.mustExist) {
    if (checked.key === "artifacts") return;
    throw new StorageMissing("no server has used this storage yet");
  }
  await records.transact(async (tx) => {
    const isFirst = (await tx.get(FORMAT_REF)) === undefined;
    if (isFirst) tx.put(formatRecord({ format: currentFormat().format }));
  });
  // Another process may have been first, with another format.
  await hasFormat(checked, options);
}
