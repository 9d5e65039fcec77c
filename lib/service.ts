/** A service: starts it from its parts, and closes it. `services.ts` makes the parts. */
import type { Middleware } from "koa";
import type { Provider } from "oidc-provider";
import type { Logger } from "pino";
import { createOperators } from "../administration/operators.ts";
import { createTokens } from "../administration/tokens.ts";
import { createAuditLog } from "../accounts/audit-log.ts";
import { type AccountInternals } from "../accounts/account.ts";
import { type Accounts, accounts as accountTable } from "../accounts/operations/accounts.ts";
import type { AuditLog } from "../accounts/operations/audit.ts";
import type { ClientRows } from "../accounts/clients/client-settings.ts";
import { type ClientInternals } from "../accounts/clients/client.ts";
import { type Clients, clients as clientTable } from "../accounts/operations/clients.ts";
import { type Directory, DIRECTORY_CALLS, type DirectoryInternals } from "../accounts/directory.ts";
import { startHashWrapping } from "../accounts/passwords/hash-wrapping.ts";
import type { Invitations, Invites } from "../accounts/operations/invitations.ts";
import { createKeys, loadServiceKeys } from "../accounts/keys/service-keys.ts";
import type { Keys, SigningKey } from "../accounts/operations/keys.ts";
import type { Operators } from "../accounts/operations/operators.ts";
import type { DocumentClients } from "../accounts/operations/documents.ts";
import { createDocumentClients } from "../accounts/documents/document-clients.ts";
import type { Tokens } from "../accounts/operations/tokens.ts";
import { RATE_LIMITS } from "../accounts/limits/limit-table.ts";
import { createRequestLog, type HandledRequest } from "../compat/request-log.ts";
import { createRoutes } from "../compat/routes.ts";
import { documentHosts } from "../config/clients.ts";
import type { Configuration } from "../config/configuration.ts";
import { endpointsOf } from "../config/deployments.ts";
import type { SignInServiceConfig } from "../config/input.ts";
import { processInfo } from "../config/process-info.ts";
import { readConfiguration } from "../config/read.ts";
import type { OnStoreWarning } from "../core/store-warning.ts";
import type { ServiceEmitter } from "../core/events.ts";
import { createLogger, droppedLines } from "../core/logger.ts";
import { createMetrics, type MeasuredProcess } from "../core/metrics.ts";
import type { Outage } from "../core/outages.ts";
import { type Repeating, startRepeating } from "../core/repeating.ts";
import type { Pages } from "../interactions/page.ts";
import { createInteractions, type Interactions } from "../interactions/own-routes.ts";
import type { Notifications } from "../notifier/operations.ts";
import { createNotifier } from "../notifier/notifier.ts";
import { createBackchannelLogout, type Pause } from "../provider/sessions/backchannel-logout.ts";
import { type Health, keptSessions, storageHealth } from "../records/health.ts";
import { MAIL_KINDS } from "../records/people/mail-kinds.ts";
import { createStorageServices } from "../records/services.ts";
import { openStorage, type Storage } from "../records/storage.ts";
import { announceProcess } from "../records/formats/processes.ts";
import { watchHistory } from "../records/storage-identity.ts";
import { createUpstream } from "../upstream/upstream.ts";
import type { Seed } from "./seed.ts";
import { createServiceAdministration } from "./administration.ts";
import { createAccountServices } from "./account-services.ts";
import { createHttpServices, type Services } from "./services.ts";
import { checkStart, putInternalClients, sayPasskeysAreOff } from "./start-checks.ts";

