/** What OpenTelemetry gets of a service that runs. */
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { COUNTERS, GAUGES, HISTOGRAMS } from "../../core/metric-catalog.ts";
import { createFetching } from "../../accounts/documents/fetching.ts";
import type { Configuration } from "../../config/configuration.ts";
import { openTelemetry, readTraceparent } from "../../core/telemetry.ts";
import { backchannelFetch } from "../../provider/sessions/backchannel-logout.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, listen, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { type RecordedTelemetry, recordTelemetry, textOf } from "./recorded-telemetry.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const SENT = `00-${TRACE}-${SPAN}-01`;

describe("a traceparent", () => {
  it("is read [D-OTEL-3]", () => {
    expect(readTraceparent(SENT)).toEqual({ traceId: TRACE, spanId: SPAN, traceFlags: 1, isRemote: true });
    expect(readTraceparent(`00-${TRACE}-${SPAN}-fe`)).toMatchObject({ traceFlags: 0 });
  });

  it.each<[what: string, header: unknown]>([
    ["none", undefined],
    ["empty", ""],
    ["too long", `${SENT}-00`],
    ["far too long", `00-${"a".repeat(100_000)}-${SPAN}-01`],
    ["too short", SENT.slice(0, -1)],
    ["a version that is forbidden", SENT.replace("00-", "ff-")],
    ["a later version", SENT.replace("00-", "01-")],
    ["a trace of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["a span of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["upper case", SENT.toUpperCase()],
    ["no hexadecimal digit", SENT.replace("b7", "g7")],
    ["a line break", `${SENT}\n`],
    ["a space", ` ${SENT}`],
    ["two, as Node joins them", `${SENT}, ${SENT}`],
    ["two in a list", [SENT, SENT]],
    ["an object", { toString: () => SENT }],
  ])("with %s is none [D-OTEL-3]", (_what, header) => {
    expect(readTraceparent(header)).toBeUndefined();
  });
});

let recorded: RecordedTelemetry;
let running: RunningService;
let trusting: RunningService;
let receiver: ReturnType<typeof createServer>;
const received: IncomingHttpHeaders[] = [];
/** What the receiver was asked for. */
const paths: string[] = [];

beforeAll(async () => {
  recorded = recordTelemetry();
  receiver = createServer((request, response) => {
    paths.push(request.url ?? "");
    if (request.url === "/notify") received.push(request.headers);
    const { url = "" } = request;
    const range = url.startsWith("/range/") ? `${"0".repeat(35)}:0\r\n` : "";
    request.resume().on("end", () => response.writeHead(url.startsWith("/tenant") ? 404 : 200).end(range));
  });
  const address = await listen(receiver, 0);
  const config = {
    telemetry: true,
    notifications: { allowedReceivers: ["127.0.0.1"], poll: 0.05 },
    passwords: { parallel: 1, breachCheck: { url: `${address}/range` } },
    providers: {
      corp: { name: "Corp", issuer: `${address}/tenant-of-ada`, client_id: "us", client_secret: "a-secret" },
    },
  };
  running = await startService({ config });
  trusting = await startService({ config: { telemetry: true, proxy: true } });
  await running.service.directory.services.put("1", {
    name: "News",
    receiver: { url: `${address}/notify`, client_id: "n", client_secret: "s", types: ["PROFILE_CHANGED"] },
  });
});
afterAll(async () => {
  await Promise.all([running.close(), trusting.close()]);
  await new Promise((resolve) => void receiver.close(resolve));
  await recorded.close();
});

const idOf = (span: ReadableSpan): string => span.spanContext().spanId;
const traceOf = (span: ReadableSpan): string => span.spanContext().traceId;

/** The last span of a request for this route, once it has ended. */
async function requested(route: string, count = 1): Promise<ReadableSpan> {
  for (;;) {
    const found = recorded.spans().filter(({ attributes }) => attributes["http.route"] === route);
    if (found.length >= count) return found.at(-1)!;
    await pause(5);
  }
}

/** Sends one request line and these header lines. */
async function sendRaw(origin: string, path: string, headers: readonly string[]): Promise<void> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  socket.write(
    [`GET ${path} HTTP/1.1`, `Host: ${hostname}:${port}`, "Connection: close", ...headers, "", ""].join(
      "\r\n",
    ),
  );
  for await (const _ of socket);
}

