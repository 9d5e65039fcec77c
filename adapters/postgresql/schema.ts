/**
 * The tables and functions of the record store. A record keeps its `id` when it is replaced, and its children refer
 * to that id, so they never belong to a later record with the same key. `entries` repeats the index entries of the
 * record. Times are milliseconds since the epoch by the clock of the service unless stated otherwise.
 */
import { createHash } from "node:crypto";
import { HISTORY } from "./hosts.ts";
import { type Statement, typed, withFunction } from "./statement.ts";

/**
 * The row of the index entry `i` of a record. A join would leave it to the planner how to find the row: in a small table it
 * takes all entries of the kind, and keeps that plan while the table grows.
 */
const entryRow = (kind: string, record: string): string => `CROSS JOIN LATERAL (
        SELECT e.ctid FROM sign_in_entries AS e
        WHERE e.kind = ${kind} AND e.name = i.name AND e.at = i.at AND e.place = i."order" AND e.record = ${record} LIMIT 1
      ) AS f`;

/**
 * Rows of these tables are replaced all the time. By default, autovacuum waits until a fifth of a table is dead: 10 million rows
 * in a table of 50 million.
 */
const CHURNED = `WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05)`;

/** Every row dies after a minute, so what counts is how many are dead. The table is small, so vacuuming it does not pause. */
const EMPTIED = `WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0)`;

export const TABLES_SCHEMA: string = `
CREATE TABLE IF NOT EXISTS sign_in_records (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  value text NOT NULL,
  version text NOT NULL,
  expires_at double precision,
  parent bigint,
  entries text,
  UNIQUE (kind, key)
) ${CHURNED};
CREATE INDEX IF NOT EXISTS sign_in_records_expiry ON sign_in_records (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS sign_in_records_parent ON sign_in_records (parent) WHERE parent IS NOT NULL;
CREATE TABLE IF NOT EXISTS sign_in_entries (
  kind text COLLATE "C",
  name text COLLATE "C",
  at text COLLATE "C",
  place bigint,
  record bigint,
  PRIMARY KEY (kind, name, at, place, record)
) ${CHURNED};
CREATE TABLE IF NOT EXISTS sign_in_counters (name text PRIMARY KEY, value bigint NOT NULL);
-- The ids of recent commits, for commits whose acknowledgement was lost. Without an index of ids: every commit would pay for it, and
-- only those that are sent again look here. Two attempts of a commit don't need it to wait for each other, because they lock the same
-- records, or insert the same ones.
CREATE TABLE IF NOT EXISTS sign_in_commits (id text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp()) ${EMPTIED};
CREATE INDEX IF NOT EXISTS sign_in_commits_at ON sign_in_commits USING brin (at);
`;

interface FunctionNames {
  readonly erase: string;
  readonly commit: string;
  readonly sweep: string;
}

/** The names of the functions of a version. */
const namesWith = (suffix: string): FunctionNames => ({
  erase: `sign_in_erase${suffix}`,
  commit: `sign_in_commit${suffix}`,
  sweep: `sign_in_sweep${suffix}`,
});

