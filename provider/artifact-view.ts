/** The artifacts as one request sees them: what it has read, below its own changes that are not committed yet. */
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../core/clock.ts";
import { ConditionFailed } from "../core/errors.ts";
import { GRANT } from "../records/artifacts/artifact-kinds.ts";
import type { ArtifactStore, Family, StoreClock } from "../records/artifacts/artifact-store.ts";
import type { Artifact, StoredArtifact } from "../records/artifacts/artifact.ts";
import { type ArtifactSealer, openArtifact } from "../records/artifacts/sealed-artifact.ts";

/**
 * A session of which only the expiry would change is written when that moves by more than a thousandth of the remaining
 * time, or by more than this. So a busy session is written once a minute, and simultaneous requests in it do not
 * conflict.
 */
const MAX_UNWRITTEN_MS = 60_000;

/** Whether the stored session can stay as it is. */
function canStay(before: Artifact, after: Artifact, now: number): boolean {
  if (after.model !== "Session") return false;
  const unwritten = Math.min(MAX_UNWRITTEN_MS, (after.expiresAt - now) / 1_000);
  if (Math.abs(after.expiresAt - before.expiresAt) > unwritten) return false;
  const { iat: _began, exp: _end, ...had } = before.payload;
  const { iat: _begins, exp: _ends, ...has } = after.payload;
  return before.accountId === after.accountId && isDeepStrictEqual(had, has);
}

/** A replacement keeps the marks of consumption. */
export function withMarks(
  after: Artifact,
  { consumedAt, spentAt, replay, replayUntil }: StoredArtifact,
): Artifact {
  if (consumedAt === undefined) return after;
  return {
    ...after,
    consumedAt,
    ...(spentAt === undefined ? {} : { spentAt }),
    ...(replay === undefined ? {} : { replay }),
    ...(replayUntil === undefined ? {} : { replayUntil }),
  };
}

/** A change of one artifact that is not committed yet. */
export interface PendingChange {
  readonly model: string;
  readonly key: string;
  /** `undefined` to remove it. */
  readonly after: Artifact | undefined;
  readonly isConsumed: boolean;
  /** Not written, but it must still exist. */
  readonly isUnchanged: boolean;
}

const nameOf = (model: string, key: string): string => `${model}:${key}`;

export class ArtifactView {
  protected readonly store: ArtifactStore;
  protected readonly sealer: ArtifactSealer;
  protected readonly clock: Clock;
  /** What the store holds, by name. A request reads the same value again, and the commit checks whether it has changed. */
  protected readonly read = new Map<string, StoredArtifact>();
  /** By name. */
  protected pending = new Map<string, PendingChange>();
  /** Read when something is consumed. */
  protected storeClock: Promise<StoreClock> | undefined;
  readonly #reading = new Map<string, Promise<void>>();

  constructor(store: ArtifactStore, sealer: ArtifactSealer, clock: Clock) {
    this.store = store;
    this.sealer = sealer;
    this.clock = clock;
  }

  async find(model: string, key: string): Promise<Artifact | undefined> {
    const name = nameOf(model, key);
    if (!this.pending.has(name) && !this.read.has(name)) await this.#readOnce(model, key);
    return this.known(model, key);
  }

  /** Begins a read that oidc-provider will make later. */
  prefetch(model: string, key: string): void {
    // The `find` that needs it fails with it.
    this.#readOnce(model, key).catch(() => undefined);
  }

  async findByUid(model: string, uid: string): Promise<Artifact | undefined> {
    for (const { after } of this.pending.values())
      if (after?.model === model && after.uid === uid) return after;
    const found = await this.store.findByUid(model, uid);
    if (found === undefined) return undefined;
    this.#keep(found);
    return this.known(model, found.key);
  }

  /** What this request has read or written under this key, without a read from the store. */
  known(model: string, key: string): Artifact | undefined {
    const name = nameOf(model, key);
    const pending = this.pending.get(name);
    return pending === undefined ? this.read.get(name) : pending.after;
  }

  /** Creates an artifact, or replaces the one that was read in this request, which must still exist. */
  save(artifact: Artifact): void {
    const { model, key } = artifact;
    const name = nameOf(model, key);
    const before = this.read.get(name);
    const pending = this.pending.get(name);
    this.pending.set(name, {
      model,
      key,
      after: before === undefined ? artifact : withMarks(artifact, before),
      isConsumed: pending?.isConsumed ?? false,
      isUnchanged:
        pending === undefined && before !== undefined && canStay(before, artifact, this.clock.now()),
    });
  }

  /** Marks it as used. Of several simultaneous requests that consume it, one succeeds. */
  async consume(model: string, key: string): Promise<void> {
    const there = await this.find(model, key);
    if (there === undefined) throw new ConditionFailed(`there is no ${model} to be consumed`);
    const after = { ...there, consumedAt: this.clock.now() };
    this.pending.set(nameOf(model, key), { model, key, after, isConsumed: true, isUnchanged: false });
    this.storeClock = this.store.clock();
    // The commit awaits the same promise and fails with it.
    this.storeClock.catch(() => undefined);
  }

  /**
   * Stores `replay` until the given time with the artifact of this model that this request consumes.
   * @returns false if it consumes none.
   */
  attachReplay(model: string, replay: string, replayUntil: number): boolean {
    for (const [name, { after, ...pending }] of this.pending) {
      if (pending.model !== model || !pending.isConsumed || after === undefined) continue;
      this.pending.set(name, { ...pending, after: { ...after, replay, replayUntil } });
      return true;
    }
    return false;
  }

  /** Of several simultaneous requests that have read and remove it, one succeeds. */
  remove(model: string, key: string): void {
    const name = nameOf(model, key);
    this.pending.set(name, { model, key, after: undefined, isConsumed: false, isUnchanged: false });
  }

  /** Removes a grant with all its codes and tokens. */
  revoke(grantKey: string): void {
    this.remove(GRANT, grantKey);
    // Everything else that descends from the grant is removed with it.
    for (const [name, { model, after }] of this.pending) {
      if (model !== GRANT && after?.grantKey === grantKey) this.pending.delete(name);
    }
  }

  /** What the store holds now. */
  protected async load(
    model: string,
    key: string,
  ): Promise<{ readonly [Name in keyof Family]: Family[Name] | undefined }> {
    const { artifact, grant } = (await this.store.find(model, key)) ?? {};
    return { artifact: artifact && openArtifact(artifact, this.sealer), grant };
  }

  #readOnce(model: string, key: string): Promise<void> {
    const name = nameOf(model, key);
    const reading = this.#reading.get(name) ?? this.#read(model, key);
    this.#reading.set(name, reading);
    return reading;
  }

  async #read(model: string, key: string): Promise<void> {
    const { artifact, grant } = await this.load(model, key);
    for (const one of [artifact, grant]) if (one !== undefined) this.#keep(one);
  }

  /** Only the first read of an artifact is kept. */
  #keep(found: StoredArtifact): void {
    const name = nameOf(found.model, found.key);
    if (!this.read.has(name)) this.read.set(name, found);
  }
}
