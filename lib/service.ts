/** The composition root: the only place that knows every folder. */
import type { Middleware } from "koa";
import type { Provider } from "oidc-provider";
import { openStorage } from "./storage.ts";
import type { Storage } from "./storage.ts";
import type { Configuration } from "../config/configuration.ts";
import type { SignInServiceConfig } from "../config/input.ts";
import { readConfiguration } from "../config/read.ts";
import { CALLBACK_PATH } from "../interactions/account-pages.ts";
import type { Interactions } from "../interactions/flow.ts";
import type { Notifications } from "../notifier/notifications.ts";
import { createNotifier, type Notifier } from "../notifier/notifier.ts";
import { type AuditCollector, createAuditCollector } from "./audit/collector.ts";
import type { AccountInternals, Accounts } from "./domain/account.ts";
import type { AccountWriterOptions } from "./domain/account-change.ts";
import { type AuditLog, createAuditLog } from "./domain/audit-log.ts";
import { createAccounts } from "./domain/accounts.ts";
import type { ClientInternals, Clients } from "./domain/client.ts";
import { createClients } from "./domain/clients.ts";
import { createDirectory, type Directory, unusableRecords } from "./domain/directory.ts";
import { ACCOUNT_CLIENT } from "./domain/client.ts";
import type { Keys } from "./keys/signing-keys.ts";
import { createPasswords, type Passwords } from "./passwords/passwords.ts";
import { GRANTABLE } from "./provider/grant.ts";
import { createEvents, type ServiceEmitter } from "./events.ts";
import { type Health, storageHealth } from "./health.ts";
import { createLogger, describeDefect } from "./logger.ts";
import { createMetrics } from "./metrics.ts";
import { createOutages, type Outage } from "./outages.ts";
import { createRequestGate } from "./request-gate.ts";
import { createServiceHttp, type ServiceHttp } from "./service-http.ts";
import { loadServiceKeys, type ServiceKeys } from "./keys/service-keys.ts";
import { startSweeper } from "./sweeper.ts";

/** A running service; see `createSignInService`. */
export interface SignInService {
  /** Everything under the deployments' paths; the rest falls through to the host application. */
  routes(): Middleware;
  readonly accounts: Accounts;
  readonly clients: Clients;
  readonly directory: Directory;
  /** What was sent, what waits, and what to do about it. */
  readonly notifications: Notifications;
  /** Who did what: sign-ins, changes, and what operators asked for. Identifiers, no names. */
  readonly audit: AuditLog;
  /** The running sign-ins, for pages of your own. */
  readonly interactions: Interactions;
  /** Sign-ins, failures, grants, revocations, deliveries: for logs, audit and metrics. */
  readonly events: ServiceEmitter;
  /** Each part with `ok`, latency in milliseconds and detail. */
  health(): Promise<Health>;
  /** Prometheus text. */
  metrics(): Promise<string>;
  /** The keys that sign ID tokens. */
  readonly keys: Keys;
  /**
   * The oidc-provider instance that new requests run on, for what is not wrapped. Read it at each use: when the signing
   * keys change it is another one, which has the listeners and the middleware that were added to the one before.
   */
  readonly provider: Provider;
  /** The configuration with every default filled in. */
  readonly configuration: Configuration;
  /** Finishes the running requests and deliveries (30 s at most) and lets go of the storage. Safe to call twice. */
  close(): Promise<void>;
}

/** See `start-service.ts`. */
export function createSignInService(config: SignInServiceConfig): Promise<SignInService> {
  return createSignInServiceOver(config, openStorage);
}

/**
 * {@link createSignInService} over a storage that the caller opens: for tests that watch or replace parts of it.
 * @param open gets the configuration with every default filled in; the service closes what it returns.
 */
export async function createSignInServiceOver(
  config: SignInServiceConfig,
  open: (configuration: Configuration, onWarning: (text: string) => void) => Promise<Storage>,
): Promise<SignInService> {
  const configuration = readConfiguration(config);
  const logger = configuration.logger ?? createLogger();
  const onDefect = (error: unknown): void =>
    logger.error({ defect: describeDefect(error) }, "unexpected error");
  const onWarning = (text: string): void => logger.warn(text);
  const storage = await open(configuration, onWarning);
  try {
    const keys = await loadServiceKeys(configuration, storage);
    if (configuration.profile === "strict") {
      logger.info("profile strict: password grant, GET revoke and codes without PKCE are turned off");
    }
    for (const record of await unusableRecords(storage.directory)) {
      onWarning(`${record} counts as unknown: every object has this name; remove it and use another one`);
    }
    const outages = createOutages(logger, configuration.clock);
    return await build({ configuration, storage, keys, outages, onDefect, onWarning });
  } catch (error) {
    await storage.close();
    throw error;
  }
}

/** Milliseconds for the deliveries that are in flight when the service is closed. */
const GRACE = 30_000;

