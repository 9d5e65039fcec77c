/** `storage check`: finds and repairs inconsistencies of a storage. */
import { KINDS } from "../../records/all-kinds.ts";
import { storeOf } from "../../records/kinds.ts";
import { type Check, type Flaw, kindChecks } from "../../records/record-check.ts";
import type { Clock } from "../../core/clock.ts";
import { deliveryChecks } from "../../records/deliveries/delivery-check.ts";
import { directoryChecks } from "../../records/directory/directory-check.ts";
import { attributeCheck } from "../../accounts/attribute-pruning.ts";
import { findSearchKey } from "../../accounts/keys/service-keys.ts";
import { searchCheck } from "../../accounts/search/search-index.ts";
import { allWays } from "../../accounts/ways/ways.ts";
import { factorChecks } from "../../records/factors/factor-check.ts";
import { namesOf } from "../../accounts/names.ts";
import { databaseFile } from "../../config/storage-address.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { createSealer, type Sealer } from "../../core/sealing.ts";
import { keyFileOf, readKeyFile } from "../../config/keys.ts";
import { sealedChecks } from "../../records/sealed-store.ts";
import { describeAddress, readOwnAddress, type StorageAddress } from "../program/addresses.ts";
import type { Run, CommandContext } from "../program/command.ts";
import { FAILED, INTERRUPTED, UNREACHABLE } from "../program/command-failure.ts";
import { openAddressed, type OpenStores } from "../program/open-stores.ts";
import { printable } from "../program/printable.ts";
import { Progress } from "../program/progress.ts";

const COUNTED_TOGETHER = 1_000;
/** Records that a check reads at a time. */
const SAMPLED = 500;
/** From this many records on, people want to know how long it takes. */
const MANY = 20_000;
/** A check stops after this many flaws. */
const MAX_FLAWS = 10_000;
/** At most this many flaws of a check are listed. */
const MAX_LISTED = 5;
/** The length of a listed flaw. */
const MAX_SHOWN_CHARACTERS = 300;

/** The result of one check. */
interface Finding {
  readonly check: Check;
  /** How many flaws were repaired, and how many are left. */
  readonly repaired: number;
  readonly left: number;
  /** Some of the flaws that were found. */
  readonly examples: readonly string[];
  /** Why the check or the repair failed. */
  readonly obstacle?: string;
  /** Whether it failed because the storage can't be reached. */
  readonly isUnreachable?: boolean;
}

/** Why a check failed, for example on a record that can't be read. */
function obstacleOf(error: unknown): string {
  if (error instanceof StorageUnavailable) return error.message;
  return String(Reflect.get(Object(error), "name"));
}

/** Runs a check. If requested, repairs what it found and runs it again, as long as that repairs something. */
async function make(check: Check, wantsRepair: boolean, signal: AbortSignal): Promise<Finding> {
  let found: readonly Flaw[] = [];
  let repaired = 0;
  let examples: readonly string[] = [];
  try {
    found = await check.find(MAX_FLAWS);
    examples = found.slice(0, MAX_LISTED).map(({ shown }) => shown);
    for (let hasHelped = wantsRepair; hasHelped && found.length > 0 && check.repair !== undefined;) {
      signal.throwIfAborted();
      await check.repair(found);
      const left = await check.find(MAX_FLAWS);
      const ids = new Set(left.map(({ id }) => id));
      const fixed = found.filter(({ id }) => !ids.has(id)).length;
      repaired += fixed;
      found = left;
      hasHelped = fixed > 0;
    }
    return { check, repaired, left: found.length, examples };
  } catch (error) {
    if (signal.aborted) throw error;
    return {
      check,
      repaired,
      left: Math.max(1, found.length),
      examples,
      obstacle: obstacleOf(error),
      isUnreachable: error instanceof StorageUnavailable,
    };
  }
}

/** `accounts: 3 accounts with a sign-in name that is not theirs (account a, …): repaired`. */
function describe({ check, repaired, left, examples, obstacle }: Finding): string {
  const count = repaired + left;
  const some = examples.map((text) => printable(text.slice(0, MAX_SHOWN_CHARACTERS))).join(", ");
  const list = some === "" ? "" : ` (${some}${count > examples.length ? ", …" : ""})`;
  const what = `${check.part}: ${count >= MAX_FLAWS ? "at least " : ""}${count} ${check.problem}${list}`;
  if (obstacle !== undefined)
    return `${check.part}: ${check.problem}: can't be checked or repaired: ${obstacle}`;
  if (left === 0) return `${what}: repaired`;
  if (repaired > 0) return `${what}: ${repaired} repaired, ${left} not`;
  return what;
}

