/** Artifacts in Redis, copied from or into. */
import { randomUUID } from "node:crypto";
import { ConfigurationError } from "../../lib/errors.ts";
import type { ArtifactBatch } from "../artifacts.ts";
import type { TransferPage, TransferPart, TransferRecords } from "../transfer.ts";
import { createReading } from "./artifacts.ts";
import { answerCode, asFault } from "./faults.ts";
import { type ConnectedRedis, connectRedis, type RedisOptions } from "./open.ts";

type Item = TransferRecords["artifacts"];

/** The one part of a storage that Redis can be, for a copy. */
export interface RedisTransfer {
  readonly artifacts: TransferPart<Item>;
  /** Safe to call twice. */
  close(): Promise<void>;
}

/** Milliseconds for the script that writes one page. */
const WAIT = 4000;
/** Keys that one step looks at when they are only counted. */
const COUNT_STEP = 1000;
/** What SCAN begins with, and ends with. */
const BEGINNING = "0";

/** The keys of artifacts, step by step: each at least once, in no order. */
type Scan = (cursor: string, step: number) => Promise<readonly [next: string, keys: readonly string[]]>;

/** Where a page begins. */
interface Place {
  /** A cursor is good for as long as the process of Redis runs, and one of another looks the same. */
  readonly connection: string;
  readonly cursor: string;
}

/** Reads a place; one of another connection leads to the beginning. */
function createPlaces({ client }: ConnectedRedis): (place: string | undefined) => Place {
  let current = randomUUID();
  client.on("close", () => {
    current = randomUUID();
  });
  return (place = "") => {
    const [connection, cursor = BEGINNING] = place.split(" ");
    return { connection: current, cursor: connection === current ? cursor : BEGINNING };
  };
}

function createPart(redis: ConnectedRedis, { clock }: RedisOptions): TransferPart<Item> {
  const { connection, ask, prefix, artifacts } = redis;
  const reading = createReading({ ask, prefix, clock });
  const placeOf = createPlaces(redis);
  const front = `${prefix}artifact:`;
  const scan: Scan = (cursor, step) =>
    connection.send((client) => client.scan(cursor, "MATCH", `${front}*`, "COUNT", step));

  async function count(): Promise<number> {
    let found = 0;
    let cursor = BEGINNING;
    do {
      const [next, keys] = await scan(cursor, COUNT_STEP);
      found += keys.length;
      cursor = next;
    } while (cursor !== BEGINNING);
    return found;
  }

  async function read(after: string | undefined, limit: number): Promise<TransferPage<Item>> {
    const place = placeOf(after);
    const [next, keys] = await scan(place.cursor, limit);
    const found = await Promise.all(keys.map((key) => reading.read(key.slice(front.length))));
    const records = found.filter((artifact) => artifact !== undefined);
    return next === BEGINNING ? { records } : { records, after: `${place.connection} ${next}` };
  }

  return {
    repeats: true,
    count: () => connection.during(count),
    read: ({ after, limit }) => connection.during(() => read(after, limit)),
    async write(items) {
      const writes: ArtifactBatch["writes"] = items.map((artifact) => ({ kind: "put", artifact }));
      await artifacts.commit({ id: `copy ${randomUUID()}`, deadline: clock.now() + WAIT, writes });
    },
  };
}

/** @throws ConfigurationError, StorageUnavailable as `openRedis` does, and for a user who may not SCAN. */
export async function openRedisTransfer(options: RedisOptions): Promise<RedisTransfer> {
  const redis = await connectRedis(options);
  try {
    await redis.client.scan(BEGINNING, "COUNT", 1);
  } catch (error) {
    await redis.connection.close();
    if (answerCode(error) !== "NOPERM") throw asFault(error);
    throw new ConfigurationError(["config.artifacts: to be copied it needs a user who may SCAN"]);
  }
  return { artifacts: createPart(redis, options), close: () => redis.connection.close() };
}
