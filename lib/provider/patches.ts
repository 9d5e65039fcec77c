/**
 * Everything that reaches into oidc-provider beyond its public interface, and why. Nothing else in this
 * project imports `oidc-provider/lib/*` or changes one of its prototypes.
 */
import type { Client, Provider } from "oidc-provider";
import type { Deployment } from "../../config/configuration.ts";
import { type Clock, seconds } from "../clock.ts";

/** Generations that a session, grant, code or token was given when the person signed in. */
export interface Generations {
  readonly tokens: number;
  readonly service: number;
  readonly client: number;
}

/** A model class of the provider, as far as it is patched. */
interface ModelClass {
  readonly IN_PAYLOAD: readonly string[];
  readonly prototype: object;
}

const WITH_GENERATIONS = ["Session", "Grant", "AuthorizationCode", "AccessToken", "RefreshToken"] as const;

/**
 * The models keep only the members named in `IN_PAYLOAD`; what ends "at once" is decided by generations,
 * which have to be read back with the model (decisions.md, How "at once" is kept).
 */
function keepGenerations(provider: Provider): void {
  for (const name of WITH_GENERATIONS) {
    const model = provider[name] as unknown as ModelClass;
    const members = [...model.IN_PAYLOAD, name === "Session" ? "generation" : "generations"];
    Object.defineProperty(model, "IN_PAYLOAD", { value: members });
  }
}

/** The documented `token_type` is exactly `bearer`; the library writes `Bearer`. A DPoP token stays one. */
function documentedTokenType(provider: Provider): void {
  Object.defineProperty(provider.AccessToken.prototype, "tokenType", {
    get(this: { jkt?: string }) {
      return this.jkt ? "DPoP" : "bearer";
    },
  });
}

/**
 * The library works endpoint addresses out from the Host header and the innermost mount; behind nested
 * mounts and proxies these are wrong. The configured base URL is always right.
 */
function configuredAddresses(provider: Provider): void {
  const prototype = (provider as unknown as { OIDCContext: ModelClass }).OIDCContext.prototype;
  Object.defineProperty(prototype, "urlFor", {
    value(this: { ctx: { state: { deployment: Deployment } } }, name: string, options?: object) {
      const { url } = this.ctx.state.deployment;
      return url + provider.pathFor(name, { mountPath: "", ...options });
    },
  });
}

/**
 * The library writes an empty session for a cookie whose session is over. Whoever shows such a cookie again and again
 * would fill the storage: what is not kept is new, and a new session is written when there is something in it.
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

/** What a session keeps of each client that it has been to, by `client_id`. */
type Authorizations = Record<string, object>;

/** Where a client is looked up or added, as far as it is patched. */
type AuthorizationFor = (
  this: { authorizations?: Authorizations },
  clientId: string,
  value?: string,
) => object;

/**
 * The library keeps what a session knows of its clients in a plain object and finds it there as
 * `this.authorizations[clientId]` (lib/models/session.js, `authorizationFor`). For a client called `constructor` that
 * is a function which all sessions share, and for `__proto__` it is `Object.prototype` itself. Every reading and
 * writing by client goes through this method, so the object loses its prototype here.
 */
