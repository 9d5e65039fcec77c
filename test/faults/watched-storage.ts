/** The real storage, with every call of it seen before it begins: to make it fail, or to hold it. */
import { KINDS } from "../../records/all-kinds.ts";
import { Records } from "../../records/records.ts";
import { AsyncLocalStorage } from "node:async_hooks";
import type { Storage } from "../../records/storage.ts";

/** One call, such as `artifacts.commit`. */
export interface Call {
  readonly name: string;
  readonly parameters: readonly unknown[];
}

/** Calls that are held until they are let go. */
export interface Hold {
  /** Resolves when all of them have arrived. */
  readonly reached: Promise<void>;
  /** Lets them go on, in the order in which they came; later ones are not held. */
  release(): void;
}

export interface HoldOptions {
  /** How many calls are held; default 1. Those after them pass. */
  readonly times?: number;
  /** `before` the store is asked (default), or `after` it has answered and before the answer is seen. */
  readonly at?: "before" | "after";
}

/** Requests that are held, each at the same one of its calls. */
export interface Gate {
  /** How many stand there. */
  readonly held: number;
  /** Lets them go on; later ones are not held. */
  open(): void;
}

interface RunningHold {
  readonly name: string;
  readonly at: "before" | "after";
  left: number;
  readonly arrive: () => Promise<void>;
}

/** Watches one storage. */
export class WatchedStorage {
  readonly storage: Storage;
  /** Asked before every call; what it throws the call rejects with, and nothing is done. */
  fail: (call: Call) => void = () => undefined;
  #holds: RunningHold[] = [];
  readonly #requests = new AsyncLocalStorage<{ calls: number }>();
  #stop: (calls: number) => Promise<void> | undefined = () => undefined;

  constructor(real: Storage) {
    const audit = this.#watch("audit", real.audit);
    const { store, clock } = real.records;
    this.storage = {
      records: new Records(this.#watch("records", store), clock, KINDS),
      directory: this.#watch("directory", real.directory),
      // A hint that never comes is no fault. The version is read every minute, at no time that a test could wait for.
      keys: {
        ...this.#watch("keys", real.keys),
        version: () => real.keys.version(),
        watch: () => () => undefined,
      },
      artifacts: this.#watch("artifacts", real.artifacts),
      deliveries: this.#watch("deliveries", real.deliveries),
      outbox: { ...this.#watch("outbox", real.outbox), watch: () => () => undefined },
      signIns: this.#watch("signIns", real.signIns),
      // What is collected goes in the background, at no time that a test could wait for.
      audit: { ...real.audit, append: (event) => audit.append(event) },
      // What has expired stays: it would be removed between any two looks at what is stored.
      sweep: async () => 0,
      rateLimits: this.#watch("rateLimits", real.rateLimits),
      sealed: real.sealed,
      parts: real.parts,
      measure: (listener) => real.measure(listener),
      close: () => real.close(),
    };
  }

  /** Holds the next calls of this name. */
  hold(name: string, { times = 1, at = "before" }: HoldOptions = {}): Hold {
    const reached = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    let arrived = 0;
    const hold: RunningHold = {
      name,
      at,
      left: times,
      arrive() {
        arrived += 1;
        if (arrived === times) reached.resolve();
        return released.promise;
      },
    };
    this.#holds.push(hold);
    return {
      reached: reached.promise,
      release: () => {
        this.#holds = this.#holds.filter((other) => other !== hold);
        released.resolve();
      },
    };
  }

  /** Handles a request, so that its calls can be counted. */
  inRequest(handle: () => void): void {
    this.#requests.run({ calls: 0 }, handle);
  }

  /** Holds every request before its call number `at`. */
  holdRequests(at: number): Gate {
    const opened = Promise.withResolvers<void>();
    let held = 0;
    this.#stop = (calls) => {
      if (calls !== at) return undefined;
      held += 1;
      return opened.promise;
    };
    return {
      get held() {
        return held;
      },
      open: () => {
        this.#stop = () => undefined;
        opened.resolve();
      },
    };
  }

  async #pass(name: string, at: "before" | "after"): Promise<void> {
    const hold = this.#holds.find((one) => one.name === name && one.at === at && one.left > 0);
    if (hold === undefined) return;
    hold.left -= 1;
    await hold.arrive();
  }

  #watch<Part extends object>(part: string, target: Part): Part {
    return new Proxy(target, {
      get: (object, member) => {
        const method: unknown = Reflect.get(object, member);
        if (typeof method !== "function") return method;
        // It begins to listen, and asks the store for nothing.
        if (member === "watch") return method.bind(object) as unknown;
        const name = `${part}.${String(member)}`;
        return async (...parameters: unknown[]): Promise<unknown> => {
          this.fail({ name, parameters });
          const request = this.#requests.getStore();
          if (request !== undefined) await this.#stop((request.calls += 1));
          await this.#pass(name, "before");
          const result: unknown = await Reflect.apply(method, object, parameters);
          await this.#pass(name, "after");
          return result;
        };
      },
    });
  }
}
