/**
 * The oidc-provider instance for new requests. It takes its signing keys when it is created, so new keys mean a new
 * instance. Requests in flight finish on the instance they started with.
 */
import type { EventEmitter } from "node:events";
import compose from "koa-compose";
import type { Context } from "koa";
import type { JWK, Provider } from "oidc-provider";

/** An instance of oidc-provider as one function, with the middleware that the host application has added so far. */
export interface ServedProvider {
  readonly provider: Provider;
  run(inner: Context): Promise<unknown>;
  /** Whether the host application has listeners or middleware, and so may use a context after the response. */
  isWatched(): boolean;
}

/** Call it for each request; do not keep the result for longer. */
export type CurrentProvider = () => ServedProvider;

type Listener = (...parameters: unknown[]) => void;
type Middleware = Provider["middleware"][number];

/** Listeners and middleware that the host application has added to an instance. */
interface Added {
  readonly listeners: readonly (readonly [name: string | symbol, listener: Listener])[];
  readonly middleware: readonly Middleware[];
}

interface Served extends ServedProvider {
  added(): Added;
}

const NOTHING: Added = { listeners: [], middleware: [] };

function serve(provider: Provider): Served {
  const emitter: EventEmitter = provider;
  const { middleware } = provider;
  const ownMiddleware = new Set<unknown>(middleware);
  let known = middleware.length;
  let composed = compose(middleware);
  let hasListeners = false;
  emitter.on("newListener", (name) => {
    hasListeners ||= name !== "newListener";
  });
  const ownListeners = new Set<unknown>(emitter.eventNames().flatMap((name) => emitter.rawListeners(name)));
  return {
    provider,
    run(inner) {
      if (middleware.length !== known) {
        known = middleware.length;
        composed = compose(middleware);
      }
      return composed(inner, () => Promise.resolve());
    },
    isWatched: () => hasListeners || middleware.length !== ownMiddleware.size,
    added: () => ({
      listeners: emitter
        .eventNames()
        .flatMap((name) =>
          emitter.rawListeners(name).map((listener) => [name, listener as Listener] as const),
        )
        .filter(([, listener]) => !ownListeners.has(listener)),
      middleware: middleware.filter((each) => !ownMiddleware.has(each)),
    }),
  };
}

/**
 * Moves the listeners and middleware of the host application to each new instance.
 * @param make creates an instance that signs with these keys.
 * @param keysInForce returns the same array until the keys change.
 */
export function createCurrentProvider(
  make: (signing: readonly JWK[]) => Provider,
  keysInForce: () => readonly JWK[],
): CurrentProvider {
  let keys: readonly JWK[] | undefined;
  let served: Served | undefined;
  return () => {
    const now = keysInForce();
    if (served !== undefined && keys === now) return served;
    const { listeners, middleware } = served?.added() ?? NOTHING;
    served = serve(make(now));
    keys = now;
    for (const [name, listener] of listeners) (served.provider as EventEmitter).on(name, listener);
    for (const each of middleware) served.provider.use(each);
    return served;
  };
}
