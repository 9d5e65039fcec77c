import { describe, expect, it } from "@jest/globals";
import { Webhook } from "standardwebhooks";
import { at, BODY, deliverer, OK, OLD_SECRET, opened, options, SECRET, target, tried } from "../attempts.ts";
import { bodyOf, bytesPeer, httpPeer, onRequests, tcpPeer } from "../peers.ts";

const unavailable = (value: string): string =>
  `HTTP/1.1 503 No\r\nRetry-After: ${value}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`;

describe("an attempt", () => {
  it("is the documented POST: path, Basic, type, and the body byte for byte", async () => {
    const requests: Record<string, unknown>[] = [];
    const peer = await opened(
      httpPeer((request, response) => {
        void bodyOf(request).then((body) => {
          const { method, url, headers } = request;
          requests.push({ method, url, headers, body });
          return response.end("thanks");
        });
      }),
    );
    const clock = { now: () => 1_763_000_123_987 };
    const client = { client_id: "zażółć", client_secret: "a:b %+&=" };
    const result = await deliverer({ clock }).attempt(target(at(peer, "/a/b?c=d"), client), BODY, options());
    expect(result).toEqual({
      kind: "answered",
      status: 200,
      answer: "thanks",
      startedAt: 1_763_000_123_987,
      duration: expect.any(Number),
    });
    expect(requests).toEqual([
      {
        method: "POST",
        url: "/a/b?c=d",
        body: BODY,
        headers: {
          host: `127.0.0.1:${peer.port}`,
          connection: "keep-alive",
          authorization: `Basic ${Buffer.from("zażółć:a:b %+&=").toString("base64")}`,
          "content-type": "application/json",
          "content-length": String(Buffer.byteLength(BODY)),
          "user-agent": "sign-in-service",
          "webhook-id": "msg_1",
          "webhook-timestamp": "1763000123",
          "webhook-signature": expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
        },
      },
    ]);
  });

  it("is signed so that the library of Standard Webhooks accepts it, anew each time, with both secrets during a rotation [D-NOTIFY-11]", async () => {
    const seen: { headers: Record<string, string>; body: string }[] = [];
    const peer = await opened(
      httpPeer((request, response) => {
        void bodyOf(request).then((body) => {
          seen.push({ headers: request.headers as Record<string, string>, body });
          return response.writeHead(503).end();
        });
      }),
    );
    let now = Date.now() - 60_000;
    const { attempt } = deliverer({ clock: { now: () => now } });
    const both = target(at(peer), { signing_secrets: [SECRET, OLD_SECRET] });
    await attempt(both, BODY, options());
    now += 60_000;
    await attempt(both, BODY, options());
    await attempt(target(at(peer), { signing_secrets: [] }), BODY, options());
    for (const { headers, body } of seen.slice(0, 2)) {
      expect(new Webhook(SECRET).verify(body, headers)).toEqual(JSON.parse(BODY));
      expect(new Webhook(OLD_SECRET).verify(body, headers)).toEqual(JSON.parse(BODY));
      expect(() => new Webhook("whsec_AAAA").verify(body, headers)).toThrow("No matching signature");
      expect(() => new Webhook(SECRET).verify(`${body} `, headers)).toThrow("No matching signature");
    }
    const [first, second, third] = seen.map(({ headers }) => headers);
    expect(new Set(seen.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set(["msg_1"]));
    expect(Number(second!["webhook-timestamp"]) - Number(first!["webhook-timestamp"])).toBe(60);
    expect(second!["webhook-signature"]).not.toBe(first!["webhook-signature"]);
    expect(third).not.toHaveProperty("webhook-signature");
    expect(third).toHaveProperty("webhook-timestamp");
  });

  it("reports the response of the receiver, and follows no redirect [D-NOTIFY-12]", async () => {
    const paths: string[] = [];
    const peer = await opened(
      httpPeer((request, response) => {
        paths.push(request.url ?? "");
        request.resume();
        response.writeHead(Number(request.url?.slice(1)), { location: "/200" }).end();
      }),
    );
    const { attempt } = deliverer();
    for (const status of [
      200, 201, 204, 299, 300, 301, 302, 303, 307, 308, 400, 404, 410, 429, 500, 503, 599,
    ]) {
      const result = await attempt(target(at(peer, `/${status}`)), BODY, options());
      expect(result).toMatchObject({ kind: "answered", status });
      expect(paths.splice(0)).toEqual([`/${status}`]);
    }
    expect(peer.connections()).toBe(1);
  });

  it("reads Retry-After as seconds and as a date [D-NOTIFY-14]", async () => {
    const seconds = await opened(bytesPeer(unavailable("120")));
    expect(await tried(seconds)).toEqual({ kind: "answered", status: 503, retryAfter: 120, answer: "" });
    const nonsense = await opened(bytesPeer(unavailable("soon")));
    expect(await tried(nonsense)).toEqual({ kind: "answered", status: 503, answer: "" });
    const now = Date.parse("2026-03-01T10:00:00Z");
    const date = await opened(bytesPeer(unavailable("Sun, 01 Mar 2026 10:00:30 GMT")));
    const { retryAfter } = (await tried(date, { clock: { now: () => now } })) as { retryAfter: number };
    expect([29, 30]).toContain(retryAfter);
  });

  it("never rejects, and is never sent with a secret or header that can't be sent [D-NOTIFY-11]", async () => {
    const peer = await opened(bytesPeer(OK));
    const { attempt } = deliverer();
    const broken = target(at(peer), { signing_secrets: ["whsec_not base64"] });
    expect(await attempt(broken, BODY, options())).toMatchObject({ code: "invalid_signing_secret" });
    expect(await attempt(target(at(peer)), BODY, options("a\r\nb: c"))).toMatchObject({
      kind: "failed",
      code: "ERR_INVALID_CHAR",
    });
    expect(peer.connections()).toBe(0);
  });

  it("ends at once when its signal is aborted, and does not start after that", async () => {
    const stop = new AbortController();
    const peer = await opened(tcpPeer((socket) => socket.on("data", () => stop.abort())));
    const { attempt } = deliverer();
    const aborted = { kind: "failed", code: "aborted" };
    expect(await attempt(target(at(peer)), BODY, options("a", stop.signal))).toMatchObject(aborted);
    expect(await attempt(target(at(peer)), BODY, options("b", stop.signal))).toMatchObject(aborted);
    expect(peer.connections()).toBe(1);
  });

  it("leaves no listeners on the signal, with fifty attempts at once", async () => {
    const peer = await opened(
      httpPeer((request, response) => void request.resume().on("end", () => response.end())),
    );
    const { attempt } = deliverer();
    const warnings: Error[] = [];
    const warn = (warning: Error): void => void warnings.push(warning);
    process.on("warning", warn);
    const { signal } = new AbortController();
    const all = await Promise.all(
      Array.from({ length: 200 }, (_, i) => attempt(target(at(peer)), BODY, options(`m${i}`, signal))),
    );
    process.off("warning", warn);
    expect(new Set(all.map(({ kind }) => kind))).toEqual(new Set(["answered"]));
    expect(warnings).toEqual([]);
    // The other hundred and fifty waited for a connection.
    expect(peer.connections()).toBe(50);
  });
});

describe("a connection that is kept alive", () => {
  it("is reused, and when the receiver closes it meanwhile that is not a failure", async () => {
    const ids: string[] = [];
    const peer = await opened(
      tcpPeer((socket) => {
        let count = 0;
        onRequests(socket, (head) => {
          ids.push(/^webhook-id: (.*)$/im.exec(head)?.[1] ?? "");
          count += 1;
          if (count === 1) socket.write(OK);
          else socket.destroy();
        });
      }),
    );
    const { attempt } = deliverer();
    expect(await attempt(target(at(peer)), BODY, options("one"))).toMatchObject({ status: 200 });
    expect(await attempt(target(at(peer)), BODY, options("two"))).toMatchObject({ status: 200 });
    expect([ids, peer.connections()]).toEqual([["one", "two", "two"], 2]);
  });

  it("that had to be waited for is connected already, and its response may take the full time [D-NOTIFY-13]", async () => {
    let first: (() => void) | undefined;
    const peer = await opened(
      httpPeer((request, response) => {
        request.resume().on("end", () => {
          if (first === undefined) first = () => void response.end();
          // Longer than the time-out for connecting.
          else setTimeout(() => response.end(), 300);
        });
        setTimeout(() => first?.(), 100);
      }),
    );
    const one = { total: 1, perReceiver: 1 };
    const { attempt } = deliverer({ concurrency: one, timeouts: { connect: 0.15, total: 15 } });
    const both = await Promise.all(["a", "b"].map((id) => attempt(target(at(peer)), BODY, options(id))));
    expect(both.map(({ kind }) => kind)).toEqual(["answered", "answered"]);
    expect(peer.connections()).toBe(1);
  });

  it("is not retried when it was new, nor after a part of the response", async () => {
    const answers = ["", "HTTP/1.1 5"];
    const peer = await opened(
      tcpPeer((socket) =>
        onRequests(socket, () => {
          socket.end(answers.shift() ?? "");
        }),
      ),
    );
    const { attempt } = deliverer();
    const closed = { kind: "failed", code: "ECONNRESET" };
    expect(await attempt(target(at(peer)), BODY, options())).toMatchObject(closed);
    expect(await attempt(target(at(peer)), BODY, options())).toMatchObject({ kind: "failed" });
    expect(peer.connections()).toBe(2);
  });
});
