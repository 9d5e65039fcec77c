/** One request on its way through the steps of its endpoint. */
import type { Context } from "koa";
import type { UnitRequest, UnitsOfWork } from "../provider/unit-of-work.ts";
import type { EndpointName } from "../config/deployments.ts";
import type { Configuration, Deployment } from "../config/configuration.ts";
import type { ArtifactStore } from "../records/artifacts/artifact-store.ts";
import type { AuditCollector } from "../records/audit/collector.ts";
import type { Connections } from "./connections.ts";
import type { AccountRecord, ClientRecord } from "../records/directory/directory.ts";
import type { AccountInternals } from "../accounts/account.ts";
import type { ClientInternals } from "../accounts/clients/client.ts";
import type { ServiceEmitter } from "../core/events.ts";
import type { RequestTiming } from "../core/metrics.ts";
import type { Browser, FindBrowser } from "../provider/sessions/browser-cookie.ts";
import type { CurrentProvider } from "../provider/current-provider.ts";
import type { AttemptLimits } from "../accounts/limits/attempt-limits.ts";
import type { Fields } from "./form-fields.ts";

/** The pages that a browser gets instead of a JSON error. They read the deployment from `ctx.state`. */
export interface ErrorPages {
  error(
    ctx: Context,
    problem: {
      readonly status: number;
      readonly error: string;
      readonly description: string;
      readonly retryAfter?: number;
    },
  ): Promise<void>;
  startAgain(ctx: Context): Promise<void>;
  unavailable(ctx: Context, retryAfter: number): Promise<void>;
  /** Sets the security headers of a page that oidc-provider renders itself: its auto-submitting forms. */
  security(ctx: Context): void;
}

/** Shows and accepts the steps of a running sign-in: `ctx.state.interactionUid`, and `interactionStep` if there is one. */
export interface InteractionSteps {
  show(ctx: Context): Promise<void>;
  submit(ctx: Context): Promise<void>;
}

/** The page that links in mail lead to. */
export interface ConfirmPage {
  /** @param token of the link; `undefined` once it is in a cookie. */
  show(ctx: Context, token: string | undefined): Promise<void>;
  submit(ctx: Context): Promise<void>;
}

/** A request for a page under `{base}/account`. */
export interface AccountRequest {
  /** The path below the base URL. */
  readonly path: string;
  /** The `:uid` segment of the path, or an empty string. */
  readonly id: string;
  /** The query; no parameter is repeated. */
  readonly query: ReadonlyMap<string, string>;
}

/** A page under `{base}/account`. */
export interface AccountPage {
  /** Below the base URL; `:uid` at the end stands for one segment. */
  readonly path: string;
  /** The handler of each method. */
  readonly methods: Readonly<Record<string, (ctx: Context, request: AccountRequest) => Promise<void>>>;
}

/** The parts of the service that the endpoints are built from. */
export interface EndpointParts {
  readonly configuration: Configuration;
  readonly currentProvider: CurrentProvider;
  readonly artifacts: ArtifactStore;
  readonly units: UnitsOfWork;
  readonly accounts: AccountInternals;
  readonly clients: ClientInternals;
  readonly limits: AttemptLimits;
  readonly events: ServiceEmitter;
  readonly audit: AuditLog;
  readonly pages: ErrorPages;
  readonly interactions: InteractionSteps;
  readonly confirm: ConfirmPage;
  /** Whether people can make accounts of their own. */
  readonly offersRegistration: boolean;
  /** Other paths under `{base}/account` fall through to the host application. */
  readonly accountPages: readonly AccountPage[];
  /** Name of the session cookie. */
  readonly sessionCookie: string;
  readonly findBrowser: FindBrowser;
  readonly connections: Connections;
  /** Receives warnings for the operator. */
  readonly onWarning: (text: string) => void;
  /** Receives unexpected errors, without request data. */
  readonly onDefect: (error: unknown) => void;
  /** Called after each request, for metrics. */
  readonly onRequest: (timing: RequestTiming) => void;
}

/** Where the endpoints record what happened. */
export type AuditLog = Pick<AuditCollector, "note" | "noteRefusal">;

export interface Exchange {
  readonly ctx: Context;
  readonly deployment: Deployment;
  readonly endpoint: EndpointName;
  /** The path below the base URL. */
  readonly path: string;
  /** The `:uid` segment of the path. */
  readonly uid: string | undefined;
  /** The `:step` segment of the path. */
  readonly step: string | undefined;
  /** The earliest moment at which the request can have been sent, on the clock of `performance`. */
  underWaySince: number;
  /** When its last byte had arrived, on the clock of `performance`. */
  receivedAt: number;
  /** Nothing of this request is committed later than this: milliseconds since the epoch. */
  deadline: number;
  /** Returns the form in the body; may be called repeatedly. Rejects if the body is unusable. */
  form: () => Promise<Fields>;
  /** Returns the JSON in the body; may be called repeatedly. Rejects if the body is unusable. */
  json: () => Promise<unknown>;
  /** The caller's IP address, as far as proxies are trusted. */
  readonly address: string;
  query?: Fields | undefined;
  body?: Fields | undefined;
  /** A read that has been started for oidc-provider. */
  prefetched?: UnitRequest["prefetched"];
  /** The browser of the request, where a sign-in begins or goes on. */
  browser?: Browser;
  /** The client that the request names. It may not be authenticated yet. */
  client?: ClientRecord;
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
export type Step = (exchange: Exchange, next: () => Promise<void>) => Promise<void>;
