/** What holds for everything at the administration listener: who reaches it, and what each answer says. */
import { once } from "node:events";
import { rmSync } from "node:fs";
import type { Server } from "node:http";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import type { SignInService } from "../../lib/index.ts";
import { beforeTests } from "../closing.ts";
import { moduleIn, ROOT } from "../examples/documents.ts";
import { freePorts } from "../examples/processes.ts";
import { startService } from "../flows/running-service.ts";
import { sendRaw, startAdministered } from "./listener-stage.ts";
import { exchange, type Send, type Sent } from "./stage.ts";

const running = beforeTests(() => startAdministered());

const PATHS = ["/", "/v1", "/v1/accounts", "/people"];

const host = (): string => new URL(running.admin).host;
const port = (): string => new URL(running.admin).port;

describe("the Host of a request", () => {
  it("must be that of the console, whatever else the request says [D-ADM-85]", async () => {
    const deployment = new URL(running.openid).host;
    const own = host();
    const requests: readonly (readonly string[])[] = PATHS.flatMap((path) =>
      [
        ["Host: evil.example"],
        [`Host: ${deployment}`],
        [`Host: localhost:${port()}`],
        [`Host: ${own}.evil.example`],
        [`Host: 127.0.0.1`],
        ["Host: 127.0.0.1:1"],
        [`Host: evil.example@${own}`],
        ["Host:"],
        ["Host: evil.example", `X-Forwarded-Host: ${own}`],
        ["Host: evil.example", `Forwarded: host=${own}`],
        ["Host: evil.example", `X-Original-Host: ${own}`, `:authority: ${own}`],
        [`Host: ${own}`, "Host: evil.example"],
        ["Host: evil.example", `Host: ${own}`],
      ].map((fields) => [`GET ${path} HTTP/1.1`].concat(fields)),
    );
    const others = [
      [`GET http://evil.example/v1 HTTP/1.1`, `Host: ${own}`],
      [`GET http://${own}/v1 HTTP/1.1`, "Host: evil.example"],
      ["GET /v1 HTTP/1.0"],
      ["OPTIONS * HTTP/1.1", `Host: ${own}`],
    ];
    for (const lines of [...requests, ...others]) {
      const { status, headers, body } = await sendRaw(running.admin, [...lines, "Connection: close"]);
      // Node.js itself refuses what is no HTTP.
      expect([lines, [400, 421].includes(status)]).toEqual([lines, true]);
      if (status === 400) continue;
      expect(headers.get("cache-control")).toBe("no-store");
      expect(body).not.toContain("evil");
    }
  });

  it("may have another case, and a dot at its end", async () => {
    const answers = await Promise.all(
      [host(), host().replace(":", ".:")].map((each) =>
        sendRaw(running.admin, ["GET /v1/nothing HTTP/1.1", `Host: ${each}`, "Connection: close"]),
      ),
    );
    expect(answers.map(({ status }) => status)).not.toContain(421);
  });
});

describe("every answer", () => {
  it.each(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])(
    "has the policy of the pages, whatever it is: %s [D-ADM-86]",
    async (method) => {
      for (const path of [...PATHS, "/nothing", "/account", "/openid/.well-known/openid-configuration"])
        for (const own of [true, false]) {
          const { headers, status } = await sendRaw(running.admin, [
            `${method} ${path} HTTP/1.1`,
            `Host: ${own ? new URL(running.admin).host : "evil.example"}`,
            "Origin: https://evil.example",
            "Connection: close",
          ]);
          expect([path, own, status < 500]).toEqual([path, own, true]);
          expect(headers.get("content-security-policy")).toMatch(
            /^default-src 'none'; .*base-uri 'none'; frame-ancestors 'none'$/u,
          );
          expect(Object.fromEntries(headers)).toMatchObject({
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "same-origin",
            "x-request-id": expect.stringMatching(/^[\w-]{36}$/u),
          });
          const readable = [...headers.keys()].filter((name) => name.startsWith("access-control-"));
          expect(readable).toEqual([]);
          if (path.startsWith("/v1") || !own) expect(headers.has("set-cookie")).toBe(false);
        }
    },
  );

  it("to /v1 is a problem document", async () => {
    const answer = await fetch(`${running.admin}/v1/nothing`);
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
  });

  it("is in the log with its template, without what the address says", async () => {
    const answered = new Promise((resolve) =>
      running.service.events.once("administration.answered", resolve),
    );
    await fetch(`${running.admin}/nothing-like-ada@example.com?search=ada`);
    await answered;
    const lines = running.log.map((each) => JSON.parse(each) as { readonly path?: string });
    expect(lines.map(({ path }) => path)).toContainEqual(expect.stringMatching(/^\/administration/u));
    expect(running.log.join("")).not.toContain("ada@");
  });
});

/** A client with a token of its own, which may be limited to a service. */
async function programOf(at = running, service?: string): Promise<Send> {
  const limit = service === undefined ? {} : { service };
  const { token } = await at.service.tokens.create({ role: "administrator", expires: 3_600, ...limit });
  return (method, path, sent) => exchange(Number(new URL(at.admin).port), method, path, sent, token);
}

