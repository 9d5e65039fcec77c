/** The record store in PostgreSQL, shared by any number of processes. */
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../../core/clock.ts";
import { ConditionFailed, StorageUnavailable } from "../../core/errors.ts";
import type { OnStoreWarning } from "../../core/store-warning.ts";
import { batchReads } from "../read-batches.ts";
import {
  checkCommit,
  type Commit,
  COUNTERS_AHEAD,
  type DataCopy,
  type Found,
  type Page,
  type Query,
  type RecordData,
  type RecordStore,
  type Ref,
} from "../record-store.ts";
import { withTimeout } from "../../core/with-timeout.ts";
import { Connections } from "./connection.ts";
import { CLOCK, type Statement } from "./statement.ts";
import { asFault, isTransient, lateFault, sqlState } from "./faults.ts";
import { createFunctions, dropLeftovers, findLeftovers, openingFault, prepareDatabase } from "./opening.ts";
import {
  CLUSTER,
  COMMIT,
  COUNT,
  GET,
  GET_ONE,
  LIST_DOWN,
  LIST_UP,
  NEXT,
  NOTIFY,
  SCAN,
  SWEEP,
  TABLES,
} from "./schema.ts";

export interface PostgresOptions {
  /** `postgresql://…`, with any parameters that `readPostgresAddress` knows. */
  readonly url: string;
  /** Decides which records have expired. */
  readonly clock: Clock;
  /** The kinds whose changes are announced to the `watch` of other processes. */
  readonly announced?: readonly string[];
  /** Whether the storage must exist; opening it then writes nothing. Default `false`: missing parts are created. */
  readonly mustExist?: boolean;
  /** Receives problems that an operator should fix or know. */
  readonly onWarning?: OnStoreWarning;
}

const CHANNEL = "sign_in_changes";
/** How long after the deadline an answer may still arrive. */
const LATE_ANSWER_MS = 200;
/** Pause after an attempt without an answer. */
const RETRY_DELAY_MS = 50;

/** SQLSTATE of a call of a function that is not there. */
const UNKNOWN_FUNCTION = "42883";
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
  readonly n: number;
  readonly parent_kind: string | null;
  readonly parent_key: string;
  readonly parent_value: string;
  readonly parent_version: string;
  readonly parent_expires_at: number | null;
}

interface ListedRow extends Row {
  readonly n: number;
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

/** What a commit does with a record: this decides how the record is locked. */
type Use = "put" | "remove" | "expect" | "parent";

/** A record that a commit is about. */
interface CommitRef extends Ref {
  use: Use;
  /** The expected version; `null` if the commit expects none. */
  version: string | null;
  /** Whether it is the parent of a record to put. */
  parent: boolean;
}

/** The arguments of `sign_in_commit`. */
interface CommitArguments {
  readonly refs: readonly CommitRef[];
  /** As JSON. */
  readonly refsText: string;
  readonly putsText: string;
}

const hasEntries = ({ index = [] }: RecordData): boolean => index.length > 0;

const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/**
 * Values are passed as text within JSON, because PostgreSQL's JSON allows neither NUL nor lone surrogates. References
 * are sorted, because records are locked in their order.
 */
function toArguments({ expect = [], put = [], remove = [] }: Commit): CommitArguments {
  const byName = new Map<string, CommitRef>();
  const add = ({ kind, key }: Ref, use: Use): CommitRef => {
    const name = nameOf({ kind, key });
    const known = byName.get(name);
    if (known !== undefined) return known;
    const ref = { kind, key, use, version: null, parent: false };
    byName.set(name, ref);
    return ref;
  };
  for (const record of put) add(record, "put");
  for (const ref of remove) add(ref, "remove");
  for (const { ref, version } of expect) add(ref, "expect").version = version;
  for (const { parent } of put) if (parent !== undefined) add(parent, "parent").parent = true;
  const refs = [...byName.values()].toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  const numbers = new Map(refs.map((ref, index) => [nameOf(ref), index + 1] as const));
  const puts = put.map((record) => ({
    ref: numbers.get(nameOf(record)),
    key: record.key,
    parent: record.parent && numbers.get(nameOf(record.parent)),
    value: JSON.stringify(record.value),
    expires_at: record.expiresAt,
    entries: hasEntries(record) ? JSON.stringify(record.index) : undefined,
  }));
  return { refs, refsText: JSON.stringify(refs), putsText: JSON.stringify(puts) };
}

/** The children that a commit would put under a record that it removes. */
function orphansOf({ put = [], remove = [] }: Commit): Ref[] {
  const removed = new Set(remove.map(nameOf));
  return put.filter(({ parent }) => parent !== undefined && removed.has(nameOf(parent)));
}

/**
 * The records whose conditions failed. For a missing parent without a condition of its own, these are the children that
 * were to be put.
 */
function failedRefs(numbers: readonly number[], refs: readonly CommitRef[], { put = [] }: Commit): Ref[] {
  return numbers.flatMap((number): readonly Ref[] => {
    const ref = refs[number - 1] as CommitRef;
    if (ref.version !== null) return [ref];
    return put.filter(({ parent }) => parent !== undefined && nameOf(parent) === nameOf(ref));
  });
}

class PostgresStore implements RecordStore {
  readonly #connections: Connections;
  readonly #clock: Clock;
  readonly #announced: ReadonlySet<string>;
  readonly #watches = new Map<() => void, readonly string[]>();
  #isListening = false;
  /** The announced kinds that have changed since the last announcement. */
  readonly #changed = new Set<string>();
  #isAnnouncing = false;
  #tellsTimeline = false;
  /** Absent without a session, which is what listens. */
  readonly watch?: NonNullable<RecordStore["watch"]>;

