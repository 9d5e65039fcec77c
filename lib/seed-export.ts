/** The directory and the clients as a seed without secrets, and how a seed differs from them (decisions.md, Export). */
import type { CheckedClient } from "../accounts/clients/client-schema.ts";
import {
  type ClientRows,
  hasSetting,
  type Setting,
  type SettingName,
  unsetValue,
} from "../accounts/clients/client-settings.ts";
import type { Client, Clients } from "../accounts/operations/clients.ts";
import { type Api, DEFAULT_JWT_SECONDS, MAX_OPAQUE_SECONDS } from "../accounts/operations/apis.ts";
import type { Entry, ServiceEntry } from "../accounts/operations/directory.ts";
import type { Page } from "../accounts/operations/operation.ts";
import type { Directory } from "../accounts/directory.ts";
import type { ShownReceiver } from "../accounts/receivers.ts";
import { pagesOf } from "../core/pages.ts";
import type { EntryKind } from "../records/directory/directory.ts";
import { checkSeed, type CheckedSeed, type Seed } from "./seed.ts";

type Members = Readonly<Record<string, unknown>>;

/** What is exported and compared. */
interface ExportedServices {
  readonly clients: Pick<Clients, "list">;
  readonly directory: Directory;
  readonly clientRows: ClientRows;
}

export interface ExportedSeed {
  readonly seed: Seed;
  /** The clients that are left out: a seed would register them enabled. */
  readonly disabled: readonly string[];
  /** The clients whose logos are left out: a file names the path of one. */
  readonly withLogo: readonly string[];
}

/** A difference between a seed and a service. */
export interface SeedDifference {
  /** `missing` in the service, `added` to the service since, or `changed`. */
  readonly difference: "missing" | "added" | "changed";
  readonly kind: EntryKind | "api" | "client";
  /** The key, the identifier or the `client_id`. */
  readonly name: string;
  /** The names of the members that differ. */
  readonly members: readonly string[];
}

/** Settings of an API that a seed may leave out. */
const UNSET_API = { introspection: [], assign: false, second_factor: "optional", unregistered: [] } as const;

const ENTRY_KINDS: readonly EntryKind[] = ["portal", "group", "service"];

const PAGE = 200;

async function all<T>(read: (after: string | undefined) => Promise<Page<T>>): Promise<T[]> {
  const found: T[] = [];
  for await (const { items } of pagesOf(read)) found.push(...items);
  return found;
}

/** An entry of any kind. */
type AnyEntry = Entry & Partial<Pick<ServiceEntry, "group" | "roles">>;

function entriesOf({ directory }: ExportedServices, kind: EntryKind): Promise<AnyEntry[]> {
  return all<AnyEntry>((after) => directory[`${kind}s`].list({ after, limit: PAGE }));
}

function apisOf({ directory }: ExportedServices): Promise<Api[]> {
  return all((after) => directory.apis.list({ after, limit: PAGE }));
}

function clientsOf({ clients }: ExportedServices): Promise<Client[]> {
  return all((after) => clients.list({ after, limit: PAGE }));
}

/** The value with the members of objects in the order of their names, so that equal values are equal texts. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, sorted(member)]));
}

/** Exports the directory and the clients. In place of a secret is `null`: what that means is in `docs/reference/seed.md`. */
export async function exportSeed(services: ExportedServices): Promise<ExportedSeed> {
  const { clientRows } = services;
  const clients = await clientsOf(services);
  const disabled = new Set(clients.filter((each) => each.disabled).map(({ client_id }) => client_id));
  const enabled = clients.filter((each) => !each.disabled);

  const entries = async (kind: EntryKind): Promise<Members> =>
    Object.fromEntries(
      (await entriesOf(services, kind)).map(
        ({ key, receiver, ...members }) =>
          [
            key,
            { ...members, ...(receiver !== null && { receiver: { ...receiver, client_secret: null } }) },
          ] as const,
      ),
    );
  const apis = (await apisOf(services)).map(
    ({ identifier, introspection, ...api }) =>
      [
        identifier,
        { ...api, introspection: introspection.filter((client_id) => !disabled.has(client_id)) },
      ] as const,
  );
  const seed = {
    portals: await entries("portal"),
    groups: await entries("group"),
    services: await entries("service"),
    apis: Object.fromEntries(apis),
    clients: enabled
      .toSorted((one, other) => (one.client_id < other.client_id ? -1 : 1))
      .map((client) => exportedClient(clientRows, client)),
  };
  return {
    seed: sorted(seed) as Seed,
    disabled: [...disabled].toSorted(),
    withLogo: enabled.filter(({ logo }) => logo !== null).map(({ client_id }) => client_id),
  };
}

/** A client with all settings of its kind, also unset ones, so that a comparison finds what is set later. */
function exportedClient(rows: ClientRows, client: Client): Members {
  const { client_id, kind } = client;
  const shown: Members = { ...client };
  const settings = Object.entries<Setting>(rows.settings).flatMap(([name, row]) => {
    if (row.shown === null || row.derived !== undefined || !hasSetting(rows, kind, name)) return [];
    const value = shown[name];
    const isUnset = value === unsetValue(rows, kind, name as SettingName);
    const isLeftOut = row.changes === undefined ? name === "logo" && !isUnset : isUnset;
    return isLeftOut ? [] : [[name, value] as const];
  });
  const members: Members = Object.fromEntries(settings);
  const hasSecret = rows.kinds[kind].confidential && members["jwks"] === undefined;
  return { client_id, kind, ...members, ...(hasSecret && { client_secret: null }) };
}

