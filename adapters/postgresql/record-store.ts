/** The record store in PostgreSQL, shared by any number of processes. */
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../../core/clock.ts";
import {
  ConditionFailed,
  ConfigurationError,
  SignInError,
  StorageMissing,
  StorageUnavailable,
} from "../../core/errors.ts";
import {
  checkCommit,
  type Commit,
  type Found,
  type Page,
  type Query,
  type RecordStore,
} from "../record-store.ts";
import { withTimeout } from "../../core/with-timeout.ts";
import { asFault, Connections, isPassing, lateFault, sqlState } from "./connection.ts";
import { COUNT, GET, LIST, NEXT, SCAN, SCHEMA } from "./schema.ts";

export interface PostgresOptions {
  /** `postgresql://…`, with any parameters of the driver. */
  readonly url: string;
  /** Decides which records have expired. */
  readonly clock: Clock;
  /** The kinds whose changes are announced to the `watch` of other processes. */
  readonly announced?: readonly string[];
  /** Whether the storage must exist; opening it then writes nothing. Default: what is missing is created. */
  readonly mustExist?: boolean;
}

/** The oldest version that has all features the statements use. */
const OLDEST = 140_000;
/** An arbitrary number. It makes processes that start together create the tables one after the other. */
const SCHEMA_LOCK = 1_936_287_598;
const CHANNEL = "sign_in_changes";
/** Milliseconds for which a response is awaited after the deadline. */
const GRACE = 200;
/** Milliseconds between an unanswered attempt and the next. */
const AGAIN = 50;

/** SQLSTATE of a commit after its deadline. */
const LATE = "SI001";

const LOWEST = Number.MIN_SAFE_INTEGER;
const HIGHEST = Number.MAX_SAFE_INTEGER;

interface Row {
  readonly kind: string;
  readonly key: string;
  readonly value: string;
  readonly version: string;
  readonly expires_at: number | null;
}

interface GotRow extends Row {
  readonly n: string;
  readonly parent_kind: string | null;
  readonly parent_key: string;
  readonly parent_value: string;
  readonly parent_version: string;
  readonly parent_expires_at: number | null;
}

interface ListedRow extends Row {
  readonly n: string;
  readonly id: string;
  readonly place: string;
}

function toFound({ kind, key, value, version, expires_at }: Row): Found {
  return {
    kind,
    key,
    value: JSON.parse(value),
    version,
    ...(expires_at === null ? {} : { expiresAt: expires_at }),
  };
}

function withParent(row: GotRow): Found {
  if (row.parent_kind === null) return toFound(row);
  const parent = toFound({
    kind: row.parent_kind,
    key: row.parent_key,
    value: row.parent_value,
    version: row.parent_version,
    expires_at: row.parent_expires_at,
  });
  return { ...toFound(row), parent };
}

/**
 * The arguments of `sign_in_commit`. Values are passed as text, because PostgreSQL's JSON allows neither NUL nor lone
 * surrogates.
 */
function toArgument(
  { id, expect = [], put = [], remove = [], relaxed = false }: Commit,
  announced: ReadonlySet<string>,
): string {
  const kinds = [...new Set([...put, ...remove].map(({ kind }) => kind))].filter((kind) =>
    announced.has(kind),
  );
  const isPut = new Set(put.map(({ kind, key }) => `${kind} ${key}`));
  const parents = put.flatMap(({ parent }) =>
    parent === undefined || isPut.has(`${parent.kind} ${parent.key}`) ? [] : [parent],
  );
  return JSON.stringify({
    id,
    relaxed,
    expect: expect.map(({ ref, version }) => ({ kind: ref.kind, key: ref.key, version })),
    put: put.map(({ kind, key, value, parent, expiresAt, index = [] }) => ({
      kind,
      key,
      value: JSON.stringify(value),
      expires_at: expiresAt ?? null,
      parent_kind: parent?.kind ?? null,
      parent_key: parent?.key ?? null,
      entries: index.length === 0 ? null : JSON.stringify(index),
    })),
    remove: remove.map(({ kind, key }) => ({ kind, key })),
    parents: parents.map(({ kind, key }) => ({ kind, key })),
    ...(kinds.length === 0 ? {} : { announce: kinds.join(" ") }),
  });
}

interface FailedRef {
  readonly kind: string;
  readonly key: string;
  readonly parent: boolean;
}

/** The records whose conditions failed. If a parent is missing, these are the children that were to be put. */
function toRefs(
  failed: readonly FailedRef[],
  { put = [], remove = [] }: Commit,
): readonly { kind: string; key: string }[] {
  const refs = failed.flatMap(({ kind, key, parent }) =>
    parent
      ? put.filter((record) => record.parent?.kind === kind && record.parent.key === key)
      : [{ kind, key }],
  );
  const orphans = put.filter(
    ({ parent }) => parent && remove.some(({ kind, key }) => kind === parent.kind && key === parent.key),
  );
  return [...refs, ...orphans].map(({ kind, key }) => ({ kind, key }));
}

