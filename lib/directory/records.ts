/** Accounts, clients and the rest of the directory as records: what is kept of each, and where it is found. */
import { hash, randomUUID } from "node:crypto";
import type {
  AccountRecord,
  AuditRecord,
  ClientRecord,
  EntryKind,
  EntryRecord,
} from "../../adapters/directory.ts";
import type { IndexEntry, RecordData, Ref } from "../../adapters/record-store.ts";
import { json, keyPart } from "../records.ts";

/** What is kept under the key of an account: the account, or the client that has this identifier. */
export type AccountPlace = AccountRecord | { readonly client_id: string };

/** The account in its place, if there is one. */
export function accountIn(place: AccountPlace | undefined): AccountRecord | undefined {
  return place !== undefined && "sub" in place ? place : undefined;
}

/** An entry, and until when it is being removed: meanwhile nothing can refer to it. */
export type KeptEntry = EntryRecord & { readonly closingUntil?: number };

export const accountRef = (sub: string): Ref => ({ kind: "account", key: keyPart(sub) });
export const clientRef = (id: string): Ref => ({ kind: "client", key: keyPart(id) });
export const entryRef = (kind: EntryKind, key: string): Ref => ({ kind, key: keyPart(key) });
export const settingRef = (name: string): Ref => ({ kind: "setting", key: keyPart(name) });
/** A name that people type is found by its hash. */
export const nameRef = (name: string): Ref => ({
  kind: "sign-in-name",
  key: hash("sha256", JSON.stringify(name), "base64url"),
});
export const numberRef = (userId: number): Ref => ({ kind: "user-id", key: String(userId) });

/** Where what refers to an entry is found. */
export const REFERRING: Readonly<
  Record<EntryKind, readonly { readonly kind: string; readonly index: string }[]>
> = {
  service: [
    { kind: "client", index: "service" },
    { kind: "account", index: "service" },
  ],
  group: [{ kind: "service", index: "group" }],
  portal: [{ kind: "account", index: "portal" }],
};

/** Accounts in the order of their numbers. */
export const BY_NUMBER = { kind: "account", index: "number", at: "all" } as const;

export function accountRecord(account: AccountRecord): RecordData {
  const { sub, user_id: order, portal, services } = account;
  const index: IndexEntry[] = [{ name: BY_NUMBER.index, at: BY_NUMBER.at, order }];
  for (const key of Object.keys(services)) index.push({ name: "service", at: keyPart(key), order });
  if (portal !== null) index.push({ name: "portal", at: keyPart(portal), order });
  return { ...accountRef(sub), value: json(account), index };
}

/** Keeps the identifier of a client from ever becoming the `sub` of an account. */
export function identifierRecord(clientId: string): RecordData {
  return { ...accountRef(clientId), value: { client_id: clientId } };
}

export function nameRecord(name: string, sub: string): RecordData {
  return { ...nameRef(name), value: { sub } };
}

export function numberRecord(userId: number, sub: string): RecordData {
  return { ...numberRef(userId), value: { sub } };
}

export function clientRecord(client: ClientRecord): RecordData {
  const { client_id, service, created_at: order } = client;
  const index = service === null ? [] : [{ name: "service", at: keyPart(service), order }];
  return { ...clientRef(client_id), value: json(client), index };
}

export function entryRecord(kind: EntryKind, entry: KeptEntry): RecordData {
  const { key, group } = entry;
  const index = group === null ? [] : [{ name: "group", at: keyPart(group), order: 0 }];
  return { ...entryRef(kind, key), value: json(entry), index };
}

const DAY = 86_400;

/** The key of the index in which the audit has a day. */
export const auditDay = (at: number): string => String(Math.floor(at / DAY));

/** @param position among all audit records: microseconds since the epoch, more or less. */
export function auditRecord(record: AuditRecord, position: number): RecordData {
  const index = [{ name: "day", at: auditDay(position / 1e6), order: position }];
  return { kind: "audit", key: randomUUID(), value: json(record), index };
}
