/** App processes on the same storage, behind a round-robin proxy. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pino } from "pino";
import { createProxy } from "../../examples/cluster/proxy.ts";
import { applySeed, createSignInService, type SignInService } from "../../lib/index.ts";
import { newFolder } from "../examples/processes.ts";
import type { Answer, Order } from "../faults/campaign/app.ts";
import type { Change, Outcome } from "../faults/campaign/change.ts";
import { Member } from "../faults/campaign/member.ts";
import { LIMITS, seedOf } from "../faults/load.ts";
import { openMongoServer } from "../servers/mongodb.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";

/** The storage that all processes share, beside a Redis: PostgreSQL, or MongoDB where `TEST_STORAGE` says so. */
const ON_MONGODB = process.env["TEST_STORAGE"]?.startsWith("mongodb") === true;

/** How many processes there are. */
const PROCESSES = 4;
/** Time-out of a test and of idle connections, so that none closes while the next request is sent on it. */
export const TEST_TIMEOUT_MS = 600_000;
/** The port of a process that has not started yet: connections to it are refused. */
const NOBODY = 1;

async function listening(server: Server): Promise<string> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What app.ts sends beside its answers to orders. */
type Message = "request" | { readonly port: number };

/** One app process. After a kill another one takes its place. */
export class App {
  /** How many requests it has received. */
  requests = 0;
  readonly member: Member;
  #port = NOBODY;
  #orders = 0;
  readonly #pending = new Map<number, (outcome: Outcome) => void>();

  constructor({ config, log, compiled }: { config: object; log: number; compiled: string }) {
    this.member = new Member({
      script: join(import.meta.dirname, "app.ts"),
      args: () => [JSON.stringify(config)],
      log,
      compiled,
      onMessage: (message) => this.#receive(message as Message | Answer),
      onGone: () => this.#gone(),
    });
  }

  /** Where it listens, or listened until it was killed. */
  get port(): number {
    return this.#port;
  }

  get isReady(): boolean {
    return this.member.isReady && this.#port !== NOBODY;
  }

  /** Makes this process change an account. `failed`: it reported a fault, or was killed before it could answer. */
  order(change: Change): Promise<Outcome> {
    this.#orders += 1;
    const order: Order = { number: this.#orders, change };
    return new Promise((resolve) => {
      this.#pending.set(order.number, resolve);
      if (this.isReady) this.member.send(order);
      else this.#gone();
    });
  }

  #receive(message: Message | Answer): void {
    if (message === "request") this.requests += 1;
    else if ("port" in message) this.#port = message.port;
    else {
      this.#pending.get(message.number)?.(message.outcome);
      this.#pending.delete(message.number);
    }
  }

  #gone(): void {
    for (const resolve of this.#pending.values()) resolve({ kind: "failed", code: "gone" });
    this.#pending.clear();
  }
}

/** Everything that a test of many processes needs. */
export class Cluster {
  readonly apps: readonly App[];
  /** The address of the proxy. */
  readonly url: string;
  /** On the same storage, in the process of the test. */
  readonly service: SignInService;
  readonly #close: () => Promise<void>;

  private constructor(parts: Pick<Cluster, "apps" | "url" | "service"> & { close: () => Promise<void> }) {
    ({ apps: this.apps, url: this.url, service: this.service, close: this.#close } = parts);
  }

  /** @param people who has an account, by their usernames. */
  static async open(people: readonly string[]): Promise<Cluster> {
    const mongo = ON_MONGODB ? await openMongoServer() : undefined;
    const postgres = ON_MONGODB ? undefined : await openOwnPostgres();
    const redis = await openOwnRedis();
    const folder = newFolder();
    const logFile = join(folder, "apps.log");
    const log = openSync(logFile, "a");
    const apps: App[] = [];
    const proxy = createServer({ keepAliveTimeout: TEST_TIMEOUT_MS });
    const url = await listening(proxy);
    const config = {
      deployments: { oauth2: { url: url }, openid: { url: `${url}/openid` } },
      storage: mongo?.nextUrl() ?? (await postgres?.newDatabase()) ?? "",
      artifacts: redis.url,
      queue: redis.url,
      keys: { secrets: [randomBytes(32).toString("base64")] },
      proxy: true,
      rateLimits: LIMITS,
      features: { dpop: true },
      // Codes are used much later.
      lifetimes: { authorizationCode: 600 },
      notifications: { worker: false },
    };
    const service = await createSignInService({ ...config, logger: pino({ level: "silent" }) });
    await applySeed(service, seedOf(people));
    for (let number = 0; number < PROCESSES; number += 1)
      apps.push(new App({ config, log, compiled: join(folder, "compiled") }));
    proxy.on("request", createProxy(apps));
    const cluster = new Cluster({
      apps,
      url,
      service,
      async close() {
        await Promise.all(apps.map(({ member }) => member.destroy()));
        proxy.close();
        proxy.closeAllConnections();
        await service.close();
        await redis.close();
        await mongo?.close();
        await postgres?.close();
        closeSync(log);
        const said = readFileSync(logFile, "utf8");
        if (said !== "") console.error(said.slice(0, 5000));
        rmSync(folder, { recursive: true });
      },
    });
    await cluster.untilReady();
    return cluster;
  }

  /** Resolves when all processes take requests. */
  async untilReady(): Promise<void> {
    while (this.apps.some(({ isReady }) => !isReady)) await pause(20);
  }

  close(): Promise<void> {
    return this.#close();
  }
}
