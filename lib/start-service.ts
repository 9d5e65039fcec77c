/**
 * Starts the service and applies a seed. The code is loaded by the first call, because a process that only delivers
 * notifications does not need the protocol core, the pages and password hashing.
 */
import type { SignInServiceConfig } from "../config/input.ts";
import { ConfigurationError } from "../core/errors.ts";
import { olderNodeProblem } from "../core/node-version.ts";
import type { Seed, SeededService } from "./seed.ts";
import type { SignInService } from "./service.ts";

/**
 * Starts the service: opens its storage, reads or makes its keys, and builds both deployments.
 * @throws ConfigurationError with all problems together, or on a Node.js that is too old.
 * @throws SignInError `keys` when the keys don't belong to the storage.
 * @throws StorageUnavailable when the storage can't be opened, or the Redis of `config.queue` can't be used.
 */
export async function createSignInService(config: SignInServiceConfig): Promise<SignInService> {
  const problem = olderNodeProblem();
  if (problem !== undefined) throw new ConfigurationError([problem]);
  const service = await import("./service.ts");
  return service.createSignInService(config);
}

/**
 * Creates or updates what the seed describes. Applying it again, or in several processes, has no further effect. What
 * the seed does not name stays unchanged. The log names registered clients that are missing in a seed with clients.
 * @param seed as in the configuration file; `undefined` does nothing.
 * @throws ConfigurationError with every problem as `config.seed.PATH: PROBLEM`.
 * @throws StorageUnavailable when the storage fails; the seed can be applied again.
 */
export async function applySeed(service: SeededService, seed: Seed | undefined): Promise<void> {
  if (seed === undefined) return;
  const seeding = await import("./seed.ts");
  await seeding.applySeed(service, seed);
}
