/** What a store says about itself: its format number, and whether a copy into it is unfinished. */
import type { Position, RecordStore } from "../adapters/record-store.ts";
import { ConfigurationError, StorageMissing } from "../core/errors.ts";
import { defineKind, type Kind } from "./kinds.ts";
import type { Records } from "./records.ts";

/** The number of the format that this version reads and writes. Raise it with every change that an older version can't read. */
export const FORMAT = 10;

interface StorageFormat {
  readonly format: number;
}

export const STORAGE_FORMAT: Kind<StorageFormat> = defineKind<StorageFormat>({
  name: "storage-format",
  holds: "the number of the store's format",
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
const FORMAT_REF = STORAGE_FORMAT.ref(CURRENT);

/** A store, and its name in messages. */
interface CheckedStore {
  readonly store: RecordStore;
  /** The key of the configuration that names it. */
  readonly key: "storage" | "artifacts";
}

/** @param value of a record of {@link STORAGE_FORMAT}. */
export function isCurrentFormat(value: object): boolean {
  return (value as StorageFormat).format === FORMAT;
}

/** Whether the store has a format. @throws ConfigurationError when it is not the format of this version. */
async function hasFormat({ store, key }: CheckedStore): Promise<boolean> {
  const [found] = await store.get([FORMAT_REF]);
  if (found === undefined) return false;
  const { format } = found.value as unknown as StorageFormat;
  if (format === FORMAT) return true;
  const writer = format > FORMAT ? "a later version" : "an earlier version";
  throw new ConfigurationError([
    `config.${key}: ${writer} wrote this storage, in format ${format}; this version reads format ${FORMAT} only. Use that version, or start with an empty storage`,
  ]);
}

/**
 * Call it before using a store. An empty store gets the current format.
 * @param mustExist writes nothing: an empty storage is an error, and empty artifacts stay empty, because a Redis may
 * have lost everything.
 * @throws ConfigurationError when the store was written by another version.
 * @throws StorageMissing when an empty storage must exist.
 */
export async function checkFormat(
  checked: CheckedStore,
  records: Records,
  { mustExist = false }: { readonly mustExist?: boolean | undefined } = {},
): Promise<void> {
  if (await hasFormat(checked)) return;
  if (mustExist) {
    if (checked.key === "artifacts") return;
    throw new StorageMissing("no server has used this storage yet");
  }
  await records.transact(async (tx) => {
    const isFirst = (await tx.get(FORMAT_REF)) === undefined;
    if (isFirst) tx.put(STORAGE_FORMAT.record({ format: FORMAT }, { key: CURRENT }));
  });
  // Another process may have been first, with another format.
  await hasFormat(checked);
}
