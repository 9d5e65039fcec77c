/** The record store in Redis, for short-lived records that change often. */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type RedisAddress, readRedisAddress } from "../../config/redis-address.ts";
import type { Clock } from "../../core/clock.ts";
import { ConditionFailed, ConfigurationError, StorageUnavailable } from "../../core/errors.ts";
import { batchReads } from "../read-batches.ts";
import {
  checkCommit,
  type Commit,
  type Found,
  type IndexEntry,
  type Page,
  type Query,
  type RecordData,
  type RecordStore,
  type Ref,
} from "../record-store.ts";
import { withTimeout } from "../../core/with-timeout.ts";
import { Connection, createClient, type Script } from "./connection.ts";
import { answerCode, Unanswered } from "./faults.ts";
import type { OnStoreWarning } from "../../core/store-warning.ts";
import { firstConnection, checkServer, type Purpose, unusable } from "./startup.ts";
import { COMMIT, GET, LIST, NEXT, PING, SWEEP } from "./record-scripts.ts";

export interface RedisOptions {
  /** See `readRedisAddress`. */
  readonly url: string;
  /** Decides what has expired. */
  readonly clock: Clock;
  /** Begins all keys, after the prefix of the address. Default: none. */
  readonly storageId?: string | undefined;
  /** Receives problems that an operator should fix. */
  readonly onWarning?: OnStoreWarning;
  /** Time-out of the first connection. Default 10,000. */
  readonly startTimeoutMs?: number;
}

const PURPOSE: Purpose = {
  key: "artifacts",
  harm: "people are signed out and what was ended may come back",
};
const PREFIX = "sign-in:";
const CONNECT_TIMEOUT_MS = 10_000;

/** How long after the deadline an answer may still arrive. */
const LATE_ANSWER_MS = 200;
/** How long after the deadline Redis remembers a commit: longer than it is sent again. */
const COMMIT_ID_KEPT_MS = 1_000;
/** Pause after an attempt without an answer. */
const RETRY_DELAY_MS = 20;
/** Pause after an attempt that was refused because the primary changes. */
const MOVING_DELAY_MS = 100;
/** Reasons of refusals that end when another server is the primary, or has all keys. Nothing was written. */
const MOVING: ReadonlySet<string | undefined> = new Set([
  "MOVED",
  "ASK",
  "TRYAGAIN",
  "CLUSTERDOWN",
  "READONLY",
]);
/** How long a read waits for that. */
const MOVING_LIMIT_MS = 2_000;

const isMoving = (error: unknown): boolean => error instanceof StorageUnavailable && MOVING.has(error.reason);
/** For the replicas to confirm a commit: shorter than a silence that ends a connection. */
const CONFIRMATION_TIMEOUT_MS = 1_000;
/** Keys that one step of a scan visits. */
const SCANNED = 1_000;

const idOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

function toRef(id: string): Ref {
  const space = id.indexOf(" ");
  return { kind: id.slice(0, space), key: id.slice(space + 1) };
}

/** A record as a script returns it: id, value, version and expiry; empty if there is none. */
type Row = readonly string[];

function toFound([id, value, version = "", end]: Row, parent?: Row): Found | undefined {
  if (id === undefined || value === undefined) return undefined;
  const found: Found = {
    ...toRef(id),
    value: JSON.parse(value),
    version,
    ...(end ? { expiresAt: Number(end) } : {}),
  };
  const above = parent && toFound(parent);
  return above === undefined ? found : { ...found, parent: above };
}

const indexName = (kind: string, { name, at }: Pick<IndexEntry, "name" | "at">): string =>
  `${kind} ${name} ${at}`;

/** A record to write, without its value. */
function toPut({ kind, key, expiresAt, parent, index = [] }: RecordData): object {
  return {
    id: idOf({ kind, key }),
    ends: expiresAt === undefined ? undefined : String(expiresAt),
    parent: parent && idOf(parent),
    entries: index.length === 0 ? undefined : entriesOf(index),
  };
}

/** A commit as the script takes it: what it does, and the values of its records, which the script does not read. */
function toArguments({ expect = [], put = [], remove = [] }: Commit): readonly string[] {
  const parentsFirst = put.toSorted(
    (one, other) => Number(one.parent !== undefined) - Number(other.parent !== undefined),
  );
  const change = {
    expect: expect.map(({ ref, version }) => ({ id: idOf(ref), version })),
    put: parentsFirst.map(toPut),
    remove: remove.map(idOf),
  };
  return [JSON.stringify(change), ...parentsFirst.map(({ value }) => JSON.stringify(value))];
}

/** Orders are text: numbers in a script lose their last digits. */
function entriesOf(index: readonly IndexEntry[]): string {
  return JSON.stringify(index.map(({ name, at, order }) => ({ name, at, order: String(order) })));
}

/** A query as a script takes it. */
function toValues({ kind, index, at, from, to, after, limit, descending = false }: Query): string[] {
  const [order = "", ...record] = after?.split(" ") ?? [];
  const bounds = [from === undefined ? "-inf" : String(from), to === undefined ? "+inf" : String(to)];
  return [
    indexName(kind, { name: index, at }),
    ...bounds,
    String(limit),
    descending ? "1" : "",
    order,
    record.join(" "),
  ];
}

