/** Sending and receiving notifications: the worker, and the kit for receivers. */
import type { SignInServiceConfig } from "../config/input.ts";
import { ConfigurationError } from "../core/errors.ts";
import { olderNodeProblem } from "../core/node-version.ts";
import type { NotificationWorker } from "./worker.ts";

export type { NotificationWorker } from "./worker.ts";
export { NOTIFICATION_TYPES, type NotificationBody, type NotificationType } from "../accounts/plan.ts";
export type { ShownDelivery } from "./notifications.ts";
export {
  notificationReceiver,
  type NotificationReceiverOptions,
  rememberInMemory,
  type SeenNotifications,
} from "./receiving/notification-receiver.ts";
export {
  InvalidNotification,
  type ReceivedNotification,
  verifyNotification,
  type VerifyOptions,
} from "./receiving/verify-notification.ts";

/**
 * Starts a worker, whatever `notifications.worker` says. Takes the configuration of the app: the same storage and keys.
 * @throws ConfigurationError with all problems together; also for a storage in memory, which other processes can't see.
 * @throws SignInError `keys` when the keys don't belong to the storage.
 * @throws StorageUnavailable when the storage can't be opened, or the Redis of `config.queue` can't be used.
 */
export async function createNotificationWorker(config: SignInServiceConfig): Promise<NotificationWorker> {
  const problem = olderNodeProblem();
  if (problem !== undefined) throw new ConfigurationError([problem]);
  // Loaded on the first call: a program that only receives notifications never needs it.
  const worker = await import("./worker.ts");
  return worker.createNotificationWorker(config);
}
