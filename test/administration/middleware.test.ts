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

describe("the origin of an application that embeds it", () => {
  it("is that of the document: its example answers there, and nowhere else", async () => {
    const folder = ".cache/embedding-administration";
    const { openAdministration } = await moduleIn<{
      openAdministration: (service: SignInService, port: number) => Server;
    }>("docs/embedding.md 7", folder);
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
