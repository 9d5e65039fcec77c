/** Health and metrics of the bundled server and the worker, and who can read them. */
import { randomUUID } from "node:crypto";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, createServer as createNetServer } from "node:net";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import { createApplication } from "../../../cli/server/application.ts";
import { createSignInServiceOver } from "../../../lib/service.ts";
import { openStorage } from "../../../records/storage.ts";
import { startProxy } from "../../hosting/host.ts";
import { freePorts, type Running, start } from "../../examples/processes.ts";
import { namedBlock, ROOT } from "../../examples/documents.ts";
import { configuration, SECRET, Servers } from "../../examples/servers.ts";

const TOKEN = "a-token-of-the-operator.0123456789";
const DETAILS = {
  ok: true,
  parts: { storage: { ok: true, required: true, latency: expect.any(Number), detail: "" } },
};
const LOCAL = { HOST: "127.0.0.1" };

const servers = new Servers();
const workers: Running[] = [];
afterEach(async () => {
  await Promise.all(workers.splice(0).map((each) => each.stop("SIGKILL")));
});

interface Served {
  readonly server: Running;
  readonly url: string;
  /** Origin of the metrics port; empty if there is none. */
  readonly aside: string;
}

/** Starts a server with these `metrics`. */
async function serve(metrics?: object, args: readonly string[] = []): Promise<Served> {
  const port = await freePorts();
  const url = `http://127.0.0.1:${port}`;
  const file = servers.write({
    ...configuration(url),
    storage: `sqlite:./${randomUUID()}.db`,
    port,
    metrics,
  });
  const server = servers.run(["--config", file, ...args], { env: LOCAL });
  await server.until(/listening on/);
  const [, own] = /health and metrics on port (\d+)/.exec(server.output()) ?? [];
  return { server, url, aside: own === undefined ? "" : `http://127.0.0.1:${own}` };
}

const bearer = (token: string): RequestInit => ({ headers: { authorization: `Bearer ${token}` } });

/** Everything that a caller can see in a response. */
async function responseOf(url: string, init?: RequestInit): Promise<unknown[]> {
  const answer = await fetch(url, init);
  const headers = [...answer.headers].filter(
    ([name]) => !/^(?:date|connection|keep-alive|x-request-id)$/.test(name),
  );
  return [answer.status, await answer.text(), headers];
}

/** Its status, once the whole response is here: a paused connection would never see that the server has ended. */
async function statusOf(url: string, init?: RequestInit): Promise<number> {
  const answer = await fetch(url, init);
  await answer.arrayBuffer();
  return answer.status;
}

describe("the public port", () => {
  it("says only in /health whether it works, and in /health/live that it answers [D-HEALTH-1, D-HEALTH-6]", async () => {
    const { url } = await serve({ port: 0 });
    const answer = await fetch(`${url}/health`);
    expect([answer.status, await answer.text()]).toEqual([200, '{"ok":true}']);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(await statusOf(`${url}/health`, { method: "HEAD" })).toBe(200);
    expect(await statusOf(`${url}/health`, { method: "POST" })).toBe(404);
    expect(await statusOf(`${url}/health/`)).toBe(404);
    expect(await (await fetch(`${url}/health/live`)).text()).toBe('{"ok":true}');
  });

  it("has no /metrics, not even for requests from this machine that a proxy may have forwarded [D-HEALTH-2]", async () => {
    const { url } = await serve({ port: 0 });
    const proxy = await startProxy({ to: () => url });
    const unknown = await responseOf(`${url}/no-such-page`);
    for (const address of [`${url}/metrics`, `${proxy.url}/metrics`]) {
      expect(await responseOf(address)).toEqual(unknown);
      expect(await responseOf(address, bearer(""))).toEqual(unknown);
      expect(await responseOf(address, bearer("undefined"))).toEqual(unknown);
    }
    expect(unknown[0]).toBe(404);
    await proxy.close();
  });

  it("has /metrics for requests with the token, and a 404 for all others [D-HEALTH-2]", async () => {
    const { url } = await serve({ token: TOKEN });
    const answer = await fetch(`${url}/metrics`, bearer(TOKEN));
    expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "no-store"]);
    expect(await answer.text()).toContain("sign_in_token_responses_total");
    expect(await statusOf(`${url}/metrics?token=${TOKEN}`, bearer(TOKEN))).toBe(200);
    const unknown = await responseOf(`${url}/no-such-page`);
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
      expect(await responseOf(`${url}/metrics`, { headers: { authorization } })).toEqual(unknown);
    }
    expect(await responseOf(`${url}/metrics?access_token=${TOKEN}`)).toEqual(unknown);
    expect(await statusOf(`${url}/metrics`, { ...bearer(TOKEN), method: "POST" })).toBe(404);
    // The details stay on the metrics port, even with the token.
    expect(await (await fetch(`${url}/health`, bearer(TOKEN))).text()).toBe('{"ok":true}');
  });
});

