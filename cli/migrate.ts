/** `migrate`: migrates a storage of version 0.1 to the format of this version. */
import { stat } from "node:fs/promises";
import { schemeOf } from "../adapters/open.ts";
import { isSqlite } from "../config/value-forms.ts";
import { ConditionFailed, ConfigurationError, StorageUnavailable } from "../lib/errors.ts";
import { migrateStorage, removeOld } from "../lib/migration/migrate.ts";
import { describeAddress, pathOf, type StorageAddress, readAddress } from "./addresses.ts";
import { parseArguments } from "./arguments.ts";
import type { Command, Surroundings } from "./command.ts";
import { CommandFailure, FAILED, misused } from "./command-failure.ts";
import { Progress } from "./progress.ts";

const USAGE = `Usage: sign-in-service migrate --storage ADDRESS [--artifacts ADDRESS] [--remove-old [--yes]]

Migrates a storage of version 0.1 to the format of this version: accounts, clients, the directory, audit records,
notifications in their order, codes, tokens, sessions and keys. Stop version 0.1 first: it answers 503 once the migration
has started. After an interruption, such as Ctrl+C or a crash, run the same command again: it continues where it stopped.
No service starts before the migration is complete.

The old data stays, and takes space, until --remove-old deletes it.

Addresses are those of the configuration: sqlite:PATH, mongodb://HOST/DATABASE, redis://HOST.
env:NAME reads an address from an environment variable, so that it does not appear in the list of processes.

  --storage ADDRESS    the storage
  --artifacts ADDRESS  the artifacts: redis://… or rediss://…; default: in the storage
  --config FILE        a JSON configuration whose "storage" and "artifacts" are used instead
  --remove-old         deletes the data of version 0.1 after the migration
  --yes                deletes without asking
  --help               shows this text

Exit codes: 0 done, or nothing to do; 1 failed or stopped; 2 wrong arguments.
`;

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
  if (!found?.isFile()) throw new CommandFailure(`There is no database file ${pathOf(storage)}.`);
}

async function readWanted(args: readonly string[], { readVariable }: Surroundings): Promise<Wanted> {
  const { values, positionals } = parseArguments(args, {
    storage: { type: "string" },
    artifacts: { type: "string" },
    config: { type: "string" },
    "remove-old": { type: "boolean", default: false },
    yes: { type: "boolean", default: false },
  });
  if (positionals.length > 0) throw misused("An address must follow --storage or --artifacts");
  const { storage, artifacts, config, yes } = values;
  const address = await readAddress({ name: "--storage", address: storage, artifacts, config }, readVariable);
  if (schemeOf(address.storage).startsWith("postgres"))
    throw misused("--storage is PostgreSQL, which version 0.1 did not support");
  await requireFile(address);
  if (yes && !values["remove-old"]) throw misused("--yes requires --remove-old");
  return { address, removesOld: values["remove-old"], isConfirmed: yes };
}

/** The error as a sentence for the operator. */
function explained(error: unknown, advice: string): unknown {
  if (error instanceof ConditionFailed)
    return new CommandFailure("Another process is migrating this storage.", { cause: error });
  if (error instanceof ConfigurationError) {
    const problems = error.problems.map((problem) => problem.replace(/^config\.(\w+): /u, "--$1: "));
    return new CommandFailure(`${problems.join("; ")}.`, { cause: error });
  }
  if (error instanceof StorageUnavailable)
    return new CommandFailure(`${error.message}. ${advice}`.trim(), { cause: error });
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
    return FAILED;
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

export const migrateCommand: Command = {
  words: ["migrate"],
  summary: "migrates a storage of version 0.1 to the format of this version",
  usage: USAGE,
  async run(args, surroundings) {
    const wanted = await readWanted(args, surroundings);
    surroundings.err.write(`${describeAddress(wanted.address)}\n`);
    return wanted.removesOld ? remove(wanted, surroundings) : migrate(wanted.address, surroundings);
  },
};
