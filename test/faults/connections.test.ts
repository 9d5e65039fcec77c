/** The connections of a server process while the servers behind it fail in every way, and the end of the process. */
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { Client } from "pg";
import { closing } from "../closing.ts";
import { freePorts } from "../examples/processes.ts";
import { configuration, type Served, Servers } from "../examples/servers.ts";
import { startOwnMongo } from "../servers/mongodb.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { connectionsOf } from "../servers/sockets.ts";

/** Milliseconds for one test. */
const TEST_TIMEOUT = 240_000;
/**
 * Milliseconds within which a process ends after SIGTERM: running requests need up to five seconds, and so does the
 * last write.
 */
const ENDS_WITHIN = 15_000;
/** Milliseconds for which the server is down: long enough for several attempts to connect to fail. */
const AWAY = 3_000;
/** Milliseconds after which a lost connection has been replaced, and a surplus one would have been opened. */
const SETTLED = 2_500;
/** Requests at the same time, more than a pool has connections. */
const CALLERS = 20;
/** Milliseconds that each caller waits after an answer: the callers overload the pool only while the server is away. */
const BETWEEN_REQUESTS = 500;

/** A server of the test's own, behind the service. */
interface Backend {
  /** The keys of the configuration that name it. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly port: number;
  /** The most connections that one process may have. */
  readonly most: number;
  kill(): Promise<unknown>;
  start(): Promise<unknown>;
  /** SIGSTOP, and SIGCONT. */
  pause(): void;
  resume(): void;
  close(): Promise<unknown>;
  /** Faults that only this kind of server has. */
  readonly faults?: readonly (() => Promise<void>)[];
  /** What else must hold once the service has recovered. */
  check?(): Promise<void>;
}

const keys = { secrets: [Buffer.alloc(32, "fixed for this test only").toString("base64")] };

