/** The MongoDB backend. */
export { openMongo, type MongoOptions } from "./open.ts";
