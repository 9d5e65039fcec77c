/** What the service keeps of requests that run: connections, gate, exchanges of a code. */
import { EventEmitter, once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import type { Context, Middleware } from "koa";
import { watchConnections } from "../../lib/connections.ts";
import { createCodeExchanges } from "../../lib/protocol/code-exchanges.ts";
import { createRequestGate } from "../../lib/request-gate.ts";
import { ManualClock } from "../../lib/testing/contract/stage.ts";

const nothing = (): Promise<void> => Promise.resolve();
const context = {} as Context;

/** A gate in front of requests that end when they are told to. */
function held(): { gate: ReturnType<typeof createRequestGate>; ends: PromiseWithResolvers<void>[] } {
  const ends: PromiseWithResolvers<void>[] = [];
  const routes: Middleware = () => {
    const end = Promise.withResolvers<void>();
    ends.push(end);
    return end.promise;
  };
  return { gate: createRequestGate(routes), ends };
}

describe("the request gate", () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it("closes at once when nothing runs", async () => {
    await held().gate.close();
  });

  it("waits until every running request has ended, also one that fails", async () => {
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

  it("does not wait for requests that are the host application's", async () => {
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

describe("since when a request is under way", () => {
  it("is when its connection was accepted, for the first one, at most a second earlier; else when it came", async () => {
    const clock = new ManualClock();
    const connections = watchConnections(clock);
    const seen: number[] = [];
    const server = createServer((req, res) => {
      seen.push(clock.now() - connections.underWaySince(req, clock.now()));
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
    // A connection that was kept for long says nothing; neither does one that was used before.
    await answer([40, 40]);
    await answer([5_000]);
    connections.close();
    await answer([40]);
    server.close();
    expect(seen).toEqual([40, 0, 1_000, 0]);
  });
});

const response = (): ServerResponse => new EventEmitter() as ServerResponse;

describe("exchanges of one code", () => {
  let clock: ManualClock;
  let exchanges: ReturnType<typeof createCodeExchanges>;
  beforeEach(() => {
    clock = new ManualClock();
    exchanges = createCodeExchanges(clock);
  });

  it("are a tie while one of them is not answered, however late they come [D-TOKEN-13]", async () => {
    const first = response();
    exchanges.begin("code", first, clock.now()).won();
    const consumedAt = clock.now();
    clock.advance(50);
    const second = response();
    await expect(exchanges.begin("code", second, clock.now()).isTie(consumedAt)).resolves.toBe(true);
    first.emit("close");
    clock.advance(50);
    await expect(exchanges.begin("code", response(), clock.now()).isTie(consumedAt)).resolves.toBe(true);
  });

  it("are a tie when they were under way before the last one was answered [D-TOKEN-13]", async () => {
    const first = response();
    exchanges.begin("code", first, clock.now());
    const consumedAt = clock.now();
    clock.advance(50);
    first.emit("close");
    const answered = clock.now();
    clock.advance(50);
    await expect(exchanges.begin("code", response(), answered).isTie(consumedAt)).resolves.toBe(true);
  });

  it("are a replay after the answer, and other codes don't matter [D-TOKEN-13]", async () => {
    const first = response();
    exchanges.begin("code", first, clock.now()).won();
    exchanges.begin("other", response(), clock.now());
    const consumedAt = clock.now();
    clock.advance(10);
    first.emit("close");
    clock.advance(1);
    await expect(exchanges.begin("code", response(), clock.now()).isTie(consumedAt)).resolves.toBe(false);
  });

  it("that come alone after another process has consumed the code are replays [D-TOKEN-13]", async () => {
    const now = clock.now();
    const alone = (consumedAt: number): Promise<boolean> =>
      exchanges.begin(`code ${consumedAt}`, response(), now).isTie(consumedAt);
    await expect(Promise.all([now + 5, now, now - 1].map(alone))).resolves.toEqual([true, true, false]);
  });

  it("that come together soon after another process has consumed the code are a tie [D-TOKEN-13]", async () => {
    const together = async (consumedAt: number): Promise<boolean[]> => {
      const [first, second] = [response(), response()];
      const begin = (each: ServerResponse) => exchanges.begin(`code ${consumedAt}`, each, clock.now());
      const asked = begin(first).isTie(consumedAt);
      const isTie = await begin(second).isTie(consumedAt);
      second.emit("close");
      return [await asked, isTie];
    };
    await expect(together(clock.now() - 2_000)).resolves.toEqual([true, true]);
    // The first of them is a replay by then: nobody keeps what he has taken by going on to ask.
    await expect(together(clock.now() - 2_001)).resolves.toEqual([false, true]);
  });
});
