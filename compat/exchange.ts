/** A request on its way through the steps of its endpoint. */
import type { Exchange, ServiceContext } from "../provider/exchange.ts";
import type { Fields } from "./form-fields.ts";

/** A request at one of the endpoints, with what their steps hand on. */
export interface EndpointExchange extends Exchange {
  readonly ctx: ServiceContext;
  /** Set when the request failed through no fault of its caller. */
  fault?: unknown;
  /** Parameters for oidc-provider, from the address or the body. */
  query?: Fields | undefined;
  body?: Fields | undefined;
  /** The form in the body as it came: fields may be repeated. */
  received?: Promise<Fields>;
  /** The `Authorization` header for oidc-provider; `undefined` hides the header. */
  authorization?: string;
  /** Called after the commit if the request succeeds: events and audit records. */
  readonly onSuccess: (() => void)[];
  /** Called when all work on the request has stopped, which may be after the response. */
  readonly onSettled: (() => void)[];
}

/** Does its part of a request and calls `next`, or throws an `EndpointError`. */
export type Step = (exchange: EndpointExchange, next: () => Promise<void>) => Promise<void>;
