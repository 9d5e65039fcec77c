/** Sending and receiving notifications: the worker, and the kit for receivers. */
export type { SignInServiceConfig } from "../config/input.ts";
export * from "../lib/errors.ts";
export { createNotificationWorker } from "./start-worker.ts";
export type { NotificationWorker } from "./main.ts";
export { createDeliverer, type Deliverer, type DelivererOptions } from "./deliver.ts";
export type { ExplainedAction, Explanation } from "./explain.ts";
export type { DeliveryPageInput } from "./notifications-schema.ts";
export type { Acknowledgement, ShownDeliveryPage, Notifications } from "./notifications.ts";
export type { ReceiverReport } from "./receiver-reports.ts";
export type { ShownAttempt, ShownDelivery } from "./shown-delivery.ts";
export type { TestResult } from "./test-notification.ts";
export {
  causedBy,
  explainDeliveries,
  NOTIFICATION_TYPES,
  type NotificationBody,
  type NotificationType,
  planDeliveries,
  type PlanDecision,
  type PlannedAccount,
  type PlannedAction,
  type PlannedDelivery,
  type PlannedDirectory,
  type PlannedEntry,
  type PlanReason,
  PROFILE_FIELDS,
} from "./plan.ts";
export {
  notificationReceiver,
  type NotificationReceiverOptions,
  type ReceiverCredentials,
  rememberInMemory,
  type SeenNotifications,
} from "./receiving/notification-receiver.ts";
export {
  InvalidNotification,
  type ReceivedNotification,
  type RequestHeaders,
  verifyNotification,
  type VerifyOptions,
} from "./receiving/verify-notification.ts";
