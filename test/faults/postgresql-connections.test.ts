/** The connections of a server process while its PostgreSQL fails in every way, and the end of the process. */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { Client } from "pg";
import { freePorts } from "../examples/processes.ts";
import { configuration, type Served, Servers } from "../examples/servers.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";

const PATIENCE = 240_000;
/** Of the pool, and the one that listens. */
const MOST = 11;
/** Milliseconds in which a process ends after SIGTERM: what runs needs up to five seconds, and so does the last write. */
const ENDING = 15_000;
/** Milliseconds for which PostgreSQL is away: several attempts to listen fail. */
const AWAY = 3_000;
/** Requests at the same time, more than the pool has connections. */
const CALLERS = 20;

let postgres: OwnPostgres;
const servers = new Servers();

beforeAll(async () => {
  postgres = await openOwnPostgres();
});
afterEach(() => servers.stop());
afterAll(async () => {
  await servers.leave();
  await postgres.close();
});

interface Connection {
  readonly pid: number;
  readonly query: string;
}

/** What PostgreSQL says about the connections of the service to this database. */
async function connectionsTo(url: string): Promise<Connection[]> {
  const client = new Client({ connectionString: url, application_name: "test" });
  await client.connect();
  try {
    const text =
      "SELECT pid, query FROM pg_stat_activity WHERE application_name = 'sign-in-service' AND datname = current_database()";
    return (await client.query<Connection>(text)).rows;
  } finally {
    await client.end();
  }
}

const isListening = ({ query }: Connection): boolean => query.startsWith("LISTEN");

/** Waits until a lost connection is replaced, and longer than another one would need. */
async function settled(url: string): Promise<Connection[]> {
  for (;;) {
    const found = await connectionsTo(url);
    if (found.some(isListening)) break;
    await pause(50);
  }
  await pause(1_500);
  return connectionsTo(url);
}

async function serve(): Promise<Served & { readonly storage: string }> {
  const storage = await postgres.newDatabase();
  const port = await freePorts();
  const url = `http://127.0.0.1:${port}`;
  const keys = { secrets: [Buffer.alloc(32, "fixed for this test only").toString("base64")] };
  const server = servers.run(["--config", servers.write({ ...configuration(url), port, storage, keys })]);
  await server.until(/listening on/);
  return { server, url, port, storage };
}

/** Requests that need the storage, one after the other from each caller, until the signal. @returns what was answered. */
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
      await pause(20);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, call));
  return answers;
}

/** Ends the backends of the service as an administrator does. */
async function strike(url: string): Promise<void> {
  const client = new Client({ connectionString: url, application_name: "test" });
  client.on("error", () => undefined);
  await client.connect();
  const text =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sign-in-service'";
  await client.query(text);
  await client.end();
}

describe("a process and its PostgreSQL", () => {
  it(
    "there are never more connections than the pool's and one, whatever happens to the server",
    async () => {
      const { server, url, storage } = await serve();
      const over = new AbortController();
      const loaded = load(url, over.signal);
      const faults: readonly (() => Promise<void>)[] = [
        async () => {
          await postgres.kill();
          await pause(AWAY);
          await postgres.start();
        },
        async () => {
          for (let turn = 0; turn < 5; turn += 1) {
            await strike(storage);
            await pause(200);
          }
        },
        // PostgreSQL itself restarts when one of its processes is killed.
        async () => {
          const listener = (await settled(storage)).find(isListening);
          if (listener !== undefined) process.kill(listener.pid, "SIGKILL");
          await pause(500);
        },
        async () => {
          postgres.pause();
          await pause(AWAY);
          postgres.resume();
        },
      ];
      for (const fault of [...faults, ...faults]) {
        await fault();
        const found = await untilAnswered(() => settled(storage));
        expect(found.filter(isListening)).toHaveLength(1);
        expect(found.length).toBeLessThanOrEqual(MOST);
      }
      over.abort();
      expect(await loaded).toEqual(new Set([400, 503]));
      expect((await fetch(`${url}/health`)).status).toBe(200);
      await expect(server.stop()).resolves.toBe(0);
      await expect(connectionsTo(storage)).resolves.toEqual([]);
    },
    PATIENCE,
  );

  it.each([
    { name: "is up", begin: async () => undefined, end: async () => undefined },
    { name: "is down", begin: () => postgres.kill(), end: () => postgres.start() },
    { name: "stands still", begin: async () => postgres.pause(), end: async () => postgres.resume() },
  ])(
    "the process ends within seconds after SIGTERM while the server $name",
    async ({ begin, end }) => {
      const { server, url } = await serve();
      const over = new AbortController();
      const loaded = load(url, over.signal);
      await pause(500);
      await begin();
      try {
        await pause(AWAY);
        const began = performance.now();
        await expect(server.stop()).resolves.toBe(0);
        expect(performance.now() - began).toBeLessThan(ENDING);
      } finally {
        await end();
        over.abort();
        await loaded;
      }
    },
    PATIENCE,
  );
});

/** PostgreSQL refuses connections while it recovers. */
async function untilAnswered<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch {
      await pause(100);
    }
  }
}
