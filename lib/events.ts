/** What the service tells its host: for logs, audit and metrics. No event holds a secret or personal data beside identifiers. */
import { EventEmitter } from "node:events";

/** Every event and its argument. */
export interface ServiceEvents {
  "sign_in.success": { readonly sub: string; readonly client_id: string; readonly deployment: string };
  "sign_in.failure": { readonly reason: "credentials" | "limited"; readonly client_id: string };
  "code.issued": { readonly sub: string; readonly client_id: string };
  "tokens.issued": { readonly client_id: string; readonly grant_type: string; readonly sub?: string };
  "tokens.refused": { readonly error: string; readonly grant_type?: string; readonly client_id?: string };
  "authorization.refused": { readonly error: string };
  "token.revoked": { readonly sub: string; readonly client_id: string };
  "family.revoked": { readonly client_id?: string };
  "session.ended": { readonly sub: string };
  /** A client was not told in three attempts that a session ended. */
  "logout.undelivered": { readonly client_id: string };
  "account.changed": { readonly sub: string; readonly action: string; readonly deliveries: number };
  "client.changed": { readonly client_id: string; readonly action: string };
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
