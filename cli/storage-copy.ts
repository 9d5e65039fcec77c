/** `storage copy`: copies one storage to another. */
import { KINDS } from "../lib/records/all-kinds.ts";
import { StorageUnavailable } from "../lib/errors.ts";
import { isSqlite } from "../config/value-forms.ts";
import {
  describeAddress,
  identityOf,
  overlap,
  pathOf,
  type StorageAddress,
  readAddress,
} from "./addresses.ts";
import { parseArguments } from "./arguments.ts";
import type { Command, Surroundings } from "./command.ts";
import { CommandFailure, FAILED, misused } from "./command-failure.ts";
import type { KindComparison } from "./copy/compare.ts";
import { copyStorage, finishCopy } from "./copy/copy.ts";
import { type OpenOptions, openAddressed } from "./open-stores.ts";
import { Progress } from "./progress.ts";

const USAGE = `Usage: sign-in-service storage copy FROM TO [options]

Copies the storage FROM to the empty storage TO, and compares the two: accounts, clients, the directory, audit records,
notifications in their order, codes, tokens, sessions and keys. Stop the service first. After an interruption, such as
Ctrl+C or a crash, run the same command again: it continues where it stopped.

FROM and TO are addresses as in the configuration: sqlite:PATH, postgresql://HOST/DATABASE, mongodb://HOST/DATABASE.
env:NAME reads an address from an environment variable, so that it does not appear in the list of processes.

  --from-artifacts ADDRESS  the artifacts of FROM: redis://… or rediss://…; default: in FROM
  --to-artifacts ADDRESS    the artifacts of TO; default: in TO
  --config-from FILE        a JSON configuration whose "storage" and "artifacts" are used instead of FROM
  --config-to FILE          the same for TO
  --help                    shows this text

Exit codes: 0 copied, and both are equal; 1 failed, stopped, or not equal; 2 wrong arguments.
`;

interface CopyAddresses {
  readonly from: StorageAddress;
  readonly to: StorageAddress;
}

async function readAddresses(
  args: readonly string[],
  { readVariable }: Surroundings,
): Promise<CopyAddresses> {
  const { values, positionals } = parseArguments(args, {
    "from-artifacts": { type: "string" },
    "to-artifacts": { type: "string" },
    "config-from": { type: "string" },
    "config-to": { type: "string" },
  });
  const left = [...positionals];
  const addressArguments = (
    name: "FROM" | "TO",
    config: string | undefined,
    artifacts: string | undefined,
  ) => ({
    name,
    config,
    artifacts,
    address: config === undefined ? left.shift() : undefined,
  });
  const ofFrom = addressArguments("FROM", values["config-from"], values["from-artifacts"]);
  const ofTo = addressArguments("TO", values["config-to"], values["to-artifacts"]);
  if (left.length > 0) throw misused("Too many addresses");
  const addresses = {
    from: await readAddress(ofFrom, readVariable),
    to: await readAddress(ofTo, readVariable),
  };
  if (overlap(addresses.from, addresses.to)) {
    throw misused("FROM and TO must be different storages, and so must their artifacts");
  }
  return addresses;
}

function isSame({ different }: KindComparison): boolean {
  return different === 0;
}

function table(comparisons: readonly KindComparison[]): string {
  const width = Math.max(...comparisons.map(({ kind }) => kind.length)) + 2;
  const lines = comparisons.map((each) => {
    const { kind, source, target, different } = each;
    const counts = source === target ? String(target) : `${source} → ${target}`;
    const outcome = isSame(each) ? "" : `  ${different} differ`;
    return `${kind.padEnd(width)}${counts.padStart(12)}${outcome}`;
  });
  return [`${"kind".padEnd(width)}${"records".padStart(12)}`, ...lines, ""].join("\n");
}

/** Reminds the operator to copy the keys. */
function keysSentence({ from, to }: CopyAddresses): string {
  const target = isSqlite(to.storage) ? `${pathOf(to.storage)}.keys or keys.secrets` : "keys.secrets";
  return (
    "The new storage opens only with the keys.secrets of the old one: " +
    `copy those ${from.secrets} to ${target}.\n`
  );
}

function report(
  comparisons: readonly KindComparison[],
  addresses: CopyAddresses,
  { out, err }: Surroundings,
): boolean {
  out.write(table(comparisons));
  const different = comparisons.filter((each) => !isSame(each)).map(({ kind }) => kind);
  if (different.length === 0) {
    out.write(`\nCopied and compared: both storages hold the same records.\n${keysSentence(addresses)}`);
    return true;
  }
  err.write(
    `FROM and TO differ in ${different.join(", ")}. ` +
      "Was a service still running on one of them? Stop it, empty TO, and copy again.\n",
  );
  return false;
}

const CONTINUES = "Run the same command again, and it continues where it stopped.";

/** Adds to a storage fault how to continue. */
function resumable(error: unknown): unknown {
  if (!(error instanceof StorageUnavailable)) return error;
  return new CommandFailure(`${error.message}. ${CONTINUES}`, { cause: error });
}

async function copy(addresses: CopyAddresses, surroundings: Surroundings): Promise<number> {
  const { clock, signal, err } = surroundings;
  err.write(`from ${describeAddress(addresses.from)}\nto   ${describeAddress(addresses.to)}\n`);
  const openOptions = (name: string, mustExist: boolean): OpenOptions => ({
    name,
    mustExist,
    onWarning: (text) => void err.write(`${name}: ${text}\n`),
  });
  const from = await openAddressed(addresses.from, openOptions("FROM", true), clock);
  try {
    const to = await openAddressed(addresses.to, openOptions("TO", false), clock);
    const progress = new Progress(err);
    try {
      const done = await copyStorage(from, to, {
        kinds: KINDS,
        source: identityOf(addresses.from),
        clock,
        signal,
        onProgress: ({ step, kind, done: count, total }) => progress.update(`${step} ${kind}`, count, total),
      });
      progress.clear();
      if (!report(done, addresses, surroundings)) return FAILED;
      await finishCopy(to, clock);
      return 0;
    } catch (error) {
      progress.clear();
      if (!signal.aborted) throw resumable(error);
      err.write(`Stopped. ${CONTINUES}\n`);
      return FAILED;
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

export const storageCopy: Command = {
  words: ["storage", "copy"],
  summary: "copies one storage to another",
  usage: USAGE,
  run: async (args, surroundings) => copy(await readAddresses(args, surroundings), surroundings),
};
