/**
 * The driver's connections, each to the primary of an address. One server is taken as the primary. With Sentinel, more
 * than half of the sentinels are asked which server is; in a cluster, its nodes are asked which one serves the slot of the
 * store. All keys of a store are in one slot, so that one connection is enough there, too, and a command is never sent
 * twice, as the driver's own client for clusters does.
 */
import { readFileSync } from "node:fs";
import { createConnection, isIP, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import type { CommonRedisOptions, Redis, StandaloneConnectionOptions } from "ioredis";
import type { RedisAddress, RedisHost } from "../../config/redis-address.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { withTimeout } from "../../core/with-timeout.ts";
import { readNamed, readTlsFiles, withoutLineBreak } from "../address-files.ts";
import { reason } from "./faults.ts";

/** What a server answers when it is not the primary, or can't be. The connection is closed then, and the primary is looked for. */
export const NOT_HERE: RegExp = /\bREADONLY\b|^(?:MOVED|CLUSTERDOWN)\b/u;

/** The reason when the name in the address is wrong. */
export const UNKNOWN_PRIMARY = "UNKNOWN_PRIMARY";

/** For the server to close a connection, before the socket is destroyed. */
const CLOSE_TIMEOUT_MS = 200;
/** For one question about the primary, with its connection. */
const QUESTION_TIMEOUT_MS = 1000;
/** Between two searches for the primary. */
const SEARCH_INTERVAL_MS = 100;
/** Between two looks whether the sentinels have made another server the primary. */
const WATCH_INTERVAL_MS = 1000;

/** The driver's options for the address. */
type DriverOptions = Pick<CommonRedisOptions, "username" | "db" | "Connector"> &
  Pick<StandaloneConnectionOptions, "host" | "port" | "tls">;

type TlsFiles = Awaited<ReturnType<typeof readTlsFiles>>;

/**
 * Who connects. What is in files is read again for each connection, so that passwords and certificates can change while the
 * service runs. If a file can't be read at that moment, what it contained counts.
 */
export interface Login {
  readonly username: string | undefined;
  readonly password: () => string | undefined;
  /** `undefined`: without TLS. */
  readonly tls: (() => Promise<TlsFiles>) | undefined;
}

/** Who connects to the servers, and who asks the sentinels. */
export interface Logins {
  readonly servers: Login;
  readonly sentinels: Login;
}

/** The key of the configuration that contains the address. */
type Setting = "artifacts" | "queue";

/** @throws ConfigurationError for a file that can't be read. */
async function passwordOf(
  setting: Setting,
  given: string | undefined,
  [parameter, path]: readonly [parameter: string, path: string | undefined],
): Promise<Login["password"]> {
  if (path === undefined) return () => given;
  let known = await readNamed(setting, parameter, path);
  return () => {
    try {
      known = withoutLineBreak(readFileSync(path, "utf8"));
    } catch {
      // It may be replaced right now.
    }
    return known;
  };
}

/**
 * Reads the files of an address.
 * @throws ConfigurationError for a file that can't be used.
 */
export async function openLogins(setting: Setting, address: RedisAddress): Promise<Logins> {
  const { username, password, passwordFile, sentinel } = address;
  const paths = address.tls;
  let tls: Login["tls"];
  if (paths !== undefined) {
    const read = async (): Promise<TlsFiles> =>
      readTlsFiles(setting, paths, { ca: "ca_file", cert: "cert_file", key: "key_file" });
    let known = await read();
    tls = async () => (known = await read().catch(() => known));
  }
  return {
    servers: {
      username,
      password: await passwordOf(setting, password, ["password_file", passwordFile]),
      tls,
    },
    sentinels: {
      username: sentinel?.user,
      password: await passwordOf(setting, sentinel?.password, [
        "sentinel_password_file",
        sentinel?.passwordFile,
      ]),
      tls,
    },
  };
}

/**
 * Sends the writes of one tick to the socket together. A write costs Node.js more than the command in it: without this,
 * a code exchange takes a tenth more CPU.
 */
function combineWrites(socket: Socket): Socket {
  const write = socket.write.bind(socket) as (...values: unknown[]) => boolean;
  socket.write = (...values: unknown[]) => {
    if (socket.writableCorked === 0) {
      socket.cork();
      process.nextTick(() => socket.uncork());
    }
    return write(...values);
  };
  return socket;
}

/** A host name selects the certificate (SNI); an IP address can't. Either is verified against the certificate. */
function openSocket({ host, port }: RedisHost, tls: TlsFiles | undefined): Socket {
  if (tls === undefined) return createConnection({ host, port });
  return connectTls({ host, port, ...tls, ...(isIP(host) === 0 && { servername: host }) });
}

/** @param closed no further connections are opened once it is aborted. */
async function optionsFor(
  { username, password, tls }: Login,
  primary: Pick<Primary, "find" | "follow">,
  closed?: AbortSignal,
): Promise<Omit<DriverOptions, "host" | "port" | "db">> {
  const { AbstractConnector } = await import("ioredis");

  /**
   * Opens sockets. A TLS socket that is closed while its certificate is refused emits two errors. ioredis's own
   * connector listens for the first one only, so the second one would end the process.
   */
  class Connector extends AbstractConnector {
    /** @param options of the client, from which it takes the password whenever it connects. */
    constructor(options: unknown) {
      super(CLOSE_TIMEOUT_MS);
      Object.defineProperty(options, "password", { get: password, enumerable: true });
    }

    #checkOpen(): void {
      closed?.throwIfAborted();
      if (!this.connecting) throw new Error("Connection is closed.");
    }

    /** The driver gives up when this rejects. */
    async #find(report: (event: string, error: Error) => void): Promise<RedisHost> {
      for (;;) {
        try {
          return await primary.find();
        } catch (error) {
          this.#checkOpen();
          report("error", error as Error);
        }
        await pause(SEARCH_INTERVAL_MS);
        this.#checkOpen();
      }
    }

    override async connect(report: (event: string, error: Error) => void): Promise<Socket> {
      this.connecting = true;
      this.#checkOpen();
      await new Promise<void>((resolve) => process.nextTick(resolve));
      this.#checkOpen();
      const server = await this.#find(report);
      this.#checkOpen();
      const files = await tls?.();
      this.#checkOpen();
      const socket = openSocket(server, files);
      socket.on("error", (error) => (this.firstError ??= error));
      primary.follow(socket, server);
      return (this.stream = combineWrites(socket));
    }
  }

  return {
    Connector,
    ...(username !== undefined && { username }),
    // The driver only looks whether there are any.
    ...(tls && { tls: {} }),
  };
}