  constructor(connections: Connections, { clock, announced = [] }: PostgresOptions) {
    this.#connections = connections;
    this.#clock = clock;
    this.#announced = new Set(announced);
    if (connections.hasSessions) this.watch = (kinds, onChange) => this.#watch(kinds, onChange);
  }

  readonly get: RecordStore["get"] = batchReads(async (refs, { withParents = false } = {}) => {
    const found: (Found | undefined)[] = refs.map(() => undefined);
    const [first] = refs;
    const now = this.#clock.now();
    const rows =
      refs.length === 1 && first !== undefined
        ? await this.#query<GotRow>(GET_ONE, [now, first.kind, first.key])
        : await this.#query<GotRow>(GET, [now, refs.map(({ kind }) => kind), refs.map(({ key }) => key)]);
    for (const row of rows) found[row.n - 1] = withParents ? withParent(row) : toFound(row);
    return found;
  });

  /** In one round trip: queries of both directions are sent at the same time. */
  async list(queries: readonly Query[]): Promise<Page[]> {
    const pages = new Map<Query, Page>();
    const down = queries.filter(({ descending = false }) => descending);
    const up = queries.filter(({ descending = false }) => !descending);
    await Promise.all([this.#list(LIST_UP, up, pages), this.#list(LIST_DOWN, down, pages)]);
    return queries.map((query) => pages.get(query) ?? { records: [] });
  }

  async #list(statement: Statement, queries: readonly Query[], pages: Map<Query, Page>): Promise<void> {
    if (queries.length === 0) return;
    const bounds = queries.map(({ from = LOWEST, to = HIGHEST, after, descending = false }) => {
      const [place, record] = after?.split(" ") ?? [];
      return descending
        ? { start: place ?? to, after: record ?? HIGHEST, bound: from }
        : { start: place ?? from, after: record ?? LOWEST, bound: to };
    });
    const rows = await this.#query<ListedRow>(statement, [
      this.#clock.now(),
      queries.map(({ kind }) => kind),
      queries.map(({ index }) => index),
      queries.map(({ at }) => at),
      bounds.map(({ start }) => start),
      bounds.map(({ after }) => after),
      bounds.map(({ bound }) => bound),
      queries.map(({ limit }) => limit),
    ]);
    const found = Map.groupBy(rows, ({ n }) => n);
    for (const [index, query] of queries.entries()) {
      const all = found.get(index + 1) ?? [];
      const shown = all.slice(0, query.limit);
      const last = all.length > query.limit ? shown.at(-1) : undefined;
      const records = shown.map(toFound);
      pages.set(query, last === undefined ? { records } : { records, next: `${last.place} ${last.id}` });
    }
  }