function advice(wrong: readonly Finding[], wantsRepair: boolean): string {
  const isRepairable = wrong.some(
    ({ check, obstacle }) => check.repair !== undefined && obstacle === undefined,
  );
  if (wantsRepair) return "The rest needs a decision.";
  return isRepairable ? "Run it with --repair to repair what can be repaired." : "They need a decision.";
}

const toFlaws = (texts: readonly string[]): Flaw[] => texts.map((text) => ({ id: text, shown: text }));

/** The checks of a database file itself. */
export async function fileChecks(path: string): Promise<Check[]> {
  const { findDamage, rebuildIndexes } = await import("../../adapters/sqlite/database-file.ts");
  return [
    {
      part: "file",
      problem: "damaged parts of the file: restore it from a backup",
      find: async (limit) => toFlaws(findDamage(path, limit).lines),
    },
    {
      part: "file",
      problem: "indexes that don't match their tables",
      find: async (limit) => toFlaws(findDamage(path, limit).indexes),
      async repair(flaws) {
        rebuildIndexes(
          path,
          flaws.map(({ id }) => id),
        );
      },
    },
  ];
}

/** The warnings about the Redis server from when it was opened. */
function settingsCheck(warnings: readonly string[]): Check {
  return {
    part: "artifacts",
    problem: "unsuitable settings",
    find: () => Promise.resolve(toFlaws(warnings)),
  };
}

/** The checks in their order: each relies on those before it. */
async function checksOf(
  { storage, artifacts, accounts }: StorageAddress,
  stores: OpenStores,
  warnings: readonly string[],
  { clock, sealer }: { readonly clock: Clock; readonly sealer: Sealer | undefined },
): Promise<Check[]> {
  const database = databaseFile(storage);
  const searchKey = sealer && (await findSearchKey(stores.storage, sealer));
  return [
    ...(database === undefined ? [] : await fileChecks(database)),
    ...(artifacts === undefined ? [] : [settingsCheck(warnings)]),
    ...kindChecks(KINDS, stores, clock),
    ...directoryChecks(stores, namesOf, clock),
    ...factorChecks(stores, allWays(), clock),
    ...(accounts === undefined ? [] : [attributeCheck(stores, accounts)]),
    ...(searchKey === undefined ? [] : [searchCheck(stores, searchKey, clock)]),
    ...deliveryChecks(stores, KINDS, clock),
    ...(sealer === undefined ? [] : sealedChecks(stores, sealer, clock)),
  ];
}

/** What the checks read, and how much of it they have read. */
class Reading {
  readonly #stores: OpenStores;
  readonly #signal: AbortSignal;
  readonly #progress: Progress;
  /** Records by kind. */
  readonly #counts = new Map<string, number>();
  #isSample = false;
  #total = 0;
  #done = 0;
  #doing = "";

