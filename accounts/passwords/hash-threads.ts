/**
 * Worker threads for passwords. In Node's thread pool the next hash starts only after the main thread has processed
 * the last one, and hashes compete with requests for one core: with two cores, that costs 5 to 25 % of all sign-ins
 * (`docs/decisions/0008-worker-threads-for-password-hashes.md`).
 */
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { StorageUnavailable } from "../../core/errors.ts";

/** The cost of an Argon2id hash: KiB, passes, lanes. */
interface HashCost {
  readonly memoryCost: number;
  readonly timeCost: number;
  readonly parallelism: number;
}

/** Work for a thread: to hash a password at a cost, or to compare it with a hash. */
type HashWork = { readonly password: string } & (
  | { readonly cost: HashCost }
  | {
      readonly hash: string;
      /** The cost at which a wrong password is hashed too. Default: it is not. */
      readonly costIfWrong?: HashCost | undefined;
    }
);

/** Work with the number of its answer. */
export type HashTask = HashWork & { readonly id: number };

/** The result of a task. */
export type HashAnswer =
  | { readonly id: number; readonly result: string | boolean }
  | { readonly id: number; readonly error: unknown };

/**
 * Threads start when several passwords come at once, and end after a minute without work. A single hash of ours runs in
 * Node's thread pool instead: a thread takes 25 MB, and starting one takes as long as a few hashes.
 */
export interface HashThreads {
  /** How many tasks the threads accept: for each thread, one that runs and one that follows. */
  readonly capacity: number;
  /**
   * The Argon2id hash as a PHC string.
   * @throws StorageUnavailable when the threads are closed before it is done; or the error that ended the thread.
   */
  hash(password: string, cost: HashCost): Promise<string>;
  /**
   * Whether this is the password; `false` for a hash that can't be parsed.
   * @param options `duration` is `long` for a hash of an unusual cost: other tasks avoid its thread. `costIfWrong` is the
   *   cost at which a wrong password is hashed too.
   * @throws as above.
   */
  compare(hash: string, password: string, options: CompareOptions): Promise<boolean>;
  /** Loads what a hash needs. */
  warm(): Promise<void>;
  /** Ends the threads and refuses their tasks. A later task starts a new thread. */
  close(): Promise<void>;
}

/** The source file if this file runs from source, else the compiled one. */
const SCRIPT = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./hash-thread.ts" : "./hash-thread.js", import.meta.url),
);

/** An idle thread ends after this time. */
const MAX_IDLE_MS = 60_000;

/** One task that runs, and one that the thread can start without the main thread. */
const TASKS_PER_THREAD = 2;

/** MB of the JavaScript heap; the memory of the hashes is not part of it. */
const MEMORY = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 32 };

type Duration = "usual" | "long";

interface CompareOptions {
  readonly duration: Duration;
  readonly costIfWrong?: HashCost | undefined;
}

interface Pending extends Pick<PromiseWithResolvers<string | boolean>, "resolve" | "reject"> {
  readonly duration: Duration;
}

/** One thread, which may not be running. */
class HashThread {
  readonly #pending = new Map<number, Pending>();
  #worker: Worker | undefined;
  #lastId = 0;
  #idle: NodeJS.Timeout | undefined;
  readonly #script: string;

  constructor(script: string) {
    this.#script = script;
  }

  /** How many tasks it has, the long ones first. */
  load(): readonly [long: number, all: number] {
    const long = [...this.#pending.values()].filter(({ duration }) => duration === "long");
    return [long.length, this.#pending.size];
  }

  get isRunning(): boolean {
    return this.#worker !== undefined;
  }

  run(work: HashWork, duration: Duration): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<string | boolean>();
    const worker = (this.#worker ??= this.#start());
    this.#lastId += 1;
    this.#pending.set(this.#lastId, { resolve, reject, duration });
    clearTimeout(this.#idle);
    // The process must not exit before the answer.
    worker.ref();
    worker.postMessage({ ...work, id: this.#lastId } satisfies HashTask);
    return promise;
  }

  async end(): Promise<void> {
    clearTimeout(this.#idle);
    const worker = this.#worker;
    this.#fail(worker);
    await worker?.terminate();
  }

  #start(): Worker {
    const worker = new Worker(this.#script, { execArgv: [], resourceLimits: MEMORY });
    worker.on("message", (answer: HashAnswer) => this.#settle(worker, answer));
    worker.on("error", (error) => this.#fail(worker, error));
    worker.on("exit", () => this.#fail(worker));
    return worker;
  }

  #settle(worker: Worker, answer: HashAnswer): void {
    const task = this.#pending.get(answer.id);
    this.#pending.delete(answer.id);
    if ("error" in answer) task?.reject(answer.error);
    else task?.resolve(answer.result);
    if (this.#pending.size > 0) return;
    worker.unref();
    this.#idle = setTimeout(() => void this.end(), MAX_IDLE_MS).unref();
  }

  /**
   * Refuses the tasks of a thread that has ended. Its later events don't concern the thread that follows.
   * @param reason why it could not continue or start.
   */
  #fail(worker: Worker | undefined, reason?: unknown): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    const refused = [...this.#pending.values()];
    this.#pending.clear();
    const ended = new StorageUnavailable("the thread that hashes passwords has ended");
    for (const { reject } of refused) reject(reason ?? ended);
  }
}

async function compareAlone(hash: string, password: string, costIfWrong?: HashCost): Promise<boolean> {
  const { hash: hashed, verify } = await import("@node-rs/argon2");
  const isRight = await verify(hash, password).catch(() => false);
  if (!isRight && costIfWrong !== undefined) await hashed(password, costIfWrong);
  return isRight;
}

async function hashAlone(password: string, cost: HashCost): Promise<string> {
  const { hash } = await import("@node-rs/argon2");
  return hash(password, cost);
}

/**
 * @param count how many hashes are computed in parallel.
 * @param script what the threads run. Default: `hash-thread` next to this file.
 */
export function createHashThreads(count: number, script: string = SCRIPT): HashThreads {
  const threads = Array.from({ length: count }, () => new HashThread(script));
  const leastBusy = (): HashThread =>
    threads.reduce((best, each) => {
      const [[long, all], [leastLong, least]] = [each.load(), best.load()];
      return long < leastLong || (long === leastLong && all < least) ? each : best;
    });
  let single: Promise<unknown> | undefined;

  /** Runs a task without a thread, unless there is more to do. @returns `undefined` if a thread has to run it. */
  function runAlone<T>(work: () => Promise<T>): Promise<T> | undefined {
    if (script !== SCRIPT || single !== undefined || threads.some((thread) => thread.isRunning))
      return undefined;
    const result = work().finally(() => (single = undefined));
    single = result.catch(() => undefined);
    return result;
  }

  return {
    capacity: count * TASKS_PER_THREAD,
    hash: (password, cost) =>
      runAlone(() => hashAlone(password, cost)) ?? leastBusy().run({ password, cost }, "usual").then(String),
    compare(hash, password, { duration, costIfWrong }) {
      const alone = () => compareAlone(hash, password, costIfWrong);
      const byThread = () => leastBusy().run({ password, hash, costIfWrong }, duration);
      return (duration === "usual" ? runAlone(alone) : undefined) ?? byThread().then((is) => is === true);
    },
    async warm() {
      await hashAlone("", { memoryCost: 8, timeCost: 1, parallelism: 1 });
    },
    async close() {
      await Promise.all([single, ...threads.map((thread) => thread.end())]);
    },
  };
}
