/** Reads a database file of version 0.1 and converts it to records. */
import { DatabaseSync, type SQLOutputValue } from "node:sqlite";
import type { JsonObject, RecordData, Ref } from "../record-store.ts";
import {
  V01_PARTS,
  type V01Artifact,
  type V01Attempt,
  type V01Delivery,
  type V01Items,
  type V01Lane,
  type V01Options,
  type V01Part,
  type V01Remains,
} from "../v01.ts";
import { whileLocked } from "./faults.ts";
import { V01_STEPS } from "./v01-schema.ts";

/** The tables of version 0.1. */
const TABLES = [
  "artifacts",
  "accounts",
  "names",
  "assignments",
  "clients",
  "entries",
  "kept",
  "counters",
  "audit",
  "deliveries",
  "attempts",
  "lanes",
  "receivers",
] as const;

/** The prefix of the old tables, which stay until they are removed. */
const KEPT = "v01_";

/** Items that are read and written together. */
const BATCH = 500;

type Row = Readonly<Record<string, SQLOutputValue>>;

/** An unassigned code point that marks strings stored as JSON, because UTF-8 has no lone surrogates. */
const MARK = "\u{10FFFF}";

function text(row: Row, column: string): string {
  const stored = String(row[column]);
  return stored.startsWith(MARK) ? String(JSON.parse(stored.slice(MARK.length))) : stored;
}

const textOrNull = (row: Row, column: string): string | null =>
  row[column] === null ? null : text(row, column);
const number = (row: Row, column: string): number => Number(row[column]);
const numberOrNull = (row: Row, column: string): number | null =>
  row[column] === null ? null : number(row, column);
const json = (row: Row, column: string): JsonObject => JSON.parse(String(row[column])) as JsonObject;

function toArtifact(row: Row): V01Artifact {
  const optional = {
    consumedAt: numberOrNull(row, "consumed_at"),
    replay: textOrNull(row, "replay"),
    replayUntil: numberOrNull(row, "replay_until"),
    answeredAt: numberOrNull(row, "answered_at"),
    grantKey: textOrNull(row, "grant_key"),
    uid: textOrNull(row, "uid"),
    accountId: textOrNull(row, "account_id"),
    clientId: textOrNull(row, "client_id"),
  };
  const present = Object.entries(optional).filter(([, value]) => value !== null);
  return {
    model: text(row, "model"),
    key: text(row, "key"),
    payload: json(row, "payload"),
    expiresAt: number(row, "expires_at"),
    ...(Object.fromEntries(present) as Partial<V01Artifact>),
  };
}

function toLane(row: Row): V01Lane {
  const end = numberOrNull(row, "lease_end");
  return {
    receiver: text(row, "lane_receiver"),
    sub: text(row, "lane_sub"),
    lastSequence: number(row, "last_sequence"),
    lastDelivered: number(row, "last_delivered"),
    fence: number(row, "fence"),
    lease:
      end === null
        ? null
        : {
            owner: text(row, "owner"),
            end,
            claimed: text(row, "claimed"),
            sequence: numberOrNull(row, "claimed_sequence") ?? 0,
          },
    head: numberOrNull(row, "head"),
  };
}

function toAttempt(row: Row): V01Attempt {
  return {
    number: number(row, "number"),
    startedAt: number(row, "started_at"),
    duration: number(row, "duration"),
    status: numberOrNull(row, "status"),
    error: textOrNull(row, "error"),
    answer: textOrNull(row, "answer"),
  };
}

function toDelivery(row: Row, history: readonly V01Attempt[]): V01Delivery {
  return {
    id: text(row, "id"),
    receiver: text(row, "receiver"),
    sub: text(row, "sub"),
    type: text(row, "type"),
    payload: textOrNull(row, "payload"),
    at: number(row, "at"),
    sequence: number(row, "sequence"),
    state: text(row, "state") as V01Delivery["state"],
    attempts: number(row, "attempts"),
    failures: number(row, "failures"),
    storedAt: number(row, "stored_at"),
    nextAttemptAt: numberOrNull(row, "next_attempt_at"),
    failedAt: numberOrNull(row, "failed_at"),
    finishedAt: numberOrNull(row, "finished_at"),
    reason: textOrNull(row, "reason"),
    history,
    lane: toLane(row),
  };
}

