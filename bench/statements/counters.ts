/** Counts what a service requests from its stores: in the driver of SQLite, and on the connections to servers. */
import { StatementSync, type SQLInputValue } from "node:sqlite";
import { Redis } from "ioredis";
import { BSON } from "mongodb";
import { Client } from "pg";
import { inSequence, openTap, type Tap, type Watch } from "../tap.ts";

/** What one operation costs. */
export interface Figures {
  /** Statements of SQL or commands, without those that begin and end a transaction. */
  readonly statements: number;
  /** Requests to a server that had to wait for each other. Missing for SQLite, which is no server. */
  readonly roundTrips?: number;
  /** Index entries of records that were inserted or deleted. */
  readonly indexRows: number;
  /** Transactions that wrote. */
  readonly commits: number;
  /** Sent to the server; SQLite: the parameters of statements that write. */
  readonly bytes: number;
}

export interface Counter {
  /** The figures since the last call. */
  take(): Promise<Figures>;
  close(): Promise<void>;
}

/** Adds up while an operation runs. */
class Tally {
  statements = 0;
  indexRows = 0;
  commits = 0;
  bytes = 0;

  take(): Figures {
    const { statements, indexRows, commits, bytes } = this;
    Object.assign(this, { statements: 0, indexRows: 0, commits: 0, bytes: 0 });
    return { statements, indexRows, commits, bytes };
  }
}

const WRITES = /^\s*(?:INSERT|UPDATE|DELETE|REPLACE|WITH)\b/i;
/** Statements that begin or end a transaction, or ask SQLite about itself. */
const FRAME = /^\s*(?:BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PRAGMA)\b/i;
const SQLITE_ENTRIES = /^\s*(?:INSERT(?: OR \w+)? INTO|DELETE FROM|UPDATE) entries\b/i;

function bytesOf(value: SQLInputValue): number {
  if (typeof value === "string") return Buffer.byteLength(value);
  return value === null ? 0 : 8;
}

/** Counts the statements of every database of this process that `node:sqlite` has open. */
export function countSqlite(): Counter {
  const tally = new Tally();
  const real = { ...Object.getOwnPropertyDescriptors(StatementSync.prototype) };
  const before = ({ sourceSQL }: StatementSync, parameters: readonly SQLInputValue[]): void => {
    if (/^\s*COMMIT\b/i.test(sourceSQL)) tally.commits += 1;
    if (FRAME.test(sourceSQL)) return;
    tally.statements += 1;
    if (WRITES.test(sourceSQL))
      tally.bytes += parameters.reduce<number>((sum, each) => sum + bytesOf(each), 0);
  };
  for (const name of ["get", "all", "run"] as const) {
    const method = real[name].value as (...parameters: SQLInputValue[]) => { readonly changes?: number };
    Object.defineProperty(StatementSync.prototype, name, {
      ...real[name],
      value(this: StatementSync, ...parameters: SQLInputValue[]) {
        before(this, parameters);
        const answer = method.apply(this, parameters);
        const rows = name === "run" && SQLITE_ENTRIES.test(this.sourceSQL) ? Number(answer.changes) : 0;
        // An entry that moves is deleted and inserted.
        tally.indexRows += /^\s*UPDATE\b/i.test(this.sourceSQL) ? 2 * rows : rows;
        return answer;
      },
    });
  }
  return {
    take: async () => tally.take(),
    async close() {
      for (const name of ["get", "all", "run"] as const)
        Object.defineProperty(StatementSync.prototype, name, real[name]);
    },
  };
}

/** Joins pieces to messages. @param lengthOf the length of the first message; `undefined` until that is known. */
function messages(lengthOf: (bytes: Buffer) => number | undefined, see: (message: Buffer) => void): Watch {
  let bytes = Buffer.alloc(0);
  return (piece) => {
    bytes = Buffer.concat([bytes, piece]);
    for (;;) {
      const length = lengthOf(bytes);
      if (length === undefined || bytes.length < length) return;
      see(bytes.subarray(0, length));
      bytes = bytes.subarray(length);
    }
  };
}

/** A counter, and the address under which its store is counted. */
export interface CountedServer extends Counter {
  readonly url: string;
}

function through({ port }: Tap, url: string): string {
  const address = new URL(url);
  address.port = String(port);
  return address.href;
}

/** The types of messages from a client of PostgreSQL that run a statement: `Execute` and `Query`. */
const PG_STATEMENTS = new Set(["E", "Q"]);

/** Rows are counted by triggers, and commits by the transaction ids that the server has handed out. */
const PG_COUNTING = `
CREATE SEQUENCE counted_index_rows;
CREATE FUNCTION count_index_row() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM nextval('counted_index_rows'); RETURN NULL; END $$;
CREATE TRIGGER counted AFTER INSERT OR DELETE ON sign_in_entries
  FOR EACH ROW EXECUTE FUNCTION count_index_row();`;

const PG_FIGURES = `
SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS rows,
  pg_snapshot_xmax(pg_current_snapshot())::text AS xid FROM counted_index_rows`;

