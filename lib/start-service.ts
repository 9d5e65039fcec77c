/**
 * Starts the service and applies a seed. The code is loaded by the first call, because a process that only delivers
 * notifications does not need the protocol core, the pages and password hashing.
 */
import type { SignInServiceConfig } from "../config/input.ts";
import { ConfigurationError } from "../core/errors.ts";
import { olderNodeProblem } from "../core/node-version.ts";
import type { Seed } from "./seed.ts";
import type { SignInService } from "./service.ts";

/**
 * Starts the service: opens its storage, reads or makes its keys, and builds both deployments.
 * @throws ConfigurationError with all problems together, or on a Node.js that is too old.
 * @throws SignInError `unusable_secrets` when the keys don't belong to the storage.
 * @throws StorageUnavailable when the storage can't be opened, or the Redis of `config.queue` can't be used.
 */
export async function createSignInService(config: SignInServiceConfig): Promise<SignInService> {
  const problem = olderNodeProblem();
  if (problem !== undefined) throw new ConfigurationError([problem]);
  const service = await import("./service.ts");
  return service.createSignInService(config);
}

/**
 * Creates what the seed describes and is missing, and brings directory and clients to its values. Existing accounts, and the
 * secrets and keys of existing clients, never change; what was removed since a seed made it is not made again. The log
 * names all of it. Applying a seed again, or in several processes, has no further effect.
 * @param seed as in the configuration file; `undefined` does nothing.
 * @throws ConfigurationError with every problem as `config.seed.PATH: PROBLEM`.
 * @throws StorageUnavailable when the storage fails; the seed can be applied again.
 */
export async function applySeed(
  service: Pick<SignInService, "applySeed">,
  seed: Seed | undefined,
): Promise<void> {
  await service.applySeed(seed);
}
