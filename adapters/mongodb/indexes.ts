/** Collections and indexes are made at start-up; any number of processes may do so at once. */
import type { Db, IndexDescription } from "mongodb";
import { ConfigurationError } from "../../lib/errors.ts";
import { COLLECTIONS } from "./collections.ts";
import { codeOf, isDuplicate, isRefused } from "./faults.ts";

const NAMESPACE_EXISTS = 48;
/** An index of this name, or on these fields, is there and says something else. */
const OTHER_INDEX: ReadonlySet<unknown> = new Set([85, 86]);

/** The number of the schema that this version writes. */
const SCHEMA = 1;

async function prepareCollection(db: Db, name: string, indexes: readonly IndexDescription[]): Promise<void> {
  try {
    // Transactions don't make collections, so each has to be there.
    if (indexes.length === 0) await db.createCollection(name);
    else await db.collection(name).createIndexes([...indexes]);
  } catch (error) {
    if (codeOf(error) === NAMESPACE_EXISTS) return;
    if (!OTHER_INDEX.has(codeOf(error))) throw error;
    throw new ConfigurationError([
      `config.storage: the collection ${name} has indexes that this version can't use`,
    ]);
  }
}

/** Inserts a number unless it is there; returns what is there. */
async function first(db: Db, _id: string, value: number): Promise<number> {
  const numbers = db.collection<{ _id: string; value: number }>("counters");
  try {
    await numbers.updateOne({ _id }, { $setOnInsert: { value } }, { upsert: true });
  } catch (error) {
    // Two that insert at once: one of them may be told so.
    if (!isDuplicate(error)) throw error;
  }
  return (await numbers.findOne({ _id }))?.value ?? value;
}

/**
 * The first thing that is asked of a database.
 * @throws ConfigurationError when the server answers that it may not be asked: it says hello to everybody.
 */
export async function asFirst<T>({ databaseName }: Db, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isRefused(error)) throw error;
    throw new ConfigurationError([
      `config.storage: MongoDB refuses access to the database ${databaseName}; ` +
        "the address must name a user who has the role readWrite on it",
    ]);
  }
}

/**
 * Makes what is missing.
 * @throws ConfigurationError when what is there does not fit, or the user may not make it.
 */
export async function prepareDatabase(db: Db): Promise<void> {
  await asFirst(db, () => prepareAll(db));
}

async function prepareAll(db: Db): Promise<void> {
  if ((await first(db, "schema", SCHEMA)) > SCHEMA) {
    throw new ConfigurationError(["config.storage: this database was written by a later version"]);
  }
  // Every account is counted with one operation on it, which should not have to insert it.
  await first(db, "user_id", 0);
  await Promise.all(
    Object.entries(COLLECTIONS).map(([name, indexes]) => prepareCollection(db, name, indexes)),
  );
}
