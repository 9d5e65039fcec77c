/** Prints results: for people, or with `--json` as one JSON object a line. */
import { countText } from "../../records/deliveries/delivery.ts";
import { jsonLine, printable } from "./printable.ts";
import type { Output } from "./progress.ts";

/** Members that are times, in seconds since the epoch. */
const TIMES: ReadonlySet<string> = new Set([
  "at",
  "added_at",
  "last_used_at",
  "created_at",
  "updated_at",
  "published_at",
  "signs_from",
  "retires_at",
  "published_until",
  "known_since",
  "stored_at",
  "next_attempt_at",
  "finished_at",
  "started_at",
  "failing_since",
  "circuit_open_until",
  "oldest_at",
  "first_used_at",
  "allowed_at",
  "sent_at",
  "expires_at",
  "since",
]);

/** Members that are counts which stop: see `MOST_COUNTED`. */
const COUNTS: ReadonlySet<string> = new Set(["waiting", "parked"]);

/** `2026-01-31 12:00:00Z`. */
function timeOf(seconds: number): string {
  return new Date(seconds * 1000)
    .toISOString()
    .replace(/\.\d+Z$/u, "Z")
    .replace("T", " ");
}

function valueOf(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  if (TIMES.has(name) && typeof value === "number") return timeOf(value);
  if (COUNTS.has(name) && typeof value === "number") return countText([value]);
  if (Array.isArray(value) && value.every((each) => typeof each === "string"))
    return value.length === 0 ? "-" : printable(value.join(", "));
  if (typeof value === "object") return membersOf(value);
  return printable(typeof value === "string" ? value : JSON.stringify(value));
}

/** An object in one cell: an actor as `operator SUB`, others as `name=value, …`. */
function membersOf(object: object): string {
  const { kind, id, ...others } = object as Readonly<Record<string, unknown>>;
  if (typeof kind === "string" && Object.keys(others).length === 0)
    return printable(typeof id === "string" ? `${kind} ${id}` : kind);
  const members = Object.entries(object);
  if (members.length === 0) return "-";
  if (members.some(([, value]) => typeof value === "object" && value !== null))
    return printable(JSON.stringify(object));
  return printable(members.map(([name, value]) => `${name}=${value ?? "-"}`).join(", "));
}

function lineOf(cells: readonly string[], widths: readonly number[]): string {
  return cells
    .map((cell, index) => cell.padEnd(widths[index] ?? 0))
    .join("  ")
    .trimEnd();
}

/** A record of the library: a plain object. */
type Shown = object;

export class Printer {
  readonly #out: Output;
  readonly #isJson: boolean;
  /** Whether a table had no rows. */
  #isEmpty = false;
  /** Column widths of the table that is being printed. */
  #widths: readonly number[] | undefined;

  constructor(out: Output, isJson: boolean) {
    this.#out = out;
    this.#isJson = isJson;
  }

  /** One record with all members, one a line. */
  record(record: Shown): void {
    if (this.#isJson) return this.#line(jsonLine(record));
    const members = Object.entries(record);
    const width = Math.max(...members.map(([name]) => name.length)) + 2;
    for (const [name, value] of members) this.#line(name.padEnd(width) + valueOf(name, value));
  }

  /** Rows of a table, which can come in several parts. With `--json`, whole records. */
  rows<T extends Shown>(records: readonly T[], columns: readonly (keyof T & string)[]): void {
    if (this.#isJson) {
      for (const record of records) this.#line(jsonLine(record));
      return;
    }
    if (records.length === 0) {
      this.#isEmpty = true;
      return;
    }
    const table = records.map((record) => columns.map((name) => valueOf(name, record[name])));
    if (this.#widths === undefined) {
      this.#widths = columns.map((name, index) =>
        Math.max(name.length, ...table.map((cells) => cells[index]?.length ?? 0)),
      );
      this.#line(lineOf(columns, this.#widths));
    }
    for (const cells of table) this.#line(lineOf(cells, this.#widths));
  }

  /** Reports what was done. @param facts the same for programs. */
  done(sentence: string, facts: Shown): void {
    this.#line(this.#isJson ? jsonLine(facts) : printable(sentence));
  }

  /** Reports that there are no results, because empty output looks like a failure. @param err keeps it out of the results. */
  finish(err: Output): void {
    if (this.#isEmpty && this.#widths === undefined && !this.#isJson) err.write("Nothing found.\n");
  }

  #line(text: string): void {
    this.#out.write(`${text}\n`);
  }
}
