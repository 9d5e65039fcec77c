/**
 * Everything that changes oidc-provider beyond its public interface, and the file of oidc-provider that makes it
 * necessary. Nothing else in this project changes its prototypes, and nothing imports `oidc-provider/lib/*`.
 */
import type { Client, Provider } from "oidc-provider";
import { type Clock, seconds } from "../core/clock.ts";
import type { SecretCheck } from "./clients.ts";

/** A model class of oidc-provider, as far as it is patched. */
interface ModelClass {
  readonly IN_PAYLOAD: readonly string[];
  readonly prototype: object;
}

const WITH_GENERATIONS = ["Session", "Grant", "AuthorizationCode", "AccessToken", "RefreshToken"] as const;

/**
 * Models keep only the members that `IN_PAYLOAD` names (lib/models/payload.js). Generations decide what has ended "at
 * once" (decisions.md, How "at once" is kept), so they must be stored and read with the model. A session also has its
 * last use.
 */
function keepMembers(provider: Provider): void {
  for (const name of WITH_GENERATIONS) {
    const model = provider[name] as unknown as ModelClass;
    const members = [...model.IN_PAYLOAD, ...(name === "Session" ? ["generation", "use"] : ["generations"])];
    Object.defineProperty(model, "IN_PAYLOAD", { value: members });
  }
}

/**
 * The documented `token_type` is exactly `bearer`. oidc-provider writes `Bearer` in token responses and in introspection
 * (lib/models/access_token.js, `tokenType`). DPoP tokens keep their type.
 */
function documentedTokenType(provider: Provider): void {
  Object.defineProperty(provider.AccessToken.prototype, "tokenType", {
    get(this: { readonly jkt?: string }) {
      return this.jkt ? "DPoP" : "bearer";
    },
  });
}

/**
 * For a cookie whose session has expired, oidc-provider stores an empty session (lib/models/session.js, `get`). Sending
 * such a cookie repeatedly would fill the storage. Marked as new, a session is stored when it has content.
 */
function emptySessionsUnwritten(provider: Provider): void {
  const get = provider.Session.get.bind(provider.Session);
  Object.defineProperty(provider.Session, "get", {
    async value(...[ctx]: Parameters<typeof get>) {
      const session = await get(ctx);
      if (session.exp === undefined && !("new" in session)) Object.assign(session, { new: true });
      return session;
    },
  });
}

/** What a session stores for each client, by `client_id`. */
type Authorizations = Record<string, object>;

type AuthorizationFor = (
  this: { authorizations?: Authorizations },
  clientId: string,
  value?: string,
) => object;

/**
 * A session stores what belongs to a client as `this.authorizations[clientId]`, in a plain object (lib/models/session.js,
 * `authorizationFor`). For a client named `constructor` that is a function which all sessions share, and for `__proto__`
 * it is `Object.prototype`. Such clients can't be registered, but no plain object is keyed by text from outside. All reads
 * and writes go through this method, so it removes the prototype of the object.
 */
function ownAuthorizations(provider: Provider): void {
  const { prototype } = provider.Session as unknown as ModelClass;
  const authorizationFor = Reflect.get(prototype, "authorizationFor") as AuthorizationFor;
  Object.defineProperty(prototype, "authorizationFor", {
    value(this: ThisParameterType<AuthorizationFor>, clientId: string, value?: string) {
      // Like oidc-provider: reading adds nothing to a session without clients.
      if (this.authorizations !== undefined || value !== undefined)
        this.authorizations = withoutPrototype(this.authorizations);
      return authorizationFor.call(this, clientId, value);
    },
  });
}

function withoutPrototype(authorizations: Authorizations = {}): Authorizations {
  if (Object.getPrototypeOf(authorizations) === null) return authorizations;
  return Object.assign(Object.create(null) as Authorizations, authorizations);
}

/**
 * oidc-provider compares a secret with one plain text (lib/models/client.js, `compareClientSecret`). We store keyed
 * digests, several during a rotation.
 */
function hashedSecrets(provider: Provider, check: SecretCheck): void {
  Object.defineProperty(provider.Client.prototype, "compareClientSecret", {
    value(this: Client, presented: string) {
      return check(this, presented);
    },
  });
}

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

interface TimedClass extends ModelClass {
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

/**
 * oidc-provider reads the system clock (lib/helpers/epoch_time.js); the rest of this service reads the configured one.
 * Codes, tokens, grants, sessions and interactions begin and end by the configured clock. Times that clients sign, such
 * as those of DPoP proofs, are still compared with the system clock.
 */
function configuredClock(provider: Provider, clock: Clock): void {
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
  const { prototype: session } = provider.Session as unknown as ModelClass;
  const { prototype: interaction } = provider.Interaction as unknown as ModelClass;
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
  const { prototype } = provider.IdToken as unknown as ModelClass;
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

/**
 * ID tokens of clients with back-channel logout have the claim `sid` (lib/models/client.js, `includeSid`). Those of all others
 * have it too, so that signing out with one shows of which session it is.
 */
function sessionOfIdTokens(provider: Provider): void {
  Object.defineProperty(provider.Client.prototype, "includeSid", { value: () => true });
}

/** Applies all patches to one instance; other instances in the process are not changed. */
export function patchProvider(provider: Provider, checkSecret: SecretCheck, clock: Clock): void {
  keepMembers(provider);
  documentedTokenType(provider);
  emptySessionsUnwritten(provider);
  ownAuthorizations(provider);
  hashedSecrets(provider, checkSecret);
  configuredClock(provider, clock);
  sessionOfIdTokens(provider);
}
