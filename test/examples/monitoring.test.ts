/** What the bundled server and the worker tell of themselves, and to whom. */
import { randomUUID } from "node:crypto";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, createServer as createNetServer } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import { createApplication } from "../../examples/server/application.ts";
import { createSignInService } from "../../lib/index.ts";
import { startProxy } from "../hosting/host.ts";
import { freePorts, type Running, start } from "./processes.ts";
import { configuration, Room } from "./room.ts";

const TOKEN = "a-token-of-the-operator.0123456789";
const DETAILS = { ok: true, parts: { storage: { ok: true, latency: expect.any(Number), detail: "" } } };
const LOCAL = { HOST: "127.0.0.1" };

const room = new Room();
const workers: Running[] = [];
afterEach(async () => {
  await Promise.all(workers.splice(0).map((each) => each.stop("SIGKILL")));
  await room.stop();
});
afterAll(() => room.leave());

interface Told {
  readonly server: Running;
  readonly url: string;
  /** Of health and metrics; empty when there is none. */
  readonly aside: string;
}

/** A server with these `metrics`. */
async function serve(metrics?: object, args: readonly string[] = []): Promise<Told> {
  const port = await freePorts();
  const url = `http://127.0.0.1:${port}`;
  const file = room.write({ ...configuration(url), storage: `sqlite:./${randomUUID()}.db`, port, metrics });
  const server = room.run(["--config", file, ...args], { env: LOCAL });
  await server.until(/listening on/);
  const [, own] = /health and metrics on port (\d+)/.exec(server.said()) ?? [];
  return { server, url, aside: own === undefined ? "" : `http://127.0.0.1:${own}` };
}

const bearer = (token: string): RequestInit => ({ headers: { authorization: `Bearer ${token}` } });

/** Everything that a stranger can see of an answer. */
async function seen(url: string, init?: RequestInit): Promise<unknown[]> {
  const answer = await fetch(url, init);
  const headers = [...answer.headers].filter(([name]) => !/^(?:date|connection|keep-alive)$/.test(name));
  return [answer.status, await answer.text(), headers];
}

