/** SIGHUP: a server under load changes its configuration without losing a request. */
import { readdirSync, readlinkSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../../testing/browser/browser.ts";
import { freePorts, type Running, start } from "../../examples/processes.ts";
import { configuration, SECRET, Servers } from "../../examples/servers.ts";
import { rounds } from "../../rounds.ts";
import { BACKENDS, newStorage } from "../../servers/storage.ts";

const servers = new Servers();
const workers: Running[] = [];
const loads: Load[] = [];
afterEach(async () => {
  await Promise.all(loads.splice(0).map((load) => load.stop()));
  await Promise.all(workers.splice(0).map((each) => each.stop("SIGKILL")));
});

const RELOADED = "the configuration is reloaded";
const CLOSED = "the service before the reload has finished";
/** High enough for the load of the test, which comes from one address. */
const ROOM = { points: 1_000_000, seconds: 900 };
const PERSON = { grant_type: "password", username: "ada", password: "analytical-engine" };
const CLIENT = { client_id: "news", client_secret: SECRET };

type Config = Record<string, unknown> & { readonly seed: { readonly clients: readonly object[] } };

/** A server on free ports, and the file of its configuration. */
interface Reloaded {
  readonly server: Running;
  readonly url: string;
  readonly aside: string;
  readonly config: Config;
}

/** @param more of the configuration. */
async function serve(more: object = {}): Promise<Reloaded> {
  const port = await freePorts();
  const url = `http://127.0.0.1:${port}`;
  const config = {
    ...configuration(url),
    ...(BACKENDS.includes("sqlite") ? { storage: `sqlite:./${port}.db` } : await newStorage()),
    port,
    metrics: { port: 0 },
    rateLimits: { interactions: ROOM, clientSecret: ROOM },
    ...more,
  } as unknown as Config;
  const server = servers.run(["--config", servers.write(config)]);
  await server.until(/listening on/);
  const [, aside] = /health and metrics on port (\d+)/.exec(server.output()) ?? [];
  return { server, url, aside: `http://127.0.0.1:${aside}`, config };
}

/** Sends SIGHUP, and returns the lines that the server logs until it has reloaded or refused to. */
async function hangUp(server: Running): Promise<readonly string[]> {
  const before = server.output().length;
  process.kill(server.pid, "SIGHUP");
  let said: readonly string[];
  do {
    await pause(10);
    said = messages(server.output().slice(before));
  } while (!said.some((line) => line.includes("the configuration is ")));
  // A warning comes right after.
  await pause(50);
  return messages(server.output().slice(before));
}

function messages(output: string): readonly string[] {
  const lines = output.split("\n").filter((line) => line.startsWith("{") && line.endsWith("}"));
  return lines
    .map((line) => JSON.parse(line) as { readonly level: number; readonly msg: string })
    .filter(({ msg }) => msg !== "request" && msg !== CLOSED && !msg.startsWith("passkeys are off"))
    .map(({ level, msg }) => `${level === 30 ? "" : `${level} `}${msg}`);
}

function token(url: string, fields: Readonly<Record<string, string>>): Promise<Response> {
  return fetch(`${url}/oauth2/token`, { method: "POST", body: new URLSearchParams(fields) });
}

/** Sends requests of all kinds, some at a time, until it is stopped. */
class Load {
  readonly failures: string[] = [];
  count = 0;
  #isOver = false;
  #work: Promise<unknown> = Promise.resolve();

  static async start({ url, aside }: Reloaded): Promise<Load> {
    const load = new Load();
    loads.push(load);
    const tokens = await (await token(url, { ...CLIENT, ...PERSON })).json();
    const { access_token, refresh_token } = tokens as Record<string, string>;
    const headers = { authorization: `Bearer ${access_token}` };
    const refresh = { ...CLIENT, grant_type: "refresh_token", refresh_token: refresh_token ?? "" };
    const kinds: readonly (() => Promise<Response>)[] = [
      () => fetch(`${url}/health`),
      () => fetch(`${url}/openid/.well-known/openid-configuration`),
      () => fetch(`${url}/resources/userinfo?client_id=news`, { headers }),
      () => token(url, refresh),
      () => fetch(`${url}/oauth2/authorize?client_id=news&response_type=code`, { redirect: "manual" }),
      () => fetch(`${aside}/health`),
      () => fetch(`${aside}/metrics`),
    ];
    load.#work = Promise.all(kinds.map((send) => load.#repeat(send)));
    return load;
  }

  async #repeat(send: () => Promise<Response>): Promise<void> {
    while (!this.#isOver) {
      try {
        const answer = await send();
        const text = await answer.text();
        if (answer.status !== 200 && answer.status !== 303) this.failures.push(`${answer.status} ${text}`);
      } catch (error) {
        this.failures.push(String(Reflect.get(Object(error), "cause") ?? error));
      }
      this.count += 1;
    }
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#work;
  }
}

