/** The storage of a service: what the configuration names, opened. */
import { type Compose, openStorageWith, type StorageConfiguration } from "../adapters/open.ts";
import type { Storage } from "../adapters/storage.ts";

/** Imported only for backends that need it, so that a service on another storage does not pay for it. */
const compose: Compose = async (store, rateLimits, clock) => {
  const { storageOver } = await import("./storage-over.ts");
  return storageOver(store, rateLimits, clock);
};

/**
 * Opens the storage that the configuration names; a backend's code is loaded when it is chosen.
 * @param onWarning told what an operator should put right. Default: nobody.
 * @throws ConfigurationError when there is no such backend, or the server there is of the wrong kind.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export function openStorage(
  configuration: StorageConfiguration,
  onWarning?: (text: string) => void,
): Promise<Storage> {
  return openStorageWith(compose, configuration, onWarning);
}
