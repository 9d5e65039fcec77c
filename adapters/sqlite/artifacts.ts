/** Artifacts in one table; the columns beside the payload are what the store itself has to find them by. */
import { StorageUnavailable } from "../../lib/errors.ts";
import type { Artifact, ArtifactBatch, ArtifactFilter, ArtifactStore, Payload } from "../artifacts.ts";
import { createWritePlanner, MACHINE_TIME } from "./artifact-writes.ts";
import type { Connection } from "./connection.ts";
import { numberAt, optionalNumberAt, rowLimit, type Row, stringAt, textAt } from "./rows.ts";
import { toText } from "./text.ts";

/** At most so many artifacts are removed in one transaction, so that nobody waits long for the lock. */
const STEP = 500;

/** The columns of `toArtifact`, in its order. */
export const ARTIFACT_COLUMNS =
  "payload, expires_at, consumed_at, replay, grant_key, uid, account_id, client_id, replay_until";

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

function toPayload(json: string): Payload {
  return JSON.parse(json);
}

export function toArtifact(model: string, key: string, row: Row, now: number): Artifact {
  const artifact: Mutable<Artifact> = {
    model,
    key,
    payload: toPayload(textAt(row, 0)),
    expiresAt: numberAt(row, 1),
  };
  if (row[2] !== null) artifact.consumedAt = numberAt(row, 2);
  if (row[3] !== null && !(row[8] !== null && numberAt(row, 8) <= now)) {
    artifact.replay = stringAt(row, 3);
    if (row[8] !== null) artifact.replayUntil = numberAt(row, 8);
  }
  if (row[4] !== null) artifact.grantKey = stringAt(row, 4);
  if (row[5] !== null) artifact.uid = stringAt(row, 5);
  if (row[6] !== null) artifact.accountId = stringAt(row, 6);
  if (row[7] !== null) artifact.clientId = stringAt(row, 7);
  return artifact;
}

function createRemovals(connection: Connection): Pick<ArtifactStore, "removeByAccount" | "removeByClient"> {
  const select = (column: string) =>
    connection.all(
      `SELECT id, model, client_id FROM artifacts WHERE ${column} = ? AND id > ? ORDER BY id LIMIT ${STEP}`,
    );
  const ofAccount = select("account_id");
  const ofClient = select("client_id");
  const remove = connection.change("DELETE FROM artifacts WHERE id = ?");

  async function removeAll(
    next: (after: number) => Row[],
    matches: (candidate: Row) => boolean,
  ): Promise<number> {
    let removed = 0;
    let after = 0;
    for (;;) {
      const from = after;
      const step = await connection.write(() => {
        const candidates = next(from);
        const found = candidates.filter(matches);
        for (const row of found) remove(numberAt(row, 0));
        const last = candidates[STEP - 1];
        return { last: last && numberAt(last, 0), removed: found.length };
      });
      removed += step.removed;
      if (step.last === undefined) return removed;
      after = step.last;
    }
  }

  return {
    removeByAccount(filter: ArtifactFilter) {
      const accountId = toText(filter.accountId);
      const models = filter.models && new Set<unknown>(filter.models.map(toText));
      const clientIds = filter.clientIds && new Set<unknown>(filter.clientIds.map(toText));
      return removeAll(
        (after) => ofAccount(accountId, after),
        (row) => (models?.has(row[1]) ?? true) && (clientIds?.has(row[2]) ?? true),
      );
    },
    removeByClient(clientId: string) {
      const text = toText(clientId);
      return removeAll(
        (after) => ofClient(text, after),
        () => true,
      );
    },
  };
}

/** How many artifacts of one account a list shows at most. */
const LONGEST_LIST = 1_000;

function createListing(connection: Connection): Pick<ArtifactStore, "listByAccount"> {
  const ofAccount = connection.all(
    `SELECT ${ARTIFACT_COLUMNS}, key, model FROM artifacts WHERE account_id = ? AND expires_at > ? ORDER BY id`,
  );
  return {
    listByAccount: ({ accountId, models, clientIds }) =>
      connection.read(() =>
        ofAccount(toText(accountId), connection.clock.now())
          .map((row) => toArtifact(stringAt(row, 10), stringAt(row, 9), row, connection.clock.now()))
          .filter(({ model }) => models?.includes(model) ?? true)
          .filter(
            ({ clientId }) =>
              clientIds === undefined || (clientId !== undefined && clientIds.includes(clientId)),
          )
          .slice(0, LONGEST_LIST),
      ),
  };
}

/** The artifacts part of the storage. */
export function createArtifactStore(connection: Connection): ArtifactStore {
  const { clock } = connection;
  const byKey = connection.first(
    `SELECT ${ARTIFACT_COLUMNS} FROM artifacts WHERE model = ? AND key = ? AND expires_at > ?`,
  );
  const byUid = connection.first(
    `SELECT ${ARTIFACT_COLUMNS}, key FROM artifacts WHERE model = ? AND uid = ? AND expires_at > ? ORDER BY id DESC LIMIT 1`,
  );
  const purge = connection.change(
    "DELETE FROM artifacts WHERE id IN (SELECT id FROM artifacts WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
  );
  const forgetReplays = connection.change(
    "UPDATE artifacts SET replay = NULL, replay_until = NULL WHERE id IN (SELECT id FROM artifacts WHERE replay_until <= ? LIMIT ?)",
  );
  const markAnswered = connection.change(
    `UPDATE artifacts SET answered_at = min(answered_at, ${MACHINE_TIME}) WHERE model = ? AND key = ?`,
  );
  // Both are whole milliseconds, rounded down.
  const sinceAnswer = connection.first(
    `SELECT ${MACHINE_TIME} + 1 - answered_at FROM artifacts WHERE model = ? AND key = ?`,
  );
  const plan = createWritePlanner(connection);

  function find(model: string, key: string, now: number): Artifact | undefined {
    const row = byKey(toText(model), toText(key), now);
    return row && toArtifact(model, key, row, now);
  }

  return {
    find: (model, key) => connection.read(() => find(model, key, clock.now())),
    findWithGrant: (model, key) =>
      connection.read(() => {
        const now = clock.now();
        const artifact = find(model, key, now);
        if (artifact === undefined) return undefined;
        const { grantKey } = artifact;
        return { artifact, grant: grantKey === undefined ? undefined : find("Grant", grantKey, now) };
      }),
    findByUid: (model, uid) =>
      connection.read(() => {
        const now = clock.now();
        const row = byUid(toText(model), toText(uid), now);
        return row && toArtifact(model, stringAt(row, 9), row, now);
      }),
    async commit(batch: ArtifactBatch) {
      const wait = batch.deadline - clock.now();
      if (wait <= 0) throw new StorageUnavailable("the deadline of this batch has passed");
      // Made into parameters now: the caller may change its objects before the transaction begins.
      const steps = batch.writes.map(plan);
      await connection.write(
        () => {
          const now = clock.now();
          for (const step of steps) step(now);
        },
        { wait },
      );
    },
    async markAnswered(model, key) {
      const write = () => markAnswered(toText(model), toText(key));
      await connection.write(write, { lasts: () => false });
    },
    sinceAnswer: (model, key) =>
      connection.read(() => {
        const row = sinceAnswer(toText(model), toText(key));
        return (row && optionalNumberAt(row, 0)) ?? undefined;
      }),
    ...createListing(connection),
    ...createRemovals(connection),
    purgeExpired: (limit) =>
      connection.write(() => {
        forgetReplays(clock.now(), rowLimit(limit));
        return purge(clock.now(), rowLimit(limit));
      }),
  };
}
