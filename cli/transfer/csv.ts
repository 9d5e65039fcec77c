/** CSV (RFC 4180): the first row names the columns as an import names its members. */
import { pipeline, Readable } from "node:stream";
import { type CsvError, parse } from "csv-parse";
import { PERSON_FIELD_NAMES } from "../../accounts/profile-fields.ts";
import { CommandFailure } from "../program/command-failure.ts";
import { type FileItem, MAX_PART_BYTES } from "./file-parts.ts";
import { attributesFrom, type Known, withoutNothing } from "./known.ts";

const TEXTS: ReadonlySet<string> = new Set([
  "sub",
  "id",
  "email",
  "password",
  "password_hash",
  ...PERSON_FIELD_NAMES,
]);
const ANSWERS: ReadonlySet<string> = new Set(["email_verified", "disabled"]);
/** Columns for a key: `service:news` holds its `user_id_in_service`, `roles:news` roles with blanks between them. */
const KEYED = /^(service|roles|identity|attribute):(.+)$/u;

/** @throws CommandFailure with exit code 2 for a column that nothing can be made of. */
function checkColumns(names: readonly string[], known: Known): void {
  const isKnown = (name: string): boolean =>
    TEXTS.has(name) ||
    ANSWERS.has(name) ||
    known.attributes.has(name) ||
    KEYED.test(name) ||
    ["user_id", "app"].includes(name);
  const place = names.findIndex((name) => !isKnown(name));
  const problem =
    place >= 0
      ? `Column ${place + 1} has no name that an import knows`
      : names.includes("email")
        ? new Set(names).size < names.length && "Two columns have the same name"
        : "The first row must name the columns, and one of them email";
  if (problem !== false)
    throw new CommandFailure(`${problem}. See docs/operate/day-to-day/moving-from-csv.md.`, {
      code: "invalid_argument",
    });
}

/** What a cell says: `true`, `1`, `yes` and so on; anything else stays, and the import says what is wrong. */
function answer(text: string): boolean | string {
  if (/^(?:true|1|yes)$/iu.test(text)) return true;
  return /^(?:false|0|no)$/iu.test(text) ? false : text;
}

const number = (text: string): number | string => (/^\d{1,15}$/u.test(text) ? Number(text) : text);

/** A row as an import takes it. An empty cell says nothing. */
function accountOf(row: ReadonlyMap<string, string>, known: Known): unknown {
  const members: [string, unknown][] = [];
  const keyed: Readonly<Record<string, [string, string][]>> = {
    service: [],
    roles: [],
    identity: [],
    attribute: [],
  };
  for (const [column, text] of row) {
    if (text === "") continue;
    const [, kind = "", key = ""] = KEYED.exec(column) ?? [];
    if (kind !== "") keyed[kind]?.push([key, text]);
    else if (known.attributes.has(column)) keyed["attribute"]?.push([column, text]);
    else if (ANSWERS.has(column)) members.push([column, answer(text)]);
    else if (column === "user_id") members.push([column, number(text)]);
    else if (column === "app") members.push([column, { secret: text }]);
    else members.push([column, column === "sub" ? text.toLowerCase() : text]);
  }
  const { service = [], roles = [], identity = [], attribute = [] } = keyed;
  const services = [
    ...roles.map(([key]) => [key, null] as const),
    ...service.map(([key, text]) => [key, /^(?:true|yes)$/iu.test(text) ? null : number(text)] as const),
  ];
  return withoutNothing({
    ...Object.fromEntries(members),
    attributes: attributesFrom(known, attribute),
    services: services.length === 0 ? undefined : Object.fromEntries(services),
    roles:
      roles.length === 0
        ? undefined
        : Object.fromEntries(roles.map(([key, text]) => [key, text.split(/\s+/u)])),
    identities:
      identity.length === 0 ? undefined : identity.map(([provider, subject]) => ({ provider, subject })),
  });
}

interface Row {
  readonly record: readonly string[];
  readonly info: { readonly lines: number };
}

/** The stream keeps chunks until the parser takes them. */
async function* copiesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) yield Buffer.from(chunk);
}

/** The rows after the first. */
export async function* csvItems(chunks: AsyncIterable<Buffer>, known: Known): AsyncGenerator<FileItem> {
  const skipped: FileItem[] = [];
  const parser = parse({
    bom: true,
    info: true,
    max_record_size: MAX_PART_BYTES,
    relax_column_count: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    on_skip: (error: CsvError | undefined) =>
      void skipped.push({ line: Number(error?.["lines"] ?? 0), problem: "is not valid CSV" }),
  });
  // Whoever ends first ends the other; an error comes out of the rows.
  pipeline(Readable.from(copiesOf(chunks), { objectMode: false }), parser, () => undefined);
  let columns: readonly string[] | undefined;
  for await (const { record, info } of parser as AsyncIterable<Row>) {
    yield* skipped.splice(0);
    if (columns === undefined) {
      columns = record.map((name) => name.trim());
      checkColumns(columns, known);
      continue;
    }
    const { lines: line } = info;
    if (record.length !== columns.length)
      yield { line, problem: "has another number of cells than the first row" };
    // What is not UTF-8 was replaced when it was read.
    else if (record.some((cell) => cell.includes("\uFFFD"))) yield { line, problem: "is not UTF-8" };
    else
      yield { line, value: accountOf(new Map(record.map((cell, at) => [columns?.[at] ?? "", cell])), known) };
  }
  yield* skipped;
}
