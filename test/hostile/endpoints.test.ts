import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it, jest } from "@jest/globals";
import { endpointPaths } from "../../config/deployments.ts";
import { NEWS, UNLIMITED, useService } from "../flows/running-service.ts";
import {
  AUTHORIZATIONS,
  MALFORMED,
  misshapen,
  type NamedChange,
  replaced,
  STRANGE,
  TYPES,
} from "./changes.ts";
import { fillConsole, WITH_CONSOLE } from "./account-samples.ts";
import { type Change, type Sample, samples, sendSample } from "./requests.ts";
import { judge, PLANTED, type Verdict, verdict } from "./verdict.ts";

const PAGE = { accept: "text/html" };

const as = (type: string | undefined): NonNullable<Change["headers"]> => ({ "content-type": type });

/** Endpoints that may respond with a page. */
const PAGES: ReadonlySet<string> = new Set([
  "authorize",
  "resume",
  "interaction",
  "logout",
  "logoutConfirm",
  "logoutSuccess",
  "account",
]);

/** Endpoints that take JSON of pages of this host. */
const TAKE_JSON: ReadonlySet<string> = new Set(["interaction", "confirm", "account"]);

// Thousands of requests.
jest.setTimeout(240_000);

describe("every endpoint of both deployments", () => {
  let all: Sample[];

  const running = useService({
    config: {
      ...WITH_CONSOLE,
      rateLimits: UNLIMITED,
    },
  });

  beforeAll(async () => {
    // Without an API, introspection on oauth2 is left to the host application.
    const api = { name: "API", service: "1", scopes: { read: "Read" } };
    await running.service.directory.apis.put("https://api.example", api);
    all = await samples(running, await fillConsole(running));
  });

  /** Sends every change of every sample. @returns undocumented responses. */
  async function walk(
    changes: (sample: Sample) => readonly NamedChange[],
    alsoWrong: (verdict: Verdict, sample: Sample) => boolean = () => false,
  ): Promise<string[]> {
    const wrong: string[] = [];
    let sent = 0;
    await Promise.all(
      all.map(async (sample) => {
        for (const [what, change] of changes(sample)) {
          for (const accept of PAGES.has(sample.endpoint) ? [{}, PAGE] : [{}]) {
            const headers = { ...accept, ...change.headers };
            const found = await verdict(sendSample(sample, { ...change, headers }));
            sent += 1;
            const faults = [...found.faults, ...(alsoWrong(found, sample) ? ["not refused"] : [])];
            if (faults.length > 0)
              wrong.push(`${sample.title} ${what.slice(0, 60)}: ${found.status} ${faults.join(", ")}`);
          }
        }
      }),
    );
    expect(sent).toBeGreaterThan(50);
    expect(running.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    return wrong;
  }

  it("would be reported for undocumented responses", () => {
    const json = { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" };
    const faults = (status: number, headers: Record<string, string>, text: string): readonly string[] =>
      judge(status, new Map(Object.entries({ ...json, ...headers })), text).faults;
    expect(faults(400, {}, '{"error":"invalid_request","error_description":"x"}')).toEqual([]);
    expect(faults(500, {}, '{"error":"invalid_request"}')).toEqual(["status 500"]);
    expect(faults(400, {}, '{"error":"oops","stack":"at f (/x/lib/a.js:1:2)"}')).toEqual([
      "a stack or a path",
      "error oops",
      "members stack",
    ]);
    expect(
      faults(
        400,
        { location: "https://a" },
        `{"error":"invalid_grant","error_description":"${NEWS.client_secret}"}`,
      ),
    ).toEqual(["a secret", "a Location"]);
    const page = { "content-type": "text/html; charset=utf-8", [PLANTED]: "yes" };
    expect(faults(400, page, `<script>${PLANTED}</script>`)).toEqual([
      "a planted header",
      "a planted script",
      "a page without its headers",
    ]);
    expect(faults(404, { "content-type": "text/plain", "cache-control": "" }, "Not Found")).toEqual([
      "status 404",
      "type text/plain",
    ]);
  });

  it("has a valid sample for every row of the table", async () => {
    for (const kind of ["oauth2", "openid"] as const) {
      const has = new Set(all.filter((sample) => sample.kind === kind).map(({ endpoint }) => endpoint));
      const rows = endpointPaths[kind].map(({ name }) => name);
      // Logos and the script have tests of their own: flows/client-look.test.ts.
      expect(rows.filter((name) => !has.has(name))).toEqual(["clientLogo", "pageScript"]);
    }
    for (const sample of all)
      expect([sample.title, (await verdict(sendSample(sample))).faults]).toEqual([sample.title, []]);
  });

  it("refuses broken escapes, bytes that are not UTF-8 and NUL in every parameter, without a redirect [D-AUTHZ-11, D-TOKEN-8]", async () => {
    // These endpoints read no parameters.
    const deaf = new Set(["resume"]);
    const wrong = await walk(
      (sample) => MALFORMED.flatMap((value) => replaced(sample, value)),
      ({ status }, { endpoint }) => !deaf.has(endpoint) && status !== 400,
    );
    expect(wrong).toEqual([]);
  });

  it("has a documented response for missing, repeated and unusual parameters [D-TOKEN-1]", async () => {
    expect(
      await walk((sample) => [...misshapen(sample), ...STRANGE.flatMap((value) => replaced(sample, value))]),
    ).toEqual([]);
    expect(Object.getOwnPropertyNames(Object.prototype)).not.toContain("admin");
  });

  it("refuses repeated parameters in a body, known or unknown [D-TOKEN-8]", async () => {
    const wrong = await walk(
      ({ form }) => {
        if (form === undefined) return [];
        const text = new URLSearchParams(form).toString();
        const pairs = Object.entries({ ...form, x: "1" });
        return pairs.map(([name, value]) => {
          const pair = new URLSearchParams([[name, value]]).toString();
          return [`twice: ${name}`, { body: `${text}&${pair}&${pair}` }];
        });
      },
      ({ status }) => status !== 400,
    );
    expect(wrong).toEqual([]);
  });

  it("has a documented response for any Authorization header [ERR-5, ERR-6, ERR-7, ERR-8]", async () => {
    const needs = new Set([
      "userinfo",
      "userinfoAlias",
      "profile",
      "profileAlias",
      "introspect",
      "par",
      "token",
    ]);
    const wrong = await walk(
      () => AUTHORIZATIONS.map((value) => [`Authorization: ${value}`, { headers: { authorization: value } }]),
      ({ status }, { endpoint }) => needs.has(endpoint) && status !== 400,
    );
    expect(wrong).toEqual([]);
  });

  it("refuses bodies that are not forms or have more than 64 KiB, also compressed [D-TOKEN-8, TOKEN-CODE-1, EP-1]", async () => {
    const bomb = new Uint8Array(gzipSync(`a=${"x".repeat(30_000_000)}`));
    const wrong = await walk(
      ({ form, query }) => {
        if (form === undefined) return [];
        const text = new URLSearchParams({ ...form, ...query }).toString();
        const json = JSON.stringify(form);
        return [
          ...TYPES.map((type) => [`as ${type}`, { body: text || "a=b", headers: as(type) }] as const),
          ["no type", { body: new TextEncoder().encode(text || "a=b"), headers: as(undefined) }],
          ["JSON", { body: json, headers: as("application/json") }],
          ["JSON as text", { body: json, headers: as("text/json") }],
          ["too large", { body: `${text}&a=${"x".repeat(65_537)}` }],
          ["a bomb", { body: bomb, headers: { "content-encoding": "gzip" } }],
          ["not compressed", { body: text || "a=b", headers: { "content-encoding": "gzip" } }],
          [
            "compressed with an unsupported encoding",
            { body: text || "a=b", headers: { "content-encoding": "zstd" } },
          ],
          ["binary", { body: new Uint8Array(randomBytes(2_000)) }],
          ["raw bytes", { body: new Uint8Array([0x61, 0x3d, 0xff, 0xfe]) }],
          ["raw NUL", { body: new Uint8Array([0x61, 0x3d, 0x00]) }],
        ];
      },
      // JSON at an interaction, a mailed link and the account is read, but not without an Origin.
      ({ status }, { endpoint }) => status !== 400 && !(TAKE_JSON.has(endpoint) && status === 403),
    );
    expect(wrong).toEqual([]);
  });

  it("has a documented response for unusual cookies, languages and Accept headers", async () => {
    const headers: Record<string, string>[] = [
      { cookie: "=; ;;;; a; \u00ff=\u00ff; __proto__=1" },
      { cookie: "a=b; ".repeat(400) },
      {
        cookie: ["session", "interaction", "resume", "device"]
          .map((one) => `sis_${one}_0=x; sis_${one}_0.sig=y`)
          .join("; "),
      },
      { accept: "garbage; q=nan, */*;q=9" },
      { accept: "text/html;q=0, application/json;q=0" },
      { "accept-language": "../../etc/passwd, en;q=x, \u00ff" },
      { "accept-language": "__proto__, constructor" },
      { origin: "https://evil.example", "sec-fetch-site": "cross-site" },
      { origin: "null", referer: "javascript:alert(1)" },
      {
        "x-forwarded-for": "1.2.3.4, unknown, ".repeat(100),
        "x-forwarded-host": "evil.example",
        forwarded: "for=x",
      },
      { "x-http-method-override": "DELETE", "x-original-url": "/oauth2/token", range: "bytes=0-1" },
      { dpop: "x.y.z", "if-none-match": "*", expect: "" },
      { "content-length": "" },
    ].map((one) =>
      Object.fromEntries(Object.entries(one).filter(([name, value]) => !(value === "" || name === ""))),
    );
    expect(await walk(() => headers.map((one) => [JSON.stringify(one), { headers: one }]))).toEqual([]);
  });
});
