/** The composition root: the only place that knows every folder. */
import type { Context, Middleware } from "koa";
import type { Provider } from "oidc-provider";
import { createUnitsOfWork } from "../adapters/oidc/unit-of-work.ts";
import { openStorage } from "../adapters/open.ts";
import { memoryRateLimits } from "../adapters/rate-limits-memory.ts";
import type { Storage } from "../adapters/storage.ts";
import { callerAddress } from "../compat/caller.ts";
import type { AnswerPages } from "../compat/exchange.ts";
import { readForm } from "../compat/request-body.ts";
import { createRoutes } from "../compat/routes.ts";
import type { Configuration, Deployment } from "../config/configuration.ts";
import type { SignInServiceConfig } from "../config/input.ts";
import { readConfiguration } from "../config/read.ts";
import { createDeviceCookies } from "../interactions/device-cookie.ts";
import { createAnswers, createInteractionHandlers, createPages, type Pages } from "../interactions/index.ts";
import { createProviderFlow } from "../interactions/provider-flow.ts";
import { type AccountInternals, type Accounts, createAccounts } from "./domain/accounts.ts";
import { type ClientInternals, type Clients, createClients } from "./domain/clients.ts";
import { createDirectory, type Directory } from "./domain/directory.ts";
import { createPasswords } from "./domain/passwords.ts";
import { type Connections, watchConnections } from "./connections.ts";
import { createEvents, type ServiceEmitter } from "./events.ts";
import { type Health, storageHealth } from "./health.ts";
import { createLogger, describeDefect } from "./logger.ts";
import { createMetrics } from "./metrics.ts";
import { cookieName, sessionCookieName } from "./protocol/cookies.ts";
import { createAttemptLimits } from "./protocol/limits.ts";
import { createProvider } from "./protocol/provider.ts";
import { createRequestGate } from "./request-gate.ts";
import { securityHeaders } from "./security-headers.ts";
import { loadServiceKeys, type ServiceKeys } from "./service-keys.ts";
import { startSweeper } from "./sweeper.ts";