const functionsAs = (
  names: FunctionNames,
): string => `-- Removes a record. One with children stays as a tombstone: a commit must not delete thousands of children.
CREATE OR REPLACE FUNCTION ${names.erase}(record bigint, kind text, entries text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM sign_in_entries WHERE ctid = ANY (ARRAY(
    SELECT f.ctid FROM json_to_recordset(coalesce(entries, '[]')::json) AS i (name text, at text, "order" bigint)
      ${entryRow(`${names.erase}.kind`, `${names.erase}.record`)}
  ));
  IF EXISTS (SELECT FROM sign_in_records AS c WHERE c.parent = record) THEN
    UPDATE sign_in_records AS r SET kind = '', key = r.id::text, value = '{}', version = '', expires_at = 0, entries = NULL
      WHERE r.id = record;
  ELSE
    DELETE FROM sign_in_records AS r WHERE r.id = record;
  END IF;
END $$;

-- A whole commit. Returns the numbers of the references that don't hold what is expected of them; then nothing is written.
-- References are in a fixed order and are locked in it, so that two commits wait for each other and don't deadlock. A missing
-- record can't be locked: if another commit inserts it meanwhile, this one fails and is tried again. A commit that is sent again
-- after a lost acknowledgement is applied once.
--   refs: kind, key, version (what is expected), use ('put', 'remove', 'expect', or 'parent' of a record to put), parent (also a parent)
--   puts: ref and parent (numbers of references, from 1), value, expires_at, entries
--   indexed: whether any record to put has entries
CREATE OR REPLACE FUNCTION ${names.commit}(
  commit_id text, refs json, puts json, now double precision, deadline timestamptz, relaxed boolean, again boolean, indexed boolean
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
  -- By the number of the reference.
  ids bigint[];
  found bigint[];
  are_live boolean[];
  olds text[];
  kinds text[];
  failed integer[];
  removed integer[];
  has_live boolean := false;
  has_new boolean := false;
  had_entries boolean := false;
  n integer := 0;
  old integer;
  asked record;
  there record;
  above record;
  live boolean;
  holds boolean;
BEGIN
  PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM deadline - clock_timestamp()) * 1000))::text, true);
  IF relaxed THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  -- One by one: a commit has few references, and a statement for all of them takes longer to start than to run.
  FOR asked IN SELECT * FROM json_to_recordset(refs) AS q (kind text, key text, version text, use text, parent boolean) LOOP
    n := n + 1;
    IF asked.use = 'put' THEN
      SELECT r.id, r.version, r.entries, r.expires_at, r.parent INTO there FROM sign_in_records AS r
        WHERE r.kind = asked.kind AND r.key = asked.key FOR NO KEY UPDATE;
    ELSIF asked.use = 'parent' THEN
      SELECT r.id, r.version, NULL AS entries, r.expires_at, r.parent INTO there FROM sign_in_records AS r
        WHERE r.kind = asked.kind AND r.key = asked.key FOR KEY SHARE;
    ELSIF asked.use = 'expect' THEN
      SELECT r.id, r.version, NULL AS entries, r.expires_at, r.parent INTO there FROM sign_in_records AS r
        WHERE r.kind = asked.kind AND r.key = asked.key FOR SHARE;
    ELSE
      SELECT r.id, r.version, r.entries, r.expires_at, r.parent INTO there FROM sign_in_records AS r
        WHERE r.kind = asked.kind AND r.key = asked.key FOR UPDATE;
    END IF;
    live := there.id IS NOT NULL AND (there.expires_at IS NULL OR there.expires_at > now);
    IF there.parent IS NOT NULL THEN
      SELECT r.id, r.expires_at INTO above FROM sign_in_records AS r WHERE r.id = there.parent FOR KEY SHARE;
      live := live AND above.id IS NOT NULL AND (above.expires_at IS NULL OR above.expires_at > now);
    END IF;
    found[n] := there.id;
    are_live[n] := live;
    kinds[n] := asked.kind;
    ids[n] := there.id;
    holds := CASE asked.version WHEN 'absent' THEN NOT live WHEN 'present' THEN live
      ELSE asked.version IS NULL OR (live AND there.version = asked.version) END AND (live OR NOT asked.parent OR asked.use = 'put');
    IF NOT holds THEN
      failed := failed || n;
    ELSIF asked.use = 'put' OR asked.use = 'remove' THEN
      olds[n] := there.entries;
      -- A record that is to be put, and is expired or an orphan, is replaced by a new one.
      IF there.id IS NOT NULL AND (asked.use = 'remove' OR NOT live) THEN removed := removed || n; END IF;
      IF asked.use = 'put' AND live THEN
        has_live := true;
        had_entries := had_entries OR there.entries IS NOT NULL;
      ELSIF asked.use = 'put' THEN
        has_new := true;
        ids[n] := nextval('sign_in_records_id_seq');
      END IF;
    END IF;
  END LOOP;
  -- After locking, when any other attempt of this commit has finished.
  IF again AND EXISTS (SELECT FROM sign_in_commits AS c WHERE c.id = commit_id) THEN RETURN NULL; END IF;
  IF failed IS NOT NULL THEN RETURN failed; END IF;
  IF clock_timestamp() >= deadline THEN RAISE EXCEPTION 'too late' USING ERRCODE = 'SI001'; END IF;

  IF removed IS NOT NULL THEN
    FOREACH old IN ARRAY removed LOOP
      PERFORM ${names.erase}(found[old], kinds[old], olds[old]);
    END LOOP;
  END IF;
  IF had_entries THEN
    -- Before the update, which replaces the entries that the records have.
    DELETE FROM sign_in_entries WHERE ctid = ANY (ARRAY(
      SELECT f.ctid FROM json_to_recordset(puts) AS p (ref integer, entries text)
        CROSS JOIN LATERAL (
          SELECT * FROM json_to_recordset(olds[p.ref]::json) AS o (name text, at text, "order" bigint)
          EXCEPT SELECT * FROM json_to_recordset(p.entries::json) AS i (name text, at text, "order" bigint)
        ) AS i
      ${entryRow("kinds[p.ref]", "ids[p.ref]")}
      WHERE are_live[p.ref] AND olds[p.ref] IS DISTINCT FROM p.entries
    ));
  END IF;
  IF has_live THEN
    UPDATE sign_in_records AS r SET value = p.value, version = commit_id, expires_at = p.expires_at,
        parent = ids[p.parent], entries = p.entries
      FROM json_to_recordset(puts) AS p (ref integer, parent integer, value text, expires_at double precision, entries text)
      WHERE are_live[p.ref] AND r.id = ids[p.ref];
  END IF;
  IF has_new THEN
    INSERT INTO sign_in_records (id, kind, key, value, version, expires_at, parent, entries) OVERRIDING SYSTEM VALUE
      SELECT ids[p.ref], kinds[p.ref], p.key, p.value, commit_id, p.expires_at, ids[p.parent], p.entries
      FROM json_to_recordset(puts)
        AS p (ref integer, key text, parent integer, value text, expires_at double precision, entries text)
      WHERE NOT are_live[p.ref];
  END IF;
  IF indexed THEN
    INSERT INTO sign_in_entries (kind, name, at, place, record)
      SELECT kinds[p.ref], i.name, i.at, i."order", ids[p.ref]
      FROM json_to_recordset(puts) AS p (ref integer, entries text)
        CROSS JOIN LATERAL (
          SELECT * FROM json_to_recordset(p.entries::json) AS i (name text, at text, "order" bigint)
          EXCEPT SELECT * FROM json_to_recordset(CASE WHEN are_live[p.ref] THEN olds[p.ref] END::json)
            AS o (name text, at text, "order" bigint)
        ) AS i
      WHERE p.entries IS NOT NULL AND (NOT are_live[p.ref] OR olds[p.ref] IS DISTINCT FROM p.entries);
  END IF;
  INSERT INTO sign_in_commits (id) VALUES (commit_id);
  RETURN NULL;
END $$;

-- Deletes expired records with their children, at most this many records.
CREATE OR REPLACE FUNCTION ${names.sweep}(now double precision, most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  expired bigint[];
  children bigint[];
  swept bigint[];
  deleted integer;
BEGIN
  DELETE FROM sign_in_commits WHERE at < clock_timestamp() - interval '1 minute';
  SELECT array_agg(id) INTO expired FROM (
    SELECT r.id FROM sign_in_records AS r WHERE r.expires_at <= now ORDER BY r.expires_at LIMIT most FOR UPDATE SKIP LOCKED
  ) AS f;
  SELECT coalesce(array_agg(id), '{}') INTO children FROM (
    SELECT r.id FROM sign_in_records AS r WHERE r.parent = ANY (expired) LIMIT most FOR UPDATE SKIP LOCKED
  ) AS f;
  -- Children first: a record that has children is not deleted.
  SELECT array_agg(id) INTO swept FROM (
    SELECT id FROM (
      SELECT c AS id, false AS own FROM unnest(children) AS c
      UNION ALL SELECT e, true FROM unnest(expired) AS e WHERE e <> ALL (children)
    ) AS f ORDER BY own LIMIT most
  ) AS g;
  DELETE FROM sign_in_entries WHERE ctid = ANY (ARRAY(
    SELECT f.ctid FROM sign_in_records AS r CROSS JOIN json_to_recordset(r.entries::json) AS i (name text, at text, "order" bigint)
      ${entryRow("r.kind", "r.id")}
    WHERE r.id = ANY (swept) AND r.entries IS NOT NULL
  ));
  DELETE FROM sign_in_records AS r WHERE r.id = ANY (swept)
    AND NOT EXISTS (SELECT FROM sign_in_records AS c WHERE c.parent = r.id AND c.id <> ALL (swept));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END $$;
`;

