/**
 * Everything that changes oidc-provider beyond its public interface, and the file of oidc-provider that makes it
 * necessary. Nothing else imports `oidc-provider/lib/*`, and only the clock of test services changes prototypes elsewhere
 * (`testing/provider-clock.ts`).
 */
import { type Client, type KoaContextWithOIDC, Provider } from "oidc-provider";
import internals from "oidc-provider/lib/helpers/weak_cache.js";
import type { ClientInternals } from "../accounts/clients/client.ts";
import { isAllowedAddress } from "../accounts/clients/client-kinds.ts";
import type { SessionGeneration } from "../accounts/sign-in-sessions.ts";
import { acrAt, amrAt, answeredAcr } from "./authentication.ts";
import { acrRequestOf } from "./policy.ts";
import { clientRecord, type SecretCheck } from "./clients.ts";
import { exchangeIn } from "./exchange.ts";
import type { Logout } from "./sessions/backchannel-logout.ts";

/** A model class of oidc-provider, as far as it is patched. */
interface ModelClass {
  readonly IN_PAYLOAD: readonly string[];
  readonly prototype: object;
}

const WITH_GENERATIONS = [
  "Session",
  "Grant",
  "AuthorizationCode",
  "DeviceCode",
  "AccessToken",
  "ClientCredentials",
  "RefreshToken",
] as const;

/**
 * Models keep only the members that `IN_PAYLOAD` names (lib/models/payload.js). Generations decide what has ended "at
 * once" (decisions.md, How "at once" is kept), so they must be stored and read with the model. A session also has its
 * last use.
 */
function keepMembers(provider: Provider): void {
  for (const name of WITH_GENERATIONS) {
    const model = provider[name] as unknown as ModelClass;
    const members = [
      ...model.IN_PAYLOAD,
      ...(name === "Session"
        ? ["generation", "remembered", "undated", "atProvider", "use"]
        : ["generations"]),
    ];
    Object.defineProperty(model, "IN_PAYLOAD", { value: members });
  }
}

/**
 * The documented `token_type` is exactly `bearer`. oidc-provider writes `Bearer` in token responses and in introspection
 * (lib/models/access_token.js and client_credentials.js, `tokenType`). DPoP tokens keep their type.
 */
