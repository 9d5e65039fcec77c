/**
 * What a request without valid credentials can store, and the limit in front of it (decisions.md, What a stranger can cause).
 * Every kind of record and every action of the audit has a row, and tests send the requests. `docs/reference/limits.md` prints those
 * that a stranger can cause.
 */
import type { AuditAction } from "../../records/audit/actions.ts";
import type { LimitName } from "./limit-table.ts";

/** A stranger can cause it. */
interface Caused {
  /** The request, as the subject of "causes it". */
  readonly by: string;
  /** The limits whose points it takes. */
  readonly limits: readonly LimitName[];
  /** What bounds it besides, or instead. */
  readonly bound?: string;
}

/** A stranger can't cause it. */
interface Guarded {
  /** What it takes. */
  readonly needs: string;
}

export type StrangerFact = Caused | Guarded;

export const isCaused = (fact: StrangerFact): fact is Caused => "by" in fact;

const OPERATOR: Guarded = { needs: "an operator, a program or the command line" };
const SERVICE: Guarded = { needs: "the service itself, at its start or on its schedule" };
const PERSON: Guarded = { needs: "a sign-in" };
const PASSWORD: Guarded = { needs: "the right password of an account" };
const CLIENT: Guarded = { needs: "the credentials of a client" };
const CODE: Guarded = { needs: "an authorization code, a device code or the credentials of a client" };
const TOKEN: Guarded = { needs: "a refresh token" };
const PROVIDER: Guarded = { needs: "a sign-in at a provider of the configuration" };
const MAIL_CODE: Guarded = { needs: "a code or a link that was mailed" };

const WRONG_PASSWORD = ["signIn.accountAndAddress", "signIn.account", "signIn.address"] as const;
const MAILS = [
  "mail.recipientAndCaller",
  "mail.recipientAndCallerDaily",
  "mail.recipient",
  "mail.recipientDaily",
  "mail.caller",
] as const;
const REGISTRATION: Caused = {
  by: "a registration, confirmed with the code or the link that was mailed to a mailbox of one's own",
  limits: ["registrations", ...MAILS],
};
const COUNTED = "the first ten failures of a bucket in a window; the rest is one record with a count";