/** How often the process has opened its database. */
function databases({ pid }: Running): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((name) => {
    try {
      return /\.db(?:-wal|-shm)?$/.test(readlinkSync(join(folder, name)));
    } catch {
      return false;
    }
  }).length;
}

/**
 * Waits until each service that was replaced is closed. SQLite keeps the descriptors of one of them for the next service,
 * because closing them would end the locks of the present one.
 */
async function untilClosed(server: Running, opened: number): Promise<void> {
  const count = (line: string): number => server.output().split(line).length - 1;
  const most = 2 * opened || 1;
  // A reload that waited for another one opens the database again, and closes it. The time limit of the test is the end of this.
  while (count(CLOSED) < count(RELOADED) || databases(server) >= most) await pause(20);
}

async function loginPage(url: string): Promise<string> {
  const browser = new Browser();
  await browser.get(`${url}/oauth2/authorize?client_id=news&response_type=code`);
  return browser.html;
}

const withSecrets = (...secrets: unknown[]): object => ({ keys: { secrets } });

describe("SIGHUP", () => {
  it("changes the theme, limits and clients without losing a request, and closes the old service", async () => {
    const reloaded = await serve();
    const { server, url, config } = reloaded;
    const opened = databases(server);
    const load = await Load.start(reloaded);
    const person = new Browser({ stopAt: "http://127.0.0.1:3001/" });
    await person.get(`${url}/oauth2/authorize?client_id=news&response_type=code&state=kept`);

    const theme = { ...config, interactions: { theme: { name: "Northwind Trails" } } };
    servers.write(theme);
    expect(await hangUp(server)).toEqual([RELOADED]);
    expect(await loginPage(url)).toContain("Northwind Trails");
    // A sign-in that began before the reload continues.
    await person.submit(person.form("password"), { username: "ada", password: "analytical-engine" });
    expect(person.location?.searchParams.get("state")).toBe("kept");

    const clients = [
      ...config.seed.clients,
      { ...config.seed.clients[0], client_id: "video", client_secret: `${SECRET}, too` },
    ];
    const seeded = { ...theme, seed: { ...config.seed, clients } };
    servers.write(seeded);
    expect((await token(url, { ...PERSON, client_id: "video", client_secret: SECRET })).status).toBe(400);
    expect(await hangUp(server)).toEqual([RELOADED]);
    const video = { client_id: "video", client_secret: `${SECRET}, too` };
    expect((await token(url, { ...PERSON, ...video })).status).toBe(200);

    // Once limited, a client is refused even with the right secret.
    const guess = async (): Promise<number> => {
      for (let attempt = 0; attempt < 3; attempt += 1)
        await token(url, { ...PERSON, ...video, client_secret: "a wrong one" });
      return (await token(url, { ...PERSON, ...video })).status;
    };
    expect(await guess()).toBe(200);
    servers.write({
      ...seeded,
      rateLimits: { interactions: ROOM, clientSecret: { points: 2, seconds: 900 } },
    });
    expect(await hangUp(server)).toEqual([RELOADED]);
    expect(await guess()).toBe(400);

    await load.stop();
    expect(load.failures).toEqual([]);
    expect(load.count).toBeGreaterThan(50);
    await untilClosed(server, opened);
    await expect(server.stop()).resolves.toBe(0);
  }, 60_000);

  it("with a wrong configuration is one line in the log, and changes nothing", async () => {
    const reloaded = await serve();
    const { server, url, config } = reloaded;
    const load = await Load.start(reloaded);
    const wrong: readonly (readonly [unknown, RegExp])[] = [
      [
        "{",
        /^50 the configuration is not reloaded: config\.json is not valid JSON: line 1, column 2: [^\n]+$/,
      ],
      [
        { ...config, stroage: "x", lifetimes: { accessToken: 0 } },
        /: config\.lifetimes\.accessToken: .*; config\.stroage: unknown key/,
      ],
      [{ ...config, seed: { services: { "1": {} } } }, /: config\.seed\.services\.1/],
      [{ ...config, interactions: { views: ["./none"] } }, /: config\.interactions\.views: /],
      [
        { ...config, keys: { secrets: [Buffer.alloc(32, 9).toString("base64")] } },
        /^50 the configuration is not reloaded: /,
      ],
    ];
    for (const [value, sentence] of wrong) {
      servers.write(value);
      expect(await hangUp(server)).toEqual([expect.stringMatching(sentence)]);
    }
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(await loginPage(url)).not.toContain("Northwind");
    servers.write({ ...config, interactions: { theme: { name: "Northwind Trails" } } });
    expect(await hangUp(server)).toEqual([RELOADED]);
    expect(await loginPage(url)).toContain("Northwind Trails");
  }, 60_000);

  it("with secrets that don't fit the storage is refused: the old service goes on, and log and metric say so [D-SECRETS-6]", async () => {
    const [old, fresh, foreign] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte).toString("base64"));
    const { server, url, aside, config } = await serve(withSecrets(old));
    servers.write({ ...config, ...withSecrets(fresh, old) });
    const [reloaded, ...warnings] = (await hangUp(server)).toReversed();
    expect(reloaded).toBe(RELOADED);
    expect(warnings).toEqual([expect.stringContaining("run sign-in-service keys reseal before you remove")]);
    for (const [secrets, why] of [
      [[old, fresh], /the first of keys\.secrets is [0-9a-f]{12}, which [0-9a-f]{12} has replaced/i],
      [[old], /the storage needs [0-9a-f]{12}, which keys\.secrets lacks/i],
      [[foreign], /the storage needs [0-9a-f]{12}, [0-9a-f]{12}, which keys\.secrets lacks/i],
    ] as const) {
      servers.write({ ...config, ...withSecrets(...secrets) });
      expect(await hangUp(server)).toEqual([expect.stringMatching(why)]);
      expect((await token(url, { ...CLIENT, ...PERSON })).status).toBe(200);
    }
    const metrics = await (await fetch(`${aside}/metrics`)).text();
    expect(metrics).toContain('sign_in_reloads_total{result="refused"} 3\n');
    for (const secret of [old, fresh, foreign]) expect(server.output()).not.toContain(secret);
  }, 60_000);

  it("does not give an attacker new tries: counters outlive a reload of the configuration [D-LIMIT-7]", async () => {
    const { server, url, config } = await serve();
    const wrong = { ...CLIENT, ...PERSON, password: "a wrong guess" };
    const tries = async (count: number): Promise<readonly string[]> => {
      const answers: string[] = [];
      for (let index = 0; index < count; index += 1) {
        const { headers } = await token(url, wrong);
        answers.push(headers.has("retry-after") ? "limited" : "wrong");
      }
      return [...new Set(answers)];
    };
    expect(await tries(10)).toEqual(["wrong"]);
    expect(await tries(1)).toEqual(["limited"]);
    servers.write({ ...config, interactions: { theme: { name: "Northwind Trails" } } });
    expect(await hangUp(server)).toEqual([RELOADED]);
    expect(await tries(1)).toEqual(["limited"]);
    // A higher limit counts from where the old one was.
    const passwordGrant = { accountAndClient: { points: 12, seconds: 900 } };
    servers.write({ ...config, rateLimits: { ...(config["rateLimits"] as object), passwordGrant } });
    expect(await hangUp(server)).toEqual([RELOADED]);
    expect(await tries(2)).toEqual(["wrong"]);
    expect(await tries(1)).toEqual(["limited"]);
  }, 60_000);

  it("names what needs a restart, keeps its old value, and reloads the rest", async () => {
    const { server, url, aside, config } = await serve();
    servers.write({
      ...config,
      port: 3999,
      host: "127.0.0.2",
      storage: "sqlite:./other.db",
      queue: "redis://127.0.0.1:1",
      metrics: { port: 9, host: "127.0.0.2" },
      interactions: { theme: { name: "Northwind Trails" } },
    });
    const line =
      "40 restart the process to change port, host, storage, queue, metrics.port, metrics.host: it goes on with the old value";
    // Again, to see that the old values are remembered.
    expect(await hangUp(server)).toEqual([RELOADED, line]);
    expect(await hangUp(server)).toEqual([RELOADED, line]);
    expect(await loginPage(url)).toContain("Northwind Trails");
    expect((await token(url, { ...CLIENT, ...PERSON })).status).toBe(200);
    expect((await fetch(`${aside}/health`)).status).toBe(200);
    expect(readdirSync(servers.folder)).not.toContain("other.db");
    servers.write({
      ...config,
      metrics: { ...Object(config["metrics"]), token: "a-token-of-16-characters" },
    });
    expect(await hangUp(server)).toEqual([RELOADED]);
    expect((await fetch(`${aside}/health`)).status).toBe(401);
  }, 60_000);

  it("lets the old service finish a request that is under way", async () => {
    const { server, url, config } = await serve();
    const body = new URLSearchParams({ ...CLIENT, ...PERSON }).toString();
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    let answer = "";
    socket.setEncoding("utf8").on("data", (chunk: string) => (answer += chunk));
    const closed = new Promise((resolve) => void socket.once("close", resolve));
    const head = `POST /oauth2/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n`;
    await new Promise<void>((resolve) => void socket.write(head + body.slice(0, 20), () => resolve()));
    await fetch(`${url}/health`);
    const opened = databases(server);
    servers.write({ ...config, lifetimes: { accessToken: 77 } });
    expect(await hangUp(server)).toEqual([RELOADED]);
    expect(await (await token(url, { ...CLIENT, ...PERSON })).json()).toMatchObject({ expires_in: 77 });
    expect(server.output()).not.toContain(CLOSED);
    socket.write(body.slice(20));
    await closed;
    expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*"expires_in":36000/);
    await untilClosed(server, opened);
  }, 60_000);

  it("many times at once ends with the last configuration, and leaves nothing behind", async () => {
    const reloaded = await serve();
    const { server, url, config } = reloaded;
    const opened = databases(server);
    const load = await Load.start(reloaded);
    const times = rounds(12, 100);
    for (let time = 1; time <= times; time += 1) {
      servers.write({ ...config, interactions: { theme: { name: `Theme ${time}.` } } });
      process.kill(server.pid, "SIGHUP");
      if (time % 3 === 0) await pause(20);
    }
    while (!(await loginPage(url)).includes(`Theme ${times}.`)) await pause(20);
    await load.stop();
    expect(load.failures).toEqual([]);
    await untilClosed(server, opened);
    // A stop during a reload.
    process.kill(server.pid, "SIGHUP");
    await expect(server.stop()).resolves.toBe(0);
  }, 120_000);

  it("reloads nothing if the storage is in memory", async () => {
    const port = await freePorts();
    const url = `http://127.0.0.1:${port}`;
    const config = { ...configuration(url), storage: "sqlite::memory:", port };
    const server = servers.run(["--config", servers.write(config)]);
    await server.until(/listening on/);
    servers.write({ ...config, interactions: { theme: { name: "Northwind Trails" } } });
    expect(await hangUp(server)).toEqual([
      "50 the configuration is not reloaded: the storage is in memory, and its data would be lost",
    ]);
    expect((await token(url, { ...CLIENT, ...PERSON })).status).toBe(200);
  });

  it("reloads a worker, which goes on with its metrics port", async () => {
    const config = { ...configuration("http://127.0.0.1:3000"), metrics: { port: 0 } };
    const file = servers.write({ ...config, ...(BACKENDS.includes("sqlite") ? {} : await newStorage()) });
    const worker = start("cli/main.ts", { args: ["worker", "--config", file], cwd: servers.folder });
    workers.push(worker);
    await worker.until(/delivering/);
    const opened = databases(worker);
    const [, port] = /health and metrics on port (\d+)/.exec(worker.output()) ?? [];
    expect(await hangUp(worker)).toEqual([RELOADED]);
    expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
    await untilClosed(worker, opened);
    await expect(worker.stop()).resolves.toBe(0);
  }, 30_000);
});
