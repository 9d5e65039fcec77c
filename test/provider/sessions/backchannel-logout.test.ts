import { execFile } from "node:child_process";
import { EventEmitter } from "node:events";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { Provider } from "oidc-provider";
import type { Configuration } from "../../../config/configuration.ts";
import { createEvents } from "../../../core/events.ts";
import { backchannelFetch, createBackchannelLogout } from "../../../provider/sessions/backchannel-logout.ts";
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

/** A client whose first logout token is refused. What the client holds is gone when no one holds it. */
function refusedOnce(provider: EventEmitter): {
  readonly held: WeakRef<object>;
  readonly notified: Promise<void>;
} {
  const { promise: notified, resolve } = Promise.withResolvers<void>();
  const client = {
    clientId: "news",
    backchannelLogout: () => {
      resolve();
      return Promise.resolve();
    },
  };
  provider.emit("backchannel.error", {}, new Error("refused"), client, "ada", "a session");
  return { held: new WeakRef(client), notified };
}

it("keeps nothing of a client that was notified at the second attempt", async () => {
  const provider = new EventEmitter();
  const backchannel = createBackchannelLogout(
    { sessionsOf: () => Promise.resolve([]) },
    createEvents(() => undefined),
    () => undefined,
  );
  backchannel.listen(provider as unknown as Provider);
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const { held, notified } = refusedOnce(provider);
  await notified;
  for (let tries = 0; held.deref() !== undefined && tries < 50; tries += 1) {
    await pause(20);
    collect();
  }
  expect(held.deref()).toBeUndefined();
  await backchannel.stop();
});
