/** A campaign with one kind of queue: changes and faults, then calm, then the counts. */
import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { StorageUnavailable } from "../../../core/errors.ts";
import { createSignInService } from "../../../lib/index.ts";
import { connectionsOf } from "../../servers/sockets.ts";
import type { Answer } from "./app.ts";
import { Callers } from "./callers.ts";
import { carryOut } from "./change.ts";
import { putDirectory } from "./directory.ts";
import { type Committed, openReader, type Reader } from "./journal.ts";
import { audit, type ChangeCounts, givenTwice } from "./ledger.ts";
import { Member } from "./member.ts";
import { beginMischief, NO_FAULTS, type ServerFaults } from "./mischief.ts";
import { expectedFrom } from "./oracle.ts";
import { createRandom } from "./random.ts";
import { openReceivers, type Receivers } from "./receivers.ts";
import { type OpenRedis, REDIS_SERVERS } from "./redis-servers.ts";
import { openPlace, type Place, type StorageKind } from "./storages.ts";
import { type DeliveryCounts, judge, numbersIn } from "./verdict.ts";
import { type VisitCounts, Visitors } from "./visitors.ts";

export const QUEUES = ["embedded", "redis", "sentinel", "cluster"] as const;
export type QueueKind = (typeof QUEUES)[number];

/** With `two`, each process that is killed is replaced by one of the other version: an upgrade, or the way back. */
export const VERSIONS = ["one", "two"] as const;
export type VersionsKind = (typeof VERSIONS)[number];

export interface RoundOptions {
  readonly storage: StorageKind;
  readonly queue: QueueKind;
  readonly versions: VersionsKind;
  readonly seed: number;
  readonly users: number;
  readonly changes: number;
  /** The time over which the changes are spread. */
  readonly milliseconds: number;
  /** An existing folder for its files. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** Everything that a round counts. */
export interface Counts extends ChangeCounts, DeliveryCounts, VisitCounts, Readonly<ServerFaults> {
  /** Numbers that two accounts have. */
  readonly numbersTwice: number;
  /** Accounts that differ from their last committed change. */
  readonly contradictions: number;
  readonly workerKills: number;
  readonly appKills: number;
  /** Processes that ended by themselves. */
  readonly crashes: number;
  /** Processes that did not end with 0 after SIGTERM. */
  readonly badEndings: number;
  /** Connections beyond the allowed number, after all faults of the servers, in the process that is never killed. */
  readonly tooManyConnections: number;
  /** Requests that were not as documented: method, credentials, type, signature. */
  readonly badRequests: number;
}

export interface Outcome {
  readonly counts: Counts;
  readonly problems: readonly string[];
}

/** The progress of a round. */
export interface Progress {
  readonly asked: number;
  readonly posts: number;
  /** Kills of processes and of servers of the storage. */
  readonly kills: number;
  readonly stops: number;
}

function sum(members: readonly Member[], key: "kills" | "crashes"): number {
  return members.reduce((all, member) => all + member[key], 0);
}

const script = (name: string): string => join(import.meta.dirname, name);

/** Time-outs are short, so that the leases of a killed process end after 16 s, and retries are never used up. */
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

/** The initial accounts have other numbers than the changes, which count up from 0. */
const FIRST_NUMBER = 1_000_000;
/** If the number of waiting deliveries does not fall for this long, they count as lost. */
const STALL_TIMEOUT_MS = 60_000;
/** Milliseconds within which processes end after SIGTERM. */
const ENDING = 35_000;
const LOOK = 100;
/** Milliseconds between two counts of what waits: the storage has to find it all each time. */
const COUNT = 1_000;
/** The longest time for which the storage may answer nothing when all faults are over. */
const OUTAGE_TIMEOUT_MS = 300_000;
/** Milliseconds before connections are counted. */
const SETTLED = 2_500;
/** The fewest kills and repeats that a round must see, and how many times longer than planned that may take. */
const SHAKEN = { kills: 5, repeats: 20 };
const LONGEST = 2;

export class Round {
  readonly #options: RoundOptions;
  readonly #callers: Callers;
  readonly #receivers: Receivers;
  readonly #redis: OpenRedis | undefined;
  readonly #place: Place;
  readonly #config: SignInServiceConfig;
  readonly #log: number;
  #reader: Reader | undefined;
  #visitors: Visitors | undefined;
  #workers: readonly Member[] = [];
  /** A worker that is never killed and lives through every fault of the servers. */
  #steady: Member | undefined;
  #apps: readonly Member[] = [];
  #faults: Readonly<ServerFaults> = NO_FAULTS;

