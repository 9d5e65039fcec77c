/** The HTTP side of a service: provider, pages, endpoints, put together. */
import type { Context, Middleware } from "koa";
import { createUnitsOfWork } from "../adapters/oidc/unit-of-work.ts";
import type { Storage } from "./storage.ts";
import { callerAddress } from "../compat/caller.ts";
import type { ErrorPages } from "../compat/exchange.ts";
import type { Fields } from "../compat/form-fields.ts";
import { createRoutes } from "../compat/routes.ts";
import type { Configuration, Deployment } from "../config/configuration.ts";
import { createDeviceCookies } from "../interactions/device-cookie.ts";
import { createAnswers } from "../interactions/answers.ts";
import { createInteractions, type InteractionFlow, type Interactions } from "../interactions/flow.ts";
import { createInteractionHandlers } from "../interactions/handlers.ts";
import { createPages, type Pages } from "../interactions/pages.ts";
import { createProviderFlow } from "../interactions/provider-flow.ts";
import type { Notifications } from "../notifier/notifications.ts";
import { monotonic } from "./clock.ts";
import { watchConnections } from "./connections.ts";
import type { SessionsEnded } from "./domain/account-change.ts";
import type { AccountInternals, Accounts } from "./domain/account.ts";
import type { ClientInternals, Clients } from "./domain/client.ts";
import type { AuditCollector } from "./audit/collector.ts";
import type { ServiceEmitter } from "./events.ts";
import { createBackchannelLogout } from "./provider/backchannel-logout.ts";
import { cookieName, deviceCookieName, sessionCookieName } from "./provider/cookies.ts";
import { createAttemptLimits } from "./provider/attempt-limits.ts";
import { createCurrentProvider, type CurrentProvider } from "./provider/current-provider.ts";
import { createProvider, type ProviderOptions } from "./provider/provider.ts";
import { createSigner } from "./sealing.ts";
import { securityHeaders } from "./security-headers.ts";
import { createServiceAccount } from "./service-account.ts";
import type { ServiceKeys } from "./keys/service-keys.ts";

/** What the HTTP side is made of. */
export interface ServiceHttpParts {
  readonly configuration: Configuration;
  readonly storage: Storage;
  readonly keys: ServiceKeys;
  readonly accounts: Accounts & AccountInternals;
  readonly clients: Clients & ClientInternals;
  readonly events: ServiceEmitter;
  /** What happens at the endpoints and pages. */
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  /** What the delivery console shows. */
  readonly notifications: Notifications;
  /** Told what an operator should know. */
  readonly onWarning: (text: string) => void;
  /** Told about errors that nobody expected. */
  readonly onDefect: (error: unknown) => void;
}

export interface ServiceHttp {
  readonly currentProvider: CurrentProvider;
  readonly routes: Middleware;
  readonly interactions: Interactions;
  /** Tells the clients of sessions that ended. */
  sessionsEnded(ended: SessionsEnded): Promise<void>;
  /** Stops listening to connections; waits for the logout tokens that are on their way. */
  close(): Promise<void>;
}

/** Nothing is listening yet: the routes are for the host application's server. */
export function createServiceHttp(parts: ServiceHttpParts): ServiceHttp {
  const { configuration, storage, keys, accounts, clients, events, audit, onWarning, onDefect } = parts;
  const { artifacts } = storage;
  const units = createUnitsOfWork(artifacts, configuration.clock);
  const limits = createAttemptLimits(configuration.rateLimits, storage.rateLimits, keys.rateLimits);
  const pages = createPages(configuration.interactions);
  const shared = { configuration, artifacts, units, accounts, clients, limits, events, audit };
  const backchannel = createBackchannelLogout(artifacts, events, onWarning);
  const options = { ...shared, keys, pages: createAnswers(pages), backchannel };
  const currentProvider = createCurrentProvider(
    (signing) => createProvider(options, signing),
    () => keys.signing.inForce(),
  );
  // oidc-provider checks its settings here, so that a mistake stops the start.
  currentProvider();
  const flow = createFlow(shared, currentProvider, keys);
  const connections = watchConnections(monotonic);
  const routes = createRoutes({
    ...shared,
    currentProvider,
    onWarning,
    onDefect,
    connections,
    pages: errorPages(pages),
    interactions: createInteractionHandlers({ flow, pages, readForm: formMap }),
    accountPages: createServiceAccount({ ...parts, currentProvider, pages, readForm: formMap }),
    sessionCookie: sessionCookieName(configuration),
  });
  return {
    currentProvider,
    routes: (ctx, next) => routes.middleware(ctx, next),
    interactions: createInteractions(flow, units, (ctx) => {
      const request = routes.locate(ctx);
      return request?.endpoint === "interaction" && request.uid !== undefined
        ? { ...request, uid: request.uid }
        : undefined;
    }),
    sessionsEnded: (ended) => backchannel.sessionsEnded(currentProvider().provider, ended),
    async close() {
      connections.close();
      await backchannel.stop();
    },
  };
}

type Shared = Omit<ProviderOptions, "keys" | "pages" | "backchannel">;

function createFlow(shared: Shared, currentProvider: CurrentProvider, keys: ServiceKeys): InteractionFlow {
  const { configuration } = shared;
  const forms = createSigner(keys.forms);
  return createProviderFlow({
    ...shared,
    currentProvider,
    devices: createDeviceCookies({
      signer: forms,
      name: deviceCookieName(configuration),
      earlierName: cookieName(configuration, "device"),
    }),
    forms,
    addressOf: (ctx) => callerAddress(ctx.req, configuration.proxy),
  });
}

/** The form as the handlers read it; what is malformed or repeated carries the status 400. */
async function formMap(ctx: Context): Promise<ReadonlyMap<string, string>> {
  const { form } = ctx.state as { readonly form: () => Promise<Fields> };
  const fields = await form();
  if (fields.repeated().length > 0) throw Object.assign(new Error("a field is repeated"), { status: 400 });
  return new Map(fields.entries());
}

function errorPages(pages: Pages): ErrorPages {
  const { error, startAgain, unavailable } = createAnswers(pages);
  return {
    error,
    startAgain,
    unavailable,
    security(ctx) {
      const { secure } = (ctx.state as { deployment: Deployment }).deployment;
      securityHeaders(ctx, { styleHash: pages.styleHash, secure, libraryScript: true });
    },
  };
}
