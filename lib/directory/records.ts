/** Accounts, clients and the rest of the directory as records: what is kept of each, and where it is found. */
import type { AccountRecord, ClientRecord, EntryKind, EntryRecord } from "./directory.ts";
import type { Query, RecordData, Ref } from "../../adapters/record-store.ts";
import { defineKind, type Kind, type Place } from "../kinds.ts";

/** An entry, and until when it is being removed: meanwhile nothing can refer to it. */
export type KeptEntry = EntryRecord & { readonly closingUntil?: number };

function entryKind(
  name: EntryKind,
  holds: string,
  group?: Kind<KeptEntry, "group">,
): Kind<KeptEntry, "group"> {
  return defineKind<KeptEntry, "group">({
    name,
    holds,
    key: "its key",
    keyOf: ({ key }) => key,
    index: { group: (entry) => (entry.group === null ? [] : [{ at: entry.group }]) },
    references: (entry) => (group === undefined || entry.group === null ? [] : [group.ref(entry.group)]),
    store: "storage",
    exported: true,
    personal: undefined,
  });
}

const GROUP = entryKind("group", "a group of services with one receiver of notifications");

/** Services, groups and portals. */
export const ENTRIES: Readonly<Record<EntryKind, Kind<KeptEntry, "group">>> = {
  group: GROUP,
  service: entryKind("service", "a service to which people are assigned", GROUP),
  portal: entryKind("portal", "a portal to which accounts belong"),
};

/** What is kept under the key of an account: the account, or the client that has this identifier. */
export type AccountPlace = AccountRecord | { readonly client_id: string };

/** The account in its place, if there is one. */
export function accountIn(place: AccountPlace | undefined): AccountRecord | undefined {
  return place !== undefined && "sub" in place ? place : undefined;
}

function placesOf(place: AccountPlace, keysOf: (account: AccountRecord) => readonly string[]): Place[] {
  const account = accountIn(place);
  if (account === undefined) return [];
  return keysOf(account).map((at) => ({ at, order: account.user_id }));
}

const servicesOf = ({ services }: AccountRecord): string[] => Object.keys(services);
const portalOf = ({ portal }: AccountRecord): string[] => (portal === null ? [] : [portal]);

/** The one partition of `number`: all accounts in the order of their numbers. */
const ALL = "all";

export const ACCOUNT: Kind<AccountPlace, "number" | "service" | "portal"> = defineKind({
  name: "account",
  holds:
    "an account, or the mark of a client that keeps its identifier from becoming the `sub` of an account",
  key: "the `sub`, or the `client_id`",
  keyOf: (place) => ("sub" in place ? place.sub : place.client_id),
  index: {
    number: (place) => placesOf(place, () => [ALL]),
    service: (place) => placesOf(place, servicesOf),
    portal: (place) => placesOf(place, portalOf),
  },
  references(place) {
    const account = accountIn(place);
    if (account === undefined) return [];
    return [
      ...servicesOf(account).map((key) => ENTRIES.service.ref(key)),
      ...portalOf(account).map((key) => ENTRIES.portal.ref(key)),
    ];
  },
  store: "storage",
  exported: true,
  personal: "e-mail address, user name, names, date of birth, gender, password hash, assignments, consents",
});

export const CLIENT: Kind<ClientRecord, "service"> = defineKind({
  name: "client",
  holds: "a registered client",
  key: "the `client_id`",
  keyOf: ({ client_id }) => client_id,
  index: {
    service: ({ service, created_at }) => (service === null ? [] : [{ at: service, order: created_at }]),
  },
  references: ({ service }) => (service === null ? [] : [ENTRIES.service.ref(service)]),
  store: "storage",
  exported: true,
  personal: undefined,
});

/** Says whose a name or a number is. */
export interface Owned {
  readonly sub: string;
}

export const SIGN_IN_NAME: Kind<Owned> = defineKind<Owned>({
  name: "sign-in-name",
  holds: "whose a sign-in name is",
  key: "the SHA-256 of the name in lower case",
  hashed: true,
  store: "storage",
  exported: true,
  personal: "the hash of an e-mail address or user name, and the `sub`",
});

export const USER_ID: Kind<Owned> = defineKind<Owned>({
  name: "user-id",
  holds: "whose a `user_id` is",
  key: "the `user_id`",
  counter: "user-id",
  store: "storage",
  exported: true,
  personal: "the `sub`",
});

/** A value that the first of several processes decides. */
export interface Setting {
  readonly value: string;
}

export const SETTING: Kind<Setting> = defineKind<Setting>({
  name: "setting",
  holds: "a key of the service, sealed with `keys.secrets`",
  key: "its name",
  store: "storage",
  exported: true,
  personal: undefined,
});

/** Kinds that every change of an account may rely on, and few change. */
export const SHARED_KINDS: readonly EntryKind[] = ["service", "group", "portal"];

/** Where what refers to an entry is found. */
export const REFERRING: Readonly<
  Record<EntryKind, (key: string) => readonly Pick<Query, "kind" | "index" | "at">[]>
> = {
  service: (key) => [CLIENT.where("service", key), ACCOUNT.where("service", key)],
  group: (key) => [ENTRIES.service.where("group", key)],
  portal: (key) => [ACCOUNT.where("portal", key)],
};

/** Accounts in the order of their numbers. */
export const BY_NUMBER: Pick<Query, "kind" | "index" | "at"> = ACCOUNT.where("number", ALL);

export const accountRef = (sub: string): Ref => ACCOUNT.ref(sub);
export const clientRef = (id: string): Ref => CLIENT.ref(id);
export const entryRef = (kind: EntryKind, key: string): Ref => ENTRIES[kind].ref(key);
export const settingRef = (name: string): Ref => SETTING.ref(name);
export const nameRef = (name: string): Ref => SIGN_IN_NAME.ref(name);
export const numberRef = (userId: number): Ref => USER_ID.ref(String(userId));

export const accountRecord = (account: AccountRecord): RecordData => ACCOUNT.record(account);
/** Keeps the identifier of a client from ever becoming the `sub` of an account. */
export const identifierRecord = (clientId: string): RecordData => ACCOUNT.record({ client_id: clientId });
export const nameRecord = (name: string, sub: string): RecordData =>
  SIGN_IN_NAME.record({ sub }, { key: name });
export const numberRecord = (userId: number, sub: string): RecordData =>
  USER_ID.record({ sub }, { key: String(userId) });
export const clientRecord = (client: ClientRecord): RecordData => CLIENT.record(client);
export const entryRecord = (kind: EntryKind, entry: KeptEntry): RecordData => ENTRIES[kind].record(entry);
