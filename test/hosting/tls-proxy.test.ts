/** `config.proxy` is required, and determines the address of a request. */
import { createServer, request as requestTls } from "node:https";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import { readConfiguration } from "../../config/read.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { createSignInService } from "../../lib/service.ts";
import { problemsIn } from "../config/refusals.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, BOB, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { selfSigned } from "../notifier/peers.ts";

const REQUIRED =
  "config.proxy: is required with an https deployment: false when nothing is in front of this process, 1 for one proxy, a number for several in a row, or a list of their addresses or networks";

describe("an https deployment", () => {
  it.each([
    ["oauth2 is https", { oauth2: { url: "https://login.example" } }],
    ["openid is https", { openid: { url: "https://login.example" } }],
    [
      "one of two is https",
      { oauth2: { url: "http://127.0.0.1:3000" }, openid: { url: "https://id.example" } },
    ],
    ["https is on loopback", { oauth2: { url: "https://localhost:8443" } }],
    ["the base URL has something else wrong with it", { oauth2: { url: "https://login.example/" } }],
  ])("requires config.proxy if %s [D-CALLER-1]", async (_when, deployments) => {
    await expect(createSignInService({ deployments })).rejects.toMatchObject({
      code: "invalid_configuration",
      problems: expect.arrayContaining([REQUIRED]),
    });
    expect(problemsIn({ deployments, proxy: undefined })).toContain(REQUIRED);
    for (const proxy of [false, true, 1, ["192.0.2.1"]]) {
      expect(problemsIn({ deployments, proxy })).not.toContain(REQUIRED);
    }
    // An invalid value causes one message.
    expect(problemsIn({ deployments, proxy: "none" }).filter((line) => line.includes("proxy"))).toEqual([
      expect.stringMatching(/^config\.proxy: must be `true`, `false`, a number of hops/),
    ]);
  });

  it("is different from http on loopback, which needs no config.proxy [D-CALLER-1]", () => {
    expect(readConfiguration({ deployments: { oauth2: { url: "http://localhost:3000" } } }).proxy).toBe(
      false,
    );
  });
});

