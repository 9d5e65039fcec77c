import { describe, expect, it } from "@jest/globals";
import Koa from "koa";
import { koaBody } from "koa-body";
import { monitoringListener } from "../../cli/server/monitoring.ts";
import { createSignInService } from "../../lib/index.ts";
import { createLogger } from "../../core/logger.ts";
import { type ProxyOptions, startProxy } from "../hosting/host.ts";
import { doctor, open, serve, write } from "./doctor-stage.ts";

/** What a proxy does wrong, or what is in front of the service in its process. */
interface Front extends Partial<ProxyOptions> {
  /** Each deployment on a host of its own. */
  readonly hosts?: true;
  readonly mount?: (application: Koa) => void;
  /** Changes the configuration that the doctor reads. */
  readonly config?: (base: string) => object;
  readonly url?: (base: string, inside: string) => string;
}

const TOKEN = "a-token-for-the-metrics";

const dropPrefix = (given: string): string => given.replace(/^\/login(?=\/)/u, "");

/** Changes every value of one header of an answer. */
const changing =
  (header: string, change: (value: string) => string) =>
  (headers: readonly string[]): readonly string[] =>
    headers.map((value, index) => {
      const isValue = index % 2 === 1 && headers[index - 1]?.toLowerCase() === header;
      return isValue ? change(value) : value;
    });

