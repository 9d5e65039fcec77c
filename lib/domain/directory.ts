/** The directory: services, groups of services, and portals, each with its receiver of notifications. */
import type { z } from "zod";
import type { DirectoryStore, EntryKind, EntryRecord } from "../directory/directory.ts";
import type { Caller } from "../audit/audit-event.ts";
import { isObjectName } from "../untrusted-keys.ts";
import type { Sealer } from "../sealing.ts";
import { anyString, checked } from "./arguments.ts";
import { type CallOptions, callerOf } from "./arguments.ts";
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
  put(key: string, settings: S, options?: CallOptions): Promise<E>;
  /** The entry; `undefined` when there is none. */
  find(key: string): Promise<E | undefined>;
  /** All entries, ordered by key. */
  list(): Promise<E[]>;
  /**
   * Removes the entry; `false` when there is none.
   * @throws StillReferenced naming the clients, services or accounts that refer to it.
   */
  remove(key: string, options?: CallOptions): Promise<boolean>;
}

/**
 * Wrong arguments are a `TypeError` that names the option; a fault of the storage is `StorageUnavailable`. Each call that
 * changes something leaves an audit record with the change; `actor` says there who asked for it.
 */
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
    async put(key, settings, options) {
      const entry = { key: checked("key", entryKey, key), ...checked(kind, schema, settings) };
      return show(await put(deps, kind, entry, callerOf(options)));
    },
    async find(key) {
      const record = await directory.findEntry(kind, checked("key", anyString, key));
      return record === undefined || isObjectName(record.key) ? undefined : show(record);
    },
    async list() {
      const records = await directory.listEntries(kind);
      return records.filter((record) => !isObjectName(record.key)).map((record) => show(record));
    },
    // Takes away whatever is stored: an entry whose key is refused by now has no other way out.
    async remove(key, options) {
      const subject = checked("key", anyString, key);
      const audit = { ...callerOf(options), action: `${kind}.removed`, subject } as const;
      return directory.removeEntry(kind, subject, audit);
    },
  };
}

/** Writes only what differs, so that a seed applied at every start changes nothing. */
async function put(
  { directory, sealer }: DirectoryDeps,
  kind: EntryKind,
  { key, name, group = null, receiver }: ServiceSettings & { readonly key: string },
  caller: Caller,
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
  await directory.putEntry(kind, record, (isNew) => ({
    ...caller,
    action: `${kind}.${isNew ? "created" : "updated"}`,
    subject: key,
  }));
  return record;
}

/**
 * The clients and entries that an earlier version stored under a name that every object has, such as
 * `service constructor`. Nothing uses them; they can only be removed.
 */
export async function unusableRecords(directory: DirectoryStore): Promise<string[]> {
  const clients = (await directory.listClients()).map(({ client_id }) => client_id);
  const found = clients.filter((id) => isObjectName(id)).map((id) => `client ${id}`);
  for (const kind of ["service", "group", "portal"] as const) {
    const keys = (await directory.listEntries(kind)).map(({ key }) => key);
    found.push(...keys.filter((key) => isObjectName(key)).map((key) => `${kind} ${key}`));
  }
  return found;
}