  constructor(stores: OpenStores, signal: AbortSignal, progress: Progress) {
    this.#stores = stores;
    this.#signal = signal;
    this.#progress = progress;
    for (const store of new Set([stores.storage, stores.artifacts])) {
      const scan = store.scan.bind(store);
      store.scan = async (kind, after, limit) => {
        signal.throwIfAborted();
        const page = await scan(kind, after, limit);
        if (this.#isSample) return { records: page.records };
        this.#done += page.records.length;
        // Counting a few takes no time.
        if (this.#total > 0 || this.#done >= MANY) this.show();
        return page;
      };
    }
  }

  /** How many records there are. */
  async count(): Promise<number> {
    for (const kind of KINDS.all) {
      this.#doing = `counting ${kind.name}`;
      const before = this.#done;
      let after: string | undefined;
      try {
        do {
          ({ next: after } = await storeOf(this.#stores, kind).scan(kind.name, after, COUNTED_TOGETHER));
        } while (after !== undefined);
      } catch {
        // The checks report what can't be read.
        this.#signal.throwIfAborted();
      }
      this.#counts.set(kind.name, this.#done - before);
    }
    return this.#done;
  }

  /** Milliseconds that the checks will take, by how long each takes for one page. */
  async estimate(checks: readonly Check[]): Promise<number> {
    this.#isSample = true;
    let all = 0;
    for (const check of checks) {
      const count = this.#counts.get(check.part);
      if (count === undefined || count === 0) continue;
      this.#signal.throwIfAborted();
      const began = performance.now();
      await check.find(1).catch(() => undefined);
      all += (performance.now() - began) * Math.max(1, count / SAMPLED);
    }
    this.#isSample = false;
    return all;
  }

  begin(checks: readonly Check[]): void {
    this.#total = checks.reduce((all, { part }) => all + (this.#counts.get(part) ?? 0), 0);
    this.#done = 0;
  }

  show(doing: string = this.#doing): void {
    this.#doing = doing;
    this.#progress.update(doing, this.#done, this.#total === 0 ? undefined : this.#total);
  }
}

const number = new Intl.NumberFormat("en");

/** A time that nobody should take for exact. */
function roughly(milliseconds: number): string {
  const minutes = Math.ceil(milliseconds / 60_000);
  if (minutes <= 1) return "less than a minute";
  return minutes < 120 ? `about ${minutes} minutes` : `about ${Math.ceil(minutes / 60)} hours`;
}

/** Opens what is sealed; `undefined` without the keys of the storage. */
async function sealerOf({ storage, keys }: StorageAddress): Promise<Sealer | undefined> {
  const keyFile = keyFileOf(storage);
  const secrets = keys ?? (keyFile === undefined ? undefined : await readKeyFile(keyFile));
  return secrets === undefined || secrets.length === 0 ? undefined : createSealer(secrets);
}

async function checkAll(
  address: StorageAddress,
  wantsRepair: boolean,
  context: CommandContext,
): Promise<number> {
  const { clock, signal, out, err } = context;
  err.write(`${describeAddress(address)}\n`);
  const sealer = await sealerOf(address);
  if (sealer === undefined)
    err.write("Sealed values are not opened, because keys.secrets is not known: see --config.\n");
  if (address.accounts === undefined)
    err.write("Attributes of accounts are not compared with accounts.attributes: see --config.\n");
  const warnings: string[] = [];
  const onWarning = (text: string): void => void warnings.push(text);
  const stores = await openAddressed(address, { name: "ADDRESS", mustExist: true, onWarning }, clock);
  const progress = new Progress(err);
  const findings: Finding[] = [];
  let made = 0;
  try {
    const checks = await checksOf(address, stores, warnings, { clock, sealer });
    made = checks.length;
    const reading = new Reading(stores, signal, progress);
    const count = await reading.count();
    if (count >= MANY) {
      const duration = roughly(await reading.estimate(checks));
      progress.clear();
      err.write(`${number.format(count)} records; checking them takes ${duration}.\n`);
    }
    reading.begin(checks);
    for (const check of checks) {
      signal.throwIfAborted();
      reading.show(`checking ${check.part}`);
      const finding = await make(check, wantsRepair, signal);
      findings.push(finding);
      progress.clear();
      if (finding.left + finding.repaired > 0) out.write(`${describe(finding)}\n`);
    }
  } catch (error) {
    progress.clear();
    if (!signal.aborted) throw error;
    err.write("Stopped.\n");
    return INTERRUPTED;
  } finally {
    await stores.close();
  }
  const wrong = findings.filter(({ left }) => left > 0);
  out.write(
    wrong.length === 0
      ? `${findings.some(({ repaired }) => repaired > 0) ? "All problems are repaired" : "No problems found"} (${made} checks).\n`
      : `${wrong.length} of ${made} checks found problems. ${advice(wrong, wantsRepair)}\n`,
  );
  if (wrong.some(({ isUnreachable }) => isUnreachable)) return UNREACHABLE;
  return wrong.length === 0 ? 0 : FAILED;
}

export const runCheck: Run = async (args, context) => {
  const options = {
    name: "ADDRESS",
    address: args.operands[0],
    artifacts: args.text("artifacts"),
  };
  const address = await readOwnAddress(options, args, context);
  return checkAll(address, args.flag("repair"), context);
};
