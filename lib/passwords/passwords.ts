/** Passwords: rules for new ones, hashing, and comparing in a time that does not reveal whether an account exists. */
import type { PasswordRules } from "../../config/configuration.ts";
import { characters } from "../domain/text-rules.ts";
import { InvalidPassword, StorageUnavailable } from "../errors.ts";
import { createHashThreads } from "./hash-threads.ts";
import { argon2Parameters, readForeignHash } from "./password-formats.ts";

/** Hashing and comparing passwords. */
export interface Passwords {
  /** @throws InvalidPassword when a new password breaks a rule; the message says which. */
  check(password: string): void;
  /** The Argon2id hash as a PHC string. It may wait for any length of time: comparisons go first. */
  hash(password: string): Promise<string>;
  /**
   * Whether this is the password. `null` stands for an account that has no password or does not exist: the answer is
   * `false` after the same time. A wrong password never takes less: against a hash of another algorithm or a lower cost
   * it is also hashed at our cost. A password that is too long is `false` immediately, for every account.
   * @throws StorageUnavailable when too many comparisons are waiting, or this one has waited too long.
   */
  verify(hash: string | null, password: string): Promise<boolean>;
  /** Whether the hash is weaker than the rules require, or of another algorithm. */
  needsRehash(hash: string): boolean;
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
const LIMITS: QueueLimits = { maxWaiting: 256, maxWait: 4_500 };

/**
 * @param rules hashing cost, length in Unicode characters, and how many hashes are computed in parallel.
 * @throws TypeError when the cost is below OWASP's minimum.
 */
export function createPasswords(rules: PasswordRules): Passwords {
  const isEnough = OWASP_MINIMUM.some(
    ({ memory, passes }) => rules.memory >= memory && rules.passes >= passes,
  );
  if (!isEnough) throw new TypeError("passwords: memory and passes are below OWASP's minimum for Argon2id");
  const threads = createHashThreads(rules.parallel);
  const queue = createHashQueue(threads.capacity, LIMITS);
  const cost = { memoryCost: rules.memory, timeCost: rules.passes, parallelism: rules.lanes };
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
    return memoryCost < rules.memory || timeCost < rules.passes || parallelism < rules.lanes;
  }

  /** Only hashes with exactly our cost take the usual time. */
  function durationOf(hash: string): "usual" | "long" {
    const known = hash.startsWith("$argon2id$") ? argon2Parameters(hash) : undefined;
    const isUsual = known?.memoryCost === rules.memory && known.timeCost === rules.passes;
    return isUsual ? "usual" : "long";
  }

  return {
    check: (password) => checkRules(rules, password),
    hash: (password) => run("background", () => threads.hash(password, cost)),
    async verify(hash, password) {
      if (tooLong(rules, password)) return false;
      if (hash !== null && readForeignHash(hash) !== undefined) {
        // A faster answer than for an unknown name would reveal that the account exists.
        const options = { duration: durationOf(hash), costIfWrong: needsRehash(hash) ? cost : undefined };
        return run("interactive", () => threads.compare(hash, password, options));
      }
      // Hashing takes as long as comparing, so an unknown account takes as long as a known one.
      await run("interactive", () => threads.hash(password, cost));
      return false;
    },
    needsRehash,
    close() {
      isClosed = true;
      return threads.close();
    },
  };
}

function checkRules(rules: PasswordRules, password: string): void {
  if (typeof password !== "string") throw new TypeError("password: must be a string");
  if (tooLong(rules, password)) {
    throw new InvalidPassword(`a password must have at most ${rules.maxLength} characters`);
  }
  if (characters(password) < rules.minLength) {
    throw new InvalidPassword(`a password must have at least ${rules.minLength} characters`);
  }
  // A form can't send these characters, so the password could never be entered.
  if (!password.isWellFormed() || password.includes("\0")) {
    throw new InvalidPassword("a password must not have NUL or broken characters");
  }
}

function tooLong(rules: PasswordRules, password: string): boolean {
  return password.length > 2 * rules.maxLength || characters(password) > rules.maxLength;
}

/** `interactive`: an end user waits for the answer, so it goes first. `background`: it may wait for any time. */
export type Priority = "interactive" | "background";

/** Limits for interactive work; beyond them it is refused with `StorageUnavailable`. */
export interface QueueLimits {
  /** How many may wait. */
  readonly maxWaiting: number;
  /** Milliseconds after which waiting work is refused instead of started. */
  readonly maxWait: number;
}

/**
 * A semaphore with two priorities and a limit on waiting. It keeps a flood of sign-ins from making every sign-in too
 * late: those that can't be answered within the time of a request get a 503 with `Retry-After` instead.
 * @param capacity how many run in parallel.
 */
export function createHashQueue(
  capacity: number,
  { maxWaiting, maxWait }: QueueLimits,
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
    if (running < capacity) running += 1;
    else {
      const isLimited = priority === "interactive";
      if (isLimited && waiting.interactive.length >= maxWaiting) throw tooMany();
      const since = performance.now();
      await new Promise<void>((resolve) => waiting[priority].push(resolve));
      if (isLimited && performance.now() - since > maxWait) {
        release();
        throw tooMany();
      }
    }
    try {
      return await work();
    } finally {
      release();
    }
  };
}

function tooMany(): StorageUnavailable {
  return new StorageUnavailable("too many passwords are being checked at once");
}
