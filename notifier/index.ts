/** Sending and receiving notifications: the worker, and the kit for receivers. */
export { createNotificationWorker } from "./start-worker.ts";
export type { NotificationWorker } from "./worker.ts";
export { NOTIFICATION_TYPES, type NotificationBody, type NotificationType } from "../accounts/plan.ts";
export type { ShownDelivery } from "./operations.ts";
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
