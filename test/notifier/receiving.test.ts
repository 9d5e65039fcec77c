import { once } from "node:events";
import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "@jest/globals";
import Koa from "koa";
import { koaBody } from "koa-body";
import {
  notificationReceiver,
  type NotificationReceiverOptions,
  type ReceivedNotification,
  rememberInMemory,
} from "../../notifier/index.ts";
import { signatureHeader, signingKey } from "../../receiver/signature.ts";
import { afterwards, BODY, deliverer, OLD_SECRET, options, SECRET, target } from "./attempts.ts";

const CREDENTIALS = { client_id: "news", client_secret: "a secret of news" };
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** A receiver that keeps its notifications, and the errors of its application. */
async function receiver(
  settings: Partial<NotificationReceiverOptions> = {},
  before?: Koa.Middleware,
  listens = true,
) {
  const received: ReceivedNotification[] = [];
  const errors: unknown[] = [];
  const app = new Koa();
  app.silent = true;
  if (listens) app.on("error", (error: unknown) => errors.push(error));
  if (before !== undefined) app.use(before);
  app.use(
    notificationReceiver({
      credentials: CREDENTIALS,
      secrets: [SECRET],
      onNotification: (notification) => void received.push(notification),
      ...settings,
    }),
  );
  const handle = app.callback();
  const server = createServer((request, response) => void handle(request, response));
  servers.push(server);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/notify`, received, errors };
}

const basic = (text: string): string => `Basic ${Buffer.from(text).toString("base64")}`;

/** The headers of a notification that is right in everything. */
function headersOf(
  body: string,
  id = "msg_1",
  timestamp = Math.floor(Date.now() / 1000),
): Record<string, string> {
  return {
    authorization: basic("news:a secret of news"),
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": signatureHeader([signingKey(SECRET)], { id, timestamp, body }),
  };
}

async function post(
  url: string,
  headers: Record<string, string> = {},
  body = BODY,
): Promise<[number, unknown]> {
  const response = await fetch(url, { method: "POST", headers: { ...headersOf(body), ...headers }, body });
  return [response.status, await response.json()];
}

/** Posts the notification with this number, whose address has it too. */
function send(url: string, number: number): Promise<[number, unknown]> {
  const body = BODY.replace(/"user_email":"[^"]*"/, `"user_email":"a${number}@example.com"`);
  return post(url, headersOf(body, `msg_${number}`), body);
}

const away = (): never => {
  throw new Error("away");
};

/** A body parser that keeps the text. */
const keeping: Koa.Middleware = async (ctx, next) => {
  let text = "";
  for await (const chunk of ctx.req.setEncoding("utf8") as AsyncIterable<string>) text += chunk;
  Object.assign(ctx.request, { rawBody: text });
  await next();
};

describe("notificationReceiver", () => {
  it("accepts notifications of the service, and answers 200 to repeats without handling them again [NOTIFY-4, NOTIFY-6, EVENT-8]", async () => {
    const { url, received } = await receiver();
    const { attempt } = deliverer();
    for (const id of ["one", "one", "two", "one"]) {
      expect(await attempt(target(url), BODY, options(id))).toMatchObject({ status: 200, answer: "{}" });
    }
    expect(received.map(({ id }) => id)).toEqual(["one", "two"]);
    expect(received[0]).toEqual({ id: "one", ...(JSON.parse(BODY) as object) });
  });

  it("never goes back when the end of a lane is repeated, also after a restart that keeps the ids [D-NOTIFY-19]", async () => {
    const seen = rememberInMemory();
    const known: string[] = [];
    const settings = {
      seen,
      onNotification: ({ data }: ReceivedNotification) => void known.push(data.user_email),
    };
    const before = await receiver(settings);
    const after = await receiver(settings);
    for (const number of [1, 2, 3]) expect(await send(before.url, number)).toEqual([200, {}]);
    for (const { url } of [before, after])
      for (const number of [2, 3]) expect(await send(url, number)).toEqual([200, {}]);
    expect(known).toEqual(["a1@example.com", "a2@example.com", "a3@example.com"]);
    expect(await send(after.url, 4)).toEqual([200, {}]);
    expect(known.at(-1)).toBe("a4@example.com");
  });

  it("refuses other credentials [NOTIFY-5]", async () => {
    const { url, received } = await receiver();
    const wrong = [
      "news:",
      ":a secret of news",
      "news:a secret of newS",
      "news:a secret of news ",
      "news",
      "",
      "shop:a secret of news",
      ":",
    ];
    for (const authorization of [
      ...wrong.map(basic),
      "Bearer x",
      "Basic",
      "Basic %%%",
      basic("news:a secret of news") + "!",
    ]) {
      expect(await post(url, { authorization })).toEqual([401, { error: expect.any(String) }]);
    }
    const response = await fetch(url, { method: "POST", body: BODY });
    expect([response.status, response.headers.get("www-authenticate")]).toEqual([
      401,
      'Basic realm="notifications", charset="UTF-8"',
    ]);
    expect(received).toEqual([]);
  });

  it("accepts both credentials and both secrets during a rotation [NOTIFY-5]", async () => {
    const next = { client_id: "news", client_secret: "zażółć:gęślą jaźń" };
    const { url, received } = await receiver({
      credentials: [CREDENTIALS, next],
      secrets: [OLD_SECRET, SECRET],
    });
    expect(await post(url, { "webhook-id": "msg_1" })).toEqual([200, {}]);
    const { attempt } = deliverer();
    expect(await attempt(target(url, next), BODY, options("msg_2"))).toMatchObject({ status: 200 });
    expect(received).toHaveLength(2);
  });

  it("refuses wrong and old signatures with 401, and malformed requests with 400", async () => {
    const { url, received } = await receiver();
    expect(await post(url, { "webhook-signature": "v1,abc" })).toMatchObject([401, {}]);
    expect(await post(url, headersOf(BODY, "msg_1", Math.floor(Date.now() / 1000) - 400))).toMatchObject([
      401,
      {},
    ]);
    expect(await post(url, {}, "{}")).toMatchObject([
      400,
      { error: expect.stringContaining("notification_type") },
    ]);
    expect(await post(url, { "webhook-id": "" })).toMatchObject([400, {}]);
    expect(received).toEqual([]);
  });

  it("checks everything but the signature when it has no secret", async () => {
    const { url, received } = await receiver({ secrets: [] });
    expect(await post(url, { "webhook-signature": "", "webhook-timestamp": "" })).toEqual([200, {}]);
    expect(await post(url, { authorization: basic("news:") })).toMatchObject([401, {}]);
    expect(await post(url, {}, "{}")).toMatchObject([400, {}]);
    expect(received).toHaveLength(1);
  });

  it("reads at most 64 KiB, with or without Content-Length", async () => {
    const { url, received } = await receiver();
    expect(await post(url, {}, `${BODY}${" ".repeat(65_536)}`)).toMatchObject([
      400,
      { error: expect.any(String) },
    ]);
    const status = await new Promise((resolve, reject) => {
      const request = httpRequest(url, {
        method: "POST",
        headers: { ...headersOf(BODY), "transfer-encoding": "chunked" },
      });
      request.on("response", (response) => resolve(response.resume().statusCode));
      request.on("error", reject);
      // Goes on for ever unless it is stopped.
      const more = (): void => {
        while (!request.destroyed && request.write(" ".repeat(8_192)));
      };
      request.on("drain", more);
      afterwards(() => request.destroy());
      more();
    });
    expect(status).toBe(400);
    expect(received).toEqual([]);
  });

  it("does not wait for the body of an aborted request", async () => {
    const arrived = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<number>();
    const { url, received } = await receiver({}, async (ctx, next) => {
      const gone = once(ctx.req, "close");
      arrived.resolve();
      await gone.catch(() => undefined);
      await next();
      answered.resolve(ctx.status);
    });
    const headers = { ...headersOf(BODY), "content-length": Buffer.byteLength(BODY) };
    const request = httpRequest(url, { method: "POST", headers });
    request.on("error", () => undefined).write(BODY.slice(0, 10));
    await arrived.promise;
    request.destroy();
    expect(await answered.promise).toBe(400);
    expect(received).toEqual([]);
  });

  it("answers 503 when it fails, and handles the repeat", async () => {
    const handled: string[] = [];
    let broken = true;
    const { url, errors } = await receiver({
      async onNotification({ id }) {
        if (broken) throw new Error("the database is away");
        handled.push(id);
      },
    });
    expect(await post(url)).toMatchObject([503, {}]);
    broken = false;
    expect(await post(url)).toEqual([200, {}]);
    expect(await post(url)).toEqual([200, {}]);
    expect([handled, errors.length]).toEqual([["msg_1"], 1]);
  });

  it.each(["busy", null, { status: 200 }])("answers 503 when it fails with %j", async (thrown) => {
    const onNotification = (): void => AbortSignal.abort(thrown).throwIfAborted();
    const { url, errors } = await receiver({ onNotification });
    // What an application does that listens to no errors itself.
    const silent = await receiver({ onNotification }, undefined, false);
    for (const each of [url, silent.url]) expect(await post(each)).toMatchObject([503, {}]);
    expect(errors).toMatchObject([{ cause: thrown }]);
  });

  it("answers 503 when it can't remember, and when it can't look up", async () => {
    const seen = rememberInMemory();
    for (const part of ["has", "add"] as const) {
      const { url } = await receiver({ seen: { ...seen, [part]: away } });
      expect(await post(url)).toMatchObject([503, {}]);
    }
  });

  it("handles a notification once that is repeated meanwhile, and all requests get its answer", async () => {
    let finish: (() => void) | undefined;
    let fail: (() => void) | undefined;
    let calls = 0;
    // The time of each request is asked for when its body is there, right before it is handled.
    const arrived: unknown[] = [];
    const { url } = await receiver({
      now: () => {
        arrived.push("one");
        return Date.now();
      },
      onNotification: () => {
        calls += 1;
        return new Promise<void>((resolve, reject) => {
          finish = resolve;
          fail = () => reject(new Error("no"));
        });
      },
    });
    const all = async (end: () => void): Promise<unknown[]> => {
      const answers = [post(url), post(url), post(url)];
      while (arrived.length < 3) await new Promise((resolve) => void setImmediate(resolve));
      arrived.length = 0;
      end();
      return (await Promise.all(answers)).map(([status]) => status);
    };
    expect(await all(() => fail?.())).toEqual([503, 503, 503]);
    expect(await all(() => finish?.())).toEqual([200, 200, 200]);
    expect(calls).toBe(2);
  });

  it("answers only POST requests to its own path", async () => {
    const { url } = await receiver({ path: "/notify" }, async (ctx, next) => {
      await next();
      if (ctx.status === 404) ctx.body = { mine: true };
    });
    const get = await fetch(url);
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
    expect((await post(`${url}/`))[1]).toEqual({ mine: true });
    expect(await post(url)).toEqual([200, {}]);
  });

  it("uses the raw body that a body parser has kept, and reports when there is none", async () => {
    const kept = await receiver({}, keeping);
    expect(await post(kept.url)).toEqual([200, {}]);
    const parsed = await receiver({}, koaBody());
    const response = await fetch(parsed.url, { method: "POST", headers: headersOf(BODY), body: BODY });
    expect(response.status).toBe(500);
    expect(String(parsed.errors[0])).toContain("must come before a body parser");
  });

  it.each([
    [{ credentials: [] }, "credentials"],
    [{ credentials: { client_id: "a", client_secret: "" } }, "credentials"],
    [{ credentials: { client_id: "", client_secret: "a" } }, "credentials"],
    [{ credentials: [CREDENTIALS, { client_id: "a", client_secret: "fifteen letters" }] }, "credentials"],
    [{ secrets: ["secret"] }, "secrets"],
    [{ secrets: [SECRET, `whsec_${Buffer.alloc(23, 1).toString("base64")}`] }, "secrets"],
  ])("refuses the options %j", (settings, name) => {
    const complete = { credentials: CREDENTIALS, onNotification: () => undefined, ...settings };
    expect(() => notificationReceiver(complete)).toThrow(new RegExp(`^${name}: `));
    expect(() => notificationReceiver(complete)).not.toThrow(/fifteen|AQEB/);
  });
});
