/** The state of running requests: connections, gate, code exchanges. */
import { EventEmitter, once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import type { Context, Middleware } from "koa";
import type { Artifact } from "../../records/artifacts/artifact.ts";
import { watchConnections } from "../../compat/connections.ts";
import { createCodeExchanges } from "../../provider/grants/code-grant.ts";
import { createRequestGate } from "../../lib/service-http.ts";
import { ManualClock } from "../records/rules/stage.ts";

const nothing = (): Promise<void> => Promise.resolve();
const context = {} as Context;

/** A gate with requests that end on demand. */
function held(): { gate: ReturnType<typeof createRequestGate>; ends: PromiseWithResolvers<void>[] } {
  const ends: PromiseWithResolvers<void>[] = [];
  const routes: Middleware = () => {
    const end = Promise.withResolvers<void>();
    ends.push(end);
    return end.promise;
  };
  return { gate: createRequestGate(routes), ends };
}

describe("the gate for requests", () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it("closes immediately without running requests", async () => {
    await held().gate.close();
  });

  it("waits for all running requests, including those that fail", async () => {
    const { gate, ends } = held();
    const running = [gate.middleware(context, nothing), gate.middleware(context, nothing)] as Promise<void>[];
    let closed = false;
    const closing = gate.close().finally(() => {
      closed = true;
    });
    ends[0]?.reject(new TypeError("its own"));
    await expect(running[0]).rejects.toThrow("its own");
    expect(closed).toBe(false);
    ends[1]?.resolve();
    await closing;
    expect(jest.getTimerCount()).toBe(0);
  });

  it("does not wait for requests of the host application", async () => {
    const own = Promise.withResolvers<void>();
    const host = Promise.withResolvers<void>();
    const gate = createRequestGate((ctx, next) => (ctx === context ? next() : own.promise));
    const hosts = gate.middleware(context, () => host.promise);
    await gate.close();
    const owns = gate.middleware({} as Context, nothing);
    // It is not taken away twice either: one that is the service's still counts.
    host.resolve();
    await hosts;
    let closed = false;
    const closing = gate.close().finally(() => (closed = true));
    await Promise.resolve();
    expect(closed).toBe(false);
    own.resolve();
    await Promise.all([owns, closing]);
    expect(jest.getTimerCount()).toBe(0);
  });

  it("waits 30 seconds at most", async () => {
    const { gate } = held();
    void gate.middleware(context, nothing);
    let closed = false;
    const closing = gate.close().finally(() => {
      closed = true;
    });
    await jest.advanceTimersByTimeAsync(29_999);
    expect(closed).toBe(false);
    await jest.advanceTimersByTimeAsync(1);
    await closing;
  });
});

describe("the start of a request", () => {
  it("is when its connection was accepted for the first one, at most a second earlier, or when it arrived", async () => {
    const clock = new ManualClock();
    const connections = watchConnections(clock);
    const ages: number[] = [];
    const server = createServer((req, res) => {
      ages.push(clock.now() - connections.underWaySince(req));
      res.end("ok");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const answer = async (waits: readonly number[]): Promise<void> => {
      const accepted = once(server, "connection");
      const socket = connect(port, "127.0.0.1");
      await accepted;
      for (const wait of waits) {
        clock.advance(wait);
        socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        await once(socket, "data");
      }
      socket.destroy();
    };
    // Kept and reused connections do not count.
    await answer([40, 40]);
    await answer([5_000]);
    connections.close();
    await answer([40]);
    server.close();
    expect(ages).toEqual([40, 0, 1_000, 0]);
  });
});

const response = (): ServerResponse => new EventEmitter() as ServerResponse;

describe("concurrent exchanges of one code", () => {
  let clock: ManualClock;
  let exchanges: ReturnType<typeof createCodeExchanges>;
  /** The response of the store. */
  let sinceAnswer: () => Promise<number | undefined>;
  beforeEach(() => {
    clock = new ManualClock(0);
    exchanges = createCodeExchanges({ sinceAnswer: () => sinceAnswer() }, clock);
    sinceAnswer = () => Promise.reject(new Error("nobody has to ask the store"));
  });
  const code: Artifact = { model: "AuthorizationCode", key: "code", payload: {}, expiresAt: 60_000 };
  const consumed = { ...code, consumedAt: 1 };
  const begin = (found: Artifact, res = response(), since = clock.now()): Promise<boolean> =>
    exchanges.begin(found, res, since);

  it("are a tie until one of them has a response [D-TOKEN-13]", async () => {
    const first = response();
    await expect(begin(code, first)).resolves.toBe(true);
    clock.advance(50);
    await expect(begin(consumed)).resolves.toBe(true);
    first.emit("close");
    clock.advance(50);
    await expect(begin(consumed)).resolves.toBe(true);
  });

  it("are a tie if they started before the last response [D-TOKEN-13]", async () => {
    const first = response();
    await begin(code, first);
    clock.advance(50);
    first.emit("close");
    const answered = clock.now();
    clock.advance(50);
    await expect(begin(consumed, response(), answered)).resolves.toBe(true);
  });

  it("follow the store after the response, independently of other codes [D-TOKEN-13]", async () => {
    const first = response();
    await begin(code, first);
    await begin({ ...code, key: "other" });
    clock.advance(10);
    first.emit("close");
    clock.advance(1);
    sinceAnswer = () => Promise.resolve(1.5);
    await expect(begin(consumed)).resolves.toBe(false);
  });

  it("are replays after the response if one of them has used the code, whatever the store knows [D-TOKEN-13]", async () => {
    const first = response();
    await begin(code, first);
    exchanges.used(code);
    first.emit("close");
    clock.advance(1);
    await expect(begin(consumed)).resolves.toBe(false);
    clock.advance(4_000);
    await expect(begin(consumed)).resolves.toBe(false);
  });

  it("at other processes are a tie if this one started before the response [D-TOKEN-13]", async () => {
    for (const [waited, since, isTie] of [
      [0, -4999, true],
      [0, -0.001, true],
      [0, 0.001, false],
      [3, 3, true],
      [3, 3.001, false],
      [0, 600_000, false],
      [0, undefined, false],
    ] as const) {
      sinceAnswer = () => Promise.resolve(since);
      const found = { ...consumed, key: `${waited} ${since}` };
      await expect(begin(found, response(), clock.now() - waited)).resolves.toBe(isTie);
    }
  });

  it("that overlap a replay are replays [D-TOKEN-13]", async () => {
    sinceAnswer = () => Promise.resolve(1);
    await expect(begin(consumed)).resolves.toBe(false);
    sinceAnswer = () => Promise.resolve(-1);
    await expect(begin(consumed)).resolves.toBe(false);
  });

  it("can't stay a tie for more than five seconds through repeated requests [D-TOKEN-13]", async () => {
    await begin(code);
    sinceAnswer = () => Promise.resolve(clock.now());
    clock.advance(4999);
    await expect(begin(consumed)).resolves.toBe(true);
    clock.advance(1);
    await expect(begin(consumed)).resolves.toBe(false);
  });

  it("report a storage failure once; the next one reads again", async () => {
    sinceAnswer = () => Promise.reject(new Error("not now"));
    await expect(begin(consumed)).rejects.toThrow("not now");
    sinceAnswer = () => Promise.resolve(1);
    await expect(begin(consumed)).resolves.toBe(false);
  });
});
