/** Passwords: rules for new ones, hashing, and comparing in a time that does not reveal whether an account exists. */
import type { PasswordRules } from "../../config/configuration.ts";
import { characters } from "../text-rules.ts";
import { InvalidPassword, StorageUnavailable } from "../../core/errors.ts";
import { FairQueue } from "../../core/fair-queue.ts";
import type { HashTiming } from "../../core/metrics.ts";
import type { BreachCheck } from "./breach-check.ts";
import { createHashThreads } from "./hash-threads.ts";
import { argon2idPart, argon2Parameters, readForeignHash } from "./password-formats.ts";
import {
  createPasswordRules,
  formProblem,
  normalPassword,
  type PasswordLength,
  type PasswordProblem,
} from "./password-rules.ts";

/** The names that a password must not be: those of its account. */
export type PasswordNames = readonly (string | null | undefined)[];

/** Hashing and comparing passwords. */
export interface Passwords {
  /** The minimum and maximum length of a new password. */
  readonly length: PasswordLength;
  /**
   * The rule that a chosen password breaks, as far as this process knows; `undefined` if it breaks none.
   * @param names of the account: the password must not be one of them.
   */
  problem(password: string, names: PasswordNames): PasswordProblem | undefined;
  /**
   * Whether a password that breaks no other rule is known from a data breach. `false` if that is not checked. It asks
   * another service, so for somebody who is not signed in, take the points of a limit first.
   * @param party who waits: see `verify`.
   * @throws StorageUnavailable when too many wait.
   */
  isBreached(password: string, party?: string): Promise<boolean>;
  /** @throws InvalidPassword with the rule that the password breaks, the breach check included. */
  check(password: string, names: PasswordNames): Promise<void>;
  /**
   * Only the rules about length and characters, for passwords that are in use elsewhere.
   * @throws InvalidPassword when it breaks one.
   */
  checkForm(password: string): void;
  /**
   * The Argon2id hash as a PHC string.
   * @param party who waits for it: see `verify`. Default: nobody. Then it may wait for any length of time.
   * @throws StorageUnavailable as `verify`, for a party.
   */
  hash(password: string, party?: string): Promise<string>;
  /**
   * Whether this is the password, in its normal form or as it was typed. `null` stands for an account that has no
   * password or does not exist: the answer is `false` after the same time. A wrong password never takes less time:
   * against a hash of another algorithm or a lower cost, it is also hashed at our cost. A password that is too long is
   * `false` immediately, for every account.
   * @param party who waits: a network or a client. Parties take turns, and when too much waits, the one that has most
   *   waiting gives way. Default: the callers of the library.
   * @throws StorageUnavailable when it gives way, or has waited too long.
   */
  verify(hash: string | null, password: string, party?: string): Promise<boolean>;
  /** Whether the hash is weaker than the rules require, or of another algorithm. */
  needsRehash(hash: string): boolean;
  /** Starts a thread and loads what it needs, so that the first sign-in does not wait for that. */
  warm(): Promise<void>;
  /** Ends the threads. Running and waiting work is refused with `StorageUnavailable`. */
  close(): Promise<void>;
}

/** KiB of memory with the passes that they require, from OWASP's Password Storage Cheat Sheet (Argon2id). */
const OWASP_MINIMUM: readonly { readonly memory: number; readonly passes: number }[] = [
  { memory: 47_104, passes: 1 },
  { memory: 19_456, passes: 2 },
  { memory: 12_288, passes: 3 },
  { memory: 9_216, passes: 4 },
  { memory: 7_168, passes: 5 },
];

/** At about 100 hashes a second, 256 comparisons take half of the time that a request may take. */
const LIMITS = { maxWaiting: 256, maxWaitMs: 4_500 };

/** The party of comparisons that a host application asks for. */
const LIBRARY = "library";

/** What the rules for new passwords depend on besides their configuration. */
export interface PasswordContext {
  /** Default: as in `rules`. */
  readonly length?: PasswordLength;
  /** The names of the service. Default: none. */
  readonly service?: readonly string[];
  /** Default: that is not checked. */
  readonly breaches?: BreachCheck | undefined;
  /** Hashes at the lowest cost that Argon2 accepts, for test services. Default `false`: at the cost of the rules. */
  readonly isCheap?: boolean | undefined;
  /** Called after each hash and comparison, for metrics. */
  readonly onHashed?: (timing: HashTiming) => void;
}

/** The least that Argon2 accepts. */
const CHEAPEST = { memory: 8, passes: 1, lanes: 1 };

/**
 * @param rules hashing cost, length in Unicode characters, and how many hashes are computed in parallel.
 * @throws TypeError when the cost is below OWASP's minimum.
 */
