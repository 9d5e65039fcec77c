/**
 * What was committed: SQLite itself writes down every change of an account, in the transaction of the change and in
 * the order of the commits. So it is known of a change whose process was killed, too, whether it happened.
 */
import { DatabaseSync } from "node:sqlite";
import type { AccountRecord } from "../../../lib/directory/directory.ts";

/** What the campaign reads of an account. */
export type AccountState = Pick<
  AccountRecord,
  | "sub"
  | "user_id"
  | "email"
  | "username"
  | "name"
  | "surname"
  | "date_of_birth"
  | "gender"
  | "portal"
  | "services"
  | "updated_at"
>;

/** A committed change. Without `before` an account was created, without `after` deleted. */
export interface Committed {
  readonly before: AccountState | undefined;
  readonly after: AccountState | undefined;
  /** Seconds since the epoch, with a fraction. */
  readonly at: number;
}

const insert = (before: string, after: string): string =>
  `BEGIN INSERT INTO campaign_journal (at, before, after) VALUES (unixepoch('subsec'), ${before}, ${after}); END;`;

const JOURNAL = `
  CREATE TABLE campaign_journal (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    before TEXT,
    after TEXT
  ) STRICT;
  CREATE TRIGGER campaign_created AFTER INSERT ON accounts ${insert("NULL", "NEW.record")}
  CREATE TRIGGER campaign_changed AFTER UPDATE ON accounts ${insert("OLD.record", "NEW.record")}
  CREATE TRIGGER campaign_deleted AFTER DELETE ON accounts ${insert("OLD.record", "NULL")}
`;

/** From now on changes are written down. */
export function beginJournal(file: string): void {
  const database = new DatabaseSync(file);
  database.exec(JOURNAL);
  database.close();
}

/** A delivery as it is stored. */
export interface Stored {
  readonly id: string;
  readonly state: string;
}

export interface Reader {
  /** In the order of the commits. */
  committed(): Committed[];
  deliveries(): Stored[];
  /** How many deliveries wait. */
  waiting(): number;
  close(): void;
}

const stateOf = (text: unknown): AccountState | undefined =>
  typeof text === "string" ? (JSON.parse(text) as AccountState) : undefined;

/** Reads the database file beside the processes that use it. */
export function openReader(file: string): Reader {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  const journal = database.prepare("SELECT before, after, at FROM campaign_journal ORDER BY position");
  const deliveries = database.prepare("SELECT id, state FROM deliveries ORDER BY position");
  const waiting = database.prepare("SELECT count(*) AS n FROM deliveries WHERE state = 'waiting'");
  return {
    committed: () =>
      journal.all().map(({ before, after, at }) => ({
        before: stateOf(before),
        after: stateOf(after),
        at: Number(at),
      })),
    deliveries: () => deliveries.all().map(({ id, state }) => ({ id: String(id), state: String(state) })),
    waiting: () => Number(waiting.get()?.["n"]),
    close: () => database.close(),
  };
}
