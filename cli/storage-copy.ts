/** `storage copy`: all that one storage keeps, into another one. */
import { KINDS } from "../lib/all-kinds.ts";
import { StorageUnavailable } from "../lib/errors.ts";
import { isSqlite } from "../config/value-forms.ts";
import { describePlace, identityOf, overlap, pathOf, type Place, readPlace } from "./addresses.ts";
import { parseArguments } from "./arguments.ts";
import type { Command, Surroundings } from "./command.ts";
import { CommandFailure, FAILED, misused } from "./command-failure.ts";
import type { KindComparison } from "./copy/compare.ts";
import { copyStorage, finishCopy } from "./copy/copy.ts";
import { type OpenOptions, openPlace } from "./open-place.ts";
import { Progress } from "./progress.ts";

const USAGE = `Usage: sign-in-service storage copy FROM TO [options]

Copies all that the storage FROM keeps into the empty storage TO, and compares the two: accounts, clients, the directory,
audit records, notifications with their order, codes, tokens and sessions, and keys. Stop the service first.
A copy that was stopped, by Ctrl+C or a crash, goes on where it was when the same command is run again.

FROM and TO are addresses as in the configuration: sqlite:PATH, postgresql://HOST/DATABASE, mongodb://HOST/DATABASE.
An address may be given as env:NAME: then it is in that environment variable, and not in the list of processes.

  --from-artifacts ADDRESS  where the artifacts of FROM are: redis://… or rediss://…; default: in FROM
  --to-artifacts ADDRESS    where they are to be; default: in TO
  --config-from FILE        a configuration (JSON) whose "storage" and "artifacts" count, in place of FROM
  --config-to FILE          the same in place of TO
  --help                    this text

Exit codes: 0 copied, and both are the same; 1 not copied, not to its end, or not the same; 2 wrong arguments.
`;

interface Places {
  readonly from: Place;
  readonly to: Place;
}

async function readPlaces(args: readonly string[], { readVariable }: Surroundings): Promise<Places> {
  const { values, positionals } = parseArguments(args, {
    "from-artifacts": { type: "string" },
    "to-artifacts": { type: "string" },
    "config-from": { type: "string" },
    "config-to": { type: "string" },
  });
  const left = [...positionals];
  const words = (name: "FROM" | "TO", config: string | undefined, artifacts: string | undefined) => ({
    name,
    config,
    artifacts,
    address: config === undefined ? left.shift() : undefined,
  });
  const ofFrom = words("FROM", values["config-from"], values["from-artifacts"]);
  const ofTo = words("TO", values["config-to"], values["to-artifacts"]);
  if (left.length > 0) throw misused("There is an address too many");
  const places = { from: await readPlace(ofFrom, readVariable), to: await readPlace(ofTo, readVariable) };
  if (overlap(places.from, places.to)) {
    throw misused("FROM and TO must be different places, and so must their artifacts");
  }
  return places;
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

/** What the operator must know of the keys. */
function keysSentence({ from, to }: Places): string {
  const place = isSqlite(to.storage) ? `${pathOf(to.storage)}.keys or keys.secrets` : "keys.secrets";
  return (
    "The new storage opens only with the same keys.secrets as the old one: " +
    `take those ${from.secrets} along, as ${place}.\n`
  );
}

function report(comparisons: readonly KindComparison[], places: Places, { out, err }: Surroundings): boolean {
  out.write(table(comparisons));
  const different = comparisons.filter((each) => !isSame(each)).map(({ kind }) => kind);
  if (different.length === 0) {
    out.write(`\nCopied and compared: both hold the same.\n${keysSentence(places)}`);
    return true;
  }
  err.write(
    `FROM and TO are not the same in ${different.join(", ")}. ` +
      "Was a service still running on one of them? Stop it, empty TO, and copy again.\n",
  );
  return false;
}

const GOES_ON = "Run the same command again, and it goes on where it was.";

/** A fault of a store says how to go on. */
function resumable(error: unknown): unknown {
  if (!(error instanceof StorageUnavailable)) return error;
  return new CommandFailure(`${error.message}. ${GOES_ON}`, { cause: error });
}

async function copy(places: Places, surroundings: Surroundings): Promise<number> {
  const { clock, signal, err } = surroundings;
  err.write(`from ${describePlace(places.from)}\nto   ${describePlace(places.to)}\n`);
  const options = (name: string, mustExist: boolean): OpenOptions => ({
    name,
    mustExist,
    onWarning: (text) => void err.write(`${name}: ${text}\n`),
  });
  const from = await openPlace(places.from, options("FROM", true), clock);
  try {
    const to = await openPlace(places.to, options("TO", false), clock);
    const progress = new Progress(err);
    try {
      const done = await copyStorage(from, to, {
        kinds: KINDS,
        source: identityOf(places.from),
        clock,
        signal,
        onProgress: ({ step, kind, done: count, total }) => progress.update(`${step} ${kind}`, count, total),
      });
      progress.clear();
      if (!report(done, places, surroundings)) return FAILED;
      await finishCopy(to, clock);
      return 0;
    } catch (error) {
      progress.clear();
      if (!signal.aborted) throw resumable(error);
      err.write(`Stopped. ${GOES_ON}\n`);
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
  summary: "copies all that one storage keeps into another one",
  usage: USAGE,
  run: async (args, surroundings) => copy(await readPlaces(args, surroundings), surroundings),
};
