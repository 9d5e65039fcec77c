/** The public interface of sign-in-service. */
export { applySeed, createSignInService, createSignInServiceOver } from "./start-service.ts";
export type { SignInService } from "./service.ts";
export * from "./errors.ts";
export type { SignInServiceConfig } from "../config/input.ts";
export type { Seed, SeedClient } from "./seed.ts";
export type { Account, AccountChanges, ImportedAccount, NewAccount } from "./domain/account.ts";
export type { AuditLog, AuditPage } from "./domain/audit-log.ts";
export type { Accounts } from "./domain/accounts.ts";
export type { Client, ClientChanges, ClientCredentials, NewClient } from "./domain/client.ts";
export type { Clients } from "./domain/clients.ts";
export type { Directory } from "./domain/directory.ts";
export type { Keys, SigningKey } from "./domain/signing-keys.ts";
export { createNotificationWorker } from "../notifier/start-worker.ts";
export type { NotificationWorker } from "../notifier/main.ts";
export type { Notifications } from "../notifier/notifications.ts";
export type { Health } from "./health.ts";
export type { ServiceEmitter, ServiceEvent, ServiceEvents } from "./events.ts";
