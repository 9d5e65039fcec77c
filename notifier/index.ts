/** Sending and receiving notifications: the worker, and the kit for receivers. */
export { createNotificationWorker } from "./start-worker.ts";
export type { NotificationWorker } from "./worker.ts";
export type { ShownDelivery } from "./operations.ts";
export {
  InvalidNotification,
  NOTIFICATION_TYPES,
  type NotificationBody,
  notificationReceiver,
  type NotificationReceiverOptions,
  type NotificationType,
  type ReceivedNotification,
  rememberInMemory,
  type SeenNotifications,
  verifyNotification,
  type VerifyOptions,
} from "../receiver/index.ts";