/** By the name of the kind. */
export const RECORDS_OF_STRANGERS: Readonly<Record<string, StrangerFact>> = {
  group: OPERATOR,
  service: OPERATOR,
  portal: OPERATOR,
  client: OPERATOR,
  api: OPERATOR,
  "client-logo": OPERATOR,
  idempotency: OPERATOR,
  account: REGISTRATION,
  "sign-in-name": REGISTRATION,
  identifier: REGISTRATION,
  "user-id": REGISTRATION,
  "search-words": REGISTRATION,
  "search-index": SERVICE,
  "removed-client": OPERATOR,
  seeded: SERVICE,
  removal: PERSON,
  "document-block": OPERATOR,
  document: {
    by: "a request of a client that nobody registered, and that was never looked at before",
    limits: ["documents.caller", "documents.origin", "documents.strangers"],
    bound:
      "addresses that `clients.metadataDocuments` allows, where there is a document; 10,000 copies without a grant, for a day",
  },
  "administration-token": OPERATOR,
  "operator-confirmation": OPERATOR,
  "service-key": SERVICE,
  "signing-key": SERVICE,
  "signing-key-set": SERVICE,
  audit: { by: "an action of the next table", limits: [], bound: "the limits of that action" },
  "account-events": {
    by: "an action of the next table that is about an account",
    limits: [],
    bound: "one record for each account; an hour",
  },
  delivery: PERSON,
  payload: PERSON,
  lane: PERSON,
  receiver: SERVICE,
  mail: {
    by: "a registration, a password reset, or a request for a code; and the hundredth wrong password of an account in a row",
    limits: ["registrations", ...MAILS, ...WRONG_PASSWORD],
  },
  "refused-mail": {
    by: "mail to an address whose server refuses it",
    limits: ["registrations", ...MAILS],
    bound: "one record for each address; it ends 30 days after the last refusal",
  },
  "notice-count": {
    by: "the hundredth wrong password of an account in a row",
    limits: WRONG_PASSWORD,
    bound: "one record for each account and kind of notice; an hour",
  },
  "failed-sign-ins": {
    by: "a wrong password",
    limits: [...WRONG_PASSWORD, "signIn.guessed"],
    bound: "one record for each name; it ends 30 days after the last failure",
  },
  "signed-in-before": PASSWORD,
  trip: {
    by: "somebody who leaves for a provider",
    limits: ["trips.owner", "trips.address"],
    bound: "ten minutes",
  },
  confirmation: {
    by: "a registration, a password reset, or a request for a code",
    limits: ["registrations", ...MAILS],
  },
  invitation: OPERATOR,
  "authenticator-app": MAIL_CODE,
  passkey: { by: `${REGISTRATION.by}, where accounts need no password`, limits: REGISTRATION.limits },
  "recovery-codes": MAIL_CODE,
  identity: PROVIDER,
  "remembered-browser": PERSON,
  "used-challenge": { needs: "a passkey of an account" },
  "passkey-domain": { needs: "a passkey, made for a domain for the first time" },
  grant: PERSON,
  session: PERSON,
  interaction: { by: "a sign-in that is started", limits: ["interactions"] },
  "authorization-code": PERSON,
  "device-code": { by: "a device that asks for a code", limits: ["deviceRequests"] },
  "access-token": CODE,
  "refresh-token": CODE,
  "client-credentials": CLIENT,
  "pushed-authorization-request": {
    by: "a request that is pushed in the name of a client without credentials",
    limits: ["interactions"],
    bound: "32 KiB of parameters; a minute",
  },
  "replay-detection": {
    by: "a proof beside a request that is pushed in the name of a client without credentials",
    limits: ["interactions"],
    bound: "five minutes",
  },
  "rate-limit": {
    by: "whatever consumes a point",
    limits: [],
    bound: "one record for each bucket and window; what one limit refuses consumes no point anywhere",
  },
  "sealing-secrets": SERVICE,
  "storage-format": SERVICE,
  "storage-identity": SERVICE,
  process: SERVICE,
  "write-probe": {
    by: "a request for `/health`",
    limits: [],
    bound: "one record, written at most once a second",
  },
  "unfinished-copy": OPERATOR,
};

