/** Who asks for something over HTTP: an administration token, or an operator at the console. */
import type { OperatorRole } from "../config/operators.ts";
import type { Actor } from "../records/audit/audit-event.ts";

/** Whoever asks for an operation. The role is the one of this request: it is read each time. */
export interface Administrator {
  /** `{ kind: "token", id }` or `{ kind: "operator", id: sub }`. */
  readonly actor: Actor;
  readonly role: OperatorRole;
  /** The service that the token is limited to. */
  readonly service?: string;
}
