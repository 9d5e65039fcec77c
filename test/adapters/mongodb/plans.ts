/** How the server would look for what a command asks for. */
import type { Db, Document } from "mongodb";
import type { SentCommand } from "../../servers/mongodb-tap.ts";

/** A question that a command asks: by it the server has to find documents. */
export interface Question {
  readonly collection: string;
  readonly filter: Document;
  /** The index that it says itself. */
  readonly hint?: unknown;
  /** The order in which it wants what is found. */
  readonly sort?: Document | undefined;
}

/** Commands that look for no documents. */
const ASKS_NOTHING: ReadonlySet<string> = new Set([
  "hello",
  "ping",
  "create",
  "createIndexes",
  "insert",
  "getMore",
  "commitTransaction",
  "abortTransaction",
  "killSessions",
  "endSessions",
]);

/** The questions of a command. @throws for a command of which it is not known what it asks. */
export function questions({ name, body }: SentCommand): Question[] {
  const collection = String(body[name]);
  switch (name) {
    case "find":
      return [{ collection, filter: body["filter"], hint: body["hint"], sort: body["sort"] }];
    case "findAndModify":
      return [{ collection, filter: body["query"], sort: body["sort"] }];
    case "update":
    case "delete": {
      const list = body[`${name}s`] as { q: Document }[];
      return list.map(({ q }) => ({ collection, filter: q }));
    }
    case "aggregate":
      return aggregation(collection, body["pipeline"] as Document[]);
    default:
      if (!ASKS_NOTHING.has(name)) throw new Error(`what does ${name} look for?`);
      return [];
  }
}

/** What the pipeline begins with, and what it looks up in other collections. @throws for an order that no index has. */
function aggregation(collection: string, pipeline: readonly Document[]): Question[] {
  if (pipeline.some((stage, index) => index > 1 && "$sort" in stage)) throw new Error("a late $sort");
  const lookups = pipeline.flatMap((stage) => (stage["$lookup"] === undefined ? [] : [stage["$lookup"]]));
  return [
    { collection, filter: pipeline[0]?.["$match"] ?? {}, sort: pipeline[1]?.["$sort"] },
    ...lookups.map(({ from, foreignField }) => ({
      collection: String(from),
      filter: { [String(foreignField)]: "x" },
    })),
  ];
}

/** The same for all questions that differ in their values only. */
export function shapeOf({ collection, filter, hint, sort }: Question): string {
  const form = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.length === 0 ? [] : [form(value[0])];
    if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype)
      return typeof value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, form(inner)]));
  };
  return `${collection} ${JSON.stringify(form(filter))} ${JSON.stringify([hint ?? {}, sort ?? {}])}`;
}

async function isScanned(db: Db, collection: string, filter: Document): Promise<boolean> {
  const answer = await db.command({ explain: { find: collection, filter }, verbosity: "queryPlanner" });
  return JSON.stringify(answer["queryPlanner"]["winningPlan"]).includes("COLLSCAN");
}

/**
 * Whether the server has an index for the question: for one of the conditions that all have to hold, or the one that
 * the command names. MongoDB looks at all documents only where there is none. (Each condition is asked about alone, for
 * SecantusDB explains no more than that.)
 */
export async function isFoundByIndex(db: Db, { collection, filter, hint }: Question): Promise<boolean> {
  if (hint !== undefined) {
    const indexes = await db.collection(collection).indexes();
    return indexes.some(({ key }) => JSON.stringify(key) === JSON.stringify(hint));
  }
  for (const [field, condition] of Object.entries(filter)) {
    if (!field.startsWith("$") && !(await isScanned(db, collection, { [field]: condition }))) return true;
  }
  return false;
}

/** Whether a field can have one value only, and so is in any order. */
function isFixed(filter: Document, field: string): boolean {
  const condition: unknown = filter[field];
  if (typeof condition !== "object") return condition !== undefined;
  return condition !== null && Object.getPrototypeOf(condition) !== Object.prototype;
}

/** Whether what is read along an index, forwards or backwards, comes in that order. */
function hasOrder(key: Document, filter: Document, sort: Document): boolean {
  const open = (fields: Document) => Object.entries(fields).filter(([name]) => !isFixed(filter, name));
  const [keys, wanted] = [open(key), open(sort)];
  const turn = wanted[0]?.[1] === keys[0]?.[1] ? 1 : -1;
  return wanted.every(([name, direction], at) => keys[at]?.[0] === name && keys[at][1] === direction * turn);
}

/**
 * Whether an index has what is found in the order that is asked for: else the server sorts all of it in its memory.
 * (Worked out from the indexes, for SecantusDB explains every order as a sort.)
 */
export async function isSortedByIndex(
  db: Db,
  { collection, filter, hint, sort = {} }: Question,
): Promise<boolean> {
  if (Object.keys(sort).length === 0) return true;
  const indexes = await db.collection(collection).indexes();
  return indexes.some(
    ({ key }) =>
      (hint === undefined || JSON.stringify(key) === JSON.stringify(hint)) && hasOrder(key, filter, sort),
  );
}
