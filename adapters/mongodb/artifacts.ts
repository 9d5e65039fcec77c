/** Artifacts in one collection; the fields beside the payload are what the store itself has to find them by. */
import type { Filter } from "mongodb";
import {
  ANSWERED_WITHIN,
  type Artifact,
  type ArtifactFilter,
  type ArtifactStore,
  whenNoted,
} from "../artifacts.ts";
import { createCommit } from "./artifact-commits.ts";
import { SERVER_TIME } from "./artifact-writes.ts";
import { artifactId, type StoredArtifact, toArtifact, uidKey } from "./artifact-documents.ts";
import type { Connection } from "./connection.ts";
import { toKey } from "./keys.ts";

/** At most so many artifacts are removed with one command. */
const STEP = 200;

/** How many artifacts of one account a list shows at most. */
const LONGEST_LIST = 1_000;

function toFilter({ accountId, clientIds, models }: ArtifactFilter): Filter<StoredArtifact> {
  return {
    account: toKey(accountId),
    ...(clientIds === undefined ? {} : { client: { $in: clientIds.map((id) => toKey(id)) } }),
    ...(models === undefined ? {} : { model: { $in: models.map((model) => toKey(model)) } }),
  };
}

type Removals = Pick<ArtifactStore, "removeByAccount" | "removeByClient">;

function createRemovals(connection: Connection): Removals {
  const artifacts = connection.collection<StoredArtifact>("artifacts");

  async function step(filter: Filter<StoredArtifact>): Promise<{ found: number; removed: number }> {
    const found = await artifacts.find(filter, { projection: { _id: 1 }, limit: STEP }).toArray();
    if (found.length === 0) return { found: 0, removed: 0 };
    const ids = found.map(({ _id }) => _id);
    const { deletedCount } = await artifacts.deleteMany({ ...filter, _id: { $in: ids } });
    return { found: found.length, removed: deletedCount };
  }

  async function removeAll(filter: Filter<StoredArtifact>): Promise<number> {
    let all = 0;
    for (;;) {
      const { found, removed } = await connection.run(() => step(filter));
      all += removed;
      if (found < STEP) return all;
    }
  }

  return {
    removeByAccount: (filter) => removeAll(toFilter(filter)),
    removeByClient: (clientId) => removeAll({ client: toKey(clientId) }),
  };
}

type Reading = Pick<ArtifactStore, "find" | "findWithGrant" | "findByUid" | "listByAccount">;

function createReading(connection: Connection): Reading {
  const { clock } = connection;
  const artifacts = connection.collection<StoredArtifact>("artifacts");

  /** Those that have not expired; the server deletes them late. */
  function alive(found: readonly StoredArtifact[]): Artifact[] {
    const now = clock.now();
    return found.filter(({ expires_at }) => expires_at > now).map((stored) => toArtifact(stored, now));
  }

  return {
    async find(model, key) {
      const found = await connection.run(() => artifacts.findOne({ _id: artifactId(model, key) }));
      return alive(found === null ? [] : [found])[0];
    },
    async findWithGrant(model, key) {
      // One way to the server and back for both.
      const both = () =>
        artifacts
          .aggregate<StoredArtifact & { readonly grants: readonly StoredArtifact[] }>([
            { $match: { _id: artifactId(model, key) } },
            {
              $lookup: {
                from: artifacts.collectionName,
                localField: "grant",
                foreignField: "_id",
                as: "grants",
              },
            },
          ])
          .toArray();
      const [found] = await connection.run(both);
      const [artifact] = alive(found === undefined ? [] : [found]);
      return artifact && { artifact, grant: alive(found?.grants ?? [])[0] };
    },
    async findByUid(model, uid) {
      const filter = { uid: uidKey(model, uid), expires_at: { $gt: clock.now() } };
      const latest = () => artifacts.findOne(filter, { sort: { order: -1 } });
      const found = await connection.run(latest);
      return alive(found === null ? [] : [found])[0];
    },
    async listByAccount(filter) {
      const all = { ...toFilter(filter), expires_at: { $gt: clock.now() } };
      const oldest = () => artifacts.find(all).sort({ order: 1 }).limit(LONGEST_LIST).toArray();
      return alive(await connection.run(oldest));
    },
  };
}

/** The artifacts part of the storage. */
export function createArtifactStore(connection: Connection): ArtifactStore {
  const artifacts = connection.collection<StoredArtifact>("artifacts");

  async function forgetReplays(limit: number): Promise<void> {
    const old = { replay_until: { $lte: connection.clock.now() } };
    const found = await artifacts.find(old, { projection: { _id: 1 }, limit }).toArray();
    if (found.length === 0) return;
    const filter = { ...old, _id: { $in: found.map(({ _id }) => _id) } };
    await artifacts.updateMany(filter, { $unset: { replay: "", replay_until: "" } });
  }

  return {
    ...createReading(connection),
    ...createRemovals(connection),
    commit: createCommit(connection),
    async markAnswered(model, key) {
      const consumed = { _id: artifactId(model, key), answered_at: { $exists: true } };
      // What is known of the server's clock is late rather than early, and rounded up.
      const at = { $min: ["$answered_at", connection.serverTimeIn(0) - 1] };
      const consumed_at = { $subtract: ["$answered_at", ANSWERED_WITHIN] };
      const first = [{ $set: { answered_at: { $max: [at, consumed_at] } } }];
      connection.run(() => artifacts.updateOne(consumed, first)).catch(() => undefined);
    },
    async sinceAnswer(model, key) {
      const difference = [
        { $match: { _id: artifactId(model, key), answered_at: { $exists: true } } },
        { $project: { since: { $subtract: [SERVER_TIME, "$answered_at"] } } },
      ];
      return whenNoted(async () => {
        const [found] = await connection.run(() => artifacts.aggregate(difference).toArray());
        // Both are whole milliseconds, rounded down.
        return found && Number(found["since"]) + 1;
      });
    },
    async purgeExpired(limit) {
      if (limit >= 1) await connection.run(() => forgetReplays(limit));
      // The server deletes what has expired.
      return 0;
    },
  };
}
