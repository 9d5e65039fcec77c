/** The format of what is kept: code that does not know it must not read or write it. */
import type { RecordStore, Ref } from "../../adapters/record-store.ts";
import type { V01Part } from "../../adapters/v01.ts";
import { ConditionFailed, ConfigurationError } from "../errors.ts";
import { defineKind, type Kind } from "../kinds.ts";
import { Changes, type Records } from "../records.ts";

/** The number of the format that this version reads and writes. Version 0.1 had none, and counts as 1. */
const FORMAT = 2;

interface StorageFormat {
  readonly format: number;
}

export const STORAGE_FORMAT: Kind<StorageFormat> = defineKind<StorageFormat>({
  name: "storage-format",
  holds: "the number of the format in which the store is written",
  key: "`current`",
  store: "each",
  exported: false,
  personal: undefined,
});

/** Where a migration goes on. */
export interface MigrationState {
  readonly part: V01Part;
  /** Behind the last page that was written; `null`: at the beginning of the part. */
  readonly after: string | null;
  /** The last place in the order of the part. */
  readonly last: number;
  /** How many items were carried over of this part. */
  readonly done: number;
}

export const MIGRATION: Kind<MigrationState> = defineKind<MigrationState>({
  name: "migration",
  holds: "how far a migration has come that has not come to its end",
  key: "`current`",
  store: "each",
  exported: false,
  personal: undefined,
});

/** The key of both: there is one of each in a store. */
export const CURRENT = "current";
const FORMAT_REF: Ref = STORAGE_FORMAT.ref(CURRENT);

/** A store, and how a sentence names it. */
export interface CheckedStore {
  readonly store: RecordStore;
  /** The key of the configuration that names it. */
  readonly key: "storage" | "artifacts";
  /** Whether version 0.1 has written there, and nothing has been carried over. Default: it can't have. */
  readonly isV01?: () => Promise<boolean>;
}

function refused({ key }: CheckedStore, text: string): ConfigurationError {
  return new ConfigurationError([`config.${key}: ${text}`]);
}

/** Has a commit write the number of the format, unless another process was first. */
export function addFormat(changes: Changes): void {
  changes.write(STORAGE_FORMAT.record({ format: FORMAT }, { key: CURRENT }), undefined);
}

/**
 * Whether the store has records, in a format that this version knows.
 * @throws ConfigurationError when a later version has written it.
 */
export async function hasFormat(checked: CheckedStore): Promise<boolean> {
  const [found] = await checked.store.get([FORMAT_REF]);
  if (found === undefined) return false;
  const { format } = found.value as unknown as StorageFormat;
  if (format === FORMAT) return true;
  throw refused(checked, "this storage was written by a later version");
}

/**
 * To be called before anything else is done with a store that was opened. An empty one is given the format.
 * @throws ConfigurationError when the store was written by another version.
 */
export async function checkFormat(checked: CheckedStore, records: Records): Promise<void> {
  if (await hasFormat(checked)) return;
  if ((await records.find(MIGRATION.ref(CURRENT))) !== undefined) {
    throw refused(checked, "its migration has not come to its end; run sign-in-service migrate again");
  }
  if (await checked.isV01?.()) {
    throw refused(
      checked,
      "it was written by version 0.1; run sign-in-service migrate, see docs/migrating.md",
    );
  }
  try {
    const changes = new Changes();
    addFormat(changes);
    await records.commit(changes);
  } catch (error) {
    // Another process has just done so.
    if (!(error instanceof ConditionFailed)) throw error;
    if (!(await hasFormat(checked))) throw error;
  }
}
