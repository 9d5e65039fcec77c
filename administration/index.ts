/** What `sign-in-service/admin` exports: the client of the REST API of administration. */
export { type Administration, AdministrationError, createAdministration } from "./client.ts";
