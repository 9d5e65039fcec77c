/**
 * Codes, tokens, grants, sessions and interactions in the record store. A family is a grant with its codes and tokens.
 * These have the grant as their parent and no index of their own, so revoking a family removes one record.
 */
import type { Found, Query, RecordData, RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import { Changes, type KindRules, Records } from "../records.ts";
import { artifactKind, artifactRecord, artifactRef, GRANT, type ArtifactValue } from "./artifact-kinds.ts";
import type { Artifact, ArtifactPage, ArtifactQuery, PageOptions, StoredArtifact } from "./artifact.ts";

/** How many artifacts a page has, and one commit removes. */
const PAGE = 100;

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
  /** One page of a list, which nobody can make longer. A grant is listed without its codes and tokens. */
  page(query: ArtifactQuery, options?: PageOptions): Promise<ArtifactPage>;
  /** How many artifacts the pages of a list have together. An upper bound if the store can't be exact. */
  count(query: ArtifactQuery): Promise<number>;
  /** Removes at most 100 artifacts in one commit, grants with their codes and tokens. */
  remove(artifacts: readonly Pick<Artifact, "model" | "key">[]): Promise<void>;
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

  return {
    find,
    async findByUid(model, uid) {
      const [found] = await records.found(artifactKind(model).where("uid", uid), 1);
      return found && toArtifact(model, found, clock.now());
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
    async page(query, { after, limit = PAGE, oldestFirst = false } = {}) {
      const bounds = { limit, descending: !oldestFirst, ...(after !== undefined && { after }) };
      const [page] = await store.list([{ ...whereOf(query), ...bounds }]);
      const now = clock.now();
      return {
        artifacts: (page?.records ?? []).map((found) => toArtifact(query.model, found, now)),
        ...(page?.next !== undefined && { next: page.next }),
      };
    },
    async count(query) {
      const [count = 0] = await store.count([{ ...whereOf(query), limit: PAGE }]);
      return count;
    },
    async remove(artifacts) {
      if (artifacts.length === 0) return;
      await records.transact((tx) => {
        for (const { model, key } of artifacts) tx.remove(artifactRef(model, key));
      });
    },
  };
}

function whereOf(query: ArtifactQuery): Pick<Query, "kind" | "index" | "at"> {
  const kind = artifactKind(query.model);
  if ("holder" in query) return kind.where("holder", [query.holder.account, query.holder.client]);
  return "client" in query ? kind.where("client", query.client) : kind.where("account", query.account);
}
