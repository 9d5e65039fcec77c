/** Starts a worker. Its code is loaded on the first call: a program that only receives notifications never needs it. */
import type { SignInServiceConfig } from "../config/input.ts";
import { ConfigurationError } from "../core/errors.ts";
import { olderNodeProblem } from "../core/node-version.ts";
import type { NotificationWorker } from "./worker.ts";

/**
 * Starts to deliver, whatever `notifications.worker` says. Takes the configuration of the app: the same storage and keys.
 * @throws ConfigurationError with all problems together; also for a storage in memory, which other processes can't see.
 * @throws SignInError `unusable_secrets` when the keys don't belong to the storage.
 * @throws StorageUnavailable when the storage can't be opened, or the Redis of `config.queue` can't be used.
 */
export async function createNotificationWorker(config: SignInServiceConfig): Promise<NotificationWorker> {
  const problem = olderNodeProblem();
  if (problem !== undefined) throw new ConfigurationError([problem]);
  const worker = await import("./worker.ts");
  return worker.createNotificationWorker(config);
}