/**
 * Asks one server over a connection of its own.
 * @throws StorageUnavailable with the reason.
 */
export async function ask<T>(
  server: RedisHost,
  login: Login,
  what: string,
  question: (client: Redis) => Promise<T>,
): Promise<T> {
  const { Redis: Client } = await import("ioredis");
  const fixed = { find: () => Promise.resolve(server), follow: () => undefined };
  const client = new Client({
    ...server,
    ...(await optionsFor(login, fixed)),
    lazyConnect: true,
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout: QUESTION_TIMEOUT_MS,
    commandTimeout: QUESTION_TIMEOUT_MS,
  });
  let first: unknown;
  client.on("error", (error: unknown) => (first ??= error));
  const late = (): Error => new StorageUnavailable(`${what} did not answer`, { reason: "no answer" });
  try {
    return await withTimeout(
      QUESTION_TIMEOUT_MS,
      client.connect().then(() => question(client)),
      late,
    );
  } catch (error) {
    if (error instanceof StorageUnavailable) throw error;
    const why = reason(first ?? error);
    throw new StorageUnavailable(`${what} can't be asked (${why})`, { reason: why });
  } finally {
    client.disconnect();
  }
}

/** Replies with names and values in turn. */
export function fieldsOf(reply: unknown): ReadonlyMap<string, unknown> {
  const flat = Array.isArray(reply) ? (reply as unknown[]) : [];
  return new Map(flat.flatMap((name, at) => (at % 2 === 0 ? [[String(name), flat[at + 1]] as const] : [])));
}