const lateFault = (): StorageUnavailable =>
  new StorageUnavailable("Redis did not answer until the deadline", { reason: "timeout" });

/**
 * @throws StorageUnavailable with a message of its own if the user may not SCAN, which a running service does not need.
 */
async function scanStep(
  connection: Connection,
  cursor: string,
  pattern: string,
): Promise<readonly [next: string, keys: readonly string[]]> {
  const answer = await connection.send(async (client) => {
    try {
      return await client.scan(cursor, "MATCH", pattern, "COUNT", SCANNED);
    } catch (error) {
      if (answerCode(error) === "NOPERM") return undefined;
      throw error;
    }
  });
  if (answer === undefined) throw new StorageUnavailable("Redis does not let this user SCAN");
  return answer;
}

/** How a store uses its server. */
interface Usage {
  /** How many replicas must have a commit before it is acknowledged. */
  readonly replicas: number;
  /** Begins all of them. */
  readonly prefix: string;
  /**
   * What each script declares. In a cluster that is one key that is never written: a server that has not all keys of its
   * slot, because it gives or takes them, then refuses the script as a whole.
   */
  readonly declared: readonly string[];
}

/** In a cluster the braces put all keys into one slot. */
function usageOf({ kind, prefix = PREFIX, replicas }: RedisAddress, storageId: string | undefined): Usage {
  if (kind !== "cluster")
    return { replicas, prefix: storageId === undefined ? prefix : `${prefix}${storageId}:`, declared: [] };
  const own = `${prefix}{${storageId ?? "all"}}:`;
  return { replicas, prefix: own, declared: [`${own}never`] };
}

function createStore(
  connection: Connection,
  { replicas, prefix, declared }: Usage,
  clock: Clock,
): RecordStore {
  const runOnce = (text: Script, values: readonly string[], now: number = clock.now()): Promise<unknown> =>
    connection.run(text, declared, [prefix, String(now), ...values]);

  /** Runs a script that is safe to repeat. Tries again for a moment while the primary changes. */
  async function run(text: Script, values: readonly string[], now?: number): Promise<unknown> {
    const end = performance.now() + MOVING_LIMIT_MS;
    for (;;) {
      try {
        return await runOnce(text, values, now);
      } catch (error) {
        if (!isMoving(error)) throw error;
        await pause(MOVING_DELAY_MS);
        if (performance.now() >= end || !(await connection.readyWithin(end - performance.now()))) throw error;
      }
    }
  }

  async function attempt(
    { id }: Commit,
    parts: readonly string[],
    deadline: number,
  ): Promise<readonly string[]> {
    const redisDeadline = await connection.timeAt(deadline);
    const storedFor = Math.ceil(Math.max(0, deadline - performance.now()) + COMMIT_ID_KEPT_MS);
    const values = [id, String(redisDeadline), String(storedFor), ...parts];
    const answer = (await runOnce(COMMIT, values)) as readonly string[];
    if (replicas > 0 && answer[0] === "done" && (await confirmations()) < replicas)
      throw new Unanswered("the replicas of Redis have not confirmed a commit", { reason: "replicas" });
    return answer;
  }

  /** How many replicas have what was written on this connection. Redis answers what waits behind it later. */
  const confirmations = (): Promise<number> =>
    connection.send((client) => client.wait(replicas, CONFIRMATION_TIMEOUT_MS));

  /** Repeats the commit until its outcome is known. The script runs a commit once and answers "done" again. */
  async function commit(change: Commit, parts: readonly string[], wait: number): Promise<void> {
    if (!connection.isReady && !MOVING.has(connection.lost)) {
      const why = connection.lost ?? "no connection";
      throw new StorageUnavailable(`there is no connection to Redis (${why})`, { reason: why });
    }
    const deadline = performance.now() + wait;
    const end = deadline + LATE_ANSWER_MS;
    for (;;) {
      try {
        const [outcome, ...failed] = await withTimeout(
          end - performance.now(),
          attempt(change, parts, deadline),
          lateFault,
        );
        if (outcome === "done") return;
        if (outcome === "failed")
          throw new ConditionFailed("an expectation does not hold", failed.map(toRef));
        // "late": the answer corrected the estimate of Redis's clock, so there may be time left.
        if (performance.now() >= deadline)
          throw new StorageUnavailable("Redis received the commit after its deadline", {
            reason: "deadline",
          });
      } catch (error) {
        const moving = isMoving(error);
        if (!moving && !(error instanceof Unanswered)) throw error;
        if (moving && performance.now() + MOVING_DELAY_MS >= deadline) throw error;
        await pause(moving ? MOVING_DELAY_MS : RETRY_DELAY_MS);
        if (!(await connection.readyWithin(end - performance.now()))) throw error;
      }
    }
  }

  return {
    get: batchReads((refs, { withParents = false } = {}) =>
      connection.during(async () => {
        const rows = (await run(GET, refs.map(idOf))) as readonly Row[];
        return refs.map((_ref, at) =>
          toFound(rows[2 * at] ?? [], withParents ? rows[2 * at + 1] : undefined),
        );
      }),
    ),
    list: (queries) =>
      connection.during(async () => {
        if (queries.length === 0) return [];
        const pages = (await run(LIST, queries.flatMap(toValues))) as readonly (readonly [
          readonly Row[],
          string,
        ])[];
        return pages.map(([rows, next]): Page => {
          const records = rows.flatMap((row) => toFound(row) ?? []);
          return next === "" ? { records } : { records, next };
        });
      }),
    scan: (kind, after, limit) =>
      connection.during(async () => {
        const begin = `${prefix}r:${kind} `;
        const pattern = `${begin.replaceAll(/[[\]*?\\^]/g, String.raw`\$&`)}*`;
        // A cursor is valid for one Redis process only. After a new connection the scan starts again.
        const { session } = connection;
        const [known, place = "0"] = after?.split(" ") ?? [];
        let cursor = known === session ? place : "0";
        const found: Found[] = [];
        do {
          const [next, keys] = await scanStep(connection, cursor, pattern);
          cursor = next;
          const ids = keys.map((key) => key.slice(prefix.length + 2));
          // Without any as well: a node that no longer has the slot finds nothing, and says so only to a script.
          const rows = (await run(GET, ids)) as readonly Row[];
          found.push(...ids.flatMap((_id, index) => toFound(rows[2 * index] ?? []) ?? []));
        } while (cursor !== "0" && found.length < limit);
        return cursor === "0" ? { records: found } : { records: found, next: `${session} ${cursor}` };
      }),
    count: (queries) =>
      connection.during(() =>
        Promise.all(
          queries.map(async ({ kind, index, at, from = "-inf", to = "+inf", limit }) => {
            const key = `${prefix}x:${indexName(kind, { name: index, at })}`;
            // Redis knows the number without reading the members.
            return Math.min(limit, await connection.send((client) => client.zcount(key, from, to)));
          }),
        ),
      ),
    async commit(change) {
      checkCommit(change);
      // Serialized now, because the caller may change its objects.
      const parts = toArguments(change);
      const wait = change.deadline - clock.now();
      await connection.during(async () => {
        if (wait <= 0)
          throw new StorageUnavailable("the deadline of this commit has passed", { reason: "deadline" });
        await commit(change, parts, wait);
      });
    },
    next: (counter, atLeast = 1) =>
      connection.during(async () => Number(await run(NEXT, [counter, String(atLeast)]))),
    sweep: (limit, now) => connection.during(async () => Number(await run(SWEEP, [String(limit)], now))),
    ping: () =>
      connection.during(async () => {
        const [seconds, micros] = (await runOnce(PING, [])) as readonly string[];
        return Number(seconds) * 1_000 + Number(micros) / 1_000;
      }),
    close: () => connection.close(),
  };
}

