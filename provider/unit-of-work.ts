/**
 * One request, one commit. Everything that oidc-provider's adapter writes during a request is collected here and
 * committed together when the response is known to be good, on condition that nothing it read has changed.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { type ArtifactSealer, openArtifact, sealArtifact } from "../records/artifacts/sealed-artifact.ts";
import type { ArtifactStore, Family, StoreClock } from "../records/artifacts/artifact-store.ts";
import { artifactRecord, artifactRef } from "../records/artifacts/artifact-kinds.ts";
import { type Artifact, isDecided, type StoredArtifact } from "../records/artifacts/artifact.ts";
import type { Clock } from "../core/clock.ts";
import { ConditionFailed } from "../core/errors.ts";
import type { Exchange } from "./exchange.ts";
import { Changes, type Records, Transaction } from "../records/records.ts";
import type { Rider } from "../records/rate-limits.ts";
import type { Storage } from "../records/storage.ts";

/** The reads and the uncommitted writes of one request. */
export interface Unit {
  /** When the last byte of the request had arrived, on the clock of `performance`. */
  readonly receivedAt: number;
  /** Milliseconds since the epoch: after this nothing is committed. */
  readonly deadline: number;
  /** The digest of the browser's cookie: only sign-ins that began there are found. */
  readonly browser: string | undefined;
  /** An error that oidc-provider would hide; the HTTP layer responds with it. */
  failure: unknown;
  find(model: string, key: string): Promise<Artifact | undefined>;
  /** Begins a read that oidc-provider will make later. */
  prefetch(model: string, key: string): void;
  findByUid(model: string, uid: string): Promise<Artifact | undefined>;
  /** What this unit has read or written under this key, without a read from the store. */
  known(model: string, key: string): Artifact | undefined;
  /** Creates an artifact, or replaces the one that was read in this unit, which must still exist. */
  save(artifact: Artifact): void;
  /** Marks it as used. Of several simultaneous requests that consume it, one succeeds. */
  consume(model: string, key: string): Promise<void>;
  /** Of several simultaneous requests that have read and remove it, one succeeds. */
  remove(model: string, key: string): void;
  /** Removes a grant with all its codes and tokens. */
  revoke(grantKey: string): void;
  /**
   * Stores `replay` until the given time with the artifact of this model that this unit consumes.
   * @returns false if it consumes none.
   */
  attachReplay(model: string, replay: string, until: number): boolean;
  /**
   * Consumes points in the commit itself.
   * @param consume writes what it gets, or rejects: then nothing is written.
   */
  consumePoints(consume: (rider: Rider) => Promise<void>): void;
  /**
   * Refunds points in the commit itself. Without a commit they are refunded at the end of the request.
   * @param attempt is called without a rider for that.
   */
  refund(attempt: { readonly succeed: (rider?: Rider) => Promise<void> }): void;
  /**
   * Writes other records in the commit itself. If artifacts have a store of their own, these are committed just before.
   * @param work is called for each attempt, as in {@link Records.transact}.
   */
  alongside(work: (tx: Transaction) => Promise<void>): void;
  /** Registers a callback for a successful commit, even one without writes. The response waits for it. */
  whenCommitted(callback: () => unknown): void;
  commit(): Promise<void>;
}

/** Gives the adapter the unit of the current request, across asynchronous calls. */
export interface UnitsOfWork {
  current(): Unit | undefined;
  /** The unit of this request. @throws TypeError outside a request. */
  required(): Unit;
  run<T>(request: UnitRequest, work: (unit: Unit) => Promise<T>): Promise<T>;
}

/** The parts of a request that its unit uses. What happens outside a request belongs to no browser. */
export type UnitRequest = Pick<Exchange, "receivedAt" | "deadline"> & Partial<Pick<Exchange, "browser">>;

const GRANT = "Grant";
const INTERACTION = "Interaction";
const DEVICE_CODE = "DeviceCode";
/** The member of a session that lists its clients. Simultaneous requests each add an entry, which are merged. */
const AUTHORIZATIONS = "authorizations";
/** The member of a session that says since which change of its account it is valid. */
const GENERATION = "generation";
/** The longest pause before a commit is retried after a conflict. */
const MAX_RETRY_PAUSE_MS = 10;

const nameOf = (model: string, key: string): string => `${model}:${key}`;

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

