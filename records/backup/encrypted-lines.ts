/**
 * The file of a backup: lines of text, encrypted in chunks with AES-256-GCM. No chunk can be changed, moved, left out,
 * added or taken from another file, because its number, and whether it is the last one, are part of its nonce, and each
 * file has a key of its own.
 *
 * - 16 bytes: the name and version of the format
 * - 32 bytes: random, the salt of the file's key
 * - 16 bytes: the tag of an empty text under the file's key, which shows whether a key belongs to the file
 * - chunks: 64 KiB of text, the last one less, each followed by its tag of 16 bytes
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { SignInError } from "../../core/errors.ts";

const FORMAT = Buffer.from("sign-in-backup\u00001", "latin1");
const SALT_BYTES = 32;
const TAG_BYTES = 16;
const HEADER_BYTES = FORMAT.length + SALT_BYTES + TAG_BYTES;
const CHUNK_BYTES = 65_536;
const CIPHER = "aes-256-gcm";

/** What a nonce is for: its first byte. */
const HEADER = 0;
const CHUNK = 1;
const LAST_CHUNK = 2;

function nonceOf(use: number, position = 0): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUInt8(use);
  nonce.writeBigUInt64BE(BigInt(position), 4);
  return nonce;
}

/** @param secret 32 bytes in Base64. */
function fileKey(secret: string, salt: Buffer): Buffer {
  return Buffer.from(hkdfSync("sha256", Buffer.from(secret, "base64"), salt, "sign-in-service backup", 32));
}

function encrypted(key: Buffer, nonce: Buffer, text: Buffer): Buffer {
  const cipher = createCipheriv(CIPHER, key, nonce);
  return Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]);
}

const headerTag = (key: Buffer): Buffer => encrypted(key, nonceOf(HEADER), Buffer.alloc(0));

/** Writes lines to a new file. */
export class LineWriter {
  readonly #file: FileHandle;
  readonly #key: Buffer;
  #pending: Buffer[] = [];
  #size = 0;
  #position = 0;

  private constructor(file: FileHandle, key: Buffer) {
    this.#file = file;
    this.#key = key;
  }

  /** @param secret 32 bytes in Base64. */
  static async open(file: FileHandle, secret: string): Promise<LineWriter> {
    const salt = randomBytes(SALT_BYTES);
    const key = fileKey(secret, salt);
    await file.appendFile(Buffer.concat([FORMAT, salt, headerTag(key)]));
    return new LineWriter(file, key);
  }

  /** Adds a line. @returns whether `flush` has something to do. */
  add(line: string): boolean {
    const bytes = Buffer.from(`${line}\n`);
    this.#pending.push(bytes);
    this.#size += bytes.length;
    return this.#size > CHUNK_BYTES;
  }

  /** Writes all chunks that are full and not the last one. */
  async flush(): Promise<void> {
    const text = Buffer.concat(this.#pending);
    let begin = 0;
    for (; text.length - begin > CHUNK_BYTES; begin += CHUNK_BYTES)
      await this.#write(CHUNK, text.subarray(begin, begin + CHUNK_BYTES));
    this.#pending = [text.subarray(begin)];
    this.#size = text.length - begin;
  }

  /** Writes the rest. The file is complete then. */
  async end(): Promise<void> {
    await this.flush();
    await this.#write(LAST_CHUNK, Buffer.concat(this.#pending));
  }

  async #write(use: number, text: Buffer): Promise<void> {
    await this.#file.appendFile(encrypted(this.#key, nonceOf(use, this.#position), text));
    this.#position += 1;
  }
}

const changed = (cause?: unknown): SignInError =>
  new SignInError("invalid_backup", "the backup is damaged: a part is missing or was changed", { cause });

/** The bytes at a position; fewer only at the end of the file. */
async function bytesAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  let size = 0;
  while (size < length) {
    const { bytesRead } = await file.read(bytes, size, length - size, position + size);
    if (bytesRead === 0) break;
    size += bytesRead;
  }
  return bytes.subarray(0, size);
}

/** Whether a file begins as {@link LineWriter} writes it. */
export async function isEncrypted(file: FileHandle): Promise<boolean> {
  return (await bytesAt(file, 0, FORMAT.length)).equals(FORMAT);
}

/** The key of a file. @throws SignInError `invalid_backup` if none of the secrets belongs to it, or it is another kind of file. */
async function openKey(file: FileHandle, secrets: readonly string[]): Promise<Buffer> {
  const header = await bytesAt(file, 0, HEADER_BYTES);
  if (!header.subarray(0, FORMAT.length).equals(FORMAT))
    throw new SignInError("invalid_backup", "this file is not a backup of this service");
  if (header.length < HEADER_BYTES) throw changed();
  const salt = header.subarray(FORMAT.length, FORMAT.length + SALT_BYTES);
  const tag = header.subarray(FORMAT.length + SALT_BYTES);
  const key = secrets
    .map((secret) => fileKey(secret, salt))
    .find((each) => timingSafeEqual(headerTag(each), tag));
  if (key === undefined)
    throw new SignInError(
      "invalid_backup",
      "the key does not belong to this backup, or the backup is damaged",
    );
  return key;
}

function decrypted(key: Buffer, nonce: Buffer, bytes: Buffer): Buffer {
  if (bytes.length < TAG_BYTES) throw changed();
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(0, bytes.length - TAG_BYTES)), decipher.final()]);
  } catch (cause) {
    throw changed(cause);
  }
}

/** The next lines of a file. */
interface ReadLines {
  readonly lines: readonly string[];
  /** How many bytes of the file have been read so far. */
  readonly bytes: number;
}

/**
 * Reads a file chunk by chunk. Every returned line is authentic, but only after the last one is the file known to be
 * complete.
 * @param secrets any of them may be the key.
 * @throws SignInError `invalid_backup` if the file is damaged, has another key, or is another kind of file.
 */
export async function* readLines(
  file: FileHandle,
  secrets: readonly string[],
): AsyncGenerator<ReadLines, void> {
  const { size } = await file.stat();
  const key = await openKey(file, secrets);
  let rest: Buffer = Buffer.alloc(0);
  let place = HEADER_BYTES;
  for (let position = 0, isLast = false; !isLast; position += 1) {
    const bytes = await bytesAt(file, place, CHUNK_BYTES + TAG_BYTES);
    place += bytes.length;
    isLast = place >= size;
    const text = decrypted(key, nonceOf(isLast ? LAST_CHUNK : CHUNK, position), bytes);
    const all = Buffer.concat([rest, text]);
    const end = all.lastIndexOf(0x0a) + 1;
    rest = all.subarray(end);
    if (end > 0) yield { lines: all.toString("utf8", 0, end - 1).split("\n"), bytes: place };
  }
  if (rest.length > 0) throw changed();
}
