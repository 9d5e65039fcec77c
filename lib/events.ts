/** What the service tells its host: for logs, audit and metrics. No event holds a secret or personal data beside identifiers. */
import { EventEmitter } from "node:events";

/** What every event about a delivery names. */
export interface DeliveryEvent {
  /** Its `webhook-id`. */
  readonly id: string;
  readonly receiver: string;
  readonly sub: string;
  readonly type: string;
  /** How many attempts there were. */
  readonly attempts: number;
}

/**
 * Why a client was not told that a session ended. `refused_address`: the address rules forbid it; `status`: the answer
 * was not 200 or 204; `timeout`: none came in time; `connection`: it was not opened or broke; `internal`: our own fault.
 */
export const BACKCHANNEL_FAILURES = [
  "refused_address",
  "status",
  "timeout",
  "connection",
  "internal",
] as const;

export type BackchannelFailure = (typeof BACKCHANNEL_FAILURES)[number];

/**
 * Why sessions ended. `signed_out`: the person did; `password`, `disabled`, `deleted`: with that change of the account;
 * `ended`: by `accounts.endSessions`.
 */
export type SessionEnd = "signed_out" | "ended" | "password" | "disabled" | "deleted";

/**
 * Why a family ended. `code_replayed`, `refresh_token_reused`: something was used a second time; `revoked`: by its client;
 * `signed_out`: with the session; `password`, `disabled`, `deleted`, `unassigned`: with that change of the account;
 * `ended`: by `accounts.revokeTokens`.
 */
export type FamilyEnd = SessionEnd | "unassigned" | "code_replayed" | "refresh_token_reused" | "revoked";

/** Every event and its argument. */
export interface ServiceEvents {
  "sign_in.success": { readonly sub: string; readonly client_id: string; readonly deployment: string };
  /** `disabled`: the password was right, and the account is disabled. */
  "sign_in.failure": { readonly reason: "credentials" | "disabled" | "limited"; readonly client_id: string };
  "code.issued": { readonly sub: string; readonly client_id: string };
  "tokens.issued": { readonly client_id: string; readonly grant_type: string; readonly sub?: string };
  "tokens.refused": { readonly error: string; readonly grant_type?: string; readonly client_id?: string };
  "authorization.refused": { readonly error: string };
  "token.revoked": { readonly sub: string; readonly client_id: string };
  /**
   * Everything that descends from one authorization or password grant has ended; without `client_id` what several clients
   * had of the account, or all.
   */
  "family.revoked": { readonly sub?: string; readonly client_id?: string; readonly reason: FamilyEnd };
  /** The person signed out, or all sign-in sessions of the account but one ended. */
  "session.ended": { readonly sub: string; readonly reason: SessionEnd };
  /** A client was told that a session ended. */
  "backchannel.delivered": { readonly client_id: string; readonly attempts: number };
  /** A client was not told that a session ended, and no further attempt is made. */
  "backchannel.failed": {
    readonly client_id: string;
    /** What went wrong at the last attempt. */
    readonly reason: BackchannelFailure;
    readonly attempts: number;
  };
  "account.changed": { readonly sub: string; readonly action: string; readonly deliveries: number };
  "client.changed": { readonly client_id: string; readonly action: string };
  "delivery.succeeded": DeliveryEvent & { readonly status: number };
  /**
   * An attempt failed. `retryAt`: milliseconds since the epoch; `null` when it was the last one, or paused its receiver: then
   * it goes when that is resumed.
   */
  "delivery.failed": DeliveryEvent & {
    readonly status: number | null;
    readonly error: string | null;
    readonly retryAt: number | null;
  };
  /** It is not tried any more and waits for somebody to redrive it. */
  "delivery.parked": DeliveryEvent & { readonly reason: string };
  "delivery.redriven": { readonly id: string };
  "delivery.discarded": { readonly id: string };
  /** Nothing is sent to it until it is resumed. */
  "receiver.paused": { readonly receiver: string; readonly reason: string };
  "receiver.resumed": { readonly receiver: string };
  /** It fails, and one delivery at a time is tried. `until`: the next one, in milliseconds since the epoch. */
  "receiver.held": { readonly receiver: string; readonly until: number };
  /** A delivery succeeded there: everything that was held back is due. */
  "receiver.recovered": { readonly receiver: string };
  /** It is not in the directory any more: what waited for it is parked. */
  "receiver.removed": { readonly receiver: string; readonly parked: number };
  fault: { readonly where: string; readonly code: string };
}

export type ServiceEvent = keyof ServiceEvents;

/** An emitter whose names and arguments are checked. Listeners that throw never stop a request. */
export interface ServiceEmitter {
  on<E extends ServiceEvent>(event: E, listener: (argument: ServiceEvents[E]) => void): this;
  off<E extends ServiceEvent>(event: E, listener: (argument: ServiceEvents[E]) => void): this;
  once<E extends ServiceEvent>(event: E, listener: (argument: ServiceEvents[E]) => void): this;
  emit<E extends ServiceEvent>(event: E, argument: ServiceEvents[E]): boolean;
}

/** @param onListenerError told when a listener of the host throws. */
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