/** A running service; see `createSignInService`. */
export interface SignInService {
  /** Everything under the deployments' paths; the rest falls through to the host application. */
  routes(): Middleware;
  readonly accounts: Accounts & Invites;
  /** Invitations to make an account. `accounts.invite` makes one. */
  readonly invitations: Invitations;
  /** Clients that nobody has registered, if the configuration lets some ask. */
  readonly documents: DocumentClients;
  readonly clients: Clients;
  readonly directory: Directory;
  /** Notifications: delivered and waiting ones, and operations on them. */
  readonly notifications: Notifications;
  /** The audit log: sign-ins, changes and operations, by identifiers without names. */
  readonly audit: AuditLog;
  /** The running sign-ins, for your own pages. */
  readonly interactions: Interactions;
  /** Sign-ins, failures, grants, revocations, deliveries: for logs, audit and metrics. */
  readonly events: ServiceEmitter;
  /** Each part with `ok`, latency in milliseconds and detail. */
  health(): Promise<Health>;
  /** Prometheus text. */
  metrics(): Promise<string>;
  /** The keys that sign ID tokens. */
  readonly keys: Keys;
  /** The tokens of programs that administer over HTTP. */
  readonly tokens: Tokens;
  /** Operators whose new second factors are to open the console. */
  readonly operators: Operators;
  /**
   * The oidc-provider instance for new requests, for everything that has no call here. Read it at each use: when the
   * signing keys change, it is replaced by one with the same listeners and middleware.
   */
  readonly provider: Provider;
  /**
   * Administration over HTTP: the console, and `/v1`, for a listener of its own. It answers every request that it gets, and one with
   * another `Host` with 421.
   * @param options.url its origin; default: `admin.url`.
   * @throws ConfigurationError for an origin that it must not have: that of a deployment, in production also another port of its host.
   */
  administration(options?: { readonly url?: string }): Middleware;
  /** The configuration with all defaults. */
  readonly configuration: Configuration;
  /** What the function `applySeed` calls. */
  applySeed(seed: Seed | undefined): Promise<void>;
  /** Finishes running requests and deliveries, for 30 seconds at most, and closes the storage. Safe to call twice. */
  close(): Promise<void>;
}

/** A service with the calls that only its own parts use. */
export interface InternalService extends SignInService {
  readonly accounts: Accounts & Invites & AccountInternals;
  readonly clients: Clients & ClientInternals;
  readonly directory: Directory & DirectoryInternals;
  readonly pages: Pages;
}

/** Documented in `start-service.ts`, which loads this module. */
export async function createSignInService(config: SignInServiceConfig): Promise<SignInService> {
  return withoutInternals(await createSignInServiceOver(config, openStorage, { warmsUp: true }));
}

/** The service as a host application gets it: internal calls, which return hashes, can't be reached. */
export function withoutInternals({ pages: _pages, ...service }: InternalService): SignInService {
  return {
    ...service,
    accounts: only<Accounts & Invites>(
      { ...accountTable.rows, verifyPassword: true, invite: true },
      service.accounts,
    ),
    clients: only<Clients>(clientTable.rows, service.clients),
    directory: only<Directory>(DIRECTORY_CALLS, service.directory),
    get provider() {
      return service.provider;
    },
  };
}

/** The object with these members only. */
function only<T extends object>(members: Readonly<Record<keyof T, unknown>>, object: T): T {
  return Object.fromEntries(Object.keys(members).map((name) => [name, object[name as keyof T]])) as T;
}

/**
 * {@link createSignInService} over a storage that the caller opens, with its internal calls: for the command line, and for
 * tests that observe or replace parts of it.
 * @param open gets the configuration with all defaults; the service closes what it returns.
 */
export async function createSignInServiceOver(
  config: SignInServiceConfig,
  open: OpenStorage,
  options?: StartOptions,
): Promise<InternalService> {
  return startService(readConfiguration(config), open, options);
}

type OpenStorage = (configuration: Configuration, onWarning: OnStoreWarning) => Promise<Storage>;

/** {@link createSignInServiceOver} for a configuration that has been read. */
export async function startService(
  configuration: Configuration,
  open: OpenStorage,
  { role = "server", ...options }: StartOptions = {},
): Promise<InternalService> {
  const logger = configuration.logger ?? createLogger();
  const storage = await open(configuration, (text, warning) => logger.warn({ warning }, text));
  return build(configuration, storage, { logger, role, ...options });
}

/**
 * The role of a process. A `server` writes what only servers need, such as the first keys and the client of the account
 * pages, and works in the background. A `command` writes only what it is asked to.
 */
type Role = "server" | "command";

/** How long running deliveries may take when the service closes. */
const DELIVERIES_DRAIN_MS = 30_000;
/** How long the removal of what has ended may take when a server closes. What is left is dead, and expires. */
const CLEANUP_DRAIN_MS = 30_000;
/** How often a command that waits for the clients of ended sessions looks whether it was interrupted. */
const LOOK_MS = 500;
/** How long before an administration token runs out the metrics count it. */
const TOKENS_ENDING_SECONDS = 7 * 24 * 60 * 60;

