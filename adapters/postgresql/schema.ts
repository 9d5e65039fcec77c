/**
 * The tables and functions of the record store. A record keeps its `id` when it is replaced, and its children refer
 * to that id, so they never belong to a later record with the same key. `entries` repeats the index entries of the
 * record. Times are milliseconds since the epoch by the clock of the service unless stated otherwise.
 */

export const SCHEMA = `
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
);
CREATE INDEX IF NOT EXISTS sign_in_records_expiry ON sign_in_records (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS sign_in_records_parent ON sign_in_records (parent) WHERE parent IS NOT NULL;
CREATE TABLE IF NOT EXISTS sign_in_entries (
  kind text COLLATE "C",
  name text COLLATE "C",
  at text COLLATE "C",
  place bigint,
  record bigint,
  PRIMARY KEY (kind, name, at, place, record)
);
CREATE TABLE IF NOT EXISTS sign_in_counters (name text PRIMARY KEY, value bigint NOT NULL);
-- The ids of recent commits, for commits whose acknowledgement was lost.
CREATE TABLE IF NOT EXISTS sign_in_commits (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX IF NOT EXISTS sign_in_commits_at ON sign_in_commits (at);

-- Removes a record. One with children stays as a tombstone: a commit must not delete thousands of children.
CREATE OR REPLACE FUNCTION sign_in_erase(record bigint, kind text, entries text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM sign_in_entries AS e USING json_to_recordset(coalesce(entries, '[]')::json) AS i (name text, at text, "order" bigint)
    WHERE e.kind = sign_in_erase.kind AND e.name = i.name AND e.at = i.at AND e.place = i."order" AND e.record = sign_in_erase.record;
  IF EXISTS (SELECT FROM sign_in_records AS c WHERE c.parent = record) THEN
    UPDATE sign_in_records AS r SET kind = '', key = r.id::text, value = '{}', version = '', expires_at = 0, entries = NULL
      WHERE r.id = record;
  ELSE
    DELETE FROM sign_in_records AS r WHERE r.id = record;
  END IF;
END $$;

-- A whole commit. Returns the records whose expectation does not hold; then nothing is written.
-- Rows are locked in a fixed order, so that two commits wait for each other and don't deadlock.
-- A commit that is sent again after a lost acknowledgement is applied once.
CREATE OR REPLACE FUNCTION sign_in_commit(change json, now double precision, deadline timestamptz, again boolean)
  RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  item record;
  was sign_in_records;
  -- Parsed once: each access to a member would parse the whole text.
  commit_id text := change->>'id';
  parent_id bigint;
  is_live boolean;
  failed json[] := '{}';
  -- The records to write, as they were when they were locked. Missing ones can't be locked, so they may only be inserted.
  states jsonb := '{}';
  state jsonb;
BEGIN
  PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM deadline - clock_timestamp()) * 1000))::text, true);
  IF (change->>'relaxed')::boolean THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  FOR item IN
    SELECT ref.kind COLLATE "C" AS kind, ref.key COLLATE "C" AS key, max(ref.version) AS version,
      bool_or(ref.written) AS written, bool_or(ref.parent) AS parent
    FROM (
      SELECT kind, key, version, false AS written, false AS parent
        FROM json_to_recordset(change->'expect') AS e (kind text, key text, version text)
      UNION ALL SELECT kind, key, NULL, true, false FROM json_to_recordset(change->'put') AS p (kind text, key text)
      UNION ALL SELECT kind, key, NULL, true, false FROM json_to_recordset(change->'remove') AS r (kind text, key text)
      UNION ALL SELECT kind, key, NULL, false, true FROM json_to_recordset(change->'parents') AS q (kind text, key text)
    ) AS ref GROUP BY 1, 2 ORDER BY 1, 2
  LOOP
    IF item.written THEN
      SELECT * INTO was FROM sign_in_records AS r WHERE r.kind = item.kind AND r.key = item.key FOR UPDATE;
    ELSIF item.version IS NOT NULL THEN
      SELECT * INTO was FROM sign_in_records AS r WHERE r.kind = item.kind AND r.key = item.key FOR SHARE;
    ELSE
      SELECT * INTO was FROM sign_in_records AS r WHERE r.kind = item.kind AND r.key = item.key FOR KEY SHARE;
    END IF;
    IF FOUND AND item.written THEN
      states := states || jsonb_build_object(item.kind || ' ' || item.key, jsonb_build_object('id', was.id, 'live', false));
    END IF;
    is_live := was.id IS NOT NULL AND (was.expires_at IS NULL OR was.expires_at > now);
    IF is_live AND was.parent IS NOT NULL THEN
      PERFORM FROM sign_in_records AS p
        WHERE p.id = was.parent AND (p.expires_at IS NULL OR p.expires_at > now) FOR KEY SHARE;
      is_live := FOUND;
    END IF;
    IF is_live AND item.written THEN
      states := jsonb_set(states, ARRAY[item.kind || ' ' || item.key, 'live'], 'true');
    END IF;
    IF (item.version = 'absent' AND is_live)
      OR (item.version <> 'absent' AND NOT is_live)
      OR (item.version NOT IN ('absent', 'present') AND is_live AND was.version <> item.version)
      OR (item.parent AND NOT is_live)
    THEN
      failed := failed || json_build_object('kind', item.kind, 'key', item.key, 'parent', item.parent);
    END IF;
  END LOOP;
  -- After locking, when any other attempt of this commit has finished.
  IF again AND EXISTS (SELECT FROM sign_in_commits AS c WHERE c.id = commit_id) THEN RETURN NULL; END IF;
  IF cardinality(failed) > 0 THEN RETURN array_to_json(failed); END IF;
  IF clock_timestamp() >= deadline THEN RAISE EXCEPTION 'too late' USING ERRCODE = 'SI001'; END IF;

  FOR item IN SELECT r.id, r.kind, r.entries FROM json_to_recordset(change->'remove') AS x (kind text, key text)
    JOIN sign_in_records AS r ON r.id = (states->(x.kind || ' ' || x.key)->>'id')::bigint
  LOOP
    PERFORM sign_in_erase(item.id, item.kind, item.entries);
  END LOOP;
  -- Parents first: their children need their ids.
  FOR item IN SELECT * FROM json_to_recordset(change->'put')
    AS p (kind text, key text, value text, expires_at double precision, parent_kind text, parent_key text, entries text)
    ORDER BY parent_kind IS NOT NULL
  LOOP
    parent_id := NULL;
    IF item.parent_kind IS NOT NULL THEN
      SELECT r.id INTO parent_id FROM sign_in_records AS r WHERE r.kind = item.parent_kind AND r.key = item.parent_key;
    END IF;
    state := states->(item.kind || ' ' || item.key);
    is_live := coalesce((state->>'live')::boolean, false);
    IF state IS NOT NULL THEN
      SELECT * INTO was FROM sign_in_records AS r WHERE r.id = (state->>'id')::bigint;
      IF NOT is_live THEN PERFORM sign_in_erase(was.id, was.kind, was.entries); END IF;
    END IF;
    IF is_live THEN
      UPDATE sign_in_records AS r SET value = item.value, version = commit_id, expires_at = item.expires_at,
        parent = parent_id, entries = item.entries WHERE r.id = was.id;
      CONTINUE WHEN was.entries IS NOT DISTINCT FROM item.entries;
      DELETE FROM sign_in_entries AS e USING json_to_recordset(coalesce(was.entries, '[]')::json) AS i (name text, at text, "order" bigint)
        WHERE e.kind = item.kind AND e.name = i.name AND e.at = i.at AND e.place = i."order" AND e.record = was.id;
    ELSE
      INSERT INTO sign_in_records (kind, key, value, version, expires_at, parent, entries)
        VALUES (item.kind, item.key, item.value, commit_id, item.expires_at, parent_id, item.entries)
        RETURNING * INTO was;
    END IF;
    INSERT INTO sign_in_entries (kind, name, at, place, record)
      SELECT item.kind, i.name, i.at, i."order", was.id
      FROM json_to_recordset(coalesce(item.entries, '[]')::json) AS i (name text, at text, "order" bigint);
  END LOOP;
  INSERT INTO sign_in_commits (id) VALUES (commit_id);
  IF change->>'announce' IS NOT NULL THEN PERFORM pg_notify('sign_in_changes', change->>'announce'); END IF;
  RETURN NULL;
END $$;

-- Deletes expired records with their children, at most this many records.
CREATE OR REPLACE FUNCTION sign_in_sweep(now double precision, most integer) RETURNS integer LANGUAGE plpgsql AS $$
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
  DELETE FROM sign_in_entries AS e
    USING sign_in_records AS r CROSS JOIN json_to_recordset(r.entries::json) AS i (name text, at text, "order" bigint)
    WHERE r.id = ANY (swept) AND r.entries IS NOT NULL
      AND e.kind = r.kind AND e.name = i.name AND e.at = i.at AND e.place = i."order" AND e.record = r.id;
  DELETE FROM sign_in_records AS r WHERE r.id = ANY (swept)
    AND NOT EXISTS (SELECT FROM sign_in_records AS c WHERE c.parent = r.id AND c.id <> ALL (swept));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END $$;
`;

