/**
 * Restores a backup into an empty database file. What was valid when the backup was made must not become valid again: see
 * `renewal.ts`.
 */
import type { FileHandle } from "node:fs/promises";
import { COUNTERS_AHEAD, type RecordData } from "../../adapters/record-store.ts";
import type { FileFiller } from "../../adapters/sqlite/whole-file.ts";
import type { Clock } from "../../core/clock.ts";
import { SignInError } from "../../core/errors.ts";
import { currentFormat, type StoredValue } from "../../core/storage-formats.ts";
import type { Sealer } from "../../core/sealing.ts";
import { KINDS } from "../all-kinds.ts";
import type { Actor } from "../audit/audit-event.ts";
import { auditRecord, type AuditRetention } from "../audit/audit-kinds.ts";
import { type KnownReceiver, RECEIVER } from "../deliveries/delivery-kinds.ts";
import { USER_ID } from "../directory/directory-kinds.ts";
import { requireSecrets, SEALING_SECRETS, type StoredSecrets } from "../secrets.ts";
import { isReadable, STORAGE_FORMAT, type StoredFormat } from "../formats/format.ts";
import type { AnyKind } from "../kinds.ts";
import { json } from "../records.ts";
import { SIGNING_KEY, SIGNING_KEY_SET, type SigningKeyRecord } from "../signing-key-store.ts";
import { restoredIdentity, STORAGE_IDENTITY, type StorageIdentity } from "../storage-identity.ts";
import type { BackupEnd, BackupRecord, BackupStart } from "./backup.ts";
import { readLines } from "./encrypted-lines.ts";
import { heldReceiver, KEYS, type MakeSigningKeys, receiverOf, renewedKeys, USER_IDS } from "./renewal.ts";

const wrong = (): SignInError =>
  new SignInError("invalid_backup", "the backup was made by another version of this service");

/** A value of this format or the one before, in this format. */
function upgrade(kind: string, value: StoredValue): StoredValue {
  return (
    currentFormat()
      .changes.find((change) => change.kind === kind)
      ?.upgrade(value) ?? value
  );
}

/** A backup, record by record. */
interface BackupReader {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly onStart: (start: BackupStart) => void;
  readonly onRecord: (kind: AnyKind, record: RecordData) => void;
  /** @param bytes that were read so far. */
  readonly onProgress: (bytes: number) => void;
}

/**
 * Reads a whole backup.
 * @returns how many records it has.
 * @throws SignInError `invalid_backup` as `readLines` does, and for records that this version doesn't know.
 */
async function readBackup(
  file: FileHandle,
  secrets: readonly string[],
  signal: AbortSignal,
  { now, onStart, onRecord, onProgress }: BackupReader,
): Promise<number> {
  let count = -1;
  let end: BackupEnd | undefined;
  for await (const { lines, bytes } of readLines(file, secrets)) {
    signal.throwIfAborted();
    for (const line of lines) {
      const read = JSON.parse(line) as BackupStart | BackupRecord | BackupEnd;
      if (Array.isArray(read)) {
        const [name, key, value, expiresAt] = read as BackupRecord;
        const kind = KINDS.all.find((each) => each.name === name);
        if (kind === undefined) throw wrong();
        if (kind === STORAGE_FORMAT && !isReadable(value as unknown as StoredFormat)) throw wrong();
        const upgraded = kind === STORAGE_FORMAT ? { format: currentFormat().format } : upgrade(name, value);
        const found = {
          kind: name,
          key,
          version: "",
          value: json(upgraded),
          ...(expiresAt !== null && { expiresAt }),
        };
        count += 1;
        const after = kind.afterRestore(found, now);
        if (after !== undefined) onRecord(kind, kind.restore(after));
      } else if (count === -1) {
        onStart(read as BackupStart);
        count = 0;
      } else end = read as BackupEnd;
    }
    onProgress(bytes);
  }
  if (end?.records !== count) throw wrong();
  return count;
}

export interface RestoreRun {
  /** Keys, one of which is the backup's: 32 bytes in Base64. */
  readonly secrets: readonly string[];
  /** For `keys.secrets` of the configuration. */
  readonly sealer: Sealer;
  readonly makeKeys: MakeSigningKeys;
  readonly clock: Clock;
  /** Who restores, for the audit. */
  readonly actor: Actor;
  /** Seconds for which audit records are kept. */
  readonly retention: AuditRetention;
  /** The looks of servers at the database that was there before: see `storage-identity.ts`. */
  readonly looks: number;
  /** Stops it between two chunks. */
  readonly signal: AbortSignal;
  readonly onProgress: (step: "checking" | "restoring", bytes: number) => void;
}

/** The contents of a backup. */
export interface BackupSummary {
  /** Seconds since the epoch. */
  readonly created_at: number;
  readonly records: number;
  readonly accounts: number;
}

/**
 * Reads a whole backup, and writes nothing.
 * @throws SignInError `invalid_backup` if the key is wrong, the file is damaged, or it is of another version.
 * @throws SignInError `unusable_secrets` if `keys.secrets` doesn't open what is sealed in it.
 */
export async function checkBackup(
  file: FileHandle,
  { secrets, sealer, clock, signal, onProgress }: RestoreRun,
): Promise<BackupSummary> {
  let created_at = 0;
  let accounts = 0;
  const records = await readBackup(file, secrets, signal, {
    now: clock.now(),
    onStart: (start) => ({ created_at } = start),
    onRecord(kind, { value }) {
      if (kind === USER_ID) accounts += 1;
      if (kind === SEALING_SECRETS) requireSecrets((value as unknown as StoredSecrets).secrets, sealer.ids);
    },
    onProgress: (bytes) => onProgress("checking", bytes),
  });
  return { created_at, records, accounts };
}

/** Writes a backup that was checked. @returns the identity of the restored storage. */
export async function restoreBackup(
  file: FileHandle,
  filler: FileFiller,
  { created_at, records, accounts }: BackupSummary,
  { secrets, makeKeys, clock, actor, retention, looks, signal, onProgress }: RestoreRun,
): Promise<StorageIdentity> {
  const configured = new Set<string>();
  const known = new Set<string>();
  const keys: SigningKeyRecord[] = [];
  const now = clock.now();
  await readBackup(file, secrets, signal, {
    now,
    onStart({ counters }) {
      for (const [name, value] of Object.entries({ [USER_IDS]: 0, ...counters }))
        filler.count(name, name === USER_IDS ? value + COUNTERS_AHEAD : value);
    },
    onRecord(kind, record) {
      const { value } = record;
      if (kind === SIGNING_KEY) keys.push(value as unknown as SigningKeyRecord);
      if (KEYS.includes(kind)) return;
      filler.put(record);
      if (kind === RECEIVER) known.add((value as unknown as KnownReceiver).receiver);
      const receiver = receiverOf(kind, value);
      if (receiver !== undefined) configured.add(receiver);
    },
    onProgress: (bytes) => onProgress("restoring", bytes),
  });
  for (const receiver of configured) if (!known.has(receiver)) filler.put(heldReceiver(receiver));
  const after = await renewedKeys(keys, makeKeys, now);
  for (const key of after) filler.put(SIGNING_KEY.record(key));
  if (after.length > 0) filler.put(SIGNING_KEY_SET.record({ kids: after.map(({ kid }) => kid) }));
  const identity = restoredIdentity(looks, clock);
  filler.put(STORAGE_IDENTITY.record(identity));
  const detail = { created_at, records, accounts };
  const event = { actor, action: "storage.restored", detail } as const;
  filler.put(auditRecord(event, Math.floor(now * 1_000), retention));
  return identity;
}
