/** Reads the accounts of a file, whatever its format. */
import type { FileHandle } from "node:fs/promises";
import { CommandFailure } from "../program/command-failure.ts";
import { readLines } from "../../records/backup/encrypted-lines.ts";
import { isTooDeep } from "../../core/untrusted-json.ts";
import { readAuth0 } from "./auth0.ts";
import { csvItems } from "./csv.ts";
import { beginsList, elementsOf, type FileItem, type FilePart, linesOf } from "./file-parts.ts";
import { readKeycloak } from "./keycloak.ts";
import { type Known, UnusableAccount } from "./known.ts";

/** How a file is read. */
export interface FileFormat {
  /** The accounts. @throws CommandFailure for a file of another format. */
  readonly items: (chunks: AsyncIterable<Buffer>, known: Known) => AsyncIterable<FileItem>;
}

function parsed({ line, text, problem }: FilePart, read: (value: unknown) => unknown): FileItem {
  if (text === undefined) return { line, problem: problem ?? "" };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { line, problem: "is not valid JSON" };
  }
  if (isTooDeep(value)) return { line, problem: "is nested too deep" };
  try {
    const account = read(value);
    return account === undefined ? { line, isLeftOut: true } : { line, value: account };
  } catch (error) {
    if (error instanceof UnusableAccount) return { line, problem: error.message };
    throw error;
  }
}

async function* lines(chunks: AsyncIterable<Buffer>, read: (value: unknown) => unknown) {
  for await (const part of linesOf(chunks)) yield parsed(part, read);
}

async function* elements(
  chunks: AsyncIterable<Buffer>,
  member: string,
  read: (value: unknown) => unknown,
): AsyncGenerator<FileItem> {
  const parts = elementsOf(chunks, member);
  for (;;) {
    const next = await parts.next();
    if (next.done === true) {
      if (!next.value)
        throw new CommandFailure(`The file is not one JSON document with a list of ${member}.`, {
          code: "invalid_argument",
        });
      return;
    }
    yield parsed(next.value, read);
  }
}

/** The formats, by the word of `--format`. */
export const FORMATS = {
  ours: { items: (chunks) => lines(chunks, (value) => value) },
  keycloak: { items: (chunks, known) => elements(chunks, "users", (value) => readKeycloak(value, known)) },
  auth0: {
    async *items(chunks, known) {
      const read = (value: unknown): unknown => readAuth0(value, known);
      // An export has a user a line, the files of the bulk import are one list.
      const { isList, chunks: all } = await beginsList(chunks);
      yield* isList ? elements(all, "users", read) : lines(all, read);
    },
  },
  csv: { items: csvItems },
} as const satisfies Readonly<Record<string, FileFormat>>;

export type FormatName = keyof typeof FORMATS;

/** The bytes of a file, and how many were read. */
export interface FileBytes {
  readonly chunks: AsyncIterable<Buffer>;
  readonly done: () => number;
}

const CHUNK_BYTES = 65_536;

/** The bytes as they are. Each chunk is valid until the next one is read: memory that is used again needs no collector. */
export function plainBytes(file: FileHandle): FileBytes {
  let read = 0;
  const buffer = Buffer.alloc(CHUNK_BYTES);
  async function* chunks(): AsyncGenerator<Buffer> {
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, read);
      if (bytesRead === 0) return;
      read += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }
  return { chunks: chunks(), done: () => read };
}

/** The bytes of an encrypted export. @param secrets any of them may be its key. */
export function encryptedBytes(file: FileHandle, secrets: readonly string[]): FileBytes {
  let read = 0;
  async function* chunks(): AsyncGenerator<Buffer> {
    for await (const { lines: texts, bytes } of readLines(file, secrets)) {
      read = bytes;
      yield Buffer.from(`${texts.join("\n")}\n`);
    }
  }
  return { chunks: chunks(), done: () => read };
}
