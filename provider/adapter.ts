/** The adapter of oidc-provider: it stores artifacts under the hash of their identifier, through the unit of work. */
import { hash } from "node:crypto";
import { type Adapter, type AdapterPayload, Provider } from "oidc-provider";
import { seconds } from "../core/clock.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import { storedClientId } from "../records/directory/document-kinds.ts";
import type { Artifact, Payload } from "../records/artifacts/artifact.ts";
import type { GrantGenerations } from "./account.ts";
import { clientRecord } from "./clients.ts";
import { exchangeIn } from "./exchange.ts";
import type { ProviderServices } from "./services.ts";
import { latestEnd } from "../accounts/sign-in-sessions.ts";
import type { Unit } from "./unit-of-work.ts";

/** What the adapter asks about clients and codes. */
export interface AdapterLookups {
  /** The keyed digest under which the code that a person types is stored. */
  readonly userCodeDigest: (userCode: string) => string;
  /** @returns `undefined` for an unknown or disabled client. */
  readonly clientMetadata: (clientId: string) => Promise<AdapterPayload | undefined>;
}

/**
 * How long an expired code is stored. A replay revokes the family for at least ten minutes after the exchange; the rest
 * allows for clock differences. A device that polls late learns that its code has expired.
 */
export const CODE_KEPT_SECONDS = 660;

/** Replaces the identifier in a URL that contains it. */
const IDENTIFIER = "{id}";

const INTERACTION = "Interaction";

/** The prompts at which a person signs in. */
const SIGN_INS: ReadonlySet<string> = new Set(["login", "create"]);

const DEVICE_CODE = "DeviceCode";

/** Models that are exchanged for tokens, once. They are kept after they expire. */
const codes: ReadonlySet<string> = new Set(["AuthorizationCode", DEVICE_CODE]);

/** Models whose artifacts belong to a grant and copy its generations. */
const descendants: ReadonlySet<string> = new Set([...codes, "AccessToken", "RefreshToken"]);

/** For a write outside a request. */
const WRITE_TIMEOUT_MS = 4_500;

/** Whether an identifier can exist. Others are unknown without a look-up. */
export function isPresentable(identifier: string): boolean {
  return /^[\x21-\x7e]{1,255}$/.test(identifier);
}

/** The key under which an artifact is stored: a hash, so that a copy of the store contains no valid tokens. */
export function artifactKey(identifier: string): string {
  return hash("sha256", identifier, "base64url");
}

const PLAIN = { configurable: true, enumerable: true, writable: true };

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

/**
 * The clients of a session without their grants. oidc-provider adds the grant of the last authorization, but needs it in
 * that request only, because tokens outlive sessions. Without it, using a session does not change it.
 */
function withoutGrants(authorizations: object): object {
  const entries = Object.entries(authorizations as Readonly<Record<string, { readonly grantId?: string }>>);
  return Object.fromEntries(entries.map(([clientId, { grantId: _grant, ...stored }]) => [clientId, stored]));
}

/** The parameters of a device without those about a person: the person who types its code signs in themselves. */
function withoutHints(params: object): Payload {
  const { login_hint: _name, id_token_hint: _token, ...rest } = params as Payload;
  return rest;
}

function toArtifact(model: string, id: string, payload: AdapterPayload, expiresAt: number): Artifact {
  const { jti: _id, consumed: _consumed, ...stored } = payload as Payload;
  const session = stored["session"] as Payload | undefined;
  if (model === INTERACTION && session) {
    // oidc-provider stores the session identifier of the browser here and never reads it.
    const { cookie: _cookie, ...rest } = session;
    stored["session"] = rest;
  }
  if (model === DEVICE_CODE && stored["params"]) stored["params"] = withoutHints(stored["params"]);
  if (model === "Session" && stored["authorizations"])
    stored["authorizations"] = withoutGrants(stored["authorizations"]);
  if (typeof stored["returnTo"] === "string") stored["returnTo"] = stored["returnTo"].replace(id, IDENTIFIER);
  const artifact: Mutable<Artifact> = { model, key: artifactKey(id), payload: stored, expiresAt };
  const { grantId, uid, accountId, clientId } = payload;
  if (model === "Grant") artifact.grantKey = artifact.key;
  else if (grantId && descendants.has(model)) artifact.grantKey = artifactKey(grantId);
  if (uid !== undefined) artifact.uid = uid;
  if (accountId !== undefined) artifact.accountId = accountId;
  if (clientId !== undefined) artifact.clientId = storedClientId(clientId);
  return artifact;
}

/** Copies JSON. `structuredClone` takes ten times as long. */
function copy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copy);
  if (typeof value !== "object" || value === null) return value;
  const copied: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    // A client can be named `__proto__`.
    if (name === "__proto__") Object.defineProperty(copied, name, { ...PLAIN, value: copy(member) });
    else copied[name] = copy(member);
  }
  return copied;
}

function toPayload(artifact: Artifact, id: string | undefined): AdapterPayload {
  // oidc-provider modifies the payload that it gets.
  const payload = copy(artifact.payload) as Mutable<AdapterPayload>;
  const { returnTo } = artifact.payload;
  if (id !== undefined) {
    payload.jti = id;
    if (typeof returnTo === "string") payload.returnTo = returnTo.replace(IDENTIFIER, id);
  }
  if (artifact.consumedAt !== undefined) {
    payload.consumed = Math.floor(artifact.consumedAt / 1000);
    // oidc-provider checks whether a code has expired before it checks whether it was used.
    if (artifact.model === "AuthorizationCode") payload.exp = Math.floor(artifact.expiresAt / 1000);
  }
  return payload;
}

/**
 * Codes and tokens carry the generations of their grant; and a device code the epoch of its client until a person decides
 * about it.
 */
