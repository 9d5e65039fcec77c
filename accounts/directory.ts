/** The directory: services, groups of services, and portals, each with its receiver of notifications, and APIs. */
import type { Configuration } from "../config/configuration.ts";
import { type Caller, SYSTEM } from "../records/audit/audit-event.ts";
import type { EntryKind, EntryRecord } from "../records/directory/directory.ts";
import { ENTRIES, isOpen } from "../records/directory/directory-kinds.ts";
import { type DirectoryRecords, withoutMark } from "../records/directory/directory-records.ts";
import { removeEntry } from "../records/directory/directory-records.ts";
import { AlreadyExists, ConfigurationError, NotFound, UnknownReference } from "../core/errors.ts";
import { createApis, type DirectoryParts } from "./apis.ts";
import { checked } from "./arguments.ts";
import {
  type Entry,
  entryKey,
  type Groups,
  groups,
  type Portals,
  portals,
  type SeededService,
  type ServiceChanges,
  type ServiceEntry,
  type Services,
  services,
  type ServiceSettings,
} from "./operations/directory.ts";
import type { Apis, ApiSettings } from "./operations/apis.ts";
import { facade, type Page, pageOf, type Window } from "./operations/operation.ts";
import {
  sameReceiver,
  sealReceiver,
  type SeededReceiver,
  type ShownReceiver,
  withSecrets,
  withStoredSecrets,
} from "./receivers.ts";
import { putMarks, readMark, type Seeded, type SeedMark } from "./seed-marks.ts";

/**
 * The directory. A wrong argument is an `InvalidArgument` that names the option; a storage fault is `StorageUnavailable`. Every
 * change writes an audit record that names its `actor`.
 */
export interface Directory {
  readonly services: Services;
  readonly groups: Groups;
  readonly portals: Portals;
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
  /**
   * Puts the entry, unless it was removed since a seed made it.
   * @returns also whether its receiver has no credentials.
   */
  seedEntry(
    kind: EntryKind,
    key: string,
    settings: SeededService,
    mark: SeedMark,
  ): Promise<Seeded & { readonly lacksCredentials: boolean }>;
  /** The same for an API. */
  seedApi(identifier: string, settings: ApiSettings, mark: SeedMark): Promise<Seeded>;
}

/** The settings of an entry; a receiver that is `undefined` stays as it is stored. */
type WholeSettings = Omit<ServiceSettings, "receiver"> & {
  readonly receiver: SeededReceiver | null | undefined;
};

/** The new settings of an entry, given how it is stored. */
type SettingsOver = (stored: EntryRecord | undefined) => WholeSettings;

/** A call about one entry. */
interface EntryCall {
  readonly target: readonly [key: string];
  readonly caller: Caller;
}

