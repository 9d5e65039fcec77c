import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import type { Context, Middleware } from "koa";
import { createRequestGate } from "../../compat/routes.ts";

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
