/**
 * Threads of their own for passwords. In the pool that Node shares for files and the like, the next hash could not
 * begin before the main thread had heard of the last one, and the system would move the hashes from core to core,
 * onto the one that answers requests.
 */
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { StorageUnavailable } from "../errors.ts";

/** What an Argon2id hash costs: KiB, passes, lanes. */
export interface HashCost {
  readonly memoryCost: number;
  readonly timeCost: number;
  readonly parallelism: number;
}

/** What a thread is asked: to hash a password at a cost, or to compare it with a hash. */
type Question = { readonly password: string } & (
  | { readonly cost: HashCost }
  | {
      readonly hash: string;
      /** What a wrong password is hashed at in addition. Default: it is not. */
      readonly costIfWrong?: HashCost | undefined;
    }
);

/** One question, and the number under which it is answered. */
export type HashTask = Question & { readonly id: number };

/** What became of a task. */
export type HashAnswer =
  | { readonly id: number; readonly result: string | boolean }
  | { readonly id: number; readonly error: unknown };

/** Each thread is started when it is needed, and ended when nothing was asked of it for a minute. */
export interface HashThreads {
  /** How many tasks may be given at once: what a thread works at, and what it goes on with. */
  readonly room: number;
  /**
   * The Argon2id hash as a PHC string.
   * @throws StorageUnavailable when the threads are closed in the middle of it; what a thread dies of.
   */
  hash(password: string, cost: HashCost): Promise<string>;
  /**
   * Whether this is the password; `false` for a hash that can't be read.
   * @param options `duration` is `long` for a hash that costs something else than usual: nobody is put behind it who
   *   need not be. `costIfWrong` is what a wrong password is hashed at in addition.
   * @throws as above.
   */
  compare(hash: string, password: string, options: CompareOptions): Promise<boolean>;
  /** Ends the threads; what they work at is refused. A later task starts a new one. */
  close(): Promise<void>;
}

/** Beside this source when it runs as it is, beside the compiled file otherwise. */
const SCRIPT = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./hash-thread.ts" : "./hash-thread.js", import.meta.url),
);

/** Milliseconds without work after which a thread gives its memory back. */
const IDLE = 60_000;

/** One that it works at, and one to go on with. */
const TASKS_EACH = 2;

/** MB of JavaScript's own memory; that of the hashes is not part of it. */
const MEMORY = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 32 };

type Duration = "usual" | "long";

interface CompareOptions {
  readonly duration: Duration;
  readonly costIfWrong?: HashCost | undefined;
}

interface Given extends Pick<PromiseWithResolvers<string | boolean>, "resolve" | "reject"> {
  readonly duration: Duration;
}

/** One thread, or the place of one. */
class HashThread {
  readonly #given = new Map<number, Given>();
  #worker: Worker | undefined;
  #lastId = 0;
  #idle: NodeJS.Timeout | undefined;
  readonly #script: string;

  constructor(script: string) {
    this.#script = script;
  }

  /** How many tasks it has, those that take long first. */
  load(): readonly [long: number, all: number] {
    const long = [...this.#given.values()].filter(({ duration }) => duration === "long");
    return [long.length, this.#given.size];
  }

  give(question: Question, duration: Duration): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<string | boolean>();
    const worker = (this.#worker ??= this.#start());
    this.#lastId += 1;
    this.#given.set(this.#lastId, { resolve, reject, duration });
    clearTimeout(this.#idle);
    // Somebody waits for the answer: the process must not end before.
    worker.ref();
    worker.postMessage({ ...question, id: this.#lastId } satisfies HashTask);
    return promise;
  }

  async end(): Promise<void> {
    clearTimeout(this.#idle);
    const worker = this.#worker;
    this.#lose(worker);
    await worker?.terminate();
  }

  #start(): Worker {
    const worker = new Worker(this.#script, { execArgv: [], resourceLimits: MEMORY });
    worker.on("message", (answer: HashAnswer) => this.#settle(worker, answer));
    worker.on("error", (error) => this.#lose(worker, error));
    worker.on("exit", () => this.#lose(worker));
    return worker;
  }

  #settle(worker: Worker, answer: HashAnswer): void {
    const given = this.#given.get(answer.id);
    this.#given.delete(answer.id);
    if ("error" in answer) given?.reject(answer.error);
    else given?.resolve(answer.result);
    if (this.#given.size > 0) return;
    worker.unref();
    this.#idle = setTimeout(() => void this.end(), IDLE).unref();
  }

  /**
   * Nobody answers any more; an end that was already dealt with is none of the next thread.
   * @param reason of a thread that could not go on, or not begin: who reads the log has to know.
   */
  #lose(worker: Worker | undefined, reason?: unknown): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    const lost = [...this.#given.values()];
    this.#given.clear();
    const ended = new StorageUnavailable("the thread that hashes passwords has ended");
    for (const { reject } of lost) reject(reason ?? ended);
  }
}

/**
 * @param count how many hashes are computed at the same time.
 * @param script what runs in the threads; default `hash-thread` beside this file.
 */
export function createHashThreads(count: number, script: string = SCRIPT): HashThreads {
  const threads = Array.from({ length: count }, () => new HashThread(script));
  const freest = (): HashThread =>
    threads.reduce((best, each) => {
      const [[long, all], [leastLong, least]] = [each.load(), best.load()];
      return long < leastLong || (long === leastLong && all < least) ? each : best;
    });
  return {
    room: count * TASKS_EACH,
    hash: async (password, cost) => String(await freest().give({ password, cost }, "usual")),
    compare: async (hash, password, { duration, costIfWrong }) =>
      (await freest().give({ password, hash, costIfWrong }, duration)) === true,
    async close() {
      await Promise.all(threads.map((thread) => thread.end()));
    },
  };
}
