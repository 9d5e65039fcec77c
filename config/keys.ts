/** Which values are valid keys, and the file next to an SQLite database that holds `keys.secrets`. */
import { createPrivateKey, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { neededUser, SignInError } from "../core/errors.ts";
import { isPlainObject } from "./plain-data.ts";
import { writePrivateFile } from "./private-file.ts";
import { databaseFile } from "./storage-address.ts";

/** Bytes of each key in `keys.secrets`, for AES-256. */
const SECRET_BYTES = 32;

/** Whether this is 32 bytes in Base64 or Base64url, padded or not. */
export function isSecret(text: string): boolean {
  return /^(?:[A-Za-z0-9+/]{43}|[A-Za-z0-9_-]{43})=?$/u.test(text);
}

const MIN_RSA_BITS = 2048;
const CURVES: ReadonlySet<unknown> = new Set(["P-256", "P-384", "P-521", "Ed25519"]);

/**
 * Whether this is a private key that can sign ID tokens, as a JWK (RFC 7517): RSA of at least 2048 bits,
 * EC on P-256, P-384 or P-521, or Ed25519. `use` must be `sig` if it is set.
 */
export function isSigningKey(value: unknown): boolean {
  if (!isPlainObject(value)) return false;
  if (value["use"] !== undefined && value["use"] !== "sig") return false;
  if (value["kid"] !== undefined && (typeof value["kid"] !== "string" || value["kid"] === "")) return false;
  if (value["kty"] !== "RSA" && !CURVES.has(value["crv"])) return false;
  try {
    const key = createPrivateKey({ key: value, format: "jwk" });
    return value["kty"] !== "RSA" || (key.asymmetricKeyDetails?.modulusLength ?? 0) >= MIN_RSA_BITS;
  } catch {
    return false;
  }
}

const OTHERS = 0o077;
const MAX_BYTES = 65_536;

interface KeyFileOptions {
  /**
   * Whether to create a missing file. Only if there is no database yet: what an existing database keeps encrypted can be
   * decrypted only with the lost keys.
   */
  readonly mayCreate: boolean;
}

/** The key file of a storage: `PATH.keys` for `sqlite:PATH`. Other storages and databases in memory have none. */
export function keyFileOf(storage: string): string | undefined {
  const database = databaseFile(storage);
  return database === undefined ? undefined : `${database}.keys`;
}

/** A new key for `keys.secrets`: 32 random bytes in Base64. */
export function makeSecret(): string {
  return randomBytes(SECRET_BYTES).toString("base64");
}

function codeOf(error: unknown): string {
  const code: unknown = typeof error === "object" && error !== null ? Reflect.get(error, "code") : undefined;
  return typeof code === "string" ? code : "unknown error";
}

function cannot(what: string, path: string, cause: unknown): SignInError {
  return new SignInError(
    "unusable_secrets",
    `the key file ${path} can't be ${what} (${codeOf(cause)})${what === "made" ? neededUser(codeOf(cause), path) : ""}`,
    { cause },
  );
}

/** Parses a key file: a JSON array of strings, or one key per line. */
function parseKeys(text: string): readonly string[] | undefined {
  let keys: unknown = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  if (text.trimStart().startsWith("[")) {
    try {
      keys = JSON.parse(text);
    } catch {
      return undefined;
    }
  }
  if (!Array.isArray(keys) || keys.length === 0) return undefined;
  const secrets = keys.filter((key): key is string => typeof key === "string" && isSecret(key));
  return secrets.length === keys.length && new Set(secrets).size === secrets.length ? secrets : undefined;
}

async function readOpened(file: FileHandle, path: string): Promise<string[]> {
  const stats = await file.stat();
  if (!stats.isFile())
    throw new SignInError("unusable_secrets", `the key file ${path} is not a regular file`);
  // Windows has no such bits. There, the access list of the folder protects the file.
  if (process.platform !== "win32" && (stats.mode & OTHERS) !== 0) {
    throw new SignInError(
      "unusable_secrets",
      `the key file ${path} can be used by other users of this machine: chmod 600 it`,
    );
  }
  const text = stats.size <= MAX_BYTES ? await file.readFile("utf8") : "";
  const keys = parseKeys(text);
  if (keys === undefined) {
    throw new SignInError(
      "unusable_secrets",
      `the key file ${path} does not hold different keys of 32 bytes in Base64, one a line`,
    );
  }
  return [...keys];
}

/**
 * The keys of a file, or `undefined` if there is no file.
 * @throws SignInError `unusable_secrets` if it is malformed, can be used by other users, or can't be read.
 */
export async function readKeyFile(path: string): Promise<string[] | undefined> {
  let file: FileHandle;
  try {
    // Without O_NONBLOCK, opening a pipe would wait forever for its other end.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw cannot("read", path, error);
  }
  try {
    return await readOpened(file, path);
  } catch (error) {
    throw error instanceof SignInError ? error : cannot("read", path, error);
  } finally {
    await file.close();
  }
}

/** Creates the file with one new key, unless another process is faster. */
async function makeFile(path: string): Promise<void> {
  try {
    await writePrivateFile(path, `${makeSecret()}\n`, { place: "link" });
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

/**
 * Reads `keys.secrets` from a key file. Creates a missing file with one key and mode 0600. Any number of processes can call
 * this at the same time, and all get the same keys.
 *
 * @param path the key file, see {@link keyFileOf}.
 * @returns at least one key of 32 bytes in Base64. The first encrypts.
 * @throws SignInError `unusable_secrets` if the file is missing and must not be created, is malformed, is readable by other users, or
 * can't be read or written. No message contains the content of the file.
 */
export async function readOrMakeKeyFile(path: string, { mayCreate }: KeyFileOptions): Promise<string[]> {
  const found = await readKeyFile(path);
  if (found !== undefined) return found;
  if (mayCreate) {
    try {
      await makeFile(path);
    } catch (error) {
      throw cannot("made", path, error);
    }
    const made = await readKeyFile(path);
    if (made !== undefined) return made;
  }
  throw new SignInError(
    "unusable_secrets",
    `the key file ${path} is missing: what the database keeps encrypted opens only with its keys, restore it from a backup`,
  );
}