describe("a request", () => {
  it("is a span with the calls that it made, and its trace stands in the log [D-OTEL-1, D-OTEL-5]", async () => {
    const news = clientAt(running, "oauth2", NEWS);
    expect((await news.password(ADA)).status).toBe(200);
    const span = await requested("/oauth2/token");
    expect(span).toMatchObject({ name: "POST /oauth2/token", kind: SpanKind.SERVER, links: [] });
    expect(span.attributes).toEqual({
      "http.request.method": "POST",
      "http.route": "/oauth2/token",
      "http.response.status_code": 200,
    });
    const inside = recorded
      .spans()
      .filter(({ parentSpanContext }) => parentSpanContext?.spanId === idOf(span));
    expect(new Set(inside.map(({ name }) => name))).toEqual(
      new Set(["get storage", "commit storage", "hash password"]),
    );
    const read = inside.find(({ name }) => name === "get storage");
    expect(read?.attributes).toMatchObject({
      "db.system.name": expect.stringMatching(/^(?:sqlite|postgresql|mongodb)$/),
      "db.operation.name": "get",
    });
    const line = running.log.find((each) => each.includes('"path":"/oauth2/token"'));
    expect(JSON.parse(line ?? "{}")).toMatchObject({ trace_id: traceOf(span) });
  });

  it("that fails says so without a message, and one of an odd method has no name of its own [D-OTEL-1]", async () => {
    await fetch(`${running.oauth2}/oauth2/token`, { method: "PROPFIND" });
    const span = await requested("/oauth2/token", 2);
    expect([span.name, span.attributes["http.request.method"]]).toEqual(["HTTP /oauth2/token", "_OTHER"]);
    expect(span.status.code).toBe(SpanStatusCode.UNSET);
  });

  it("is linked to a trace from outside, which is its parent only behind a proxy [D-OTEL-3]", async () => {
    const path = "/resources/userinfo";
    const headers = [`traceparent: ${SENT}`, "tracestate: vendor=secret", "baggage: user=ada"];
    await sendRaw(running.origin, path, headers);
    const linked = await requested(path);
    expect(linked.parentSpanContext).toBeUndefined();
    expect(traceOf(linked)).not.toBe(TRACE);
    expect(linked.links).toEqual([
      expect.objectContaining({ context: { traceId: TRACE, spanId: SPAN, traceFlags: 1, isRemote: true } }),
    ]);
    await sendRaw(trusting.origin, path, headers);
    const child = await requested(path, 2);
    expect([traceOf(child), child.parentSpanContext?.spanId, child.links]).toEqual([TRACE, SPAN, []]);
    expect(child.spanContext().traceState).toBeUndefined();
    await sendRaw(trusting.origin, path, [`traceparent: ${SENT}`, `traceparent: ${SENT}`]);
    const alone = await requested(path, 3);
    expect([alone.parentSpanContext, alone.links]).toEqual([undefined, []]);
  });

  it("is a child of the span in which the host application serves it [D-OTEL-2]", async () => {
    const host = trace.getTracer("host").startSpan("host");
    const { context } = await import("@opentelemetry/api");
    const middleware = running.service.routes();
    expect(middleware).toBeInstanceOf(Function);
    const { default: Koa } = await import("koa");
    const application = new Koa();
    application.use((ctx, next) =>
      context.with(trace.setSpan(ROOT_CONTEXT, host), () => middleware(ctx, next)),
    );
    const server = createServer((request, response) => void application.callback()(request, response));
    const origin = await listen(server, 0);
    await fetch(`${origin}/external/profile`, { headers: { traceparent: SENT } });
    const span = await requested("/external/profile");
    expect(span.parentSpanContext?.spanId).toBe(host.spanContext().spanId);
    host.end();
    await new Promise((resolve) => void server.close(resolve));
  });
});