function giveGenerations({ model, grantKey, payload }: Artifact, unit: Unit): void {
  const client = model === DEVICE_CODE ? Provider.ctx?.oidc.client : undefined;
  if (grantKey === undefined && client !== undefined)
    payload["generations"] = { epoch: clientRecord(client).tokens_epoch };
  if (!descendants.has(model) || grantKey === undefined) return;
  const generations = unit.known("Grant", grantKey)?.payload["generations"] as GrantGenerations | undefined;
  if (generations === undefined) return;
  const { apis, ...own } = generations;
  const { aud } = payload;
  payload["generations"] = typeof aud === "string" ? { ...own, api: ownValue(apis ?? {}, aud) } : own;
}

/**
 * A sign-in belongs to the browser in which it began, whatever cookies that browser has on the paths of the sign-in.
 */
function giveBrowser(artifact: Artifact, unit: Unit): Artifact {
  const browser = artifact.model === INTERACTION ? unit.browser : undefined;
  return browser === undefined ? artifact : { ...artifact, browser };
}

type Services = Pick<ProviderServices, "configuration" | "units" | "firstState">;

class ArtifactAdapter implements Adapter {
  readonly #model: string;
  readonly #services: Services;
  readonly #lookups: AdapterLookups;

  constructor(model: string, services: Services, lookups: AdapterLookups) {
    this.#model = model;
    this.#services = services;
    this.#lookups = lookups;
  }

  /** Runs in the unit of the request. Outside a request it commits immediately. */
  async #in<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    const { units, configuration } = this.#services;
    const unit = units.current();
    try {
      if (unit) return await work(unit);
      const request = {
        receivedAt: performance.now(),
        deadline: configuration.clock.now() + WRITE_TIMEOUT_MS,
      };
      return await units.run(request, async (own) => {
        const result = await work(own);
        await own.commit();
        return result;
      });
    } catch (error) {
      if (unit) unit.failure ??= error;
      throw error;
    }
  }

  upsert(id: string, payload: AdapterPayload, expiresIn: number): Promise<undefined> {
    const { clock } = this.#services.configuration;
    const end = typeof payload.exp === "number" ? payload.exp * 1000 : clock.now() + expiresIn * 1000;
    const expiresAt = codes.has(this.#model) ? end + CODE_KEPT_SECONDS * 1000 : end;
    return this.#in(async (unit) => {
      const artifact = toArtifact(this.#model, id, this.#withoutUserCode(payload), expiresAt);
      giveGenerations(artifact, unit);
      unit.save(this.#withFirstState(giveBrowser(artifact, unit)));
      return undefined;
    });
  }

  /** oidc-provider saves an interaction when it begins, and when it has a result. */
  #withFirstState(artifact: Artifact): Artifact {
    const { firstState } = this.#services;
    const { prompt, result } = artifact.payload as {
      readonly prompt?: { readonly name: string };
      readonly result?: object;
    };
    const isSignIn = artifact.model === INTERACTION && SIGN_INS.has(prompt?.name ?? "");
    if (firstState === undefined || !isSignIn || result !== undefined) return artifact;
    return { ...artifact, state: firstState() };
  }

  /** The code that the person types is short: only a keyed digest of it is stored. */
  #withoutUserCode({ userCode, ...payload }: AdapterPayload): AdapterPayload {
    return userCode === undefined ? payload : { ...payload, uid: this.#lookups.userCodeDigest(userCode) };
  }

  async find(id: string): Promise<AdapterPayload | undefined> {
    if (this.#model === "Client") return this.#in(() => this.#lookups.clientMetadata(id));
    if (!isPresentable(id)) return undefined;
    const found = await this.#in(async (unit) => {
      const artifact = await unit.find(this.#model, artifactKey(id));
      const isElsewhere = this.#model === INTERACTION && artifact?.browser !== unit.browser;
      return isElsewhere ? undefined : artifact;
    });
    if (found === undefined || this.#isTooOld(found)) return undefined;
    const payload = toPayload(found, id);
    const isProved = this.#model === "AccessToken" && exchangeIn(Provider.ctx)?.proof.token === found.key;
    return isProved ? { ...payload, jkt: undefined } : payload;
  }

  async findByUid(uid: string): Promise<AdapterPayload | undefined> {
    const found = await this.#in((unit) => unit.findByUid(this.#model, uid));
    return found === undefined || this.#isTooOld(found) ? undefined : toPayload(found, undefined);
  }

  #isTooOld({ model, payload }: Artifact): boolean {
    const { clock, lifetimes } = this.#services.configuration;
    // A session of before a change of `lifetimes` may be stored with a later end.
    return model === "Session" && latestEnd(payload, lifetimes) <= seconds(clock);
  }

  // The page for the code of a device is ours: see `interactions/device.ts`.
  async findByUserCode(): Promise<undefined> {
    return undefined;
  }

  consume(id: string): Promise<undefined> {
    return this.#in(async (unit) => {
      await unit.consume(this.#model, artifactKey(id));
      return undefined;
    });
  }

  destroy(id: string): Promise<undefined> {
    const key = artifactKey(id);
    return this.#in(async (unit) => {
      if (this.#model === "Grant") unit.revoke(key);
      else unit.remove(this.#model, key);
      return undefined;
    });
  }

  revokeByGrantId(grantId: string): Promise<undefined> {
    return this.#in(async (unit) => {
      unit.revoke(artifactKey(grantId));
      return undefined;
    });
  }
}

/** `adapter` of oidc-provider. */
export function createOidcAdapter(services: Services, lookups: AdapterLookups): (model: string) => Adapter {
  return (model) => new ArtifactAdapter(model, services, lookups);
}
