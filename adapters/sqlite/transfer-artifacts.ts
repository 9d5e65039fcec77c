/** Artifacts, without those that have expired. */
import type { TransferParts } from "../transfer.ts";
import { ARTIFACT_VALUES, artifactValues } from "./artifact-writes.ts";
import { ARTIFACT_COLUMNS, toArtifact } from "./artifacts.ts";
import type { Connection } from "./connection.ts";
import { numberAt, stringAt } from "./rows.ts";
import { createTablePart } from "./transfer-tables.ts";

export function createArtifactsPart(connection: Connection): TransferParts["artifacts"] {
  const columns = [...ARTIFACT_COLUMNS.split(", "), "model", "key"];
  const [model, key] = [columns.length - 2, columns.length - 1];
  const put = connection.change(`INSERT OR REPLACE INTO artifacts ${ARTIFACT_VALUES}`);
  return createTablePart(connection, {
    from: "artifacts",
    columns,
    // Counted up: the oldest first.
    key: ["id"],
    toItem(row) {
      const now = connection.clock.now();
      if (numberAt(row, 1) <= now) return undefined;
      return toArtifact(stringAt(row, model), stringAt(row, key), row, now);
    },
    write: (artifact) => void put(...artifactValues(artifact)),
  });
}
