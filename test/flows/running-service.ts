/**
 * A service that really runs: Koa on a free port of the loopback, a storage, a directory, clients and accounts. It closes by
 * itself, and fails the test or the file if its log or Koa has errors.
 *
 * ```ts
 * const running = useService();
 * const news = relyingParty(running, "oauth2", NEWS);
 * ```
 */
import { expect } from "@jest/globals";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import Koa from "koa";
import { pino } from "pino";
import type { DeploymentsInput, SignInServiceConfig } from "../../config/input.ts";
import type { Account } from "../../accounts/operations/accounts.ts";
import { beforeTests, closing } from "../closing.ts";
import { applySeed } from "../../lib/index.ts";
import type { NewClient } from "../../accounts/clients/client-schema.ts";
import type { ClientRows } from "../../accounts/clients/client-settings.ts";
import type { Seed } from "../../lib/seed.ts";
import { BACKENDS, newStorage, type StorageConfig } from "../servers/storage.ts";
import { createSignInServiceOver, type SignInService } from "../../lib/service.ts";
import type { Pause } from "../../provider/sessions/backchannel-logout.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { followClock } from "../../testing/provider-clock.ts";
import type { ImportedAccount } from "../../accounts/account-schema.ts";

/** The browsers of the tests stop before this address. */
export const CALLBACK = "http://127.0.0.1:4000/callback";

/** A client with known credentials. */
export type KnownClient = NewClient & { readonly client_id: string; readonly client_secret: string };

/** First-party, of service "1", with all three grants. */
export const NEWS: KnownClient = {
  client_id: "news",
  client_secret: "the secret of the news, of 32 and more",
  name: "News",
  redirect_uris: [CALLBACK],
  service: "1",
  password_grant: true,
};

/** Needs a second factor. A test that uses it registers it. */
export const VAULT: KnownClient = {
  client_id: "vault",
  client_secret: "the secret of the vault, of 32 and more",
  name: "Vault",
  service: "1",
  redirect_uris: [CALLBACK],
  second_factor: "required",
};

/** First-party, of service "2", with two redirect addresses and standard error statuses. */
export const SHOP: KnownClient = {
  client_id: "shop",
  client_secret: "the secret of the shop, of 32 and more",
  name: "Shop",
  redirect_uris: ["http://127.0.0.1:4000/shop", "http://127.0.0.1:4000/shop?second=1"],
  service: "2",
  error_status: "standard",
};

/** A third party, of service "3". */
export const PARTNER: KnownClient = {
  client_id: "partner",
  client_secret: "the secret of the partner, of 32 and more",
  name: "Partner",
  redirect_uris: ["http://127.0.0.1:4000/partner"],
  service: "3",
  first_party: false,
};

/** Has every field of the profile. */
export const ADA: ImportedAccount & { readonly username: string; readonly password: string } = {
  email: "ada@example.com",
  email_verified: true,
  username: "ada",
  password: "the password of ada",
  name: "Ada",
  surname: "Lovelace",
  date_of_birth: "1990-12-10",
  gender: "female",
};

/** Has no other profile fields. */
export const BOB: ImportedAccount & { readonly username: string; readonly password: string } = {
  email: "bob@example.com",
  username: "bob",
  password: "the password of bob",
};

/** An operator, if the configuration has this `sub` in `operators`. */
export const OPERATOR: ImportedAccount & {
  readonly sub: string;
  readonly username: string;
  readonly password: string;
} = {
  sub: "3f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f",
  email: "operator@example.com",
  username: "operator",
  password: "the password of the operator",
};

const MANY = { points: 1_000_000, seconds: 900 };

type RateLimitsInput = NonNullable<SignInServiceConfig["rateLimits"]>;

/** Limits that are never reached. */
export const UNLIMITED: Required<RateLimitsInput> = {
  clientSecret: MANY,
  dpopProof: MANY,
  deviceRequests: MANY,
  deviceCodes: { account: MANY, address: MANY },
  interactions: MANY,
  authorizations: MANY,
  networks: {},
  registrations: MANY,
  changes: MANY,
  mail: {
    recipientAndCaller: MANY,
    recipientAndCallerDaily: MANY,
    recipient: MANY,
    recipientDaily: MANY,
    caller: MANY,
    device: MANY,
  },
  signIn: { accountAndAddress: MANY, account: MANY, address: MANY },
  passwordGrant: { accountAndClient: MANY, account: MANY, client: MANY },
};

/** One wrong password locks an account, except in known browsers. */
export const ONE_GUESS: RateLimitsInput = {
  ...UNLIMITED,
  signIn: { accountAndAddress: { points: 1, seconds: 900 }, account: MANY, address: MANY },
};

/** How a running service differs from the usual one. */
export interface RunningOptions {
  /** All but the deployments. Default: the storage in `TEST_STORAGE`, and high limits. */
  readonly config?: Omit<SignInServiceConfig, "deployments">;
  /** Default: the OAuth 2.0 deployment at the origin, the OpenID Connect one under `/openid`. */
  readonly deployments?: (origin: string) => DeploymentsInput;
  /** Gets the storage, and returns what the service uses in its place. */
  readonly storage?: (opened: Storage) => Storage;
  /** The same for the stores of its records. */
  readonly through?: (store: RecordStore) => RecordStore;
  /** What logout tokens do between two attempts. Default: they wait. */
  readonly pause?: Pause;
  /** Kinds and settings of clients. Default: those that every service has. */
  readonly clientRows?: ClientRows;
  /** Default: any free port. */
  readonly port?: number;
  /** Middleware of the host application, in front of the service's. */
  readonly host?: (application: Koa, service: SignInService) => void;
  /** Whether the test causes errors that the log has. Default: a log with errors fails it. */
  readonly logsErrors?: boolean;
}

