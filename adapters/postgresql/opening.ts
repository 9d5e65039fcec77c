/** Opens a database: its version, its schema, and whether anybody else could run code there as the service. */
import { ConfigurationError, SignInError, StorageMissing, StorageUnavailable } from "../../core/errors.ts";
import type { OnStoreWarning } from "../../core/store-warning.ts";
import type { Connections } from "./connection.ts";
import { UNBOUND } from "./driver-options.ts";
import { sqlState } from "./faults.ts";
import { ALL_NAMES, CALLED_FUNCTIONS, FUNCTIONS, leftovers, TABLES_SCHEMA } from "./schema.ts";

/** The oldest version that has all features the statements use. */
const OLDEST = 140_000;
/** An arbitrary number. It makes processes that start together take turns to create the tables. */
const SCHEMA_LOCK = 1_936_287_598;

/** What is wrong with an address, by the SQLSTATE of the server's error. */
const PROBLEMS: ReadonlyMap<unknown, string> = new Map([
  ["28P01", "PostgreSQL refuses the user or the password"],
  ["28000", "PostgreSQL refuses the user or the password"],
  ["3D000", "PostgreSQL has no database of this name"],
  [
    UNBOUND,
    "PostgreSQL does not bind the password to the connection, which channel_binding=require asks for",
  ],
  ["42501", "PostgreSQL refuses the user: name one that may create tables and functions"],
]);

/** Settings, prepared statements and LISTEN belong to a session, unless the address says that there is none. */
const SHARED_SESSIONS =
  "a pooler in front of PostgreSQL shares sessions among its clients (pool_mode transaction or statement), which the address does not say: add pool_mode=transaction to it, set pool_mode=session for this database in pgbouncer.ini, or name PostgreSQL itself (docs/operate/set-up/postgresql.md)";

function wrong(problem: string): ConfigurationError {
  return new ConfigurationError([`config.storage: ${problem}`]);
}

/** One sentence without the address, which may contain a password. */
export function openingFault(error: unknown): unknown {
  const code: unknown = sqlState(error) ?? Reflect.get(Object(error), "code");
  const problem = PROBLEMS.get(code);
  if (problem !== undefined) return wrong(problem);
  if (error instanceof SignInError) return error;
  const why = typeof code === "string" ? code : "no answer";
  return new StorageUnavailable(`the PostgreSQL of config.storage can't be used (${why})`, { reason: why });
}

/**
 * What a role can have planted that runs code as the service: objects of our names, triggers and rules on our tables, and functions
 * and operators that hide those of PostgreSQL. Superusers, and roles whose rights the service has anyway, may own them.
 */
const FOREIGN = `
WITH me AS (SELECT r.oid, r.rolsuper FROM pg_roles AS r WHERE r.rolname = current_user),
  here AS (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = current_schema()),
  trusted AS (SELECT r.oid FROM pg_roles AS r CROSS JOIN me
    WHERE r.oid = me.oid OR r.rolsuper OR (NOT me.rolsuper AND pg_has_role(me.oid, r.oid, 'USAGE'))),
  relations AS (SELECT c.oid, c.relname, c.relkind, c.relowner FROM pg_class AS c JOIN here ON c.relnamespace = here.oid
    WHERE c.relname IN ('sign_in_records', 'sign_in_entries', 'sign_in_counters', 'sign_in_commits', 'sign_in_records_id_seq')),
  functions AS (SELECT p.oid, p.proname, p.proowner FROM pg_proc AS p JOIN here ON p.pronamespace = here.oid)
SELECT format('the %s %s belongs to %s', CASE c.relkind WHEN 'r' THEN 'table' WHEN 'S' THEN 'sequence' ELSE 'relation' END,
    c.relname, pg_get_userbyid(c.relowner)) AS what FROM relations AS c WHERE c.relowner NOT IN (SELECT oid FROM trusted)
UNION ALL SELECT format('the function %s belongs to %s', f.proname, pg_get_userbyid(f.proowner)) FROM functions AS f
  WHERE f.proowner NOT IN (SELECT oid FROM trusted) AND (f.proname IN (${ALL_NAMES.map(
    (name) => `'${name}'`,
  ).join(", ")})
    OR EXISTS (SELECT FROM pg_proc AS b WHERE b.pronamespace = 'pg_catalog'::regnamespace AND b.proname = f.proname))
UNION ALL SELECT format('the operator %s belongs to %s', o.oprname, pg_get_userbyid(o.oprowner)) FROM pg_operator AS o
  JOIN here ON o.oprnamespace = here.oid WHERE o.oprowner NOT IN (SELECT oid FROM trusted)
UNION ALL SELECT format('the table %s has the trigger %s', c.relname, t.tgname) FROM pg_trigger AS t
  JOIN relations AS c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal
UNION ALL SELECT format('the table %s has the rule %s', c.relname, w.rulename) FROM pg_rewrite AS w
  JOIN relations AS c ON c.oid = w.ev_class
ORDER BY what LIMIT 3`;

