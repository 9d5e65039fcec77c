/**
 * Codes, tokens, grants, sessions and interactions in the record store. A family is a grant with its codes and tokens.
 * These have the grant as their parent and no index of their own, so revoking a family removes one record.
 */
import type { Found, RecordData, RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import { Changes, type KindRules, Records } from "../records.ts";
import { artifactKind, artifactRecord, artifactRef, GRANT, type ArtifactValue } from "./artifact-kinds.ts";
import type { Artifact, ArtifactFilter, StoredArtifact } from "./artifact.ts";

const SESSION = "Session";

/** How many grants and sessions are removed in one commit. */
const BATCH = 100;

function toArtifact(model: string, found: Found, now: number): StoredArtifact {
  const { replay, replayUntil, ...kept } = found.value as unknown as ArtifactValue;
  const { key, version, expiresAt = Number.POSITIVE_INFINITY } = found;
  const artifact = { ...kept, model, key, version, expiresAt };
  if (replay === undefined || replayUntil === undefined || replayUntil <= now) return artifact;
  return { ...artifact, replay, replayUntil };
}

/** An artifact with the grant of its family. */
export interface Family {
  readonly artifact: StoredArtifact;
  readonly grant: StoredArtifact | undefined;
}

/** The stored models of oidc-provider. A fault of the store rejects with `StorageUnavailable`. */
export interface ArtifactStore {
  /** The artifact, consumed or not; `undefined` if it is missing, expired or revoked with its family. */
  find(model: string, key: string): Promise<Family | undefined>;
  /** The session with this public identifier. */
  findByUid(model: string, uid: string): Promise<StoredArtifact | undefined>;
  /**
   * Milliseconds since the epoch by the store's clock, which all processes share. It never runs ahead of that clock,
   * and lags by one round trip at most.
   */
  time(): Promise<number>;
  /**
   * Writes everything durably, or nothing.
   * @param deadline milliseconds since the epoch.
   * @returns the version of the written records; `undefined` if there was nothing to write.
   * @throws ConditionFailed when a condition does not hold.
   */
  commit(changes: Changes, deadline: number): Promise<string | undefined>;
  /**
   * Changes the artifact that `find` returns; after a conflict it is found and decided again.
   * @param decide returns the artifact afterwards; `undefined` removes it.
   * @returns the artifact as it was; `undefined` if there was none.
   */
  change(
    find: () => Promise<StoredArtifact | undefined>,
    decide: (found: StoredArtifact) => Artifact | undefined,
  ): Promise<StoredArtifact | undefined>;
  /**
   * Records that the request that consumed the artifact is being answered now, by the store's clock. It is stored
   * within 50 ms, together with others; from then on every `sinceAnswer`, in any process, sees it. It can be lost in a power
   * failure.
   * @param consumed the artifact as the request has written it.
   * @throws ConditionFailed when it has been changed since.
   */
  markAnswered(consumed: StoredArtifact): Promise<void>;
  /**
   * Milliseconds by the store's clock since the answer of the request that consumed the artifact. If the answer is not
   * recorded, it counts from `ANSWERED_AFTER_MS` after the consumption and is negative at first. The result is never below
   * the true time. `undefined` if the artifact is missing, not consumed, or copied from another store.
   */
  sinceAnswer(model: string, key: string): Promise<number | undefined>;
  /** The grants of an account. */
  grantsOf(accountId: string): Promise<StoredArtifact[]>;
  /** The sessions of an account. */
  sessionsOf(accountId: string): Promise<StoredArtifact[]>;
  /** Removes sessions of an account, and grants with their codes and tokens. @returns how many records. */
  removeByAccount(filter: ArtifactFilter): Promise<number>;
  /** Removes the grants of a client with their codes and tokens. @returns how many grants. */
  removeByClient(clientId: string): Promise<number>;
  /** Stores the marks that `markAnswered` has not stored yet. */
  flush(): Promise<void>;
}

const MAX_CLOCK_AGE_MS = 1_000;

/**
 * The clock of the store, read once a second: every code exchange needs the time, and a round trip for each would double
 * its reads. In between, the clock of this machine is used.
 */
class StoreClock {
  readonly #store: RecordStore;
  #reading: { readonly since: number; readonly offset: Promise<number> } | undefined;

  constructor(store: RecordStore) {
    this.#store = store;
  }

  /** Never runs ahead of the store's clock: the store read it before the response arrived. */
  async time(): Promise<number> {
    const now = performance.now();
    if (this.#reading === undefined || now - this.#reading.since > MAX_CLOCK_AGE_MS) {
      const offset = this.#store.ping().then((time) => time - performance.now());
      this.#reading = { since: now, offset };
      offset.catch(() => (this.#reading = undefined));
    }
    return (await this.#reading.offset) + performance.now();
  }
}

/** How long marks are collected for one batch. */
const MARK_DELAY_MS = 25;

interface Mark {
  readonly record: RecordData;
  readonly was: StoredArtifact;
  readonly stored: PromiseWithResolvers<void>;
}

/** Stores marks of answers in batches, each in one relaxed commit. */
class AnswerMarks {
  readonly #records: Records;
  #waiting: Mark[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(records: Records) {
    this.#records = records;
  }

  add(consumed: StoredArtifact, answeredAt: number): Promise<void> {
    const mark = {
      record: artifactRecord({ ...consumed, answeredAt }),
      was: consumed,
      stored: Promise.withResolvers<void>(),
    };
    this.#waiting.push(mark);
    this.#timer ??= setTimeout(() => void this.flush(), MARK_DELAY_MS).unref();
    return mark.stored.promise;
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const marks = this.#waiting;
    this.#waiting = [];
    if (marks.length === 0) return;
    try {
      await this.#store(marks);
      for (const { stored } of marks) stored.resolve();
    } catch {
      // One that has changed in the meantime must not hold up the others.
      await Promise.all(
        marks.map((mark) => this.#store([mark]).then(mark.stored.resolve, mark.stored.reject)),
      );
    }
  }

  async #store(marks: readonly Mark[]): Promise<void> {
    const changes = new Changes();
    for (const { record, was } of marks) changes.write(record, was);
    await this.#records.commit(changes, { relaxed: true });
  }
}

export function createArtifactStore(store: RecordStore, clock: Clock, kinds: KindRules): ArtifactStore {
  const records = new Records(store, clock, kinds);
  const clocks = new StoreClock(store);
  const marks = new AnswerMarks(records);

  async function find(model: string, key: string): Promise<Family | undefined> {
    const [found] = await store.get([artifactRef(model, key)], { withParents: true });
    if (found === undefined) return undefined;
    const now = clock.now();
    const grant = found.parent && toArtifact(GRANT, found.parent, now);
    return { artifact: toArtifact(model, found, now), grant };
  }

  async function list(
    model: string,
    index: "uid" | "account" | "client",
    at: string,
  ): Promise<StoredArtifact[]> {
    const found = await records.found(artifactKind(model).where(index, at));
    const now = clock.now();
    return found.map((record) => toArtifact(model, record, now));
  }

  async function removeAll(artifacts: readonly Artifact[]): Promise<number> {
    for (let at = 0; at < artifacts.length; at += BATCH) {
      await records.transact((tx) => {
        for (const { model, key } of artifacts.slice(at, at + BATCH)) tx.remove(artifactRef(model, key));
      });
    }
    return artifacts.length;
  }

  return {
    find,
    async findByUid(model, uid) {
      const [found] = await list(model, "uid", uid);
      return found;
    },
    time: () => clocks.time(),
    commit: (changes, deadline) => records.commit(changes, { deadline }),
    change: (findOne, decide) =>
      records.transact(async (tx) => {
        const found = await findOne();
        if (found === undefined) return undefined;
        const record = artifactRecord(found);
        tx.adopt({ ...record, version: found.version });
        const after = decide(found);
        if (after === undefined) tx.remove(record);
        else tx.put(artifactRecord(after));
        return found;
      }),
    markAnswered: async (consumed) => marks.add(consumed, await clocks.time()),
    flush: () => marks.flush(),
    async sinceAnswer(model, key) {
      const { artifact } = (await find(model, key)) ?? {};
      if (artifact?.answeredAt === undefined) return undefined;
      // Some stores count in whole milliseconds.
      return (await store.ping()) + 1 - artifact.answeredAt;
    },
    grantsOf: (accountId) => list(GRANT, "account", accountId),
    sessionsOf: (accountId) => list(SESSION, "account", accountId),
    async removeByAccount({ accountId, clientIds, exceptSession, models = [GRANT, SESSION] }) {
      const found = await Promise.all(models.map((model) => list(model, "account", accountId)));
      const isMeant = ({ clientId, uid }: Artifact): boolean =>
        (exceptSession === undefined || uid !== exceptSession) &&
        (clientIds === undefined || (clientId !== undefined && clientIds.includes(clientId)));
      return removeAll(found.flat().filter(isMeant));
    },
    removeByClient: async (clientId) => removeAll(await list(GRANT, "client", clientId)),
  };
}
