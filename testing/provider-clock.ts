/**
 * The clock of a test service. oidc-provider reads the system's clock (lib/helpers/epoch_time.js). With these patches its
 * codes, tokens, grants, sessions and interactions begin and end by the clock of the test. Times that clients sign, such as those
 * of DPoP proofs, are still compared with the system's clock.
 */
import type { Provider } from "oidc-provider";
import { type Clock, seconds } from "../core/clock.ts";

/** A model with its times, in seconds. */
interface Timed {
  iat?: number;
  exp?: number;
  /** When the first of a chain of refresh tokens was issued. */
  iiat?: number;
  readonly loginTs?: number;
  readonly rotations?: number;
  /** The configured lifetime. */
  readonly expiration: number;
  save(lifetime: number): Promise<unknown>;
}

interface TimedClass {
  readonly prototype: object;
  /** Only tokens have it; the lifetime of other models is the argument of `save`. */
  readonly expiresIn?: unknown;
}

/** The check of a stored model. */
type Verify = (
  this: TimedClass,
  stored: { readonly exp?: number },
  options?: { readonly ignoreExpiration?: boolean },
) => Promise<unknown>;

/** Seconds since the epoch. */
type Now = () => number;

/** Makes one instance follow the clock of the configuration. */
export function followClock(provider: Provider, { clock }: { readonly clock: Clock }): void {
  const now: Now = () => seconds(clock);
  timesOfModels(Object.getPrototypeOf(provider.Session) as TimedClass, now);
  timesOfSessions(provider, now);
  timesOfIdTokens(provider, now);
}

/** lib/models/base_model.js, and for `iiat` the constructor of lib/models/refresh_token.js. */
function timesOfModels(base: TimedClass, now: Now): void {
  const verify = Reflect.get(base, "verify") as Verify;
  const save = Reflect.get(base.prototype, "save") as Timed["save"];
  Object.defineProperty(base, "verify", {
    async value(this: TimedClass, ...[stored, options]: Parameters<Verify>) {
      if (options?.ignoreExpiration !== true && Number(stored.exp) <= now())
        throw new Error("the artifact has expired");
      return verify.call(this, stored, { ...options, ignoreExpiration: true });
    },
  });
  Object.defineProperties(base.prototype, {
    isExpired: {
      get(this: Timed) {
        return Number(this.exp) <= now();
      },
    },
    remainingTTL: {
      get(this: Timed) {
        return this.exp ? this.exp - now() : this.expiration;
      },
    },
    save: {
      value(this: Timed, lifetime: number) {
        const at = now();
        const isToken = typeof (this.constructor as unknown as TimedClass).expiresIn === "function";
        if (isToken) this.exp ??= at + this.expiration;
        // For other models `save` assigns the end by the system clock.
        else Object.defineProperty(this, "exp", fixed(at + lifetime));
        if (this.iat === undefined && this.iiat !== undefined && !this.rotations) this.iiat = at;
        this.iat ??= at;
        return save.call(this, lifetime);
      },
    },
  });
}

/** A property that ignores assignments. */
function fixed(value: number): PropertyDescriptor {
  return { configurable: true, enumerable: true, get: () => value, set: () => undefined };
}

/** lib/models/session.js, `persist` and, for `max_age`, `past`; callers of `save` in lib/models/interaction.js. */
function timesOfSessions(provider: Provider, now: Now): void {
  const { prototype: session } = provider.Session as unknown as TimedClass;
  const { prototype: interaction } = provider.Interaction as unknown as TimedClass;
  const save = Reflect.get(interaction, "save") as Timed["save"];
  Object.defineProperties(session, {
    persist: {
      value(this: Timed) {
        return this.save(Number(this.exp) - now());
      },
    },
    past: {
      value(this: Timed, age: number | string) {
        return this.loginTs === undefined || now() - this.loginTs > Number(age);
      },
    },
  });
  Object.defineProperty(interaction, "save", {
    value(this: Timed, lifetime: number) {
      return save.call(this, this.exp === undefined ? lifetime : this.exp - now());
    },
  });
}

/** ID tokens and logout tokens get both times when they are signed (lib/models/id_token.js, lib/helpers/jwt.js). */
function timesOfIdTokens(provider: Provider, now: Now): void {
  const { prototype } = provider.IdToken as unknown as TimedClass;
  const claims = Reflect.get(prototype, "payload") as (this: unknown) => Promise<object>;
  Object.defineProperty(prototype, "payload", {
    async value(this: unknown) {
      const at = now();
      const written: { exp?: number | undefined; iat?: number | undefined } = {};
      return Object.defineProperties(await claims.call(this), {
        iat: {
          enumerable: true,
          get: () => written.iat && at,
          set: (value?: number) => {
            written.iat = value;
          },
        },
        exp: {
          enumerable: true,
          get: () => written.iat && written.exp && at + written.exp - written.iat,
          set: (value?: number) => {
            written.exp = value;
          },
        },
      });
    },
  });
}