/** Queries the database as an administrator, beside the service. */
async function ask<Row extends object>(url: string, text: string): Promise<readonly Row[]> {
  const client = new Client({ connectionString: url, application_name: "test" });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

const OF_SERVICE = "FROM pg_stat_activity WHERE application_name = 'sign-in-service'";

async function postgresql(): Promise<Backend> {
  const server = await openOwnPostgres();
  const storage = await server.newDatabase();
  const listeners = (): Promise<readonly { readonly pid: number }[]> =>
    ask(storage, `SELECT pid ${OF_SERVICE} AND query LIKE 'LISTEN%'`);
  return {
    ...server,
    config: { storage, keys },
    port: Number(new URL(storage).port),
    // Connections of the pool, and the one that listens.
    most: 11,
    faults: [
      async () => {
        for (let turn = 0; turn < 5; turn += 1) {
          await ask(storage, `SELECT pg_terminate_backend(pid) ${OF_SERVICE}`);
          await pause(200);
        }
      },
      // PostgreSQL itself restarts when one of its processes is killed.
      async () => {
        for (const { pid } of await listeners()) process.kill(pid, "SIGKILL");
        await pause(500);
      },
    ],
    async check() {
      await expect(listeners()).resolves.toHaveLength(1);
    },
  };
}

async function mongodb(): Promise<Backend> {
  const server = await startOwnMongo({ durable: true });
  const url = new URL(server.nextUrl());
  url.searchParams.set("maxPoolSize", "10");
  // Connections of the pool, and two with which the driver watches the server.
  return { ...server, config: { storage: url.href, keys }, port: Number(url.port), most: 12 };
}

/** @param most for each key of the configuration that a Redis can be. */
const redis = (key: "artifacts" | "queue", most: number) => async (): Promise<Backend> => {
  const server = await openOwnRedis(["--appendonly", "yes"]);
  return {
    ...server,
    config: { storage: "sqlite:./sign-in.db", [key]: server.url },
    port: Number(new URL(server.url).port),
    most,
    kill: () => server.stop(),
  };
};

/**
 * Sends requests that need the storage until the signal, one at a time for each caller. @returns the statuses of the
 * answers.
 */
async function load(url: string, signal: AbortSignal): Promise<ReadonlySet<number>> {
  const answers = new Set<number>();
  const headers = { authorization: "Bearer unknown" };
  const call = async (): Promise<void> => {
    while (!signal.aborted) {
      const answer = await fetch(`${url}/resources/userinfo?client_id=news`, { headers, signal }).catch(
        () => undefined,
      );
      if (answer !== undefined) answers.add(answer.status);
      await answer?.arrayBuffer().catch(() => undefined);
      await pause(BETWEEN_REQUESTS);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, call));
  return answers;
}

async function untilWell(url: string): Promise<void> {
  while (!(await fetch(`${url}/health`)).ok) await pause(100);
}

/** The servers of one backend, and the processes that use it. */
interface Used {
  readonly name: string;
  readonly backend: Backend;
  readonly serve: () => Promise<Served>;
}

const OPENED: readonly (readonly [name: string, open: () => Promise<Backend>])[] = [
  ["PostgreSQL", postgresql],
  ["MongoDB", mongodb],
  ["Redis of codes, tokens and sessions", redis("artifacts", 1)],
  ["Redis of the queue", redis("queue", 3)],
];
let all: readonly Used[];

beforeAll(async () => {
  all = await Promise.all(
    OPENED.map(async ([name, open]) => {
      const backend = closing(await open());
      const servers = new Servers();
      return {
        name,
        backend,
        async serve() {
          const port = await freePorts();
          const url = `http://127.0.0.1:${port}`;
          const file = servers.write({ ...configuration(url), port, ...backend.config });
          const server = servers.run(["--config", file]);
          await server.until(/listening on/);
          return { server, url, port };
        },
      };
    }),
  );
});

/** Does this with all backends at the same time: it waits for most of its time. */
async function withEach(work: (used: Used) => Promise<void>): Promise<void> {
  const done = await Promise.allSettled(all.map(work));
  const failures = done.flatMap((each, index) =>
    each.status === "rejected" ? [new Error(all[index]?.name, { cause: each.reason })] : [],
  );
  if (failures.length > 0)
    throw new AggregateError(
      failures,
      failures.map(({ message, cause }) => `${message}: ${String(cause)}`).join("\n"),
    );
}

describe("a process and its PostgreSQL, its MongoDB, and the Redis of its artifacts or its queue", () => {
  it(
    "there are never more connections than before, whatever happens to the server",
    () =>
      withEach(async ({ backend, serve }) => {
        const { server, url } = await serve();
        const over = new AbortController();
        const loaded = load(url, over.signal);
        const faults: readonly (() => Promise<void>)[] = [
          async () => {
            await backend.kill();
            await pause(AWAY);
            await backend.start();
          },
          async () => {
            backend.pause();
            await pause(AWAY);
            backend.resume();
          },
          ...(backend.faults ?? []),
        ];
        for (const fault of [...faults, ...faults]) {
          await fault();
          await untilWell(url);
          await pause(SETTLED);
          expect(connectionsOf(server.pid, backend.port)).toBeLessThanOrEqual(backend.most);
          expect(connectionsOf(server.pid, backend.port)).toBeGreaterThan(0);
          await backend.check?.();
        }
        over.abort();
        expect([400, 503]).toEqual(expect.arrayContaining([...(await loaded)]));
        await expect(server.stop()).resolves.toBe(0);
      }),
    TEST_TIMEOUT,
  );

  it.each<[state: string, begin: (backend: Backend) => unknown, end: (backend: Backend) => unknown]>([
    ["is up", () => undefined, () => undefined],
    ["is down", (backend) => backend.kill(), (backend) => backend.start()],
    ["stands still", (backend) => backend.pause(), (backend) => backend.resume()],
  ])(
    "the process ends within seconds after SIGTERM while the server %s",
    (_state, begin, end) =>
      withEach(async ({ backend, serve }) => {
        const { server, url } = await serve();
        const over = new AbortController();
        const loaded = load(url, over.signal);
        await pause(500);
        await begin(backend);
        try {
          await pause(AWAY);
          const began = performance.now();
          await expect(server.stop()).resolves.toBe(0);
          expect(performance.now() - began).toBeLessThan(ENDS_WITHIN);
        } finally {
          await end(backend);
          over.abort();
          await loaded;
        }
      }),
    TEST_TIMEOUT,
  );
});