/** Roles that could plant something later. */
const PLANTERS = `
SELECT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolcanlogin AND NOT r.rolsuper AND r.rolname <> current_user
  AND has_database_privilege(r.oid, current_database(), 'CONNECT')
  AND has_schema_privilege(r.oid, current_schema(), 'CREATE')) AS found`;

async function refuseForeign(connections: Connections): Promise<void> {
  const found = await connections.raw<{ what: string }>(FOREIGN);
  if (found.length === 0) return;
  const what = found.map((each) => each.what).join(", ");
  throw wrong(
    `in the database of PostgreSQL, ${what}: whoever made that can run code as the service. Remove it, or give the service a schema of its own`,
  );
}

/** The schema that names without a schema are in, which is the only one from now on. */
async function pinSchema(connections: Connections): Promise<void> {
  const [row] = await connections.raw<{ name: string | null }>("SELECT current_schema() AS name");
  if (row === undefined || row.name === null)
    throw wrong(
      "the search_path of this user of PostgreSQL names no schema that exists: create it with CREATE SCHEMA, or correct options",
    );
  await connections.pin(row.name);
}

/** Whether this database has ever held a storage. */
async function hasRecords(connections: Connections): Promise<boolean> {
  const text = "SELECT to_regclass('sign_in_records') IS NOT NULL AS found";
  const [row] = await connections.raw<{ found: boolean }>(text);
  return row?.found === true;
}

/** The functions that these connections may call. */
const functionsFor = ({ hasSessions }: Connections): string =>
  hasSessions ? FUNCTIONS : FUNCTIONS + CALLED_FUNCTIONS;

/** Creates the tables and functions. Others may have planted some of their names: then the server refuses, or skips them. */
async function create(connections: Connections, schema: string): Promise<void> {
  try {
    // One text is one transaction.
    await connections.raw(`SELECT pg_advisory_xact_lock(${SCHEMA_LOCK}); ${schema}`);
  } catch (error) {
    await refuseForeign(connections);
    throw error;
  }
}

/**
 * Creates the functions of this version in a database that processes of another one have made: a command writes nothing when it opens
 * a storage, and may be the first of its version.
 */
export async function createFunctions(connections: Connections): Promise<void> {
  await create(connections, functionsFor(connections));
}

/** A part of the database that only other versions need. */
interface Leftover {
  readonly name: string;
  /** Drops it. */
  readonly statement: string;
}

/** @param former as for `leftovers` of `RecordStore`. */
export function findLeftovers(connections: Connections, former: readonly string[]): Promise<Leftover[]> {
  return connections.raw(leftovers(former));
}

/** All or none. A process of another version that still needs a function creates it again. */
export async function dropLeftovers(connections: Connections, former: readonly string[]): Promise<void> {
  const statements = (await findLeftovers(connections, former)).map(({ statement }) => `${statement};`);
  if (statements.length > 0)
    await connections.raw(`SELECT pg_advisory_xact_lock(${SCHEMA_LOCK}); ${statements.join(" ")}`);
}

/**
 * Prepares the database, unless it must exist.
 * @throws ConfigurationError when a pooler shares sessions, the server is too old, or others could run code as the service.
 * @throws StorageMissing when it must exist, and does not.
 */
export async function prepareDatabase(
  connections: Connections,
  { mustExist, onWarning }: { readonly mustExist: boolean; readonly onWarning: OnStoreWarning },
): Promise<void> {
  if (connections.hasSessions && (await connections.sharesSessions())) throw wrong(SHARED_SESSIONS);
  const [row] = await connections.raw<{ server_version_num: string }>("SHOW server_version_num");
  if (Number(row?.server_version_num) < OLDEST) throw wrong("PostgreSQL 14 or newer is needed");
  await pinSchema(connections);
  if (!mustExist) await create(connections, TABLES_SCHEMA + functionsFor(connections));
  else if (!(await hasRecords(connections)))
    throw new StorageMissing("there is no storage in that database of PostgreSQL");
  await refuseForeign(connections);
  const [planters] = await connections.raw<{ found: boolean }>(PLANTERS);
  if (planters?.found === true)
    onWarning(
      "other users of PostgreSQL may create tables and functions in the schema of the storage: give the service a schema of its own (docs/operate/set-up/postgresql.md)",
      "postgresql_shared",
    );
}