  private constructor(
    options: RoundOptions,
    { receivers, redis, place }: { receivers: Receivers; redis: OpenRedis | undefined; place: Place },
  ) {
    const { seed, queue, users, folder } = options;
    this.#options = options;
    this.#receivers = receivers;
    this.#redis = redis;
    this.#place = place;
    this.#callers = new Callers({ users, random: createRandom(seed, `changes ${queue}`) });
    this.#log = openSync(join(folder, "processes.log"), "a");
    this.#config = {
      ...place.config,
      queue: redis?.url ?? "embedded",
      notifications: notifications(),
    };
  }

  /** Opens what it needs, and stores the directory and the users. */
  static async open(options: RoundOptions): Promise<Round> {
    mkdirSync(options.folder, { recursive: true });
    const receivers = await openReceivers(createRandom(options.seed, `receivers ${options.queue}`));
    const redis = await REDIS_SERVERS[options.queue]?.("queue");
    const place = await openPlace(options.storage, options.folder);
    const round = new Round(options, { receivers, redis, place });
    try {
      await round.#populate();
    } catch (error) {
      await round.close();
      throw error;
    }
    return round;
  }

  progress(): Progress {
    const { storageKills, storageStops } = this.#faults;
    return {
      asked: this.#callers.entries.length,
      posts: this.#receivers.arrivals.length,
      kills: sum([...this.#workers, ...this.#apps], "kills") + storageKills,
      stops: storageStops,
    };
  }

  /** Makes the changes and the faults. At the end all faults are over and the receivers have recovered. */
  async act(): Promise<void> {
    const { seed, queue, changes, milliseconds, signal } = this.#options;
    this.#begin();
    const [workers, apps, callers] = [this.#workers, this.#apps, this.#callers];
    const random = createRandom(seed, `faults ${queue}`);
    const { servers } = this.#place;
    const mischief = beginMischief({ workers, apps, redis: this.#redis?.server, servers, callers, random });
    this.#faults = mischief.servers;
    const asking = callers.ask(apps, { count: changes, milliseconds, signal });
    // Reported below. Until then, this keeps a failure from being unhandled.
    asking.catch(() => undefined);
    const end = new AbortController();
    const visiting = this.#visitors!.visit(end.signal);
    try {
      await this.#endure(milliseconds);
    } finally {
      await mischief.stop();
      end.abort();
    }
    // Kills all of them once more in the middle of their work, after the last fault of a server.
    for (const member of [...workers, ...apps]) member.kill();
    this.#receivers.recover();
    await Promise.all([asking, visiting]);
  }

  /**
   * Lets the faults go on until all changes are made. On a machine that is too slow for that, the rest is made without
   * faults, but only after the faults have had some effect.
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
    const { redisRestarts, redisFlushes, storageKills, storageStops } = this.#faults;
    const enough = sum(this.#workers, "kills") >= SHAKEN.kills && this.#receivers.repeats() >= SHAKEN.repeats;
    if (this.#callers.unanswered === 0) return false;
    if (this.#redis !== undefined && redisRestarts + redisFlushes === 0) return false;
    return enough && (this.#place.servers.length === 0 || (storageKills > 0 && storageStops > 0));
  }

  /** Waits until no delivery waits, ends everything, and counts. */
  async settle(): Promise<Outcome> {
    const reader = this.#reader!;
    await this.#untilDelivered(reader);
    const excess = await this.#tooManyConnections();
    const badEndings = await this.#end();
    const committed = await this.#read(() => reader.committed());
    const contradictions = await this.#read(() => reader.contradictions());
    const { losses } = this.#place;
    const changes = audit(this.#callers.entries, committed, losses);
    const stored = await this.#read(() => reader.deliveries());
    const deliveries = judge(expectedFrom(committed), this.#receivers.arrivals, stored, losses);
    const visits = await this.#visitors!.check(losses);
    const twice = givenTwice(this.#numbers(committed));
    const { faults } = this.#receivers;
    return {
      counts: {
        ...changes.counts,
        ...deliveries.counts,
        ...visits,
        numbersTwice: twice.length,
        contradictions: contradictions.length,
        workerKills: sum(this.#workers, "kills"),
        appKills: sum(this.#apps, "kills"),
        ...this.#faults,
        crashes: sum(this.#members(), "crashes"),
        badEndings: badEndings.length,
        tooManyConnections: excess,
        badRequests: faults.length,
      },
      problems: [
        ...changes.problems,
        ...contradictions,
        ...twice,
        ...deliveries.problems,
        ...faults,
        ...badEndings,
      ],
    };
  }

  /** Every `user_id` with its `sub` that anybody learned: callers, receivers, people, and the storage. */
  #numbers(committed: readonly Committed[]): [number: number, sub: string][] {
    const accounts = [
      ...this.#callers.entries.map(({ outcome }) =>
        outcome === undefined || outcome.kind === "failed" ? undefined : outcome.account,
      ),
      ...committed.flatMap(({ before, after }) => [before, after]),
    ];
    const known = accounts.flatMap((account): [number, string][] =>
      account === undefined ? [] : [[account.user_id, account.sub]],
    );
    return [...known, ...numbersIn(this.#receivers.arrivals), ...this.#visitors!.numbers];
  }

  async #untilDelivered(reader: Reader): Promise<void> {
    let [least, until] = [Infinity, performance.now() + STALL_TIMEOUT_MS];
    for (;;) {
      const asked = performance.now();
      const waiting = await this.#read(() => reader.waiting());
      until += performance.now() - asked;
      if (waiting < least) [least, until] = [waiting, performance.now() + STALL_TIMEOUT_MS];
      if (waiting === 0 || performance.now() > until) return;
      await pause(COUNT, undefined, { signal: this.#options.signal });
    }
  }

  /** Reads again if the storage does not answer, which loses nothing: what killed processes began may block it for a while. */
  async #read<T>(read: () => Promise<T>): Promise<T> {
    const end = performance.now() + OUTAGE_TIMEOUT_MS;
    for (;;) {
      try {
        return await read();
      } catch (error) {
        if (!(error instanceof StorageUnavailable) || performance.now() > end) throw error;
      }
      await pause(LOOK, undefined, { signal: this.#options.signal });
    }
  }

  /** Ends all processes and servers that still run. Safe to call twice. */
  async close(): Promise<void> {
    await Promise.all(this.#members().map((member) => member.destroy()));
    await this.#reader?.close();
    this.#reader = undefined;
    await this.#visitors?.close();
    this.#visitors = undefined;
    await this.#receivers.close();
    await this.#redis?.close();
    await this.#place.close();
    closeSync(this.#log);
  }

  async #populate(): Promise<void> {
    const { storage, artifacts, keys } = this.#place.config;
    const logger = pino({ level: "silent" });
    // First, because its clients have services of their own under the same keys.
    this.#visitors = await Visitors.open({
      storage,
      keys,
      logger,
      ...(artifacts !== undefined && { artifacts }),
    });
    const config = { ...this.#config, queue: "embedded", logger };
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
    this.#reader = await openReader(this.#place.config);
  }

  #begin(): void {
    const config = JSON.stringify(this.#config);
    // One of the apps delivers as well, like an app that has no worker beside it.
    const delivering = JSON.stringify({
      ...this.#config,
      notifications: { ...notifications(), worker: true },
    });
    const common = { log: this.#log, compiled: join(this.#options.folder, "compiled") };
    const { versions } = this.#options;
    const args = (own: string, place: number) => (start: number) =>
      versions === "one" ? [own] : [own, (start + place) % 2 === 0 ? "this" : "next"];
    this.#workers = [0, 1].map(
      (place) => new Member({ ...common, script: script("worker.ts"), args: args(config, place) }),
    );
    this.#steady = new Member({ ...common, script: script("worker.ts"), args: args(config, 1) });
    this.#apps = [config, delivering].map((own, place) => {
      const app: Member = new Member({
        ...common,
        script: script("app.ts"),
        args: args(own, place),
        onMessage: (message) => this.#callers.answered(message as Answer),
        onGone: () => this.#callers.gone(app),
      });
      return app;
    });
  }

  #members(): readonly Member[] {
    return [...this.#workers, ...(this.#steady === undefined ? [] : [this.#steady]), ...this.#apps];
  }

  /** Counts after a pause in which a lost connection is replaced, and a surplus one would be opened. */
  async #tooManyConnections(): Promise<number> {
    await pause(SETTLED, undefined, { signal: this.#options.signal });
    const places = [...this.#place.servers, ...(this.#redis ? [this.#redis.server] : [])];
    const pid = this.#steady?.pid ?? 0;
    const excess = places.map(({ port, most }) => Math.max(0, connectionsOf(pid, port) - most));
    return excess.reduce((all, each) => all + each, 0);
  }

  /** @returns what did not end as it should. */
  async #end(): Promise<string[]> {
    const members = this.#members();
    const late = new AbortController();
    const endings = members.map((member) =>
      Promise.race([member.stop(), pause(ENDING, "not at all", { signal: late.signal })]),
    );
    const bad = (await Promise.all(endings)).filter((how) => how !== 0);
    late.abort();
    return bad.map((how) => `a process ended after SIGTERM with: ${how}`);
  }
}
