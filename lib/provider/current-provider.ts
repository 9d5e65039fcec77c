/**
 * The provider that new requests run on. The library takes its signing keys when it is made, so other keys mean another
 * provider; a request that is under way ends on the one that it began with.
 */
import type { EventEmitter } from "node:events";
import compose from "koa-compose";
import type { Context } from "koa";
import type { JWK, Provider } from "oidc-provider";

/** An oidc-provider as one function, with the listeners and middleware that the host application has given it by now. */
export interface ServedProvider {
  readonly provider: Provider;
  run(inner: Context): Promise<unknown>;
  /** Whether the host application is given contexts, and so may go on with one after the answer. */
  isWatched(): boolean;
}

/** Asked anew at each use: nobody keeps what it returns for longer than a request. */
export type CurrentProvider = () => ServedProvider;

type Listener = (...parameters: unknown[]) => void;
type Middleware = Provider["middleware"][number];

/** What the host application has added to a provider. */
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
  let isHeard = false;
  emitter.on("newListener", (name) => {
    isHeard ||= name !== "newListener";
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
    isWatched: () => isHeard || middleware.length !== ownMiddleware.size,
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
 * Listeners and middleware of the host application go along to each new provider.
 * @param make a provider that signs with these keys.
 * @param keysInForce the same array for as long as they are the same keys.
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
