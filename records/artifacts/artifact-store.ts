/**
 * Codes, tokens, grants, sessions and interactions in the record store. A family is a grant with its codes and tokens.
 * These have the grant as their parent and no index of their own, so revoking a family removes one record.
 */
import type { Found, Query, RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import type { Changes } from "../records.ts";
import { type KindRules, Records, type Transaction } from "../records.ts";
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
/** Puts records into a commit. Called for each attempt. */
export type Beside = (tx: Transaction) => Promise<void>;

export interface ArtifactStore {
  /** The artifact, consumed or not; `undefined` if it is missing, expired or revoked with its family. */
  find(model: string, key: string): Promise<Family | undefined>;
  /** The session with this public identifier. */
  findByUid(model: string, uid: string): Promise<StoredArtifact | undefined>;
  /** The store's clock, which all processes share. */
  clock(): Promise<StoreClock>;
  /**
   * Writes everything durably, or nothing.
   * @param deadline milliseconds since the epoch.
   * @returns the version of the written records; `undefined` if there was nothing to write.
   * @throws ConditionFailed when a condition does not hold.
   */
  commit(changes: Changes, deadline: number): Promise<string | undefined>;
  /**
   * Changes the artifact that `find` returns; after a conflict it is read again and the change is retried.
   * @param decide returns the artifact afterwards; `undefined` removes it.
   * @param beside puts other records of the same store into the commit.
   * @returns the artifact as it was; `undefined` if there was none.
   */
  change(
    find: () => Promise<StoredArtifact | undefined>,
    decide: (found: StoredArtifact) => Artifact | undefined,
    beside?: Beside,
  ): Promise<StoredArtifact | undefined>;
  /** One page of a list, which nobody can make longer. A grant is listed without its codes and tokens. */
  page(query: ArtifactQuery, options?: PageOptions): Promise<ArtifactPage>;
  /** How many artifacts the pages of a list have together, at most this many. Expired ones may be among them. */
  count(query: ArtifactQuery, limit: number): Promise<number>;
  /** Removes at most 100 artifacts in one commit, grants with their codes and tokens. @param beside as of `change`. */
  remove(artifacts: readonly Pick<Artifact, "model" | "key">[], beside?: Beside): Promise<void>;
}

/**
 * What a clock on the other side of a network shows now, in milliseconds since the epoch. It was read between the
 * request and its response, so the true time is between the two.
 */
export interface StoreClock {
  readonly earliest: () => number;
  readonly latest: () => number;
}

const MAX_CLOCK_AGE_MS = 1_000;

/**
 * The clock of the store, read once a second: every code exchange needs the time, and a round trip for each would double
 * its reads. In between, the clock of this machine is used.
 */
export function sharedClock(store: Pick<RecordStore, "ping">): () => Promise<StoreClock> {
  let reading: { readonly since: number; readonly clock: Promise<StoreClock> } | undefined;

  async function read(asked: number): Promise<StoreClock> {
    const time = await store.ping();
    const answered = performance.now();
    return {
      earliest: () => time + performance.now() - answered,
      latest: () => time + performance.now() - asked,
    };
  }

  return () => {
    const now = performance.now();
    if (reading === undefined || now - reading.since > MAX_CLOCK_AGE_MS) {
      reading = { since: now, clock: read(now) };
      reading.clock.catch(() => (reading = undefined));
    }
    return reading.clock;
  };
}

export function createArtifactStore(store: RecordStore, clock: Clock, kinds: KindRules): ArtifactStore {
  const records = new Records(store, clock, kinds);

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
    clock: sharedClock(store),
    commit: (changes, deadline) => records.commit(changes, { deadline }),
    change: (findOne, decide, beside) =>
      records.transact(async (tx) => {
        const found = await findOne();
        if (found === undefined) return undefined;
        const record = artifactRecord(found);
        tx.adopt({ ...record, version: found.version });
        const after = decide(found);
        if (after === undefined) tx.remove(record);
        else tx.put(artifactRecord(after));
        await beside?.(tx);
        return found;
      }),
    async page(query, { after, limit = PAGE, oldestFirst = false } = {}) {
      const [page] = await store.list([{ ...whereOf(query), limit, descending: !oldestFirst, after }]);
      const now = clock.now();
      return {
        artifacts: (page?.records ?? []).map((found) => toArtifact(query.model, found, now)),
        next: page?.next,
      };
    },
    async count(query, limit) {
      const [count = 0] = await store.count([{ ...whereOf(query), limit }]);
      return count;
    },
    async remove(artifacts, beside) {
      if (artifacts.length === 0) return;
      await records.transact(async (tx) => {
        for (const { model, key } of artifacts) tx.remove(artifactRef(model, key));
        await beside?.(tx);
      });
    },
  };
}

function whereOf(query: ArtifactQuery): Pick<Query, "kind" | "index" | "at"> {
  const kind = artifactKind(query.model);
  if ("holder" in query) return kind.where("holder", [query.holder.account, query.holder.client]);
  return "client" in query ? kind.where("client", query.client) : kind.where("account", query.account);
}
