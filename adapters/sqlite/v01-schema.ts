/** The schema of version 0.1, as the numbered steps that created it. Never edited. */

const FIRST = `
CREATE TABLE artifacts (
  id INTEGER PRIMARY KEY,
  model TEXT NOT NULL,
  key TEXT NOT NULL,
  payload TEXT NOT NULL,
  expires_at REAL NOT NULL,
  consumed_at REAL,
  replay TEXT,
  replay_until REAL,
  grant_key TEXT,
  uid TEXT,
  account_id TEXT,
  client_id TEXT
) STRICT;
CREATE UNIQUE INDEX artifacts_key ON artifacts (key, model);
CREATE INDEX artifacts_expiry ON artifacts (expires_at);
CREATE INDEX artifacts_replay ON artifacts (replay_until) WHERE replay_until IS NOT NULL;
CREATE INDEX artifacts_grant ON artifacts (grant_key) WHERE grant_key IS NOT NULL;
CREATE INDEX artifacts_uid ON artifacts (uid, model) WHERE uid IS NOT NULL;
CREATE INDEX artifacts_account ON artifacts (account_id) WHERE account_id IS NOT NULL;
CREATE INDEX artifacts_client ON artifacts (client_id) WHERE client_id IS NOT NULL;

CREATE TABLE accounts (
  user_id INTEGER PRIMARY KEY,
  sub TEXT NOT NULL UNIQUE,
  version REAL NOT NULL,
  portal TEXT,
  record TEXT NOT NULL
) STRICT;
CREATE INDEX accounts_portal ON accounts (portal) WHERE portal IS NOT NULL;
CREATE TABLE names (name TEXT PRIMARY KEY, sub TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX names_sub ON names (sub);
CREATE TABLE assignments (sub TEXT, service TEXT, PRIMARY KEY (sub, service)) STRICT, WITHOUT ROWID;
CREATE INDEX assignments_service ON assignments (service);

CREATE TABLE clients (
  client_id TEXT PRIMARY KEY,
  version REAL NOT NULL,
  service TEXT,
  record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX clients_service ON clients (service) WHERE service IS NOT NULL;
CREATE TABLE entries (
  kind TEXT,
  key TEXT,
  group_key TEXT,
  record TEXT NOT NULL,
  PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_group ON entries (group_key) WHERE group_key IS NOT NULL;

CREATE TABLE kept (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('user_id', 0);
CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL) STRICT;

CREATE TABLE deliveries (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  receiver TEXT NOT NULL,
  sub TEXT NOT NULL,
  type TEXT NOT NULL,
  payload TEXT,
  at REAL NOT NULL,
  sequence INTEGER NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  stored_at REAL NOT NULL,
  next_attempt_at REAL,
  failed_at REAL,
  finished_at REAL,
  reason TEXT,
  UNIQUE (receiver, sub, sequence)
) STRICT;
CREATE INDEX deliveries_sub ON deliveries (sub);
CREATE INDEX deliveries_receiver ON deliveries (receiver);
CREATE INDEX deliveries_state ON deliveries (state);
CREATE INDEX deliveries_waiting ON deliveries (receiver, sub, sequence) WHERE state = 'waiting';
CREATE INDEX deliveries_parked ON deliveries (receiver) WHERE state = 'parked';
CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX deliveries_payload ON deliveries (finished_at)
  WHERE payload IS NOT NULL AND state IN ('delivered', 'discarded');
CREATE TABLE attempts (
  delivery INTEGER,
  number INTEGER,
  started_at REAL NOT NULL,
  duration REAL NOT NULL,
  status INTEGER,
  error TEXT,
  answer TEXT,
  PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE lanes (
  receiver TEXT,
  sub TEXT,
  last_sequence INTEGER NOT NULL,
  last_delivered INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  owner TEXT,
  lease_end REAL,
  claimed TEXT,
  due_at REAL,
  failed_at REAL,
  PRIMARY KEY (receiver, sub)
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_due ON lanes (receiver, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX lanes_failed ON lanes (receiver, failed_at) WHERE failed_at IS NOT NULL;
CREATE TABLE receivers (
  receiver TEXT PRIMARY KEY,
  paused INTEGER NOT NULL,
  reason TEXT,
  failures INTEGER NOT NULL,
  held_until REAL,
  hold_span REAL NOT NULL,
  release_until REAL
) STRICT, WITHOUT ROWID;
`;

/**
 * Lanes have numbers, which deliveries refer to: related rows are neighbours in the file, so sending a delivery
 * writes few pages, which the next one writes as well.
 */
const NUMBERED_LANES = `
ALTER TABLE deliveries RENAME TO old_deliveries;
ALTER TABLE lanes RENAME TO old_lanes;
CREATE TABLE lanes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  receiver TEXT NOT NULL,
  sub TEXT NOT NULL,
  last_sequence INTEGER NOT NULL,
  last_delivered INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  owner TEXT,
  lease_end REAL,
  claimed TEXT,
  due_at REAL,
  failed_at REAL,
  UNIQUE (sub, receiver)
) STRICT;
CREATE TABLE deliveries (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  receiver TEXT NOT NULL,
  sub TEXT NOT NULL,
  type TEXT NOT NULL,
  payload TEXT,
  at REAL NOT NULL,
  lane INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  stored_at REAL NOT NULL,
  next_attempt_at REAL,
  failed_at REAL,
  finished_at REAL,
  reason TEXT,
  UNIQUE (lane, sequence)
) STRICT;
INSERT INTO lanes
    (receiver, sub, last_sequence, last_delivered, fence, owner, lease_end, claimed, due_at, failed_at)
  SELECT receiver, sub, last_sequence, last_delivered, fence, owner, lease_end, claimed, due_at, failed_at
  FROM old_lanes;
INSERT OR IGNORE INTO lanes (receiver, sub, last_sequence)
  SELECT receiver, sub, max(sequence) FROM old_deliveries GROUP BY receiver, sub;
INSERT INTO deliveries
  SELECT position, d.id, d.receiver, d.sub, type, payload, at, lanes.id, sequence, state, attempts, failures,
    stored_at, next_attempt_at, d.failed_at, finished_at, reason
  FROM old_deliveries AS d JOIN lanes USING (sub, receiver) ORDER BY position;
INSERT INTO sqlite_sequence SELECT 'deliveries', 0 WHERE NOT EXISTS (SELECT 1 FROM deliveries);
UPDATE sqlite_sequence SET seq = max(seq, (SELECT seq FROM sqlite_sequence WHERE name = 'old_deliveries'))
  WHERE name = 'deliveries' AND EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'old_deliveries');
DROP TABLE old_deliveries;
DROP TABLE old_lanes;
CREATE INDEX deliveries_receiver ON deliveries (receiver);
CREATE INDEX deliveries_state ON deliveries (state);
CREATE INDEX deliveries_waiting ON deliveries (receiver, lane, sequence) WHERE state = 'waiting';
CREATE INDEX deliveries_parked ON deliveries (receiver) WHERE state = 'parked';
CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX deliveries_payload ON deliveries (finished_at)
  WHERE payload IS NOT NULL AND state IN ('delivered', 'discarded');
CREATE INDEX lanes_due ON lanes (receiver, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX lanes_failed ON lanes (receiver, failed_at) WHERE failed_at IS NOT NULL;
`;

/** When the request that consumed the artifact was answered, by the clock of the machine. */
const ANSWERED = "ALTER TABLE artifacts ADD COLUMN answered_at REAL;";

/** `user_version` of a file is the number of steps that were applied. */
export const V01_STEPS: readonly string[] = [FIRST, NUMBERED_LANES, ANSWERED];
