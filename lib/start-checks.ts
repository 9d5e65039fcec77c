/** What a start refuses or warns about once the storage is open. */
import { networkFileSystem } from "../adapters/sqlite/file-system.ts";
import { ACCOUNT_CLIENT, type ClientInternals, CONSOLE_CLIENT } from "../accounts/clients/client.ts";
import type { Configuration } from "../config/configuration.ts";
import { databaseFile } from "../config/storage-address.ts";
import { baseUrls, callbackAddresses } from "../interactions/account/gate.ts";

/** Warns about a database that several machines could damage. */
export async function warnAboutNetwork(
  { storage }: Configuration,
  onWarning: (text: string) => void,
): Promise<void> {
  const database = databaseFile(storage);
  const name = database === undefined ? undefined : await networkFileSystem(database);
  if (name === undefined) return;
  onWarning(
    `the database is on a network file system (${name}): let one machine use it at a time, or several damage it; for more machines, use PostgreSQL or MongoDB`,
  );
}

/**
 * Registers the internal clients, through which the account pages and the console sign people in. All servers and both
 * deployments share them.
 */
export async function putInternalClients(
  configuration: Configuration,
  clients: ClientInternals,
  onWarning: (text: string) => void,
): Promise<void> {
  const redirect_uris = callbackAddresses(configuration.deployments);
  const name = configuration.interactions.theme.name ?? "Account";
  if (configuration.profile === "strict" && configuration.operators.length > 0)
    await clients.putInternal({
      client_id: CONSOLE_CLIENT,
      name,
      redirect_uris,
      second_factor: "required",
    });
  const { replaced } = await clients.putInternal({ client_id: ACCOUNT_CLIENT, name, redirect_uris });
  if (replaced === undefined || replaced.redirect_uris.join() === redirect_uris.join()) return;
  onWarning(
    `the last server on this storage was at ${baseUrls(replaced.redirect_uris)}, and this one is at ${baseUrls(redirect_uris)}: servers that share a storage need the same deployments, or the account pages work on the server that started last only`,
  );
}
