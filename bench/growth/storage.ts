/** The storages that grow: an SQLite file or a PostgreSQL database, with a service on it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import Koa from "koa";
import { Client } from "pg";
import { pino } from "pino";
import { openStores } from "../../adapters/open.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { SHARED_KINDS } from "../../records/directory/directory-kinds.ts";
import { createSignInServiceOver, type SignInService } from "../../lib/service.ts";
import { type Storage, storageOver, WATCHED_KINDS } from "../../records/storage.ts";
import type { BenchPostgres } from "../postgres.ts";
import { basic, CALLBACK, CLIENT, PERSON, ROOMY_LIMITS } from "../servers/people.ts";
import { CREDENTIALS, SIGNING_SECRET } from "../servers/notices.ts";
import { filledForm, signInOver } from "../session.ts";
import { openWire } from "../wire.ts";
import { type Bulk, postgresBulk, sqliteBulk } from "./bulk.ts";
import type { Backend, Work } from "./sizes.ts";
import { postgresStructures, sqliteStructures, type Structures } from "./structures.ts";

/** A storage with a service in this process. No worker delivers. */
export interface GrowingStorage {
  readonly backend: Backend;
  readonly store: RecordStore;
  readonly storage: Storage;
  readonly service: SignInService;
  /** The URL at which the service answers. */
  readonly base: string;
  /** What it has done so far. */
  work(): Promise<Work>;
  close(): Promise<void>;
}

/** Every account is assigned to both, and both are notified about changes. */
export const SERVICES = ["1", "2"] as const;

const clock = { now: Date.now };
const SECRETS = [Buffer.alloc(32, 1).toString("base64")];

/** A browser and an application of a person. */
export interface SignedInPerson {
  /** The `Cookie` header of the browser. */
  readonly cookie: string;
  readonly refreshToken: string;
}

async function askForToken(base: string, fields: Readonly<Record<string, string>>): Promise<string> {
  const answer = await fetch(`${base}/oauth2/token`, {
    method: "POST",
    headers: { authorization: basic() },
    body: new URLSearchParams(fields),
  });
  const tokens = (await answer.json()) as { readonly refresh_token?: string };
  if (tokens.refresh_token === undefined) throw new Error(`no tokens: ${answer.status}`);
  return tokens.refresh_token;
}

/**
 * Signs in, and exchanges the code.
 * @param who a cookie, or what to type into the form.
 */
export async function signedIn(
  base: string,
  who: Readonly<Record<"cookie", string>> | Readonly<Record<"username" | "password", string>>,
): Promise<SignedInPerson> {
  const query = { client_id: CLIENT.client_id, response_type: "code", redirect_uri: CALLBACK };
  const wire = await openWire(Number(new URL(base).port));
  const { code, cookie } = await signInOver(
    wire,
    `${base}/oauth2/authorize?${new URLSearchParams(query).toString()}`,
    (html) => filledForm(html, "cookie" in who ? PERSON : who),
    "cookie" in who ? who.cookie : "",
  );
  wire.close();
  const fields = { grant_type: "authorization_code", code, redirect_uri: CALLBACK };
  return { cookie, refreshToken: await askForToken(base, fields) };
}

/** Refreshes the tokens. */
export async function refreshed(base: string, { refreshToken }: SignedInPerson): Promise<void> {
  await askForToken(base, { grant_type: "refresh_token", refresh_token: refreshToken });
}

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
  await signedIn(base, PERSON);
  await accounts.update(sub, { name: "Augusta" });
}

/** SQLite reads a page, and writes one to its log, with a call of the system. Linux counts them; elsewhere, nothing is counted. */
async function sqliteWork(): Promise<Work> {
  const text = await readFile("/proc/self/io", "utf8").catch(() => "");
  const figure = (name: string): number => Number(new RegExp(`^${name}: (\\d+)$`, "mu").exec(text)?.[1] ?? 0);
  const reads = figure("syscr");
  return { used: reads, reads, written: figure("wchar"), serverCpu: 0 };
}

/** @param postgres must have loaded `pg_stat_statements`. */
async function postgresWork(postgres: BenchPostgres, url: string): Promise<Pick<Address, "work" | "close">> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
  return {
    async work() {
      const { rows } = await client.query<{ used: string; reads: string; written: string }>(
        `SELECT sum(shared_blks_hit + shared_blks_read) AS used, sum(shared_blks_read) AS reads, pg_current_wal_insert_lsn() - '0/0' AS written
         FROM pg_stat_statements`,
      );
      return {
        used: Number(rows[0]?.used),
        reads: Number(rows[0]?.reads),
        written: Number(rows[0]?.written),
        serverCpu: postgres.cpuTime(),
      };
    },
    close: () => client.end(),
  };
}

/** A storage of one backend. */
export interface Address {
  readonly backend: Backend;
  readonly address: string;
  /** Fills it past the service, which has created its tables. */
  bulk(): Bulk | Promise<Bulk>;
  structures(): Promise<Structures>;
  /** What the storage has done so far. */
  work(): Promise<Work>;
  close(): Promise<void>;
}

/** Opens a storage with a service over it. */
export async function openGrowing(at: Address): Promise<GrowingStorage> {
  const { backend, address } = at;
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
      logger: pino({ level: "error" }, pino.destination(2)),
      rateLimits: ROOMY_LIMITS,
      notifications: { worker: false, allowedReceivers: ["127.0.0.1"] },
    },
    async () => storage,
  );
  const answer = new Koa().use(service.routes()).callback();
  server.on("request", (request, response) => void answer(request, response));
  if ((await storage.directory.findAccountByName(PERSON.email)) === undefined)
    await useOnce({ service }, base);
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => void server.close(resolve));
    await service.close();
  };
  return { backend, store: main, storage, service, base, work: () => at.work(), close };
}

/** @param name unique for each backend. */
export async function addressOf(
  backend: Backend,
  name: string,
  { folder, postgres }: { readonly folder: string; readonly postgres: BenchPostgres },
): Promise<Address> {
  if (backend === "SQLite") {
    const file = join(folder, `${name}.db`);
    return {
      backend,
      address: `sqlite:${file}`,
      bulk: () => sqliteBulk(file),
      structures: () => sqliteStructures(file),
      work: sqliteWork,
      close: async () => undefined,
    };
  }
  const address = await postgres.newDatabase(`growth_${name}`);
  return {
    backend,
    address,
    bulk: () => postgresBulk(address),
    structures: () => postgresStructures(address),
    ...(await postgresWork(postgres, address)),
  };
}