/** @param url of an empty database. Call `begin` when its tables are created. */
export async function countPostgres(url: string): Promise<CountedServer & { begin(): Promise<void> }> {
  const tally = new Tally();
  let before: { rows: number; xid: number } | undefined;
  const tap = await openTap(Number(new URL(url).port), () => {
    let hasStarted = false;
    return messages(
      (bytes) => {
        if (bytes.length < 5) return undefined;
        // The first message has no type.
        return hasStarted ? 1 + bytes.readUInt32BE(1) : bytes.readUInt32BE(0);
      },
      (message) => {
        if (hasStarted) {
          tally.bytes += message.length;
          if (PG_STATEMENTS.has(String.fromCodePoint(message[0] ?? 0))) tally.statements += 1;
        }
        hasStarted = true;
      },
    );
  });
  const client = new Client({ connectionString: url });
  await client.connect();
  const look = async (): Promise<{ rows: number; xid: number }> => {
    const { rows } = await client.query<{ rows: string; xid: string }>(PG_FIGURES);
    return { rows: Number(rows[0]?.rows), xid: Number(rows[0]?.xid) };
  };
  return {
    url: through(tap, url),
    async begin() {
      await client.query(PG_COUNTING);
    },
    async take() {
      const now = await look();
      const { rows, xid } = before ?? now;
      before = now;
      const roundTrips = inSequence(tap.take());
      return { ...tally.take(), roundTrips, indexRows: now.rows - rows, commits: now.xid - xid };
    },
    async close() {
      await client.end();
      tap.close();
    },
  };
}

/** Commands of MongoDB's driver about the connection and the transaction. */
const MONGO_FRAME = new Set([
  "hello",
  "ismaster",
  "ping",
  "endSessions",
  "commitTransaction",
  "abortTransaction",
]);
const MONGO_ENTRIES = "record_entries";
/** Flag of OP_MSG: a checksum of four bytes follows. */
const HAS_CHECKSUM = 1;

/** The command of an OP_MSG, with its sequences of documents as members. */
function mongoCommand(message: Buffer): Record<string, unknown> {
  const end = message.length - (message.readUInt32LE(16) & HAS_CHECKSUM ? 4 : 0);
  let command: Record<string, unknown> = {};
  const sequences: Record<string, unknown[]> = {};
  for (let at = 20; at < end;) {
    const kind = message[at];
    const size = message.readInt32LE(at + 1);
    const section = message.subarray(at + 1, at + 1 + size);
    if (kind === 0) command = BSON.deserialize(section);
    else {
      const nameEnd = section.indexOf(0, 4);
      const documents: unknown[] = (sequences[section.toString("utf8", 4, nameEnd)] = []);
      for (let inner = nameEnd + 1; inner < section.length; inner += section.readInt32LE(inner))
        documents.push(BSON.deserialize(section.subarray(inner, inner + section.readInt32LE(inner))));
    }
    at += 1 + size;
  }
  return { ...command, ...sequences };
}

/** How many entries a command inserts or deletes; deletions name them. */
function mongoEntries({ insert, delete: remove, documents, deletes }: Record<string, unknown>): number {
  if (insert === MONGO_ENTRIES) return (documents as unknown[]).length;
  if (remove !== MONGO_ENTRIES) return 0;
  type Deletion = { readonly q: { readonly _id?: { readonly $in?: readonly unknown[] } } };
  return (deletes as Deletion[]).reduce((sum, { q }) => sum + (q._id?.$in?.length ?? 1), 0);
}

/** The code of a message that has a command. */
const OP_MSG = 2013;

export async function countMongo(url: string): Promise<CountedServer> {
  const tally = new Tally();
  const tap = await openTap(Number(new URL(url).port), () =>
    messages(
      (bytes) => (bytes.length < 16 ? undefined : bytes.readInt32LE(0)),
      (message) => {
        if (message.readInt32LE(12) !== OP_MSG) return;
        const command = mongoCommand(message);
        const [name = ""] = Object.keys(command);
        if (name === "commitTransaction") tally.commits += 1;
        if (MONGO_FRAME.has(name)) return;
        tally.statements += 1;
        tally.bytes += message.length;
        tally.indexRows += mongoEntries(command);
      },
    ),
  );
  return {
    url: through(tap, url),
    take: async () => ({ ...tally.take(), roundTrips: inSequence(tap.take()) }),
    close: async () => tap.close(),
  };
}

/** Commands of ioredis about the connection. */
const REDIS_FRAME = new Set(["hello", "info", "client", "ping", "quit", "select"]);

/** Counts what `MONITOR` shows: commands of clients, and index entries and commits in scripts. */
export async function countRedis(url: string): Promise<CountedServer> {
  const tally = new Tally();
  const tap = await openTap(Number(new URL(url).port));
  // With the third version of the protocol, the driver takes what MONITOR shows for answers.
  const connection = new Redis(url, { protocol: 2 });
  const monitor = await connection.monitor();
  monitor.on("monitor", (_time: string, command: readonly string[], source: string) => {
    const [name = "", key = ""] = command;
    if (source === "lua") {
      if (/^z(?:add|rem)$/i.test(name)) tally.indexRows += 1;
      if (/^set$/i.test(name) && key.includes(":m:")) tally.commits += 1;
    } else if (!REDIS_FRAME.has(name.toLowerCase())) {
      tally.statements += 1;
      tally.bytes += command.reduce((sum, each) => sum + Buffer.byteLength(each), 0);
    }
  });
  return {
    url: through(tap, url),
    take: async () => ({ ...tally.take(), roundTrips: inSequence(tap.take()) }),
    async close() {
      monitor.disconnect();
      connection.disconnect();
      tap.close();
    },
  };
}