/** A lane, with the sequences of its head and of the delivery in flight. */
const LANE = `l.receiver AS lane_receiver, l.sub AS lane_sub, l.last_sequence, l.last_delivered, l.fence, l.owner,
  l.lease_end, l.claimed,
  (SELECT min(w.sequence) FROM v01_deliveries AS w
    WHERE w.receiver = l.receiver AND w.lane = l.id AND w.state = 'waiting') AS head,
  (SELECT c.sequence FROM v01_deliveries AS c WHERE c.id = l.claimed) AS claimed_sequence`;

/** Every query reads its table in one direction. Expired artifacts are not migrated. */
const SELECT: Readonly<Record<V01Part, string>> = {
  entries: "SELECT kind, record FROM v01_entries",
  clients: "SELECT record FROM v01_clients",
  accounts: "SELECT record, sub FROM v01_accounts ORDER BY user_id",
  audit: "SELECT record FROM v01_audit ORDER BY id",
  receivers: "SELECT * FROM v01_receivers",
  lanes: `SELECT ${LANE} FROM v01_lanes AS l ORDER BY l.id`,
  deliveries: `SELECT d.*, ${LANE}
    FROM v01_deliveries AS d JOIN v01_lanes AS l ON l.id = d.lane ORDER BY d.position`,
  grants: "SELECT * FROM v01_artifacts WHERE model = 'Grant' AND expires_at > :now ORDER BY id",
  artifacts: "SELECT * FROM v01_artifacts WHERE model <> 'Grant' AND expires_at > :now ORDER BY id",
  kept: "SELECT name, value FROM v01_kept",
};

type Readers = { readonly [Part in V01Part]: (row: Row) => V01Items[Part] };

function readers(database: DatabaseSync): Readers {
  const names = database.prepare("SELECT name FROM v01_names WHERE sub = ? ORDER BY name");
  const attempts = database.prepare("SELECT * FROM v01_attempts WHERE delivery = ? ORDER BY number");
  return {
    entries: (row) => ({ kind: text(row, "kind") as "service", record: json(row, "record") }),
    clients: (row) => json(row, "record"),
    accounts: (row) => ({
      record: json(row, "record"),
      names: names.all(row["sub"] ?? null).map((name) => text(name, "name")),
    }),
    audit: (row) => json(row, "record"),
    receivers: (row) => ({
      receiver: text(row, "receiver"),
      paused: number(row, "paused") !== 0,
      reason: textOrNull(row, "reason"),
      failures: number(row, "failures"),
      heldUntil: numberOrNull(row, "held_until"),
      holdSpan: number(row, "hold_span"),
      releaseUntil: numberOrNull(row, "release_until"),
    }),
    lanes: toLane,
    deliveries: (row) => toDelivery(row, attempts.all(row["position"] ?? null).map(toAttempt)),
    grants: toArtifact,
    artifacts: toArtifact,
    kept: (row) => ({ name: text(row, "name"), value: text(row, "value") }),
  };
}

/**
 * Writes records to the tables of the store, replacing those that exist. A record without its parent is not written.
 */
