/**
 * The events that the service emits, for logs, audit and metrics. They contain no secrets, and no personal data
 * except identifiers.
 */
import { EventEmitter } from "node:events";
import { SignInError } from "./errors.ts";

/** Members of every event about a delivery. */
interface DeliveryEvent {
  /** Its `webhook-id`. */
  readonly id: string;
  readonly receiver: string;
  readonly sub: string;
  readonly type: string;
  /** How many attempts were made. */
  readonly attempts: number;
}

/** The kinds of clients. `client-kinds.ts` says what each is. */
export const CLIENT_KINDS = ["web", "public", "machine", "device"] as const;

/**
 * Why a logout token did not reach its client. `refused_address`: the address rules forbid it; `status`: the response
 * was not 200 or 204; `timeout`: no response in time; `connection`: could not be opened, or broke; `too_many`: 10,000
 * others were waiting for the client; `closed`: the service closed before the first attempt; `internal`: a fault of the
 * service.
 */
export const BACKCHANNEL_FAILURES = [
  "refused_address",
  "status",
  "timeout",
  "connection",
  "too_many",
  "closed",
  "internal",
] as const;

export type BackchannelFailure = (typeof BACKCHANNEL_FAILURES)[number];

/**
 * Why a mail was not accepted. `refused`: the mail server refuses the recipient or the message for good; `address`: the
 * recipient is not a plain e-mail address. For all other reasons, the mail is retried: `delayed`: the mail server said
 * "later"; `connection`, `timeout`, `authentication`: it can't be reached, does not answer, or does not accept the
 * credentials; `server`: it refuses the sender or the session; `unexpected`: any other fault, also of your `send`.
 */
const MAIL_FAILURES = [
  "refused",
  "address",
  "delayed",
  "connection",
  "timeout",
  "authentication",
  "server",
  "unexpected",
] as const;

export type MailFailure = (typeof MAIL_FAILURES)[number];

/**
 * Why a sign-in with another provider failed. `cancelled`: the person went back, which is no fault; `slow`: the provider can't be
 * reached, or does not answer in time; `refused`: it answers with an error; `lied`: its answer does not hold, such as an ID token
 * with a wrong signature; `stranger`: the person belongs to an organization or a tenant that may not sign in.
 */
export const PROVIDER_FAULTS = ["cancelled", "slow", "refused", "lied", "stranger"] as const;

export type ProviderFault = (typeof PROVIDER_FAULTS)[number];

/**
 * Why sessions ended. `signed_out`: the end user signed out; `password`, `disabled`, `deleted`: with that change of
 * the account; `ended`: by `accounts.endSessions`, or by their owner on the page of the sessions; `limit`: the account had
 * more than `limits.sessions`, and this one was the least recently used.
 */
export type SessionEnd = "signed_out" | "ended" | "password" | "disabled" | "deleted" | "limit";

/**
 * Why a token family ended. `code_replayed`, `refresh_token_reused`: a code or refresh token was used again;
 * `revoked`: by its client; `signed_out`: with the session; `password`, `disabled`, `deleted`, `unassigned`: with
 * that change of the account; `ended`: by `accounts.revokeTokens`; `limit`: the client had more than `limits.grants` for the
 * account, and this one was the least recently used.
 */
export type FamilyEnd = SessionEnd | "unassigned" | "code_replayed" | "refresh_token_reused" | "revoked";

