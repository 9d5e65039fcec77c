/** `storage check`: whether indexes fit what they lead to, and putting them right. */
import { KINDS } from "../lib/all-kinds.ts";
import { type Check, type Flaw, kindChecks } from "../lib/check.ts";
import type { Clock } from "../lib/clock.ts";
import { deliveryChecks } from "../lib/deliveries/check.ts";
import { directoryChecks } from "../lib/directory/check.ts";
import { namesOf } from "../lib/domain/text-rules.ts";
import { isSqlite } from "../config/value-forms.ts";
import { StorageUnavailable } from "../lib/errors.ts";
import { describePlace, pathOf, type Place, readPlace } from "./addresses.ts";
import { parseArguments } from "./arguments.ts";
import type { Command, Surroundings } from "./command.ts";
import { FAILED, misused } from "./command-failure.ts";
import { openPlace, type OpenPlace } from "./open-place.ts";
import { Progress } from "./progress.ts";

const USAGE = `Usage: sign-in-service storage check ADDRESS [options]

Reports what is wrong with a storage: damage, records that their indexes do not lead to, sign-in names that lead nowhere
or astray, lanes of notifications that do not fit their deliveries, and the like. A service may be running on it meanwhile.

ADDRESS is one as in the configuration: sqlite:PATH, postgresql://HOST/DATABASE, mongodb://HOST/DATABASE; or env:NAME for
one in that environment variable.

  --artifacts ADDRESS  where the artifacts are: redis://… or rediss://…; default: in the storage
  --config FILE        a configuration (JSON) whose "storage" and "artifacts" count, in place of ADDRESS
  --repair             puts right what can be put right without a person's decision
  --help               this text

Exit codes: 0 nothing is wrong, or all of it was put right; 1 something is wrong; 2 wrong arguments.
`;

/** Flaws of one kind that are looked for at once. */
const LIMIT = 10_000;
/** Of so many is told which they are. */
const SHOWN = 5;
/** Characters of each. */
const LONGEST = 300;

/** What one check came to. */
interface Finding {
  readonly check: Check;
  /** How many flaws were put right, and how many there are now. */
  readonly repaired: number;
  readonly left: number;
  /** Some of those that were found. */
  readonly examples: readonly string[];
  /** Why the check or the repair could not be done. */
  readonly obstacle?: string;
}

/** Why a check could not be made: a record that can't be read, too. */
function obstacleOf(error: unknown): string {
  if (error instanceof StorageUnavailable) return error.message;
  return String(Reflect.get(Object(error), "name"));
}

/** Looks; and, if that is wanted, repairs what was found and looks again, for as long as it helps. */
async function make(check: Check, wantsRepair: boolean, signal: AbortSignal): Promise<Finding> {
  let found: readonly Flaw[] = [];
  let repaired = 0;
  let examples: readonly string[] = [];
  try {
    found = await check.find(LIMIT);
    examples = found.slice(0, SHOWN).map(({ shown }) => shown);
    for (let hasHelped = wantsRepair; hasHelped && found.length > 0 && check.repair !== undefined;) {
      signal.throwIfAborted();
      await check.repair(found);
      const left = await check.find(LIMIT);
      const ids = new Set(left.map(({ id }) => id));
      const fixed = found.filter(({ id }) => !ids.has(id)).length;
      repaired += fixed;
      found = left;
      hasHelped = fixed > 0;
    }
    return { check, repaired, left: found.length, examples };
  } catch (error) {
    if (signal.aborted) throw error;
    return { check, repaired, left: Math.max(1, found.length), examples, obstacle: obstacleOf(error) };
  }
}

/** Keys may hold anything, and terminals obey some of it. */
function printable(text: string): string {
  return text.slice(0, LONGEST).replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, "\uFFFD");
}

/** `accounts: 3 sign-in names that lead to no account (account a, …): repaired`. */
function describe({ check, repaired, left, examples, obstacle }: Finding): string {
  const count = repaired + left;
  const some = examples.map(printable).join(", ");
  const list = some === "" ? "" : ` (${some}${count > examples.length ? ", …" : ""})`;
  const what = `${check.part}: ${count >= LIMIT ? "at least " : ""}${count} ${check.problem}${list}`;
  if (obstacle !== undefined)
    return `${check.part}: ${check.problem}: can't be looked at or put right: ${obstacle}`;
  if (left === 0) return `${what}: repaired`;
  if (repaired > 0) return `${what}: ${repaired} repaired, ${left} not`;
  return what;
}

