/** Whether the file is sound, and has the tables and indexes that this version makes. */
import type { Check } from "../check.ts";
import { connect, type Connection, IN_MEMORY } from "./connection.ts";
import { optionalStringAt, textAt } from "./rows.ts";

/** What SQLite says of an index that does not fit its table. */
const OF_INDEX = /(?:from|in) index (\w+)$/;

function integrity(connection: Connection, limit: number): string[] {
  return connection
    .all(`PRAGMA integrity_check(${Math.trunc(limit)})`)()
    .map((row) => textAt(row, 0))
    .filter((line) => line !== "ok");
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** A damaged page may end the check itself. */
async function integrityLines(connection: Connection, limit: number): Promise<string[]> {
  try {
    return await connection.read(() => integrity(connection, limit));
  } catch (error) {
    return [error instanceof Error ? error.message : "the file can't be read"];
  }
}

function integrityChecks(connection: Connection): Check[] {
  return [
    {
      part: "file",
      problem: "damages of the file: restore it from a backup",
      async find(limit) {
        const lines = await integrityLines(connection, limit);
        return lines.filter((line) => !OF_INDEX.test(line)).map((line) => ({ id: line, shown: line }));
      },
    },
    {
      part: "file",
      problem: "indexes that do not fit their tables",
      async find(limit) {
        const lines = await integrityLines(connection, limit);
        const names = new Set(
          lines.map((line) => OF_INDEX.exec(line)?.[1]).filter((name) => name !== undefined),
        );
        return [...names].map((name) => ({ id: name, shown: name }));
      },
      async repair(flaws) {
        for (const { id } of flaws)
          await connection.write(() => connection.change(`REINDEX ${quoted(id)}`)());
      },
    },
  ];
}

/** Name → statement of the tables or indexes that were made by one. */
type Schema = ReadonlyMap<string, string>;

function readSchema(connection: Connection, kind: "table" | "index"): Schema {
  const rows = connection.all(
    "SELECT name, sql FROM sqlite_schema WHERE type = ? AND sql IS NOT NULL ORDER BY rowid",
  )(kind);
  return new Map(
    rows
      .map((row) => [textAt(row, 0), optionalStringAt(row, 1) ?? ""] as const)
      .filter(([name]) => !name.startsWith("sqlite_")),
  );
}

/** What a new database has. */
async function wantedSchema(connection: Connection, kind: "table" | "index"): Promise<Schema> {
  const fresh = await connect(IN_MEMORY, connection.clock);
  try {
    return await fresh.read(() => readSchema(fresh, kind));
  } finally {
    await fresh.close();
  }
}

const withoutSpaces = (sql: string | undefined): string | undefined => sql?.replaceAll(/\s+/g, " ");

async function differences(connection: Connection, kind: "table" | "index"): Promise<string[]> {
  const wanted = await wantedSchema(connection, kind);
  const found = await connection.read(() => readSchema(connection, kind));
  return [...wanted]
    .filter(([name, sql]) => withoutSpaces(found.get(name)) !== withoutSpaces(sql))
    .map(([name]) => name);
}

export function createSchemaChecks(connection: Connection): Check[] {
  const find =
    (kind: "table" | "index"): Check["find"] =>
    async () =>
      (await differences(connection, kind)).map((name) => ({ id: name, shown: name }));
  return [
    ...integrityChecks(connection),
    {
      part: "schema",
      problem: "tables that are missing or not as this version makes them: restore a backup",
      find: find("table"),
    },
    {
      part: "schema",
      problem: "indexes that are missing or not as this version makes them",
      find: find("index"),
      async repair(flaws) {
        const wanted = await wantedSchema(connection, "index");
        for (const { id } of flaws) {
          await connection.write(() => {
            connection.change(`DROP INDEX IF EXISTS ${quoted(id)}`)();
            connection.change(wanted.get(id) ?? "")();
          });
        }
      },
    },
  ];
}