describe("the public port", () => {
  it("says in /health whether all is well, and nothing else [D-HEALTH-1]", async () => {
    const { url } = await serve({ port: 0 });
    const answer = await fetch(`${url}/health`);
    expect([answer.status, await answer.text()]).toEqual([200, '{"ok":true}']);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect((await fetch(`${url}/health`, { method: "HEAD" })).status).toBe(200);
    expect((await fetch(`${url}/health`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${url}/health/`)).status).toBe(404);
  });

  it("has no /metrics, for a request of this machine that a proxy has passed on in silence as for any [D-HEALTH-2]", async () => {
    const { url } = await serve({ port: 0 });
    const proxy = await startProxy({ to: () => url });
    const unknown = await seen(`${url}/no-such-page`);
    for (const address of [`${url}/metrics`, `${proxy.url}/metrics`]) {
      expect(await seen(address)).toEqual(unknown);
      expect(await seen(address, bearer(""))).toEqual(unknown);
      expect(await seen(address, bearer("undefined"))).toEqual(unknown);
    }
    expect(unknown[0]).toBe(404);
    await proxy.close();
  });

  it("has /metrics for those who send the token; for all others it is as if it were not there [D-HEALTH-2]", async () => {
    const { url } = await serve({ token: TOKEN });
    const answer = await fetch(`${url}/metrics`, bearer(TOKEN));
    expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "no-store"]);
    expect(await answer.text()).toContain("sign_in_token_responses_total");
    expect((await fetch(`${url}/metrics?token=${TOKEN}`, bearer(TOKEN))).status).toBe(200);
    const unknown = await seen(`${url}/no-such-page`);
    for (const authorization of [
      "",
      "Bearer",
      "Bearer ",
      `Bearer ${TOKEN}x`,
      `Bearer x${TOKEN}`,
      `Bearer ${TOKEN.slice(0, -1)}`,
      `Bearer ${TOKEN.toUpperCase()}`,
      `Bearer ${TOKEN} ${TOKEN}`,
      `Bearer ${TOKEN}, Bearer ${TOKEN}`,
      `Basic ${btoa(`:${TOKEN}`)}`,
      TOKEN,
      `Bearer ${"x".repeat(10_000)}`,
      "Bearer \u00ff",
    ]) {
      expect(await seen(`${url}/metrics`, { headers: { authorization } })).toEqual(unknown);
    }
    expect(await seen(`${url}/metrics?access_token=${TOKEN}`)).toEqual(unknown);
    expect((await fetch(`${url}/metrics`, { ...bearer(TOKEN), method: "POST" })).status).toBe(404);
    // Details stay where they are, with the token too.
    expect(await (await fetch(`${url}/health`, bearer(TOKEN))).text()).toBe('{"ok":true}');
  });
});

describe("the port of its own", () => {
  it("tells metrics and every part of the health, on the loopback [D-HEALTH-3]", async () => {
    const { aside } = await serve({ port: 0 });
    const health = await fetch(`${aside}/health`);
    expect([health.status, await health.json()]).toEqual([
      200,
      { ok: true, parts: expect.objectContaining(DETAILS.parts) },
    ]);
    const metrics = await fetch(`${aside}/metrics?x`);
    expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(await metrics.text()).toContain("sign_in_token_responses_total");
    expect((await fetch(`${aside}/metrics`, { method: "HEAD" })).status).toBe(200);
    for (const path of ["", "/", "/metrics/", "/account", "/oauth2/authorize?client_id=news"]) {
      expect((await fetch(aside + path)).status).toBe(404);
    }
    const post = await fetch(`${aside}/metrics`, { method: "POST", body: "x".repeat(100_000) });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  it("wants the token when there is one [D-HEALTH-3]", async () => {
    const { url, aside } = await serve({ port: 0, token: TOKEN });
    for (const path of ["/metrics", "/health"]) {
      const refused = await fetch(aside + path);
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      expect((await fetch(aside + path, bearer(`${TOKEN}.`))).status).toBe(401);
      expect((await fetch(aside + path, bearer(TOKEN))).status).toBe(200);
    }
    expect((await fetch(`${url}/metrics`, bearer(TOKEN))).status).toBe(200);
  });

  it("is where --metrics-port says, before the file", async () => {
    const port = await freePorts();
    const { aside } = await serve({ port: 0 }, ["--metrics-port", `${port}`]);
    expect(aside).toBe(`http://127.0.0.1:${port}`);
    await room.stop();
    expect((await serve(undefined, ["--metrics-port", `${port}`])).aside).toBe(aside);
    for (const wrong of ["", "x", "-1", "65536"]) {
      const { code, said } = await room.refused(["--config", "config.json", "--metrics-port", wrong]);
      expect([code, said.split("\n").length]).toEqual([2, 2]);
    }
    await expect(room.refused(["--metrics-port", "1"])).resolves.toEqual({
      code: 2,
      said: "--metrics-port needs --config. See --help.\n",
    });
  });

  it("that is in use, or not an address of this machine, stops the start with one sentence", async () => {
    const taken = createNetServer();
    await new Promise<void>((resolve) => void taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    const own = await freePorts();
    const refused = (metrics: object): Promise<unknown> => {
      const file = room.write({ ...configuration(`http://127.0.0.1:${own}`), port: own, metrics });
      return room.refused(["--config", file], { env: LOCAL });
    };
    await expect(refused({ port })).resolves.toEqual({
      code: 1,
      said: `Port ${port} is in use: choose another one with metrics.port in the configuration or --metrics-port N.\n`,
    });
    await expect(refused({ port: 0, host: "192.0.2.1" })).resolves.toEqual({
      code: 1,
      said: "The address 192.0.2.1 (metrics.host in the configuration) is not one of this machine.\n",
    });
    await expect(refused({ port: own })).resolves.toEqual({
      code: 1,
      said: expect.stringMatching(new RegExp(`^Port ${own} is in use: [^\\n]+\\n$`)),
    });
    await new Promise((resolve) => void taken.close(resolve));
  });

  it("ends with the server, whatever is open on it", async () => {
    const { server, aside } = await serve({ port: 0 });
    await fetch(`${aside}/health`);
    const silent = connect(Number(new URL(aside).port), "127.0.0.1");
    silent.on("error", () => undefined);
    await new Promise((resolve) => void silent.once("connect", resolve));
    await expect(server.stop()).resolves.toBe(0);
    silent.destroy();
  });
});

describe("a worker", () => {
  it("tells the same on a port of its own, and ends with it [D-HEALTH-3]", async () => {
    const storage = `sqlite:${join(room.folder, "worker.db")}`;
    const metrics = { port: 0, token: TOKEN };
    const file = room.write({ ...configuration("http://127.0.0.1:3000"), storage, metrics });
    // The keys are made by the first process that opens the database.
    const worker = start("examples/cluster/worker.ts", { args: ["--config", file], cwd: room.folder });
    workers.push(worker);
    await worker.until(/delivering/);
    const [, port] = /health and metrics on port (\d+)/.exec(worker.said()) ?? [];
    const aside = `http://127.0.0.1:${port}`;
    expect((await fetch(`${aside}/metrics`)).status).toBe(401);
    expect(await (await fetch(`${aside}/metrics`, bearer(TOKEN))).text()).toContain(
      "sign_in_delivery_attempts_total",
    );
    expect(await (await fetch(`${aside}/health`, bearer(TOKEN))).json()).toMatchObject(DETAILS);
    const args = ["--config", file, "--metrics-port", port ?? ""];
    const second = start("examples/cluster/worker.ts", { args, cwd: room.folder });
    workers.push(second);
    expect([await second.ended, second.said()]).toEqual([
      1,
      `Port ${port} is in use: choose another one with metrics.port in the configuration or --metrics-port N.\n`,
    ]);
    await expect(worker.stop()).resolves.toBe(0);
  });
});

describe("/health on the public port", () => {
  it("looks at the storage at most once a second, however many ask, and says 503 when a part is down [D-HEALTH-1]", async () => {
    let now = 1_000_000;
    let looks = 0;
    const service = await createSignInService({
      deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
      storage: "sqlite::memory:",
      logger: pino({ level: "silent" }),
      clock: { now: () => now },
    });
    const counted = {
      ...service,
      health: () => {
        looks += 1;
        return service.health();
      },
    };
    const answer = createApplication(counted, pino({ level: "silent" })).callback();
    const server: Server = createServer((request, response) => void answer(request, response));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/health`;
    const many = async (): Promise<unknown[]> => {
      const answers = await Promise.all(Array.from({ length: 50 }, () => fetch(url)));
      const told = answers.map(async (each) => `${each.status} ${await each.text()}`);
      return [...new Set(await Promise.all(told))];
    };
    try {
      expect([await many(), looks]).toEqual([['200 {"ok":true}'], 1]);
      now += 999;
      expect([await many(), looks]).toEqual([['200 {"ok":true}'], 1]);
      now += 1;
      expect([await many(), looks]).toEqual([['200 {"ok":true}'], 2]);
      await service.close();
      now -= 3_600_000;
      expect([await many(), looks]).toEqual([['503 {"ok":false}'], 3]);
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
      await service.close();
    }
  });
});