export function createPasswords(
  rules: PasswordRules,
  { length, service = [], breaches, isCheap = false, onHashed }: PasswordContext = {},
): Passwords {
  const { memory, passes, lanes } = isCheap ? CHEAPEST : rules;
  const isEnough = isCheap || OWASP_MINIMUM.some((min) => memory >= min.memory && passes >= min.passes);
  if (!isEnough) throw new TypeError("passwords: memory and passes are below OWASP's minimum for Argon2id");
  const threads = createHashThreads(rules.parallel);
  const queue = new FairQueue({
    capacity: threads.capacity,
    ...LIMITS,
    refusal: "too many passwords are being checked at once",
  });
  const cost = { memoryCost: memory, timeCost: passes, parallelism: lanes };
  const newLength = length ?? { min: rules.minLength, max: rules.maxLength };
  const problem = createPasswordRules({ length: newLength, service });
  let isClosed = false;

  /** @param party `undefined`: nobody waits for it. */
  async function run<T>(party: string | undefined, work: () => Promise<T>): Promise<T> {
    const priority = party === undefined ? "background" : "interactive";
    const since = performance.now();
    let startedAt: number | undefined;
    let leave: (() => void) | undefined;
    try {
      leave = await queue.enter(party);
      // Work that waited until now would start a new thread, and keep the process alive until all of it is done.
      if (isClosed) throw new StorageUnavailable("password hashing is closed");
      startedAt = performance.now();
      return await work();
    } finally {
      leave?.();
      const now = performance.now();
      const seconds = startedAt === undefined ? undefined : (now - startedAt) / 1000;
      onHashed?.({ priority, waited: ((startedAt ?? now) - since) / 1000, seconds });
    }
  }

  function needsRehash(hash: string): boolean {
    return hash !== argon2idPart(hash) || isCheaper(hash);
  }

  /** Whether a comparison with it may take less time than one with a hash of ours. */
  function isCheaper(hash: string): boolean {
    const known = hash.startsWith("$argon2id$v=19$") ? argon2Parameters(hash) : undefined;
    if (known === undefined) return true;
    const { memoryCost, timeCost, parallelism } = known;
    return memoryCost < memory || timeCost < passes || parallelism < lanes;
  }

  /** Only hashes with exactly our cost take the usual time. */
  function durationOf(hash: string): "usual" | "long" {
    const known = hash.startsWith("$argon2id$") ? argon2Parameters(hash) : undefined;
    const isUsual = known?.memoryCost === memory && known.timeCost === passes;
    return isUsual ? "usual" : "long";
  }

  /** Compares one spelling. */
  async function compare(hash: string | null, password: string, party: string): Promise<boolean> {
    if (hash !== null && readForeignHash(hash) !== undefined) {
      // A faster answer than for an unknown name would reveal that the account exists.
      const options = {
        duration: durationOf(hash),
        costIfWrong: isCheaper(argon2idPart(hash)) ? cost : undefined,
      };
      return run(party, () => threads.compare(hash, password, options));
    }
    // Hashing takes as long as comparing, so an unknown account takes as long as a known one.
    await run(party, () => threads.hash(password, cost));
    return false;
  }

  const isBreached: Passwords["isBreached"] = async (password, party = LIBRARY) =>
    (await breaches?.(password.normalize("NFKC"), party)) === true;

  return {
    length: newLength,
    problem,
    isBreached,
    warm: () => threads.warm(),
    async check(password, names) {
      refuse(newLength, problem(password, names));
      refuse(newLength, (await isBreached(password)) ? "breached" : undefined);
    },
    checkForm: (password) =>
      refuse(newLength, formProblem(password, { min: rules.minLength, max: rules.maxLength })),
    hash: (password, party) => run(party, () => threads.hash(password.normalize("NFKC"), cost)),
    async verify(hash, password, party = LIBRARY) {
      // All of them, so that the time does not tell which one matched.
      let matches = false;
      for (const spelling of spellings(rules, password))
        matches = (await compare(hash, spelling, party)) || matches;
      return matches;
    },
    needsRehash,
    close() {
      isClosed = true;
      return threads.close();
    },
  };
}

/** @throws InvalidPassword */
function refuse({ min, max }: PasswordLength, problem: PasswordProblem | undefined): void {
  if (problem === undefined) return;
  const texts: Readonly<Record<PasswordProblem, string>> = {
    "too-short": `a password must have at least ${min} characters`,
    "too-long": `a password must have at most ${max} characters`,
    characters: "a password must not have NUL or broken characters",
    common: "a password must not be one of the most common ones",
    name: "a password must not be a name of the account or the service",
    breached: "a password must not be known from a data breach",
  };
  throw new InvalidPassword(problem, texts[problem]);
}

/**
 * The passwords that a typed one may stand for: its normal form, and the text itself, because old and imported hashes
 * are of what was typed. None if it is too long for every account.
 */
function spellings({ maxLength }: PasswordRules, password: string): readonly string[] {
  const normal = normalPassword(password, maxLength);
  const isShort = password.length <= 2 * maxLength && characters(password) <= maxLength;
  return [...new Set([...(normal === undefined ? [] : [normal]), ...(isShort ? [password] : [])])];
}
