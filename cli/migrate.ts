/** `migrate`: what version 0.1 has kept, carried over to the format of this version. */
import { stat } from "node:fs/promises";
import { schemeOf } from "../adapters/open.ts";
import { isSqlite } from "../config/value-forms.ts";
import { ConditionFailed, ConfigurationError, StorageUnavailable } from "../lib/errors.ts";
import { migrateStorage, removeOld } from "../lib/migration/migrate.ts";
import { describePlace, pathOf, type Place, readPlace } from "./addresses.ts";
import { parseArguments } from "./arguments.ts";
import type { Command, Surroundings } from "./command.ts";
import { CommandFailure, FAILED, misused } from "./command-failure.ts";
import { Progress } from "./progress.ts";

const USAGE = `Usage: sign-in-service migrate --storage ADDRESS [--artifacts ADDRESS] [--remove-old [--yes]]

Carries a storage that version 0.1 has written over to the format of this version: accounts, clients, the directory, audit
records, notifications with their order, codes, tokens, sessions and keys. Stop version 0.1 first: from the beginning of the
migration on it answers 503. A migration that was stopped, by Ctrl+C or a crash, goes on where it was when the same command is
run again; until it has come to its end no service starts.

What version 0.1 has written is kept beside it, and takes its space, until it is removed with --remove-old.

Addresses are those of the configuration: sqlite:PATH, mongodb://HOST/DATABASE, redis://HOST.
An address may be given as env:NAME: then it is in that environment variable, and not in the list of processes.

  --storage ADDRESS    the storage
  --artifacts ADDRESS  where the artifacts are: redis://… or rediss://…; default: in the storage
  --config FILE        a configuration (JSON) whose "storage" and "artifacts" count, in place of the two
  --remove-old         deletes what version 0.1 has written, once it has been carried over
  --yes                does not ask whether to delete it
  --help               this text

Exit codes: 0 done, or nothing to do; 1 not done, or not to its end; 2 wrong arguments.
`;

const GOES_ON = "Run the same command again, and it goes on where it was.";

interface Wanted {
  readonly place: Place;
  readonly removesOld: boolean;
  readonly isConfirmed: boolean;
}

/** What is not there is not to be made. */
async function requireFile({ storage }: Place): Promise<void> {
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
  if (positionals.length > 0) throw misused("An address has to be behind --storage or --artifacts");
  const { storage, artifacts, config, yes } = values;
  const place = await readPlace({ name: "--storage", address: storage, artifacts, config }, readVariable);
  if (schemeOf(place.storage).startsWith("postgres"))
    throw misused("--storage is PostgreSQL, where version 0.1 kept nothing");
  await requireFile(place);
  if (yes && !values["remove-old"]) throw misused("--yes belongs to --remove-old");
  return { place, removesOld: values["remove-old"], isConfirmed: yes };
}

/** What went wrong, as a sentence for whoever typed the addresses. */
function explained(error: unknown, advice: string): unknown {
  if (error instanceof ConditionFailed)
    return new CommandFailure("Another process is carrying over this storage.", { cause: error });
  if (error instanceof ConfigurationError) {
    const problems = error.problems.map((problem) => problem.replace(/^config\.(\w+): /u, "--$1: "));
    return new CommandFailure(`${problems.join("; ")}.`, { cause: error });
  }
  if (error instanceof StorageUnavailable)
    return new CommandFailure(`${error.message}. ${advice}`.trim(), { cause: error });
  return error;
}

async function migrate(place: Place, { clock, signal, err, out }: Surroundings): Promise<number> {
  const progress = new Progress(err);
  try {
    const isMigrated = await migrateStorage(place, clock, {
      signal,
      onProgress: (part, done, total) => progress.update(`carrying over ${part}`, done, total),
    });
    progress.clear();
    out.write(
      isMigrated
        ? "Everything is carried over. What version 0.1 has written is kept until migrate --remove-old deletes it.\n"
        : "There is nothing to carry over.\n",
    );
    return 0;
  } catch (error) {
    progress.clear();
    if (!signal.aborted) throw explained(error, GOES_ON);
    err.write(`Stopped. ${GOES_ON}\n`);
    return FAILED;
  }
}

async function remove(
  { place, isConfirmed }: Wanted,
  { clock, confirm, err, out }: Surroundings,
): Promise<number> {
  if (!isConfirmed) {
    if (confirm === undefined) throw misused("--remove-old deletes data: confirm it with --yes");
    const question =
      "Delete what version 0.1 has written there? No process of version 0.1 can go back to it.";
    if (!(await confirm(question))) {
      err.write("Nothing was deleted.\n");
      return FAILED;
    }
  }
  try {
    const isRemoved = await removeOld(place, clock);
    out.write(isRemoved ? "What version 0.1 has written is deleted.\n" : "There is nothing to delete.\n");
    return 0;
  } catch (error) {
    throw explained(error, "");
  }
}

export const migrateCommand: Command = {
  words: ["migrate"],
  summary: "carries a storage of version 0.1 over to the format of this version",
  usage: USAGE,
  async run(args, surroundings) {
    const wanted = await readWanted(args, surroundings);
    surroundings.err.write(`${describePlace(wanted.place)}\n`);
    return wanted.removesOld ? remove(wanted, surroundings) : migrate(wanted.place, surroundings);
  },
};