describe("the SDK of docs/operate/day-to-day/tracing.md", () => {
  it("gets spans and metrics of the bundled server, also those of its last moments [D-OTEL-8]", async () => {
    const sent: [path: string, body: string][] = [];
    const collector = createServer((request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
      request.on("end", () => {
        sent.push([request.url ?? "", body]);
        response.setHeader("Content-Type", "application/json").end("{}");
      });
    });
    await new Promise<void>((resolve) => void collector.listen(0, "127.0.0.1", resolve));
    const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
    servers.write(namedBlock("tracing.mjs").code, "tracing.mjs");
    symlinkSync(join(ROOT, "node_modules"), join(servers.folder, "node_modules"));
    const url = `http://127.0.0.1:${await freePorts()}`;
    const file = servers.write({
      ...configuration(url),
      storage: `sqlite:./${randomUUID()}.db`,
      port: Number(new URL(url).port),
      telemetry: true,
    });
    const server = servers.run(["--config", file], {
      env: {
        ...LOCAL,
        NODE_OPTIONS: `--import ${join(servers.folder, "tracing.mjs")}`,
        OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
      },
    });
    await server.until(/listening on/);
    const credentials = { client_id: "news", client_secret: SECRET };
    const person = { grant_type: "password", username: "ada", password: "analytical-engine" };
    const body = new URLSearchParams({ ...credentials, ...person });
    expect(await statusOf(`${url}/oauth2/token`, { method: "POST", body })).toBe(200);
    await expect(server.stop()).resolves.toBe(0);
    const textAt = (path: string): string =>
      sent.flatMap(([at, text]) => (at === path ? [text] : [])).join("");
    for (const name of ["POST /oauth2/token", "commit storage", "hash password", "service.name"])
      expect(textAt("/v1/traces")).toContain(JSON.stringify(name));
    expect(textAt("/v1/metrics")).toContain('"sign_in_token_responses_total"');
    expect(server.output()).not.toContain("no OpenTelemetry SDK");
    for (const secret of [person.password, SECRET, "127.0.0.1"])
      expect(textAt("/v1/traces") + textAt("/v1/metrics")).not.toContain(secret);
    await new Promise((resolve) => void collector.close(resolve));
  });
});

