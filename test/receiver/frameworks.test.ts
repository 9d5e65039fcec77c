/** The receiver in each framework: the same request gets the same answer. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { describe, expect, it } from "@jest/globals";
import express from "express";
import Koa from "koa";
import {
  notificationHandler,
  notificationListener,
  notificationReceiver,
  type NotificationReceiverOptions,
  type ReceivedNotification,
} from "../../receiver/index.ts";
import { afterwards, BODY, deliverer, OLD_SECRET, options, SECRET, target } from "../notifier/attempts.ts";

const CREDENTIALS = { client_id: "news", client_secret: "a secret of news" };

/** @returns the origin of a server on a free port. */
async function listening(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  afterwards(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

type Start = (settings: NotificationReceiverOptions) => Promise<string>;

const FRAMEWORKS: Readonly<Record<string, Start>> = {
  "Node.js": (settings) => listening(notificationListener(settings)),
  Express: (settings) => listening(express().use(notificationListener(settings)) as RequestListener),
  "Express, mounted": (settings) =>
    listening(express().use("/notify", notificationListener(settings)) as RequestListener),
  "Express, after a parser": (settings) =>
    listening(
      express()
        .use(
          express.json({ verify: (request, _response, bytes) => Object.assign(request, { rawBody: bytes }) }),
        )
        .use(notificationListener(settings)) as RequestListener,
    ),
  Koa(settings) {
    const app = new Koa().use(notificationReceiver(settings));
    app.silent = true;
    const handle = app.callback();
    return listening((request, response) => void handle(request, response));
  },
  "requests of the Web"(settings) {
    const handle = notificationHandler(settings);
    return listening((request, response) => {
      const { method = "", url = "", headers } = request;
      const body = method === "GET" ? null : (Readable.toWeb(request) as BodyInit);
      const init = { method, headers: headers as Record<string, string>, body, duplex: "half" };
      void handle(new Request(new URL(url, "http://127.0.0.1"), init)).then(async (answer) =>
        response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text()),
      );
    });
  },
};

describe.each(Object.entries(FRAMEWORKS))("a receiver with %s", (_name, start) => {
  async function receiver(fails = false) {
    const received: ReceivedNotification[] = [];
    const errors: Error[] = [];
    const url = await start({
      path: "/notify",
      credentials: CREDENTIALS,
      secrets: [SECRET],
      onError: (error) => void errors.push(error),
      onNotification(notification) {
        if (fails) throw new Error("the database is away");
        received.push(notification);
      },
    });
    return { url: `${url}/notify`, received, errors };
  }

  it("handles a notification of the service once", async () => {
    const { url, received } = await receiver();
    const { attempt } = deliverer();
    for (const id of ["one", "one"])
      expect(await attempt(target(url), BODY, options(id))).toMatchObject({ status: 200, answer: "{}" });
    expect(received).toEqual([{ id: "one", ...(JSON.parse(BODY) as object) }]);
  });

  it("refuses wrong credentials, signatures, bodies, methods and paths, and handles nothing", async () => {
    const { url, received, errors } = await receiver();
    const { attempt } = deliverer();
    const wrong = { ...CREDENTIALS, client_secret: "another secret of news" };
    const refusals: readonly (readonly [number, unknown])[] = [
      [401, await attempt(target(url, wrong), BODY, options())],
      [401, await attempt(target(url, { signing_secrets: [OLD_SECRET] }), BODY, options())],
      [401, await attempt(target(url, { signing_secrets: [] }), BODY, options())],
      [400, await attempt(target(url), "{}", options())],
      [400, await attempt(target(url), `${BODY}${" ".repeat(65_536)}`, options())],
      [404, await attempt(target(`${url}/other`), BODY, options())],
    ];
    for (const [status, result] of refusals) expect(result).toMatchObject({ status });
    const got = await fetch(url);
    expect([got.status, got.headers.get("allow")]).toEqual([405, "POST"]);
    expect([received, errors]).toEqual([[], []]);
  });

  it("answers 503 when the handler throws, and says so", async () => {
    const { url, errors } = await receiver(true);
    const { attempt } = deliverer();
    expect(await attempt(target(url), BODY, options())).toMatchObject({ status: 503 });
    expect(errors).toMatchObject([{ message: "the database is away" }]);
  });
});
