/**
 * Starting the service, and giving it a seed. Their code is loaded when they are called: a process that delivers
 * notifications, and nothing else, has no use for the protocol core, the pages and the password hashing.
 */
import type { SignInServiceConfig } from "../config/input.ts";
import type { Seed, SeededService } from "./seed.ts";
import type { SignInService } from "./service.ts";

/**
 * Starts the service: opens its storage, reads or makes its keys, and builds both deployments.
 * @throws ConfigurationError with all problems at once.
 * @throws SignInError `keys` when the keys don't belong to the storage.
 * @throws StorageUnavailable when the storage can't be opened, or the Redis of `config.queue` can't be used.
 */
export async function createSignInService(config: SignInServiceConfig): Promise<SignInService> {
  const service = await import("./service.ts");
  return service.createSignInService(config);
}

/**
 * Brings the storage to what the seed says. Doing it again, or in several processes at once, changes nothing
 * more; what the seed does not name stays as it is. Clients that are registered and not in a seed with clients are
 * named in the log.
 * @param seed as in the configuration file; `undefined` does nothing.
 * @throws ConfigurationError with every problem as `config.seed.PATH: PROBLEM`.
 * @throws StorageUnavailable when the storage fails; the seed can be applied again.
 */
export async function applySeed(service: SeededService, seed: Seed | undefined): Promise<void> {
  if (seed === undefined) return;
  const seeding = await import("./seed.ts");
  await seeding.applySeed(service, seed);
}