/** The directory of one storage. */
export function createDirectory(parts: DirectoryParts): Directory & DirectoryInternals {
  const { storage, sealer } = parts;
  const { records, directory, audit } = storage;

  /**
   * Writes only what differs, so that a seed that is applied at every start writes nothing.
   */
  function put(
    kind: EntryKind,
    key: string,
    settingsOver: SettingsOver,
    caller: Caller,
    mark?: SeedMark,
  ): Promise<{ readonly record: EntryRecord | undefined; readonly done: Seeded }> {
    return records.transact(async (tx) => {
      const isMarked = mark !== undefined && (await readMark(tx, mark));
      const stored = await tx.get(ENTRIES[kind].ref(key));
      if (isMarked && stored === undefined) return { record: undefined, done: { kind: "removed" } };
      if (mark !== undefined && !isMarked) putMarks(tx, [mark]);
      const { name, group = null, roles = [], receiver } = settingsOver(stored);
      const isSame =
        stored !== undefined &&
        stored.name === name &&
        stored.group === group &&
        (stored.roles ?? []).join(" ") === roles.join(" ") &&
        (receiver === undefined || sameReceiver(sealer, kind, key, stored.receiver, receiver));
      if (isSame) return { record: withoutMark(stored), done: { kind: "same" } };
      if (group !== null && !isOpen(await tx.get(ENTRIES.group.ref(group)), records.clock))
        throw new UnknownReference(`group ${group}`);
      const sealed =
        receiver === undefined
          ? (stored?.receiver ?? null)
          : receiver && sealReceiver(sealer, kind, key, receiver);
      const record = { key, name, group, ...(roles.length > 0 && { roles }), receiver: sealed };
      tx.put(ENTRIES[kind].record(record));
      const action = `${kind}.${stored === undefined ? "created" : "updated"}` as const;
      tx.create(audit.recordOf({ ...caller, action, subject: key }));
      return { record, done: stored === undefined ? { kind: "created" } : { kind: "updated", fields: [] } };
    });
  }

  /** The functions of one kind of entry. */
  function entries<E>(kind: EntryKind, show: (record: EntryRecord) => E) {
    /** Stores the entry as {@link put} does. @returns what the calls show of it. */
    async function stored(...settings: [key: string, over: SettingsOver, caller: Caller]): Promise<E> {
      const { record } = await put(kind, ...settings);
      return show(record as EntryRecord);
    }

    return {
      async create({ target, input, caller }: EntryCall & { readonly input: ServiceSettings }): Promise<E> {
        const key = checked("key", entryKey, target[0]);
        const over: SettingsOver = (before) => {
          if (before !== undefined) throw new AlreadyExists(`${kind} ${key}`);
          return whole(input);
        };
        return stored(key, over, caller);
      },
      async update({
        target: [key],
        input: { receiver, ...changes },
        caller,
      }: EntryCall & { readonly input: ServiceChanges }): Promise<E> {
        const over: SettingsOver = (before) => {
          if (before === undefined) throw new NotFound(`the ${kind}`);
          const { name = before.name, group = before.group, roles = before.roles } = changes;
          const changed = receiver && withSecrets(sealer, kind, key, before.receiver, receiver);
          return { name, group, roles, receiver: changed };
        };
        return stored(key, over, caller);
      },
      async put({ target, input, caller }: EntryCall & { readonly input: ServiceSettings }): Promise<E> {
        return stored(checked("key", entryKey, target[0]), () => whole(input), caller);
      },
      async find({ target: [key] }: EntryCall): Promise<E | undefined> {
        const record = await directory.findEntry(kind, key);
        return record && show(record);
      },
      async list({ input }: { readonly input: Window }): Promise<Page<E>> {
        const { items, next } = pageOf(await directory.listEntries(kind), ({ key }) => key, input);
        return { items: items.map(show), next };
      },
      // Takes any key, so that an entry whose key is no longer allowed can be removed.
      async remove({ target: [subject], caller }: EntryCall): Promise<boolean> {
        const event = { ...caller, action: `${kind}.removed`, subject } as const;
        return removeEntry({ records, audit }, kind, subject, event);
      },
    };
  }

  const { seed: seedApi, calls: apis } = createApis(parts);
  return {
    services: facade(services, entries("service", toServiceEntry)),
    groups: facade(groups, entries("group", toEntry)),
    portals: facade(portals, entries("portal", toEntry)),
    apis,
    seedApi,
    async seedEntry(kind, key, settings, mark) {
      const over: SettingsOver = (before) => {
        const { receiver = null } = settings;
        const stored = before?.receiver ?? null;
        return { ...settings, receiver: receiver && withStoredSecrets(sealer, kind, key, stored, receiver) };
      };
      const { record, done } = await put(kind, key, over, SYSTEM, mark);
      return { ...done, lacksCredentials: record?.receiver?.sealed === null };
    },
  };
}

/** All settings: a receiver that is left out is none. */
function whole(settings: ServiceSettings): WholeSettings {
  return { ...settings, receiver: settings.receiver ?? null };
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
