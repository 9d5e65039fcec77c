/**
 * The content of a backup, one JSON text per line: the time of the backup and the counters, then every record, and last
 * their number. Codes, tokens, sessions and running sign-ins are left out: a restored service accepts none of them.
 */
import type { FileHandle } from "node:fs/promises";
import type { FileSnapshot, WholeRecord } from "../../adapters/sqlite/whole-file.ts";
import { KINDS } from "../all-kinds.ts";
import { STORAGE_IDENTITY } from "../storage-identity.ts";
import { LineWriter } from "./encrypted-lines.ts";

/** The first line. */
export interface BackupStart {
  /** Seconds since the epoch. */
  readonly created_at: number;
  /** Approximately how many records follow. */
  readonly records: number;
  readonly counters: Readonly<Record<string, number>>;
}

/** The line of a record: its kind, key and value, and when it expires. */
export type BackupRecord = readonly [string, string, WholeRecord["value"], number | null];

/** The last line. */
export interface BackupEnd {
  /** How many records there are. */
  readonly records: number;
}

/** Whether a restored service needs the record. */
function isKept({ kind: name, key, value }: WholeRecord, now: number): boolean {
  const kind = KINDS.get(name);
  if (kind.declaration.store === "artifacts" || kind === STORAGE_IDENTITY) return false;
  return kind.afterRestore({ kind: name, key, value, version: "" }, now) !== undefined;
}

interface BackupRun {
  /** The key: 32 bytes in Base64. */
  readonly secret: string;
  /** Seconds since the epoch. */
  readonly now: number;
  /** Stops it between two chunks. */
  readonly signal: AbortSignal;
  /** @param total approximately. */
  readonly onProgress: (done: number, total: number) => void;
}

/** Writes a snapshot to a new file. @returns how many records it contains. */
export async function writeBackup(
  snapshot: FileSnapshot,
  file: FileHandle,
  { secret, now, signal, onProgress }: BackupRun,
): Promise<number> {
  const { count, counters } = snapshot;
  const writer = await LineWriter.open(file, secret);
  const start: BackupStart = { created_at: now, records: count, counters };
  writer.add(JSON.stringify(start));
  let written = 0;
  let read = 0;
  for (const record of snapshot.records()) {
    read += 1;
    if (!isKept(record, now * 1000)) continue;
    written += 1;
    const { kind, key, value, expiresAt } = record;
    const line: BackupRecord = [kind, key, value, expiresAt];
    if (!writer.add(JSON.stringify(line))) continue;
    await writer.flush();
    signal.throwIfAborted();
    onProgress(read, count);
  }
  const end: BackupEnd = { records: written };
  writer.add(JSON.stringify(end));
  await writer.end();
  return written;
}