export interface RunningService {
  readonly service: SignInService;
  readonly storage: Storage;
  /** Where it listens, such as `http://127.0.0.1:40123`. */
  readonly origin: string;
  /** Base URLs of the deployments; empty when there is none. */
  readonly oauth2: string;
  readonly openid: string;
  readonly ada: Account;
  readonly bob: Account;
  /** The log lines. */
  readonly log: readonly string[];
  /** Closes it before the end of the test or of the file. */
  close(): Promise<void>;
}

const SEED: Seed = {
  services: { 1: { name: "News" }, 2: { name: "Shop" }, 3: { name: "Partner" } },
  clients: [NEWS, SHOP, PARTNER],
  accounts: [ADA, BOB],
};

export async function listen(server: Server, wanted: number): Promise<string> {
  await new Promise<void>((resolve) => void server.listen(wanted, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An account of the seed. */
async function seeded(service: SignInService, email: string): Promise<Account> {
  const account = await service.accounts.findByLogin(email);
  if (account === undefined) throw new Error(`${email} is not there`);
  return account;
}

/** A storage for several services. On SQLite, it is a file in this folder. */
export async function storageIn(folder: string): Promise<StorageConfig> {
  const storage = await newStorage();
  return BACKENDS.includes("sqlite")
    ? { ...storage, storage: `sqlite:${join(folder, "sign-in.db")}` }
    : storage;
}

/** Starts a service whose oidc-provider follows `config.clock`, too, and which hashes at next to no cost by default. */
export const startWithClock = (
  config: SignInServiceConfig,
  open: typeof openStorage = openStorage,
  { pause, clientRows }: Pick<RunningOptions, "pause" | "clientRows"> = {},
): Promise<SignInService> =>
  createSignInServiceOver(config, open, {
    pause,
    clientRows,
    ...(config.clock !== undefined && { onProvider: followClock }),
    cheapHashes: config.passwords === undefined,
  });

/** Both deployments under the name `localhost`: browsers make no passkeys for IP addresses. */
export function onLocalhost(origin: string): DeploymentsInput {
  const base = origin.replace("127.0.0.1", "localhost");
  return { oauth2: { url: base }, openid: { url: `${base}/openid` } };
}

/** Codes of the errors of connections. */
const BROKEN = /^(?:HPE_|ECONNRESET|EPIPE|ERR_STREAM_)/;

/** The errors in a log. */
export const errorsIn = (log: readonly string[]): readonly string[] =>
  log.filter((line) => /"level":[56]0/.test(line));

/** Work in the background that was under way when a test moved the clock. It is tried again. */
const OVERTAKEN = /"work":.*"reason":"deadline"/;

/** A service for the tests of this block. */
export const useService = (options?: RunningOptions): RunningService =>
  beforeTests(() => startService(options));

/** Starts a service, which closes by itself at the end of the test or of the file. */
export async function startService(options: RunningOptions = {}): Promise<RunningService> {
  const { config = {}, storage: around = (opened) => opened } = options;
  const { promise: storage, resolve: onOpened } = Promise.withResolvers<Storage>();
  const open: typeof openStorage = async (configuration, onWarning) => {
    const used = around(await openStorage(configuration, onWarning, options.through));
    onOpened(used);
    return used;
  };
  // The base URLs contain the port, so the server listens first.
  // A process that stands still for a moment would close connections that the next requests are already on.
  const server = createServer({ keepAliveTimeout: 0 });
  const origin = await listen(server, options.port ?? 0);
  const deployments = options.deployments?.(origin) ?? {
    oauth2: { url: origin },
    openid: { url: `${origin}/openid` },
  };
  const log: string[] = [];
  const settings: SignInServiceConfig = {
    ...(await newStorage()),
    proxy: false,
    rateLimits: {
      clientSecret: UNLIMITED.clientSecret,
      interactions: UNLIMITED.interactions,
      authorizations: UNLIMITED.authorizations,
    },
    logger: pino({}, { write: (line: string) => void log.push(line) }),
    ...config,
    deployments,
  };
  const service = await startWithClock(settings, open, options);
  try {
    await applySeed(service, SEED);
  } catch (error) {
    server.close();
    await service.close();
    throw error;
  }
  const defects: unknown[] = [];
  const application = new Koa();
  application.on("error", (error: { readonly code?: string; readonly expose?: boolean }) => {
    // Koa reports answers that hosts throw, and connections that break before the request or after the response.
    if (error.expose !== true && !BROKEN.test(error.code ?? "")) defects.push(error);
  });
  options.host?.(application, service);
  application.use(service.routes());
  const answer = application.callback();
  server.on("request", (request, response) => void answer(request, response));
  let closed: Promise<void> | undefined;
  return closing({
    service,
    storage: await storage,
    origin,
    log,
    oauth2: deployments.oauth2?.url ?? "",
    openid: deployments.openid?.url ?? "",
    ada: await seeded(service, ADA.email),
    bob: await seeded(service, BOB.email),
    close: () =>
      (closed ??= (async () => {
        const ended = new Promise((resolve) => void server.close(resolve));
        server.closeAllConnections();
        await ended;
        await service.close();
        const isVirtual = config.clock?.virtual === true;
        const errors = errorsIn(log).filter((line) => !isVirtual || !OVERTAKEN.test(line));
        if (options.logsErrors !== true) expect([...errors, ...defects]).toEqual([]);
      })()),
  });
}