/**
 * The names end with a hash of the text, so that processes of two versions of this program can use one database: neither
 * replaces the functions of the other, and nobody has to remember to count a version.
 */
export const NAMES: FunctionNames = namesWith(
  `_${createHash("sha256")
    .update(functionsAs(namesWith("")))
    .digest("hex")
    .slice(0, 8)}`,
);

export const FUNCTIONS: string = functionsAs(NAMES);

/** Whether a record `r` with its parent `p` exists at `$1`. */
const LIVE = `(r.expires_at IS NULL OR r.expires_at > $1)
  AND (r.parent IS NULL OR (p.id IS NOT NULL AND (p.expires_at IS NULL OR p.expires_at > $1)))`;

const GOT = `r.kind, r.key, r.value, r.version, r.expires_at,
  p.kind AS parent_kind, p.key AS parent_key, p.value AS parent_value, p.version AS parent_version, p.expires_at AS parent_expires_at`;

/** The columns of a record, and of one with its parent. */
const DATA = "kind text, key text, value text, version text, expires_at double precision";
const GOT_COLUMNS = `n integer, ${DATA}, parent_kind text, parent_key text, parent_value text, parent_version text,
  parent_expires_at double precision`;
/** The types of kinds, names and places of an index, with two bounds each. */
const RANGES = ["text[]", "text[]", "text[]", "bigint[]", "bigint[]"];