describe("a request for administration", () => {
  it("is a span, without its path before anybody knows who asks [D-OTEL-1]", async () => {
    const { default: Koa } = await import("koa");
    const server = createServer();
    const url = await listen(server, 0);
    const answer = new Koa().use(running.service.administration({ url })).callback();
    server.on("request", (request, response) => void answer(request, response));
    const { status } = await fetch(`${url}/v1/accounts/${running.ada.sub}?secret=1`);
    expect(status).toBe(401);
    const span = await requested("/administration/v1");
    expect(span.attributes["http.response.status_code"]).toBe(401);
    await new Promise((resolve) => void server.close(resolve));
  });
});

const sentTo = (whom: string): readonly ReadableSpan[] =>
  recorded.spans().filter(({ attributes }) => attributes["sign_in.whom"] === whom);
/** Works as a request that the host application has traced. */
async function asHost<T>(work: () => Promise<T>): Promise<T> {
  const { context } = await import("@opentelemetry/api");
  const host = trace.getTracer("host").startSpan("host");
  return context.with(trace.setSpan(ROOT_CONTEXT, host), work).finally(() => host.end());
}
const server = (): object => {
  const { port } = receiver.address() as { readonly port: number };
  return { "server.address": "127.0.0.1", "server.port": port };
};

const person = (name: string) => ({
  email: `${name}@example.com`,
  password: `a long sentence of ${name}`,
});

describe("a request of the service itself", () => {
  it("to a provider is a span of the request that needs it, with the host alone [D-OTEL-10, D-OTEL-2]", async () => {
    const party = clientAt(running, "openid", NEWS);
    const browser = await party.browser().get(party.authorizeUrl({ provider_hint: "corp" }));
    await browser.submit(browser.forms()[0]);
    expect(paths).toContain("/tenant-of-ada/.well-known/openid-configuration");
    const [span] = sentTo("provider");
    expect(span).toMatchObject({ name: "GET provider", kind: SpanKind.CLIENT });
    const above = recorded.spans().find((each) => idOf(each) === span?.parentSpanContext?.spanId);
    expect(above?.attributes["http.route"]).toContain("/interaction/:uid");
    expect(span?.attributes).toEqual({
      ...server(),
      "http.request.method": "GET",
      "http.response.status_code": 404,
      "error.type": "404",
      "sign_in.whom": "provider",
    });
  });

  it("to the list of breaches has nothing of the password, and outside a request there is none [D-OTEL-10, D-OTEL-2]", async () => {
    await running.service.accounts.create(person("eve"));
    expect(sentTo("breach list")).toEqual([]);
    await asHost(() => running.service.accounts.create(person("eva")));
    const [span] = sentTo("breach list");
    expect(span?.attributes).toEqual({
      ...server(),
      "http.request.method": "GET",
      "http.response.status_code": 200,
      "sign_in.whom": "breach list",
    });
    const asked = paths.filter((path) => path.startsWith("/range/"));
    expect(asked).toHaveLength(2);
    for (const path of asked) expect(textOf(span!)).not.toContain(path.split("/").at(-1));
  });

  it("for a document has no host, which a stranger chose; a failure is its code [D-OTEL-10, D-OTEL-2]", async () => {
    const telemetry = await openTelemetry(() => undefined);
    const at = `http://ada-lovelace.localhost:1/ada@example.com?code=secret`;
    const fetching = createFetching({ telemetry, fetch }, { allow: "any", schemes: [] });
    await expect(asHost(() => fetching(at))).rejects.toThrow("could not be fetched");
    const [span] = sentTo("document");
    expect(span?.attributes).toEqual({
      "http.request.method": "GET",
      "error.type": expect.stringMatching(/^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|failed)$/),
      "sign_in.whom": "document",
    });
    expect(textOf(span!)).not.toMatch(/ada|secret|localhost/u);
  });

  it("sends nobody a traceparent [D-OTEL-10]", async () => {
    const headers: IncomingHttpHeaders[] = [];
    const other = createServer((request, response) => {
      headers.push(request.headers);
      response.end("{}");
    });
    const address = await listen(other, 0);
    const send = backchannelFetch(
      { notifications: { allowedReceivers: ["127.0.0.1"] } } as unknown as Configuration,
      await openTelemetry(() => undefined),
    );
    const { status } = await asHost(() => send(`${address}/logout?token=secret`, { method: "POST" }));
    await new Promise((resolve) => void other.close(resolve));
    const [span] = sentTo("client");
    expect([status, span?.name, span?.status.code]).toEqual([200, "POST client", SpanStatusCode.UNSET]);
    expect(textOf(span!)).not.toMatch(/logout|secret/u);
    expect(headers).toHaveLength(1);
    for (const name of ["traceparent", "tracestate", "baggage"]) expect(headers[0]).not.toHaveProperty(name);
  });
});

