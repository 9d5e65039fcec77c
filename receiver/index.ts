/**
 * The kit for receivers of notifications: `sign-in-service-receiver`, a package without dependencies. `sign-in-service/notifier`
 * has the same names.
 */
export { NOTIFICATION_TYPES, type NotificationBody, type NotificationType } from "./notification.ts";
export {
  type NotificationReceiverOptions,
  type ReceiverCredentials,
  rememberInMemory,
  type SeenNotifications,
} from "./receive.ts";
export { notificationHandler, notificationListener, notificationReceiver } from "./receiver.ts";
export {
  InvalidNotification,
  type ReceivedNotification,
  verifyNotification,
  type VerifyOptions,
} from "./verify.ts";
