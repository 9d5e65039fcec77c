/**
 * Codes, tokens, grants, sessions and interactions over the record store. A family is a grant with its children: codes
 * and tokens have the grant as their parent and nothing else to be found by, so that ending a family removes one
 * record. Grants and sessions are found by account and client.
 */
import type { Found, RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../clock.ts";
import { Changes, type KindRules, Records } from "../records.ts";
import { artifactKind, artifactRecord, artifactRef, GRANT, type KeptArtifact } from "./records.ts";
import type { Artifact, ArtifactFilter, StoredArtifact } from "./artifact.ts";

const SESSION = "Session";

/** Grants and sessions that are removed in one commit. */
const TOGETHER = 100;

function toArtifact(model: string, found: Found, now: number): StoredArtifact {
  const { replay, replayUntil, ...kept } = found.value as unknown as KeptArtifact;
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

/** What a service keeps of oidc-provider's models. A fault of the store rejects with `StorageUnavailable`. */
export interface ArtifactStore {
  /** The artifact, consumed or not; `undefined` when it is missing or expired, or its family has ended. */
  find(model: string, key: string): Promise<Family | undefined>;
  /** The session with this public identifier. */
  findByUid(model: string, uid: string): Promise<StoredArtifact | undefined>;
  /**
   * Milliseconds since the epoch, by the clock that all processes of the store share: never later than it is there, and
   * not earlier than a round trip.
   */
  time(): Promise<number>;
  /**
   * Writes all of it durably, or nothing.
   * @param deadline milliseconds since the epoch.
   * @returns the version of what is written; `undefined` when there was nothing to write.
   * @throws ConditionFailed when a condition does not hold.
   */
  commit(changes: Changes, deadline: number): Promise<string | undefined>;
  /**
   * Notes that the request that consumed the artifact is answered now, by the store's own clock, or a little earlier.
   * A `sinceAnswer` of any process that begins later knows of it. It may be forgotten when the machine loses power.
   * @param consumed as the request has left it.
   * @throws ConditionFailed when it was changed since then.
   */
  markAnswered(consumed: StoredArtifact): Promise<void>;
  /**
   * Milliseconds by the store's own clock, whatever that of the service says, from the answer of the request that consumed
   * the artifact until this call; from `ANSWERED_WITHIN` after the consumption when that is not noted, so negative at
   * first. Never less than the true time, however coarse that clock is. `undefined` when it is not known: the artifact is
   * missing, was not consumed, or was copied from another store.
   */
  sinceAnswer(model: string, key: string): Promise<number | undefined>;
  /** The sessions of an account. */
  sessionsOf(accountId: string): Promise<StoredArtifact[]>;
  /** Removes grants, and with them their codes and tokens, and sessions of an account. @returns how many. */
  removeByAccount(filter: ArtifactFilter): Promise<number>;
  /** Removes the grants of a client, and with them its codes and tokens. @returns how many. */
  removeByClient(clientId: string): Promise<number>;
}

/** Milliseconds after which the clock of the store is looked at again. */
const CLOCK_AGE = 1_000;

/** The clock of the store, looked at once a second: between two looks it goes on as the one of this machine does. */
class StoreClock {
  readonly #store: RecordStore;
  #look: { readonly since: number; readonly ahead: Promise<number> } | undefined;

  constructor(store: RecordStore) {
    this.#store = store;
  }

  /** Never later than it is there: what the store said was true before its answer came. */
  async time(): Promise<number> {
    const now = performance.now();
    if (this.#look === undefined || now - this.#look.since > CLOCK_AGE) {
      const ahead = this.#store.ping().then((time) => time - performance.now());
      this.#look = { since: now, ahead };
      ahead.catch(() => (this.#look = undefined));
    }
    return (await this.#look.ahead) + performance.now();
  }
}

/** The artifacts of a storage. */
export function createArtifactStore(store: RecordStore, clock: Clock, kinds: KindRules): ArtifactStore {
  const records = new Records(store, clock, kinds);
  const clocks = new StoreClock(store);

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
    for (let at = 0; at < artifacts.length; at += TOGETHER) {
      const changes = new Changes();
      for (const { model, key } of artifacts.slice(at, at + TOGETHER)) changes.drop(artifactRef(model, key));
      await records.commit(changes);
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
    async markAnswered(consumed) {
      const changes = new Changes();
      changes.write(artifactRecord({ ...consumed, answeredAt: await clocks.time() }), consumed);
      await records.commit(changes, { relaxed: true });
    },
    async sinceAnswer(model, key) {
      const { artifact } = (await find(model, key)) ?? {};
      if (artifact?.answeredAt === undefined) return undefined;
      // Some clocks count in whole milliseconds.
      return (await store.ping()) + 1 - artifact.answeredAt;
    },
    sessionsOf: (accountId) => list(SESSION, "account", accountId),
    async removeByAccount({ accountId, clientIds, models = [GRANT, SESSION] }) {
      const found = await Promise.all(models.map((model) => list(model, "account", accountId)));
      const isMeant = ({ clientId }: Artifact): boolean =>
        clientIds === undefined || (clientId !== undefined && clientIds.includes(clientId));
      return removeAll(found.flat().filter(isMeant));
    },
    removeByClient: async (clientId) => removeAll(await list(GRANT, "client", clientId)),
  };
}