describe("the metrics port", () => {
  it("serves metrics and every part of the health on loopback [D-HEALTH-3, D-HEALTH-7]", async () => {
    const { aside } = await serve({ port: 0 });
    const health = await fetch(`${aside}/health`);
    expect([health.status, await health.json()]).toEqual([
      200,
      { ok: true, parts: expect.objectContaining(DETAILS.parts) },
    ]);
    const metrics = await fetch(`${aside}/metrics?x`);
    expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(await metrics.text()).toContain("sign_in_token_responses_total");
    expect(await statusOf(`${aside}/metrics`, { method: "HEAD" })).toBe(200);
    for (const path of ["", "/", "/metrics/", "/account", "/oauth2/authorize?client_id=news"]) {
      expect(await statusOf(aside + path)).toBe(404);
    }
    const post = await fetch(`${aside}/metrics`, { method: "POST", body: "x".repeat(100_000) });
    await post.arrayBuffer();
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  it("requires the token if there is one [D-HEALTH-3]", async () => {
    const { url, aside } = await serve({ port: 0, token: TOKEN });
    for (const path of ["/metrics", "/health"]) {
      const refused = await fetch(aside + path);
      await refused.arrayBuffer();
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      expect(await statusOf(aside + path, bearer(`${TOKEN}.`))).toBe(401);
      expect(await statusOf(aside + path, bearer(TOKEN))).toBe(200);
    }
    expect(await statusOf(`${url}/metrics`, bearer(TOKEN))).toBe(200);
  });

  it("is --metrics-port, which overrides the file", async () => {
    const port = await freePorts();
    const { aside } = await serve({ port: 0 }, ["--metrics-port", `${port}`]);
    expect(aside).toBe(`http://127.0.0.1:${port}`);
    await servers.stop();
    expect((await serve(undefined, ["--metrics-port", `${port}`])).aside).toBe(aside);
    for (const wrong of ["", "x", "-1", "65536"]) {
      const { code, output } = await servers.refused(["--config", "config.json", "--metrics-port", wrong]);
      expect([code, output.split("\n").length]).toEqual([2, 2]);
    }
  });

  it("stops the start with one sentence if it is in use or on an address of another machine", async () => {
    const taken = createNetServer();
    await new Promise<void>((resolve) => void taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    const own = await freePorts();
    const refused = (metrics: object): Promise<unknown> => {
      const file = servers.write({ ...configuration(`http://127.0.0.1:${own}`), port: own, metrics });
      return servers.refused(["--config", file], { env: LOCAL });
    };
    await expect(refused({ port })).resolves.toEqual({
      code: 1,
      output: `Port ${port} is in use: choose another one with metrics.port in the configuration or --metrics-port N.\n`,
    });
    await expect(refused({ port: 0, host: "192.0.2.1" })).resolves.toEqual({
      code: 1,
      output: "The address 192.0.2.1 (metrics.host in the configuration) does not belong to this machine.\n",
    });
    await expect(refused({ port: own })).resolves.toEqual({
      code: 1,
      output: expect.stringMatching(new RegExp(`^Port ${own} is in use: [^\\n]+\\n$`)),
    });
    await new Promise((resolve) => void taken.close(resolve));
  });

  it("closes with the server, whatever connections it has", async () => {
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
  it("serves the same on its metrics port, which closes with it [D-HEALTH-3]", async () => {
    const storage = `sqlite:${join(servers.folder, "worker.db")}`;
    const metrics = { port: 0, token: TOKEN };
    const file = servers.write({ ...configuration("http://127.0.0.1:3000"), storage, metrics });
    // The first process that opens the database creates the keys.
    const worker = start("cli/main.ts", { args: ["worker", "--config", file], cwd: servers.folder });
    workers.push(worker);
    await worker.until(/delivering/);
    const [, port] = /health and metrics on port (\d+)/.exec(worker.output()) ?? [];
    const aside = `http://127.0.0.1:${port}`;
    expect(await statusOf(`${aside}/metrics`)).toBe(401);
    expect(await (await fetch(`${aside}/metrics`, bearer(TOKEN))).text()).toContain(
      "sign_in_delivery_attempts_total",
    );
    expect(await (await fetch(`${aside}/health`, bearer(TOKEN))).json()).toMatchObject(DETAILS);
    const args = ["--config", file, "--metrics-port", port ?? ""];
    const second = start("cli/main.ts", { args: ["worker", ...args], cwd: servers.folder });
    workers.push(second);
    expect([await second.ended, second.output()]).toEqual([
      1,
      `Port ${port} is in use: choose another one with metrics.port in the configuration or --metrics-port N.\n`,
    ]);
    await expect(worker.stop()).resolves.toBe(0);
  });
});

describe("/health on the public port", () => {
  it("checks the storage at most once a second, and responds with 503 if a part is down [D-HEALTH-1]", async () => {
    let now = 1_000_000;
    let looks = 0;
    const service = await createSignInServiceOver(
      {
        deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
        storage: "sqlite::memory:",
        logger: pino({ level: "silent" }),
        clock: { virtual: true, now: () => now },
      },
      openStorage,
    );
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
      const responses = answers.map(async (each) => `${each.status} ${await each.text()}`);
      return [...new Set(await Promise.all(responses))];
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