/** By the action. */
export const ACTIONS_OF_STRANGERS: Readonly<Record<AuditAction, StrangerFact>> = {
  sign_in: {
    by: "a wrong password, a wrong passkey, a wrong code by mail, or somebody who comes back from a provider and has no account",
    limits: [...WRONG_PASSWORD, "signIn.guessed", "signIn.passkeys", "trips.owner", "trips.address"],
    bound: `passkeys: ${COUNTED}`,
  },
  password_grant: CLIENT,
  interaction: {
    by: "a sign-in or a pushed request without a point",
    limits: [],
    bound: "one record for each network and window, with a count",
  },
  "mail.requested": {
    by: "a registration, a password reset or a request for a code without a point",
    limits: [],
    bound: "one record for each bucket and window, with a count",
  },
  "sign_in.code_requested": { by: "a request for a code by mail", limits: MAILS },
  "password_reset.requested": { by: "a password reset", limits: MAILS },
  "device.requested": {
    by: "a device that asks for a code without a point",
    limits: [],
    bound: "one record for each client, network and window, with a count",
  },
  "device.code_entered": PERSON,
  "device.refused": PERSON,
  "device.ended": PERSON,
  second_factor: PASSWORD,
  "session.ended": PERSON,
  "grant.created": PERSON,
  "code.replayed": { needs: "a used authorization code, with its verifier or the credentials of its client" },
  "refresh_token.reused": TOKEN,
  "family.revoked": TOKEN,
  "account.viewed": OPERATOR,
  "invitation.sent": OPERATOR,
  "invitation.withdrawn": OPERATOR,
  "account.created": OPERATOR,
  "account.registered": REGISTRATION,
  "account.imported": OPERATOR,
  "account.updated": PERSON,
  "account.attributes_pruned": OPERATOR,
  "account.password_changed": PERSON,
  "account.password_reset": MAIL_CODE,
  "account.reset_sent": OPERATOR,
  "account.address_restored": MAIL_CODE,
  "account.terms_accepted": PASSWORD,
  "account.rehashed": PASSWORD,
  "account.app_added": MAIL_CODE,
  "account.passkey_added": MAIL_CODE,
  "account.passkey_renamed": PERSON,
  "account.passkey_offered": PASSWORD,
  "account.passkey_offer_declined": PASSWORD,
  "account.browser_remembered": PASSWORD,
  "account.browser_forgotten": PERSON,
  "account.factor_removed": PERSON,
  "account.factors_removed": OPERATOR,
  "account.factors_undone": MAIL_CODE,
  "account.identity_linked": PERSON,
  "account.identity_unlinked": PERSON,
  "account.identity_undone": PERSON,
  "account.recovery_codes_replaced": PERSON,
  "account.factors_reviewed": PASSWORD,
  "account.recovery_code_used": PASSWORD,
  "account.disabled": OPERATOR,
  "account.enabled": OPERATOR,
  "account.deleted": PERSON,
  "account.assigned": PERSON,
  "account.unassigned": PERSON,
  "account.roles_set": OPERATOR,
  "account.sessions_ended": PERSON,
  "account.tokens_revoked": PERSON,
  "account.device_connected": PERSON,
  "account.consented": PERSON,
  "account.consent_forgotten": PERSON,
  "client.registered": OPERATOR,
  "client.updated": OPERATOR,
  "client.secret_rotated": OPERATOR,
  "client.tokens_revoked": OPERATOR,
  "client.disabled": OPERATOR,
  "client.enabled": OPERATOR,
  "client.removed": OPERATOR,
  "client.authentication": {
    by: "a wrong client secret, assertion or DPoP proof",
    limits: ["clientSecret", "dpopProof"],
    bound: COUNTED,
  },
  "client.redirect_refused": {
    by: "a sign-in or a pushed request with a redirect address that is not registered",
    limits: [],
    bound: "one record an hour for each client, with a count",
  },
  "service.created": OPERATOR,
  "service.updated": OPERATOR,
  "service.removed": OPERATOR,
  "group.created": OPERATOR,
  "group.updated": OPERATOR,
  "group.removed": OPERATOR,
  "portal.created": OPERATOR,
  "portal.updated": OPERATOR,
  "portal.removed": OPERATOR,
  "api.created": OPERATOR,
  "api.updated": OPERATOR,
  "api.removed": OPERATOR,
  "operator.confirmed": OPERATOR,
  "administration.refused": {
    by: "a request to the administration without a valid token",
    limits: [],
    bound: "one record an hour for all of them, with a count",
  },
  "token.created": OPERATOR,
  "token.ended": OPERATOR,
  "document.blocked": OPERATOR,
  "document.unblocked": OPERATOR,
  "signing_key.rotated": OPERATOR,
  "signing_key.retired": OPERATOR,
  "signing_key.removed": SERVICE,
  "delivery.redrive_requested": OPERATOR,
  "delivery.redrive_all_requested": OPERATOR,
  "delivery.send_now_requested": OPERATOR,
  "delivery.discard_requested": OPERATOR,
  "receiver.pause_requested": OPERATOR,
  "receiver.resume_requested": OPERATOR,
  "receiver.test_requested": OPERATOR,
  "mail.resume_requested": OPERATOR,
  "secrets.reseal": OPERATOR,
  "secrets.reset": OPERATOR,
  "storage.backed_up": OPERATOR,
  "storage.restored": OPERATOR,
  "storage.reindexed": OPERATOR,
  "audit.exported": OPERATOR,
  "account.data_exported": OPERATOR,
  "storage.promoted": OPERATOR,
  "storage.migrated": OPERATOR,
};
