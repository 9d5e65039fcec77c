/** The directory: services, groups of services, and portals, each with its receiver of notifications, and APIs. */
import type { z } from "zod";
import type { Configuration } from "../config/configuration.ts";
import { described } from "../config/documented-schema.ts";
import { type Caller, SYSTEM } from "../records/audit/audit-event.ts";
import type { EntryKind, EntryRecord } from "../records/directory/directory.ts";
import { ENTRIES, isOpen } from "../records/directory/directory-kinds.ts";
import { type DirectoryRecords, withoutMark } from "../records/directory/directory-records.ts";
import { removeEntry } from "../records/directory/directory-records.ts";
import { ConfigurationError, UnknownReference } from "../core/errors.ts";
import type { Sealer } from "../core/sealing.ts";
import { type Apis, type ApiSettings, type ApisOptions, createApis } from "./apis.ts";
import { anyString, type CallOptions, callerOf, checked, exactly, ruled } from "./arguments.ts";
import { receiverSettings, sameReceiver, sealReceiver, type ShownReceiver } from "./receivers.ts";
import { serviceRoles } from "./roles.ts";
import { putMarks, readMark, type Seeded, type SeedMark } from "./seed-marks.ts";
import { keyProblem, textProblem } from "./text-rules.ts";

/** A group or portal as every call returns it. */
export interface Entry {
  readonly key: string;
  readonly name: string;
  /** Without its secrets. */
  readonly receiver: ShownReceiver | null;
}

/** A service as every call returns it. */
export interface ServiceEntry extends Entry {
  /** Key of its group. */
  readonly group: string | null;
  readonly roles: readonly string[];
}

/** The calls for one kind of entry. Keys are 1 to 64 of `A-Z a-z 0-9 _ -`. */
export interface Entries<S extends EntrySettings, E extends Entry> {
  /**
   * Creates the entry or replaces all of it: a group or receiver that is left out is removed.
   * @throws UnknownReference when the group of a service is not in the directory.
   */
  put(key: string, settings: S, options?: CallOptions): Promise<E>;
  /** The entry; `undefined` if there is none. */
  find(key: string): Promise<E | undefined>;
  /** All entries, ordered by key. */
  list(): Promise<E[]>;
  /**
   * Removes the entry. `false` if there is none.
   * @throws StillReferenced naming the clients, services, APIs or accounts that refer to it.
   */
  remove(key: string, options?: CallOptions): Promise<boolean>;
}

/**
 * The directory. A wrong argument is an `InvalidArgument` that names the option; a storage fault is `StorageUnavailable`. Every
 * change writes an audit record that names its `actor`.
 */
export interface Directory {
  readonly services: Entries<ServiceSettings, ServiceEntry>;
  readonly groups: Entries<EntrySettings, Entry>;
  readonly portals: Entries<EntrySettings, Entry>;
  readonly apis: Apis;
}

/** The members of {@link Directory}: a host application gets these, and none of the internal calls. */
export const DIRECTORY_CALLS: Readonly<Record<keyof Directory, true>> = {
  services: true,
  groups: true,
  portals: true,
  apis: true,
};

/** Calls that only a seed uses. */
export interface DirectoryInternals {
  /** Puts the entry, unless it was removed since a seed made it. */
  seedEntry(kind: EntryKind, key: string, settings: ServiceSettings, mark: SeedMark): Promise<Seeded>;
  /** The same for an API. */
  seedApi(identifier: string, settings: ApiSettings, mark: SeedMark): Promise<Seeded>;
}

/** Key of a service, group or portal. */
export const entryKey = ruled(keyProblem);

const entryShape = {
  /** Display name. */
  name: described(ruled(textProblem), { form: "a text of 1 to 256 characters" }),
  /** Where its notifications go. Default: none, even if the entry had one before. */
  receiver: receiverSettings.optional(),
};

const entry = exactly(entryShape);

/** The settings of a group or portal. */
export interface EntrySettings extends Readonly<z.input<typeof entry>> {}
export const entrySettings: z.ZodType<EntrySettings, EntrySettings> = entry;

const service = exactly({
  ...entryShape,
  /** The group of the service. Default: none. */
  group: described(ruled(keyProblem).nullish(), { form: "the key of a group" }),
  /** The roles that people can have in the service. A name that is left out is no longer sent for anybody. Default: none. */
  roles: serviceRoles,
});

/** The settings of a service. */
export interface ServiceSettings extends Readonly<z.input<typeof service>> {}
export const serviceSettings: z.ZodType<ServiceSettings, ServiceSettings> = service;