  async scan(kind: string, after: string | undefined, limit: number): Promise<Page> {
    const values = [this.#clock.now(), kind, after ?? "", limit];
    const rows = await this.#query<Row & { readonly live: boolean }>(SCAN, values);
    const records = rows.filter(({ live }) => live).map(toFound);
    const last = rows.length < limit ? undefined : rows.at(-1);
    return last === undefined ? { records } : { records, next: last.key };
  }

  async count(queries: readonly Query[]): Promise<number[]> {
    const rows = await this.#query<{ count: number }>(COUNT, [
      queries.map(({ kind }) => kind),
      queries.map(({ index }) => index),
      queries.map(({ at }) => at),
      queries.map(({ from = LOWEST }) => from),
      queries.map(({ to = HIGHEST }) => to),
      queries.map(({ limit }) => limit),
    ]);
    return rows.map(({ count }) => count);
  }

  async commit(change: Commit): Promise<void> {
    checkCommit(change);
    // The caller may change its objects while the commit waits.
    const prepared = toArguments(change);
    await this.#connections.during(() => this.#commit(change, prepared));
    this.#announce(change);
  }

  /** Repeats the commit until its outcome is known. `sign_in_commit` applies a commit once. */
  async #commit(change: Commit, prepared: CommitArguments): Promise<void> {
    const orphans = orphansOf(change);
    if (orphans.length > 0) throw failure(orphans);
    const wait = change.deadline - this.#clock.now();
    if (wait <= 0)
      throw new StorageUnavailable("the deadline of this commit has passed", { reason: "deadline" });
    const end = performance.now() + wait;
    for (let isAgain = false; ; isAgain = true) {
      try {
        const answer = this.#attempt(change, prepared, end, isAgain);
        const failed = await withTimeout(end + LATE_ANSWER_MS - performance.now(), answer, lateFault);
        if (failed !== null) throw failure(failedRefs(failed, prepared.refs, change));
        return;
      } catch (error) {
        const state = sqlState(error);
        if (state === LATE) this.#connections.forgetServerTime();
        const isOver = error instanceof ConditionFailed || (state !== undefined && !isTransient(error));
        // The next attempt reads the server's clock again, so there may be time left.
        if ((isOver && state !== LATE) || performance.now() >= end) throw asFault(error);
        if (state === undefined) await pause(RETRY_DELAY_MS);
      }
    }
  }

  /**
   * @param end on the scale of `performance.now()`.
   * @returns the numbers of the references whose expectation does not hold.
   */
  async #attempt(
    { id, put = [], relaxed = false }: Commit,
    { refsText, putsText }: CommitArguments,
    end: number,
    isAgain: boolean,
  ): Promise<readonly number[] | null> {
    const deadline = await this.#connections.serverTimeIn(end - performance.now());
    const indexed = put.some(hasEntries);
    const values = [id, refsText, putsText, this.#clock.now(), deadline, relaxed, isAgain, indexed];
    const [row] = await this.#call<{ failed: readonly number[] | null }>(COMMIT, values);
    return row?.failed ?? null;
  }

  /** @throws StorageUnavailable for every fault. */
  #query<T extends object>(statement: Statement, values: readonly unknown[] = []): Promise<T[]> {
    return this.#connections.inTime(() => this.#call<T>(statement, values));
  }

  /** Runs a statement, and creates the functions of this version if they are not there yet. Rejects with the driver's errors. */
  async #call<T extends object>(statement: Statement, values: readonly unknown[]): Promise<T[]> {
    try {
      return await this.#connections.raw<T>(statement, values);
    } catch (error) {
      if (sqlState(error) !== UNKNOWN_FUNCTION) throw error;
      await createFunctions(this.#connections);
      return this.#connections.raw<T>(statement, values);
    }
  }

  /**
   * Notifies the `watch` of other processes after the commit rather than in it, because PostgreSQL commits transactions
   * that notify one at a time. Changes during an announcement go into the next one.
   */
  #announce({ put = [], remove = [], quiet = false }: Commit): void {
    if (quiet) return;
    for (const { kind } of [...put, ...remove]) if (this.#announced.has(kind)) this.#changed.add(kind);
    if (this.#changed.size > 0 && !this.#isAnnouncing) void this.#announceAll();
  }

  async #announceAll(): Promise<void> {
    this.#isAnnouncing = true;
    while (this.#changed.size > 0) {
      const kinds = [...this.#changed].join(" ");
      this.#changed.clear();
      // Only a hint: if it can't be sent, the other processes find the change by themselves.
      await this.#query(NOTIFY, [kinds]).catch(() => undefined);
    }
    this.#isAnnouncing = false;
  }

  async next(counter: string, atLeast = 1): Promise<number> {
    this.#tellsTimeline ||= (await this.#cluster()) !== undefined;
    const values = [counter, atLeast, COUNTERS_AHEAD, this.#tellsTimeline];
    const [row] = await this.#query<{ value: string }>(NEXT, values);
    return Number(row?.value);
  }

  async sweep(limit: number, now: number): Promise<number> {
    const values = [now, limit];
    const [row] = await this.#query<{ swept: number }>(SWEEP, values);
    return row?.swept ?? 0;
  }

  async leftovers(former: readonly string[]): Promise<string[]> {
    const found = await this.#connections.inTime(() => findLeftovers(this.#connections, former));
    return found.map(({ name }) => name);
  }

  async dropLeftovers(former: readonly string[]): Promise<void> {
    await this.#connections.inTime(() => dropLeftovers(this.#connections, former));
  }

  pool(): { readonly used: number; readonly waiting: number } {
    return this.#connections.usage;
  }

  #watch(kinds: readonly string[], onChange: () => void): () => void {
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

  async copy(): Promise<DataCopy> {
    const [tables] = await this.#query<{ id: string }>(TABLES);
    const cluster = await this.#cluster();
    if (cluster === undefined) return { id: String(tables?.id) };
    return {
      id: `${cluster.id}-${String(tables?.id)}`,
      timeline: String(Number.parseInt(cluster.timeline, 16)),
    };
  }

  /** `undefined` if the server tells nobody, or not this user. */
  async #cluster(): Promise<{ readonly id: string; readonly timeline: string } | undefined> {
    try {
      const [row] = await this.#connections.during(() =>
        this.#connections.raw<{ id: string; timeline: string }>(CLUSTER),
      );
      return row;
    } catch (error) {
      if (sqlState(error) === undefined) throw asFault(error);
      return undefined;
    }
  }

  async ping(): Promise<number> {
    const [row] = await this.#query<{ now: Date }>(CLOCK);
    return Number(row?.now);
  }

  async close(): Promise<void> {
    this.#watches.clear();
    await this.#connections.close();
  }
}

function failure(failed: readonly Ref[]): ConditionFailed {
  const kinds = [...new Set(failed.map(({ kind }) => kind))].join(", ");
  const refs = failed.map(({ kind, key }) => ({ kind, key }));
  return new ConditionFailed(`an expectation about ${kinds} does not hold`, refs);
}

/**
 * Opens the store and creates its tables, unless it must exist.
 * @throws ConfigurationError when the server is older than PostgreSQL 14, refuses the user or the database, or has something that
 * another role has planted.
 * @throws StorageUnavailable when it can't be reached.
 */
export async function openPostgres(options: PostgresOptions): Promise<RecordStore> {
  const { mustExist = false, onWarning = () => undefined } = options;
  const connections = await Connections.open(options.url, onWarning);
  try {
    await prepareDatabase(connections, { mustExist, onWarning });
    return new PostgresStore(connections, options);
  } catch (error) {
    await connections.close();
    throw openingFault(error);
  }
}