/** Runs the commands of a running service, so that missing rights are reported at start-up. */
async function tryOut(store: RecordStore, clock: Clock): Promise<void> {
  const key = randomUUID();
  const parent = { kind: "trial", key };
  const index = [{ name: "trial", at: key, order: 0 }];
  const lasting = { value: {}, expiresAt: clock.now() + 10_000 };
  const deadline = clock.now() + 5_000;
  await store.commit({
    id: `put-${key}`,
    deadline,
    put: [
      { ...parent, ...lasting, index },
      { kind: "trial", key: `${key}-child`, parent, ...lasting },
    ],
  });
  const query = { kind: "trial", index: "trial", at: key, limit: 1 };
  await store.list([query, { ...query, descending: true }]);
  await store.count([query]);
  await store.sweep(1, clock.now());
  await store.commit({ id: `remove-${key}`, deadline, remove: [parent] });
}

/**
 * Connects to Redis. A lost connection is restored in the background; until then every call is refused immediately.
 * @throws ConfigurationError for a replica, a server of another kind than the address says, or an invalid address.
 * @throws StorageUnavailable when it does not answer in time, or the user lacks rights.
 */
export async function openRedis({
  url,
  clock,
  storageId,
  onWarning = () => undefined,
  startTimeoutMs = CONNECT_TIMEOUT_MS,
}: RedisOptions): Promise<RecordStore> {
  const address = readRedisAddress(url);
  if (typeof address === "string") throw new ConfigurationError([`config.artifacts: ${address}`]);
  const usage = usageOf(address, storageId);
  const client = await createClient(address, usage.prefix);
  try {
    await firstConnection(client, PURPOSE, startTimeoutMs);
    await checkServer(client, { ...PURPOSE, kind: address.kind }, onWarning);
    const connection = new Connection(client);
    const store = createStore(connection, usage, clock);
    await tryOut(store, clock).catch((error: unknown) => {
      throw unusable(PURPOSE, error);
    });
    return store;
  } catch (error) {
    client.disconnect();
    throw error;
  }
}