/** Parameters: now, kind, key. */
export const GET_ONE: Statement = withFunction(
  "sign-in-get-one",
  { parameters: ["double precision", "text", "text"], columns: GOT_COLUMNS },
  `
SELECT 1 AS n, ${GOT} FROM sign_in_records AS r LEFT JOIN sign_in_records AS p ON p.id = r.parent
WHERE r.kind = $2 AND r.key = $3 AND ${LIVE}`,
);

/** Parameters: now, kinds, keys. */
export const GET: Statement = withFunction(
  "sign-in-get",
  { parameters: ["double precision", "text[]", "text[]"], columns: GOT_COLUMNS },
  `
SELECT q.n::int AS n, ${GOT}
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS q (kind, key, n)
JOIN sign_in_records AS r ON r.kind = q.kind AND r.key = q.key LEFT JOIN sign_in_records AS p ON p.id = r.parent
WHERE ${LIVE}`,
);

/** Parameters: now, and arrays of kind, name, at, start, after, bound and limit. */
const list = (name: string, behind: ">" | "<", within: "<=" | ">=", direction: "ASC" | "DESC"): Statement =>
  withFunction(
    name,
    {
      parameters: ["double precision", ...RANGES, "bigint[]", "integer[]"],
      columns: `n integer, id bigint, ${DATA}, place bigint`,
    },
    `
SELECT q.n::int AS n, f.*
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::int[])
  WITH ORDINALITY AS q (kind, name, at, start, after, bound, most, n)
CROSS JOIN LATERAL (
  SELECT r.id, r.kind, r.key, r.value, r.version, r.expires_at, e.place
  FROM sign_in_entries AS e JOIN sign_in_records AS r ON r.id = e.record LEFT JOIN sign_in_records AS p ON p.id = r.parent
  WHERE e.kind = q.kind AND e.name = q.name AND e.at = q.at
    AND (e.place, e.record) ${behind} (q.start, q.after) AND e.place ${within} q.bound AND ${LIVE}
  ORDER BY e.place ${direction}, e.record ${direction} LIMIT q.most + 1
) AS f ORDER BY q.n, f.place ${direction}, f.id ${direction}`,
  );

export const LIST_UP: Statement = list("sign-in-list-up", ">", "<=", "ASC");
export const LIST_DOWN: Statement = list("sign-in-list-down", "<", ">=", "DESC");

/** Parameters: now, kind, the key after which the page begins, limit. */
export const SCAN: Statement = withFunction(
  "sign-in-scan",
  { parameters: ["double precision", "text", "text", "bigint"], columns: `${DATA}, live boolean` },
  `
SELECT r.kind, r.key, r.value, r.version, r.expires_at, ${LIVE} AS live
FROM sign_in_records AS r LEFT JOIN sign_in_records AS p ON p.id = r.parent
WHERE r.kind = $2 AND r.key > $3 ORDER BY r.key LIMIT $4`,
);

/** Parameters: arrays of kind, name, at, from, to and limit. */
export const COUNT: Statement = withFunction(
  "sign-in-count",
  { parameters: [...RANGES, "bigint[]"], columns: "count integer" },
  `
SELECT (SELECT count(*)::int FROM (SELECT FROM sign_in_entries AS e
  WHERE e.kind = q.kind AND e.name = q.name AND e.at = q.at AND e.place BETWEEN q.low AND q.high LIMIT q.most) AS f) AS count
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
  WITH ORDINALITY AS q (kind, name, at, low, high, most, n)
ORDER BY n`,
);

const COMMIT_PARAMETERS = [
  "text",
  "json",
  "json",
  "double precision",
  "timestamptz",
  "boolean",
  "boolean",
  "boolean",
];

