/** Audit records as they are kept, and where they are found. */
import { hash, randomBytes } from "node:crypto";
import type { Found, RecordData, Ref } from "../../adapters/record-store.ts";
import { defaults } from "../../config/defaults.ts";
import { defineKind, type Key, type Kind } from "../kinds.ts";
import { subjectOf } from "./actions.ts";
import type { AuditDetail, AuditEvent, AuditRecord, CollectedEvent, Refusal } from "./audit-event.ts";

/** Microseconds of an hour and of a day: no partition of an index grows for ever. */
export const HOUR: number = 3_600_000_000;
export const DAY: number = 24 * HOUR;

/** What is kept: what has its default is left out. */
export interface KeptAudit extends Omit<AuditEvent, "action"> {
  /** An earlier or a later version may have had other actions. */
  readonly action: string;
  /** Microseconds since the epoch: the place among all records. */
  readonly order: number;
  /** Missing: 1. */
  readonly count?: number;
}

/** The partitions of the indexes. One of `account` is all of an account, whatever the time. */
export const PARTITIONS = {
  hour: (order: number): Key => String(Math.floor(order / HOUR)),
  account: (sub: string): Key => sub,
  client: (id: string, order: number): Key => [id, String(Math.floor(order / DAY))],
  action: (action: string, order: number): Key => [action, String(Math.floor(order / DAY))],
} as const;

/** The accounts that a record is about: its subject, and who did it. */
export function accountsOf({
  action,
  subject,
  actor,
}: Pick<KeptAudit, "action" | "subject" | "actor">): string[] {
  const about = subjectOf(action) === "account" && subject !== undefined ? [subject] : [];
  const by =
    (actor.kind === "account" || actor.kind === "operator") && actor.id !== undefined ? [actor.id] : [];
  return [...new Set([...about, ...by])];
}

/** The clients that a record is about: its subject, the one through which it came, and who did it. */
export function clientsOf({ action, subject, client, actor }: Omit<KeptAudit, "order">): string[] {
  const about = subjectOf(action) === "client" && subject !== undefined ? [subject] : [];
  const through = client === undefined ? [] : [client];
  const by = actor.kind === "client" && actor.id !== undefined ? [actor.id] : [];
  return [...new Set([...about, ...through, ...by])];
}

export const AUDIT: Kind<KeptAudit, keyof typeof PARTITIONS> = defineKind({
  name: "audit",
  holds: "who did what to what, from where, and what came of it; or how often a limit refused",
  key: "the time and random; of refusals the hash of the limit, its bucket and its window",
  index: {
    hour: ({ order }) => [{ at: PARTITIONS.hour(order), order }],
    account: (kept) => accountsOf(kept).map((sub) => ({ at: PARTITIONS.account(sub), order: kept.order })),
    client: (kept) =>
      clientsOf(kept).map((id) => ({ at: PARTITIONS.client(id, kept.order), order: kept.order })),
    action: ({ action, order }) => [{ at: PARTITIONS.action(action, order), order }],
  },
  expires: "`audit.retention` after its time",
  store: "storage",
  exported: true,
  personal: "`sub`, network of the address, family of the browser",
});

/** @param retention seconds. */
function recordOf(key: string, kept: KeptAudit, retention: number): RecordData {
  const expiresAt = Math.floor(kept.order / 1_000) + retention * 1_000;
  return AUDIT.record(kept, { key, expiresAt });
}

const timeKey = (order: number): string => String(order).padStart(16, "0");

/** Begins with the time, so that records of one time lie together; the rest is random. */
function newKey(order: number): string {
  return `${timeKey(order)}-${randomBytes(8).toString("hex")}`;
}

/**
 * The record of something that happened.
 * @param order when: microseconds since the epoch.
 * @param retention seconds for which it is kept.
 */
export function auditRecord(event: AuditEvent, order: number, retention: number): RecordData {
  return recordOf(newKey(order), { ...event, order }, retention);
}

/** Where the refusals of one bucket in one window are counted, by any process. */
export function refusalRef({ limit, bucket, seconds }: Refusal, order: number): Ref {
  const window = Math.floor(order / 1_000_000 / seconds);
  const digest = hash("sha256", JSON.stringify([limit, bucket, seconds, window]), "base64url");
  return AUDIT.ref(`refused-${digest}`);
}

/** The record of refusals. @param before what is counted already. */
export function refusalRecord(
  ref: Ref,
  { event, order, count }: CollectedEvent,
  before: KeptAudit | undefined,
  retention: number,
): RecordData {
  const kept = before ?? { ...event, order };
  return recordOf(ref.key, { ...kept, count: (before?.count ?? 0) + count }, retention);
}

/** The record as it is shown. */
export function toAuditRecord({ key, value }: Pick<Found, "key" | "value">): AuditRecord {
  const kept = value as unknown as KeptAudit;
  const { order, action, actor, subject, address, browser } = kept;
  const client = kept.client ?? (subjectOf(action) === "client" ? subject : undefined);
  return {
    id: key,
    at: Math.floor(order / 1_000_000),
    action,
    actor,
    subject: subject ?? null,
    client: client ?? null,
    address: address ?? null,
    browser: browser ?? null,
    outcome: kept.outcome ?? "success",
    reason: kept.reason ?? null,
    count: kept.count ?? 1,
    detail: kept.detail ?? {},
  };
}

/** What version 0.1 kept of an event. */
export interface FirstAuditRecord {
  /** Seconds since the epoch. */
  readonly at: number;
  readonly action: string;
  readonly subject: string;
  readonly detail?: AuditDetail;
}

/**
 * The record of something that version 0.1 recorded. It named nobody, but for who asked for something of a delivery or
 * a receiver: `by`.
 * @param order its place among all records: microseconds since the epoch.
 */
export function fromFirstVersion(
  { action, subject, detail = {} }: FirstAuditRecord,
  order: number,
  retention: number = defaults.audit.retention,
): RecordData {
  const { by, client_id, ...rest } = detail;
  const kept: KeptAudit = {
    order,
    action,
    actor: typeof by === "string" ? { kind: "operator", id: by } : { kind: "system" },
    subject,
    ...(typeof client_id === "string" ? { client: client_id } : {}),
    ...(Object.keys(rest).length === 0 ? {} : { detail: rest }),
  };
  // The same key whenever it is carried over again.
  return recordOf(`${timeKey(order)}-v01`, kept, retention);
}