function advice(wrong: readonly Finding[], wantsRepair: boolean): string {
  const isRepairable = wrong.some(
    ({ check, obstacle }) => check.repair !== undefined && obstacle === undefined,
  );
  if (wantsRepair) return "What is left needs a person.";
  return isRepairable ? "--repair puts right what can be." : "It needs a person.";
}

const toFlaws = (texts: readonly string[]): Flaw[] => texts.map((text) => ({ id: text, shown: text }));

/** Of a database file itself. */
async function fileChecks(path: string): Promise<Check[]> {
  const { findDamage, makeIndexes } = await import("../adapters/sqlite/database-file.ts");
  return [
    {
      part: "file",
      problem: "damages of the file: restore it from a backup",
      find: async (limit) => toFlaws(findDamage(path, limit).lines),
    },
    {
      part: "file",
      problem: "indexes that do not fit their tables",
      find: async (limit) => toFlaws(findDamage(path, limit).indexes),
      async repair(flaws) {
        makeIndexes(
          path,
          flaws.map(({ id }) => id),
        );
      },
    },
  ];
}

/** What the server of the artifacts has said of itself when it was opened. */
function settingsCheck(warnings: readonly string[]): Check {
  return {
    part: "artifacts",
    problem: "settings that are wrong",
    find: () => Promise.resolve(toFlaws(warnings)),
  };
}

/** In the order in which they are made: each can count on those before it. */
async function checksOf(
  { storage, artifacts }: Place,
  stores: OpenPlace,
  warnings: readonly string[],
  clock: Clock,
): Promise<Check[]> {
  return [
    ...(isSqlite(storage) ? await fileChecks(pathOf(storage)) : []),
    ...(artifacts === undefined ? [] : [settingsCheck(warnings)]),
    ...kindChecks(KINDS, stores, clock),
    ...directoryChecks(stores, namesOf, clock),
    ...deliveryChecks(stores, KINDS, clock),
  ];
}

async function checkAll(place: Place, wantsRepair: boolean, surroundings: Surroundings): Promise<number> {
  const { clock, signal, out, err } = surroundings;
  err.write(`${describePlace(place)}\n`);
  const warnings: string[] = [];
  const onWarning = (text: string): void => void warnings.push(text);
  const stores = await openPlace(place, { name: "ADDRESS", mustExist: true, onWarning }, clock);
  const progress = new Progress(err);
  const findings: Finding[] = [];
  let made = 0;
  try {
    const checks = await checksOf(place, stores, warnings, clock);
    made = checks.length;
    for (const [index, check] of checks.entries()) {
      signal.throwIfAborted();
      progress.update(`checking ${check.part}`, index, checks.length);
      const finding = await make(check, wantsRepair, signal);
      findings.push(finding);
      progress.clear();
      if (finding.left + finding.repaired > 0) out.write(`${describe(finding)}\n`);
    }
  } catch (error) {
    progress.clear();
    if (!signal.aborted) throw error;
    err.write("Stopped.\n");
    return FAILED;
  } finally {
    await stores.close();
  }
  const wrong = findings.filter(({ left }) => left > 0);
  out.write(
    wrong.length === 0
      ? `Nothing is wrong${findings.some(({ repaired }) => repaired > 0) ? " any more" : ""} (${made} checks).\n`
      : `${wrong.length} of ${made} checks found something wrong. ${advice(wrong, wantsRepair)}\n`,
  );
  return wrong.length === 0 ? 0 : FAILED;
}

async function run(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { values, positionals } = parseArguments(args, {
    artifacts: { type: "string" },
    config: { type: "string" },
    repair: { type: "boolean" },
  });
  const [address, ...more] = positionals;
  if (more.length > 0) throw misused("There is an address too many");
  const { artifacts, config, repair = false } = values;
  const place = await readPlace({ name: "ADDRESS", address, artifacts, config }, surroundings.readVariable);
  return checkAll(place, repair, surroundings);
}

export const storageCheck: Command = {
  words: ["storage", "check"],
  summary: "reports what is wrong with a storage, and repairs its indexes",
  usage: USAGE,
  run,
};
