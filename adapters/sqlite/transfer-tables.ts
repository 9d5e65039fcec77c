/** A table as a part that is handed out page by page, in the order of its key, and taken in. */
import type { TransferPart } from "../transfer.ts";
import type { Connection, Parameter } from "./connection.ts";
import { numberAt, rowLimit, type Row } from "./rows.ts";

export interface Table<Item> {
  /** The table, joins included. */
  readonly from: string;
  readonly columns: readonly string[];
  /** The columns of its key: what it is ordered by, and where a page begins. */
  readonly key: readonly string[];
  /** Which rows are meant; default: all. */
  readonly where?: string;
  /** @returns `undefined` for a row that is left out. */
  toItem(row: Row): Item | undefined;
  /** Inside a transaction. */
  write(item: Item, position: number): void;
}

/** The values of the key of a row, which come behind its columns. */
function placeOf({ columns, key }: Pick<Table<unknown>, "columns" | "key">, row: Row): string {
  return JSON.stringify(key.map((_name, index) => row[columns.length + index]));
}

export function createTablePart<Item>(connection: Connection, table: Table<Item>): TransferPart<Item> {
  const { from, columns, key, where = "true" } = table;
  const select = `SELECT ${[...columns, ...key].join(", ")} FROM ${from} WHERE ${where}`;
  const order = `ORDER BY ${key.join(", ")} LIMIT ?`;
  const behind = `(${key.join(", ")}) > (${key.map(() => "?").join(", ")})`;
  const first = connection.all(`${select} ${order}`);
  const next = connection.all(`${select} AND ${behind} ${order}`);
  const count = connection.first(`SELECT count(*) FROM ${from} WHERE ${where}`);

  return {
    count: () => connection.read(() => numberAt(count() ?? {}, 0)),
    async read({ after, limit }) {
      const place = after === undefined ? undefined : (JSON.parse(after) as Parameter[]);
      return connection.read(() => {
        const rows = place === undefined ? first(rowLimit(limit)) : next(...place, rowLimit(limit));
        const last = rows.length < limit ? undefined : rows.at(-1);
        return {
          records: rows.map((row) => table.toItem(row)).filter((item) => item !== undefined),
          ...(last !== undefined && { after: placeOf(table, last) }),
        };
      });
    },
    async write(items, before) {
      await connection.write(() => {
        for (const [index, item] of items.entries()) table.write(item, before + index + 1);
      });
    },
  };
}
