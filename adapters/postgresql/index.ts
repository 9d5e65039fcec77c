/** PostgreSQL: everything that the service keeps, for any number of processes. */
export { openPostgres } from "./store.ts";
