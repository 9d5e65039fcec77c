/** How the server would look for what a command asks for. */
import type { Db, Document } from "mongodb";
import type { SentCommand } from "../../servers/mongodb-tap.ts";

/** A question that a command asks: by it the server has to find documents. */
export interface Question {
  readonly collection: string;
  readonly filter: Document;
  /** The index that it says itself. */
  readonly hint?: unknown;
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
      return [{ collection, filter: body["filter"], hint: body["hint"] }];
    case "findAndModify":
      return [{ collection, filter: body["query"] }];
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

/** What the pipeline begins with, and what it looks up in other collections. */
function aggregation(collection: string, pipeline: readonly Document[]): Question[] {
  const lookups = pipeline.flatMap((stage) => (stage["$lookup"] === undefined ? [] : [stage["$lookup"]]));
  return [
    { collection, filter: pipeline[0]?.["$match"] ?? {} },
    ...lookups.map(({ from, foreignField }) => ({
      collection: String(from),
      filter: { [String(foreignField)]: "x" },
    })),
  ];
}

/** The same for all questions that differ in their values only. */
export function shapeOf({ collection, filter, hint }: Question): string {
  const form = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.length === 0 ? [] : [form(value[0])];
    if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype)
      return typeof value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, form(inner)]));
  };
  return `${collection} ${JSON.stringify(form(filter))} ${JSON.stringify(hint ?? {})}`;
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