describe("a delivery", () => {
  it("is a trace of its own, which its receiver can go on with; it gets nothing else [D-OTEL-4]", async () => {
    await running.service.accounts.update(running.ada.sub, { name: "Augusta" });
    let span: ReadableSpan | undefined;
    while (span === undefined) {
      await pause(5);
      span = recorded.spans().find(({ name }) => name === "POST");
    }
    expect(span).toMatchObject({ kind: SpanKind.CLIENT, parentSpanContext: undefined });
    const { port } = receiver.address() as { readonly port: number };
    expect(span.attributes).toEqual({
      "http.request.method": "POST",
      "http.response.status_code": 200,
      "server.address": "127.0.0.1",
      "server.port": port,
    });
    expect(received).toEqual([
      expect.objectContaining({ traceparent: `00-${traceOf(span)}-${idOf(span)}-01` }),
    ]);
    for (const name of ["tracestate", "baggage"]) expect(received[0]).not.toHaveProperty(name);
  });
});

describe("metrics", () => {
  it("are those of the catalog, with the same values [D-OTEL-6]", async () => {
    const found = await recorded.metrics();
    const byName = new Map(found.map((metric) => [metric.descriptor.name, metric]));
    const all = [...Object.values(COUNTERS), ...Object.values(HISTOGRAMS), ...Object.values(GAUGES)];
    const known = new Map(all.map((metric) => [`sign_in_${metric.name}`, metric]));
    expect([...byName.keys()].filter((name) => !known.has(name))).toEqual([]);
    for (const [name, { descriptor, dataPoints }] of byName) {
      const { help, labels } = known.get(name)!;
      expect(descriptor.description).toBe(help);
      for (const { attributes } of dataPoints)
        expect(Object.keys(labels)).toEqual(expect.arrayContaining(Object.keys(attributes)));
    }
    expect([...byName.keys()]).toEqual(
      expect.arrayContaining([
        "sign_in_token_responses_total",
        "sign_in_process_info",
        "sign_in_clock_difference_seconds",
      ]),
    );
    const sum = (name: string): unknown[] =>
      byName.get(name)!.dataPoints.map(({ attributes, value }) => [attributes["grant_type"], value]);
    expect(sum("sign_in_token_responses_total")).toContainEqual(["password", 1]);
    const timed = byName.get("sign_in_request_duration_seconds")!;
    expect(timed.descriptor.unit).toBe("s");
    expect(await running.service.metrics()).toContain(
      'sign_in_token_responses_total{grant_type="password",kind="web"} 1',
    );
  });
});
