/** Every action that the audit records: what its subject is, and what it means. The documentation prints this table. */

/** What the subject of a record is. */
export type AuditSubject =
  | "account"
  | "client"
  | "service"
  | "group"
  | "portal"
  | "delivery"
  | "receiver"
  | "signing key";

interface AuditedAction {
  /**
   * The subject is its identifier: a `sub`, a `client_id`, a key of the directory, a `webhook-id`, the name of a receiver.
   * `null`: a record of this action has no subject.
   */
  readonly about: AuditSubject | null;
  readonly means: string;
}

const ACTIONS = {
  sign_in: { about: "account", means: "Somebody submitted the sign-in form" },
  password_grant: { about: "account", means: "A client asked for tokens with a name and a password" },
  interaction: { about: null, means: "Sign-ins were begun; only those that a limit refused are recorded" },
  "session.ended": { about: "account", means: "A person signed out" },
  "grant.created": { about: "account", means: "A client got an authorization code for an account" },
  "code.replayed": {
    about: "account",
    means: "An authorization code was used again; everything that descends from it ended",
  },
  "refresh_token.reused": {
    about: "account",
    means: "A rotated refresh token was used again after its window; its family ended",
  },
  "family.revoked": { about: "account", means: "A client revoked a refresh token and with it its family" },
  "account.created": { about: "account", means: "An account was created" },
  "account.imported": { about: "account", means: "An account was imported" },
  "account.updated": { about: "account", means: "Fields of an account were changed; `fields` names them" },
  "account.password_changed": { about: "account", means: "A new password was set" },
  "account.rehashed": { about: "account", means: "A password was hashed anew under stronger rules" },
  "account.disabled": { about: "account", means: "An account was disabled" },
  "account.enabled": { about: "account", means: "A disabled account was enabled" },
  "account.deleted": { about: "account", means: "An account was deleted" },
  "account.assigned": { about: "account", means: "An account was assigned to a service" },
  "account.unassigned": { about: "account", means: "An account was taken away from services" },
  "account.sessions_ended": { about: "account", means: "All sign-in sessions of an account were ended" },
  "account.tokens_revoked": {
    about: "account",
    means: "Codes and tokens of an account were ended, at one client or everywhere",
  },
  "account.consented": { about: "account", means: "A person allowed a third-party client something" },
  "account.consent_forgotten": {
    about: "account",
    means: "What a person had allowed a client was forgotten",
  },
  "client.registered": { about: "client", means: "A client was registered" },
  "client.updated": { about: "client", means: "Settings of a client were changed" },
  "client.secret_rotated": { about: "client", means: "A client got a new secret" },
  "client.disabled": { about: "client", means: "A client was disabled" },
  "client.enabled": { about: "client", means: "A disabled client was enabled" },
  "client.removed": { about: "client", means: "A client was removed" },
  "client.authentication": { about: "client", means: "Somebody presented a wrong secret of a client" },
  "service.created": { about: "service", means: "A service was put into the directory" },
  "service.updated": { about: "service", means: "A service of the directory was changed" },
  "service.removed": { about: "service", means: "A service was taken out of the directory" },
  "group.created": { about: "group", means: "A group was put into the directory" },
  "group.updated": { about: "group", means: "A group of the directory was changed" },
  "group.removed": { about: "group", means: "A group was taken out of the directory" },
  "portal.created": { about: "portal", means: "A portal was put into the directory" },
  "portal.updated": { about: "portal", means: "A portal of the directory was changed" },
  "portal.removed": { about: "portal", means: "A portal was taken out of the directory" },
  "signing_key.rotated": { about: "signing key", means: "Another signing key was made" },
  "signing_key.retired": { about: "signing key", means: "A signing key was taken away at once" },
  "signing_key.removed": {
    about: "signing key",
    means: "A retired key left the JWKS: nothing that it signed counts any more",
  },
  "delivery.redrive": { about: "delivery", means: "A delivery was to be sent again" },
  "delivery.redrive_all": {
    about: "receiver",
    means: "All parked deliveries that fit were to be sent again",
  },
  "delivery.discard": { about: "delivery", means: "A delivery was to be given up" },
  "receiver.pause": { about: "receiver", means: "A receiver was to be paused" },
  "receiver.resume": { about: "receiver", means: "A receiver was to be resumed" },
  "receiver.test": { about: "receiver", means: "A receiver was to be sent a test" },
} as const;

/** The name of an action. */
export type AuditAction = keyof typeof ACTIONS;

/** The actions. A record that a later version wrote may have another one. */
export const AUDIT_ACTIONS: Readonly<Record<AuditAction, AuditedAction>> = ACTIONS;

/** What the subject of an action is; `null` also for an action that this version does not know. */
export function subjectOf(action: string): AuditSubject | null {
  return Object.hasOwn(AUDIT_ACTIONS, action) ? AUDIT_ACTIONS[action as AuditAction].about : null;
}
