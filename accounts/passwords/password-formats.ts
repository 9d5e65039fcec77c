/** Password hashes of other systems: their formats, the limits on their cost, and how to compare a password. */
import { pbkdf2Sync, scryptSync, timingSafeEqual } from "node:crypto";
import { createRequire } from "node:module";
import type * as Argon2 from "@node-rs/argon2";
import type * as Bcrypt from "@node-rs/bcrypt";

/** The native modules take 5 MB, so each is loaded with the first hash that needs it. */
const load = createRequire(import.meta.url);
const argon2 = (): typeof Argon2 => load("@node-rs/argon2") as typeof Argon2;
const bcrypt = (): typeof Bcrypt => load("@node-rs/bcrypt") as typeof Bcrypt;

/** A hash that can be parsed and whose cost is within the limits. */
interface ForeignHash {
  readonly algorithm: "argon2" | "bcrypt" | "scrypt" | "pbkdf2";
  /** Whether this is the password. Blocks the thread for as long as the hash costs. */
  readonly matches: (password: string) => boolean;
}

/** The most expensive hash takes a few seconds: above that, one sign-in would stop the others. */
const LIMITS = {
  /** KiB, and KiB times passes. */
  argon2: { memory: 1_048_576, work: 4_194_304, lanes: 16 },
  /** The exponent; the algorithm starts at 4. */
  bcrypt: { least: 4, most: 15 },
  /** Bytes, and blocks processed. */
  scrypt: { memory: 512 * 1024 * 1024, work: 2 ** 24, blocks: 32, lanes: 16 },
  pbkdf2: { iterations: 10_000_000 },
} as const;

/** Shorter digests can be guessed; no system writes longer ones. */
const DIGEST_BYTES = { least: 16, most: 128 } as const;
const MAX_SALT_BYTES = 256;
/** No format is longer. */
const MAX_TEXT = 1024;

/** The hash, or `undefined` if its format is unknown or it costs too much. */
export function readForeignHash(text: string): ForeignHash | undefined {
  if (text.length > MAX_TEXT) return undefined;
  for (const read of [readArgon2, readBcrypt, readScrypt, readPbkdf2]) {
    const hash = read(text);
    if (hash !== undefined) return hash;
  }
  return undefined;
}

/** `$argon2id$v=19$m=…,t=…,p=…$salt$hash`, also argon2i and argon2d, and version 16. */
function readArgon2(text: string): ForeignHash | undefined {
  if (!/^\$argon2(?:id|i|d)\$/u.test(text)) return undefined;
  const parameters = argon2Parameters(text);
  if (parameters === undefined) return undefined;
  const { memoryCost, timeCost, parallelism, outputLen } = parameters;
  const isAffordable =
    memoryCost <= LIMITS.argon2.memory &&
    memoryCost * timeCost <= LIMITS.argon2.work &&
    parallelism <= LIMITS.argon2.lanes &&
    hasDigestLength(outputLen);
  if (!isAffordable) return undefined;
  return { algorithm: "argon2", matches: (password) => argon2().verifySync(text, password) };
}

/** The parameters of an Argon2 hash; `undefined` if it can't be parsed. */
export function argon2Parameters(text: string): ReturnType<typeof Argon2.parseOptions> | undefined {
  try {
    return argon2().parseOptions(text);
  } catch {
    return undefined;
  }
}

/** `$2a$`, `$2b$` and `$2y$` are the same algorithm. `$2x$` is a broken one and is refused. */
function readBcrypt(text: string): ForeignHash | undefined {
  const cost = Number(/^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/u.exec(text)?.[1]);
  if (!(cost >= LIMITS.bcrypt.least && cost <= LIMITS.bcrypt.most)) return undefined;
  return { algorithm: "bcrypt", matches: (password) => bcrypt().verifySync(password, text) };
}

/** `$scrypt$ln=16,r=8,p=1$salt$hash`, as passlib writes it. */
function readScrypt(text: string): ForeignHash | undefined {
  const match = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([^$]*)\$([^$]+)$/u.exec(text);
  if (match === null) return undefined;
  const [log = 0, r = 0, p = 0] = match.slice(1, 4).map(Number);
  const [salt, digest] = match.slice(4).map((part) => fromBase64(part));
  const N = 2 ** log;
  const isAffordable =
    log >= 1 &&
    r >= 1 &&
    r <= LIMITS.scrypt.blocks &&
    p >= 1 &&
    p <= LIMITS.scrypt.lanes &&
    128 * N * r <= LIMITS.scrypt.memory &&
    N * r * p <= LIMITS.scrypt.work;
  if (!isAffordable || salt === undefined || digest === undefined || !hasDigestLength(digest.length))
    return undefined;
  const options = { N, r, p, maxmem: 128 * r * (N + p + 2) };
  return {
    algorithm: "scrypt",
    matches: (password) => timingSafeEqual(scryptSync(password, salt, digest.length, options), digest),
  };
}

/** `$pbkdf2-sha256$i$salt$hash` and `-sha512` as passlib writes them, `pbkdf2_sha256$i$salt$hash` as Django does. */
function readPbkdf2(text: string): ForeignHash | undefined {
  const passlib = /^\$pbkdf2-(sha256|sha512)\$(\d{1,8})\$([^$]*)\$([^$]+)$/u.exec(text);
  const match = passlib ?? /^pbkdf2_(sha256)\$(\d{1,8})\$([^$]+)\$([^$]+)$/u.exec(text);
  const [, name, count, saltText = "", digestText = ""] = match ?? [];
  const iterations = Number(count);
  if (name === undefined || !(iterations >= 1 && iterations <= LIMITS.pbkdf2.iterations)) return undefined;
  // Django uses the salt as text, without decoding it.
  const salt = passlib === null ? Buffer.from(saltText) : fromBase64(saltText);
  const digest = fromBase64(digestText);
  if (salt === undefined || digest === undefined || !hasDigestLength(digest.length)) return undefined;
  return {
    algorithm: "pbkdf2",
    matches: (password) =>
      timingSafeEqual(pbkdf2Sync(password, salt, iterations, digest.length, name), digest),
  };
}

function hasDigestLength(bytes: number): boolean {
  return bytes >= DIGEST_BYTES.least && bytes <= DIGEST_BYTES.most;
}

/** Base64 with or without padding; passlib writes `.` for `+`. */
function fromBase64(text: string): Buffer | undefined {
  if (!/^[A-Za-z0-9+/.]*={0,2}$/u.test(text)) return undefined;
  const bytes = Buffer.from(text.replaceAll(".", "+"), "base64");
  return bytes.length <= MAX_SALT_BYTES ? bytes : undefined;
}
