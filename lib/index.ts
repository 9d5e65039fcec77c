/** The service, its calls and its errors. `test/architecture/public-names.ts` says why each name is public. */
export { applySeed, createSignInService } from "./start-service.ts";
export type { SignInService } from "./service.ts";
export type { SignInServiceConfig } from "../config/input.ts";
export type { Seed } from "./seed.ts";
export type { Account, Accounts } from "../accounts/operations/accounts.ts";
export type { Invitation, Invitations } from "../accounts/operations/invitations.ts";
export type {
  AccountChanges,
  ImportedAccount,
  NewAccount,
  NewInvitation,
} from "../accounts/account-schema.ts";
export type { Client, ClientCredentials, Clients } from "../accounts/operations/clients.ts";
export type { ClientChanges, NewClient } from "../accounts/clients/client-schema.ts";
export type { Directory } from "../accounts/directory.ts";
export type { SigningKey } from "../accounts/operations/keys.ts";
export type { Actor, AuditRecord } from "../records/audit/audit-event.ts";
export type { AuditQuery } from "../accounts/operations/audit.ts";
export { createNotificationWorker } from "../notifier/start-worker.ts";
export type { NotificationWorker } from "../notifier/worker.ts";
export type { Notifications } from "../notifier/operations.ts";
export type { Health } from "../records/health.ts";
export type { ServiceEvents } from "../core/events.ts";
export {
  AlreadyExists,
  ConditionFailed,
  ConfigurationError,
  InvalidArgument,
  InvalidPassword,
  NameTaken,
  NotFound,
  SignInError,
  type SignInErrorCode,
  StillReferenced,
  StorageUnavailable,
  UnknownReference,
} from "../core/errors.ts";