/** The pending change of one artifact. */
interface Pending {
  readonly model: string;
  readonly key: string;
  /** `undefined` to remove it. */
  readonly after: Artifact | undefined;
  readonly isConsumed: boolean;
  /** Not written, but it must still exist. */
  readonly isUnchanged: boolean;
}

/** A replacement keeps the marks of consumption. */
function withMarks(after: Artifact, { consumedAt, spentAt, replay, replayUntil }: StoredArtifact): Artifact {
  if (consumedAt === undefined) return after;
  return {
    ...after,
    consumedAt,
    ...(spentAt === undefined ? {} : { spentAt }),
    ...(replay === undefined ? {} : { replay }),
    ...(replayUntil === undefined ? {} : { replayUntil }),
  };
}

const isNumber = (value: unknown): value is number => typeof value === "number";

/** The change of this request, applied to what another request has written in the meantime. */
function rebased(after: Artifact, there: StoredArtifact): Artifact {
  // A step that lost against the end of the sign-in does not undo it.
  if (after.model === INTERACTION && after.state !== undefined) {
    const { payload, expiresAt, extensions } = there;
    return { ...after, payload, expiresAt, ...(extensions !== undefined && { extensions }) };
  }
  // The device has polled meanwhile.
  if (after.model === DEVICE_CODE && there.state !== undefined)
    return { ...withMarks(after, there), state: there.state };
  if (after.model !== "Session") return withMarks(after, there);
  const authorizations = {
    ...(there.payload[AUTHORIZATIONS] as object),
    ...(after.payload[AUTHORIZATIONS] as object),
  };
  // A session that stays while the others of its account end gets a higher generation. An earlier one would end it.
  const generations = [there, after].map(({ payload }) => payload[GENERATION]).filter(isNumber);
  const generation = generations.length === 0 ? {} : { [GENERATION]: Math.max(...generations) };
  return { ...after, payload: { ...after.payload, ...generation, [AUTHORIZATIONS]: authorizations } };
}

/** The parts of the storage that units write to. */
type UnitStorage = Pick<Storage, "artifacts" | "records" | "parts">;

class PendingUnit implements Unit {
  failure: unknown;
  readonly #request: UnitRequest;
  readonly #store: ArtifactStore;
  readonly #records: Records;
  readonly #hasOwnArtifacts: boolean;
  readonly #sealer: ArtifactSealer;
  readonly #clock: Clock;
  /** Every read from the store. A request reads the same value again, and the commit checks whether it has changed. */
  readonly #reading = new Map<string, Promise<void>>();
  readonly #read = new Map<string, StoredArtifact>();
  #pending = new Map<string, Pending>();
  #replay: { readonly replay: string; readonly replayUntil: number } | undefined;
  /** The clock of the store, read when something was consumed. */
  #storeClock: Promise<StoreClock> | undefined;
  #callbacks: (() => unknown)[] = [];
  /** Moves the points that belong to the next commit, which it makes. */
  #movePoints: ((rider: Rider) => Promise<void>) | undefined;
  /** Refunds what no commit has refunded. */
  #refund: (() => Promise<void>) | undefined;

  #alongside: ((tx: Transaction) => Promise<void>) | undefined;

  constructor(
    { artifacts, records, parts }: UnitStorage,
    sealer: ArtifactSealer,
    clock: Clock,
    request: UnitRequest,
  ) {
    this.#store = artifacts;
    this.#records = records;
    this.#hasOwnArtifacts = parts.length > 1;
    this.#sealer = sealer;
    this.#clock = clock;
    this.#request = request;
  }

  get receivedAt(): number {
    return this.#request.receivedAt;
  }

  get deadline(): number {
    return this.#request.deadline;
  }

  get browser(): string | undefined {
    return this.#request.browser?.digest;
  }

  async find(model: string, key: string): Promise<Artifact | undefined> {
    const name = nameOf(model, key);
    if (!this.#pending.has(name) && !this.#read.has(name)) await this.#readOnce(model, key);
    return this.known(model, key);
  }

  prefetch(model: string, key: string): void {
    // The `find` that needs it fails with it.
    this.#readOnce(model, key).catch(() => undefined);
  }

  #readOnce(model: string, key: string): Promise<void> {
    const name = nameOf(model, key);
    const reading = this.#reading.get(name) ?? this.#load(model, key);
    this.#reading.set(name, reading);
    return reading;
  }

