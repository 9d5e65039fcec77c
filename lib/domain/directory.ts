/** The directory: services, groups of services, and portals, each with its receiver of notifications. */
import type { z } from "zod";
import type { DirectoryStore, EntryKind, EntryRecord } from "../../adapters/directory.ts";
import type { Sealer } from "../sealing.ts";
import { anyString } from "./account-schema.ts";
import { checked } from "./arguments.ts";
import {
  type Entry,
  type EntrySettings,
  type ServiceEntry,
  type ServiceSettings,
  toEntry,
  toServiceEntry,
} from "./directory-entry.ts";
import { entryKey, entrySettings, serviceSettings } from "./directory-schema.ts";
import { sameReceiver, sealReceiver } from "./receivers.ts";

/** What the directory is built from. */
export interface DirectoryDeps {
  readonly directory: DirectoryStore;
  /** Seals the credentials of receivers. */
  readonly sealer: Sealer;
}

/** The calls for one kind of entries. Keys are 1 to 64 of `A-Z a-z 0-9 _ -`. */
export interface Entries<S extends EntrySettings, E extends Entry> {
  /**
   * Creates the entry or replaces all of it: what is left out (group, receiver) it has no more.
   * @throws UnknownReference when the group of a service is not in the directory.
   */
  put(key: string, settings: S): Promise<E>;
  /** The entry; `undefined` when there is none. */
  find(key: string): Promise<E | undefined>;
  /** All entries, ordered by key. */
  list(): Promise<E[]>;
  /**
   * Removes the entry; `false` when there is none.
   * @throws StillReferenced naming the clients, services or accounts that refer to it.
   */
  remove(key: string): Promise<boolean>;
}

/** Wrong arguments are a `TypeError` that names the option; a fault of the storage is `StorageUnavailable`. */
export interface Directory {
  readonly services: Entries<ServiceSettings, ServiceEntry>;
  readonly groups: Entries<EntrySettings, Entry>;
  readonly portals: Entries<EntrySettings, Entry>;
}

/** The calls over one storage. */
export function createDirectory(deps: DirectoryDeps): Directory {
  return {
    services: entries(deps, "service", serviceSettings, toServiceEntry),
    groups: entries(deps, "group", entrySettings, toEntry),
    portals: entries(deps, "portal", entrySettings, toEntry),
  };
}

function entries<S extends ServiceSettings, E extends Entry>(
  deps: DirectoryDeps,
  kind: EntryKind,
  schema: z.ZodType<S>,
  show: (record: EntryRecord) => E,
): Entries<S, E> {
  const { directory } = deps;
  return {
    async put(key, settings) {
      return show(await put(deps, kind, checked("key", entryKey, key), checked(kind, schema, settings)));
    },
    async find(key) {
      const record = await directory.findEntry(kind, checked("key", anyString, key));
      return record && show(record);
    },
    async list() {
      return (await directory.listEntries(kind)).map((record) => show(record));
    },
    async remove(key) {
      return directory.removeEntry(kind, checked("key", anyString, key));
    },
  };
}

/** Writes only what differs, so that a seed applied at every start changes nothing. */
async function put(
  { directory, sealer }: DirectoryDeps,
  kind: EntryKind,
  key: string,
  { name, group = null, receiver }: ServiceSettings,
): Promise<EntryRecord> {
  const kept = await directory.findEntry(kind, key);
  const same =
    kept !== undefined &&
    kept.name === name &&
    kept.group === group &&
    sameReceiver(sealer, kind, key, kept.receiver, receiver);
  if (same) return kept;
  const sealed = receiver === undefined ? null : sealReceiver(sealer, kind, key, receiver);
  const record = { key, name, group, receiver: sealed };
  await directory.putEntry(kind, record);
  return record;
}
