/** `storage copy`: copies one storage to another. */
import { KINDS } from "../../records/all-kinds.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { databaseFile } from "../../config/storage-address.ts";
import {
  describeAddress,
  identityOf,
  overlap,
  type StorageAddress,
  readAddress,
} from "../program/addresses.ts";
import type { Run, CommandContext } from "../program/command.ts";
import { CommandFailure, FAILED, INTERRUPTED, misused } from "../program/command-failure.ts";
import type { KindComparison } from "./compare.ts";
import { copyStorage, finishCopy } from "./copy.ts";
import type { Arguments } from "../program/arguments.ts";
import { type OpenOptions, openAddressed } from "../program/open-stores.ts";
import { Progress } from "../program/progress.ts";

interface CopyAddresses {
  readonly from: StorageAddress;
  readonly to: StorageAddress;
}

async function readAddresses(args: Arguments, context: CommandContext): Promise<CopyAddresses> {
  const left = [...args.operands];
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
  const ofFrom = addressArguments("FROM", args.text("config-from"), args.text("from-artifacts"));
  const ofTo = addressArguments("TO", args.text("config-to"), args.text("to-artifacts"));
  if (left.length > 0) throw misused("Too many addresses");
  const addresses = {
    from: await readAddress(ofFrom, context),
    to: await readAddress(ofTo, context),
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
  const database = databaseFile(to.storage);
  const target = database === undefined ? "keys.secrets" : `${database}.keys or keys.secrets`;
  return (
    "The new storage opens only with the keys.secrets of the old one: " +
    `copy those ${from.secrets} to ${target}.\n`
  );
}

function report(
  comparisons: readonly KindComparison[],
  addresses: CopyAddresses,
  { out, err }: CommandContext,
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
  return new CommandFailure(`${error.message}. ${CONTINUES}`, { code: "storage_unavailable", cause: error });
}

async function copy(addresses: CopyAddresses, context: CommandContext): Promise<number> {
  const { clock, signal, err } = context;
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
      if (!report(done, addresses, context)) return FAILED;
      await finishCopy(to, clock);
      return 0;
    } catch (error) {
      progress.clear();
      if (!signal.aborted) throw resumable(error);
      err.write(`Stopped. ${CONTINUES}\n`);
      return INTERRUPTED;
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

export const runCopy: Run = async (args, context) => copy(await readAddresses(args, context), context);
