/** Rows as SQLite gives them: arrays whose columns are checked when they are read. */
import type { SQLOutputValue } from "node:sqlite";
import { fromText } from "./text.ts";

/** The columns by their position in the SELECT. */
export type Row = Readonly<Record<number, SQLOutputValue>>;

/** A column that always holds text, as it is stored: JSON, or a string in its stored form. */
export function textAt(row: Row, column: number): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw new TypeError(`column ${column} holds no text`);
}

/** A column that always holds a string of ours. */
export function stringAt(row: Row, column: number): string {
  return fromText(textAt(row, column));
}

/** A column that always holds a number. */
export function numberAt(row: Row, column: number): number {
  const value = row[column];
  if (typeof value === "number") return value;
  throw new TypeError(`column ${column} holds no number`);
}

/** A row limit that SQLite understands: it would take a negative one for none. */
export function rowLimit(limit: number): number {
  return Math.max(0, Math.trunc(limit));
}

/** A column that holds a string of ours or nothing. */
export function optionalStringAt(row: Row, column: number): string | null {
  return row[column] === null ? null : stringAt(row, column);
}

/** A column that holds a number or nothing. */
export function optionalNumberAt(row: Row, column: number): number | null {
  return row[column] === null ? null : numberAt(row, column);
}
