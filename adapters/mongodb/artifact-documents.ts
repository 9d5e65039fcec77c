/**
 * Artifacts as documents. The payload is text to MongoDB, but for the members that are objects: these are lists of
 * their entries, so that the server itself can add what another request has added (`merge`).
 */
import type { ObjectId } from "mongodb";
import type { Artifact, Payload } from "../artifacts.ts";
import { toKey, toOptionalKey } from "./keys.ts";

/** An entry of an object: its name and its value as JSON, which hold any string. */
export interface StoredEntryOfMember {
  readonly n: string;
  readonly v: string;
}

/** A member of the payload that is an object. */
export interface StoredMember {
  readonly n: string;
  readonly e: readonly StoredEntryOfMember[];
}

/** Milliseconds from the end of an artifact until the server deletes it: more than clocks may differ. */
export const MARGIN = 300_000;

/** The last moment that BSON's dates and JavaScript's both have. */
const LAST_DATE = 8.64e15;

export interface StoredArtifact {
  readonly _id: string;
  readonly model: string;
  /** The artifact without its expiry, marks, and those members of the payload that are kept apart, as JSON. */
  readonly json: string;
  readonly members: readonly StoredMember[];
  /** Zero for one that was removed. */
  readonly expires_at: number;
  /** When the server deletes it. */
  readonly forget_at: Date;
  readonly consumed_at?: number;
  /** By the clock of the server: when the request was answered that has consumed it. */
  readonly answered_at?: number;
  /** As JSON. */
  readonly replay?: string;
  readonly replay_until?: number;
  /** The `_id` of the family's grant. */
  readonly grant?: string;
  readonly uid?: string;
  readonly account?: string;
  readonly client?: string;
  /** From its first put on. */
  readonly order?: ObjectId;
  /** The batch that wrote it last. */
  readonly commit: string;
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

export function artifactId(model: string, key: string): string {
  return toKey(model, key);
}

/** The `_id` of a grant, by which its family is found too. */
export function grantId(grantKey: string): string {
  return artifactId("Grant", grantKey);
}

export function uidKey(model: string, uid: string): string {
  return toKey(model, uid);
}

export function forgetAt(expiresAt: number): Date {
  return new Date(Math.min(Math.max(expiresAt + MARGIN, 0), LAST_DATE));
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The entries of an object as they are kept. What JSON has no form for is left out. */
export function toEntries(value: unknown): StoredEntryOfMember[] {
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([name, entry]) => {
    const v = JSON.stringify(entry) as string | undefined;
    return v === undefined ? [] : [{ n: JSON.stringify(name), v }];
  });
}

function fromPairs<T>(pairs: readonly (readonly [string, T])[]): Record<string, T> {
  // Unlike an assignment this also makes an own member of the name `__proto__`.
  return Object.fromEntries(pairs);
}

/** What of the document follows from the artifact alone, but for the marks. */
export function toDocument(
  artifact: Artifact,
  commit: string,
): Omit<StoredArtifact, "order" | "consumed_at" | "answered_at" | "replay" | "replay_until"> {
  const { model, key, payload, expiresAt, grantKey, uid, accountId, clientId } = artifact;
  // As JSON would write it: what has a `toJSON` is not an object of entries.
  const own = Object.entries(JSON.parse(JSON.stringify(payload)) as Payload);
  const text = fromPairs(own.filter(([, value]) => !isObject(value)));
  const keys = {
    grant: grantKey === undefined ? undefined : grantId(grantKey),
    uid: uid === undefined ? undefined : uidKey(model, uid),
    account: toOptionalKey(accountId),
    client: toOptionalKey(clientId),
  };
  return {
    _id: artifactId(model, key),
    model: toKey(model),
    json: JSON.stringify({ model, key, payload: text, grantKey, uid, accountId, clientId }),
    members: own
      .filter(([, value]) => isObject(value))
      .map(([name, value]) => ({ n: JSON.stringify(name), e: toEntries(value) })),
    expires_at: expiresAt,
    forget_at: forgetAt(expiresAt),
    ...(Object.fromEntries(Object.entries(keys).filter(([, value]) => value !== undefined)) as object),
    commit,
  };
}

/** The artifact of a document, at this moment. */
export function toArtifact(stored: StoredArtifact, now: number): Artifact {
  const { json, members, expires_at, consumed_at, replay, replay_until } = stored;
  const { payload, ...rest } = JSON.parse(json) as Omit<Artifact, "expiresAt">;
  const objects = members.map(({ n, e }) => {
    const entries = e.map((entry) => [String(JSON.parse(entry.n)), JSON.parse(entry.v) as unknown] as const);
    return [String(JSON.parse(n)), fromPairs(entries)] as const;
  });
  const artifact: Mutable<Artifact> = {
    ...rest,
    payload: fromPairs([...Object.entries(payload), ...objects]),
    expiresAt: expires_at,
  };
  if (consumed_at !== undefined) artifact.consumedAt = consumed_at;
  if (replay !== undefined && (replay_until === undefined || replay_until > now)) {
    artifact.replay = String(JSON.parse(replay));
    if (replay_until !== undefined) artifact.replayUntil = replay_until;
  }
  return artifact;
}