function documentedTokenType(provider: Provider): void {
  for (const { prototype } of [provider.AccessToken, provider.ClientCredentials])
    Object.defineProperty(prototype, "tokenType", {
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

/**
 * A sign-out stores what it was asked for in the session, also in that of a browser without a sign-in
 * (lib/actions/end_session.js), so anybody could fill the storage with sessions. Only sessions of an account are stored.
 */
function anonymousSessionsUnwritten(provider: Provider): void {
  const { prototype } = provider.Session as unknown as ModelClass;
  const save = Reflect.get(prototype, "save") as SaveSession;
  Object.defineProperty(prototype, "save", {
    async value(this: ThisParameterType<SaveSession>, ttl: number) {
      if (this.accountId !== undefined) return save.call(this, ttl);
      this.touched = false;
      return undefined;
    },
  });
}

type SaveSession = (
  this: { readonly accountId?: string | undefined; touched: boolean },
  ttl: number,
) => Promise<unknown>;

/** The entries of a session for its clients, by `client_id`. */
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

/**
 * ID tokens of clients with back-channel logout have the claim `sid` (lib/models/client.js, `includeSid`). Here those
 * of all other clients have it too, so that signing out with one shows which session it belongs to.
 */
function sessionOfIdTokens(provider: Provider): void {
  Object.defineProperty(provider.Client.prototype, "includeSid", { value: () => true });
}

/**
 * oidc-provider lets the port of every http address of a native client differ, `localhost` included, and knows nothing of
 * addresses that are for development only (lib/models/client.js, `redirectUriAllowed`). One rule holds for redirect and
 * sign-out addresses (decisions.md, Redirect addresses of `public`).
 */
function registeredAddresses(
  provider: Provider,
  clients: Pick<ClientInternals, "kindOf">,
  production: boolean,
): void {
  const allowed = (list: "redirectUris" | "postLogoutRedirectUris"): PropertyDescriptor => ({
    value(this: Client, address: string) {
      const record = clientRecord(this);
      return isAllowedAddress(clients.kindOf(record), record, this[list] ?? [], address, production);
    },
  });
  Object.defineProperties(provider.Client.prototype, {
    redirectUriAllowed: allowed("redirectUris"),
    postLogoutRedirectUriAllowed: allowed("postLogoutRedirectUris"),
  });
}

/**
 * The `acr` and `amr` of a code and its tokens are those of the session (lib/helpers/oidc_context.js). Ours answer the request:
 * the strongest requested value that the session satisfies at this client (decisions.md, `amr` and `acr`, Second factors).
 */
function shownToClients(provider: Provider): void {
  const { prototype } = provider.OIDCContext as unknown as { readonly prototype: object };
  type Oidc = KoaContextWithOIDC["oidc"];
  Object.defineProperties(prototype, {
    acr: {
      get(this: Oidc) {
        const { client, session } = this;
        const acr = client && session ? acrAt(clientRecord(client), session) : session?.acr;
        return answeredAcr(acr, acrRequestOf(this));
      },
    },
    amr: {
      get(this: Oidc) {
        const { client, session } = this;
        return client && session?.amr ? amrAt(clientRecord(client), session.amr) : session?.amr;
      },
    },
  });
}

/** A time that nobody knows is not told (lib/models/session.js, `authTime`). */
function datedSessions(provider: Provider): void {
  Object.defineProperty(provider.Session.prototype, "authTime", {
    value(this: { readonly loginTs?: number } & SessionGeneration) {
      return this.undated === true ? undefined : this.loginTs;
    },
  });
}

type SendLogoutToken = (this: Client, sub: string, sid: string) => Promise<void>;

/**
 * When somebody signs out, oidc-provider sends all logout tokens at once while the request waits, before anything is
 * committed (lib/actions/end_session.js, with `backchannelLogout` of lib/models/client.js). Here they go into a queue, which
 * has events of its own. That oidc-provider then emits `backchannel.success` means nothing.
 */
function queuedLogout(provider: Provider, onLogout: (logout: Logout) => void): void {
  const { prototype } = provider.Client as unknown as ModelClass;
  const send = Reflect.get(prototype, "backchannelLogout") as SendLogoutToken;
  Object.defineProperties(prototype, {
    sendLogoutToken: { value: send },
    backchannelLogout: {
      async value(this: Client, sub: string, sid: string) {
        onLogout({ client_id: this.clientId, sub, sid });
      },
    },
  });
}

/** The part of the model that remembers what was used. */
interface ReplayDetection {
  unique(iss: string, jti: string, exp: number): Promise<boolean>;
}

/**
 * oidc-provider remembers a used assertion under the hash of `iss` and `jti`, one after the other
 * (lib/models/replay_detection.js, `unique`), so the client `a` could use up the assertions of the client `ab`. No
 * `client_id` has a space. The unit of work turns this into an insert that fails if the entry exists, in the commit of
 * what the assertion is for.
 */
function assertionsApart(provider: Provider): void {
  const model = (provider as unknown as { readonly ReplayDetection: ReplayDetection }).ReplayDetection;
  const unique = model.unique.bind(model);
  /** What each request has recorded: oidc-provider records a proof again that `requireProof` has recorded. */
  const recorded = new WeakMap<object, Set<string>>();
  Object.defineProperty(model, "unique", {
    async value(iss: string, jti: string, exp: number) {
      const own = recorded.get(Provider.ctx ?? model) ?? new Set();
      const name = `${iss} ${jti}`;
      if (own.has(name)) return true;
      const isUnique = await unique(iss, ` ${jti}`, exp);
      if (isUnique && Provider.ctx !== undefined) recorded.set(Provider.ctx, own.add(name));
      return isUnique;
    },
  });
}

/**
 * oidc-provider checks a proof again (lib/helpers/validate_dpop.js), with nonces of its own. Ours have been checked before it
 * sees the proof, and their successor is on the response.
 */
function checkedNonces(provider: Provider, nextNonce: () => string): void {
  internals(provider).DPoPNonces = {
    checkChallenge: (nonce) => exchangeIn(Provider.ctx)?.proof.checked?.nonce === nonce,
    // It sets the header `DPoP-Nonce` to this, unless the proof has the same.
    nextChallenge() {
      const proof = exchangeIn(Provider.ctx)?.proof.checked;
      return proof === undefined ? nextNonce() : proof.nonce;
    },
  };
}

/** Applies all patches to one instance; other instances in the process are not changed. */
export function patchProvider(
  provider: Provider,
  {
    checkSecret,
    onLogout,
    clients,
    production,
    nextNonce,
  }: {
    readonly checkSecret: SecretCheck;
    /** Called within a request that ends a session, once for each of its clients. */
    readonly onLogout: (logout: Logout) => void;
    readonly clients: Pick<ClientInternals, "kindOf">;
    readonly production: boolean;
    readonly nextNonce: () => string;
  },
): void {
  keepMembers(provider);
  documentedTokenType(provider);
  emptySessionsUnwritten(provider);
  anonymousSessionsUnwritten(provider);
  ownAuthorizations(provider);
  hashedSecrets(provider, checkSecret);
  sessionOfIdTokens(provider);
  registeredAddresses(provider, clients, production);
  queuedLogout(provider, onLogout);
  assertionsApart(provider);
  checkedNonces(provider, nextNonce);
  shownToClients(provider);
  datedSessions(provider);
}
