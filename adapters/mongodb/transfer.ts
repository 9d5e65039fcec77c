/** A MongoDB that is copied from or into. */
import type { Db } from "mongodb";
import type { Clock } from "../../lib/clock.ts";
import { StorageUnavailable } from "../../lib/errors.ts";
import { type StorageTransfer, type TransferParts, UNFINISHED_COPY } from "../transfer.ts";
import { type StoredArtifact, toArtifact, toDocument } from "./artifact-documents.ts";
import type { CollectionName } from "./collections.ts";
import { connect, type Connection } from "./connection.ts";
import { keptDocument, type StoredValue } from "./directory-audit.ts";
import { asFault } from "./faults.ts";
import { asFirst, prepareDatabase } from "./indexes.ts";
import { openClient } from "./open-client.ts";
import { createCollectionPart, PAGE_TIME, put } from "./transfer-collections.ts";
import { createDeliveryParts } from "./transfer-deliveries.ts";
import { createDirectoryParts, type NumberedIds } from "./transfer-directory.ts";

export interface MongoTransferOptions {
  readonly url: string;
  /** Decides what has expired. */
  readonly clock: Clock;
  /** Whether a database without a storage is a fault; else one is made there. */
  readonly mustExist: boolean;
}

function createArtifactsPart(connection: Connection): TransferParts["artifacts"] {
  const { clock } = connection;
  return createCollectionPart(connection, {
    collection: connection.collection<StoredArtifact>("artifacts"),
    by: "_id",
    filter: () => ({ expires_at: { $gt: clock.now() } }),
    toItems(documents) {
      const now = clock.now();
      return documents.map((document) => toArtifact(document, now));
    },
    toWrites(artifact) {
      const { consumedAt, replay, replayUntil } = artifact;
      const document: StoredArtifact = {
        ...toDocument(artifact, "copy"),
        order: connection.newId(),
        ...(consumedAt !== undefined && { consumed_at: consumedAt }),
        ...(replay !== undefined && { replay: JSON.stringify(replay) }),
        ...(replayUntil !== undefined && { replay_until: replayUntil }),
      };
      return [put(document)];
    },
  });
}

function createMarks(connection: Connection): Pick<StorageTransfer, "readMark" | "writeMark"> {
  const kept = connection.collection<StoredValue>("kept");
  const { _id } = keptDocument(UNFINISHED_COPY, "");
  return {
    async readMark() {
      const found = await connection.run(() => kept.findOne({ _id }), PAGE_TIME);
      return found === null ? undefined : String(JSON.parse(found.json));
    },
    async writeMark(text) {
      await connection.run<unknown>(
        () =>
          text === undefined
            ? kept.deleteOne({ _id })
            : kept.replaceOne({ _id }, keptDocument(UNFINISHED_COPY, text), { upsert: true }),
        PAGE_TIME,
      );
    },
  };
}

/**
 * @throws StorageUnavailable when there is no storage in the database.
 * @throws ConfigurationError when the user may not look.
 */
export async function requireStorage(db: Db): Promise<void> {
  const name: CollectionName = "kept";
  const found = await asFirst(db, () => db.listCollections({ name }, { nameOnly: true }).toArray());
  if (found.length === 0) throw new StorageUnavailable("there is no storage in that database of MongoDB");
}

/** Makes collections and indexes that are missing. @throws as `openMongoTransfer`. */
async function prepare({ url, mustExist }: MongoTransferOptions): Promise<void> {
  const { client, db } = await openClient(url, { isPatient: true });
  try {
    if (mustExist) await requireStorage(db);
    await prepareDatabase(db);
  } catch (error) {
    throw asFault(error);
  } finally {
    await client.close();
  }
}

async function createIds(): Promise<NumberedIds> {
  const { ObjectId } = await import("mongodb");
  const HEX_DIGITS = 24;
  return {
    toId: (text) => new ObjectId(text),
    at: (number) => new ObjectId(number.toString(16).padStart(HEX_DIGITS, "0")),
  };
}

/**
 * Opens the database and makes its collections and indexes.
 * @throws StorageUnavailable as `openMongo`, and for a storage that must exist and does not.
 * @throws ConfigurationError as `openMongo`.
 */
export async function openMongoTransfer(options: MongoTransferOptions): Promise<StorageTransfer> {
  await prepare(options);
  const ids = await createIds();
  const connection = await connect(options.url, options.clock, { isPatient: true });
  return {
    parts: {
      ...createDirectoryParts(connection, ids),
      ...createDeliveryParts(connection, ids),
      artifacts: createArtifactsPart(connection),
    },
    ...createMarks(connection),
    close: () => connection.close(),
  };
}
