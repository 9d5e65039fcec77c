/** One request on its way through the steps of its endpoint. */
import type { Context } from "koa";
import type { EndpointName } from "../config/deployments.ts";
import type { Configuration, Deployment } from "../config/configuration.ts";
import type { AccountRecord, ClientRecord } from "../lib/directory/directory.ts";
import type { Ahead, UnitsOfWork } from "../adapters/oidc/unit-of-work.ts";
import type { ArtifactStore } from "../lib/artifacts/artifact-store.ts";
import type { Artifact } from "../lib/artifacts/artifact.ts";
import type { AccountInternals } from "../lib/domain/account.ts";
import type { ClientInternals } from "../lib/domain/client.ts";
import type { AuditCollector } from "../lib/audit/collector.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import type { CurrentProvider } from "../lib/provider/current-provider.ts";
import type { AttemptLimits } from "../lib/provider/attempt-limits.ts";
import type { Connections } from "../lib/connections.ts";
import type { Fields } from "./form-fields.ts";

/** What the pages of an answer to a browser are made with; `ctx.state.deployment` says where it came to. */
export interface AnswerPages {
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
  /** Headers for a page that oidc-provider makes itself: its auto-submitting forms. */
  security(ctx: Context): void;
}

/** Shows and takes the forms of a running sign-in; `ctx.state.interactionUid` says which. */
export interface InteractionSteps {
  show(ctx: Context): Promise<void>;
  submit(ctx: Context): Promise<void>;
}

/** What was asked of a page of the account. */
export interface AccountRequest {
  /** The path below the base URL. */
  readonly path: string;
  /** The segment at the end of the path, where the page has one; empty else. */
  readonly id: string;
  /** The query, each parameter once. */
  readonly query: ReadonlyMap<string, string>;
}

/** A page under `{base}/account`: its path below the base URL, and what answers each method. */
export interface AccountPage {
  /** `:uid` at the end stands for one segment. */
  readonly path: string;
  readonly methods: Readonly<Record<string, (ctx: Context, request: AccountRequest) => Promise<void>>>;
}

/** What the steps work with; the same for every request of one service. */
export interface CompatDependencies {
  readonly configuration: Configuration;
  readonly currentProvider: CurrentProvider;
  readonly artifacts: ArtifactStore;
  readonly units: UnitsOfWork;
  readonly accounts: AccountInternals;
  readonly clients: ClientInternals;
  readonly limits: AttemptLimits;
  readonly events: ServiceEmitter;
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly pages: AnswerPages;
  readonly interactions: InteractionSteps;
  /** Those that there are: other paths under `{base}/account` go on to the host application. */
  readonly accountPages: readonly AccountPage[];
  readonly sessionCookie: string;
  readonly connections: Connections;
  /** Told what an operator should know. */
  readonly onWarning: (text: string) => void;
  /** Told about errors that nobody expected; no request data goes there. */
  readonly onDefect: (error: unknown) => void;
}

export interface Exchange {
  readonly ctx: Context;
  readonly deployment: Deployment;
  readonly endpoint: EndpointName;
  /** The path below the base URL. */
  readonly path: string;
  /** The `:uid` of the path, where there is one. */
  readonly uid: string | undefined;
  /** When the request may have begun, on the clock of `performance`. */
  underWaySince: number;
  /** Milliseconds since the epoch: after it nothing of the request is committed. It counts from its last byte. */
  deadline: number;
  /** The form in the body, again and again; rejects with what is wrong with it. */
  form: () => Promise<Fields>;
  /** The caller's address as far as proxies are trusted. */
  readonly address: string;
  /** Read once, by the step that needs it first. */
  query?: Fields | undefined;
  body?: Fields | undefined;
  /** The bearer token of the header: its key, and what is found under it. */
  presented?: { readonly key: string; readonly found: Promise<Artifact | undefined> };
  /** What the library will ask for first, on its way already. */
  ahead?: Ahead | undefined;
  /** The client that the request names, where it is known already. */
  client?: ClientRecord;
  /** `Authorization` as the library may read it; `undefined` takes the header away. */
  authorization?: string;
  /** The bearer token's artifact and account, once they were found to be good. */
  token?: { readonly key: string; readonly scope: string };
  account?: AccountRecord;
  /** What happened, told when it is committed. */
  readonly outcome: (() => void)[];
  /** Called when nothing works at the request any more, whatever came of it. */
  readonly ended: (() => void)[];
}

/** One step: does its part and goes on with `next`, or throws an {@link EndpointError}. */
export type Step = (exchange: Exchange, next: () => Promise<void>) => Promise<void>;
