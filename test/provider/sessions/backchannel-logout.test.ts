import { execFile } from "node:child_process";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { Provider } from "oidc-provider";
import type { Configuration } from "../../../config/configuration.ts";
import { createEvents } from "../../../core/events.ts";
import {
  backchannelFetch,
  type BackchannelLogout,
  createBackchannelLogout,
} from "../../../provider/sessions/backchannel-logout.ts";
import { bodyOf, bytesPeer, httpPeer, type Peer } from "../../notifier/peers.ts";

const open: Peer[] = [];
afterEach(async () => {
  for (const peer of open.splice(0)) await peer.close();
});

async function opened(peer: Promise<Peer>): Promise<string> {
  const known = await peer;
  open.push(known);
  return `http://127.0.0.1:${known.port}/logout`;
}

/** A `fetch` with the parts of a configuration that it reads. */
function configured(
  allowedReceivers: readonly string[],
  fetch?: typeof globalThis.fetch,
): typeof globalThis.fetch {
  const notifications = { allowedReceivers } as Configuration["notifications"];
  return backchannelFetch({ notifications, ...(fetch && { fetch }) } as Configuration);
}

/** Arguments as oidc-provider passes them, with its own guard. */
const call = () => ({
  method: "POST",
  redirect: "manual" as const,
  headers: new Headers({ "content-type": "application/x-www-form-urlencoded", "user-agent": "" }),
  body: new URLSearchParams({ logout_token: "a.b.c" }),
  signal: AbortSignal.timeout(2_500),
  dispatcher: { guard: true },
});

describe("requests for back-channel logout", () => {
  it("arrive unchanged, and the response comes back [D-ACCOUNT-16]", async () => {
    const requests: unknown[] = [];
    const url = await opened(
      httpPeer((request, response) => {
        void bodyOf(request).then((body) => {
          requests.push([request.method, request.url, request.headers["content-type"], body]);
          return response.writeHead(200, { "content-type": "text/plain" }).end("fine");
        });
      }),
    );
    const answer = await configured(["127.0.0.1"])(url, call());
    expect([answer.status, answer.headers.get("content-type"), await answer.text()]).toEqual([
      200,
      "text/plain",
      "fine",
    ]);
    expect(requests).toEqual([
      ["POST", "/logout", "application/x-www-form-urlencoded", "logout_token=a.b.c"],
    ]);
  });

  it("obey the address rules of notifications and follow no redirects [D-ACCOUNT-16, D-NOTIFY-18]", async () => {
    const url = await opened(
      bytesPeer("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"),
    );
    const named = url.replace("127.0.0.1", "localhost");
    expect((await configured(["localhost"])(named, call())).status).toBe(302);
    await expect(configured(["localhost"])(url, call())).rejects.toMatchObject({ code: "address_refused" });
    await expect(configured([])(named, call())).rejects.toMatchObject({ code: "address_refused" });
    await expect(configured(["10.0.0.0/8"])(url, call())).rejects.toMatchObject({ code: "address_refused" });
    await expect(configured([])("http://[::ffff:127.0.0.1]/", call())).rejects.toMatchObject({
      code: "address_refused",
    });
    expect(open.map((peer) => peer.connections())).toEqual([1]);
  });

  it("end when the receiver closes early, sends no body or sends an endless one", async () => {
    const fetch = configured(["127.0.0.1"]);
    const none = await opened(bytesPeer("HTTP/1.1 204 No Content\r\n\r\n"));
    expect((await fetch(none, call())).status).toBe(204);
    const broken = await opened(
      bytesPeer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", (socket) => socket.end()),
    );
    await expect(fetch(broken, call())).rejects.toMatchObject({ code: "ECONNRESET" });
    const closed = await opened(bytesPeer("", (socket) => socket.end()));
    await expect(fetch(closed, call())).rejects.toMatchObject({ code: "ECONNRESET" });
    const endless = await opened(
      bytesPeer("HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\n\r\n", (socket) => {
        const more = (): void => {
          while (socket.writable && socket.write("x".repeat(16_384)));
        };
        socket.on("drain", more);
        more();
      }),
    );
    expect((await (await fetch(endless, call())).arrayBuffer()).byteLength).toBeLessThan(256 * 1024);
    const silent = await opened(bytesPeer(""));
    const soon = { ...call(), signal: AbortSignal.timeout(100) };
    await expect(fetch(silent, soon)).rejects.toMatchObject({ name: expect.stringMatching(/Abort|Timeout/) });
  });

  it("use the host application's fetch, with oidc-provider's guard unless the address is allowed", async () => {
    const guards: unknown[] = [];
    const own: typeof globalThis.fetch = async (_target, init) => {
      guards.push((init as { dispatcher?: unknown }).dispatcher);
      return new Response();
    };
    const fetch = configured(["hooks.internal"], own);
    await fetch("https://hooks.internal/", call());
    await fetch("https://client.example/", call());
    expect(guards).toEqual([undefined, { guard: true }]);
  });

  it("are refused with the same code by oidc-provider's guard, where the host application's fetch connects [D-BACKCHANNEL-1]", async () => {
    const url = await opened(httpPeer((_request, response) => response.end()));
    const script = join(import.meta.dirname, "guarded-logout.ts");
    const run = async (...allowed: string[]): Promise<string> => {
      const { stdout } = await promisify(execFile)(process.execPath, [script, url, ...allowed]);
      return stdout.trim().split("\n").at(-1) ?? "";
    };
    expect([await run(), await run("127.0.0.1")]).toEqual(["address_refused", "sent"]);
  });
});