/** Options for the command line and test services only. */
interface StartOptions {
  /** Default: `server`. */
  readonly role?: Role | undefined;
  /** A command: ends its waiting for the clients of sessions that it has ended. */
  readonly interrupt?: AbortSignal | undefined;
  /** Whether to load in advance what hashes passwords. Default: it is loaded with the first sign-in. */
  readonly warmsUp?: boolean | undefined;
  /** Hashes passwords at the lowest cost that Argon2 accepts. Default `false`: at the cost of the configuration. */
  readonly cheapHashes?: boolean | undefined;
  /** Waits between two attempts to send a logout token. Default: a timer. */
  readonly pause?: Pause | undefined;
  /** The kinds and settings of clients. Default: those that every service has. */
  readonly clientRows?: ClientRows | undefined;
  /** Called with each new instance of oidc-provider, before it serves. */
  readonly onProvider?: ((provider: Provider, configuration: Configuration) => void) | undefined;
}

async function build(
  configuration: Configuration,
  storage: Storage,
  {
    logger,
    role,
    interrupt,
    warmsUp = false,
    cheapHashes,
    pause,
    clientRows,
    onProvider,
  }: StartOptions & {
    readonly role: Role;
    readonly logger: Logger;
  },
): Promise<InternalService> {
  const isServer = role === "server";
  // What is opened last is closed first.
  const open = new AsyncDisposableStack();
  open.defer(() => storage.close());
  try {
    const keys = await loadServiceKeys(configuration, storage, { mustExist: !isServer });
    open.defer(() => keys.signing.stop());
    const { sealer } = keys;
    const telemetry =
      isServer && configuration.telemetry
        ? await (await import("../core/telemetry.ts")).openTelemetry((text) => logger.warn(text))
        : undefined;
    const base = createStorageServices({ configuration, storage, sealer, logger, telemetry });
    const { clock, events, audit, outages, onWarning } = base;
    open.defer(() => audit.close());
    await checkStart(base, { isServer });
    const notifier = await createNotifier(base, { opensQueue: isServer ? "at once" : "when needed" });
    // If the start fails, it may have opened a connection to the queue.
    open.defer(() => notifier.stop(0));
    const tokens = createTokens(base);
    const measured: MeasuredProcess = {
      info: processInfo(configuration, "server", sealer),
      droppedLines: () => droppedLines(logger),
      lostAudit: () => audit.lost(),
      isQueueUp: () => notifier.isUp(),
      signingKeys: async () => signingSince(await keys.signing.list()),
      tokensEnding: () => tokens.endingWithin(TOKENS_ENDING_SECONDS),
      known: {
        endpoints: endpointNames(configuration),
        limits: Object.keys(RATE_LIMITS),
        mails: MAIL_KINDS,
        providers: configuration.providers.map(({ key }) => key),
        documentHosts: documentHosts(configuration.clients.metadataDocuments),
      },
    };
    const metrics = createMetrics(events, storage, measured, undefined, telemetry);
    open.defer(() => metrics.close());
    // Accounts and the HTTP side depend on each other: account changes end sessions, whose clients get a logout token.
    let http: Services | undefined;
    let closing: Promise<void> | undefined;
    const signingProvider = () => http!.currentProvider().provider;
    const backchannel = createBackchannelLogout(signingProvider, events, onWarning, pause);
    const below = createAccountServices(
      {
        ...base,
        keys,
        backchannel,
        onMail: () => notifier.wakeMail(),
        onDeliveries: () => notifier.wake(),
      },
      { isCheap: cheapHashes, onHashed: (timing) => metrics.hashing(timing) },
      {
        ...(clientRows && { clientRows }),
        createDocuments:
          configuration.clients.metadataDocuments &&
          (await import("../accounts/documents/kept-copies.ts")).createDocuments,
      },
    );
    const { accounts, clients, directory, documents, cleanup, passwords, webhooks } = below;
    open.defer(() => webhooks.close());
    open.defer(() => passwords.close());
    open.defer(() => accounts.settled());
    open.defer(() => backchannel.stop());
    const upstream = createUpstream(base);
    open.defer(() => upstream.close());
    open.defer(async () => {
      if (isServer) await cleanup.settled(CLEANUP_DRAIN_MS);
      // Nobody else continues what a command has begun.
      else
        while (!((await cleanup.settled(LOOK_MS)) && (await backchannel.settled(LOOK_MS))))
          if (interrupt?.aborted) break;
    });
    // If this fails, the first sign-in that is affected reports it.
    const warmedUp = warmsUp ? passwords.warm().catch(() => undefined) : undefined;
    if (isServer) await putInternalClients(configuration, clients, onWarning);
    const logRequest = createRequestLog(logger, keys.networks);
    const onRequest = (request: HandledRequest): void => {
      request.span?.end(request);
      logRequest(request);
    };
    http = createHttpServices(
      {
        ...below,
        backchannel,
        upstream,
        onProvider: onProvider && ((provider) => onProvider(provider, configuration)),
      },
      {
        notifications: notifier.notifications,
        onRequest(request) {
          metrics.request(request);
          onRequest(request);
        },
      },
    );
    const { currentProvider } = http;
    const { invite, list, find, send, withdraw } = http.invitations;
    const routes = createRoutes(http);
    const operators = createOperators(below);
    const health = () =>
      storageHealth(storage, {
        // Notifications and mail wait in the storage, so without them a server still signs people in.
        ...notifier.health("server"),
        sessions: { required: false, ask: async () => keptSessions(storage.watch, clock) },
        requests: {
          required: false,
          ask: async () => ({ ok: true, detail: routes.proxySigns().join("; ") }),
        },
      });
    const calls = {
      accounts: { ...accounts, invite },
      invitations: { list, find, send, withdraw },
      clients,
      directory,
      documents: createDocumentClients(below),
      notifications: notifier.notifications,
      audit: createAuditLog(base),
      keys: createKeys(keys, () => storage.secrets.read()),
      tokens: tokens.calls,
      operators: operators.calls,
      health,
    };
    const administration = createServiceAdministration(http, {
      calls,
      tokens,
      operators,
      health,
      onRequest,
    });
    if (isServer) {
      const history = await watchHistory(
        storage.watch,
        outages("looking whether the storage has gone back"),
        ({ what, fix }) => logger.error(`${what}: ${fix}`),
      );
      const background = [
        history,
        await announceProcess(storage.records, "server", outages("announcing this process")),
        startSweeper(storage, outages("removing what has expired")),
        startRepeating(REMOVAL_INTERVAL_MS, () => cleanup.removeDue(), outages("removing what was deleted")),
        ...(configuration.notifications.worker ? [startHashWrapping(base)] : []),
        ...(documents === undefined
          ? []
          : [
              startRepeating(
                DOCUMENTS_INTERVAL_MS,
                (signal) => documents.refreshDue(signal),
                outages("fetching the documents of clients that nobody has registered"),
              ),
            ]),
      ];
      open.defer(async () => void (await Promise.all(background.map((each) => each.stop()))));
      notifier.start();
      keys.signing.start(outages("looking at the signing keys"));
    }
    open.defer(
      async () =>
        void (await Promise.all([
          routes.drain(),
          administration.drain(),
          notifier.stop(DELIVERIES_DRAIN_MS),
        ])),
    );
    await warmedUp;
    if (isServer) sayPasskeysAreOff(base);
    return {
      routes: () => routes.middleware,
      ...calls,
      events,
      pages: http.pages,
      interactions: createInteractions(http, (ctx) => routes.locate(ctx)),
      get provider() {
        return currentProvider().provider;
      },
      administration: (options) => administration.middleware(options),
      configuration,
      applySeed: async (seed) => {
        const { applySeed } = await import("./seed.ts");
        await applySeed(below, seed);
      },
      metrics: () => metrics.text(),
      close: () => (closing ??= open.disposeAsync()),
    };
  } catch (error) {
    await open.disposeAsync();
    throw error;
  }
}

