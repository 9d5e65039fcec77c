/** A request at one of the endpoints. */
import type { Exchange, ServiceContext } from "../provider/exchange.ts";
import type { Fields } from "./form-fields.ts";

export interface EndpointExchange extends Exchange {
  readonly ctx: ServiceContext;
  /** The form in the body as it came: fields may be repeated. Rejects like `form`. */
  fields(): Promise<Fields>;
  /** Called after the commit if the request succeeds: events and audit records. */
  readonly onSuccess: (() => void)[];
  /** Called when all work on the request has stopped, which may be after the response. */
  readonly onSettled: (() => void)[];
}

/** Answers a request, or throws an `EndpointError`. */
export type Handler = (exchange: EndpointExchange) => Promise<void>;

/**
 * One request, one write: commits what the work writes, if it succeeds. It also commits if the work refuses the request with a
 * client error, because revoking a replayed family is part of such a refusal. A fault commits nothing, and neither does a HEAD request.
 */
export type Atomic = (exchange: EndpointExchange, work: () => Promise<void>) => Promise<void>;
