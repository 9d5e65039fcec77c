/**
 * The adapter that oidc-provider documents, on SQLite and carefully written: one table with indexes, prepared
 * statements, one transaction per call, and the same durability as the service.
 */
import { DatabaseSync } from "node:sqlite";
import type { Adapter, AdapterConstructor, AdapterPayload } from "oidc-provider";

const SCHEMA = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS artifacts (
    model TEXT NOT NULL,
    id TEXT NOT NULL,
    payload TEXT NOT NULL,
    expires_at INTEGER,
    consumed_at INTEGER,
    grant_id TEXT,
    uid TEXT,
    PRIMARY KEY (model, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS artifacts_grant ON artifacts (grant_id) WHERE grant_id IS NOT NULL;
  CREATE INDEX IF NOT EXISTS artifacts_uid ON artifacts (uid) WHERE uid IS NOT NULL;
  CREATE INDEX IF NOT EXISTS artifacts_expiry ON artifacts (expires_at);
  CREATE TABLE IF NOT EXISTS accounts (sub TEXT PRIMARY KEY, email TEXT NOT NULL) STRICT;
`;

type Found = { readonly payload: string; readonly consumed_at: number | null };

const now = (): number => Math.floor(Date.now() / 1000);

function toPayload(row: Found | undefined): AdapterPayload | undefined {
  if (row === undefined) return undefined;
  const payload = JSON.parse(row.payload) as AdapterPayload;
  return row.consumed_at === null ? payload : { ...payload, consumed: row.consumed_at };
}

export interface SqliteForOidc {
  readonly adapter: AdapterConstructor;
  saveAccount(sub: string, email: string): void;
  email(sub: string): string | undefined;
}

export function openForOidc(file: string): SqliteForOidc {
  const database = new DatabaseSync(file);
  database.exec(SCHEMA);
  const upsert = database.prepare(`
    INSERT INTO artifacts (model, id, payload, expires_at, grant_id, uid) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (model, id) DO UPDATE
    SET payload = excluded.payload, expires_at = excluded.expires_at, grant_id = excluded.grant_id, uid = excluded.uid`);
  const find = database.prepare(
    "SELECT payload, consumed_at FROM artifacts WHERE model = ? AND id = ? AND (expires_at IS NULL OR expires_at > ?)",
  );
  const findByUid = database.prepare(
    "SELECT payload, consumed_at FROM artifacts WHERE uid = ? AND model = ?",
  );
  const destroy = database.prepare("DELETE FROM artifacts WHERE model = ? AND id = ?");
  const consume = database.prepare("UPDATE artifacts SET consumed_at = ? WHERE model = ? AND id = ?");
  const revoke = database.prepare("DELETE FROM artifacts WHERE grant_id = ?");
  const saveAccount = database.prepare("INSERT OR REPLACE INTO accounts (sub, email) VALUES (?, ?)");
  const email = database.prepare("SELECT email FROM accounts WHERE sub = ?");

  class SqliteAdapter implements Adapter {
    readonly #model: string;

    constructor(model: string) {
      this.#model = model;
    }

    async upsert(id: string, payload: AdapterPayload, expiresIn?: number): Promise<void> {
      const expiresAt = expiresIn === undefined ? null : now() + expiresIn;
      const { grantId = null, uid = null } = payload;
      upsert.run(this.#model, id, JSON.stringify(payload), expiresAt, grantId, uid);
    }

    async find(id: string): Promise<AdapterPayload | undefined> {
      return toPayload(find.get(this.#model, id, now()) as Found | undefined);
    }

    async findByUid(uid: string): Promise<AdapterPayload | undefined> {
      return toPayload(findByUid.get(uid, this.#model) as Found | undefined);
    }

    async findByUserCode(): Promise<undefined> {
      return undefined;
    }

    async consume(id: string): Promise<void> {
      consume.run(now(), this.#model, id);
    }

    async destroy(id: string): Promise<void> {
      destroy.run(this.#model, id);
    }

    async revokeByGrantId(grantId: string): Promise<void> {
      revoke.run(grantId);
    }
  }

  return {
    adapter: SqliteAdapter,
    saveAccount: (sub, address) => void saveAccount.run(sub, address),
    email: (sub) => email.get(sub)?.["email"] as string | undefined,
  };
}
