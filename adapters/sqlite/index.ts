/** The SQLite backend. */
export { openSqlite, type SqliteOptions } from "./open.ts";
