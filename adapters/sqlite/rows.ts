/** Rows as SQLite gives them: arrays whose columns are checked when they are read. */
import type { SQLOutputValue } from "node:sqlite";

/** The columns by their position in the SELECT. */
export type Row = Readonly<Record<number, SQLOutputValue>>;

/** A column that always holds text, as it is stored: JSON, or a string in its stored form. */
export function textAt(row: Row, column: number): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw new TypeError(`column ${column} holds no text`);
}

/** A column that always holds a number. */
export function numberAt(row: Row, column: number): number {
  const value = row[column];
  if (typeof value === "number") return value;
  throw new TypeError(`column ${column} holds no number`);
}

/** A column that holds a number or nothing. */
export function optionalNumberAt(row: Row, column: number): number | null {
  return row[column] === null ? null : numberAt(row, column);
}
