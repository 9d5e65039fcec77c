/** SQLite: everything that the service keeps, in one file or in memory. */
export { openSqlite, type SqliteOptions } from "./record-store.ts";
export { openSqliteRemains } from "./v01.ts";
