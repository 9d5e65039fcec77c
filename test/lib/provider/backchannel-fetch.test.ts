import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { Configuration } from "../../../config/configuration.ts";
import { backchannelFetch } from "../../../lib/provider/backchannel-fetch.ts";
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

/** The parts of a configuration that are read. */
function configured(
  allowedReceivers: readonly string[],
  fetch?: typeof globalThis.fetch,
): typeof globalThis.fetch {
  const notifications = { allowedReceivers } as Configuration["notifications"];
  return backchannelFetch({ notifications, ...(fetch && { fetch }) } as Configuration);
}

/** As the library calls it, with its own guard along. */
const call = () => ({
  method: "POST",
  redirect: "manual" as const,
  headers: new Headers({ "content-type": "application/x-www-form-urlencoded", "user-agent": "" }),
  body: new URLSearchParams({ logout_token: "a.b.c" }),
  signal: AbortSignal.timeout(2_500),
  dispatcher: { guard: true },
});

describe("the requests that the protocol library makes", () => {
  it("arrive as they were meant, and give the answer [D-ACCOUNT-16]", async () => {
    const seen: unknown[] = [];
    const url = await opened(
      httpPeer((request, response) => {
        void bodyOf(request).then((body) => {
          seen.push([request.method, request.url, request.headers["content-type"], body]);
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
    expect(seen).toEqual([["POST", "/logout", "application/x-www-form-urlencoded", "logout_token=a.b.c"]]);
  });

  it("go to no address that a notification may not go to, and follow no redirect [D-ACCOUNT-16, D-NOTIFY-18]", async () => {
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

  it("end when the other side breaks off, answers without a body or without an end", async () => {
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

  it("go through the host's own fetch, with the library's guard unless the address is allowed", async () => {
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

  it("are refused by the library's guard in the same words as by ours, where the host's own fetch connects [D-BACKCHANNEL-1]", async () => {
    const url = await opened(httpPeer((_request, response) => response.end()));
    const script = join(import.meta.dirname, "guarded-logout.ts");
    const run = async (...allowed: string[]): Promise<string> => {
      const { stdout } = await promisify(execFile)(process.execPath, [script, url, ...allowed]);
      return stdout.trim().split("\n").at(-1) ?? "";
    };
    expect([await run(), await run("127.0.0.1")]).toEqual(["address_refused", "sent"]);
  });
});
