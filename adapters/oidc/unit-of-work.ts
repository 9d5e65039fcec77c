/**
 * One request, one write. What oidc-provider's adapter writes during a request is collected here and committed at once,
 * under the condition that what was read is still so, when the answer is known to be good.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { ArtifactStore, Family } from "../../lib/artifacts/artifact-store.ts";
import { artifactRecord, artifactRef } from "../../lib/artifacts/records.ts";
import { ANSWERED_WITHIN, type Artifact, type StoredArtifact } from "../../lib/artifacts/artifact.ts";
import type { Clock } from "../../lib/clock.ts";
import type { ClientRecord } from "../../lib/directory/directory.ts";
import { ConditionFailed } from "../../lib/errors.ts";
import { Changes } from "../../lib/records.ts";

/** The writes of one request that are not committed yet, and what it has read. */
export interface Unit {
  /** When the request may have begun, on the clock of `performance`. */
  readonly underWaySince: number;
  /** Milliseconds since the epoch: after this nothing is written any more. */
  readonly deadline: number;
  /** The client that the request names, when it was read before: nobody reads it again. */
  readonly client: ClientRecord | undefined;
  /** Set by whoever meets an error that the library would hide: the edge answers with it. */
  failure: unknown;
  find(model: string, key: string): Promise<Artifact | undefined>;
  findByUid(model: string, uid: string): Promise<Artifact | undefined>;
  /** What this unit has read or written under this key, without asking the store. */
  known(model: string, key: string): Artifact | undefined;
  /** Creates it; or replaces what was read in this unit, which must still be there. */
  save(artifact: Artifact): void;
  /** Of all that use it up at once one succeeds. */
  consume(model: string, key: string): Promise<void>;
  /** Of all that have read it and end it one succeeds. */
  remove(model: string, key: string): void;
  /** Ends a family: the grant and everything that descends from it. */
  revoke(grantKey: string): void;
  /** Keeps `replay` beside the artifact of this model that this unit consumes, until then; false when it consumes none. */
  attachReplay(model: string, replay: string, until: number): boolean;
  /**
   * Told once it is committed, also when there was nothing to write; never when it fails. The answer waits for it.
   * @param tell gets the artifact that this unit has consumed, as it is now.
   */
  whenCommitted(tell: (consumed: StoredArtifact | undefined) => unknown): void;
  commit(): Promise<void>;
}

/** Carries the unit of a request to the adapter, across everything that the request awaits. */
export interface UnitsOfWork {
  current(): Unit | undefined;
  /** The unit of this request. @throws TypeError outside a request. */
  required(): Unit;
  run<T>(request: UnitRequest, work: (unit: Unit) => Promise<T>): Promise<T>;
}

/** The request that a unit is of. */
export interface UnitRequest extends Pick<Unit, "underWaySince" | "deadline"> {
  readonly client?: ClientRecord | undefined;
  /** What was asked for before the unit began. */
  readonly ahead?: Ahead | undefined;
}

/** A read that is on its way: `find` answers from it. */
export interface Ahead {
  readonly model: string;
  readonly key: string;
  readonly found: Promise<Family | undefined>;
}

const GRANT = "Grant";
/** The member of a session to which requests at the same time each add their own entry: the clients that it has been to. */
const VISITED = "authorizations";
/** Milliseconds before a commit that met another one is tried again, at most. */
const LONGEST_PAUSE = 10;

const nameOf = (model: string, key: string): string => `${model}:${key}`;

/**
 * A session of which nothing but the end would change is written when that moves by more than a thousandth of the time
 * that is left, and after so many milliseconds at the latest. So a session that is used all the time is written once a
 * minute, and requests that use it at once don't meet.
 */
const PROLONGED = 60_000;

/** Whether what is there is as good as what is to be there. */
function isAsGood(before: Artifact, after: Artifact, now: number): boolean {
  if (after.model !== "Session") return false;
  const unwritten = Math.min(PROLONGED, (after.expiresAt - now) / 1_000);
  if (Math.abs(after.expiresAt - before.expiresAt) > unwritten) return false;
  const { iat: _began, exp: _end, ...had } = before.payload;
  const { iat: _begins, exp: _ends, ...has } = after.payload;
  return before.accountId === after.accountId && isDeepStrictEqual(had, has);
}

/** What is to become of one artifact. */
interface Pending {
  readonly model: string;
  readonly key: string;
  /** `undefined` for what is removed. */
  readonly after: Artifact | undefined;
  readonly isConsumed: boolean;
  /** It only has to be there. */
  readonly isUnchanged: boolean;
}

/** A mark of consumption is part of what is there: it stays through a replacement. */
function withMarks(
  after: Artifact,
  { consumedAt, answeredAt, replay, replayUntil }: StoredArtifact,
): Artifact {
  if (consumedAt === undefined) return after;
  return {
    ...after,
    consumedAt,
    ...(answeredAt === undefined ? {} : { answeredAt }),
    ...(replay === undefined ? {} : { replay }),
    ...(replayUntil === undefined ? {} : { replayUntil }),
  };
}

/** What this request leads to when the artifact was changed by another one since it was read. */
function rebased(after: Artifact, there: StoredArtifact): Artifact {
  if (after.model !== "Session") return withMarks(after, there);
  const visited = { ...(there.payload[VISITED] as object), ...(after.payload[VISITED] as object) };
  return { ...after, payload: { ...after.payload, [VISITED]: visited } };
}

