/** Passwords: the rules for new ones, hashing, and comparing in the same time whoever is asked for. */
import type { PasswordRules } from "../../config/configuration.ts";
import { InvalidPassword, StorageUnavailable } from "../errors.ts";
import { createHashThreads } from "./hash-threads.ts";
import { argon2Parameters, readForeignHash } from "./password-formats.ts";
import { characters } from "../domain/text-rules.ts";
import { createWorkQueue, type WorkQueue } from "./work-queue.ts";

/** How passwords are kept and compared. */
export interface Passwords {
  /** @throws InvalidPassword when a new password breaks a rule; the message says which. */
  check(password: string): void;
  /** The Argon2id hash as a PHC string. Waits for its turn without a bound. */
  hash(password: string): Promise<string>;
  /**
   * Whether this is the password. `null` stands for an account that has none or does not exist: the answer is
   * `false` after the same work. A wrong password never takes less work than that: compared with a hash of another
   * algorithm or of a lower cost, it is hashed at our cost as well. A password that is too long is `false` without any
   * work, for everybody.
   * @throws StorageUnavailable when too many are waiting, or it has waited for longer than a request may take.
   */
  verify(hash: string | null, password: string): Promise<boolean>;
  /** Whether the hash is weaker than the rules ask for, or of another algorithm. */
  needsRehash(hash: string): boolean;
  /** Ends the threads that hash; what they work at and what waits for them is refused with `StorageUnavailable`. */
  close(): Promise<void>;
}

/** KiB of memory and the passes that they need at least, from OWASP's Password Storage Cheat Sheet (Argon2id). */
const OWASP_MINIMUM: readonly { readonly memory: number; readonly passes: number }[] = [
  { memory: 47_104, passes: 1 },
  { memory: 19_456, passes: 2 },
  { memory: 12_288, passes: 3 },
  { memory: 9_216, passes: 4 },
  { memory: 7_168, passes: 5 },
];

/** At some 100 hashes a second this many wait about as long as a request may take; where it takes longer, time decides. */
const BOUNDS = { maxWaiting: 256, longestWait: 4_500 };

/**
 * @param rules hashing cost, length in Unicode characters, and how many hashes are computed at once.
 * @throws TypeError when the cost is below OWASP's minimum.
 */
export function createPasswords(rules: PasswordRules): Passwords {
  const enough = OWASP_MINIMUM.some(({ memory, passes }) => rules.memory >= memory && rules.passes >= passes);
  if (!enough) throw new TypeError("passwords: memory and passes are below OWASP's minimum for Argon2id");
  const threads = createHashThreads(rules.parallel);
  const inTurn = createWorkQueue(threads.room, BOUNDS);
  let isClosed = false;
  // Else what waits would begin a thread again, and keep the process until all of it is hashed.
  const queue: WorkQueue = (urgency, work) =>
    inTurn(urgency, () =>
      isClosed ? Promise.reject(new StorageUnavailable("the passwords are closed")) : work(),
    );
  const cost = { memoryCost: rules.memory, timeCost: rules.passes, parallelism: rules.lanes };
  function needsRehash(hash: string): boolean {
    const known = hash.startsWith("$argon2id$v=19$") ? argon2Parameters(hash) : undefined;
    if (known === undefined) return true;
    const { memoryCost, timeCost, parallelism } = known;
    return memoryCost < rules.memory || timeCost < rules.passes || parallelism < rules.lanes;
  }
  /** One with our costs, and no others, takes as long as all others of them. */
  const durationOf = (hash: string): "usual" | "long" => {
    const known = hash.startsWith("$argon2id$") ? argon2Parameters(hash) : undefined;
    const isUsual = known?.memoryCost === rules.memory && known.timeCost === rules.passes;
    return isUsual ? "usual" : "long";
  };
  return {
    check: (password) => checkRules(rules, password),
    hash: (password) => queue("patient", () => threads.hash(password, cost)),
    async verify(hash, password) {
      if (tooLong(rules, password)) return false;
      if (hash !== null && readForeignHash(hash) !== undefined) {
        // A wrong password that is answered sooner than an unknown name would tell that there is such an account.
        const options = { duration: durationOf(hash), costIfWrong: needsRehash(hash) ? cost : undefined };
        return queue("urgent", () => threads.compare(hash, password, options));
      }
      // Hashing costs what comparing does, so an account that is not there takes as long as one that is.
      await queue("urgent", () => threads.hash(password, cost));
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
  // A form can't send either, so nobody could sign in with such a password.
  if (!password.isWellFormed() || password.includes("\0")) {
    throw new InvalidPassword("a password must not have NUL or broken characters");
  }
}

function tooLong(rules: PasswordRules, password: string): boolean {
  return password.length > 2 * rules.maxLength || characters(password) > rules.maxLength;
}
