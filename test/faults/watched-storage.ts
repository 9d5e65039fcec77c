/** The real storage, each call of which a test can observe, hold, or make fail. */
import type { Query } from "../../adapters/record-store.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { REMOVAL } from "../../records/directory/directory-kinds.ts";
import { Records } from "../../records/records.ts";
import { AsyncLocalStorage } from "node:async_hooks";
import type { Storage } from "../../records/storage.ts";

/** One call, such as `artifacts.commit`. */
export interface Call {
  readonly name: string;
  readonly parameters: readonly unknown[];
}

/** Calls that are held until they are released. */
export interface Hold {
  /** Resolves when all of them have arrived. */
  readonly reached: Promise<void>;
  /** Releases them in the order of their arrival; later ones are not held. */
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
  /** How many are held. */
  readonly held: number;
  /** Releases them; later ones are not held. */
  open(): void;
}

interface RunningHold {
  readonly name: string;
  readonly at: "before" | "after";
  left: number;
  readonly arrive: () => Promise<void>;
}

/** Whether the service looks on its schedule for what is left to remove, at times that a test can't know. */
const isOfBackground = (name: string, [queries]: readonly unknown[]): boolean =>
  name === "records.list" && (queries as readonly Query[]).every(({ kind }) => kind === REMOVAL.name);

/** Watches one storage. */
export class WatchedStorage {
  readonly storage: Storage;
  /** Called before every call. If it throws, the call rejects with that error and does nothing. */
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
      // A missing hint is no fault. The version is read every minute, at times that a test can't know.
      keys: {
        ...this.#watch("keys", real.keys),
        version: () => real.keys.version(),
        watch: () => () => undefined,
      },
      // Whether an account has too much is counted in the background.
      artifacts: {
        ...this.#watch("artifacts", real.artifacts),
        count: (query, limit) => real.artifacts.count(query, limit),
      },
      deliveries: this.#watch("deliveries", real.deliveries),
      outbox: { ...this.#watch("outbox", real.outbox), watch: () => () => undefined },
      signIns: this.#watch("signIns", real.signIns),
      // Collected records are stored in the background, at times that a test can't know.
      audit: { ...real.audit, append: (event) => audit.append(event) },
      // Expired records stay, because they could be removed between any two reads of the storage.
      sweep: async () => 0,
      rateLimits: this.#watch("rateLimits", real.rateLimits),
      secrets: real.secrets,
      sealed: real.sealed,
      watch: real.watch,
      renewals: real.renewals,
      parts: real.parts,
      clocks: real.clocks,
      formats: () => real.formats(),
      now: () => real.now(),
      pools: () => real.pools(),
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
        // It begins to listen, and makes no call to the store.
        if (member === "watch") return method.bind(object) as unknown;
        const name = `${part}.${String(member)}`;
        return async (...parameters: unknown[]): Promise<unknown> => {
          if (isOfBackground(name, parameters)) return Reflect.apply(method, object, parameters);
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
