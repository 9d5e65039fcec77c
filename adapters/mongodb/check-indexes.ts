/** Whether the collections and indexes are those that this version makes. */
import type { Db, IndexDescription, IndexDescriptionInfo } from "mongodb";
import type { Check, Flaw } from "../check.ts";
import { COLLECTIONS } from "./collections.ts";
import type { Connection } from "./connection.ts";
import { PAGE_TIME } from "./transfer-collections.ts";

/** Milliseconds: the longest that a timer can wait, some weeks. */
const LONGEST_WAIT = 2 ** 31 - 1;

/** What two indexes must have in common. */
function essence({
  key,
  unique,
  sparse,
  expireAfterSeconds,
}: IndexDescription | IndexDescriptionInfo): string {
  return JSON.stringify([Object.entries(key), unique === true, sparse === true, expireAfterSeconds ?? null]);
}

function keyOf({ key }: IndexDescription | IndexDescriptionInfo): string {
  return JSON.stringify(Object.entries(key));
}

/** Where an index that is wanted belongs. */
interface Place {
  readonly collection: string;
  readonly index: IndexDescription;
}

function toFlaw({ collection, index }: Place): Flaw {
  return {
    id: JSON.stringify([collection, index.key]),
    shown: `${collection}: ${Object.keys(index.key).join(", ")}`,
  };
}

async function existing(db: Db): Promise<Set<string>> {
  const found = await db.listCollections({}, { nameOnly: true }).toArray();
  return new Set(found.map(({ name }) => name));
}

/** The indexes that are missing, or are there in another form. */
async function findWrong(db: Db): Promise<Place[]> {
  const collections = await existing(db);
  const wrong: Place[] = [];
  for (const [collection, indexes] of Object.entries(COLLECTIONS)) {
    if (!collections.has(collection)) continue;
    const found = await db.collection(collection).listIndexes().toArray();
    const known = new Set(found.map(essence));
    wrong.push(
      ...indexes.filter((index) => !known.has(essence(index))).map((index) => ({ collection, index })),
    );
  }
  return wrong;
}

async function replace(db: Db, { collection, index }: Place): Promise<void> {
  const own = db.collection(collection);
  const found = await own.listIndexes().toArray();
  for (const other of found) {
    if (keyOf(other) === keyOf(index) && essence(other) !== essence(index)) await own.dropIndex(other.name);
  }
  await own.createIndexes([index]);
}

export function createIndexChecks(connection: Connection): Check[] {
  const { db } = connection;
  return [
    {
      part: "schema",
      problem: "collections that are missing",
      find: () =>
        connection.run(async () => {
          const collections = await existing(db);
          const missing = Object.keys(COLLECTIONS).filter((name) => !collections.has(name));
          return missing.map((name) => ({ id: name, shown: name }));
        }, PAGE_TIME),
      repair: (flaws) =>
        connection.run(async () => {
          for (const { id } of flaws) await db.createCollection(id);
        }, PAGE_TIME),
    },
    {
      part: "schema",
      problem: "indexes that are missing or not as this version makes them",
      find: () => connection.run(async () => (await findWrong(db)).map(toFlaw), PAGE_TIME),
      async repair(flaws) {
        const ids = new Set(flaws.map(({ id }) => id));
        const wrong = (await connection.run(() => findWrong(db), PAGE_TIME)).filter((place) =>
          ids.has(toFlaw(place).id),
        );
        // An index on many documents takes its time.
        for (const place of wrong) await connection.run(() => replace(db, place), LONGEST_WAIT);
      },
    },
  ];
}