interface Parts {
  readonly configuration: Configuration;
  readonly storage: Storage;
  readonly keys: ServiceKeys;
  readonly outages: (work: string) => Outage;
  readonly onDefect: (error: unknown) => void;
  readonly onWarning: (text: string) => void;
}

type DomainCalls = {
  readonly accounts: Accounts & AccountInternals;
  readonly clients: Clients & ClientInternals;
  readonly directory: Directory;
  readonly passwords: Passwords;
};

function createDomain(
  { configuration, storage, keys }: Parts,
  events: ServiceEmitter,
  told: Required<Pick<AccountWriterOptions, "onEnded" | "notify">>,
): DomainCalls {
  const { clock } = configuration;
  const { directory, artifacts } = storage;
  const { sealer } = keys;
  const passwords = createPasswords(configuration.passwords);
  const accounts = createAccounts({
    directory,
    artifacts,
    passwords,
    clock,
    events,
    sealer,
    grantable: GRANTABLE,
    ...told,
  });
  const clients = createClients({
    directory,
    artifacts,
    clock,
    events,
    forgetConsents: (clientId, caller) => accounts.forgetConsents(clientId, caller),
    secretKey: keys.clientSecrets,
    idTokenAlgorithms: () => keys.signing.inForce().map(({ alg }) => alg),
    minSecretLength: configuration.production ? 32 : 16,
  });
  return { accounts, clients, directory: createDirectory({ directory, sealer }), passwords };
}

async function build(parts: Parts): Promise<SignInService> {
  const { onDefect: onFault, ...common } = parts;
  const { sealer } = common.keys;
  const events = createEvents(onFault);
  const notifier = await createNotifier({ ...common, sealer, events, onFault });
  try {
    return await assemble(parts, events, notifier);
  } catch (error) {
    // It may hold a connection of its own.
    await notifier.stop(0);
    throw error;
  }
}

async function assemble(parts: Parts, events: ServiceEmitter, notifier: Notifier): Promise<SignInService> {
  // Accounts tell the HTTP side what ended; it is made after them.
  const late: { http?: ServiceHttp } = {};
  const domain = createDomain(parts, events, {
    onEnded: async (ended) => late.http?.sessionsEnded(ended),
    notify: () => notifier.wake(),
  });
  await keepAccountClient(parts.configuration, domain.clients);
  const { notifications } = notifier;
  const audit = createAuditCollector(
    parts.storage.audit,
    parts.outages("recording what happens"),
    parts.onWarning,
  );
  const http = createServiceHttp({ ...parts, events, audit, notifications, ...domain });
  late.http = http;
  notifier.start();
  return serviceObject(parts, domain, { events, audit, http, notifier });
}

/** The account pages sign in through a client of their own, one for both deployments. */
async function keepAccountClient(
  { deployments, interactions }: Configuration,
  clients: ClientInternals,
): Promise<void> {
  const { oauth2, openid } = deployments;
  await clients.keepInternal({
    client_id: ACCOUNT_CLIENT,
    name: interactions.theme.name ?? "Account",
    redirect_uris: [oauth2, openid].flatMap((each) => (each === undefined ? [] : each.url + CALLBACK_PATH)),
  });
}

interface RunningParts {
  readonly events: ServiceEmitter;
  readonly audit: AuditCollector;
  readonly http: ServiceHttp;
  readonly notifier: Notifier;
}

function serviceObject(
  { configuration, storage, keys, outages }: Parts,
  { accounts, clients, directory, passwords }: DomainCalls,
  { events, audit, http, notifier }: RunningParts,
): SignInService {
  const sweeper = startSweeper(storage, outages("removing what has expired"));
  keys.signing.start(outages("looking at the signing keys"));
  const metrics = createMetrics(events, () => storage.deliveries.counts());
  const gate = createRequestGate(http.routes);
  let closing: Promise<void> | undefined;
  async function close(): Promise<void> {
    await Promise.all([gate.close(), notifier.stop(GRACE)]);
    await http.close();
    await Promise.all([sweeper.stop(), keys.signing.stop()]);
    await accounts.settled();
    await passwords.close();
    await audit.close();
    await storage.close();
  }
  return {
    routes: () => gate.middleware,
    accounts,
    clients,
    directory,
    notifications: notifier.notifications,
    audit: createAuditLog(storage.audit, () => audit.flush()),
    events,
    interactions: http.interactions,
    keys: {
      list: () => keys.signing.list(),
      rotate: (options) => keys.signing.rotate(options),
      retire: (kid, options) => keys.signing.retire(kid, options),
    },
    get provider() {
      return http.currentProvider().provider;
    },
    configuration,
    health: () => storageHealth(storage, configuration.clock, { notifications: () => notifier.health() }),
    metrics: () => metrics.text(),
    close: () => (closing ??= close()),
  };
}
