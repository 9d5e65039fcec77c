/** `storage check`: whether indexes fit what they lead to, and putting them right. */
import type { Check, Flaw } from "../adapters/check.ts";
import { openChecks } from "../adapters/open-checks.ts";
import { namesOf } from "../lib/domain/names.ts";
import { StorageUnavailable } from "../lib/errors.ts";
import { describePlace, type Place, readPlace } from "./addresses.ts";
import { parseArguments } from "./arguments.ts";
import type { Command, Surroundings } from "./command.ts";
import { FAILED, misused } from "./command-failure.ts";
import { opened } from "./opened.ts";
import { Progress } from "./progress.ts";

const USAGE = `Usage: sign-in-service storage check ADDRESS [options]

Reports what is wrong with a storage: damage, missing indexes, sign-in names that lead nowhere or astray, lanes of
notifications that do not fit their deliveries, and the like. A service may be running on it meanwhile.

ADDRESS is one as in the configuration: sqlite:PATH, mongodb://HOST/DATABASE; or env:NAME for one in that environment
variable.

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

async function checkAll(place: Place, wantsRepair: boolean, surroundings: Surroundings): Promise<number> {
  const { clock, signal, out, err } = surroundings;
  const { storage, artifacts } = place;
  err.write(`${describePlace(place)}\n`);
  const storageChecks = await opened("ADDRESS", () =>
    openChecks({ storage, ...(artifacts !== undefined && { artifacts }), clock, namesOf }),
  );
  const { checks } = storageChecks;
  const progress = new Progress(err);
  const findings: Finding[] = [];
  try {
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
    await storageChecks.close();
  }
  const wrong = findings.filter(({ left }) => left > 0);
  out.write(
    wrong.length === 0
      ? `Nothing is wrong${findings.some(({ repaired }) => repaired > 0) ? " any more" : ""} (${checks.length} checks).\n`
      : `${wrong.length} of ${checks.length} checks found something wrong. ${advice(wrong, wantsRepair)}\n`,
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
