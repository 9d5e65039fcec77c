/** `restore`: fills an empty database with a backup. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { fillFile, storedKinds } from "../adapters/sqlite/whole-file.ts";
import { isSecret, readKeyFile } from "../config/keys.ts";
import {
  type BackupSummary,
  checkBackup,
  restoreBackup,
  type RestoreRun,
} from "../records/backup/restore.ts";
import { looksBeside, noteBeside, STORAGE_IDENTITY } from "../records/storage-identity.ts";
import { makeSigningKeys } from "../accounts/keys/signing-keys.ts";
import { readSecrets } from "../accounts/keys/service-keys.ts";
import { STORAGE_FORMAT } from "../records/formats/format.ts";
import { PROCESS } from "../records/formats/processes.ts";
import { createSealer } from "../core/sealing.ts";
import { notesAbout } from "./renewal.ts";
import { readSqliteConfig, type SqliteConfiguration } from "./backup.ts";
import type { Run, CommandContext } from "./program/command.ts";
import { CommandFailure, misused } from "./program/command-failure.ts";
import type { Arguments } from "./program/arguments.ts";
import { operator } from "./program/on-service.ts";
import { Printer } from "./program/printer.ts";
import { Progress } from "./program/progress.ts";

/** Kinds of records that a storage may have and still count as empty. */
const BESIDES = [STORAGE_FORMAT.name, STORAGE_IDENTITY.name, PROCESS.name];

/** The keys to try: from a file, typed, or the first line of standard input. */
async function readBackupKeys(
  args: Arguments,
  { askSecret, readInput }: CommandContext,
): Promise<readonly string[]> {
  const path = args.text("key-file");
  if (path !== undefined) {
    const keys = await readKeyFile(path);
    if (keys === undefined) throw new CommandFailure(`${path} does not exist.`, { code: "invalid_argument" });
    return keys;
  }
  const typed = askSecret === undefined ? await readInput() : await askSecret("Key of the backup: ");
  const [key = ""] = typed.trim().split(/\s/u, 1);
  if (!isSecret(key)) throw misused("The key of the backup must be on standard input, or in --key-file");
  return [key];
}

async function openBackup(path: string): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((cause: unknown) => {
    const code = String(Reflect.get(Object(cause), "code"));
    const why = code === "ENOENT" ? "does not exist" : `can't be read: ${code}`;
    throw new CommandFailure(`${path} ${why}.`, { code: "invalid_argument", cause });
  });
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw new CommandFailure(`${path} is not a file.`, { code: "invalid_argument" });
}

function refuseFilled(kinds: readonly string[]): never {
  throw new CommandFailure(
    `The storage must be empty, but it already contains ${kinds.join(", ")}. Nothing was changed.`,
  );
}

async function restore(file: FileHandle, path: string, run: RestoreRun): Promise<BackupSummary> {
  const isFilled = (await storedKinds(path)).filter((kind) => !BESIDES.includes(kind));
  if (isFilled.length > 0) refuseFilled(isFilled);
  const summary = await checkBackup(file, run);
  const options = { clock: run.clock, besides: BESIDES, refuse: refuseFilled };
  const identity = await fillFile(path, options, (filler) => restoreBackup(file, filler, summary, run));
  await noteBeside(path, identity);
  return summary;
}

const kilobytes = (bytes: number): number => Math.ceil(bytes / 1000);

async function runWith(
  file: FileHandle,
  configuration: SqliteConfiguration,
  { args, context }: { readonly args: Arguments; readonly context: CommandContext },
): Promise<void> {
  const { clock, database, audit } = configuration;
  const { signal, out, err } = context;
  const sealer = createSealer(await readSecrets(configuration, true));
  const secrets = await readBackupKeys(args, context);
  const { size } = await file.stat();
  const progress = new Progress(err);
  try {
    const summary = await restore(file, database, {
      secrets,
      sealer,
      makeKeys: (algorithms, now) => makeSigningKeys(sealer, algorithms, now),
      looks: (await looksBeside(database)) ?? 0,
      clock,
      actor: operator(),
      retention: audit,
      signal,
      onProgress: (step, bytes) => progress.update(`${step} (kB)`, kilobytes(bytes), kilobytes(size)),
    });
    progress.clear();
    const { records, accounts, created_at } = summary;
    const made = new Date(created_at * 1000).toISOString();
    new Printer(out, args.flag("json")).done(
      `Restored: ${records} records with ${accounts} ${accounts === 1 ? "account" : "accounts"}, as of ${made}`,
      summary,
    );
    err.write(notesAbout(created_at, configuration));
  } finally {
    progress.clear();
  }
}

export const runRestore: Run = async (args, context) => {
  const configuration = await readSqliteConfig(args, context);
  const file = await openBackup(args.operand(0));
  try {
    await runWith(file, configuration, { args, context });
  } finally {
    await file.close();
  }
  return 0;
};