function createPut(database: DatabaseSync, version: string): (record: RecordData) => void {
  const find = database.prepare("SELECT id FROM records WHERE kind = ? AND key = ?");
  const put = database.prepare(
    `INSERT INTO records (kind, key, value, version, expires_at, parent, entries) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, version = excluded.version,
       expires_at = excluded.expires_at, parent = excluded.parent, entries = excluded.entries
     RETURNING id`,
  );
  const dropEntries = database.prepare("DELETE FROM entries WHERE kind = ? AND record = ?");
  const addEntry = database.prepare(
    "INSERT INTO entries (kind, name, at, place, record) VALUES (?, ?, ?, ?, ?)",
  );
  const idOf = ({ kind, key }: Ref): number | undefined => {
    const id = find.get(kind, key)?.["id"];
    return id === undefined ? undefined : Number(id);
  };
  return ({ kind, key, value, expiresAt, parent, index = [] }) => {
    const above = parent === undefined ? null : idOf(parent);
    if (above === undefined) return;
    const wasThere = idOf({ kind, key }) !== undefined;
    const entries = index.length === 0 ? null : JSON.stringify(index);
    const row = put.get(kind, key, JSON.stringify(value), version, expiresAt ?? null, above, entries);
    const id = Number(row?.["id"]);
    if (wasThere) dropEntries.run(kind, id);
    for (const { name, at, order } of index) addEntry.run(kind, name, at, order, id);
  };
}

/** The options of the migration of a file. */
export interface V01Migration extends V01Options {
  /** Decides which artifacts have expired: milliseconds since the epoch. */
  readonly now: number;
  /** Creates the tables of records. */
  readonly createTables: (database: DatabaseSync) => void;
}

/**
 * Converts everything that version 0.1 stored. Its own tables are renamed and stay. Call it in a transaction.
 * @param steps how many steps of the old schema the file has.
 */
export function migrateV01(
  database: DatabaseSync,
  steps: number,
  { convert, onProgress, now, createTables }: V01Migration,
): void {
  for (const step of V01_STEPS.slice(steps)) database.exec(step);
  for (const name of TABLES) database.exec(`ALTER TABLE ${name} RENAME TO ${KEPT}${name}`);
  createTables(database);
  const put = createPut(database, "v01");
  const read = readers(database);

  function carryOver<Part extends V01Part>(part: Part, toItem: (row: Row) => V01Items[Part]): void {
    const query = SELECT[part];
    const parameters = query.includes(":now") ? { now } : {};
    const count = database.prepare(`SELECT count(*) AS n FROM (${query})`).get(parameters);
    const total = Number(count?.["n"]);
    let [last, done] = [0, 0];
    const write = (items: readonly V01Items[Part][]): void => {
      const converted = convert(part, items, last);
      for (const record of converted.records) put(record);
      last = converted.last;
      done += items.length;
      onProgress(part, done, total);
    };
    let items: V01Items[Part][] = [];
    for (const row of database.prepare(query).iterate(parameters)) {
      items.push(toItem(row));
      if (items.length < BATCH) continue;
      write(items);
      items = [];
    }
    write(items);
  }

  for (const part of V01_PARTS) carryOver(part, read[part]);
  // Numbers of accounts continue where they were.
  database.exec(
    "INSERT INTO record_counters SELECT 'user-id', value FROM v01_counters WHERE name = 'user_id' AND value > 0",
  );
}

function oldTables(database: DatabaseSync): readonly string[] {
  const found = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  const names = new Set(found.map((row) => String(row["name"])));
  return TABLES.map((name) => KEPT + name).filter((name) => names.has(name));
}

/**
 * Deletes the old tables.
 * @returns whether there were any.
 */
function removeTables(database: DatabaseSync): boolean {
  const old = oldTables(database);
  for (const name of old) database.exec(`DROP TABLE ${name}`);
  return old.length > 0;
}

/** A migrated database file, with the remains of version 0.1. */
export function openSqliteRemains(path: string): V01Remains {
  const database = new DatabaseSync(path, { timeout: 0 });
  return {
    hasOld: () => whileLocked(() => oldTables(database).length > 0),
    removeOld: () =>
      whileLocked(() => {
        database.exec("BEGIN IMMEDIATE");
        try {
          const isRemoved = removeTables(database);
          database.exec("COMMIT");
          return isRemoved;
        } catch (error) {
          if (database.isTransaction) database.exec("ROLLBACK");
          throw error;
        }
      }),
    async close() {
      if (database.isOpen) database.close();
    },
  };
}
