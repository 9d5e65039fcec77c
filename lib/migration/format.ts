/** The format of a store: a version that does not know it must not read or write the store. */
import type { RecordStore, Ref } from "../../adapters/record-store.ts";
import type { V01Part } from "../../adapters/v01.ts";
import { ConditionFailed, ConfigurationError } from "../errors.ts";
import { defineKind, type Kind } from "../records/kinds.ts";
import { Changes, type Records } from "../records/records.ts";

/** The number of the format that this version reads and writes. Version 0.1 had none, and counts as 1. */
const FORMAT = 2;

interface StorageFormat {
  readonly format: number;
}

export const STORAGE_FORMAT: Kind<StorageFormat> = defineKind<StorageFormat>({
  name: "storage-format",
  holds: "the number of the store's format",
  key: "`current`",
  store: "each",
  exported: false,
  personal: undefined,
});

/** How far a migration has come. */
export interface MigrationState {
  readonly part: V01Part;
  /** The position after the last page that was written; `null` at the beginning of the part. */
  readonly after: string | null;
  /** The last position that was given to a record of the part. */
  readonly last: number;
  /** How many items of this part are migrated. */
  readonly done: number;
}

export const MIGRATION: Kind<MigrationState> = defineKind<MigrationState>({
  name: "migration",
  holds: "how far an unfinished migration has come",
  key: "`current`",
  store: "each",
  exported: false,
  personal: undefined,
});

/** The key of both: a store has one record of each. */
export const CURRENT = "current";
const FORMAT_REF: Ref = STORAGE_FORMAT.ref(CURRENT);

/** A store, and its name in messages. */
export interface CheckedStore {
  readonly store: RecordStore;
  /** The key of the configuration that names it. */
  readonly key: "storage" | "artifacts";
  /** Whether it holds data of version 0.1 that is not migrated. Default: `false`. */
  readonly isV01?: () => Promise<boolean>;
}

/** @param value of a record of {@link STORAGE_FORMAT}. */
export function isCurrentFormat(value: object): boolean {
  return (value as StorageFormat).format === FORMAT;
}

function refused({ key }: CheckedStore, text: string): ConfigurationError {
  return new ConfigurationError([`config.${key}: ${text}`]);
}

/** Adds the number of the format to a commit, on condition that there is none. */
export function addFormat(changes: Changes): void {
  changes.write(STORAGE_FORMAT.record({ format: FORMAT }, { key: CURRENT }), undefined);
}

/**
 * Whether the store has records, in a format that this version knows.
 * @throws ConfigurationError when the store was written by a later version.
 */
export async function hasFormat(checked: CheckedStore): Promise<boolean> {
  const [found] = await checked.store.get([FORMAT_REF]);
  if (found === undefined) return false;
  const { format } = found.value as unknown as StorageFormat;
  if (format === FORMAT) return true;
  throw refused(checked, "this storage was written by a later version");
}

/**
 * Call it before using a store. An empty store gets the current format.
 * @throws ConfigurationError when the store was written by another version.
 */
export async function checkFormat(checked: CheckedStore, records: Records): Promise<void> {
  if (await hasFormat(checked)) return;
  if ((await records.find(MIGRATION.ref(CURRENT))) !== undefined) {
    throw refused(checked, "its migration is unfinished; run sign-in-service migrate again");
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
    // Another process was first.
    if (!(error instanceof ConditionFailed)) throw error;
    if (!(await hasFormat(checked))) throw error;
  }
}
