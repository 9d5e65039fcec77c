/** `migrate`: migrates a storage of version 0.1 to the format of this version. */
import { stat } from "node:fs/promises";
import { schemeOf } from "../adapters/open.ts";
import { isSqlite } from "../config/value-forms.ts";
import { ConditionFailed, ConfigurationError, StorageUnavailable } from "../lib/errors.ts";
import { migrateStorage, removeOld } from "../lib/migration/migrate.ts";
import { describeAddress, pathOf, readOwnAddress, type StorageAddress } from "./program/addresses.ts";
import type { Run, Surroundings } from "./program/command.ts";
import {
  CommandFailure,
  FAILED,
  INTERRUPTED,
  MISUSED,
  misused,
  UNREACHABLE,
} from "./program/command-failure.ts";
import type { Given } from "./program/given.ts";
import { Progress } from "./program/progress.ts";

const CONTINUES = "Run the same command again, and it continues where it stopped.";

interface Wanted {
  readonly address: StorageAddress;
  readonly removesOld: boolean;
  readonly isConfirmed: boolean;
}

/** Without this, opening a missing file would create it. */
async function requireFile({ storage }: StorageAddress): Promise<void> {
  if (!isSqlite(storage)) return;
  const found = await stat(pathOf(storage)).catch(() => undefined);
  if (!found?.isFile())
    throw new CommandFailure(`There is no database file ${pathOf(storage)}.`, { exitCode: UNREACHABLE });
}

async function readWanted(given: Given, surroundings: Surroundings): Promise<Wanted> {
  const options = {
    name: "--storage",
    address: given.text("storage"),
    artifacts: given.text("artifacts"),
  };
  const [removesOld, isConfirmed] = [given.flag("remove-old"), given.flag("yes")];
  const address = await readOwnAddress(options, given, surroundings);
  if (schemeOf(address.storage).startsWith("postgres"))
    throw misused("--storage is PostgreSQL, which version 0.1 did not support");
  await requireFile(address);
  if (isConfirmed && !removesOld) throw misused("--yes requires --remove-old");
  return { address, removesOld, isConfirmed };
}

/** The error as a sentence for the operator. */
function explained(error: unknown, advice: string): unknown {
  if (error instanceof ConditionFailed)
    return new CommandFailure("Another process is migrating this storage.", { cause: error });
  if (error instanceof ConfigurationError) {
    const problems = error.problems.map((problem) => problem.replace(/^config\.(\w+): /u, "--$1: "));
    return new CommandFailure(`${problems.join("; ")}.`, { exitCode: MISUSED, cause: error });
  }
  if (error instanceof StorageUnavailable)
    return new CommandFailure(`${error.message}. ${advice}`.trim(), { exitCode: UNREACHABLE, cause: error });
  return error;
}

async function migrate(address: StorageAddress, { clock, signal, err, out }: Surroundings): Promise<number> {
  const progress = new Progress(err);
  try {
    const isMigrated = await migrateStorage(address, clock, {
      signal,
      onProgress: (part, done, total) => progress.update(`migrating ${part}`, done, total),
    });
    progress.clear();
    out.write(
      isMigrated
        ? "The migration is complete. The old data stays until migrate --remove-old deletes it.\n"
        : "There is nothing to migrate.\n",
    );
    return 0;
  } catch (error) {
    progress.clear();
    if (!signal.aborted) throw explained(error, CONTINUES);
    err.write(`Stopped. ${CONTINUES}\n`);
    return INTERRUPTED;
  }
}

async function remove(
  { address, isConfirmed }: Wanted,
  { clock, confirm, err, out }: Surroundings,
): Promise<number> {
  if (!isConfirmed) {
    if (confirm === undefined) throw misused("--remove-old deletes data: confirm it with --yes");
    const question = "Delete the data of version 0.1? After that you can't go back to version 0.1.";
    if (!(await confirm(question))) {
      err.write("Nothing was deleted.\n");
      return FAILED;
    }
  }
  try {
    const isRemoved = await removeOld(address, clock);
    out.write(isRemoved ? "The old data is deleted.\n" : "There is nothing to delete.\n");
    return 0;
  } catch (error) {
    throw explained(error, "");
  }
}

export const runMigrate: Run = async (given, surroundings) => {
  const wanted = await readWanted(given, surroundings);
  surroundings.err.write(`${describeAddress(wanted.address)}\n`);
  return wanted.removesOld ? remove(wanted, surroundings) : migrate(wanted.address, surroundings);
};
