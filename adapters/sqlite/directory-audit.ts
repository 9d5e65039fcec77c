/** Audit records, and the small values that are kept under a name. */
import type { AuditRecord, DirectoryStore } from "../directory.ts";
import type { Connection } from "./connection.ts";
import { rowLimit, type Row, stringAt, textAt } from "./rows.ts";
import { toText } from "./text.ts";

type Audit = Pick<DirectoryStore, "appendAudit" | "listAudit">;
type Kept = Pick<DirectoryStore, "keep" | "kept">;

/** Turns an audit record into parameters at once; what it returns stores it, inside the caller's transaction. */
export type AuditPlanner = (record: AuditRecord | undefined) => () => void;

/** The part that the other stores use for the record of their own change. */
export function createAuditPlanner(connection: Connection): AuditPlanner {
  const insert = connection.change("INSERT INTO audit (record) VALUES (?)");
  return (record) => {
    const json = record && JSON.stringify(record);
    return () => {
      if (json !== undefined) insert(json);
    };
  };
}

function toRecord(row: Row): AuditRecord {
  return JSON.parse(textAt(row, 0));
}

/** The audit records of the directory. */
export function createAudit(connection: Connection): Audit {
  const plan = createAuditPlanner(connection);
  const newest = connection.all("SELECT record FROM audit ORDER BY id DESC LIMIT ?");
  return {
    appendAudit: async (record) => connection.write(plan(record)),
    listAudit: ({ limit }) => connection.read(() => newest(rowLimit(limit)).map(toRecord)),
  };
}

/** Values that the first of several processes decides: inserted if absent, then read back. */
export function createKept(connection: Connection): Kept {
  const insert = connection.change("INSERT INTO kept (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const select = connection.first("SELECT value FROM kept WHERE name = ?");
  const find = (name: string) => {
    const row = select(toText(name));
    return row && stringAt(row, 0);
  };
  return {
    keep: (name, value) =>
      connection.write(() => {
        insert(toText(name), toText(value));
        return find(name) ?? value;
      }),
    kept: (name) => connection.read(() => find(name)),
  };
}
