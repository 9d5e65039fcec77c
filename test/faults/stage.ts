/** A service on a real server and a real database file, with a storage that tests can observe. */
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import Koa from "koa";
import { pino } from "pino";
import { openStorage } from "../../records/storage.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Account } from "../../accounts/operations/accounts.ts";
import { createSignInServiceOver, type SignInService } from "../../lib/service.ts";
import { createPasswords } from "../../accounts/passwords/passwords.ts";
import { WatchedStorage } from "./watched-storage.ts";
import { defaults } from "../../config/schema.ts";

/** What is in the database: table → its rows as JSON, in their order. */
export type Dump = Readonly<Record<string, readonly string[]>>;

export interface Credentials {
  readonly client_id: string;
  readonly client_secret: string;
}

export const PASSWORD = "correct horse battery";
/** The `sub` of the operator of the delivery console. Tests that need the account create it. */
export const OPERATOR = "3f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f";
export const CALLBACK = "http://127.0.0.1:9/callback";

/** The clients, each of a service of its own. */
const CLIENTS = {
  news: { service: "1", password_grant: true },
  // The window is still open when a fault is over on a busy machine.
  rotating: { service: "2", password_grant: true, refresh_tokens: { rotate: true, reuseWindow: 300 } },
  sliding: { service: "3", password_grant: true, refresh_tokens: { sliding: true } },
  stranger: { service: "4", first_party: false },
} as const;

export type ClientName = keyof typeof CLIENTS;

export interface Stage {
  readonly oauth2: string;
  readonly openid: string;
  /** The database, where it is SQLite. */
  readonly file: string;
  readonly service: SignInService;
  readonly storage: WatchedStorage;
  readonly clients: Readonly<Record<ClientName, Credentials>>;
  /** Everything that was logged. */
  readonly log: string[];
  /** A new account without assignments; its password is {@link PASSWORD}. */
  person(): Promise<Account & { readonly username: string }>;
  /** Everything that is stored, including audit records that were still buffered. */
  dump(): Promise<Dump>;
  close(): Promise<void>;
}

/** A limit that no test reaches by accident. */
const ROOM = { points: 100_000, seconds: 900 };

function plenty(): NonNullable<SignInServiceConfig["rateLimits"]> {
  return {
    signIn: { accountAndAddress: ROOM, account: ROOM, address: ROOM },
    passwordGrant: { accountAndClient: ROOM, account: ROOM, client: ROOM },
    clientSecret: ROOM,
    interactions: ROOM,
    authorizations: ROOM,
  };
}

/** Records by their kind, each as a line of JSON. */
function dumpOf(database: DatabaseSync): Dump {
  const all = database.prepare("SELECT kind, key, value, version FROM records ORDER BY kind, key").all();
  const lines = all.map(({ kind, key, value, version }) => {
    const line = JSON.stringify({ key, version, value: JSON.parse(String(value)) as unknown });
    return [String(kind), line] as const;
  });
  const kinds = [...new Set(lines.map(([kind]) => kind))];
  return Object.fromEntries(
    kinds.map((kind) => [kind, lines.filter(([other]) => other === kind).map(([, line]) => line)]),
  );
}

async function registerClients(service: SignInService): Promise<Stage["clients"]> {
  const entries = Object.entries(CLIENTS).map(async ([name, { service: key, ...rules }]) => {
    await service.directory.services.put(key, { name });
    const client = { name, service: key, redirect_uris: [CALLBACK], ...rules };
    return [name, await service.clients.register(client)] as const;
  });
  return Object.fromEntries(await Promise.all(entries)) as Stage["clients"];
}

/** Starts everything; `config` wins over the stage's own settings. */
export async function openStage(config: Partial<SignInServiceConfig> = {}): Promise<Stage> {
  const folder = await mkdtemp(join(tmpdir(), "sign-in-faults-"));
  const file = join(folder, "sign-in.db");
  const app = new Koa();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const oauth2 = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const openid = `${oauth2}/openid`;
  const log: string[] = [];
  let storage: WatchedStorage | undefined;
  const service = await createSignInServiceOver(
    {
      deployments: { oauth2: { url: oauth2 }, openid: { url: openid } },
      storage: `sqlite:${file}`,
      logger: pino({ level: "trace" }, { write: (line) => void log.push(line) }),
      rateLimits: plenty(),
      operators: { [OPERATOR]: "administrator" },
      // Otherwise discovery asks the storage now and then whether a client needs it.
      features: { dpop: true },
      // Codes are used after a fault is over.
      lifetimes: { authorizationCode: 600 },
      // Its storage calls would come between those that are counted.
      notifications: { worker: false },
      ...config,
    },
    async (configuration) => {
      storage = new WatchedStorage(await openStorage(configuration));
      return storage.storage;
    },
  );
  app.use(service.routes());
  const handle = app.callback();
  server.on("request", (req, res) => storage?.inRequest(() => void handle(req, res)));
  const clients = await registerClients(service);
  // Hashed once: the tests need many accounts.
  const passwordHash = createPasswords(defaults.passwords).hash(PASSWORD);
  let reader: DatabaseSync | undefined;
  let people = 0;
  return {
    oauth2,
    openid,
    file,
    service,
    storage: storage!,
    clients,
    log,
    async person() {
      people += 1;
      const username = `person${people}`;
      const account = await service.accounts.import({
        email: `${username}@example.com`,
        username,
        password_hash: await passwordHash,
        name: "Ada",
      });
      return { ...account, username };
    },
    async dump() {
      // Reading the audit log writes the records that are still buffered.
      await service.audit.list({ limit: 1 });
      return dumpOf((reader ??= new DatabaseSync(file, { readOnly: true })));
    },
    async close() {
      reader?.close();
      server.close();
      server.closeAllConnections();
      await service.close();
      await rm(folder, { recursive: true });
    },
  };
}
