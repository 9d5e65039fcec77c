/** MongoDB: everything that the service keeps, for any number of processes. */
export { type MongoOptions, openMongo } from "./record-store.ts";
export { openMongoV01 } from "./v01.ts";
