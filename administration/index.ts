/** What `sign-in-service/admin` exports: the client of the REST API of administration. */
export { type AdministrationClient, AdministrationError, createAdministrationClient } from "./client.ts";