  async #load(model: string, key: string): Promise<void> {
    const { artifact, grant } = await this.#find(model, key);
    for (const one of [artifact, grant]) this.#keep(one);
  }

  async #find(
    model: string,
    key: string,
  ): Promise<{ readonly [Name in keyof Family]: Family[Name] | undefined }> {
    const { artifact, grant } = (await this.#store.find(model, key)) ?? {};
    return { artifact: artifact && openArtifact(artifact, this.#sealer), grant };
  }

  /** Only the first read of an artifact is kept. */
  #keep(found: StoredArtifact | undefined): void {
    if (found === undefined) return;
    const name = nameOf(found.model, found.key);
    if (!this.#read.has(name)) this.#read.set(name, found);
  }

  async findByUid(model: string, uid: string): Promise<Artifact | undefined> {
    for (const { after } of this.#pending.values())
      if (after?.model === model && after.uid === uid) return after;
    const found = await this.#store.findByUid(model, uid);
    if (found === undefined) return undefined;
    this.#keep(found);
    return this.known(model, found.key);
  }

  known(model: string, key: string): Artifact | undefined {
    const name = nameOf(model, key);
    const pending = this.#pending.get(name);
    return pending === undefined ? this.#read.get(name) : pending.after;
  }

  save(artifact: Artifact): void {
    const { model, key } = artifact;
    const name = nameOf(model, key);
    const isConsumed = this.#pending.get(name)?.isConsumed ?? false;
    const before = this.#read.get(name);
    const isUnchanged =
      !this.#pending.has(name) && before !== undefined && canStay(before, artifact, this.#clock.now());
    const after = before === undefined ? artifact : withMarks(artifact, before);
    this.#pending.set(name, { model, key, after, isConsumed, isUnchanged });
  }

  async consume(model: string, key: string): Promise<void> {
    const there = await this.find(model, key);
    if (there === undefined) throw new ConditionFailed(`there is no ${model} to be consumed`);
    const after = { ...there, consumedAt: this.#clock.now() };
    this.#pending.set(nameOf(model, key), { model, key, after, isConsumed: true, isUnchanged: false });
    this.#storeClock = this.#store.clock();
    // The commit awaits the same promise and fails with it.
    this.#storeClock.catch(() => undefined);
  }

  remove(model: string, key: string): void {
    this.#pending.set(nameOf(model, key), {
      model,
      key,
      after: undefined,
      isConsumed: false,
      isUnchanged: false,
    });
  }

  revoke(grantKey: string): void {
    this.remove(GRANT, grantKey);
    // Everything else that descends from the grant is removed with it.
    for (const [name, { model, after }] of this.#pending) {
      if (model !== GRANT && after?.grantKey === grantKey) this.#pending.delete(name);
    }
  }

  attachReplay(model: string, replay: string, until: number): boolean {
    for (const pending of this.#pending.values()) {
      if (pending.model !== model || !pending.isConsumed) continue;
      this.#replay = { replay, replayUntil: until };
      return true;
    }
    return false;
  }

  consumePoints(consume: (rider: Rider) => Promise<void>): void {
    this.#movePoints = consume;
  }

  refund({ succeed }: { readonly succeed: (rider?: Rider) => Promise<void> }): void {
    this.#movePoints = succeed;
    this.#refund = succeed;
  }

  /** The request has ended. */
  async end(): Promise<void> {
    await this.#refund?.();
  }

  alongside(work: (tx: Transaction) => Promise<void>): void {
    this.#alongside = work;
  }

  whenCommitted(callback: () => unknown): void {
    this.#callbacks.push(callback);
  }

  async commit(): Promise<void> {
    const pending = this.#pending;
    this.#pending = new Map();
    const alongside = this.#alongside;
    this.#alongside = undefined;
    if (alongside !== undefined && this.#hasOwnArtifacts) await this.#records.transact(alongside);
    for (let tries = 1; pending.size > 0; tries += 1) {
      const beside = new Transaction(this.#records.store);
      try {
        if (!this.#hasOwnArtifacts) await alongside?.(beside);
        const { changes, consumed } = await this.#changes(pending);
        changes.merge(beside.changes);
        const version = await this.#write(changes);
        if (version !== undefined) this.#remember(pending, consumed, version);
        await beside.followUp();
        break;
      } catch (error) {
        const mayRetry =
          error instanceof ConditionFailed &&
          ((await this.#readAgain(pending)) || beside.changes.concerns(error));
        if (!mayRetry) {
          // A later commit must not call them.
          this.#callbacks = [];
          this.#movePoints = undefined;
          throw error;
        }
      }
      await pause(Math.random() * Math.min(tries, MAX_RETRY_PAUSE_MS));
    }
    const callbacks = this.#callbacks;
    this.#callbacks = [];
    for (const callback of callbacks) await callback();
  }

  async #write(changes: Changes): Promise<string | undefined> {
    if (this.#movePoints === undefined || changes.isEmpty())
      return this.#store.commit(changes, this.deadline);
    let version: string | undefined;
    await this.#movePoints({
      changes,
      deadline: this.deadline,
      onWritten: (written) => (version = written),
    });
    this.#movePoints = undefined;
    this.#refund = undefined;
    return version;
  }

  /** What was written counts as read, so that it can be written again. */
  #remember(pending: ReadonlyMap<string, Pending>, consumed: Artifact | undefined, version: string): void {
    for (const [name, { after, isUnchanged, isConsumed }] of pending) {
      if (isUnchanged) continue;
      if (after === undefined) this.#read.delete(name);
      else this.#read.set(name, { ...after, version });
      if (isConsumed && consumed !== undefined) this.#read.set(name, { ...consumed, version });
    }
  }

  async #changes(
    pending: ReadonlyMap<string, Pending>,
  ): Promise<{ readonly changes: Changes; readonly consumed: Artifact | undefined }> {
    const changes = new Changes();
    // The time of the commit: a request that arrives until then is simultaneous, however long this one has taken.
    const storeTime = (await this.#storeClock)?.latest();
    let consumed: Artifact | undefined;
    for (const [name, { model, key, after, isConsumed, isUnchanged }] of pending) {
      const before = this.#read.get(name);
      if (isUnchanged) changes.expect(artifactRef(model, key), { version: "present" });
      else if (after === undefined) {
        const ref = artifactRef(model, key);
        // The grant of a revoked family may be gone already. Revoking it again is not a conflict.
        if (before === undefined || model === GRANT) changes.drop(ref);
        else changes.delete(ref, before);
      } else {
        if (isConsumed && before?.consumedAt !== undefined)
          throw new ConditionFailed(`this ${model} is used up`);
        if (isConsumed) consumed = this.#asConsumed(after, storeTime);
        const written = isConsumed && consumed ? consumed : after;
        const record = artifactRecord(sealArtifact(written, this.#sealer));
        // What was not read must not exist yet: the library makes new identifiers, and an assertion is used once.
        changes.write(record, before);
      }
    }
    return { changes, consumed };
  }

  /** An artifact is consumed at the commit; requests that arrive until then are simultaneous. */
  #asConsumed(after: Artifact, storeTime: number | undefined): Artifact {
    const spent = storeTime === undefined ? {} : { spentAt: storeTime };
    return { ...after, ...this.#replay, ...spent, consumedAt: this.#clock.now() };
  }

  /**
   * Reads again what other requests may have changed. @returns whether to retry: not if something was removed or consumed,
   * and not if nothing has changed, because then the grant was revoked.
   */
  async #readAgain(pending: Map<string, Pending>): Promise<boolean> {
    let hasChanged = false;
    for (const [name, one] of pending) {
      const before = this.#read.get(name);
      if (before === undefined) continue;
      const { artifact: there } = await this.#find(one.model, one.key);
      if (there === undefined && one.model === GRANT && one.after === undefined) continue;
      if (there === undefined || (one.isConsumed && there.consumedAt !== undefined)) return false;
      // Of two people who type one code, the first decides.
      if (there.model === DEVICE_CODE && isDecided(there) && !isDecided(before)) return false;
      // More time is given once, and only for the state that the person has seen.
      if ((one.after?.extensions ?? 0) > (before.extensions ?? 0)) return false;
      if (one.isUnchanged || there.version === before.version) continue;
      hasChanged = true;
      this.#read.set(name, there);
      if (one.after !== undefined) pending.set(name, { ...one, after: rebased(one.after, there) });
    }
    return hasChanged;
  }
}

export function createUnitsOfWork(stores: UnitStorage, sealer: ArtifactSealer, clock: Clock): UnitsOfWork {
  const storage = new AsyncLocalStorage<Unit>();
  return {
    current: () => storage.getStore(),
    required() {
      const unit = storage.getStore();
      if (unit === undefined) throw new TypeError("this runs only within a request");
      return unit;
    },
    run(request, work) {
      const unit = new PendingUnit(stores, sealer, clock, request);
      return storage.run(unit, async () => {
        try {
          return await work(unit);
        } finally {
          await unit.end();
        }
      });
    },
  };
}
