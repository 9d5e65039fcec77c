/** A statement, and the two ways to run it: prepared in a session, or inside of a function that needs nothing of its session. */
import { createHash } from "node:crypto";

export const CALL_TIMEOUT_MS = 4_500;

/**
 * Every statement finds a few rows by an index. The planner must not choose another plan because it does not see the
 * values of a prepared statement, or has no statistics of a new table. It would also overestimate how many rows of a
 * large table a statement finds, and spend milliseconds on starting parallel workers or compiling the statement.
 */
const PLANNER = [
  "plan_cache_mode = force_generic_plan",
  "enable_seqscan = off",
  "enable_hashjoin = off",
  "enable_mergejoin = off",
  "max_parallel_workers_per_gather = 0",
  "jit = off",
];

const sets = (settings: readonly string[]): string => settings.map((each) => `SET ${each}`).join("; ");

/** What a connection with a session of its own sets at its beginning. */
export const SESSION: string = sets([`statement_timeout = ${CALL_TIMEOUT_MS}`, ...PLANNER]);

/** What each transaction sets first when a pooler shares sessions between clients. */
export const TRANSACTION = `SET LOCAL statement_timeout = ${CALL_TIMEOUT_MS}`;

export interface Statement {
  /** Each connection plans it once under this name. */
  readonly name: string;
  readonly text: string;
  /** Runs it in any session. Absent: it relies on nothing that a session has. */
  readonly function?: {
    readonly name: string;
    /** `NAME($1, …)`. The name needs the schema of the storage. */
    readonly call: string;
    /** Creates it, for the schema that is the search path then. */
    readonly definition: string;
  };
}

/** `$1::TYPE, …`. Without its types, a call could reach a function of the same name that somebody else has made for other types. */
export const typed = (parameters: readonly string[]): string =>
  parameters.map((type, index) => `$${index + 1}::${type}`).join(", ");

/**
 * A statement with the function for poolers that give each transaction another session. The search path and the settings of the
 * planner are attributes of the function, which also keeps the plan in each session of the server.
 * @param parameters the type of each.
 * @param columns the name and the type of each.
 */
export function withFunction(
  name: string,
  { parameters, columns }: { readonly parameters: readonly string[]; readonly columns: string },
  text: string,
): Statement {
  // The time-out of a statement begins with the call, so a function can only limit how long it waits for locks.
  const attributes = [`lock_timeout = ${CALL_TIMEOUT_MS}`, "search_path FROM CURRENT", ...PLANNER];
  const rest = `(${parameters.join(", ")}) RETURNS TABLE (${columns}) LANGUAGE plpgsql
${attributes.map((each) => `SET ${each}`).join(" ")} AS $$
#variable_conflict use_column
BEGIN RETURN QUERY ${text.trim()}; END $$;
`;
  // Processes of two versions use one database.
  const hash = createHash("sha256").update(rest).digest("hex").slice(0, 8);
  const own = `${name.replaceAll("-", "_")}_${hash}`;
  return {
    name,
    text,
    function: {
      name: own,
      call: `${own}(${typed(parameters)})`,
      definition: `CREATE OR REPLACE FUNCTION ${own}${rest}`,
    },
  };
}

export const CLOCK: Statement = { name: "sign-in-clock", text: "SELECT clock_timestamp() AS now" };