/** A TLS proxy that appends to `X-Forwarded-For`, like nginx. */
async function startTlsProxy(to: () => string): Promise<{ port: number; cert: string; close(): void }> {
  const { key, cert } = selfSigned("localhost");
  const server = createServer({ key, cert }, (incoming, outgoing) => {
    const before = incoming.headers["x-forwarded-for"];
    const address = incoming.socket.remoteAddress ?? "";
    const headers = {
      ...incoming.headers,
      "x-forwarded-for": before === undefined ? address : `${String(before)}, ${address}`,
    };
    const forwarded = request(
      new URL(incoming.url ?? "/", to()),
      { method: incoming.method, headers },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
        answer.pipe(outgoing);
      },
    );
    incoming.pipe(forwarded);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    cert,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

let running: RunningService;
let proxy: Awaited<ReturnType<typeof startTlsProxy>>;
let offset = 0;

async function start(trust: SignInServiceConfig["proxy"]): Promise<void> {
  offset = 0;
  let inner = "";
  proxy = await startTlsProxy(() => inner);
  running = await startService({
    config: {
      ...(trust !== undefined && { proxy: trust }),
      clock: { virtual: true, now: () => Date.now() + offset },
      rateLimits: { signIn: { address: { points: 2, seconds: 900 } } },
    },
    deployments: () => ({ oauth2: { url: `https://localhost:${proxy.port}` } }),
  });
  inner = running.origin;
}

/** A visitor with this source address. */
interface Visitor {
  readonly address: string;
  readonly headers?: Record<string, string>;
  /** Connects directly to the service. */
  readonly direct?: boolean;
}

function visit({ address: localAddress, headers = {}, direct = false }: Visitor): Browser {
  return clientAt(running, "oauth2", NEWS).browser({
    headers,
    send: (url, { method = "GET", body, headers: own }) =>
      new Promise((resolve, reject) => {
        const options = {
          host: "127.0.0.1",
          port: direct ? Number(new URL(running.origin).port) : proxy.port,
          path: url.pathname + url.search,
          method,
          localAddress,
          headers: { ...Object.fromEntries(new Headers(own)), host: url.host },
        };
        const sent = direct
          ? request(options)
          : requestTls({ ...options, ca: proxy.cert, servername: "localhost" });
        sent.once("response", (answer) => {
          const chunks: Buffer[] = [];
          answer.on("data", (chunk: Buffer) => chunks.push(chunk));
          answer.once("end", () => {
            const got = new Headers();
            for (let i = 0; i < answer.rawHeaders.length; i += 2)
              got.append(answer.rawHeaders[i] ?? "", answer.rawHeaders[i + 1] ?? "");
            resolve(new Response(Buffer.concat(chunks), { status: answer.statusCode ?? 500, headers: got }));
          });
        });
        sent.once("error", reject);
        sent.end(typeof body === "string" ? body : undefined);
      }),
  });
}

/** The statuses of wrong passwords, each for another name. */
async function guess(visitor: Visitor, count: number): Promise<number[]> {
  const statuses: number[] = [];
  const browser = await visit(visitor).get(clientAt(running, "oauth2", NEWS).authorizeUrl());
  for (let index = 0; index < count; index += 1) {
    const entry = { username: `nobody-${index}`, password: "this is not the password" };
    statuses.push((await browser.submit(browser.form("password"), entry)).visits[0]!.status);
  }
  return statuses;
}

async function signsIn(visitor: Visitor, { username, password }: typeof ADA): Promise<number> {
  const browser = await visit(visitor).get(clientAt(running, "oauth2", NEWS).authorizeUrl());
  return (await browser.submit(browser.form("password"), { username, password })).visits[0]!.status;
}

const warnings = (): string[] => running.log.filter((line) => line.includes("config.proxy"));

describe("behind a proxy that ends TLS", () => {
  afterEach(() => {
    proxy.close();
  });

  it.each([
    ["true", true],
    ["a number of hops", 1],
    ["its address", ["127.0.0.1"]],
  ])("two visitors do not share a lock-out if proxy is %s [D-CALLER-1, D-TOKEN-22]", async (_what, trust) => {
    await start(trust);
    expect(await guess({ address: "127.0.0.2" }, 3)).toEqual([400, 400, 429]);
    expect(await signsIn({ address: "127.0.0.2" }, ADA)).toBe(429);
    expect(await signsIn({ address: "127.0.0.3" }, ADA)).toBe(303);
    expect(warnings()).toEqual([]);
  });

  it("a visitor can't change their address by the header [D-TOKEN-22]", async () => {
    await start(["127.0.0.1"]);
    for (const [index, status] of [400, 400, 429].entries()) {
      const headers = { "x-forwarded-for": `198.51.100.${index}` };
      expect(await guess({ address: "127.0.0.2", headers }, 1)).toEqual([status]);
    }
    // It does not lock out others either.
    const headers = { "x-forwarded-for": "127.0.0.3" };
    await guess({ address: "127.0.0.4", headers }, 3);
    expect(await signsIn({ address: "127.0.0.3" }, BOB)).toBe(303);
  });

  it("a header from an untrusted connection is ignored, and logged once an hour [D-TOKEN-22, D-CALLER-2]", async () => {
    await start(["127.0.0.1"]);
    for (const [index, status] of [400, 400, 429].entries()) {
      const headers = { "x-forwarded-for": `198.51.100.${index}` };
      expect(await guess({ address: "127.0.0.2", direct: true, headers }, 1)).toEqual([status]);
    }
    expect(warnings()).toEqual([
      expect.stringContaining("X-Forwarded-For came with a request and is ignored"),
    ]);
    expect(warnings().join()).not.toContain("198.51");
    offset += 3_600_000;
    await guess({ address: "127.0.0.5", direct: true, headers: { forwarded: "for=198.51.100.1" } }, 0);
    expect(warnings()).toHaveLength(2);
    expect(warnings()[1]).toContain("Forwarded came with a request");
  });

  it("logs that the header is ignored if proxy is false, when all visitors share one address [D-CALLER-2]", async () => {
    await start(false);
    expect(await guess({ address: "127.0.0.2" }, 3)).toEqual([400, 400, 429]);
    expect(await signsIn({ address: "127.0.0.3" }, ADA)).toBe(429);
    expect(warnings()).toHaveLength(1);
  });

  it("logs that Forwarded is ignored if a trusted proxy sends only that [D-CALLER-2]", async () => {
    await start(["127.0.0.5"]);
    await guess({ address: "127.0.0.5", direct: true, headers: { forwarded: "for=198.51.100.1" } }, 0);
    expect(warnings()).toEqual([expect.stringContaining("Forwarded came with a request")]);
  });
});