class PendingUnit implements Unit {
  readonly underWaySince: number;
  readonly deadline: number;
  readonly client: ClientRecord | undefined;
  failure: unknown;
  readonly #store: ArtifactStore;
  readonly #clock: Clock;
  readonly #ahead: Ahead | undefined;
  readonly #read = new Map<string, StoredArtifact>();
  #pending = new Map<string, Pending>();
  #replay: { readonly replay: string; readonly replayUntil: number } | undefined;
  /** What was consumed, once that is committed. */
  #consumed: StoredArtifact | undefined;
  /** The time of the store at some moment since something was consumed. */
  #storeTime: Promise<number> | undefined;
  #tell: ((consumed: StoredArtifact | undefined) => unknown)[] = [];

  constructor(store: ArtifactStore, clock: Clock, request: UnitRequest) {
    this.#store = store;
    this.#clock = clock;
    this.underWaySince = request.underWaySince;
    this.deadline = request.deadline;
    this.client = request.client;
    this.#ahead = request.ahead;
  }

  async find(model: string, key: string): Promise<Artifact | undefined> {
    // What a request has seen it sees again; whether it still holds is decided by the commit.
    const name = nameOf(model, key);
    if (this.#pending.has(name) || this.#read.has(name)) return this.known(model, key);
    const isAhead = this.#ahead?.model === model && this.#ahead.key === key;
    const found = await (isAhead ? this.#ahead?.found : this.#store.find(model, key));
    for (const one of [found?.artifact, found?.grant]) this.#keep(one);
    return this.known(model, key);
  }

  /** The first read of an artifact counts. */
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
      !this.#pending.has(name) && before !== undefined && isAsGood(before, artifact, this.#clock.now());
    const after = before === undefined ? artifact : withMarks(artifact, before);
    this.#pending.set(name, { model, key, after, isConsumed, isUnchanged });
  }

  async consume(model: string, key: string): Promise<void> {
    const there = await this.find(model, key);
    if (there === undefined) throw new ConditionFailed(`there is no ${model} to be consumed`);
    const after = { ...there, consumedAt: this.#clock.now() };
    this.#pending.set(nameOf(model, key), { model, key, after, isConsumed: true, isUnchanged: false });
    this.#storeTime = this.#store.time();
    // Whoever commits meets the fault.
    this.#storeTime.catch(() => undefined);
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
    // What else is kept of the family is gone with its grant.
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

  whenCommitted(tell: (consumed: StoredArtifact | undefined) => unknown): void {
    this.#tell.push(tell);
  }

  async commit(): Promise<void> {
    const pending = this.#pending;
    this.#pending = new Map();
    for (let tries = 1; pending.size > 0; tries += 1) {
      try {
        const { changes, consumed } = await this.#changes(pending);
        const version = await this.#store.commit(changes, this.deadline);
        if (consumed !== undefined && version !== undefined) this.#consumed = { ...consumed, version };
        break;
      } catch (error) {
        if (!(error instanceof ConditionFailed) || !(await this.#readAgain(pending))) throw error;
      }
      await pause(Math.random() * Math.min(tries, LONGEST_PAUSE));
    }
    const told = this.#tell;
    this.#tell = [];
    for (const tell of told) await tell(this.#consumed);
  }

  async #changes(
    pending: ReadonlyMap<string, Pending>,
  ): Promise<{ readonly changes: Changes; readonly consumed: Artifact | undefined }> {
    const changes = new Changes();
    const storeTime = await this.#storeTime;
    let consumed: Artifact | undefined;
    for (const [name, { model, key, after, isConsumed, isUnchanged }] of pending) {
      const before = this.#read.get(name);
      if (isUnchanged) changes.expect(artifactRef(model, key), { version: "present" });
      else if (after === undefined) {
        const ref = artifactRef(model, key);
        // The grant of a family that ends may be gone already: nobody ends it again in vain.
        if (before === undefined || model === GRANT) changes.drop(ref);
        else changes.delete(ref, before);
      } else {
        if (isConsumed && before?.consumedAt !== undefined)
          throw new ConditionFailed(`this ${model} is used up`);
        if (isConsumed) consumed = this.#asConsumed(after, storeTime);
        const record = artifactRecord(isConsumed && consumed ? consumed : after);
        if (before === undefined) changes.add(record);
        else changes.write(record, before);
      }
    }
    return { changes, consumed };
  }

  /** Something is consumed when it is committed: who came in until then came in together. */
  #asConsumed(after: Artifact, storeTime: number | undefined): Artifact {
    const answered = storeTime === undefined ? {} : { answeredAt: storeTime + ANSWERED_WITHIN };
    return { ...after, ...this.#replay, ...answered, consumedAt: this.#clock.now() };
  }

  /**
   * Reads again what others may have changed, and says whether it makes sense to try again: not when something is gone
   * or used up, and not when nothing has changed, for then it is the family that has ended.
   */
  async #readAgain(pending: Map<string, Pending>): Promise<boolean> {
    let hasChanged = false;
    for (const [name, one] of pending) {
      const before = this.#read.get(name);
      if (before === undefined) continue;
      const { artifact: there } = (await this.#store.find(one.model, one.key)) ?? {};
      if (there === undefined && one.model === GRANT && one.after === undefined) continue;
      if (there === undefined || (one.isConsumed && there.consumedAt !== undefined)) return false;
      if (one.isUnchanged || there.version === before.version) continue;
      hasChanged = true;
      this.#read.set(name, there);
      if (one.after !== undefined) pending.set(name, { ...one, after: rebased(one.after, there) });
    }
    return hasChanged;
  }
}

/** @param store where it is committed. */
export function createUnitsOfWork(store: ArtifactStore, clock: Clock): UnitsOfWork {
  const storage = new AsyncLocalStorage<Unit>();
  return {
    current: () => storage.getStore(),
    required() {
      const unit = storage.getStore();
      if (unit === undefined) throw new TypeError("this runs only within a request");
      return unit;
    },
    run(request, work) {
      const unit = new PendingUnit(store, clock, request);
      return storage.run(unit, () => work(unit));
    },
  };
}