describe("doctor --url", () => {
  it.each<[what: string, front: Front, wrong: readonly object[]]>([
    ["a server that works", {}, []],
    [
      "a proxy that removes the prefix, as stripPrefix says",
      { path: dropPrefix, config: () => ({ stripPrefix: "/login" }) },
      [],
    ],
    [
      "the process behind such a proxy",
      { path: dropPrefix, config: () => ({ stripPrefix: "/login" }), url: (_base, inside) => inside },
      [],
    ],
    [
      "a proxy that drops the prefix",
      { path: dropPrefix },
      [
        {
          check: "addresses",
          what: expect.stringMatching(/\/login the server answers 404\.$/u),
          fix: expect.stringContaining("stripPrefix"),
        },
        { check: "addresses", what: expect.stringMatching(/\/login\/openid the server answers 404\.$/u) },
        { check: "cookies", what: expect.stringContaining("sets no cookie") },
        { check: "cookies", what: expect.stringContaining("sets no cookie") },
      ],
    ],
    [
      "another issuer",
      {
        config: (base) => ({ deployments: { openid: { url: `${base}/login` } } }),
        path: (given) => given.replace("/login", "/login/openid"),
      },
      [
        {
          check: "addresses",
          what: expect.stringMatching(/says that its issuer is "http.*\/login\/openid"\.$/u),
        },
      ],
    ],
    [
      "a proxy that passes on nothing but the prefix",
      { path: (given) => (given.startsWith("/login/") ? given : "/elsewhere") },
      ["oauth-authorization-server", "openid-configuration"].map((name) => ({
        check: "addresses",
        level: "warning",
        what: expect.stringMatching(
          `/\\.well-known/${name}/login/openid is not the metadata .* status is 404`,
        ),
        fix: expect.stringContaining(`/.well-known/${name}/login/openid`),
      })),
    ],
    [
      "a proxy that removes cookies",
      {
        answer: (headers) =>
          headers.map((value) => (value.toLowerCase() === "set-cookie" ? "X-Cookie" : value)),
      },
      [
        { check: "cookies", what: expect.stringMatching(/\/login sets no cookie\.$/u) },
        { check: "cookies", what: expect.stringMatching(/\/login\/openid sets no cookie\.$/u) },
      ],
    ],
    [
      "a proxy that gives cookies another domain",
      {
        answer: changing("set-cookie", (value) =>
          value.replace("sis_browser_", "__Host-").concat("; Domain=other.example"),
        ),
      },
      Array.from({ length: 10 }, () => ({
        check: "cookies",
        what: expect.stringMatching(/^Browsers refuse the cookie /u),
      })),
    ],
    [
      "a proxy that changes Location",
      { answer: changing("location", () => "http://inner.example/\u00E9") },
      [
        { check: "cookies", what: expect.stringMatching(/redirects to "http:\/\/inner\.example\//u) },
        { check: "cookies", what: expect.stringMatching(/redirects to "http:\/\/inner\.example\//u) },
      ],
    ],
    [
      "a clock that is off",
      { answer: changing("date", () => new Date(Date.now() + 90_000).toUTCString()) },
      [
        {
          check: "server-clock",
          level: "problem",
          what: expect.stringMatching(/^The clock of the server is (?:89|90|91) seconds ahead/u),
        },
      ],
    ],
    [
      "a body parser in front",
      { mount: (application) => void application.use(koaBody()) },
      [
        { check: "bodies", level: "warning" },
        { check: "bodies", level: "warning" },
        { check: "requests", what: expect.stringContaining("a body parser reads bodies before the service") },
      ],
    ],
    [
      "a proxy that proxy does not name",
      { headers: (headers) => ({ ...headers, "x-forwarded-for": "192.0.2.7" }) },
      [
        {
          check: "requests",
          level: "warning",
          what: expect.stringContaining('"X-Forwarded-For is ignored"'),
        },
      ],
    ],
    [
      "a proxy that does not pass Host on",
      { hosts: true, headers: (headers) => ({ ...headers, host: "inner.example" }) },
      [
        {
          check: "addresses",
          what: expect.stringMatching(/can't tell which deployment .*localhost/u),
          fix: expect.stringContaining("Host"),
        },
        { check: "cookies" },
        { check: "cookies" },
        { check: "requests", what: expect.stringContaining("a Host of no deployment") },
      ],
    ],
  ])(
    "checks %s [D-META-3]",
    async (_what, front, wrong) => {
      let inside = "";
      const proxy = await startProxy({ ...front, to: () => inside });
      open.push(proxy);
      const deployments =
        front.hosts === undefined
          ? { oauth2: { url: `${proxy.url}/login` }, openid: { url: `${proxy.url}/login/openid` } }
          : { oauth2: { url: proxy.url.replace("127.0.0.1", "localhost") }, openid: { url: proxy.url } };
      const { config, mount, url = (base) => base } = front;
      const changed = config?.(proxy.url) ?? {};
      const { stripPrefix } = changed as { stripPrefix?: string };
      const service = await createSignInService({
        deployments,
        storage: "sqlite::memory:",
        logger: createLogger({ level: "silent" }),
        ...(stripPrefix !== undefined && { stripPrefix }),
      });
      open.push(service);
      const application = new Koa();
      mount?.(application);
      application.use(service.routes());
      inside = await serve((request, response) => void application.callback()(request, response));
      const health = await serve(monitoringListener(service, TOKEN));
      const metrics = { port: Number(new URL(health).port), token: TOKEN };
      const file = write({ deployments, storage: "sqlite::memory:", metrics, ...changed }, "server.json");
      const result = await doctor(["--config", file, "--url", url(proxy.url, inside)]);
      const ofServer = result.wrong.filter(({ check }) => check !== "storage");
      expect(ofServer).toMatchObject(wrong);
      expect(ofServer).toHaveLength(wrong.length);
      expect(result.code).toBe(ofServer.some(({ level }) => level === "problem") ? 1 : 0);
    },
    30_000,
  );

  it("exits with 3 if nothing answers, or not in time", async () => {
    const config = { deployments: { oauth2: { url: "http://127.0.0.1:9" } }, storage: "sqlite::memory:" };
    const { code, wrong } = await doctor(["--config", write(config), "--url", "http://127.0.0.1:9"]);
    expect(code).toBe(3);
    expect(wrong.at(-1)).toMatchObject({
      check: "server",
      what: "The server at http://127.0.0.1:9 does not answer (ECONNREFUSED).",
    });
  });
});
