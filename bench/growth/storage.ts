/** The storages that grow: an SQLite file or a PostgreSQL database, with a service on it. */
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import Koa from "koa";
import { Client } from "pg";
import { pino } from "pino";
import { openStores } from "../../adapters/open.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { SHARED_KINDS } from "../../records/directory/directory-kinds.ts";
import { createSignInServiceOver, type SignInService } from "../../lib/service.ts";
import { type Storage, storageOver, WATCHED_KINDS } from "../../records/storage.ts";
import type { BenchPostgres } from "../postgres.ts";
import { basic, CALLBACK, CLIENT, PERSON } from "../servers/people.ts";
import { CREDENTIALS, SIGNING_SECRET } from "../servers/notices.ts";
import { signIn } from "../session.ts";

export const BACKENDS = ["SQLite", "PostgreSQL"] as const;
export type Backend = (typeof BACKENDS)[number];

/** A storage with a service in this process. No worker delivers. */
export interface GrowingStorage {
  readonly backend: Backend;
  readonly store: RecordStore;
  readonly storage: Storage;
  readonly service: SignInService;
  /** Bytes on disk, without the log. */
  bytes(): Promise<number>;
  close(): Promise<void>;
}

/** Every account is assigned to both, and both are notified about changes. */
export const SERVICES = ["1", "2"] as const;

const clock = { now: Date.now };
const SECRETS = [Buffer.alloc(32, 1).toString("base64")];

/** Signs in, gets tokens and changes the account of a new storage, so that it has a record of each kind. */
async function useOnce({ service }: Pick<GrowingStorage, "service">, base: string): Promise<void> {
  const { accounts, clients, directory } = service;
  for (const key of SERVICES) {
    const receiver = {
      url: "http://127.0.0.1:9/notify",
      ...CREDENTIALS,
      signing_secret: SIGNING_SECRET,
      types: ["PROFILE_CHANGED"] as const,
    };
    await directory.services.put(key, { name: key, receiver });
  }
  await clients.register({ ...CLIENT, name: "Benchmarks", service: SERVICES[0], redirect_uris: [CALLBACK] });
  const { sub } = await accounts.create({ ...PERSON, name: "Ada", surname: "Lovelace" });
  for (const key of SERVICES) await accounts.assign(sub, key);
  const query = { client_id: CLIENT.client_id, response_type: "code", redirect_uri: CALLBACK };
  const { code } = await signIn(`${base}/oauth2/authorize?${new URLSearchParams(query).toString()}`);
  const answer = await fetch(`${base}/oauth2/token`, {
    method: "POST",
    headers: { authorization: basic() },
    body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: CALLBACK }),
  });
  if (answer.status !== 200) throw new Error(`no tokens: ${await answer.text()}`);
  await accounts.update(sub, { name: "Augusta" });
}

/** Opens an empty storage and uses every part of it once. */
async function open(
  backend: Backend,
  address: string,
  bytes: GrowingStorage["bytes"],
): Promise<GrowingStorage> {
  const { main } = await openStores({
    storage: address,
    artifacts: address,
    clock,
    sharedKinds: SHARED_KINDS,
    watchedKinds: WATCHED_KINDS,
  });
  const storage = storageOver(main, { clock });
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const service = await createSignInServiceOver(
    {
      deployments: { oauth2: { url: base } },
      storage: address,
      keys: { secrets: SECRETS },
      logger: pino({ level: "warn" }, pino.destination(2)),
      notifications: { worker: false, allowedReceivers: ["127.0.0.1"] },
    },
    async () => storage,
  );
  const answer = new Koa().use(service.routes()).callback();
  server.on("request", (request, response) => void answer(request, response));
  const place: GrowingStorage = {
    backend,
    store: main,
    storage,
    service,
    bytes,
    close: () => service.close(),
  };
  await useOnce(place, base);
  server.closeAllConnections();
  await new Promise((resolve) => void server.close(resolve));
  return place;
}

function openSqlite(folder: string, name: string): Promise<GrowingStorage> {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name}.db`);
  return open("SQLite", `sqlite:${file}`, async () => {
    const database = new DatabaseSync(file, { timeout: 10_000 });
    try {
      // Data in the log counts too.
      database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      const figure = (pragma: string): number =>
        Number(Object.values(database.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]);
      return (figure("page_count") - figure("freelist_count")) * figure("page_size");
    } finally {
      database.close();
    }
  });
}

async function openPostgres(postgres: BenchPostgres): Promise<GrowingStorage> {
  const url = await postgres.newDatabase();
  return open("PostgreSQL", url, async () => {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      const { rows } = await client.query("SELECT pg_database_size(current_database()) AS bytes");
      return Number((rows[0] as { bytes: string }).bytes);
    } finally {
      await client.end();
    }
  });
}

/**
 * An empty storage that was used once.
 * @param name unique for each backend.
 */
export function openGrowing(
  backend: Backend,
  name: string,
  { folder, postgres }: { readonly folder: string; readonly postgres: BenchPostgres },
): Promise<GrowingStorage> {
  return backend === "SQLite" ? openSqlite(folder, name) : openPostgres(postgres);
}
