/** A campaign over one kind of queue: changes and faults, then peace, then what came of it. */
import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { createSignInService } from "../../../lib/index.ts";
import { openOwnRedis, type OwnRedis } from "../../servers/redis.ts";
import type { Answer } from "./app.ts";
import { Callers } from "./callers.ts";
import { carryOut } from "./change.ts";
import { putDirectory } from "./directory.ts";
import { beginJournal, openReader, type Reader } from "./journal.ts";
import { audit, type ChangeCounts } from "./ledger.ts";
import { Member } from "./member.ts";
import { beginMischief, type RedisFaults } from "./mischief.ts";
import { expectedFrom } from "./oracle.ts";
import { createRandom } from "./random.ts";
import { openReceivers, type Receivers } from "./receivers.ts";
import { type DeliveryCounts, judge } from "./verdict.ts";

export const QUEUES = ["embedded", "redis"] as const;
export type QueueKind = (typeof QUEUES)[number];

export interface RoundOptions {
  readonly queue: QueueKind;
  readonly seed: number;
  readonly users: number;
  readonly changes: number;
  /** Over which the changes are spread. */
  readonly milliseconds: number;
  /** Where its files are; it exists. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** Everything that a round counts. */
export interface Counts extends ChangeCounts, DeliveryCounts {
  readonly workerKills: number;
  readonly appKills: number;
  readonly redisRestarts: number;
  readonly redisFlushes: number;
  /** Processes that ended without being told to. */
  readonly crashes: number;
  /** Processes that did not end with 0 when they were told to. */
  readonly badEndings: number;
  /** Requests that were not as documented: method, credentials, type, signature. */
  readonly badRequests: number;
}

export interface Outcome {
  readonly counts: Counts;
  readonly problems: readonly string[];
}

/** How it stands, for whoever watches. */
export interface Progress {
  readonly asked: number;
  readonly posts: number;
  readonly waiting: number;
  readonly kills: number;
}

function sum(members: readonly Member[], key: "kills" | "crashes"): number {
  return members.reduce((all, member) => all + member[key], 0);
}

const script = (name: string): string => join(import.meta.dirname, name);

/** Shortened, so that what a killed process held is free again in 16 s; and never used up. */
function notifications(): NonNullable<SignInServiceConfig["notifications"]> {
  return {
    allowedReceivers: ["127.0.0.1"],
    timeouts: { connect: 1, total: 1 },
    retryDelays: [0.2, 0.5, 1, ...Array.from({ length: 97 }, () => 2)],
    breaker: { failures: 5, probe: 0.5, longestProbe: 2 },
    poll: 0.1,
    worker: false,
  };
}

/** What the campaign begins with has other numbers than its changes, which are counted up from 0. */
const FIRST_NUMBER = 1_000_000;
/** Milliseconds until everything has to be delivered; it takes a third of that on a machine of two cores. */
const PATIENCE = 60_000;
/** Milliseconds for processes to end when they are told to. */
const ENDING = 35_000;
const LOOK = 100;
/** What the faults have to come to at least, and how many times longer than planned that may take. */
const SHAKEN = { kills: 5, repeats: 20 };
const LONGEST = 2;

export class Round {
  readonly #options: RoundOptions;
  readonly #callers: Callers;
  readonly #receivers: Receivers;
  readonly #redis: OwnRedis | undefined;
  readonly #config: SignInServiceConfig;
  readonly #log: number;
  #reader: Reader | undefined;
  #workers: readonly Member[] = [];
  #apps: readonly Member[] = [];
  #faults: Readonly<RedisFaults> = { restarts: 0, flushes: 0 };

  private constructor(options: RoundOptions, receivers: Receivers, redis: OwnRedis | undefined) {
    const { seed, queue, users, folder } = options;
    this.#options = options;
    this.#receivers = receivers;
    this.#redis = redis;
    this.#callers = new Callers({ users, random: createRandom(seed, `changes ${queue}`) });
    this.#log = openSync(join(folder, "processes.log"), "a");
    this.#config = {
      deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
      storage: `sqlite:${this.#file}`,
      queue: redis?.url ?? "embedded",
      notifications: notifications(),
    };
  }

  /** Opens what it needs, and stores the directory and the users. */
  static async open(options: RoundOptions): Promise<Round> {
    mkdirSync(options.folder, { recursive: true });
    const receivers = await openReceivers(createRandom(options.seed, `receivers ${options.queue}`));
    const redis = options.queue === "redis" ? await openOwnRedis() : undefined;
    const round = new Round(options, receivers, redis);
    await round.#populate();
    return round;
  }

  get #file(): string {
    return join(this.#options.folder, "sign-in.db");
  }

