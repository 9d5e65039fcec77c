/** The settings of a client in its record, and in what the calls return. */
import { isDeepStrictEqual } from "node:util";
import type { ClientKind, ClientRecord } from "../../records/directory/directory.ts";
import { InvalidArgument, NotApplicable } from "../../core/errors.ts";
import type { Client } from "../operations/clients.ts";
import { isPublic } from "./client.ts";
import { originsOf } from "./client-kinds.ts";
import type { CheckedClient, ClientChanges, IdentifiedClient } from "./client-schema.ts";
import {
  type ClientRows,
  type Setting,
  type SettingName,
  type SETTINGS,
  unsetValue,
  withoutAbsent,
} from "./client-settings.ts";

/** The settings that every record has, though nobody has to name them. */
type AlwaysStored = {
  [N in SettingName]: (typeof SETTINGS)[N] extends { readonly unset: unknown; readonly stored: "always" }
    ? N
    : never;
}[SettingName];

type Stored = {
  [N in SettingName]: (typeof SETTINGS)[N] extends { readonly stored: string } ? N : never;
}[SettingName];

const rowsOf = ({ settings }: ClientRows): [SettingName, Setting][] =>
  Object.entries<Setting>(settings) as [SettingName, Setting][];

/** The settings in the record of a client of this kind that names none. */
export function unsetSettings(rows: ClientRows, kind: ClientKind): Pick<ClientRecord, AlwaysStored> {
  const members = rowsOf(rows).flatMap(([name, { stored }]) =>
    stored === "always" ? [[name, unsetValue(rows, kind, name)] as const] : [],
  );
  return withoutAbsent(Object.fromEntries(members)) as Pick<ClientRecord, AlwaysStored>;
}

/** The record with the given settings. Of the two names of the password grant, `password_grant` wins. */
export function withSettings(rows: ClientRows, before: ClientRecord, changes: ClientChanges): ClientRecord {
  const { first_party = before.first_party, second_factor = before.second_factor } = changes;
  const grants = changes.grant_types ?? before.grant_types;
  const others = grants.filter((grant) => grant !== "password");
  const password = changes.password_grant ?? grants.includes("password");
  if (others.length === 0 && !password)
    throw new InvalidArgument({ path: "grant_types", message: "must not be empty" });
  if (password && (!first_party || second_factor === "required")) {
    const which = first_party ? "a client with second_factor required" : "a third-party client";
    throw new InvalidArgument({ path: "password_grant", message: `${which} can't have the password grant` });
  }
  const stored: Readonly<Record<string, unknown>> = { ...before };
  const named: Readonly<Record<string, unknown>> = {
    ...changes,
    grant_types: password ? [...others, "password"] : others,
  };
  const settings = rowsOf(rows).flatMap(([name, row]) => {
    if (row.stored === undefined) return [];
    const given = named[name];
    const kept = row.kept === undefined || given === undefined || given === null ? given : row.kept(given);
    const value = kept === undefined ? stored[name] : kept;
    const isLeftOut =
      row.stored === "if set" && isDeepStrictEqual(value, unsetValue(rows, before.kind, name));
    return [[name, isLeftOut ? undefined : value] as const];
  });
  const { secrets } = changes.jwks === undefined ? before : { secrets: [] };
  return withoutAbsent({
    ...before,
    secrets,
    ...(Object.fromEntries(settings) as Partial<Pick<ClientRecord, Stored>>),
  }) as ClientRecord;
}

/** What a seed sets of a client that exists: what it names, but for credentials, which may have been rotated. */
export function seededChanges(rows: ClientRows, client: IdentifiedClient): ClientChanges {
  const named: Readonly<Record<string, unknown>> = { ...client };
  const members = rowsOf(rows).flatMap(([name, { changes }]) =>
    changes === undefined ? [[name, named[name]] as const] : [],
  );
  return withoutAbsent(Object.fromEntries(members));
}

/** @throws NotApplicable when a seed names another kind, or another value of what nobody changes, than the client has. */
export function refuseFixed(rows: ClientRows, record: ClientRecord, client: CheckedClient): void {
  const { kind } = record;
  if (client.kind !== kind)
    throw new NotApplicable(`the client is registered as ${kind}, and its kind can't be changed`);
  const stored: Readonly<Record<string, unknown>> = { ...record };
  for (const [name, { changes }] of rowsOf(rows)) {
    const registered = stored[name] ?? unsetValue(rows, kind, name);
    if (changes === "fixed" && !isDeepStrictEqual(client[name] ?? registered, registered))
      throw new NotApplicable(
        `the client is registered with ${String(registered)}, and its ${name} can't be changed`,
      );
  }
}

/** The record as the public calls show it; `undefined` for a client that they hide. */
export function toClient(rows: ClientRows, record: ClientRecord): Client | undefined {
  if (!isPublic(record)) return undefined;
  const { client_id, kind, disabled, created_at, updated_at } = record;
  const stored: Readonly<Record<string, unknown>> = { ...record };
  const settings = rowsOf(rows).flatMap(([name, { shown, derived }]) =>
    shown === null
      ? []
      : [[name, derived?.(record) ?? stored[name] ?? unsetValue(rows, kind, name)] as const],
  );
  const effective_origins = originsOf(rows.kinds[kind], record);
  const shown = { ...Object.fromEntries(settings), effective_origins };
  return { client_id, kind, ...shown, disabled, created_at, updated_at } as Client;
}

/** Members that are not settings. */
const OWN_MEMBERS: ReadonlySet<string> = new Set(["created_at", "updated_at", "tokens_epoch"]);

/** The names of the settings that differ. */
export function changedMembers(before: ClientRecord, after: ClientRecord): string[] {
  const members = Object.keys({ ...before, ...after }) as (keyof ClientRecord)[];
  return members
    .filter((member) => !OWN_MEMBERS.has(member))
    .filter((member) => JSON.stringify(before[member]) !== JSON.stringify(after[member]))
    .map((member) => (member === "secrets" ? "client_secret" : member));
}
