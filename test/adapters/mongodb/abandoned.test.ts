/** A transaction that a network fault has cut off releases its locks as soon as the server answers. */
import { setTimeout as pause } from "node:timers/promises";
import { type ClientSession, type Collection, MongoClient, MongoError } from "mongodb";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { Transactions } from "../../../adapters/mongodb/transactions.ts";
import { type OwnMongo, startOwnMongo } from "../../servers/mongodb.ts";
import { Wire } from "../../servers/wire.ts";
import { closing } from "../../closing.ts";

/** Less than the minute after which the server itself ends such transactions. */
const ANSWER_DELAY_MS = 20_000;
/** Milliseconds for each stage of an operation. */
const TIMES = { serverSelectionTimeoutMS: 500, connectTimeoutMS: 500, heartbeatFrequencyMS: 500 };

interface Held {
  readonly _id: string;
  readonly by: string;
}

const held = (from: MongoClient): Collection<Held> => from.db("abandoned").collection<Held>("held");
const update = (_id: string, by: string) => [{ _id }, { $set: { by } }] as const;

/** Whether another client can write it. */
async function isFree(id: string, client: MongoClient): Promise<boolean> {
  const session = client.startSession();
  session.startTransaction();
  const isWritten = await held(client)
    .updateOne(...update(id, "another"), { session })
    .then(
      () => true,
      () => false,
    );
  await session.abortTransaction();
  await session.endSession();
  return isWritten;
}

describe("a transaction that is cut off", () => {
  let server: OwnMongo;
  let wire: Wire;
  let client: MongoClient;
  let transactions: Transactions;

  beforeAll(async () => {
    server = closing(await startOwnMongo());
  });
  beforeEach(async () => {
    wire = closing(await Wire.to(Number(new URL(server.url("x")).port)));
    client = new MongoClient(`mongodb://127.0.0.1:${wire.port}/?directConnection=true`, TIMES);
    transactions = new Transactions(client);
    await held(client).findOne();
  });
  afterEach(async () => {
    transactions.stop();
    await client.close();
  });

  it.each([
    [
      "in a write of one",
      (id: string, session: ClientSession): Promise<unknown> =>
        held(client).updateOne(...update(id, "one"), { session }),
    ],
    [
      "in a write of several",
      (id: string, session: ClientSession): Promise<unknown> => {
        const [filter, change] = update(id, "several");
        return held(client).bulkWrite([{ updateOne: { filter, update: change } }], { session });
      },
    ],
  ])("%s holds nothing when the server answers again", async (id, write) => {
    await held(server.client).insertOne({ _id: id, by: "nobody" });
    // The server receives everything, but none of its responses arrives, so the heartbeats drop the connections.
    wire.delay = ANSWER_DELAY_MS;
    await expect(transactions.run((session) => write(id, session), 100)).rejects.toBeInstanceOf(MongoError);
    expect(await isFree(id, server.client)).toBe(false);
    wire.delay = 0;
    wire.cut();
    const end = performance.now() + ANSWER_DELAY_MS;
    while (!(await isFree(id, server.client))) {
      if (performance.now() > end) throw new Error("it is never released");
      await pause(50);
    }
  });
});