/** Every event and its argument. */
export interface ServiceEvents {
  "sign_in.success": { readonly sub: string; readonly client_id: string; readonly deployment: string };
  /** `disabled`: the password was right, but the account is disabled. */
  "sign_in.failure": { readonly reason: "credentials" | "disabled" | "limited"; readonly client_id: string };
  "code.issued": { readonly sub: string; readonly client_id: string };
  /** `kind` of the client: `web`, `public`, `machine` or `device`. */
  "tokens.issued": {
    readonly client_id: string;
    readonly kind: string;
    readonly grant_type: string;
    readonly sub?: string;
  };
  /** `grant_type` only if it is one that the service knows. */
  "tokens.refused": { readonly error: string; readonly grant_type?: string; readonly client_id?: string };
  "authorization.refused": { readonly error: string };
  "token.revoked": { readonly sub: string; readonly client_id: string };
  /** All codes and tokens of one grant ended. Without `client_id`, those of several clients or of all. */
  "family.revoked": { readonly sub?: string; readonly client_id?: string; readonly reason: FamilyEnd };
  /** One sign-in session of an account ended, or all of them, except one at most. */
  "session.ended": { readonly sub: string; readonly reason: SessionEnd };
  /** A client received a logout token. */
  "backchannel.delivered": { readonly client_id: string; readonly attempts: number };
  /** A client did not receive a logout token, and there are no more attempts. */
  "backchannel.failed": {
    readonly client_id: string;
    /** Why the last attempt failed. */
    readonly reason: BackchannelFailure;
    readonly attempts: number;
  };
  "account.changed": { readonly sub: string; readonly action: string; readonly deliveries: number };
  "client.changed": { readonly client_id: string; readonly action: string };
  "delivery.succeeded": DeliveryEvent & { readonly status: number };
  /**
   * An attempt failed. `retry_at`: seconds since the epoch; `null` if there is no further attempt, or the
   * receiver is paused and the delivery waits until it is resumed.
   */
  "delivery.failed": DeliveryEvent & {
    readonly status: number | null;
    readonly error: string | null;
    readonly retry_at: number | null;
  };
  /** There are no more attempts until an operator redrives it. */
  "delivery.parked": DeliveryEvent & { readonly reason: string };
  "delivery.redriven": { readonly id: string };
  "delivery.discarded": { readonly id: string };
  /**
   * Events that are only worth sending for a while, such as sign-ins, were not stored (`too_many_waiting`: more than 100,000
   * wait for the receiver), or were given up: `too_late`, after an hour, or one of the reasons of `delivery.parked`.
   */
  "delivery.dropped": { readonly receiver: string; readonly reason: string; readonly number: number };
  /** The receiver worked until now, and an attempt failed. `error`: such as `HTTP 503` or `ECONNREFUSED`. */
  "receiver.failing": { readonly receiver: string; readonly error: string | null };
  /** The receiver gets nothing until it is resumed. `by_operator`: or else because nothing can be sent to it. */
  "receiver.paused": { readonly receiver: string; readonly reason: string; readonly by_operator: boolean };
  "receiver.resumed": { readonly receiver: string };
  /**
   * The receiver fails: its circuit is open, and one delivery at a time probes it. `circuit_open_until`: the time of the next one, in seconds since
   * the epoch.
   */
  "receiver.circuit_opened": { readonly receiver: string; readonly circuit_open_until: number };
  /**
   * A delivery succeeded: the receiver works again, and everything that waits is due. `failures`: failed attempts in
   * a row, since an operator resumed it if one did. `failing_since`: seconds since the epoch.
   */
  "receiver.recovered": {
    readonly receiver: string;
    readonly failures: number;
    readonly failing_since: number;
  };
  /** The receiver was removed from the directory, and its waiting deliveries are parked. */
  "receiver.removed": { readonly receiver: string; readonly parked: number };
  /**
   * Somebody who is no administrator has done as much as an hour allows. `id`: of the token, or the `sub` of the operator;
   * `limit`: such as `administration.accounts`; `retry_after`: seconds.
   */
  "administration.limited": {
    readonly kind: "token" | "operator";
    readonly id: string;
    readonly limit: string;
    readonly retry_after: number;
  };
  /** A request to the administration listener was answered. `surface`: `/v1`, or the console. */
  "administration.answered": { readonly surface: "rest" | "console"; readonly status: number };
  /** The mail server, or your `send`, accepted a mail. `kind`: what it is about, such as `password-changed`. */
  "mail.sent": { readonly kind: string };
  /** An attempt failed. `retry_at`: seconds since the epoch; `null` if there is no further attempt. */
  "mail.failed": { readonly kind: string; readonly reason: MailFailure; readonly retry_at: number | null };
  /** Somebody was sent to another provider to sign in. */
  "provider.started": { readonly provider: string };
  /** Somebody came back, and the provider said who it is. `seconds`: how long its requests took. */
  "provider.finished": { readonly provider: string; readonly seconds: number };
  /** A sign-in with a provider failed, at its start or when the person came back. `seconds`: how long its requests took. */
  "provider.failed": {
    readonly provider: string;
    readonly reason: ProviderFault;
    readonly seconds: number;
  };
  /** A document of a client that nobody has registered was fetched, or could not be. */
  "document.fetched": { readonly host: string; readonly result: "success" | "refused" | "unavailable" };
  fault: { readonly where: string; readonly code: string };
  /** A rate limit refused a request. */
  "limit.refused": { readonly limit: string };
}

export type ServiceEvent = keyof ServiceEvents;

/** An emitter with typed events. A listener that throws never fails a request. */
export interface ServiceEmitter {
  on<E extends ServiceEvent>(event: E, listener: (argument: ServiceEvents[E]) => void): this;
  off<E extends ServiceEvent>(event: E, listener: (argument: ServiceEvents[E]) => void): this;
  once<E extends ServiceEvent>(event: E, listener: (argument: ServiceEvents[E]) => void): this;
  emit<E extends ServiceEvent>(event: E, argument: ServiceEvents[E]): boolean;
}

/**
 * Runs work that follows a commit. The commit stands in any case, so a failure becomes a `fault` event.
 * @param where what failed, for the event.
 */
export async function withoutFailing(
  events: ServiceEmitter,
  where: string,
  work: () => void | Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    events.emit("fault", { where, code: error instanceof SignInError ? error.code : "unexpected" });
  }
}

/** @param onListenerError called when a listener of the host throws. */
export function createEvents(onListenerError: (error: unknown) => void): ServiceEmitter {
  const emitter = new EventEmitter();
  const emit = emitter.emit.bind(emitter);
  emitter.emit = (event, ...parameters) => {
    try {
      return emit(event, ...parameters);
    } catch (error) {
      onListenerError(error);
      return true;
    }
  };
  return emitter;
}