function ownAuthorizations(provider: Provider): void {
  const { prototype } = provider.Session as unknown as ModelClass;
  const authorizationFor = Reflect.get(prototype, "authorizationFor") as AuthorizationFor;
  Object.defineProperty(prototype, "authorizationFor", {
    value(this: ThisParameterType<AuthorizationFor>, clientId: string, value?: string) {
      // Like the library: reading a session that has been nowhere adds nothing to it.
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

/** Whether the presented secret is one of the client's. Runs while a request is authenticated. */
export type SecretCheck = (client: Client, presented: string) => Promise<boolean>;

/** The library compares with a plain text; only keyed digests are stored here, several during a rotation. */
function hashedSecrets(provider: Provider, check: SecretCheck): void {
  Object.defineProperty(provider.Client.prototype, "compareClientSecret", {
    value(this: Client, presented: string) {
      return check(this, presented);
    },
  });
}

/** The client's record that the request has read already, if it may be used. A made-up ID token names anything as its client. */
export type RecordInHand = (clientId: unknown) => object | undefined;

/** The library writes out and hashes the metadata of a client to know whether it has built it before. */
function builtClients(provider: Provider, recordInHand: RecordInHand): void {
  const find = provider.Client.find.bind(provider.Client);
  const built = new WeakMap<object, Client>();
  Object.defineProperty(provider.Client, "find", {
    async value(id: string) {
      const record = recordInHand(id);
      const known = record && built.get(record);
      if (known !== undefined) return known;
      const client = await find(id);
      if (record !== undefined && client !== undefined) built.set(record, client);
      return client;
    },
  });
}

/** Delivers one logout token to a client. */
export type LogoutDelivery = (clientId: string, send: () => Promise<void>) => Promise<void>;

/** The library tells a client once that a session ended; decided are three attempts, whoever ends it. */
function repeatedLogout(provider: Provider, deliver: LogoutDelivery): void {
  const { prototype } = provider.Client as unknown as ModelClass;
  const once = Reflect.get(prototype, "backchannelLogout") as (
    this: Client,
    sub: string,
    sid: string,
  ) => Promise<void>;
  Object.defineProperty(prototype, "backchannelLogout", {
    value(this: Client, sub: string, sid: string) {
      return deliver(this.clientId, () => once.call(this, sub, sid));
    },
  });
}

/** A model as far as time goes, in seconds. */
interface Timed {
  readonly jti: string;
  exp?: number;
  readonly iat?: number;
  /** When the first of a chain of refresh tokens was issued. */
  iiat?: number;
  readonly loginTs?: number;
  readonly rotations?: number;
  /** How long it is to live, from the configuration. */
  readonly expiration: number;
  save(span: number): Promise<unknown>;
}

interface TimedClass extends ModelClass {
  /** Where it is missing, `save` is told how long the model is to live. */
  readonly expiresIn?: unknown;
}

/** The check of a record that was read. */
type Verify = (
  this: TimedClass,
  stored: { readonly exp?: number },
  options?: { readonly ignoreExpiration?: boolean },
) => Promise<unknown>;

/** Seconds since the epoch. */
type Now = () => number;

/**
 * The library reads the system's time, where every other time in this service is that of its clock. Codes, tokens,
 * grants, sessions and interactions begin and end by our clock; what it compares with times that clients have
 * signed, such as DPoP proofs, stays with the system's.
 */
function ownTime(provider: Provider, clock: Clock): void {
  const now: Now = () => seconds(clock);
  const base = Object.getPrototypeOf(provider.Session) as TimedClass;
  const stored = storedBy(now);
  for (const { prototype } of [base, provider.AccessToken as unknown as ModelClass]) {
    Object.defineProperty(prototype, "getValueAndPayload", { value: stored });
  }
  ownEnds(base, now);
  ownEndsOfSessions(provider, now);
  ownTimeOfIdTokens(provider, now);
}

/**
 * What the library stores of a model: all are opaque here, and access tokens have no claims of their own. Times of an
 * artifact that is new are written when it is stored. The library's own way over lists of pairs and described
 * properties takes several times as long, for each token.
 */
function storedBy(now: Now): (this: Timed) => Promise<{ readonly value: string; readonly payload: object }> {
  const members = new WeakMap<object, ReadonlySet<string>>();
  return async function getValueAndPayload(this: Timed) {
    const at = now();
    if (this.iat === undefined && this.iiat !== undefined && !this.rotations) this.iiat = at;
    const payload: Record<string, unknown> = { iat: this.iat ?? at, exp: this.exp ?? at + this.expiration };
    const model = this.constructor as unknown as ModelClass;
    const kept = members.get(model) ?? new Set(model.IN_PAYLOAD);
    members.set(model, kept);
    const own = this as unknown as Readonly<Record<string, unknown>>;
    for (const name of Object.keys(own)) {
      if (kept.has(name) && own[name] !== undefined) payload[name] = own[name];
    }
    return { value: this.jti, payload };
  };
}

function ownEnds(base: TimedClass, now: Now): void {
  const verify = Reflect.get(base, "verify") as Verify;
  const save = Reflect.get(base.prototype, "save") as Timed["save"];
  Object.defineProperty(base, "verify", {
    async value(this: TimedClass, ...[stored, options]: Parameters<Verify>) {
      if (options?.ignoreExpiration !== true && Number(stored.exp) <= now())
        throw new Error("it has expired");
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
      value(this: Timed, span: number) {
        const told = typeof (this.constructor as unknown as TimedClass).expiresIn !== "function";
        // The library adds the span to the system's time and takes what comes of it as the end.
        if (told) Object.defineProperty(this, "exp", fixed(now() + span));
        return save.call(this, span);
      },
    },
  });
}

/** A member that stays as it is, whatever is assigned to it. */
function fixed(value: number): PropertyDescriptor {
  return { configurable: true, enumerable: true, get: () => value, set: () => undefined };
}

/** What the library saves again for the rest of its time: it works that out by the system's. */
function ownEndsOfSessions(provider: Provider, now: Now): void {
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
    value(this: Timed, span: number) {
      return save.call(this, this.exp === undefined ? span : this.exp - now());
    },
  });
}

/** ID tokens and logout tokens: the library writes both times into their payload when it signs them. */
function ownTimeOfIdTokens(provider: Provider, now: Now): void {
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

/** What the patches call. */
export interface PatchCalls {
  readonly checkSecret: SecretCheck;
  readonly recordInHand: RecordInHand;
  readonly deliverLogout: LogoutDelivery;
  readonly clock: Clock;
}

/** Applies all patches to one provider; other providers in the process are not touched. */
export function patchProvider(provider: Provider, calls: PatchCalls): void {
  keepGenerations(provider);
  documentedTokenType(provider);
  configuredAddresses(provider);
  hashedSecrets(provider, calls.checkSecret);
  builtClients(provider, calls.recordInHand);
  repeatedLogout(provider, calls.deliverLogout);
  emptySessionsUnwritten(provider);
  ownAuthorizations(provider);
  ownTime(provider, calls.clock);
}
