/** Every action that the audit records, with its subject and meaning. `docs/reference/audit.md` prints this table. */

/** What the subject of a record is. */
type AuditSubject =
  | "account"
  | "client"
  | "service"
  | "group"
  | "portal"
  | "API"
  | "delivery"
  | "receiver"
  | "invitation"
  | "signing key"
  | "token"
  | "document";

interface AuditedAction {
  /**
   * The kind of object that the record's subject identifies: a `sub`, a `client_id`, a key of the directory, a
   * `webhook-id` or the name of a receiver. `null`: records of this action have no subject.
   */
  readonly about: AuditSubject | null;
  readonly means: string;
  /** Whether it happens with each sign-in: its records are kept for `audit.signIns`, as failures are. Default: `false`. */
  readonly isRoutine?: true;
}

const ACTIONS = {
  sign_in: {
    about: "account",
    means:
      "The sign-in form was submitted, a passkey was used, a code from a mail was entered, or a person came back from a provider; `provider` says which, and `amr` what was shown",
    isRoutine: true,
  },
  password_grant: {
    about: "account",
    means: "A client requested tokens with a username and a password",
    isRoutine: true,
  },
  interaction: {
    about: null,
    means: "A sign-in was started; recorded only if a rate limit refused it",
  },
  "mail.requested": {
    about: null,
    means:
      "A code to sign in, a registration, a password reset or a change of address was requested; recorded only if a rate limit refused it",
  },
  "sign_in.code_requested": {
    about: "account",
    means:
      "A code to sign in was requested by mail; without a subject if no account has the name that was entered",
    isRoutine: true,
  },
  "password_reset.requested": {
    about: "account",
    means:
      "A password reset was requested by mail; without a subject if no account has the name that was entered",
  },
  "device.requested": {
    about: "client",
    means: "A device requested a code; recorded only if a rate limit refused it",
  },
  "device.code_entered": {
    about: "account",
    means: "A person entered a wrong device code, or a rate limit refused the attempt",
  },
  "device.refused": {
    about: "account",
    means: "A person refused to connect a device, or may not use the APIs that it requested",
  },
  "device.ended": {
    about: "account",
    means: "A person ended a device's access on the page of connected services",
  },
  second_factor: {
    about: "account",
    means:
      "An authenticator app's code, a recovery code or a passkey was refused; `factor` says which. `stopped` means that the app accepts no more codes after too many wrong ones",
  },
  "session.ended": {
    about: "account",
    means:
      "A sign-in session ended: the person signed out, ended it on the page of their sessions, or (`limit`) had too many of them",
    isRoutine: true,
  },
  "grant.created": {
    about: "account",
    means:
      "A client received an authorization code for an account; as a failure: a rate limit refused a code without a page",
    isRoutine: true,
  },
  "code.replayed": {
    about: "account",
    means: "An authorization code was used again; all tokens issued from it were revoked",
  },
  "refresh_token.reused": {
    about: "account",
    means: "A rotated refresh token was used again after its reuse window; its token family was revoked",
  },
  "family.revoked": {
    about: "account",
    means:
      "A client revoked a refresh token and its token family, or (`limit`) held too many for the account",
  },
  "invitation.sent": {
    about: "invitation",
    means: "Somebody was invited to make an account, or an invitation was sent again; `again` says so",
  },
  "invitation.withdrawn": { about: "invitation", means: "An invitation was withdrawn" },
  "account.viewed": { about: "account", means: "An operator opened the page of an account in the console" },
  "account.data_exported": {
    about: "account",
    means: "Everything about a person was exported, for a request of that person",
  },
  "account.created": { about: "account", means: "An account was created" },
  "account.registered": {
    about: "account",
    means:
      "A person registered and confirmed the address; `factor` is `passkey` if the account has no password, `provider` says with which provider it was registered",
  },
  "account.imported": { about: "account", means: "An account was imported" },
  "account.updated": { about: "account", means: "Fields of an account were changed; `fields` names them" },
  "account.attributes_pruned": {
    about: null,
    means:
      "Removing what nobody reads of an attribute was requested; `attribute` names it, and `accounts` says how many have such a value",
  },
  "account.password_changed": {
    about: "account",
    means:
      "A new password was set; `identities`: how many identities were unlinked because they were linked in the seven days before",
  },
  "account.password_reset": {
    about: "account",
    means:
      "A person who forgot their password set a new one, with a code or link sent by mail; `identities` as above",
  },
  "account.reset_sent": {
    about: "account",
    means: "An operator had a link to choose a new password mailed to the person",
  },
  "account.address_restored": {
    about: "account",
    means:
      "A change of the e-mail address was undone with the link sent by mail: the previous address is back, and the sessions, tokens and password are void; `factors`: how many second factors that were added since the change were removed",
  },
  "account.terms_accepted": { about: "account", means: "A person accepted the terms of use" },
  "account.rehashed": { about: "account", means: "A password was rehashed with stronger parameters" },
  "account.app_added": { about: "account", means: "An authenticator app was added to an account" },
  "account.passkey_added": { about: "account", means: "A passkey was added to an account" },
  "account.passkey_renamed": { about: "account", means: "A person gave a passkey another name" },
  "account.passkey_offered": { about: "account", means: "A person was asked at sign-in to add a passkey" },
  "account.passkey_offer_declined": {
    about: "account",
    means: "A person chose not to be asked again to add a passkey",
  },
  "account.browser_remembered": {
    about: "account",
    means: "A person chose to skip the second factor in this browser from now on",
  },
  "account.browser_forgotten": {
    about: "account",
    means:
      "A person had one remembered browser forgotten. Changes that forget all browsers have their own records",
  },
  "account.factor_removed": {
    about: "account",
    means:
      "An authenticator app or a passkey was removed; `factor` says which, and `verified_by` how an operator checked who was asking",
  },
  "account.factors_removed": {
    about: "account",
    means: "All second factors and recovery codes of an account were removed; `verified_by` as above",
  },
  "account.factors_undone": {
    about: "account",
    means:
      "The addition of an account's first second factor was undone with the link sent by mail: all factors are removed, and the sessions, tokens and password are void",
  },
  "account.identity_linked": {
    about: "account",
    means: "An identity at another provider was linked to an account; `provider` says which",
  },
  "account.identity_unlinked": {
    about: "account",
    means: "An identity at another provider was unlinked from an account; `provider` says which",
  },
  "account.identity_undone": {
    about: "account",
    means:
      "The linking of an identity was undone with the link sent by mail, or with “This wasn’t me”: it is unlinked, and the sessions, tokens and password are void",
  },
  "account.recovery_codes_replaced": {
    about: "account",
    means: "An account received new recovery codes; the old ones no longer work",
  },
  "account.factors_reviewed": {
    about: "account",
    means:
      "A person reviewed the sign-in methods of their account, at a sign-in after the password was reset",
  },
  "account.recovery_code_used": {
    about: "account",
    means: "A recovery code was used in place of a second factor; `left` says how many are left",
  },
  "account.disabled": { about: "account", means: "An account was disabled" },
  "account.enabled": { about: "account", means: "A disabled account was enabled" },
  "account.deleted": { about: "account", means: "An account was deleted" },
  "account.assigned": { about: "account", means: "An account was assigned to a service" },
  "account.unassigned": { about: "account", means: "An account was unassigned from services" },
  "account.roles_set": {
    about: "account",
    means: "The roles of an account in a service were replaced; `roles` names the new ones",
  },
  "account.sessions_ended": {
    about: "account",
    means: "All sign-in sessions of an account were ended, or all but the current one",
  },
  "account.tokens_revoked": {
    about: "account",
    means: "Codes and tokens of an account were revoked, for one client or for all",
  },
  "account.device_connected": {
    about: "account",
    means: "An end user entered the code of a device and agreed that the device may get tokens",
  },
  "account.consented": { about: "account", means: "An end user gave consent to a third-party client" },
  "account.consent_forgotten": {
    about: "account",
    means: "An end user's consent for a client was deleted",
  },
  "client.registered": { about: "client", means: "A client was registered, of the kind in `detail`" },
  "client.updated": { about: "client", means: "Settings of a client were changed; `fields` names them" },
  "client.secret_rotated": { about: "client", means: "A client received a new secret" },
  "client.tokens_revoked": { about: "client", means: "All tokens of a client were revoked" },
  "client.disabled": { about: "client", means: "A client was disabled" },
  "client.enabled": { about: "client", means: "A disabled client was enabled" },
  "client.removed": { about: "client", means: "A client was removed" },
  "client.authentication": {
    about: "client",
    means:
      "A request presented a wrong client secret, assertion or DPoP proof; without a subject if no client has the name that was sent",
  },
  "client.redirect_refused": {
    about: "client",
    means:
      "A sign-in was started with a redirect address that is not registered; one record per hour, with a count",
  },
  "service.created": { about: "service", means: "A service was added to the directory" },
  "service.updated": { about: "service", means: "A service in the directory was changed" },
  "service.removed": { about: "service", means: "A service was removed from the directory" },
  "group.created": { about: "group", means: "A group was added to the directory" },
  "group.updated": { about: "group", means: "A group in the directory was changed" },
  "group.removed": { about: "group", means: "A group was removed from the directory" },
  "portal.created": { about: "portal", means: "A portal was added to the directory" },
  "portal.updated": { about: "portal", means: "A portal in the directory was changed" },
  "portal.removed": { about: "portal", means: "A portal was removed from the directory" },
  "api.created": { about: "API", means: "An API was added to the directory" },
  "api.updated": { about: "API", means: "An API in the directory was changed" },
  "api.removed": { about: "API", means: "An API was removed from the directory; its tokens ended" },
  "operator.confirmed": {
    about: "account",
    means: "The new second factors of an operator were confirmed, so that they open the console",
  },
  "administration.refused": {
    about: null,
    means:
      "Administration over HTTP refused a request: `token` without a valid one, `role` without the right to it, `limit` as one too many; one record per hour for each reason and actor, with a count",
  },
  "token.created": {
    about: "token",
    means: "An administration token was made: its `role`, its `service` and when it runs out",
  },
  "token.ended": { about: "token", means: "An administration token was ended" },
  "document.blocked": {
    about: "document",
    means:
      "A client that nobody has registered was blocked, or all of an origin: its codes, refresh and opaque tokens ended; `address` names it",
  },
  "document.unblocked": {
    about: "document",
    means: "A client that nobody has registered may ask again, or all of an origin; `address` names it",
  },
  "signing_key.rotated": { about: "signing key", means: "A new signing key was created" },
  "signing_key.retired": { about: "signing key", means: "A signing key was retired immediately" },
  "signing_key.removed": {
    about: "signing key",
    means: "A retired key was removed from the JWKS: signatures made with it are no longer valid",
  },
  "delivery.redrive_requested": { about: "delivery", means: "A redrive of a delivery was requested" },
  "delivery.redrive_all_requested": {
    about: "receiver",
    means: "A redrive of all parked deliveries that match a filter was requested",
  },
  "delivery.send_now_requested": {
    about: "delivery",
    means: "Immediate sending of a waiting delivery was requested",
  },
  "delivery.discard_requested": { about: "delivery", means: "Discarding a delivery was requested" },
  "receiver.pause_requested": { about: "receiver", means: "Pausing a receiver was requested" },
  "receiver.resume_requested": { about: "receiver", means: "Resuming a receiver was requested" },
  "receiver.test_requested": { about: "receiver", means: "A test of a receiver was requested" },
  "mail.resume_requested": {
    about: null,
    means: "Sending mail that was held since the storage was restored or promoted was requested",
  },
  "secrets.reseal": {
    about: null,
    means: "Re-encryption of all sealed data with the first of `keys.secrets` was requested",
  },
  "secrets.reset": {
    about: null,
    means:
      "`keys.secrets` were lost: everything that they had sealed is void, and all sessions and tokens ended",
  },
  "audit.exported": {
    about: null,
    means:
      "Records of the audit were exported: `since` and `until`, how many `records`, the `format`, and the filters as `of_account`, `of_client` and `of_action`",
  },
  "storage.reindexed": {
    about: null,
    means: "The index of the search for people was built: `accounts` says for how many",
  },
  "storage.backed_up": { about: null, means: "A backup of the storage was requested" },
  "storage.restored": {
    about: null,
    means:
      "A backup was restored: `created_at` says when it was made, or `since` from when on changes may be missing. All sessions and tokens ended",
  },
  "storage.promoted": {
    about: null,
    means:
      "A standby was promoted: `since` says from when on changes may be missing, and all sessions and tokens ended; or `nothing_lost`, and nothing ended",
  },
  "storage.migrated": {
    about: null,
    means:
      "The storage was changed to the format of this version: `from` and `to`, and how many `records` were rewritten",
  },
} as const;

export type AuditAction = keyof typeof ACTIONS;

/** The table of actions. A record written by a later version may have an action that is not here. */
export const AUDIT_ACTIONS: Readonly<Record<AuditAction, AuditedAction>> = ACTIONS;

/** Whether an action happens with each sign-in; `false` for an unknown one. */
export function isRoutine(action: string): boolean {
  return Object.hasOwn(AUDIT_ACTIONS, action) && AUDIT_ACTIONS[action as AuditAction].isRoutine === true;
}

/** The kind of subject of an action; also `null` for an unknown action. */
export function subjectOf(action: string): AuditSubject | null {
  return Object.hasOwn(AUDIT_ACTIONS, action) ? AUDIT_ACTIONS[action as AuditAction].about : null;
}