/** A running service; see `createSignInService`. */
export interface SignInService {
  /** Everything under the deployments' paths; the rest falls through to the host application. */
  routes(): Middleware;
  readonly accounts: Accounts;
  readonly clients: Clients;
  readonly directory: Directory;
  /** Sign-ins, failures, grants, revocations: for logs, audit and metrics. */
  readonly events: ServiceEmitter;
  /** Each part with `ok`, latency in milliseconds and detail. */
  health(): Promise<Health>;
  /** Prometheus text. */
  metrics(): Promise<string>;
  /** The oidc-provider instance, for what is not wrapped. */
  readonly provider: Provider;
  /** The configuration with every default filled in. */
  readonly configuration: Configuration;
  /** Finishes the running requests (30 s at most) and lets go of the storage. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * Starts the service: opens its storage, reads or makes its keys, and builds both deployments.
 * @throws ConfigurationError with all problems at once.
 * @throws SignInError `keys` when the keys don't belong to the storage.
 * @throws StorageUnavailable when the storage can't be opened.
 */
export async function createSignInService(config: SignInServiceConfig): Promise<SignInService> {
  const configuration = readConfiguration(config);
  const logger = configuration.logger ?? createLogger();
  const onDefect = (error: unknown): void =>
    logger.error({ defect: describeDefect(error) }, "unexpected error");
  const storage = await openStorage(configuration);
  try {
    const keys = await loadServiceKeys(configuration, storage.directory);
    if (configuration.profile === "strict") {
      logger.info("profile strict: password grant, GET revoke and codes without PKCE are turned off");
    }
    return build({ configuration, storage, keys, onDefect });
  } catch (error) {
    await storage.close();
    throw error;
  }
}

interface Parts {
  readonly configuration: Configuration;
  readonly storage: Storage;
  readonly keys: ServiceKeys;
  readonly onDefect: (error: unknown) => void;
}

type DomainCalls = {
  readonly accounts: Accounts & AccountInternals;
  readonly clients: Clients & ClientInternals;
  readonly directory: Directory;
};

function createDomain({ configuration, storage, keys }: Parts, events: ServiceEmitter): DomainCalls {
  const { clock } = configuration;
  const { directory, artifacts } = storage;
  const { sealer } = keys;
  const passwords = createPasswords(configuration.passwords);
  const accounts = createAccounts({ directory, artifacts, passwords, clock, events, sealer });
  const clients = createClients({
    directory,
    artifacts,
    clock,
    events,
    forgetConsents: (clientId) => accounts.forgetConsents(clientId),
    secretKey: keys.clientSecrets,
    minSecretLength: configuration.production ? 32 : 16,
  });
  return { accounts, clients, directory: createDirectory({ directory, sealer }) };
}

function build(parts: Parts): SignInService {
  const { configuration, storage, keys, onDefect } = parts;
  const events = createEvents(onDefect);
  const domain = createDomain(parts, events);
  const { accounts, clients } = domain;
  const { artifacts } = storage;
  const units = createUnitsOfWork(artifacts, configuration.clock);
  const limits = createAttemptLimits(configuration.rateLimits, memoryRateLimits(configuration.clock));
  const pages = createPages(configuration.interactions);
  const answers = createAnswers(pages);
  const provider = createProvider({
    configuration,
    artifacts,
    units,
    accounts,
    clients,
    limits,
    events,
    keys,
    pages: {
      confirmLogout: (ctx, form) => answers.confirmLogout(ctx, form),
      loggedOut: (ctx) => answers.loggedOut(ctx),
    },
  });
  const flow = createProviderFlow({
    provider,
    configuration,
    accounts,
    clients,
    limits,
    events,
    devices: createDeviceCookies(keys.forms, cookieName(configuration, "device")),
    csrfKey: keys.forms,
    addressOf: (ctx) => callerAddress(ctx.req, configuration.proxy),
  });
  const handlers = createInteractionHandlers({
    flow,
    pages,
    readForm: async (ctx) => formMap(ctx),
  });
  const connections = watchConnections(configuration.clock);
  const routes = createRoutes({
    configuration,
    provider,
    artifacts,
    units,
    accounts,
    clients,
    limits,
    events,
    onDefect,
    pages: answerPages(pages),
    interactions: {
      show: (ctx) => handlers.show(ctx),
      submit: (ctx) => handlers.submit(ctx),
    },
    sessionCookie: sessionCookieName(configuration),
    connections,
  });
  return serviceObject(parts, domain, { events, provider, routes, connections });
}

/** The form as the handlers read it; what is malformed or repeated carries the status 400. */
async function formMap(ctx: Context): Promise<ReadonlyMap<string, string>> {
  const fields = await readForm(ctx);
  if (fields.repeated().length > 0) throw Object.assign(new Error("a field is repeated"), { status: 400 });
  return new Map(fields.entries());
}

function answerPages(pages: Pages): AnswerPages {
  const answers = createAnswers(pages);
  return {
    error: (ctx, problem) => answers.error(ctx, problem),
    startAgain: (ctx) => answers.startAgain(ctx),
    unavailable: (ctx, retryAfter) => answers.unavailable(ctx, retryAfter),
    security(ctx) {
      const { secure } = (ctx.state as { deployment: Deployment }).deployment;
      securityHeaders(ctx, { styleHash: pages.styleHash, secure });
    },
  };
}

function serviceObject(
  { configuration, storage, onDefect }: Parts,
  { accounts, clients, directory }: DomainCalls,
  {
    events,
    provider,
    routes,
    connections,
  }: { events: ServiceEmitter; provider: Provider; routes: Middleware; connections: Connections },
): SignInService {
  const sweeper = startSweeper(storage.artifacts, onDefect);
  const metrics = createMetrics(events);
  const gate = createRequestGate(routes);
  let closing: Promise<void> | undefined;
  async function close(): Promise<void> {
    await gate.close();
    connections.close();
    await sweeper.stop();
    await accounts.settled();
    await storage.close();
  }
  return {
    routes: () => gate.middleware,
    accounts,
    clients,
    directory,
    events,
    provider,
    configuration,
    health: () => storageHealth(storage, configuration.clock),
    metrics: () => metrics.text(),
    close: () => (closing ??= close()),
  };
}
