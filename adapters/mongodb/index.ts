/** The MongoDB backend. */
export { openMongo, type MongoOptions } from "./open.ts";
export { openMongoTransfer, type MongoTransferOptions } from "./transfer.ts";
