/** New keys mean a new provider, with the listeners and middleware of the host application. */
import { generateKeyPairSync } from "node:crypto";
import type { EventEmitter } from "node:events";
import { beforeEach, expect, it } from "@jest/globals";
import type { Context } from "koa";
import { type Adapter, type JWK, Provider } from "oidc-provider";
import { createCurrentProvider, type CurrentProvider } from "../../provider/current-provider.ts";

const newKeys = (kid: string): readonly JWK[] => {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return [{ ...privateKey.export({ format: "jwk" }), kid, alg: "ES256", use: "sig" }];
};

const OLD = newKeys("old");
const NEW = newKeys("new");

let keys: readonly JWK[];
let made: string[];
let calls: string[];
let current: CurrentProvider;
beforeEach(() => {
  keys = OLD;
  made = [];
  calls = [];
  current = createCurrentProvider(
    (signing) => {
      made.push(signing[0]?.kid ?? "");
      const provider = new Provider("http://127.0.0.1:9", {
        adapter: () => ({}) as Adapter,
        features: { devInteractions: { enabled: false } },
        jwks: { keys: signing.map((key) => ({ ...key })) },
      });
      provider.on("server_error", () => calls.push("own"));
      return provider;
    },
    () => keys,
  );
});

const emit = (name: string): void => void (current().provider as EventEmitter).emit(name);

it("stays the same until the keys change", () => {
  const before = current();
  expect(current()).toBe(before);
  keys = NEW;
  const after = current();
  expect(after.provider).not.toBe(before.provider);
  expect(current()).toBe(after);
  expect(made).toEqual(["old", "new"]);
});

it("keeps the listeners of the host application, each once, and its own", () => {
  const host = (name: string) => () => void calls.push(name);
  const gone = host("gone");
  const { provider } = current();
  (provider as EventEmitter)
    .on("grant.success", host("first"))
    .on("grant.success", gone)
    .once("grant.success", host("once"))
    .on("server_error", host("error"))
    .off("grant.success", gone);
  for (const next of [NEW, OLD]) {
    keys = next;
    current();
  }
  emit("grant.success");
  emit("grant.success");
  emit("server_error");
  expect(calls).toEqual(["first", "once", "first", "own", "error"]);
});

it("runs the middleware of the host application in order, even if it was added later", async () => {
  const mark = (name: string) => async (_ctx: unknown, next: () => Promise<unknown>) => {
    calls.push(name);
    await next();
  };
  current().provider.use(mark("first"));
  current().provider.use(mark("second"));
  keys = NEW;
  current().provider.use(mark("third"));
  for (const next of [OLD, NEW]) {
    keys = next;
    const served = current();
    const req = { url: "/nothing", method: "GET", headers: {}, socket: {} };
    const res = { getHeader: () => undefined, setHeader: () => undefined, removeHeader: () => undefined };
    const context: unknown = served.provider.createContext(req as never, res as never);
    await served.run(context as Context);
  }
  expect(calls).toEqual(["first", "second", "third", "first", "second", "third"]);
});

it("reports whether the host application has listeners, even after a change", () => {
  expect(current().isWatched()).toBe(false);
  keys = NEW;
  expect(current().isWatched()).toBe(false);
  current().provider.on("grant.success", () => undefined);
  expect(current().isWatched()).toBe(true);
  keys = OLD;
  expect(current().isWatched()).toBe(true);
});

it("reports whether the host application has middleware", () => {
  current().provider.use(async (_ctx, next) => next());
  keys = NEW;
  expect(current().isWatched()).toBe(true);
});
