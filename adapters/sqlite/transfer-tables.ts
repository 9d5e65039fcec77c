/** A table as a part that is handed out page by page, and taken in. */
import type { TransferPart } from "../transfer.ts";
import type { Connection } from "./connection.ts";
import { numberAt } from "./rows.ts";
import { createPages, type Table } from "./table-pages.ts";

export interface WritableTable<Item> extends Table<Item> {
  /** Inside a transaction. @param position counted from 1. */
  write(item: Item, position: number): void;
}

export function createTablePart<Item>(
  connection: Connection,
  table: WritableTable<Item>,
): TransferPart<Item> {
  const pages = createPages(connection, table);
  const count = connection.first(`SELECT count(*) FROM ${table.from} WHERE ${table.where ?? "true"}`);
  return {
    count: () => connection.read(() => numberAt(count() ?? {}, 0)),
    async read(page) {
      const { rows, ...next } = await pages.read(page);
      return { records: rows.map(({ item }) => item), ...next };
    },
    async write(items, before) {
      await connection.write(() => {
        for (const [index, item] of items.entries()) table.write(item, before + index + 1);
      });
    },
  };
}
