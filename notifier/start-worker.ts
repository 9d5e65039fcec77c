/** Starting the worker. Its code is loaded when it is started: who only receives notifications has no use for it. */
import type { SignInServiceConfig } from "../config/input.ts";
import type { NotificationWorker } from "./main.ts";

/**
 * Starts to deliver, whatever `notifications.worker` says. The configuration is the app's: the same storage and keys.
 * @throws ConfigurationError with all problems at once; for a storage in memory, which no other process sees.
 * @throws SignInError `keys` when the keys don't belong to the storage.
 * @throws StorageUnavailable when the storage can't be opened, or the Redis of `config.queue` can't be used.
 */
export async function createNotificationWorker(config: SignInServiceConfig): Promise<NotificationWorker> {
  const worker = await import("./main.ts");
  return worker.createNotificationWorker(config);
}