describe("a body", () => {
  const large = JSON.stringify({ name: "a".repeat(10_000_000) });
  const chunked = { "Transfer-Encoding": "chunked" };
  const form = { "Content-Type": "application/x-www-form-urlencoded" };
  const lists = "[".repeat(100_000) + "]".repeat(100_000);
  const objects = `${'{"attributes":'.repeat(15_000)}1${"}".repeat(15_000)}`;
  it.each<readonly [what: string, method: string, path: string, sent: Sent, status: number]>([
    ["10 MB", "PATCH", "/v1/accounts/SUB", { body: large }, 413],
    ["10 MB in pieces", "PATCH", "/v1/accounts/SUB", { body: large, headers: chunked }, 413],
    ["10 MB to a search", "POST", "/v1/accounts/search", { body: large }, 413],
    ["10 MB to what takes nothing", "POST", "/v1/accounts/SUB/disable", { body: large }, 413],
    ["10 MB to no address", "POST", "/v1/nothing", { body: large }, 404],
    ["10 MB to a page", "POST", "/people", { body: large, headers: form }, 303],
    ["10 MB in pieces to a page", "POST", "/people", { body: large, headers: { ...form, ...chunked } }, 303],
    ["100,000 lists", "PATCH", "/v1/accounts/SUB", { body: lists }, 400],
    ["100,000 lists to a search", "POST", "/v1/accounts/search", { body: lists }, 400],
    ["15,000 objects", "PATCH", "/v1/accounts/SUB", { body: objects }, 400],
    ["15,000 objects that never end", "PATCH", "/v1/accounts/SUB", { body: objects.slice(0, -1) }, 400],
  ])("of %s is refused, and changes nothing [D-ADM-37]", async (_what, method, path, sent, status) => {
    const { service, ada } = running;
    const send = await programOf();
    const target = path.replace("SUB", ada.sub);
    expect(await send(method, target, sent)).toMatchObject({ status });
    expect(await service.accounts.find(ada.sub)).toEqual(ada);
    // Nobody is told more about it than that there is no token.
    if (path.startsWith("/v1"))
      expect(await exchange(Number(port()), method, target, sent)).toMatchObject({ status: 401 });
    expect(await send("GET", "/v1/keys")).toMatchObject({ status: 200 });
  });
});

/** Where the second page begins. */
async function positionIn(send: Send, path: string): Promise<string> {
  const { status, body } = await send("GET", path);
  expect([path, status, body.next]).toEqual([path, 200, expect.any(String)]);
  return encodeURIComponent(String(body.next));
}

it("a position in a list is refused for another list, token, query or storage [D-ADM-41]", async () => {
  const [own, other, limited] = [await programOf(), await programOf(), await programOf(running, "1")];
  const elsewhere = await programOf(await startAdministered());
  const accounts = await positionIn(own, "/v1/accounts?limit=1");
  const clients = await positionIn(own, "/v1/clients?limit=1");
  const searched = await positionIn(own, "/v1/accounts?limit=1&search=example.com");
  const refused: readonly (readonly [send: Send, path: string])[] = [
    [own, `/v1/services?after=${clients}`],
    [own, `/v1/accounts?after=${clients}`],
    [own, `/v1/audit?after=${accounts}`],
    [own, `/v1/accounts?search=example.com&after=${accounts}`],
    [own, `/v1/accounts?disabled=false&after=${accounts}`],
    [own, `/v1/accounts?after=${searched}`],
    [own, `/v1/accounts?search=example&after=${searched}`],
    [own, `/v1/accounts?limit=1&after=${await positionIn(elsewhere, "/v1/accounts?limit=1")}`],
    [other, `/v1/accounts?after=${accounts}`],
    [other, `/v1/clients?after=${clients}`],
    [other, `/v1/accounts?search=example.com&after=${searched}`],
    [limited, `/v1/accounts?search=ada%40example.com&after=${accounts}`],
    [limited, `/v1/clients?after=${clients}`],
  ];
  for (const [send, path] of refused) {
    const { status, body } = await send("GET", path);
    const errors = [{ parameter: "after", detail: expect.any(String) }];
    expect([path, status, body.errors]).toEqual([path, 422, errors]);
  }
  for (const path of [`accounts?after=${accounts}`, `clients?after=${clients}`])
    expect(await own("GET", `/v1/${path}`)).toMatchObject({ status: 200 });
});

describe("the origin of an application that embeds it", () => {
  it("is that of the document: its example answers there, and nowhere else", async () => {
    const folder = ".cache/embedding-administration";
    const { openAdministration } = await moduleIn<{
      openAdministration: (service: SignInService, port: number) => Server;
    }>("open-the-administration", folder);
    rmSync(join(ROOT, folder), { recursive: true, force: true });
    const own = await freePorts();
    const server = openAdministration(running.service, own);
    if (!server.listening) await once(server, "listening");
    try {
      const statuses = ["localhost", "127.0.0.1"].map(async (name) => {
        const lines = ["GET /v1/keys HTTP/1.1", `Host: ${name}:${own}`, "Connection: close"];
        return (await sendRaw(`http://127.0.0.1:${own}`, lines)).status;
      });
      expect(await Promise.all(statuses)).toEqual([401, 421]);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it("must be none of a deployment [D-ADM-82]", async () => {
    const { service, oauth2 } = running;
    for (const url of [oauth2, "https://admin.example/console", "http://admin.example", "admin"])
      expect(() => service.administration({ url })).toThrow(/config\.admin\.url: must/u);
    expect(service.administration({ url: "https://admin.example" })).toBeInstanceOf(Function);
    const without = await startService();
    expect(() => without.service.administration()).toThrow("config.admin.url: is required");
  });
});
