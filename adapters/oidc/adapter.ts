/** The adapter that oidc-provider asks for, over the storage contract: it hashes, collects and reads back. */
import { hash } from "node:crypto";
import type { Adapter, AdapterPayload } from "oidc-provider";
import type { Clock } from "../../lib/clock.ts";
import type { Artifact, Payload } from "../../lib/artifacts/artifact.ts";
import type { Unit, UnitsOfWork } from "./unit-of-work.ts";

/** What the adapter needs. */
export interface OidcAdapterDependencies {
  readonly units: UnitsOfWork;
  readonly clock: Clock;
  /** Seconds after the sign-in: an older session counts as expired, also when it was stored with a later end. */
  readonly sessionMax: number;
  /** The metadata of a client that may be used now; `undefined` for an unknown or disabled one. */
  readonly clientMetadata: (clientId: string) => Promise<AdapterPayload | undefined>;
}

/**
 * Milliseconds for which a code is kept after its end. A use of it ends the family for at least ten minutes after the
 * exchange; the rest is for clocks that differ.
 */
const REMEMBERED = 660_000;

/** Stands for the identifier in an address that holds it. */
const IDENTIFIER = "{id}";

/** Models whose artifacts belong to a family and copy the generations of its grant. */
const descendants: ReadonlySet<string> = new Set(["AuthorizationCode", "AccessToken", "RefreshToken"]);

/** Milliseconds that a write outside a request may take. */
const DEADLINE = 4_500;

/** What a client or browser may present as an identifier; anything else is unknown without a look-up. */
export const PRESENTABLE: RegExp = /^[\x21-\x7e]{1,255}$/;

/** The key under which an identifier is stored: its hash, so that a copy of the store opens nothing. */
export function artifactKey(identifier: string): string {
  return hash("sha256", identifier, "base64url");
}

const PLAIN = { configurable: true, enumerable: true, writable: true };

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

/**
 * What a session keeps of the clients that it has been to. The library adds the grant of the last authorization, which it
 * needs in that request only: tokens don't end with a session. Without it a session stays as it is while it is used.
 */
function withoutGrants(authorizations: object): object {
  const entries = Object.entries(authorizations as Readonly<Record<string, { readonly grantId?: string }>>);
  return Object.fromEntries(entries.map(([clientId, { grantId: _grant, ...kept }]) => [clientId, kept]));
}

function toArtifact(model: string, id: string, payload: AdapterPayload, expiresAt: number): Artifact {
  const { jti: _id, consumed: _consumed, ...kept } = payload as Payload;
  const session = kept["session"] as Payload | undefined;
  if (model === "Interaction" && session) {
    // The library stores the browser's session identifier here and never reads it.
    const { cookie: _cookie, ...rest } = session;
    kept["session"] = rest;
  }
  if (model === "Session" && kept["authorizations"])
    kept["authorizations"] = withoutGrants(kept["authorizations"]);
  if (typeof kept["returnTo"] === "string") kept["returnTo"] = kept["returnTo"].replace(id, IDENTIFIER);
  const artifact: Mutable<Artifact> = { model, key: artifactKey(id), payload: kept, expiresAt };
  const { grantId, uid, accountId, clientId } = payload;
  if (model === "Grant") artifact.grantKey = artifact.key;
  else if (grantId && descendants.has(model)) artifact.grantKey = artifactKey(grantId);
  if (uid !== undefined) artifact.uid = uid;
  if (accountId !== undefined) artifact.accountId = accountId;
  if (clientId !== undefined) artifact.clientId = clientId;
  return artifact;
}

/** A copy of JSON. `structuredClone` takes ten times as long. */
function copy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copy);
  if (typeof value !== "object" || value === null) return value;
  const copied: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    // A client may be called `__proto__`.
    if (name === "__proto__") Object.defineProperty(copied, name, { ...PLAIN, value: copy(member) });
    else copied[name] = copy(member);
  }
  return copied;
}

function toPayload(artifact: Artifact, id: string | undefined): AdapterPayload {
  // The library changes what it is given.
  const payload = copy(artifact.payload) as Mutable<AdapterPayload>;
  const { returnTo } = artifact.payload;
  if (id !== undefined) {
    payload.jti = id;
    if (typeof returnTo === "string") payload.returnTo = returnTo.replace(IDENTIFIER, id);
  }
  if (artifact.consumedAt !== undefined) {
    payload.consumed = Math.floor(artifact.consumedAt / 1000);
    // The library looks at the end of a code before it looks whether that was used.
    if (artifact.model === "AuthorizationCode") payload.exp = Math.floor(artifact.expiresAt / 1000);
  }
  return payload;
}

/** A code or token carries the generations that its grant was given at the sign-in. */
function giveGenerations({ model, grantKey, payload }: Artifact, unit: Unit): void {
  if (!descendants.has(model) || grantKey === undefined) return;
  const generations = unit.known("Grant", grantKey)?.payload["generations"];
  if (generations !== undefined) payload["generations"] = generations;
}

class ArtifactAdapter implements Adapter {
  readonly #model: string;
  readonly #dependencies: OidcAdapterDependencies;

  constructor(model: string, dependencies: OidcAdapterDependencies) {
    this.#model = model;
    this.#dependencies = dependencies;
  }

  /** Within a request the unit of that request; outside one that is committed at once. */
  async #in<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    const { units, clock } = this.#dependencies;
    const unit = units.current();
    try {
      if (unit) return await work(unit);
      const request = { underWaySince: performance.now(), deadline: clock.now() + DEADLINE };
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
    const end =
      typeof payload.exp === "number"
        ? payload.exp * 1000
        : this.#dependencies.clock.now() + expiresIn * 1000;
    const expiresAt = this.#model === "AuthorizationCode" ? end + REMEMBERED : end;
    return this.#in(async (unit) => {
      const artifact = toArtifact(this.#model, id, payload, expiresAt);
      giveGenerations(artifact, unit);
      unit.save(artifact);
      return undefined;
    });
  }

  async find(id: string): Promise<AdapterPayload | undefined> {
    if (!PRESENTABLE.test(id)) return undefined;
    if (this.#model === "Client") return this.#in(() => this.#dependencies.clientMetadata(id));
    const found = await this.#in((unit) => unit.find(this.#model, artifactKey(id)));
    return found === undefined || this.#isTooOld(found) ? undefined : toPayload(found, id);
  }

  async findByUid(uid: string): Promise<AdapterPayload | undefined> {
    const found = await this.#in((unit) => unit.findByUid(this.#model, uid));
    return found === undefined || this.#isTooOld(found) ? undefined : toPayload(found, undefined);
  }

  #isTooOld({ model, payload }: Artifact): boolean {
    const { clock, sessionMax } = this.#dependencies;
    const { loginTs } = payload as { readonly loginTs?: number };
    return model === "Session" && loginTs !== undefined && (loginTs + sessionMax) * 1000 <= clock.now();
  }

  // The device flow is not offered.
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

/** The factory to give to oidc-provider as its `adapter`. */
export function createOidcAdapter(dependencies: OidcAdapterDependencies): (model: string) => Adapter {
  return (model) => new ArtifactAdapter(model, dependencies);
}
