/** The SQLite backend. */
export { openSqliteChecks, type SqliteCheckOptions } from "./check.ts";
export { openSqlite, type SqliteOptions } from "./open.ts";
export { openSqliteTransfer, type SqliteTransferOptions } from "./transfer.ts";
