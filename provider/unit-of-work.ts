/**
 * One request, one commit. Everything that oidc-provider's adapter writes during a request is collected and committed
 * together when the response is known to be good, on condition that nothing it read has changed.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../core/clock.ts";
import { ConditionFailed } from "../core/errors.ts";
import { artifactRecord, artifactRef, GRANT } from "../records/artifacts/artifact-kinds.ts";
import { type Artifact, isDecided, type StoredArtifact } from "../records/artifacts/artifact.ts";
import { type ArtifactSealer, sealArtifact } from "../records/artifacts/sealed-artifact.ts";
import type { Rider } from "../records/rate-limits.ts";
import { Changes, type Records, Transaction } from "../records/records.ts";
import type { Storage } from "../records/storage.ts";
import { ArtifactView, type PendingChange, withMarks } from "./artifact-view.ts";
import type { Exchange } from "./exchange.ts";

/** The parts of a request that its unit uses. What happens outside a request belongs to no browser. */
export type UnitRequest = Pick<Exchange, "receivedAt" | "deadline"> & Partial<Pick<Exchange, "browser">>;

const INTERACTION = "Interaction";
const DEVICE_CODE = "DeviceCode";
/** The member of a session that lists its clients. Simultaneous requests each add an entry, which are merged. */
const AUTHORIZATIONS = "authorizations";
/** The member of a session that says since which change of its account it is valid. */
const GENERATION = "generation";
/** The longest pause before a commit is retried after a conflict. */
const MAX_RETRY_PAUSE_MS = 10;

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

/** The reads and the uncommitted writes of one request. */
export class Unit extends ArtifactView {
  /** When the last byte of the request had arrived, on the clock of `performance`. */
  readonly receivedAt: number;
  /** The digest of the browser's cookie: only sign-ins that began there are found. */
  readonly browser: string | undefined;
  /** An error that oidc-provider would hide; the HTTP layer responds with it. */
  failure: unknown;
  readonly #request: UnitRequest;
  readonly #records: Records;
  readonly #hasOwnArtifacts: boolean;
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
    super(artifacts, sealer, clock);
    this.#records = records;
    this.#hasOwnArtifacts = parts.length > 1;
    this.#request = request;
    this.receivedAt = request.receivedAt;
    this.browser = request.browser?.digest;
  }

  /** Milliseconds since the epoch: after this nothing is committed. Waiting for another server puts it off. */
  get deadline(): number {
    return this.#request.deadline;
  }

  /**
   * Consumes points in the commit itself.
   * @param consume writes what it gets, or rejects: then nothing is written.
   */
  consumePoints(consume: (rider: Rider) => Promise<void>): void {
    this.#movePoints = consume;
  }

  /**
   * Refunds points in the commit itself. Without a commit they are refunded at the end of the request.
   * @param attempt is called without a rider for that.
   */
  refund({ succeed }: { readonly succeed: (rider?: Rider) => Promise<void> }): void {
    this.#movePoints = succeed;
    this.#refund = succeed;
  }

  /**
   * Writes other records in the commit itself. If artifacts have a store of their own, these are committed just before.
   * @param work is called for each attempt, as in {@link Records.transact}.
   */
  alongside(work: (tx: Transaction) => Promise<void>): void {
    const before = this.#alongside;
    this.#alongside =
      before === undefined
        ? work
        : async (tx) => {
            await before(tx);
            await work(tx);
          };
  }

  /** Registers a callback for a successful commit, even one without writes. The response waits for it. */
  whenCommitted(callback: () => unknown): void {
    this.#callbacks.push(callback);
  }

  async commit(): Promise<void> {
    const pending = this.pending;
    this.pending = new Map();
    const alongside = this.#alongside;
    this.#alongside = undefined;
    if (alongside !== undefined && this.#hasOwnArtifacts) await this.#records.transact(alongside);
    for (let tries = 1; pending.size > 0; tries += 1) {
      const beside = new Transaction(this.#records.store);
      try {
        if (!this.#hasOwnArtifacts) await alongside?.(beside);
        const { changes, written } = await this.#changes(pending);
        changes.merge(beside.changes);
        const version = await this.#write(changes);
        if (version !== undefined) this.#remember(pending, written, version);
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
    if (this.#movePoints === undefined || changes.isEmpty()) return this.store.commit(changes, this.deadline);
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
  #remember(
    pending: ReadonlyMap<string, PendingChange>,
    written: ReadonlyMap<string, Artifact>,
    version: string,
  ): void {
    for (const [name, { after }] of pending) if (after === undefined) this.read.delete(name);
    for (const [name, artifact] of written) this.read.set(name, { ...artifact, version });
  }

  async #changes(pending: ReadonlyMap<string, PendingChange>): Promise<{
    readonly changes: Changes;
    readonly written: ReadonlyMap<string, Artifact>;
  }> {
    const changes = new Changes();
    const written = new Map<string, Artifact>();
    // The time of the commit: a request that arrives until then is simultaneous, however long this one has taken.
    const storeClock = await this.storeClock;
    const marks = { consumedAt: this.clock.now(), ...(storeClock && { spentAt: storeClock.latest() }) };
    for (const [name, { model, key, after, isConsumed, isUnchanged }] of pending) {
      const ref = artifactRef(model, key);
      const before = this.read.get(name);
      if (isUnchanged) changes.expect(ref, { version: "present" });
      else if (after === undefined) {
        // The grant of a revoked family may be gone already. Revoking it again is not a conflict.
        if (before === undefined || model === GRANT) changes.drop(ref);
        else changes.delete(ref, before);
      } else {
        if (isConsumed && before?.consumedAt !== undefined)
          throw new ConditionFailed(`this ${model} is used up`);
        const artifact = isConsumed ? { ...after, ...marks } : after;
        written.set(name, artifact);
        // What was not read must not exist yet: the library makes new identifiers, and an assertion is used once.
        changes.write(artifactRecord(sealArtifact(artifact, this.sealer)), before);
      }
    }
    return { changes, written };
  }

  /**
   * Reads again what other requests may have changed. @returns whether to retry: not if something was removed or consumed,
   * and not if nothing has changed, because then the grant was revoked.
   */
  async #readAgain(pending: Map<string, PendingChange>): Promise<boolean> {
    let hasChanged = false;
    for (const [name, one] of pending) {
      const before = this.read.get(name);
      if (before === undefined) continue;
      const { artifact: there } = await this.load(one.model, one.key);
      if (there === undefined && one.model === GRANT && one.after === undefined) continue;
      if (there === undefined || (one.isConsumed && there.consumedAt !== undefined)) return false;
      // Of two people who type one code, the first decides.
      if (there.model === DEVICE_CODE && isDecided(there) && !isDecided(before)) return false;
      // More time is given once, and only for the state that the person has seen.
      if ((one.after?.extensions ?? 0) > (before.extensions ?? 0)) return false;
      if (one.isUnchanged || there.version === before.version) continue;
      hasChanged = true;
      this.read.set(name, there);
      if (one.after !== undefined) pending.set(name, { ...one, after: rebased(one.after, there) });
    }
    return hasChanged;
  }

  /** The request has ended. */
  async end(): Promise<void> {
    await this.#refund?.();
  }
}

/** Gives the adapter the unit of the current request, across asynchronous calls. */
export interface UnitsOfWork {
  current(): Unit | undefined;
  /** The unit of this request. @throws TypeError outside a request. */
  required(): Unit;
  run<T>(request: UnitRequest, work: (unit: Unit) => Promise<T>): Promise<T>;
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
      const unit = new Unit(stores, sealer, clock, request);
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
