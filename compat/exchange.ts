/** A request on its way through the steps of its endpoint, and what the steps are built from. */
import type { Exchange, ServiceContext } from "../provider/exchange.ts";
import type { AccountPage, ConfirmPage, ErrorPages, PageHandlers } from "../provider/pages.ts";
import type { UnitsOfWork } from "../provider/unit-of-work.ts";
import type { Configuration } from "../config/configuration.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import type { ArtifactStore } from "../records/artifacts/artifact-store.ts";
import type { AuditCollector } from "../records/audit/collector.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import type { AccountInternals } from "../accounts/account.ts";
import type { ClientInternals } from "../accounts/clients/client.ts";
import type { ServiceEmitter } from "../core/events.ts";
import type { FindBrowser } from "../provider/sessions/browser-cookie.ts";
import type { CurrentProvider } from "../provider/current-provider.ts";
import type { AttemptLimits } from "../accounts/limits/attempt-limits.ts";
import type { Fields } from "./form-fields.ts";
import type { HandledRequest } from "./request-log.ts";

/** The parts of the service that the endpoints are built from. */
export interface EndpointParts {
  readonly configuration: Configuration;
  readonly currentProvider: CurrentProvider;
  readonly artifacts: ArtifactStore;
  readonly units: UnitsOfWork;
  readonly accounts: AccountInternals;
  readonly clients: ClientInternals;
  readonly directory: Pick<DirectoryRecords, "hasApis" | "findApi">;
  readonly limits: AttemptLimits;
  readonly events: ServiceEmitter;
  readonly audit: AuditLog;
  readonly pages: ErrorPages;
  /** The steps of a running sign-in. */
  readonly interactions: PageHandlers;
  /** The page that links in mail lead to. */
  readonly confirm: ConfirmPage;
  /** Whether people can make accounts of their own. */
  readonly offersRegistration: boolean;
  /** Other paths under `{base}/account` fall through to the host application. */
  readonly accountPages: readonly AccountPage[];
  /** Name of the session cookie. */
  readonly sessionCookie: string;
  readonly findBrowser: FindBrowser;
  /** Receives warnings for the operator. */
  readonly onWarning: (text: string) => void;
  /** Receives unexpected errors, without request data. */
  readonly onDefect: (error: unknown) => void;
  /** Called after each request, for metrics and the log. */
  readonly onRequest: (request: HandledRequest) => void;
}

/** Where the endpoints record what happened. */
export type AuditLog = Pick<AuditCollector, "note" | "noteRefusal">;

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
  /** The valid bearer token, and its account. */
  token?: { readonly key: string; readonly scope: string };
  account?: AccountRecord;
  /** Called after the commit if the request succeeds: events and audit records. */
  readonly onSuccess: (() => void)[];
  /** Called when all work on the request has stopped, which may be after the response. */
  readonly onSettled: (() => void)[];
}

/** Does its part of a request and calls `next`, or throws an `EndpointError`. */
export type Step = (exchange: EndpointExchange, next: () => Promise<void>) => Promise<void>;