/** Whether a record \`r\` with its parent \`p\` exists at \`$1\`. */
const LIVE = `(r.expires_at IS NULL OR r.expires_at > $1)
  AND (r.parent IS NULL OR (p.id IS NOT NULL AND (p.expires_at IS NULL OR p.expires_at > $1)))`;

/** Parameters: now, kinds, keys. */
export const GET: string = `
SELECT q.n, r.kind, r.key, r.value, r.version, r.expires_at,
  p.kind AS parent_kind, p.key AS parent_key, p.value AS parent_value, p.version AS parent_version, p.expires_at AS parent_expires_at
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS q (kind, key, n)
JOIN sign_in_records AS r ON r.kind = q.kind AND r.key = q.key LEFT JOIN sign_in_records AS p ON p.id = r.parent
WHERE ${LIVE}`;

const page = (behind: ">" | "<", within: "<=" | ">=", direction: "ASC" | "DESC"): string => `
SELECT q.n, f.* FROM queries AS q CROSS JOIN LATERAL (
  SELECT r.id, r.kind, r.key, r.value, r.version, r.expires_at, e.place
  FROM sign_in_entries AS e JOIN sign_in_records AS r ON r.id = e.record LEFT JOIN sign_in_records AS p ON p.id = r.parent
  WHERE e.kind = q.kind AND e.name = q.name AND e.at = q.at
    AND (e.place, e.record) ${behind} (q.start, q.after) AND e.place ${within} q.bound AND ${LIVE}
  ORDER BY e.place ${direction}, e.record ${direction} LIMIT q.most + 1
) AS f WHERE q.direction = '${direction}'`;

