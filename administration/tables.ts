/** Every operation, by the noun that commands and paths begin with. Loads no service. */
import { accounts } from "../accounts/operations/accounts.ts";
import { apis } from "../accounts/operations/apis.ts";
import { audit } from "../accounts/operations/audit.ts";
import { clients } from "../accounts/operations/clients.ts";
import { groups, portals, services } from "../accounts/operations/directory.ts";
import { keys } from "../accounts/operations/keys.ts";
import { deliveries, deliveriesOf, receiversOf } from "../notifier/operations.ts";
import { receivers } from "../notifier/receiver-operations.ts";
import type { AnyTable } from "../accounts/operations/operation.ts";
import type { SignInService } from "./service.ts";

/** The tables. Their comments are the texts of the commands: see `build/operations.ts`. */
export const TABLES = {
  accounts,
  clients,
  services,
  groups,
  portals,
  apis,
  receivers,
  deliveries,
  audit,
  keys,
};
export type Noun = keyof typeof TABLES;

/** The object of a service that has the calls of a table. */
export const CALLS: { readonly [N in Noun]: (service: SignInService) => object } = {
  accounts: (service) => service.accounts,
  clients: (service) => service.clients,
  services: ({ directory }) => directory.services,
  groups: ({ directory }) => directory.groups,
  portals: ({ directory }) => directory.portals,
  apis: ({ directory }) => directory.apis,
  receivers: ({ notifications }) => receiversOf(notifications),
  deliveries: ({ notifications }) => deliveriesOf(notifications),
  audit: (service) => service.audit,
  keys: (service) => service.keys,
};

/** The rows of a noun. */
export function rowsOf(noun: Noun): AnyTable["rows"] {
  return (TABLES[noun] as AnyTable).rows;
}