class PostgresStore implements RecordStore {
  readonly #connections: Connections;
  readonly #clock: Clock;
  readonly #announced: ReadonlySet<string>;
  readonly #watches = new Map<() => void, readonly string[]>();
  #isListening = false;

  constructor(connections: Connections, { clock, announced = [] }: PostgresOptions) {
    this.#connections = connections;
    this.#clock = clock;
    this.#announced = new Set(announced);
  }

  async get(
    refs: Parameters<RecordStore["get"]>[0],
    { withParents = false } = {},
  ): Promise<(Found | undefined)[]> {
    const found: (Found | undefined)[] = refs.map(() => undefined);
    const values = [this.#clock.now(), refs.map(({ kind }) => kind), refs.map(({ key }) => key)];
    for (const row of await this.#connections.query<GotRow>(GET, values)) {
      found[Number(row.n) - 1] = withParents ? withParent(row) : toFound(row);
    }
    return found;
  }

  async list(queries: readonly Query[]): Promise<Page[]> {
    const bounds = queries.map(({ from = LOWEST, to = HIGHEST, after, descending = false }) => {
      const [place, record] = after?.split(" ") ?? [];
      return descending
        ? { start: place ?? to, after: record ?? HIGHEST, bound: from }
        : { start: place ?? from, after: record ?? LOWEST, bound: to };
    });
    const rows = await this.#connections.query<ListedRow>(LIST, [
      this.#clock.now(),
      queries.map(({ kind }) => kind),
      queries.map(({ index }) => index),
      queries.map(({ at }) => at),
      bounds.map(({ start }) => start),
      bounds.map(({ after }) => after),
      bounds.map(({ bound }) => bound),
      queries.map(({ limit }) => limit),
      queries.map(({ descending }) => (descending ? "DESC" : "ASC")),
    ]);
    const found = Map.groupBy(rows, ({ n }) => Number(n) - 1);
    return queries.map(({ limit }, index) => {
      const all = found.get(index) ?? [];
      const shown = all.slice(0, limit);
      const last = all.length > limit ? shown.at(-1) : undefined;
      const records = shown.map(toFound);
      return last === undefined ? { records } : { records, next: `${last.place} ${last.id}` };
    });
  }

  async scan(kind: string, after: string | undefined, limit: number): Promise<Page> {
    const values = [this.#clock.now(), kind, after ?? "", limit];
    const rows = await this.#connections.query<Row & { readonly live: boolean }>(SCAN, values);
    const records = rows.filter(({ live }) => live).map(toFound);
    const last = rows.length < limit ? undefined : rows.at(-1);
    return last === undefined ? { records } : { records, next: last.key };
  }

  async count(queries: readonly Query[]): Promise<number[]> {
    const rows = await this.#connections.query<{ count: number }>(COUNT, [
      queries.map(({ kind }) => kind),
      queries.map(({ index }) => index),
      queries.map(({ at }) => at),
      queries.map(({ from = LOWEST }) => from),
      queries.map(({ to = HIGHEST }) => to),
    ]);
    return rows.map(({ count }) => count);
  }

  async commit(change: Commit): Promise<void> {
    checkCommit(change);
    // The caller may change its objects while the commit waits.
    const argument = toArgument(change, this.#announced);
    await this.#connections.during(() => this.#commit(change, argument));
  }

  /** Repeats the commit until its outcome is known. `sign_in_commit` applies a commit once. */
  async #commit(change: Commit, argument: string): Promise<void> {
    const { put = [], remove = [] } = change;
    const orphans = put.filter(
      ({ parent }) => parent && remove.some(({ kind, key }) => kind === parent.kind && key === parent.key),
    );
    if (orphans.length > 0) throw new ConditionFailed("a record has no parent", toRefs([], change));
    const wait = change.deadline - this.#clock.now();
    if (wait <= 0) throw new StorageUnavailable("the deadline of this commit has passed");
    const end = performance.now() + wait;
    for (let isAgain = false; ; isAgain = true) {
      try {
        const answer = this.#attempt(argument, end, isAgain);
        const failed = await withTimeout(end + GRACE - performance.now(), answer, lateFault);
        if (failed !== null) throw failure(failed, change);
        return;
      } catch (error) {
        const state = sqlState(error);
        if (state === LATE) this.#connections.forgetServerTime();
        const isOver = error instanceof ConditionFailed || (state !== undefined && !isPassing(error));
        // The next attempt reads the server's clock again, so there may be time left.
        if ((isOver && state !== LATE) || performance.now() >= end) throw asFault(error);
        if (state === undefined) await pause(AGAIN);
      }
    }
  }

  /**
   * @param end on the scale of `performance.now()`.
   * @returns the records whose expectation does not hold.
   */
  async #attempt(argument: string, end: number, isAgain: boolean): Promise<readonly FailedRef[] | null> {
    const deadline = await this.#connections.serverTimeIn(end - performance.now());
    const values = [argument, this.#clock.now(), deadline, isAgain];
    const text = "SELECT sign_in_commit($1, $2, $3, $4) AS failed";
    const [row] = await this.#connections.raw<{ failed: readonly FailedRef[] | null }>(text, values);
    return row?.failed ?? null;
  }

  async next(counter: string, atLeast = 1): Promise<number> {
    const [row] = await this.#connections.query<{ value: string }>(NEXT, [counter, atLeast]);
    return Number(row?.value);
  }

  async sweep(limit: number): Promise<number> {
    const values = [this.#clock.now(), limit];
    const [row] = await this.#connections.query<{ swept: number }>(
      "SELECT sign_in_sweep($1, $2) AS swept",
      values,
    );
    return row?.swept ?? 0;
  }

  watch(kinds: readonly string[], onChange: () => void): () => void {
    this.#watches.set(onChange, kinds);
    if (!this.#isListening) this.#listen();
    return () => void this.#watches.delete(onChange);
  }

  #listen(): void {
    this.#isListening = true;
    // While there was no connection, anything may have changed.
    const tellAll = (): void => this.#watches.forEach((_kinds, onChange) => onChange());
    const tell = (text: string): void => {
      const changed = new Set(text.split(" "));
      for (const [onChange, kinds] of this.#watches) if (kinds.some((kind) => changed.has(kind))) onChange();
    };
    void this.#connections.listen(CHANNEL, tellAll, tell);
  }

  async ping(): Promise<number> {
    const [row] = await this.#connections.query<{ now: Date }>("SELECT clock_timestamp() AS now");
    return Number(row?.now);
  }

  async close(): Promise<void> {
    this.#watches.clear();
    await this.#connections.close();
  }
}