/** Parameters: the id of the commit, references, records to put, now, deadline, relaxed, again, indexed. */
export const COMMIT: Statement = withFunction(
  "sign-in-commit",
  { parameters: COMMIT_PARAMETERS, columns: "failed integer[]" },
  `SELECT ${NAMES.commit}(${typed(COMMIT_PARAMETERS)}) AS failed`,
);

/** Tables that are restored are other tables, unless a restore filled those that were there. */
export const TABLES: Statement = withFunction(
  "sign-in-tables",
  { parameters: [], columns: "id text" },
  `
SELECT d.oid || '-' || 'sign_in_records'::regclass::oid AS id FROM pg_database AS d WHERE d.datname = current_database()`,
);

export const CLUSTER: Statement = { name: "sign-in-cluster", text: HISTORY };

/**
 * Parameters: the name, the least, how far ahead, whether the server tells its timeline. A standby that was promoted may lack the
 * numbers that were given out last. So the timeline is noted beside the counter, in the same statement: nothing comes between.
 */
export const NEXT: Statement = withFunction(
  "sign-in-next",
  { parameters: ["text", "bigint", "bigint", "boolean"], columns: "value bigint" },
  `
WITH promoted AS (
  INSERT INTO sign_in_counters AS noted (name, value)
  SELECT $1 || ' timeline', ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint WHERE $4
  ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE noted.value <> excluded.value
  RETURNING xmax <> 0 AS is_another
)
INSERT INTO sign_in_counters AS counter (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = greatest(
  counter.value + 1 + CASE WHEN EXISTS (SELECT FROM promoted WHERE is_another) THEN $3 ELSE 0 END, $2
) RETURNING counter.value`,
);

const SWEEP_PARAMETERS = ["double precision", "integer"];

/** Parameters: now, limit. */
export const SWEEP: Statement = withFunction(
  "sign-in-sweep",
  { parameters: SWEEP_PARAMETERS, columns: "swept integer" },
  `SELECT ${NAMES.sweep}(${typed(SWEEP_PARAMETERS)}) AS swept`,
);

/** Parameters: the kinds. It is a hint, so it does not wait for the disk. */
export const NOTIFY: Statement = {
  name: "sign-in-notify",
  text: "SELECT set_config('synchronous_commit', 'off', true), pg_notify('sign_in_changes', $1)",
};

/** The statements that have a function. */
const CALLED = [GET_ONE, GET, LIST_UP, LIST_DOWN, SCAN, COUNT, COMMIT, TABLES, NEXT, SWEEP].flatMap(
  (each) => each.function ?? [],
);

/** For connections whose sessions change. */
export const CALLED_FUNCTIONS: string = CALLED.map(({ definition }) => definition).join("");

/** Every function that a process of this version may call. */
export const ALL_NAMES: readonly string[] = [...Object.values(NAMES), ...CALLED.map(({ name }) => name)];

const textArray = (texts: readonly string[]): string =>
  `ARRAY[${texts.map((text) => `'${text.replaceAll("'", "''")}'`).join(", ")}]::text[]`;

/**
 * What only other versions need, with the statements that drop it. Functions of roles that this one has no rights of are not the
 * service's. A text without parameters, so that it also runs where each transaction needs the search path.
 * @param former the tables and indexes that a version before had, and columns as `table.column`.
 */
export const leftovers = (former: readonly string[]): string => `
WITH former AS (SELECT name FROM unnest(${textArray(former)}) AS f (name))
SELECT p.proname AS name, format('DROP FUNCTION IF EXISTS %s', p.oid::regprocedure) AS statement FROM pg_proc AS p
  WHERE p.pronamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = current_schema()) AND p.proname ~ '^sign_in_[a-z_]+_[0-9a-f]{8}$'
    AND p.proname <> ALL (${textArray(ALL_NAMES)}) AND pg_has_role(p.proowner, 'USAGE')
UNION ALL
SELECT f.name, format('DROP %s IF EXISTS %I', CASE c.relkind WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END, f.name)
  FROM former AS f JOIN pg_class AS c ON c.oid = to_regclass(quote_ident(f.name))
UNION ALL
SELECT f.name, format('ALTER TABLE %I DROP COLUMN IF EXISTS %I', split_part(f.name, '.', 1), a.attname)
  FROM former AS f JOIN pg_attribute AS a
    ON a.attrelid = to_regclass(quote_ident(split_part(f.name, '.', 1))) AND a.attname = split_part(f.name, '.', 2)
ORDER BY name`;
