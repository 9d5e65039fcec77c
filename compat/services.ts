/** The parts that this floor adds to those of oidc-provider: what the pages do at the endpoints. */
import type { AccountPage, ConfirmPage, PageHandlers, ProviderCallback } from "../provider/pages.ts";
import type { ProviderServices } from "../provider/services.ts";
import type { HandledRequest } from "./request-log.ts";

export interface EndpointServices extends ProviderServices {
  /** The steps of a running sign-in. */
  readonly interactions: PageHandlers;
  /** The page that links in mail lead to. */
  readonly confirm: ConfirmPage;
  /** Where people come back from a provider. */
  readonly providerCallback: ProviderCallback;
  /** Other paths under `{base}/account` fall through to the host application. */
  readonly accountPages: readonly AccountPage[];
  /** Called after each request, for metrics and the log. */
  readonly onRequest: (request: HandledRequest) => void;
}
