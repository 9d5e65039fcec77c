/** The service, its calls and its errors. `test/architecture/public-names.ts` says why each name is public. */
export { applySeed, createSignInService } from "./start-service.ts";
export type { SignInService } from "./service.ts";
export type { SignInServiceConfig } from "../config/input.ts";
export type { Seed } from "./seed.ts";
export type { Account, AccountChanges, Accounts, ImportedAccount, NewAccount } from "./domain/account.ts";
export type { Client, ClientChanges, ClientCredentials, Clients, NewClient } from "./domain/client.ts";
export type { Directory } from "./domain/directory.ts";
export type { SigningKey } from "./keys/signing-keys.ts";
export type { Actor, AuditRecord } from "./audit/audit-event.ts";
export type { AuditQuery } from "./domain/audit-log.ts";
export { createNotificationWorker } from "../notifier/start-worker.ts";
export type { NotificationWorker } from "../notifier/main.ts";
export type { Notifications } from "../notifier/notifications.ts";
export type { Health } from "./health.ts";
export type { ServiceEvents } from "./events.ts";
export {
  AlreadyExists,
  ConditionFailed,
  ConfigurationError,
  IdentifierTaken,
  InvalidPassword,
  NameTaken,
  NotFound,
  SignInError,
  type SignInErrorCode,
  StillReferenced,
  StorageUnavailable,
  UnknownReference,
  VersionConflict,
} from "./errors.ts";
