/**
 * Everything that reaches into oidc-provider beyond its public interface, and why. Nothing else in this
 * project imports `oidc-provider/lib/*` or changes one of its prototypes.
 */
import type { Client, Provider } from "oidc-provider";
import type { Deployment } from "../../config/configuration.ts";

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

/** What the patches call. */
export interface PatchCalls {
  readonly checkSecret: SecretCheck;
  readonly deliverLogout: LogoutDelivery;
}

/** Applies all patches to one provider; other providers in the process are not touched. */
export function patchProvider(provider: Provider, { checkSecret, deliverLogout }: PatchCalls): void {
  keepGenerations(provider);
  documentedTokenType(provider);
  configuredAddresses(provider);
  hashedSecrets(provider, checkSecret);
  repeatedLogout(provider, deliverLogout);
}