/** The endpoints of both deployments, each once. */
function endpointNames({ deployments: { oauth2, openid } }: Configuration): readonly string[] {
  const all = [oauth2, openid].flatMap((each) => (each === undefined ? [] : endpointsOf(each)));
  return [...new Set(all.map(({ name }) => name))];
}

/** The keys that sign now, and since when they have existed. Those of the configuration have no times. */
function signingSince(list: readonly SigningKey[]): { readonly alg: string; readonly created_at: number }[] {
  return list.flatMap(({ alg, state, published_at }) =>
    state === "signing" && published_at !== null ? [{ alg, created_at: published_at }] : [],
  );
}

const SWEEP_INTERVAL_MS = 30_000;
const SWEEP_BATCH_RECORDS = 500;
const REMOVAL_INTERVAL_MS = 10_000;
/** How often is looked which documents are due. Each is fetched once a day. */
const DOCUMENTS_INTERVAL_MS = 60 * 60_000;

/** Deletes expired records in the background, in small batches. */
export function startSweeper(storage: Pick<Storage, "sweep">, outage: Outage): Repeating {
  return startRepeating(
    SWEEP_INTERVAL_MS,
    async (signal) => {
      while (!signal.aborted && (await storage.sweep(SWEEP_BATCH_RECORDS)) === SWEEP_BATCH_RECORDS);
    },
    outage,
  );
}