/** The directory of one storage. @param sealer seals the credentials of receivers. */
export function createDirectory({
  storage,
  sealer,
  deployments,
}: ApisOptions & { readonly sealer: Sealer }): Directory & DirectoryInternals {
  const { records, directory, audit } = storage;

  /** Writes only what differs, so that a seed that is applied at every start writes nothing. */
  function put(
    kind: EntryKind,
    { key, name, group = null, roles = [], receiver }: ServiceSettings & { readonly key: string },
    caller: Caller,
    mark?: SeedMark,
  ): Promise<{ readonly record: EntryRecord | undefined; readonly done: Seeded }> {
    return records.transact(async (tx) => {
      const isMarked = mark !== undefined && (await readMark(tx, mark));
      const stored = await tx.get(ENTRIES[kind].ref(key));
      if (isMarked && stored === undefined) return { record: undefined, done: { kind: "removed" } };
      if (mark !== undefined && !isMarked) putMarks(tx, [mark]);
      const isSame =
        stored !== undefined &&
        stored.name === name &&
        stored.group === group &&
        (stored.roles ?? []).join(" ") === roles.join(" ") &&
        sameReceiver(sealer, kind, key, stored.receiver, receiver);
      if (isSame) return { record: withoutMark(stored), done: { kind: "same" } };
      if (group !== null && !isOpen(await tx.get(ENTRIES.group.ref(group)), records.clock))
        throw new UnknownReference(`group ${group}`);
      const sealed = receiver === undefined ? null : sealReceiver(sealer, kind, key, receiver);
      const record = { key, name, group, ...(roles.length > 0 && { roles }), receiver: sealed };
      tx.put(ENTRIES[kind].record(record));
      const action = `${kind}.${stored === undefined ? "created" : "updated"}` as const;
      tx.create(audit.recordOf({ ...caller, action, subject: key }));
      return { record, done: stored === undefined ? { kind: "created" } : { kind: "updated", fields: [] } };
    });
  }

  function entries<S extends ServiceSettings, E extends Entry>(
    kind: EntryKind,
    schema: z.ZodType<S>,
    show: (record: EntryRecord) => E,
  ): Entries<S, E> {
    return {
      async put(key, settings, options) {
        const changed = { key: checked("key", entryKey, key), ...checked(kind, schema, settings) };
        const { record } = await put(kind, changed, callerOf(options));
        return show(record as EntryRecord);
      },
      async find(key) {
        const record = await directory.findEntry(kind, checked("key", anyString, key));
        return record && show(record);
      },
      async list() {
        return (await directory.listEntries(kind)).map((record) => show(record));
      },
      // Takes any key, so that an entry whose key is no longer allowed can be removed.
      async remove(key, options) {
        const subject = checked("key", anyString, key);
        const event = { ...callerOf(options), action: `${kind}.removed`, subject } as const;
        return removeEntry({ records, audit }, kind, subject, event);
      },
    };
  }

  const { seed: seedApi, ...apis } = createApis({ storage, deployments });
  return {
    services: entries("service", serviceSettings, toServiceEntry),
    groups: entries("group", entrySettings, toEntry),
    portals: entries("portal", entrySettings, toEntry),
    apis,
    seedApi,
    seedEntry: async (kind, key, settings, mark) =>
      (await put(kind, { key, ...settings }, SYSTEM, mark)).done,
  };
}

/** The record of a group or portal as the public calls show it. */
export function toEntry({ key, name, receiver }: EntryRecord): Entry {
  return { key, name, receiver: shown(receiver) };
}

/** The record of a service as the public calls show it. */
export function toServiceEntry({ key, name, group, roles = [], receiver }: EntryRecord): ServiceEntry {
  return { key, name, group, roles, receiver: shown(receiver) };
}

function shown(receiver: EntryRecord["receiver"]): ShownReceiver | null {
  return receiver && { url: receiver.url, client_id: receiver.client_id, types: receiver.types };
}

/**
 * @throws ConfigurationError when an API has JWTs, or a client gets logout tokens, and no deployment publishes the keys that
 * verify them.
 */
export async function requireIssuer(
  { deployments }: Pick<Configuration, "deployments">,
  directory: Pick<DirectoryRecords, "listApis" | "listClients">,
): Promise<void> {
  if (deployments.openid !== undefined) return;
  const [apis, clients] = await Promise.all([directory.listApis(), directory.listClients()]);
  const jwts = apis.filter(({ tokens }) => tokens === "jwt").map(({ identifier }) => identifier);
  const told = clients.filter(({ backchannel_logout_uri: uri }) => uri !== null);
  const problems = [
    ...(jwts.length > 0 ? [`the tokens of ${jwts.join(", ")} are JWTs`] : []),
    ...(told.length > 0
      ? [`the clients ${told.map(({ client_id }) => client_id).join(", ")} get logout tokens`]
      : []),
  ];
  if (problems.length > 0)
    throw new ConfigurationError(
      problems.map(
        (what) => `config.deployments.openid: is required: ${what}, verified with its issuer and keys`,
      ),
    );
}
