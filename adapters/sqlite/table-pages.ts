/** All rows of a table, page by page, in the order of its key. */
import type { Connection, Parameter } from "./connection.ts";
import { rowLimit, type Row } from "./rows.ts";

export interface Table<Item> {
  /** The table, joins included. */
  readonly from: string;
  readonly columns: readonly string[];
  /** The columns of its key: what it is ordered by, and where a page begins. They come behind the others. */
  readonly key: readonly string[];
  /** Which rows are meant; default: all. */
  readonly where?: string;
  /** @returns `undefined` for a row that is left out. */
  toItem(row: Row): Item | undefined;
}

/** A row, and where it is. */
export interface Placed<Item> {
  readonly item: Item;
  /** The key, as JSON. */
  readonly place: string;
}

export interface Pages<Item> {
  /**
   * The rows behind a place.
   * @returns and where the next page begins, unless this is the last one.
   */
  read(page: {
    readonly after?: string;
    readonly limit: number;
  }): Promise<{ readonly rows: readonly Placed<Item>[]; readonly after?: string }>;
  /** The row at a place. Inside a read or write of the connection. */
  at(place: string): Item | undefined;
}

function valuesOf(place: string): Parameter[] {
  return JSON.parse(place) as Parameter[];
}

export function createPages<Item>(connection: Connection, table: Table<Item>): Pages<Item> {
  const { from, columns, key, where = "true" } = table;
  const select = `SELECT ${[...columns, ...key].join(", ")} FROM ${from} WHERE ${where}`;
  const order = `ORDER BY ${key.join(", ")} LIMIT ?`;
  const place = `(${key.join(", ")})`;
  const parameters = `(${key.map(() => "?").join(", ")})`;
  const first = connection.all(`${select} ${order}`);
  const next = connection.all(`${select} AND ${place} > ${parameters} ${order}`);
  const one = connection.first(`${select} AND ${place} = ${parameters}`);
  const placeOf = (row: Row): string =>
    JSON.stringify(key.map((_name, index) => row[columns.length + index]));

  return {
    read: ({ after, limit }) =>
      connection.read(() => {
        const rows = after === undefined ? first(rowLimit(limit)) : next(...valuesOf(after), rowLimit(limit));
        const last = rows.length < limit ? undefined : rows.at(-1);
        const placed = rows.flatMap((row) => {
          const item = table.toItem(row);
          return item === undefined ? [] : [{ item, place: placeOf(row) }];
        });
        return { rows: placed, ...(last !== undefined && { after: placeOf(last) }) };
      }),
    at(text) {
      const row = one(...valuesOf(text));
      return row && table.toItem(row);
    },
  };
}