describe("the queue of logout tokens", () => {
  /** Clients whose addresses answer when the test says so. */
  class SlowClients {
    readonly waiting = new Map<string, PromiseWithResolvers<void>[]>();
    readonly events = createEvents(() => undefined);
    readonly warnings: string[] = [];
    readonly failed: unknown[] = [];
    readonly gone = new Set<string>();
    readonly queue: BackchannelLogout;

    constructor() {
      const find = async (client_id: string) =>
        this.gone.has(client_id) || client_id === "without"
          ? undefined
          : { backchannelLogoutUri: "https://c.example/", sendLogoutToken: () => this.#send(client_id) };
      const provider = { Client: { find } } as unknown as Provider;
      this.queue = createBackchannelLogout(
        () => provider,
        this.events,
        (text) => void this.warnings.push(text),
      );
      this.events.on("backchannel.failed", (failed) => void this.failed.push(failed));
    }

    #send(client_id: string): Promise<void> {
      const answer = Promise.withResolvers<void>();
      this.waiting.set(client_id, [...(this.waiting.get(client_id) ?? []), answer]);
      return answer.promise;
    }

    /** How many requests each client has open. */
    requests(...client_ids: string[]): number[] {
      return client_ids.map((client_id) => this.waiting.get(client_id)?.length ?? 0);
    }

    /** All open requests are answered. */
    answer(): void {
      const all = [...this.waiting.values()].flat();
      this.waiting.clear();
      for (const { resolve } of all) resolve();
    }

    async end(sessions: number, ...client_ids: string[]): Promise<void> {
      const payload = { authorizations: Object.fromEntries(client_ids.map((id) => [id, { sid: "s" }])) };
      await this.queue.sessionsEnded(
        "ada",
        Array.from({ length: sessions }, () => ({ payload })),
      );
      await setImmediate();
    }
  }

  it("sends ten at a time to one client and fifty in all, and no client waits for another one [D-OWN-5]", async () => {
    const clients = new SlowClients();
    await clients.end(2_000, "one");
    expect(clients.requests("one")).toEqual([10]);
    await clients.end(20, "two", "three", "four", "five", "six", "without");
    const all = ["one", "two", "three", "four", "five", "six"];
    expect(clients.requests(...all)).toEqual([10, 8, 8, 8, 8, 8]);
    const most = { client: 0, sum: 0 };
    for (let now = clients.requests(...all); Math.max(...now) > 0; now = clients.requests(...all)) {
      most.client = Math.max(most.client, ...now);
      most.sum = Math.max(
        most.sum,
        now.reduce((sum, each) => sum + each, 0),
      );
      clients.answer();
      await setImmediate();
    }
    expect([most, clients.failed]).toEqual([{ client: 10, sum: 50 }, []]);
    await clients.queue.settled(1_000);
  });

  it("asks at each attempt what the client is, and tells nobody who is gone [D-OWN-5]", async () => {
    const clients = new SlowClients();
    await clients.end(30, "one");
    clients.gone.add("one");
    clients.answer();
    await clients.queue.settled(1_000);
    expect([clients.requests("one"), clients.failed, clients.warnings]).toEqual([[0], [], []]);
  });

  it("gives up what waits when it stops, and what is more than a client can have [D-OWN-5, D-BACKCHANNEL-1]", async () => {
    const clients = new SlowClients();
    await clients.end(10_012, "one");
    expect(clients.failed).toEqual([
      { client_id: "one", reason: "too_many", attempts: 0 },
      { client_id: "one", reason: "too_many", attempts: 0 },
    ]);
    const stopped = clients.queue.stop();
    clients.answer();
    await stopped;
    expect(clients.failed.slice(2)).toEqual(
      Array.from({ length: 10_000 }, () => ({ client_id: "one", reason: "closed", attempts: 0 })),
    );
    expect(clients.warnings.at(-1)).toBe(
      "one was not notified that a session ended (closed, after 0 attempts)",
    );
  });
});
