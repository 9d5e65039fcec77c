/** The MongoDB backend. */
export { openMongoChecks, type MongoCheckOptions } from "./check.ts";
export { openMongo, type MongoOptions } from "./open.ts";
export { openMongoTransfer, type MongoTransferOptions } from "./transfer.ts";
