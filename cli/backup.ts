/** `backup`: writes an encrypted copy of a database to one file, beside running services. */
import { dirname, resolve } from "node:path";
import { openSnapshot } from "../adapters/sqlite/whole-file.ts";
import type { Configuration } from "../config/configuration.ts";
import { makeSecret, readOrMakeKeyFile } from "../config/keys.ts";
import { readConfiguration } from "../config/read.ts";
import { backupTools, databaseFile } from "../config/storage-address.ts";
import { createAuditStore } from "../records/audit/audit-store.ts";
import { writeBackup } from "../records/backup/backup.ts";
import { seconds } from "../core/clock.ts";
import { createPositions } from "../records/deliveries/lanes.ts";
import { KINDS } from "../records/all-kinds.ts";
import { Records } from "../records/records.ts";
import { UNFINISHED_COPY } from "../records/formats/format.ts";
import type { Run, CommandContext } from "./program/command.ts";
import { CommandFailure, misused } from "./program/command-failure.ts";
import type { Arguments } from "./program/arguments.ts";
import { createWhole, requireAbsent, unfinishedFiles } from "./program/new-file.ts";
import { operator } from "./program/on-service.ts";
import { openAddressed } from "./program/open-stores.ts";
import { readSettings, refuseMemory } from "./program/settings.ts";
import { Printer } from "./program/printer.ts";
import { Progress } from "./program/progress.ts";

/** The configuration of a service whose storage is a file. */
export interface SqliteConfiguration extends Configuration {
  readonly database: string;
}

/**
 * The configuration of a storage that this program can back up and restore.
 * @throws CommandFailure for another one.
 */
export async function readSqliteConfig(
  args: Arguments,
  context: Pick<CommandContext, "variables">,
): Promise<SqliteConfiguration> {
  const { config, explain } = await readSettings(args, context);
  const configuration = await explain(async () => readConfiguration(config));
  const { storage } = configuration;
  refuseMemory(storage);
  const database = databaseFile(storage);
  if (database === undefined)
    throw new CommandFailure(
      `The storage is ${backupTools(storage)}, which can do more than this program. See docs/operate/day-to-day/backup.md.`,
    );
  return { ...configuration, database };
}

/** Checks the storage, and writes the audit record before anything is read. */
async function prepare({ storage, clock, audit }: Configuration): Promise<void> {
  const options = { name: "The storage", mustExist: true, onWarning: () => undefined };
  const stores = await openAddressed({ storage, artifacts: undefined, secrets: "" }, options, clock);
  try {
    const records = new Records(stores.storage, clock, KINDS);
    if ((await records.find(UNFINISHED_COPY.ref("current"))) !== undefined)
      throw new CommandFailure("A copy into this storage is not finished: run storage copy again.");
    const trail = createAuditStore(records, createPositions({ clock }), audit);
    await trail.append({ actor: operator(), action: "storage.backed_up" });
  } finally {
    await stores.close();
  }
}

/** What an operator has to know about the backup. */
function notes({ storage, artifacts, keys, database }: SqliteConfiguration): string {
  const secrets = keys.secrets === undefined ? `${database}.keys` : "keys.secrets of the configuration";
  const where = artifacts === storage ? "" : ", which are in Redis,";
  return (
    `Codes, tokens, sessions and running sign-ins${where} are not in the backup.\n` +
    `To restore it you also need ${secrets}. Keep it and the backup in different places.\n`
  );
}

async function backUp(
  file: string,
  keyFile: string | undefined,
  configuration: SqliteConfiguration,
  { args, context }: { readonly args: Arguments; readonly context: CommandContext },
): Promise<void> {
  const { clock, database } = configuration;
  const { signal, out, err } = context;
  const print = new Printer(out, args.flag("json"));
  const secrets =
    keyFile === undefined ? [makeSecret()] : await readOrMakeKeyFile(keyFile, { mayCreate: true });
  const [secret = ""] = secrets;
  await prepare(configuration);
  const snapshot = await openSnapshot(database, clock.now());
  const progress = new Progress(err);
  try {
    await createWhole(file, async (handle) => {
      const created_at = seconds(clock);
      const onProgress = (done: number, total: number): void => progress.update("backing up", done, total);
      const records = await writeBackup(snapshot, handle, { secret, now: created_at, signal, onProgress });
      progress.clear();
      // Printed before the file appears: there is never a backup without a key.
      const facts = { file, created_at, records };
      const key = keyFile === undefined ? secret : undefined;
      print.done(`Backed up: ${records} records`, key === undefined ? facts : { ...facts, key });
      if (key !== undefined && !args.flag("json")) out.write(`Key, which is stored nowhere else: ${key}\n`);
    });
  } finally {
    progress.clear();
    snapshot.close();
  }
  err.write(notes(configuration));
  const left = await unfinishedFiles(dirname(resolve(file)));
  if (left.length > 0)
    err.write(
      `Killed runs have left unfinished backups. If no other run writes them, delete: ${left.join(" ")}\n`,
    );
}

export const runBackup: Run = async (args, context) => {
  const file = args.operand(0);
  const keyFile = args.text("key-file");
  if (keyFile !== undefined && resolve(keyFile) === resolve(file))
    throw misused("FILE and --key-file must be different files");
  const configuration = await readSqliteConfig(args, context);
  await requireAbsent(file);
  if (keyFile === undefined && context.out.isTTY !== true)
    throw misused(
      "A key is printed only on a terminal, because the output of other runs is kept in logs: name a file for it with --key-file",
    );
  await backUp(file, keyFile, configuration, { args, context });
  return 0;
};
