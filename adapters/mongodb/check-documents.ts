/** Checks of documents, a page at a time, each page in one moment of the database. */
import type { ClientSession, Collection, Filter } from "mongodb";
import type { Check, Flaw } from "../check.ts";
import type { Connection } from "./connection.ts";
import { PAGE_TIME } from "./transfer-collections.ts";

/** Documents in one page, and flaws that are put right in one transaction. */
const STEP = 200;

interface Identified {
  readonly _id: string;
}

/** A document that is wrong, and how it is called. */
export interface WrongDocument<Stored> {
  readonly document: Stored;
  /** For an operator. */
  readonly shown: string;
}

export interface DocumentCheck<Stored extends Identified> {
  readonly part: string;
  readonly problem: string;
  readonly collection: Collection<Stored>;
  /** Those that are wrong, at the moment of the session. */
  readonly wrong: (
    documents: readonly Stored[],
    session: ClientSession,
  ) => Promise<readonly WrongDocument<Stored>[]> | readonly WrongDocument<Stored>[];
  /** Puts right what is wrong, in the transaction in which it was looked at again. */
  readonly fix: (documents: readonly Stored[], session: ClientSession) => Promise<void>;
}

function toFlaw({ document, shown }: WrongDocument<Identified>): Flaw {
  const { _id: id } = document;
  return { id, shown };
}

export function createDocumentCheck<Stored extends Identified>(
  connection: Connection,
  check: DocumentCheck<Stored>,
): Check {
  const { part, problem, collection, wrong, fix } = check;

  async function readPage(after: string | undefined, session: ClientSession): Promise<Stored[]> {
    const filter = (after === undefined ? {} : { _id: { $gt: after } }) as Filter<Stored>;
    const found = collection.find(filter, { session }).sort({ _id: 1 }).hint({ _id: 1 }).limit(STEP);
    return (await found.toArray()) as Stored[];
  }

  return {
    part,
    problem,
    async find(limit) {
      const flaws: Flaw[] = [];
      for (let after: string | undefined; ;) {
        const from = after;
        const page = await connection.inTransaction(async (session) => {
          const documents = await readPage(from, session);
          return { documents, wrong: await wrong(documents, session) };
        }, PAGE_TIME);
        flaws.push(...page.wrong.map(toFlaw));
        const last = page.documents.length < STEP ? undefined : page.documents.at(-1);
        if (last === undefined || flaws.length >= limit) return flaws.slice(0, limit);
        ({ _id: after } = last);
      }
    },
    async repair(flaws) {
      for (let at = 0; at < flaws.length; at += STEP) {
        const ids = flaws.slice(at, at + STEP).map(({ id }) => id);
        await connection.inTransaction(async (session) => {
          const filter = { _id: { $in: ids } } as Filter<Stored>;
          const documents = (await collection.find(filter, { session }).toArray()) as Stored[];
          const still = await wrong(documents, session);
          if (still.length > 0)
            await fix(
              still.map(({ document }) => document),
              session,
            );
        }, PAGE_TIME);
      }
    },
  };
}
