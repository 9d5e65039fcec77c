/**
 * Restores a backup into an empty database file. What was valid when the backup was made must not become valid again: all
 * generations are raised, numbers of accounts are skipped, and no notification is sent before an operator resumes them.
 */
import type { FileHandle } from "node:fs/promises";
import type { RecordData } from "../../adapters/record-store.ts";
import type { FileFiller } from "../../adapters/sqlite/whole-file.ts";
import type { Actor } from "../audit/audit-event.ts";
import { auditRecord } from "../audit/audit-kinds.ts";
import type { Clock } from "../../core/clock.ts";
import { RESTORED, untouchedReceiver } from "../deliveries/delivery.ts";
import { type KnownReceiver, RECEIVER, receiverRecord } from "../deliveries/delivery-kinds.ts";
import type { AccountRecord } from "../directory/directory.ts";
import {
  ACCOUNT,
  accountIn,
  type IdentifierOwner,
  SERVICE_KEY,
  USER_ID,
} from "../directory/directory-kinds.ts";
import { ENTRIES, type StoredEntry, type StoredServiceKey } from "../directory/directory-kinds.ts";
import {
  AUTHENTICATOR_APP,
  RECOVERY_CODES,
  STEP_MS,
  type StoredApp,
  type StoredRecoveryCodes,
} from "../factors/factor-kinds.ts";
import { SignInError } from "../../core/errors.ts";
import { isCurrentFormat, STORAGE_FORMAT } from "../format.ts";
import { KINDS } from "../all-kinds.ts";
import type { AnyKind } from "../kinds.ts";
import type { Sealer } from "../../core/sealing.ts";
import type { BackupEnd, BackupRecord, BackupStart } from "./backup.ts";
import { readLines } from "./encrypted-lines.ts";

/**
 * How far generations and the counter of `user_id` are moved. They have grown since the backup, and must not return to a
 * value that was in use.
 */
const GENERATIONS_AHEAD = 1_000_000;

const raised = (generations: Readonly<Record<string, number>>): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(generations).map(([key, value]) => [key, value + GENERATIONS_AHEAD]));

/**
 * The account with raised generations: all earlier sessions, codes, tokens, device cookies and mailed links are
 * refused.
 */
function withRaisedGenerations(account: AccountRecord): AccountRecord {
  return {
    ...account,
    password_generation: (account.password_generation ?? 0) + GENERATIONS_AHEAD,
    sessions_generation: account.sessions_generation + GENERATIONS_AHEAD,
    tokens_generation: account.tokens_generation + GENERATIONS_AHEAD,
    service_generations: raised(account.service_generations),
    client_generations: raised(account.client_generations),
    ...(account.factors && {
      factors: { ...account.factors, generation: account.factors.generation + GENERATIONS_AHEAD },
    }),
  };
}

/** Refuses the codes of the current and the next step: they may have been used since the backup. */
const withUsedSteps = (app: StoredApp, now: number): StoredApp => ({
  ...app,
  last_step: Math.max(app.last_step, Math.floor(now / STEP_MS) + 1),
});

/** Removes all codes: any of them may have been used since the backup. */
const withoutCodes = (stored: StoredRecoveryCodes): StoredRecoveryCodes => ({ ...stored, codes: [] });

/** Paused until deliveries are resumed. A receiver that an operator had paused keeps its reason. */
function held(receiver: KnownReceiver): KnownReceiver {
  return receiver.paused ? receiver : { ...receiver, paused: true, reason: RESTORED };
}

/** The value of a record after the restore. */
function restored(kind: AnyKind, value: object, now: number): object {
  if (kind === ACCOUNT) {
    const account = accountIn(value as IdentifierOwner);
    return account === undefined ? value : withRaisedGenerations(account);
  }
  if (kind === AUTHENTICATOR_APP) return withUsedSteps(value as StoredApp, now);
  if (kind === RECOVERY_CODES) return withoutCodes(value as StoredRecoveryCodes);
  return kind === RECEIVER ? held(value as KnownReceiver) : value;
}

const wrong = (): SignInError =>
  new SignInError("backup", "the backup was made by another version of this service");

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
 * @throws SignInError `backup` as `readLines` does, and for records that this version doesn't know.
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
        if (kind === STORAGE_FORMAT && !isCurrentFormat(value)) throw wrong();
        const found = { kind: name, key, version: "", value: restored(kind, value, now) as typeof value };
        onRecord(kind, kind.restore(expiresAt === null ? found : { ...found, expiresAt }));
        count += 1;
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
  readonly clock: Clock;
  /** Who restores, for the audit. */
  readonly actor: Actor;
  /** Seconds for which audit records are kept. */
  readonly retention: number;
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
 * @throws SignInError `backup` if the key is wrong, the file is damaged, or it is of another version.
 * @throws SignInError `keys` if `keys.secrets` doesn't open what is sealed in it.
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
    onRecord(kind, { key, value }) {
      if (kind === USER_ID) accounts += 1;
      if (kind === SERVICE_KEY && key === "check")
        sealer.open("check", (value as unknown as StoredServiceKey).sealed);
    },
    onProgress: (bytes) => onProgress("checking", bytes),
  });
  return { created_at, records, accounts };
}

/** Writes a backup that was checked. */
export async function restoreBackup(
  file: FileHandle,
  filler: FileFiller,
  { created_at, records, accounts }: BackupSummary,
  { secrets, clock, actor, retention, signal, onProgress }: RestoreRun,
): Promise<void> {
  const configured = new Set<string>();
  const known = new Set<string>();
  await readBackup(file, secrets, signal, {
    now: clock.now(),
    onStart({ counters }) {
      const { counter = "" } = USER_ID.declaration;
      for (const [name, value] of Object.entries({ [counter]: 0, ...counters }))
        filler.count(name, name === counter ? value + GENERATIONS_AHEAD : value);
    },
    onRecord(kind, record) {
      filler.put(record);
      const { value } = record;
      if (kind === RECEIVER) known.add((value as unknown as KnownReceiver).receiver);
      const isEntry = Object.values<AnyKind>(ENTRIES).includes(kind);
      if (isEntry && (value as unknown as StoredEntry).receiver !== null)
        configured.add(`${kind.name}:${record.key}`);
    },
    onProgress: (bytes) => onProgress("restoring", bytes),
  });
  for (const receiver of configured)
    if (!known.has(receiver)) filler.put(receiverRecord(held({ receiver, ...untouchedReceiver })));
  const detail = { created_at, records, accounts };
  const event = { actor, action: "storage.restored", detail } as const;
  filler.put(auditRecord(event, Math.floor(clock.now() * 1_000), retention));
}
