/** A request on its way through the steps of its endpoint, and what the steps are built from. */
import type { Exchange, ServiceContext } from "../provider/exchange.ts";
import type { AccountPage, ConfirmPage, PageHandlers } from "../provider/pages.ts";
import type { ProviderServices } from "../provider/services.ts";
import type { Fields } from "./form-fields.ts";
import type { HandledRequest } from "./request-log.ts";

/** The parts that this floor adds to those of oidc-provider: what the pages do at the endpoints. */
export interface EndpointServices extends ProviderServices {
  /** The steps of a running sign-in. */
  readonly interactions: PageHandlers;
  /** The page that links in mail lead to. */
  readonly confirm: ConfirmPage;
  /** Other paths under `{base}/account` fall through to the host application. */
  readonly accountPages: readonly AccountPage[];
  /** Called after each request, for metrics and the log. */
  readonly onRequest: (request: HandledRequest) => void;
}

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