  progress(): Progress {
    return {
      asked: this.#callers.entries.length,
      posts: this.#receivers.arrivals.length,
      waiting: this.#reader?.waiting() ?? 0,
      kills: sum([...this.#workers, ...this.#apps], "kills"),
    };
  }

  /** Changes and faults; at the end the last faults are over and the receivers well again. */
  async act(): Promise<void> {
    const { seed, queue, changes, milliseconds, signal } = this.#options;
    this.#begin();
    const [workers, apps, callers] = [this.#workers, this.#apps, this.#callers];
    const random = createRandom(seed, `faults ${queue}`);
    const mischief = beginMischief({ workers, apps, redis: this.#redis, callers, random });
    this.#faults = mischief.redis;
    const asking = callers.ask(apps, { count: changes, milliseconds, signal });
    // Told below: until then a failure is not unhandled.
    asking.catch(() => undefined);
    try {
      await this.#endure(milliseconds);
    } finally {
      await mischief.stop();
    }
    // Once more in the middle of what they do, and after the last fault of Redis.
    for (const member of [...workers, ...apps]) member.kill();
    this.#receivers.recover();
    await asking;
  }

  /**
   * Lets the faults go on until all changes are made. On a machine that is too slow for that the rest is made in
   * peace, but not before the faults have had some effect.
   */
  async #endure(milliseconds: number): Promise<void> {
    const { signal, changes } = this.#options;
    const began = performance.now();
    for (let elapsed = 0; elapsed < LONGEST * milliseconds; elapsed = performance.now() - began) {
      const over = this.#callers.settled === changes || elapsed > milliseconds;
      if (over && this.#isShaken()) return;
      await pause(LOOK, undefined, { signal });
    }
  }

  #isShaken(): boolean {
    const { restarts, flushes } = this.#faults;
    const enough = sum(this.#workers, "kills") >= SHAKEN.kills && this.#receivers.repeats() >= SHAKEN.repeats;
    return enough && (this.#redis === undefined || restarts + flushes > 0);
  }

  /** Waits until nothing waits, ends everything, and counts. */
  async settle(): Promise<Outcome> {
    const reader = this.#reader!;
    const until = performance.now() + PATIENCE;
    while (reader.waiting() > 0 && performance.now() < until) {
      this.#options.signal.throwIfAborted();
      await pause(LOOK);
    }
    const badEndings = await this.#end();
    const committed = reader.committed();
    const changes = audit(this.#callers.entries, committed);
    const deliveries = judge(expectedFrom(committed), this.#receivers.arrivals, reader.deliveries());
    const { faults } = this.#receivers;
    return {
      counts: {
        ...changes.counts,
        ...deliveries.counts,
        workerKills: sum(this.#workers, "kills"),
        appKills: sum(this.#apps, "kills"),
        redisRestarts: this.#faults.restarts,
        redisFlushes: this.#faults.flushes,
        crashes: sum([...this.#workers, ...this.#apps], "crashes"),
        badEndings: badEndings.length,
        badRequests: faults.length,
      },
      problems: [...changes.problems, ...deliveries.problems, ...faults, ...badEndings],
    };
  }

  /** Ends whatever is still there. Safe to call twice. */
  async close(): Promise<void> {
    await Promise.all([...this.#workers, ...this.#apps].map((member) => member.destroy()));
    this.#reader?.close();
    this.#reader = undefined;
    await this.#receivers.close();
    await this.#redis?.close();
    closeSync(this.#log);
  }

  async #populate(): Promise<void> {
    const config = { ...this.#config, queue: "embedded", logger: pino({ level: "silent" }) };
    const service = await createSignInService(config);
    try {
      await putDirectory(service, (name) => this.#receivers.url(name));
      for (const [index, person] of this.#callers.people.entries()) {
        const change = person.first(FIRST_NUMBER + index);
        person.learn(change, await carryOut(service.accounts, change));
      }
    } finally {
      await service.close();
    }
    beginJournal(this.#file);
    this.#reader = openReader(this.#file);
  }

  #begin(): void {
    const config = JSON.stringify(this.#config);
    // One of the apps delivers as well, as an app does that has no worker beside it.
    const delivering = JSON.stringify({
      ...this.#config,
      notifications: { ...notifications(), worker: true },
    });
    const common = { log: this.#log, compiled: join(this.#options.folder, "compiled") };
    this.#workers = [1, 2].map(() => new Member({ ...common, script: script("worker.ts"), args: [config] }));
    this.#apps = [config, delivering].map((own) => {
      const app: Member = new Member({
        ...common,
        script: script("app.ts"),
        args: [own],
        onMessage: (message) => this.#callers.answered(message as Answer),
        onGone: () => this.#callers.gone(app),
      });
      return app;
    });
  }

  /** @returns what did not end as it should. */
  async #end(): Promise<string[]> {
    const members = [...this.#workers, ...this.#apps];
    const late = new AbortController();
    const endings = members.map((member) =>
      Promise.race([member.stop(), pause(ENDING, "not at all", { signal: late.signal })]),
    );
    const bad = (await Promise.all(endings)).filter((how) => how !== 0);
    late.abort();
    return bad.map((how) => `a process that was told to end ended: ${how}`);
  }
}
