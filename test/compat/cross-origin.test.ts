import { afterEach, expect, it, jest } from "@jest/globals";
import { createCrossOrigin } from "../../compat/cross-origin.ts";
import type { EndpointExchange } from "../../compat/exchange.ts";
import { StorageUnavailable } from "../../core/errors.ts";

const ORIGIN = "https://app.example";
const clock = jest.spyOn(performance, "now");
afterEach(() => clock.mockRestore());

it("an answer can still be read when the storage fails for long, until a client changes [D-KIND-6]", async () => {
  let origins = async (): Promise<ReadonlySet<string>> => new Set([ORIGIN]);
  let onChange: (() => unknown) | undefined;
  const crossOrigin = createCrossOrigin({
    clients: { kindOf: jest.fn<never>(), allOrigins: () => origins() },
    events: {
      on: (_event: string, listener: () => unknown) => {
        onChange = listener;
        return () => undefined;
      },
    } as never,
  });
  let now = 0;
  clock.mockImplementation(() => now);
  /** The origin that may read the answer to a request that names no client. */
  const readable = async (): Promise<unknown> => {
    const headers = new Map<string, unknown>();
    const ctx = {
      method: "POST",
      get: (name: string) => (name === "Origin" ? ORIGIN : ""),
      vary: () => undefined,
      set: (name: string, value: unknown) => headers.set(name, value),
      res: { getHeaderNames: () => [] },
    };
    await crossOrigin.begin({ ctx, endpoint: "token" } as unknown as EndpointExchange)?.addHeaders();
    return headers.get("Access-Control-Allow-Origin");
  };
  expect(await readable()).toBe(ORIGIN);
  origins = () => Promise.reject(new StorageUnavailable("no answer"));
  now += 60_000;
  expect(await readable()).toBe(ORIGIN);
  onChange?.();
  expect(await readable()).toBeUndefined();
});