/** The server's fields in HELLO, which every user may run. */
export async function helloFields(client: Redis): Promise<ReadonlyMap<string, unknown>> {
  return fieldsOf(await client.call("HELLO"));
}

/** What one sentinel or node says. */
interface Claim extends RedisHost {
  /** Greater after each failover. A sentinel that was cut off names the old primary with the old number. */
  readonly epoch: number;
}

/** Asks one sentinel. @throws StorageUnavailable */
export async function askSentinel(login: Login, server: RedisHost, name = ""): Promise<Claim> {
  const fields = fieldsOf(
    await ask(server, login, "a sentinel", async (client) => {
      try {
        return await client.call("SENTINEL", "MASTER", name);
      } catch (error) {
        if (reason(error) !== "ERR") throw error;
        throw new StorageUnavailable("the sentinels know no primary of this name", {
          reason: UNKNOWN_PRIMARY,
        });
      }
    }),
  );
  return {
    host: String(fields.get("ip")),
    port: Number(fields.get("port")),
    epoch: Number(fields.get("config-epoch")),
  };
}

/** Asks one node of a cluster for its slots, each with its primary first. @throws StorageUnavailable */
export async function askSlots(
  login: Login,
  server: RedisHost,
): Promise<
  readonly { readonly first: number; readonly last: number; readonly nodes: readonly RedisHost[] }[]
> {
  const slots = await ask(server, login, "a node of the cluster", async (client) => client.cluster("SLOTS"));
  return slots.map(([first, last, ...nodes]) => ({
    first,
    last,
    nodes: nodes.map(([host, port]: readonly [string | null, number, ...unknown[]]) => ({
      // A node that does not know its own address leaves it out.
      host: host === null || host === "" || host === "?" ? server.host : host,
      port,
    })),
  }));
}

/** The answers of more than half, or all that there are. @throws the first error if there is none. */
async function majority<T>(asked: readonly Promise<T>[]): Promise<readonly T[]> {
  const answers: T[] = [];
  const { promise: enough, resolve } = Promise.withResolvers<void>();
  const all = Promise.allSettled(
    asked.map(async (one) => {
      answers.push(await one);
      if (answers.length > asked.length / 2) resolve();
    }),
  );
  await Promise.race([enough, all]);
  if (answers.length === 0) await Promise.all(asked);
  return answers;
}

const keyOf = ({ host, port }: RedisHost): string => `${host} ${port}`;

/** Knows which server is the primary. */
export class Primary {
  readonly #address: RedisAddress;
  readonly #logins: Logins;
  readonly #key: string;
  /** Who is asked: those of the address, and in a cluster all nodes that the last answer named. */
  #asked: readonly RedisHost[];
  #slot: number | undefined;
  #epoch = 0;
  #finding: Promise<RedisHost> | undefined;
  readonly #followers = new Map<Socket, RedisHost>();
  #watch: NodeJS.Timeout | undefined;
  /** Which sentinel the watch asks next. */
  #next = 0;

  /** @param key in a cluster, the primary is that of the slot of this key. */
  constructor(address: RedisAddress, logins: Logins, key: string) {
    this.#address = address;
    this.#logins = logins;
    this.#key = key;
    this.#asked = address.hosts;
  }

