/** Audit records as they are stored, and their indexes. */
import { hash, randomUUID } from "node:crypto";
import type { Found, RecordData } from "../../adapters/record-store.ts";
import type { Configuration } from "../../config/configuration.ts";
import { defineKind, type Key, type Kind } from "../kinds.ts";
import type { RefTo } from "../records.ts";
import { isRoutine, subjectOf } from "./actions.ts";
import type { AuditEvent, AuditRecord, CollectedEvent, Refusal } from "./audit-event.ts";

export const DAY_MICROSECONDS: number = 24 * 3_600_000_000;

/** The stored record. Members with their default are left out. */
export interface StoredAudit extends Omit<AuditEvent, "action" | "client"> {
  /** Another version may have other actions. */
  readonly action: string;
  readonly client?: string;
  /** The services of the client at that time. Default: none. */
  readonly services?: readonly string[];
  /** Microseconds since the epoch: the position among all records. */
  readonly order: number;
  /** Default: 1. */
  readonly count?: number;
}

/** The partition of a time. There is one for each day, so that none grows forever. */
export const dayOf = (order: number): string => String(Math.floor(order / DAY_MICROSECONDS));

/** The accounts that a record concerns: its subject and its actor. */
export function accountsOf({
  action,
  subject,
  actor,
}: Pick<StoredAudit, "action" | "actor"> & { readonly subject?: string | null }): string[] {
  const about = subjectOf(action) === "account" && typeof subject === "string" ? [subject] : [];
  const by =
    (actor.kind === "account" || actor.kind === "operator") && actor.id !== undefined ? [actor.id] : [];
  return [...new Set([...about, ...by])];
}

/** The clients that a record concerns: its subject, the client of the request, and its actor. */
export function clientsOf({ action, subject, client, actor }: Omit<StoredAudit, "order">): string[] {
  const about = subjectOf(action) === "client" && subject !== undefined ? [subject] : [];
  const through = client === undefined ? [] : [client];
  const by = actor.kind === "client" && actor.id !== undefined ? [actor.id] : [];
  return [...new Set([...about, ...through, ...by])];
}

const RECEIVER_OF_SERVICE = "service:";

/** The services that a record is about: those of its client, itself, or that of its receiver. */
export function servicesOf({ action, subject = "", services = [] }: StoredAudit): readonly string[] {
  const about = subjectOf(action);
  if (about === "service") return [subject];
  if (about === "receiver" && subject.startsWith(RECEIVER_OF_SERVICE))
    return [subject.slice(RECEIVER_OF_SERVICE.length)];
  return services;
}

/** The partition of a service at a time. */
export const serviceDay = (service: string, order: number): Key => [service, dayOf(order)];

/**
 * Nearly every record has two index entries, and one more if it has a client, because one is written with every sign-in and every
 * change. So clients and actions have no index: a filter for them reads the days.
 */
export const AUDIT: Kind<StoredAudit, "day" | "account" | "service"> = defineKind({
  name: "audit",
  holds: "who did what, from where, and with which outcome; or how often a rate limit refused",
  key: "the time and random characters; for refusals, the hash of the limit, its bucket and its window",
  index: {
    day: ({ order }) => [{ at: dayOf(order), order }],
    account: (record) => accountsOf(record).map((sub) => ({ at: sub, order: record.order })),
    service: (record) =>
      servicesOf(record).map((key) => ({ at: serviceDay(key, record.order), order: record.order })),
  },
  indexFor: {
    day: "`audit.list`, also for a client or an action, which it filters",
    account: "`audit.list` for an account",
    service: "`audit.list` of a token that is limited to a service",
  },
  expires: "`audit.retention` after its time; sign-ins and failures `audit.signIns` after theirs",
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "`sub`, network of the address, family of the browser",
});

/** How long records are kept: the `audit` of the configuration. */
export type AuditRetention = Configuration["audit"];

function recordOf(key: string, record: StoredAudit, { retention, signIns }: AuditRetention): RecordData {
  // There are many of them, and after weeks they say little.
  const isShort = record.outcome === "failure" || isRoutine(record.action);
  const seconds = isShort ? Math.min(signIns, retention) : retention;
  const expiresAt = Math.floor(record.order / 1_000) + seconds * 1_000;
  return AUDIT.record(record, { key, expiresAt });
}

const timeKey = (order: number): string => String(order).padStart(16, "0");

/** Begins with the time, so that neighboring records are stored together; the rest is random. */
function newKey(order: number): string {
  return `${timeKey(order)}-${randomUUID().slice(-12)}`;
}

function stored({ client, ...event }: AuditEvent, order: number): StoredAudit {
  if (client === undefined) return { ...event, order };
  const { client_id, services } = client;
  return { ...event, client: client_id, ...(services.length > 0 && { services }), order };
}

/**
 * The record of an event.
 * @param order microseconds since the epoch.
 */
export function auditRecord(event: AuditEvent, order: number, retention: AuditRetention): RecordData {
  return recordOf(newKey(order), stored(event, order), retention);
}

/**
 * The record in which all processes count the refusals of one bucket in one window. A client that has moved has another one, because
 * the service that it has left must not see how the count grows.
 */
export function refusalRef(
  { limit, bucket, seconds }: Refusal,
  { event: { client }, order }: Pick<CollectedEvent, "event" | "order">,
): RefTo<StoredAudit> {
  const window = Math.floor(order / 1_000_000 / seconds);
  const identity = [limit, bucket, seconds, window, client?.services ?? []];
  const digest = hash("sha256", JSON.stringify(identity), "base64url");
  return AUDIT.ref(`refused-${digest}`);
}

/** The record of refusals. @param before the record so far. */
export function refusalRecord(
  ref: RefTo<StoredAudit>,
  { event, order, count }: CollectedEvent,
  before: StoredAudit | undefined,
  retention: AuditRetention,
): RecordData {
  const record = before ?? stored(event, order);
  return recordOf(ref.key, { ...record, count: (before?.count ?? 0) + count }, retention);
}

/** The record as the public calls return it. */
export function toAuditRecord({ key, value }: Pick<Found, "key" | "value">): AuditRecord {
  const record = value as unknown as StoredAudit;
  const { order, action, actor, subject, request, address, browser } = record;
  const client = record.client ?? (subjectOf(action) === "client" ? subject : undefined);
  return {
    id: key,
    at: Math.floor(order / 1_000_000),
    action,
    actor,
    subject: subject ?? null,
    client: client ?? null,
    request: request ?? null,
    address: address ?? null,
    browser: browser ?? null,
    outcome: record.outcome ?? "success",
    reason: record.reason ?? null,
    count: record.count ?? 1,
    detail: record.detail ?? {},
  };
}
