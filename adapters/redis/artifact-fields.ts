/** Artifacts as the fields of a hash, and back. */
import type { Artifact, Payload } from "../artifacts.ts";
import { part } from "./names.ts";

/** The fields of a hash in the order of `READ_FIELDS`; `null` or empty where there is none. */
export type Fields = readonly (string | null)[];

/** Stands for a field that is not there. */
const NONE = "";

const optional = (name: string | undefined): string => (name === undefined ? NONE : part(name));

/** Names of which the key says only a hash, as JSON; nothing for the usual artifact, whose names say themselves. */
function writtenOut({ model, key, grantKey, uid, accountId, clientId }: Artifact): string {
  const names = [model, key, grantKey, uid, accountId, clientId];
  const isPlain = names.every((name) => name === undefined || part(name) === name);
  return isPlain ? NONE : JSON.stringify(names.map((name) => name ?? null));
}

/** So many fields most artifacts have; the others are left out where there are none. */
export const USUAL_FIELDS = 6;

/** Payloads of artifacts as they were read, for those that are merged: sessions. */
export type ReadTexts = WeakMap<Artifact, string>;

/** What the script stores for an artifact, in the order in which it takes it. */
export function storedFields(artifact: Artifact): string[] {
  const { model, payload, expiresAt, grantKey, uid, accountId, clientId, consumedAt, replay } = artifact;
  const usual = [
    JSON.stringify(payload),
    String(expiresAt),
    optional(grantKey),
    uid === undefined ? NONE : `${part(model)}:${part(uid)}`,
    optional(accountId),
    optional(clientId),
  ];
  const names = writtenOut(artifact);
  if (names === NONE && consumedAt === undefined && replay === undefined) return usual;
  return [...usual, names, consumedAt === undefined ? NONE : String(consumedAt), ...storedReplay(artifact)];
}

/** The replay and until when it counts. */
export function storedReplay({ replay, replayUntil }: Pick<Artifact, "replay" | "replayUntil">): string[] {
  if (replay === undefined) return [NONE, NONE];
  return [JSON.stringify(replay), replayUntil === undefined ? NONE : String(replayUntil)];
}

/** What was found, and what is still to be asked for. */
export interface Found {
  readonly artifact: Artifact;
  /** When it was first put; sorts as text. */
  readonly born: string;
  /** Set when the replay has a key of its own and still counts: until when. */
  readonly replayUntil: number | undefined;
}

/** The text after the colon; ids and uids have exactly one. */
const afterColon = (text: string): string => text.slice(text.indexOf(":") + 1);

/** Model, key, family, uid, account and client. */
function namesOf(id: string, fields: Fields): readonly (string | null)[] {
  const [, , , , , grant, uid, account, client, names] = fields;
  if (names) return JSON.parse(names) as (string | null)[];
  const model = id.slice(0, id.indexOf(":"));
  return [
    model,
    afterColon(id),
    grant || null,
    uid ? afterColon(uid) : null,
    account || null,
    client || null,
  ];
}

/** @returns `undefined` when there is nothing, or it has expired. */
export function toFound(id: string, fields: Fields, now: number): Found | undefined {
  const [payload, expiresAt, consumedAt, replay, until, , , , , , born] = fields;
  if (!payload || !expiresAt || Number(expiresAt) <= now) return undefined;
  const [model, key, grantKey, uid, accountId, clientId] = namesOf(id, fields);
  const artifact: { -readonly [Name in keyof Artifact]: Artifact[Name] } = {
    model: model ?? "",
    key: key ?? "",
    payload: JSON.parse(payload) as Payload,
    expiresAt: Number(expiresAt),
  };
  if (consumedAt) artifact.consumedAt = Number(consumedAt);
  if (replay) artifact.replay = JSON.parse(replay) as string;
  if (typeof grantKey === "string") artifact.grantKey = grantKey;
  if (typeof uid === "string") artifact.uid = uid;
  if (typeof accountId === "string") artifact.accountId = accountId;
  if (typeof clientId === "string") artifact.clientId = clientId;
  const replayUntil = until && Number(until) > now ? Number(until) : undefined;
  return { artifact, born: born ?? "", replayUntil };
}