  /** @throws StorageUnavailable if nobody knows it, or it does not answer. */
  find(): Promise<RedisHost> {
    if (this.#address.kind === "server") return Promise.resolve(this.#address.hosts[0]);
    return (this.#finding ??= this.#find().finally(() => (this.#finding = undefined)));
  }

  async #find(): Promise<RedisHost> {
    const claims = await majority(this.#asked.map((server) => this.#claimOf(server)));
    const candidates = new Map(
      claims.toSorted((one, other) => one.epoch - other.epoch).map((claim) => [keyOf(claim), claim]),
    );
    let problem: unknown;
    for (const { host, port, epoch } of [...candidates.values()].toReversed()) {
      try {
        await this.#check({ host, port });
        this.#epoch = epoch;
        return { host, port };
      } catch (error) {
        problem ??= error;
      }
    }
    throw problem;
  }

  #claimOf(server: RedisHost): Promise<Claim> {
    const { sentinel } = this.#address;
    if (sentinel === undefined) return this.#ofNode(server);
    return askSentinel(this.#logins.sentinels, server, sentinel.name);
  }

  async #ofNode(server: RedisHost): Promise<Claim> {
    this.#slot ??= await ask(server, this.#logins.servers, "a node of the cluster", async (client) =>
      client.cluster("KEYSLOT", this.#key),
    );
    const slots = await askSlots(this.#logins.servers, server);
    const slot = this.#slot;
    const [owner] = slots.find(({ first, last }) => first <= slot && slot <= last)?.nodes ?? [];
    if (owner === undefined)
      throw new StorageUnavailable("no node of the cluster serves the keys", { reason: "CLUSTERDOWN" });
    const known = [...this.#address.hosts, ...slots.flatMap(({ nodes }) => nodes)];
    this.#asked = [...new Map(known.map((node) => [keyOf(node), node])).values()];
    return { ...owner, epoch: 0 };
  }

  /** Sentinels name a primary that is down until they have made another one, and a node may not know the newest yet. */
  async #check(server: RedisHost): Promise<void> {
    const role = await ask(server, this.#logins.servers, "the primary", async (client) =>
      (await helloFields(client)).get("role"),
    );
    if (role !== "master")
      throw new StorageUnavailable("the server that should be the primary is a replica", {
        reason: "READONLY",
      });
  }

  /**
   * Closes a connection to a primary that lives on after the sentinels have replaced it. Nodes of a cluster need no such
   * watch: they stop by themselves when they are cut off.
   */
  follow(socket: Socket, server: RedisHost): void {
    if (this.#address.sentinel === undefined) return;
    this.#followers.set(socket, server);
    socket.once("close", () => {
      this.#followers.delete(socket);
      if (this.#followers.size === 0) clearInterval(this.#watch);
    });
    if (this.#followers.size === 1)
      this.#watch = setInterval(() => void this.#look(), WATCH_INTERVAL_MS).unref();
  }

  async #look(): Promise<void> {
    const sentinel = this.#asked[this.#next++ % this.#asked.length];
    try {
      if (sentinel === undefined || (await this.#claimOf(sentinel)).epoch <= this.#epoch) return;
      const now = keyOf(await this.find());
      for (const [socket, server] of this.#followers) if (keyOf(server) !== now) socket.destroy();
    } catch {
      // The next sentinel may know. A primary that works is not given up because of sentinels that don't.
    }
  }
}

/**
 * The driver's options.
 * @param of `key` is one of the keys, which are all in one slot if this is a cluster. No further connections are opened
 * once `closed` is aborted.
 * @throws ConfigurationError for a file of the address that can't be used.
 */
export async function driverOptions(of: {
  readonly setting: Setting;
  readonly address: RedisAddress;
  readonly key: string;
  readonly closed?: AbortSignal;
}): Promise<DriverOptions> {
  const { setting, address, key, closed } = of;
  const logins = await openLogins(setting, address);
  const primary = new Primary(address, logins, key);
  return { ...address.hosts[0], db: address.db, ...(await optionsFor(logins.servers, primary, closed)) };
}