/** Parameters: now, and an array for each column of \`queries\`. */
export const LIST: string = `
WITH queries AS (
  SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::int[], $9::text[])
    WITH ORDINALITY AS q (kind, name, at, start, after, bound, most, direction, n)
)
SELECT * FROM (${page(">", "<=", "ASC")} UNION ALL ${page("<", ">=", "DESC")}) AS found
ORDER BY n, CASE WHEN (SELECT direction FROM queries WHERE queries.n = found.n) = 'ASC' THEN place ELSE -place END,
  CASE WHEN (SELECT direction FROM queries WHERE queries.n = found.n) = 'ASC' THEN id ELSE -id END`;

/** Parameters: now, kind, the key after which the page begins, limit. */
export const SCAN: string = `
SELECT r.kind, r.key, r.value, r.version, r.expires_at, ${LIVE} AS live
FROM sign_in_records AS r LEFT JOIN sign_in_records AS p ON p.id = r.parent
WHERE r.kind = $2 AND r.key > $3 ORDER BY r.key LIMIT $4`;

/** Parameters: arrays of kind, name, at, from, to. */
export const COUNT = `
SELECT (SELECT count(*)::int FROM sign_in_entries AS e
  WHERE e.kind = q.kind AND e.name = q.name AND e.at = q.at AND e.place BETWEEN q.low AND q.high) AS count
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS q (kind, name, at, low, high, n)
ORDER BY n`;

export const NEXT = `
INSERT INTO sign_in_counters (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = greatest(sign_in_counters.value + 1, $2) RETURNING value`;