function failure(failed: readonly FailedRef[], change: Commit): ConditionFailed {
  const kinds = [...new Set(failed.map(({ kind }) => kind))].join(", ");
  return new ConditionFailed(`an expectation about ${kinds} does not hold`, toRefs(failed, change));
}

/** What is wrong with an address, by the SQLSTATE of the server's error. */
const PROBLEMS: ReadonlyMap<unknown, string> = new Map([
  ["28P01", "PostgreSQL refuses the user or the password"],
  ["28000", "PostgreSQL refuses the user or the password"],
  ["3D000", "PostgreSQL has no database of this name"],
  ["42501", "PostgreSQL refuses the user, who must be one that may create tables and functions"],
]);

/** One sentence without the address, which may contain a password. */
function openingFault(error: unknown): unknown {
  const code: unknown = sqlState(error) ?? Reflect.get(Object(error), "code");
  const problem = PROBLEMS.get(code);
  if (problem !== undefined) return new ConfigurationError([`config.storage: ${problem}`]);
  if (error instanceof SignInError) return error;
  const why = typeof code === "string" ? code : "no answer";
  return new StorageUnavailable(`the PostgreSQL of config.storage can't be used (${why})`);
}

/** Whether this database has ever held a storage. */
async function hasRecords(connections: Connections): Promise<boolean> {
  const text = "SELECT to_regclass('sign_in_records') IS NOT NULL AS found";
  const [row] = await connections.raw<{ found: boolean }>(text);
  return row?.found === true;
}

/**
 * Opens the store and creates its tables, unless it must exist.
 * @throws ConfigurationError when the server is older than PostgreSQL 14, or refuses the user or the database.
 * @throws StorageUnavailable when it can't be reached.
 */
export async function openPostgres(options: PostgresOptions): Promise<RecordStore> {
  const connections = await Connections.open(options.url);
  try {
    const [row] = await connections.raw<{ server_version_num: string }>("SHOW server_version_num");
    if (Number(row?.server_version_num) < OLDEST) {
      throw new ConfigurationError(["config.storage: PostgreSQL 14 or newer is needed"]);
    }
    if (options.mustExist !== true) {
      await connections.raw(`BEGIN; SELECT pg_advisory_xact_lock(${SCHEMA_LOCK}); ${SCHEMA} COMMIT;`);
    } else if (!(await hasRecords(connections))) {
      throw new StorageMissing("there is no storage in that database of PostgreSQL");
    }
    return new PostgresStore(connections, options);
  } catch (error) {
    await connections.close();
    throw openingFault(error);
  }
}
