/** The record store in Redis: for what changes often and lives shortly. */
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../../lib/clock.ts";
import { ConditionFailed, StorageUnavailable } from "../../lib/errors.ts";
import { createUntil } from "../../lib/until.ts";
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
import type { Connection } from "./connection.ts";
import { Unanswered } from "./faults.ts";
import { COMMIT, GET, LIST, NEXT, SWEEP } from "./record-scripts.ts";

export interface RedisRecordOptions {
  readonly connection: Connection;
  /** What all keys begin with. */
  readonly prefix: string;
  /** Decides what has expired. */
  readonly clock: Clock;
}

/** Milliseconds after the deadline for which an answer is still waited for. */
const GRACE = 200;
/** Milliseconds after the deadline for which a commit is remembered: longer than anybody asks. */
const REMEMBERED = 1_000;
/** Milliseconds between an attempt without an answer and the next. */
const AGAIN = 20;
/** Keys that a scan looks at in one step. */
const SCANNED = 1_000;

const idOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

function toRef(id: string): Ref {
  const space = id.indexOf(" ");
  return { kind: id.slice(0, space), key: id.slice(space + 1) };
}

/** A record as a script answers it: its name, value, version and end; empty for none. */
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

/** Text in text, for the script takes values as they are. What is `undefined` is left out. */
function toPut({ kind, key, value, expiresAt, parent, index = [] }: RecordData): object {
  return {
    id: idOf({ kind, key }),
    value: JSON.stringify(value),
    ends: expiresAt === undefined ? undefined : String(expiresAt),
    parent: parent && idOf(parent),
    entries: index.length === 0 ? undefined : entriesOf(index),
  };
}

function toArgument({ expect = [], put = [], remove = [] }: Commit): string {
  const parentsFirst = put.toSorted(
    (one, other) => Number(one.parent !== undefined) - Number(other.parent !== undefined),
  );
  return JSON.stringify({
    expect: expect.map(({ ref, version }) => ({ id: idOf(ref), version })),
    put: parentsFirst.map(toPut),
    remove: remove.map(idOf),
  });
}

/** Orders as text: numbers of a script would lose their last digits. */
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

export function createRedisRecords({ connection, prefix, clock }: RedisRecordOptions): RecordStore {
  const until = createUntil(() => new StorageUnavailable("Redis did not answer until the deadline"));
  const run = (text: Parameters<Connection["run"]>[0], values: readonly string[]): Promise<unknown> =>
    connection.run(text, [], [prefix, String(clock.now()), ...values]);

  async function attempt(change: Commit, argument: string, deadline: number): Promise<readonly string[]> {
    const redisDeadline = await connection.timeAt(deadline);
    const remembered = Math.ceil(Math.max(0, deadline - performance.now()) + REMEMBERED);
    const answer = await run(COMMIT, [change.id, String(redisDeadline), String(remembered), argument]);
    return answer as readonly string[];
  }

  /** Until it is known what became of the commit: sent again it is done once, and says so. */
  async function commit(change: Commit, argument: string, wait: number): Promise<void> {
    if (!connection.isReady) throw new StorageUnavailable("there is no connection to Redis");
    const deadline = performance.now() + wait;
    const end = deadline + GRACE;
    for (;;) {
      try {
        const [outcome, ...failed] = await until(end, attempt(change, argument, deadline));
        if (outcome === "done") return;
        if (outcome === "failed")
          throw new ConditionFailed("an expectation does not hold", failed.map(toRef));
        // With the time of Redis that came with this answer there may be time left.
        if (performance.now() >= deadline)
          throw new StorageUnavailable("Redis came to it after the deadline");
      } catch (error) {
        if (!(error instanceof Unanswered)) throw error;
        await pause(AGAIN);
        if (!(await connection.readyWithin(end - performance.now()))) throw error;
      }
    }
  }

  return {
    get: (refs, { withParents = false } = {}) =>
      connection.during(async () => {
        if (refs.length === 0) return [];
        const rows = (await run(GET, [withParents ? "1" : "", ...refs.map(idOf)])) as readonly Row[];
        return refs.map((_ref, index) => toFound(rows[2 * index] ?? [], rows[2 * index + 1]));
      }),
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
        let cursor = after ?? "0";
        const found: Found[] = [];
        do {
          const [next, keys] = await connection.send((client) =>
            client.scan(cursor, "MATCH", pattern, "COUNT", SCANNED),
          );
          cursor = next;
          const ids = keys.map((key) => key.slice(prefix.length + 2));
          const rows = ids.length === 0 ? [] : ((await run(GET, ["", ...ids])) as readonly Row[]);
          found.push(...ids.flatMap((_id, index) => toFound(rows[2 * index] ?? []) ?? []));
        } while (cursor !== "0" && found.length < limit);
        return cursor === "0" ? { records: found } : { records: found, next: cursor };
      }),
    count: (queries) =>
      connection.during(() =>
        Promise.all(
          queries.map(({ kind, index, at, from, to }) =>
            connection.send((client) =>
              client.zcount(
                `${prefix}x:${indexName(kind, { name: index, at })}`,
                from ?? "-inf",
                to ?? "+inf",
              ),
            ),
          ),
        ),
      ),
    async commit(change) {
      checkCommit(change);
      // The caller may change its objects before it is sent.
      const argument = toArgument(change);
      const wait = change.deadline - clock.now();
      await connection.during(async () => {
        if (wait <= 0) throw new StorageUnavailable("the deadline of this commit has passed");
        await commit(change, argument, wait);
      });
    },
    next: (counter, atLeast = 1) =>
      connection.during(async () => Number(await run(NEXT, [counter, String(atLeast)]))),
    sweep: (limit) => connection.during(async () => Number(await run(SWEEP, [String(limit)]))),
    ping: () =>
      connection.during(async () => {
        const [seconds, micros] = await connection.send((client) => client.time());
        return Number(seconds) * 1_000 + Number(micros) / 1_000;
      }),
    close: () => connection.close(),
  };
}
