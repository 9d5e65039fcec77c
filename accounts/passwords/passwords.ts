/** Passwords: rules for new ones, hashing, and comparing in a time that does not reveal whether an account exists. */
import type { PasswordRules } from "../../config/configuration.ts";
import { characters } from "../text-rules.ts";
import { InvalidPassword, StorageUnavailable } from "../../core/errors.ts";
import type { HashTiming } from "../../core/metrics.ts";
import type { BreachCheck } from "./breach-check.ts";
import { createHashThreads } from "./hash-threads.ts";
import { argon2Parameters, readForeignHash } from "./password-formats.ts";
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
   * The rule that a chosen password breaks; `undefined` if it breaks none.
   * @param names of the account: the password must not be one of them.
   */
  problem(password: string, names: PasswordNames): Promise<PasswordProblem | undefined>;
  /** @throws InvalidPassword with that rule. */
  check(password: string, names: PasswordNames): Promise<void>;
  /**
   * Only the rules about length and characters, for passwords that are in use elsewhere.
   * @throws InvalidPassword when it breaks one.
   */
  checkForm(password: string): void;
  /** The Argon2id hash as a PHC string. It may wait for any length of time: comparisons go first. */
  hash(password: string): Promise<string>;
  /**
   * Whether this is the password, in its normal form or as it was typed. `null` stands for an account that has no
   * password or does not exist: the answer is `false` after the same time. A wrong password never takes less time:
   * against a hash of another algorithm or a lower cost, it is also hashed at our cost. A password that is too long is
   * `false` immediately, for every account.
   * @throws StorageUnavailable when too many comparisons are waiting, or this one has waited too long.
   */
  verify(hash: string | null, password: string): Promise<boolean>;
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
const LIMITS: QueueLimits = { maxWaiting: 256, maxWaitMs: 4_500 };

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
  const queue = createHashQueue(threads.capacity, LIMITS, onHashed);
  const cost = { memoryCost: memory, timeCost: passes, parallelism: lanes };
  const newLength = length ?? { min: rules.minLength, max: rules.maxLength };
  const problem = createPasswordRules({ length: newLength, service, breaches });
  let isClosed = false;

  function run<T>(priority: Priority, work: () => Promise<T>): Promise<T> {
    return queue(priority, () => {
      // Work that waited until now would start a new thread, and keep the process alive until all of it is done.
      if (isClosed) throw new StorageUnavailable("password hashing is closed");
      return work();
    });
  }

  function needsRehash(hash: string): boolean {
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
  async function compare(hash: string | null, password: string): Promise<boolean> {
    if (hash !== null && readForeignHash(hash) !== undefined) {
      // A faster answer than for an unknown name would reveal that the account exists.
      const options = { duration: durationOf(hash), costIfWrong: needsRehash(hash) ? cost : undefined };
      return run("interactive", () => threads.compare(hash, password, options));
    }
    // Hashing takes as long as comparing, so an unknown account takes as long as a known one.
    await run("interactive", () => threads.hash(password, cost));
    return false;
  }

  return {
    length: newLength,
    problem,
    warm: () => threads.warm(),
    async check(password, names) {
      refuse(newLength, await problem(password, names));
    },
    checkForm: (password) =>
      refuse(newLength, formProblem(password, { min: rules.minLength, max: rules.maxLength })),
    hash: (password) => run("background", () => threads.hash(password.normalize("NFKC"), cost)),
    async verify(hash, password) {
      for (const spelling of spellings(rules, password)) {
        if (await compare(hash, spelling)) return true;
      }
      return false;
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

/** `interactive`: an end user waits for the answer, so it goes first. `background`: it may wait indefinitely. */
type Priority = HashTiming["priority"];

/** Limits for interactive work; beyond them it is refused with `StorageUnavailable`. */
interface QueueLimits {
  /** How many may wait. */
  readonly maxWaiting: number;
  /** Work that has waited longer is refused instead of started. */
  readonly maxWaitMs: number;
}

/**
 * A semaphore with two priorities and a limit on waiting. It keeps a flood of sign-ins from making every sign-in too
 * late: those that can't be answered within the time of a request get a 503 with `Retry-After` instead.
 * @param capacity how many run in parallel.
 * @param onHashed called when work has ended or was refused.
 */
export function createHashQueue(
  capacity: number,
  { maxWaiting, maxWaitMs }: QueueLimits,
  onHashed: (timing: HashTiming) => void = () => undefined,
): <T>(priority: Priority, work: () => Promise<T>) => Promise<T> {
  const waiting: Record<Priority, (() => void)[]> = { interactive: [], background: [] };
  let running = 0;

  /** Passes the slot to the next in line, so that newer work can't take it. */
  function release(): void {
    const start = waiting.interactive.shift() ?? waiting.background.shift();
    if (start === undefined) running -= 1;
    else start();
  }

  return async (priority, work) => {
    const since = performance.now();
    const giveUp = (): never => {
      onHashed({ priority, waited: (performance.now() - since) / 1000, seconds: undefined });
      throw new StorageUnavailable("too many passwords are being checked at once");
    };
    if (running < capacity) running += 1;
    else {
      const isLimited = priority === "interactive";
      if (isLimited && waiting.interactive.length >= maxWaiting) giveUp();
      await new Promise<void>((resolve) => waiting[priority].push(resolve));
      if (isLimited && performance.now() - since > maxWaitMs) {
        release();
        giveUp();
      }
    }
    const startedAt = performance.now();
    try {
      return await work();
    } finally {
      release();
      const seconds = (performance.now() - startedAt) / 1000;
      onHashed({ priority, waited: (startedAt - since) / 1000, seconds });
    }
  };
}
