/** What each write of an artifact batch does, with the condition that it carries. */
import { ConditionFailed } from "../../lib/errors.ts";
import { ANSWERED_WITHIN, type Artifact, type ArtifactWrite, type Payload } from "../artifacts.ts";
import type { Connection } from "./connection.ts";
import { textAt } from "./rows.ts";
import { toOptionalText, toText } from "./text.ts";

/** One write, ready to run inside a transaction. @throws ConditionFailed */
export type PlannedWrite = (now: number) => void;

/** Makes the changes of one write; false when its condition does not hold. */
type Step = (now: number) => boolean;

/** The model whose key is the name of a family. */
const GRANT = "Grant";

/**
 * A mark of consumption is part of what is there and lives as long: it stays through a replacement, and
 * goes with an artifact that has expired.
 */
const KEEP_MARK = (column: string) =>
  `${column} = CASE WHEN artifacts.expires_at > ? THEN coalesce(artifacts.${column}, excluded.${column}) ELSE excluded.${column} END`;

/** The columns of an artifact and, for each, a parameter: see `artifactValues`. */
export const ARTIFACT_VALUES = `
    (model, key, payload, expires_at, grant_key, uid, account_id, client_id, consumed_at, replay, replay_until)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

const PUT = `
  INSERT INTO artifacts ${ARTIFACT_VALUES}
  ON CONFLICT (model, key) DO UPDATE SET
    payload = excluded.payload, expires_at = excluded.expires_at, grant_key = excluded.grant_key,
    uid = excluded.uid, account_id = excluded.account_id, client_id = excluded.client_id,
    ${KEEP_MARK("consumed_at")}, ${KEEP_MARK("replay")}, ${KEEP_MARK("replay_until")}`;

/** Milliseconds since the epoch by the clock of the machine, which all processes on this file share. */
export const MACHINE_TIME = "(unixepoch('subsec') * 1000)";

const LIVE = "model = ? AND key = ? AND expires_at > ?";

/** The parameters of {@link ARTIFACT_VALUES}. */
export function artifactValues(artifact: Artifact): readonly (string | number | null)[] {
  return [
    toText(artifact.model),
    toText(artifact.key),
    JSON.stringify(artifact.payload),
    artifact.expiresAt,
    toOptionalText(artifact.grantKey),
    toOptionalText(artifact.uid),
    toOptionalText(artifact.accountId),
    toOptionalText(artifact.clientId),
    artifact.consumedAt ?? null,
    toOptionalText(artifact.replay),
    artifact.replayUntil ?? null,
  ];
}

/** The artifact with the entries of one member that are there already, and its own. */
function merged(artifact: Artifact, stored: string, member: string): Artifact {
  const before = (JSON.parse(stored) as Payload)[member];
  const own = artifact.payload[member];
  const entries = { ...(before as object | undefined), ...(own as object | undefined) };
  return { ...artifact, payload: { ...artifact.payload, [member]: entries } };
}

/** Makes the function that turns a write into parameters at once and into changes later. */
export function createWritePlanner(connection: Connection): (write: ArtifactWrite) => PlannedWrite {
  const put = connection.change(PUT);
  const consume = connection.change(
    `UPDATE artifacts SET consumed_at = ?, replay = ?, replay_until = ?,
       answered_at = ${MACHINE_TIME} + ${ANSWERED_WITHIN}
     WHERE ${LIVE} AND consumed_at IS NULL`,
  );
  const remove = connection.change("DELETE FROM artifacts WHERE model = ? AND key = ?");
  const removeLive = connection.change(`DELETE FROM artifacts WHERE ${LIVE}`);
  const live = connection.first(`SELECT 1 FROM artifacts WHERE ${LIVE}`);
  const payload = connection.first(`SELECT payload FROM artifacts WHERE ${LIVE}`);
  const revoke = connection.change("DELETE FROM artifacts WHERE grant_key = ?");

  function toStep(write: Exclude<ArtifactWrite, { kind: "revoke" }>, model: string, key: string): Step {
    const isLive: Step = (now) => live(model, key, now) !== undefined;
    if (write.kind === "require") return isLive;
    if (write.kind === "consume") {
      const { at, replay, replayUntil = null } = write;
      const sealed = toOptionalText(replay);
      return (now) => consume(at, sealed, replayUntil, model, key, now) === 1;
    }
    if (write.kind === "remove") {
      return write.mustExist ? (now) => removeLive(model, key, now) === 1 : () => remove(model, key) >= 0;
    }
    const values = artifactValues(write.artifact);
    const replace: Step = (now) => put(...values, now, now, now) === 1;
    if (write.kind === "put") return replace;
    const { merge, artifact } = write;
    if (merge === undefined) return (now) => isLive(now) && replace(now);
    return (now) => {
      const row = payload(model, key, now);
      if (row === undefined) return false;
      return put(...artifactValues(merged(artifact, textAt(row, 0), merge)), now, now, now) === 1;
    };
  }

  return function plan(write) {
    if (write.kind === "revoke") {
      const grantKey = toText(write.grantKey);
      return () => {
        revoke(grantKey);
        remove(GRANT, grantKey);
      };
    }
    const { model, key } = "artifact" in write ? write.artifact : write;
    const step = toStep(write, toText(model), toText(key));
    const { kind } = write;
    return (now) => {
      if (!step(now)) throw new ConditionFailed(`the condition of ${kind} ${model} does not hold`);
    };
  };
}
