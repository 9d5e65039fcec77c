/**
 * Cuts a file into the texts of its accounts: lines, or the elements of a list in one JSON document. A text that is too long is
 * skipped as it is read, so memory does not depend on the file. A text is parsed as a whole, by `JSON.parse`: there `__proto__` is a
 * key like any other.
 */

import { isUtf8 } from "node:buffer";

/** The text of one account. */
export interface FilePart {
  /** Of its beginning, from 1. */
  readonly line: number;
  /** `undefined`: it is too long, or not UTF-8. */
  readonly text?: string;
  readonly problem?: string;
}

/** One account of a file. */
export type FileItem =
  /** As an import takes it. It is not checked. */
  | { readonly line: number; readonly value: unknown }
  | { readonly line: number; readonly problem: string }
  /** Something else than a person. */
  | { readonly line: number; readonly isLeftOut: true };

/** No account is longer: a thousand attributes have a tenth of it. */
export const MAX_PART_BYTES = 1_048_576;

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const TOO_LONG = `is longer than ${MAX_PART_BYTES / 1024} KiB`;

/** Collects the bytes of a part. */
class Collected {
  #chunks: Buffer[] = [];
  #size = 0;

  add(bytes: Buffer): void {
    this.#size += bytes.length;
    if (this.#size > MAX_PART_BYTES) this.#chunks = [];
    // A copy, because the next chunk overwrites this one.
    else this.#chunks.push(Buffer.from(bytes));
  }

  get isEmpty(): boolean {
    return this.#size === 0;
  }

  /** The part, and begins the next one. */
  take(line: number): FilePart {
    const [chunks, size] = [this.#chunks, this.#size];
    this.#chunks = [];
    this.#size = 0;
    if (size > MAX_PART_BYTES) return { line, problem: TOO_LONG };
    const bytes = Buffer.concat(chunks);
    if (!isUtf8(bytes)) return { line, problem: "is not UTF-8" };
    return { line, text: bytes.toString().replace(/^\uFEFF/u, "") };
  }
}

/** The lines that are not empty. They end with LF or CRLF. */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<FilePart> {
  const collected = new Collected();
  let line = 1;
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      collected.add(chunk.subarray(from, at));
      const part = collected.take(line);
      if (part.text?.trim() !== "") yield part;
      from = at + 1;
      line += 1;
    }
    collected.add(chunk.subarray(from));
  }
  const last = collected.take(line);
  if (last.text?.trim() !== "") yield last;
}

/** Whether the first character of the file begins a list. What was read is read again. */
export async function beginsList(
  chunks: AsyncIterable<Buffer>,
): Promise<{ readonly isList: boolean; readonly chunks: AsyncIterable<Buffer> }> {
  const read: Buffer[] = [];
  const rest = chunks[Symbol.asyncIterator]();
  let first: number | undefined;
  while (first === undefined) {
    const next = await rest.next();
    if (next.done === true) break;
    read.push(Buffer.from(next.value));
    first = next.value.find((byte) => !isBlank(byte));
  }
  async function* again(): AsyncGenerator<Buffer> {
    yield* read;
    yield* { [Symbol.asyncIterator]: () => rest };
  }
  return { isList: first === OPEN_LIST, chunks: again() };
}

/** JSON's white space, and the bytes of a byte order mark, which are in no JSON outside of texts. */
const isBlank = (byte: number): boolean =>
  byte === 0x20 || (byte >= 0x09 && byte <= RETURN) || byte === 0xef || byte === 0xbb || byte === 0xbf;

/** The longest key that can be the one that is looked for. */
const MAX_KEY_BYTES = 100;

/** What a scan of JSON knows of its place: no more than this, however deep and long the document is. */
class JsonPlace {
  depth = 0;
  #inText = false;
  #isEscaped = false;
  /** The text that was read last at the first level: a key, if a colon follows. */
  #key: number[] = [];
  #name: string | undefined;

  get isInText(): boolean {
    return this.#inText;
  }

  /** The key of the member at the first level that is being read. */
  get member(): string | undefined {
    return this.#name;
  }

  /** Moves past one byte. */
  pass(byte: number): void {
    if (this.#inText) return this.#passText(byte);
    if (byte === QUOTE) {
      this.#inText = true;
      if (this.depth === 1) this.#key = [];
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) this.depth += 1;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) this.depth -= 1;
    else if (this.depth === 1 && byte === COLON) this.#name = Buffer.from(this.#key).toString();
    else if (this.depth === 1 && byte === COMMA) this.#name = undefined;
  }

  #passText(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) {
      this.#inText = false;
      return;
    }
    if (this.depth === 1 && this.#key.length <= MAX_KEY_BYTES) this.#key.push(byte);
  }
}

/**
 * The elements of the list that is the document, or that its member `member` is.
 * @returns whether there is such a list: the value of the generator when it is done.
 */
export async function* elementsOf(
  chunks: AsyncIterable<Buffer>,
  member: string,
): AsyncGenerator<FilePart, boolean> {
  const place = new JsonPlace();
  const collected = new Collected();
  let line = 1;
  /** The line of the element that is being collected. */
  let since: number | undefined;
  /** The depth of the elements; 0 outside of the list. */
  let inside = 0;
  let isFound = false;
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at] ?? 0;
      if (byte === NEWLINE) line += 1;
      if (inside === 0) {
        const isHere =
          !place.isInText &&
          byte === OPEN_LIST &&
          (place.depth === 0 || (place.depth === 1 && place.member === member));
        place.pass(byte);
        if (isHere) {
          inside = place.depth;
          isFound = true;
        }
        continue;
      }
      const isBetween = !place.isInText && place.depth === inside;
      if (isBetween && (byte === COMMA || byte === CLOSE_LIST)) {
        if (since !== undefined) {
          collected.add(chunk.subarray(from, at));
          yield collected.take(since);
        }
        since = undefined;
        if (byte === CLOSE_LIST) inside = 0;
      } else if (since === undefined && !isBlank(byte)) {
        since = line;
        from = at;
      }
      place.pass(byte);
    }
    if (since !== undefined) collected.add(chunk.subarray(from));
  }
  if (since !== undefined) yield collected.take(since);
  if (place.depth !== 0 || place.isInText) yield { line, problem: "ends in the middle: the file was cut" };
  return isFound;
}