/** Something that a seed names or a service has, with the members that are compared. */
interface Part extends Pick<SeedDifference, "kind" | "name"> {
  readonly members: Members;
}

/** Settings of an entry, stored or in a seed. */
interface EntryMembers {
  readonly name: string;
  readonly group?: string | null | undefined;
  readonly roles?: readonly string[] | undefined;
  readonly receiver?: ShownReceiver | null | undefined;
}

/** Of a receiver without its secrets. */
function entryMembers({ name, group = null, roles = [], receiver = null }: EntryMembers): Members {
  return {
    name,
    group,
    roles,
    receiver: receiver && { url: receiver.url, client_id: receiver.client_id, types: receiver.types },
  };
}

/** What a seed names of a client: only that is set. */
function clientMembers(rows: ClientRows, client: Omit<CheckedClient, "client_secret" | "name">): Members {
  const { kind, grant_types: grants, password_grant: password = grants?.includes("password") } = client;
  const others = grants?.filter((grant) => grant !== "password");
  const given: Members = {
    ...client,
    // Of the two names of the password grant, `password_grant` wins.
    grant_types: others && [...others, ...(password === true ? ["password"] : [])],
  };
  const settings = Object.entries<Setting>(rows.settings).flatMap(([name, row]) => {
    const value = given[name];
    if (value === undefined || row.shown === null || !hasSetting(rows, kind, name)) return [];
    return [[name, value === null || row.kept === undefined ? value : row.kept(value)] as const];
  });
  return { kind, ...Object.fromEntries(settings) };
}

function partsOfSeed(rows: ClientRows, seed: CheckedSeed): Part[] {
  const { apis = {}, clients = [] } = seed;
  return [
    ...ENTRY_KINDS.flatMap((kind) =>
      Object.entries(seed[`${kind}s`] ?? {}).map(([name, entry]) => ({
        kind,
        name,
        members: entryMembers(entry),
      })),
    ),
    ...Object.entries(apis).map(([name, api]): Part => {
      const lifetime = api.tokens === "jwt" ? DEFAULT_JWT_SECONDS : MAX_OPAQUE_SECONDS;
      return {
        kind: "api",
        name,
        members: { lifetime, ...UNSET_API, ...api },
      };
    }),
    ...clients.map((client): Part => ({
      kind: "client",
      name: client.client_id,
      members: clientMembers(rows, client),
    })),
  ];
}

async function partsOfService(services: ExportedServices, clients: readonly Client[]): Promise<Part[]> {
  const parts: Part[] = [];
  for (const kind of ENTRY_KINDS)
    for (const entry of await entriesOf(services, kind))
      parts.push({ kind, name: entry.key, members: entryMembers(entry) });
  for (const { identifier, ...api } of await apisOf(services))
    parts.push({ kind: "api", name: identifier, members: api });
  for (const client of clients)
    parts.push({ kind: "client", name: client.client_id, members: { ...client } });
  return parts;
}

const idOf = ({ kind, name }: Part): string => `${kind} ${name}`;

/**
 * Compares a seed with the directory and the clients of a service. Neither secrets nor accounts are compared, and disabled clients only
 * if the seed names them.
 * @throws ConfigurationError with all problems of the seed.
 */
export async function compareSeed(services: ExportedServices, seed: unknown): Promise<SeedDifference[]> {
  const { clientRows } = services;
  const checked = checkSeed(seed, clientRows);
  const inSeed = new Set((checked.clients ?? []).map(({ client_id }) => client_id));
  const clients = await clientsOf(services);
  const isIgnored = ({ disabled, client_id }: Client): boolean => disabled && !inSeed.has(client_id);
  const ignored = new Set(clients.filter(isIgnored).map(({ client_id }) => client_id));
  const compared = clients.filter((each) => !isIgnored(each));

  const textOf = (member: string, value: unknown): string =>
    JSON.stringify(
      member === "introspection" && Array.isArray(value)
        ? value.filter((client_id) => !ignored.has(String(client_id)))
        : sorted(value),
    );
  const wanted = partsOfSeed(clientRows, checked);
  const found = await partsOfService(services, compared);
  const differences: SeedDifference[] = [];
  const running = new Map(found.map((part) => [idOf(part), part]));
  for (const part of wanted) {
    const { kind, name, members } = part;
    const there = running.get(idOf(part))?.members;
    if (there === undefined) {
      differences.push({ difference: "missing", kind, name, members: [] });
      continue;
    }
    const changed = Object.keys(members).filter(
      (member) => textOf(member, members[member]) !== textOf(member, there[member]),
    );
    if (changed.length > 0) differences.push({ difference: "changed", kind, name, members: changed });
  }
  const named = new Set(wanted.map(idOf));
  for (const part of found)
    if (!named.has(idOf(part)))
      differences.push({ difference: "added", kind: part.kind, name: part.name, members: [] });
  return differences;
}
