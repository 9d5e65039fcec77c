/** The SQLite backend. */
export { openSqlite, type SqliteOptions } from "./open.ts";
export { openSqliteTransfer, type SqliteTransferOptions } from "./transfer.ts";
