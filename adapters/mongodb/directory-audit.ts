/** Audit records, and the small values that are kept under a name. */
import type { ClientSession, ObjectId } from "mongodb";
import type { AuditRecord, DirectoryStore } from "../directory.ts";
import type { Connection } from "./connection.ts";
import { isDuplicate } from "./faults.ts";
import { clearKey, toKey } from "./keys.ts";

type Audit = Pick<DirectoryStore, "appendAudit" | "listAudit">;
type Kept = Pick<DirectoryStore, "keep" | "kept">;

export interface StoredAudit {
  /** In the order of the records, as far as the clocks of the processes agree. */
  readonly _id: ObjectId;
  readonly json: string;
}

export interface StoredValue {
  readonly _id: string;
  /** The name as JSON, where the `_id` is a hash of it. */
  readonly name?: string;
  /** The value as JSON, which holds any string. */
  readonly json: string;
}

export function keptDocument(name: string, value: string): StoredValue {
  const id = toKey(name);
  const hashed = clearKey(id) === undefined ? { name: JSON.stringify(name) } : {};
  return { _id: id, ...hashed, json: JSON.stringify(value) };
}

/** Turns an audit record into a document at once; what it returns stores it, in the caller's transaction. */
export type AuditPlanner = (record: AuditRecord | undefined) => (session: ClientSession) => Promise<void>;

/** The part that the other stores use for the record of their own change. */
export function createAuditPlanner(connection: Connection): AuditPlanner {
  const audit = connection.collection<StoredAudit>("audit");
  return (record) => {
    const document = record && { _id: connection.newId(), json: JSON.stringify(record) };
    return async (session) => {
      if (document !== undefined) await audit.insertOne(document, { session });
    };
  };
}

function toRecord({ json }: StoredAudit): AuditRecord {
  return JSON.parse(json);
}

/** The audit records of the directory. */
export function createAudit(connection: Connection): Audit {
  const audit = connection.collection<StoredAudit>("audit");
  return {
    async appendAudit(record) {
      const document = { _id: connection.newId(), json: JSON.stringify(record) };
      await connection.run(() => audit.insertOne(document));
    },
    async listAudit({ limit }) {
      // For MongoDB a limit of zero is none.
      if (limit < 1) return [];
      const newest = () => audit.find().sort({ _id: -1 }).hint({ _id: 1 }).limit(limit).toArray();
      return (await connection.run(newest)).map(toRecord);
    },
  };
}

/** Values that the first of several processes decides: inserted if absent, then read back. */
export function createKept(connection: Connection): Kept {
  const values = connection.collection<StoredValue>("kept");

  async function keep(document: StoredValue): Promise<StoredValue | null> {
    const { _id, json } = document;
    try {
      await values.insertOne(document);
      return document;
    } catch (error) {
      if (!isDuplicate(error)) throw error;
      // A write also where it changes nothing: so what it answers is what a majority has.
      return values.findOneAndUpdate({ _id }, { $setOnInsert: { json } }, { returnDocument: "after" });
    }
  }

  return {
    async keep(name, value) {
      const stored = await connection.run(() => keep(keptDocument(name, value)));
      return stored === null ? value : String(JSON.parse(stored.json));
    },
    async kept(name) {
      const stored = await connection.run(() => values.findOne({ _id: toKey(name) }));
      return stored === null ? undefined : String(JSON.parse(stored.json));
    },
  };
}
