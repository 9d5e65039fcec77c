/** What a start refuses or warns about once the storage is open. */
import { networkFileSystem } from "../adapters/sqlite/file-system.ts";
import { requireFreeScopes } from "../accounts/apis.ts";
import { requireIssuer } from "../accounts/directory.ts";
import { checkPasskeyDomains, relyingPartyOf } from "../accounts/factors/factors.ts";
import { ACCOUNT_CLIENT, type ClientInternals, CONSOLE_CLIENT } from "../accounts/clients/client.ts";
import { INCOMPLETE_INDEX, openSearchIndex } from "../accounts/search/search-index.ts";
import type { Configuration } from "../config/configuration.ts";
import { databaseFile } from "../config/storage-address.ts";
import { isResealPending } from "../records/secrets.ts";
import type { StorageServices } from "../records/services.ts";
import { mailDeploymentOf } from "./account-services.ts";
import { baseUrls, callbackAddresses } from "../interactions/account/gate.ts";

/**
 * @throws ConfigurationError if the storage belongs to another issuer, or to passkeys of other domains, or if an API has the scope of an
 * attribute.
 */
export async function checkStart(
  { configuration, storage, sealer, logger, onWarning }: StorageServices,
  { isServer }: { readonly isServer: boolean },
): Promise<void> {
  if (isResealPending(await storage.secrets.read(), sealer.ids))
    onWarning(
      "keys.secrets has a new first secret: run sign-in-service keys reseal before you remove the old one",
    );
  if (configuration.profile === "strict") {
    logger.info(
      "profile strict: password grant, GET revoke and codes without PKCE are turned off; third parties and operators need a second factor, and public clients DPoP",
    );
    if (isServer && mailDeploymentOf(configuration) === undefined)
      onWarning(
        "profile strict: third parties and operators need a second factor, and without mail nobody can add a first one",
      );
  }
  if (isServer && configuration.operatorsAreListed)
    onWarning(
      'operators is a list, so each of them has the role deliveries: deliveries and receivers, and nothing else; the pages about people need { "<sub>": "support" }',
    );
  await requireIssuer(configuration, storage.directory);
  await requireFreeScopes(configuration, storage.directory);
  if (!isServer) return;
  if (!(await openSearchIndex(storage.records))) onWarning(INCOMPLETE_INDEX);
  await checkPasskeyDomains(storage.records, relyingPartyOf(configuration));
  await warnAboutNetwork(configuration, onWarning);
}

/** Says why people are offered no passkeys, once the service has started. */
export function sayPasskeysAreOff({
  configuration,
  logger,
}: Pick<StorageServices, "configuration" | "logger">): void {
  if (relyingPartyOf(configuration) !== undefined) return;
  logger.info(
    configuration.interactions.passkeys.enabled
      ? "passkeys are off: browsers make none for an IP address; use a host name, such as localhost"
      : "passkeys are off: interactions.passkeys.enabled is false",
  );
}

/** Warns about a database that several machines could damage. */
async function warnAboutNetwork(
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
  if (configuration.profile === "strict" && Object.keys(configuration.operators).length > 0)
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
