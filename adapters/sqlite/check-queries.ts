/** Checks of rows: by a query, or one after the other. */
import type { Check, Flaw } from "../check.ts";
import type { Connection, Parameter } from "./connection.ts";
import { rowLimit, stringAt } from "./rows.ts";
import { createPages, type Table } from "./table-pages.ts";

/** Rows in one page, and flaws that are put right in one transaction. */
const STEP = 200;

/** Runs `work` on the flaws, a transaction for every few. */
export async function inSteps(
  connection: Connection,
  flaws: readonly Flaw[],
  work: (flaw: Flaw) => void,
): Promise<void> {
  for (let at = 0; at < flaws.length; at += STEP) {
    await connection.write(() => {
      for (const flaw of flaws.slice(at, at + STEP)) work(flaw);
    });
  }
}

/** A check that is one query. */
export interface QueryCheck {
  readonly part: string;
  readonly problem: string;
  /** Gives the flaws: a text to show, then the key. */
  readonly select: string;
  /** What shown text begins with, such as `account `. */
  readonly shows: string;
  /** A statement that puts the flaw with this key right, if it is one still. */
  readonly repair?: string;
}

export function createQueryCheck(connection: Connection, query: QueryCheck): Check {
  const { part, problem, shows, repair } = query;
  return {
    part,
    problem,
    find: (limit) =>
      connection.read(() =>
        connection
          .all(`SELECT * FROM (${query.select}) LIMIT ?`)(rowLimit(limit))
          .map((row) => {
            const [, ...key] = Object.values(row);
            return { shown: shows + stringAt(row, 0), id: JSON.stringify(key) };
          }),
      ),
    ...(repair !== undefined && {
      async repair(flaws) {
        const statement = connection.change(repair);
        await inSteps(connection, flaws, ({ id }) => void statement(...(JSON.parse(id) as Parameter[])));
      },
    }),
  };
}

/** How rows are looked at, one by one. */
export interface RowLook<Item> {
  readonly table: Table<Item>;
  isWrong(item: Item): boolean;
  /** For an operator. */
  shown(item: Item): string;
  /** Puts right a row that is wrong. Inside a transaction. */
  fix(item: Item): void;
}

export interface RowCheck<Item> {
  readonly part: string;
  readonly problem: string;
  /** Makes the statements: when the check is made, for one that can't be made must not keep others from it. */
  prepare(): RowLook<Item>;
}

export function createRowCheck<Item>(connection: Connection, check: RowCheck<Item>): Check {
  const { part, problem } = check;
  return {
    part,
    problem,
    async find(limit) {
      const look = await connection.read(() => check.prepare());
      const pages = createPages(connection, look.table);
      const flaws: Flaw[] = [];
      for (let after: string | undefined; ;) {
        const page = await pages.read({ limit: STEP, ...(after !== undefined && { after }) });
        const wrong = await connection.read(() =>
          page.rows.filter(({ place }) => {
            // Looked at again, for what belongs to a row is read beside it.
            const item = pages.at(place);
            return item !== undefined && look.isWrong(item);
          }),
        );
        flaws.push(...wrong.map(({ item, place }) => ({ id: place, shown: look.shown(item) })));
        if (flaws.length >= limit || page.after === undefined) return flaws.slice(0, limit);
        after = page.after;
      }
    },
    async repair(flaws) {
      const look = await connection.read(() => check.prepare());
      const pages = createPages(connection, look.table);
      await inSteps(connection, flaws, ({ id }) => {
        const item = pages.at(id);
        if (item !== undefined && look.isWrong(item)) look.fix(item);
      });
    },
  };
}
