/**
 * Password hashes of other systems: their formats, the limits on their cost, and how to compare a password. A hash is one
 * text; `docs/operate/day-to-day/moving.md` lists the formats.
 */
import {
  createCipheriv,
  hash as digestOf,
  pbkdf2Sync,
  scryptSync,
  type ScryptOptions,
  timingSafeEqual,
} from "node:crypto";
import { createRequire } from "node:module";
import type * as Argon2 from "@node-rs/argon2";
import type * as Bcrypt from "@node-rs/bcrypt";

/** The native modules take 5 MB, so each is loaded with the first hash that needs it. */
const load = createRequire(import.meta.url);
const argon2 = (): typeof Argon2 => load("@node-rs/argon2") as typeof Argon2;
const bcrypt = (): typeof Bcrypt => load("@node-rs/bcrypt") as typeof Bcrypt;

/** A hash that can be parsed and whose cost is within the limits. */
interface ForeignHash {
  readonly algorithm: "argon2" | "bcrypt" | "scrypt" | "pbkdf2" | "firebase-scrypt" | "salted-sha";
  /** Whether this is the password. Blocks the thread for as long as the hash costs. */
  readonly matches: (password: string) => boolean;
}

/** Above these limits one sign-in would stop the others for seconds (decisions.md, Imported hashes). */
const LIMITS = {
  /** KiB. */
  argon2: { memory: 262_144, passes: 10, lanes: 16 },
  /** The exponent; the algorithm starts at 4. */
  bcrypt: { least: 4, most: 14 },
  /** Bytes. */
  scrypt: { memory: 128 * 1024 * 1024, blocks: 32, lanes: 16 },
  pbkdf2: { rounds: 2_000_000 },
} as const;

/** Shorter digests can be guessed; no system writes longer ones. */
const DIGEST_BYTES = { least: 16, most: 128 } as const;
const MAX_SALT_BYTES = 256;
/** No format is longer. */
const MAX_TEXT = 1024;

/** What is wrong with a text that is no hash that can be read. */
export const HASH_PROBLEM =
  "must be an Argon2, bcrypt, scrypt, PBKDF2, Firebase scrypt or salted SHA-2 hash of a cost that this service accepts";

/** The hash, or `undefined` if its format is unknown or it costs too much. */
export function readForeignHash(text: string): ForeignHash | undefined {
  if (text.length > MAX_TEXT) return undefined;
  for (const read of READERS) {
    const hash = read(text);
    if (hash !== undefined) return hash;
  }
  return undefined;
}

/** What Django and Spring Security write in front of a hash of another format. */
const PREFIXES = {
  argon2: /^(?:\{argon2(?:@SpringSecurity_v5_8)?\}|argon2(?=\$argon2))/u,
  bcrypt: /^(?:\{bcrypt\}|bcrypt\$(?=\$2))/u,
  scrypt: /^\{scrypt(?:@SpringSecurity_v5_8)?\}/u,
} as const;

/** `$argon2id$v=19$m=…,t=…,p=…$salt$hash`, also argon2i and argon2d, and version 16. */
function readArgon2(given: string): ForeignHash | undefined {
  const text = given.replace(PREFIXES.argon2, "");
  if (!/^\$argon2(?:id|i|d)\$/u.test(text)) return undefined;
  const parameters = argon2Parameters(text);
  if (parameters === undefined) return undefined;
  const { memoryCost, timeCost, parallelism, outputLen } = parameters;
  const isAffordable =
    memoryCost <= LIMITS.argon2.memory &&
    timeCost <= LIMITS.argon2.passes &&
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
function readBcrypt(given: string): ForeignHash | undefined {
  const text = given.replace(PREFIXES.bcrypt, "");
  const cost = Number(/^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/u.exec(text)?.[1]);
  if (!(cost >= LIMITS.bcrypt.least && cost <= LIMITS.bcrypt.most)) return undefined;
  return { algorithm: "bcrypt", matches: (password) => bcrypt().verifySync(password, text) };
}

/** The cost of a scrypt hash, and what it was made with. */
interface ScryptParts {
  readonly N: number;
  readonly r: number;
  readonly p: number;
  readonly salt: Buffer | undefined;
  readonly digest: Buffer | undefined;
}

/**
 * `$scrypt$ln=16,r=8,p=1$salt$hash` as passlib writes it, `scrypt$N$salt$r$p$hash` as Django does, and `$e0801$salt$hash`, with the
 * parameters in hexadecimal, as Spring Security does.
 */
function scryptParts(given: string): ScryptParts | undefined {
  const passlib = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([^$]*)\$([^$]+)$/u.exec(given);
  if (passlib !== null) {
    const [log = 0, r = 0, p = 0] = passlib.slice(1, 4).map(Number);
    const [salt, digest] = passlib.slice(4).map((part) => fromBase64(part));
    return { N: 2 ** log, r, p, salt, digest };
  }
  const django = /^scrypt\$(\d{1,9})\$([^$]+)\$(\d{1,3})\$(\d{1,3})\$([^$]+)$/u.exec(given);
  if (django !== null) {
    const [, N, salt = "", r, p, digest = ""] = django;
    // Django uses the salt as text, without decoding it.
    return { N: Number(N), r: Number(r), p: Number(p), salt: Buffer.from(salt), digest: fromBase64(digest) };
  }
  const spring = /^\$([\da-f]{5,6})\$([^$]+)\$([^$]+)$/u.exec(given.replace(PREFIXES.scrypt, ""));
  if (spring === null) return undefined;
  const parameters = Number.parseInt(spring[1] ?? "", 16);
  const [salt, digest] = spring.slice(2).map((part) => fromBase64(part));
  return { N: 2 ** (parameters >> 16), r: (parameters >> 8) & 0xff, p: parameters & 0xff, salt, digest };
}

function readScrypt(text: string): ForeignHash | undefined {
  const parts = scryptParts(text);
  if (parts === undefined) return undefined;
  const { N, r, p, salt, digest } = parts;
  const options = scryptOptions(N, r, p);
  if (options === undefined || salt === undefined || digest === undefined) return undefined;
  if (!hasDigestLength(digest.length)) return undefined;
  return {
    algorithm: "scrypt",
    matches: (password) => timingSafeEqual(scryptSync(password, salt, digest.length, options), digest),
  };
}

/** `undefined` if it costs too much, or is no cost. */
function scryptOptions(N: number, r: number, p: number): ScryptOptions | undefined {
  const { blocks, lanes, memory } = LIMITS.scrypt;
  if (!(N >= 2 && Number.isInteger(Math.log2(N)) && r >= 1 && r <= blocks && p >= 1 && p <= lanes))
    return undefined;
  return 128 * N * r <= memory ? { N, r, p, maxmem: 128 * r * (N + p + 2) } : undefined;
}

/**
 * `$fbscrypt$v=1,n=14,r=8,p=1,ss=…,sk=…$salt$hash`, as GoTrue writes the scrypt of Firebase, which encrypts the signer key `sk` of the
 * project with what scrypt makes of the password, the salt and the salt separator `ss`.
 */
function readFirebase(text: string): ForeignHash | undefined {
  const match =
    /^\$fbscrypt\$v=1,n=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})(?:,ss=([^,$]*))?,sk=([^,$]+)\$([^$]+)\$([^$]+)$/u.exec(
      text,
    );
  const [log = 0, r = 0, p = 0] = (match?.slice(1, 4) ?? []).map(Number);
  const [separator, signer, salt, digest] = (match ?? []).slice(4).map((part) => fromBase64(part ?? ""));
  const options = scryptOptions(2 ** log, r, p);
  if (options === undefined || !separator || !signer || !salt || !digest) return undefined;
  if (!hasDigestLength(digest.length) || signer.length !== digest.length) return undefined;
  return {
    algorithm: "firebase-scrypt",
    matches(password) {
      const key = scryptSync(password, Buffer.concat([salt, separator]), 32, options);
      return timingSafeEqual(createCipheriv("aes-256-ctr", key, Buffer.alloc(16)).update(signer), digest);
    },
  };
}

/** Bytes of one block of PBKDF2: those of its digest. */
const BLOCK_BYTES: Readonly<Record<string, number>> = { sha1: 20, sha256: 32, sha512: 64 };

interface Pbkdf2Parts {
  readonly digest: string;
  readonly rounds: number;
  readonly salt: Buffer | undefined;
  readonly key: Buffer | undefined;
}

/** What the encoders of Spring Security are built with: their texts do not say it. */
const SPRING_PBKDF2: Readonly<Record<string, { digest: string; rounds: number; salt: number }>> = {
  "{pbkdf2@SpringSecurity_v5_8}": { digest: "sha256", rounds: 310_000, salt: 16 },
  "{pbkdf2}": { digest: "sha1", rounds: 185_000, salt: 8 },
};

/**
 * `$pbkdf2-sha256$rounds$salt$hash` as passlib writes it (`i=rounds,l=length` as in PHC strings; `$pbkdf2$` is SHA-1),
 * `pbkdf2_sha256$rounds$salt$hash` as Django does, and the two of Spring Security.
 */
function pbkdf2Parts(text: string): Pbkdf2Parts | undefined {
  const passlib =
    /^\$pbkdf2(?:-(sha1|sha256|sha512))?\$(?:i=)?(\d{1,8})(?:,l=\d{1,3})?\$([^$]*)\$([^$]+)$/u.exec(text);
  if (passlib !== null) {
    const [, digest = "sha1", rounds, salt = "", key = ""] = passlib;
    return { digest, rounds: Number(rounds), salt: fromBase64(salt), key: fromBase64(key) };
  }
  const django = /^pbkdf2_(sha1|sha256)\$(\d{1,8})\$([^$]+)\$([^$]+)$/u.exec(text);
  if (django !== null) {
    const [, digest = "", rounds, salt = "", key = ""] = django;
    return { digest, rounds: Number(rounds), salt: Buffer.from(salt), key: fromBase64(key) };
  }
  const [, encoder = "", hex = ""] = /^(\{[\w@.]+\})((?:[\da-f]{2})+)$/u.exec(text) ?? [];
  const spring = Object.hasOwn(SPRING_PBKDF2, encoder) ? SPRING_PBKDF2[encoder] : undefined;
  if (spring === undefined) return undefined;
  const bytes = Buffer.from(hex, "hex");
  return { ...spring, salt: bytes.subarray(0, spring.salt), key: bytes.subarray(spring.salt) };
}

function readPbkdf2(text: string): ForeignHash | undefined {
  const { digest = "", rounds = 0, salt, key } = pbkdf2Parts(text) ?? {};
  if (!(rounds >= 1 && rounds <= LIMITS.pbkdf2.rounds)) return undefined;
  if (salt === undefined || key === undefined || !hasDigestLength(key.length)) return undefined;
  // Each block of a longer key costs all rounds again, and the first one decides.
  const first = key.subarray(0, BLOCK_BYTES[digest]);
  return {
    algorithm: "pbkdf2",
    matches: (password) => timingSafeEqual(pbkdf2Sync(password, salt, rounds, first.length, digest), first),
  };
}

/** A salted SHA-256 or SHA-512, and in which order salt and password were hashed. */
interface SaltedSha {
  readonly name: "sha256" | "sha512";
  readonly order: "salt-password" | "password-salt";
  readonly salt: Buffer;
}

const SHA = String.raw`(sha256|sha512)\$o=(salt-password|password-salt)\$([A-Za-z0-9+/]*={0,2})`;
const PLAIN_SHA = new RegExp(String.raw`^\$salted-${SHA}\$([^$]+)$`, "u");
const WRAPPED_SHA = new RegExp(String.raw`^\$wrapped-${SHA}(\$argon2id\$.+)$`, "u");

function saltedSha(parts: readonly (string | undefined)[]): SaltedSha | undefined {
  const [, name, order, salt = ""] = parts;
  const bytes = fromBase64(salt);
  // Without a salt, equal passwords would have equal hashes, and tables of them exist.
  if (bytes === undefined || bytes.length === 0) return undefined;
  return { name: name as SaltedSha["name"], order: order as SaltedSha["order"], salt: bytes };
}

function shaOf({ name, order, salt }: SaltedSha, password: string): Buffer {
  const text = Buffer.from(password);
  return digestOf(name, Buffer.concat(order === "salt-password" ? [salt, text] : [text, salt]), "buffer");
}

/** LDAP's `{SSHA256}` and `{SSHA512}`: the digest of password and salt, and the salt, as one text. */
function fromLdap(text: string): string {
  const [, bits, base64 = ""] = /^\{SSHA(256|512)\}(.+)$/iu.exec(text) ?? [];
  if (bits === undefined) return text;
  const bytes = fromBase64(base64) ?? Buffer.alloc(0);
  const length = Number(bits) / 8;
  const [digest, salt] = [bytes.subarray(0, length), bytes.subarray(length)];
  return `$salted-sha${bits}$o=password-salt$${salt.toString("base64")}$${digest.toString("base64")}`;
}

/** `$salted-sha256$o=salt-password$salt$hash`, also `sha512` and `o=password-salt`; `{SSHA256}…` and `{SSHA512}…` of LDAP. */
function plainSha(text: string): { readonly sha: SaltedSha; readonly digest: Buffer } | undefined {
  const match = PLAIN_SHA.exec(fromLdap(text));
  const sha = match === null ? undefined : saltedSha(match);
  const digest = fromBase64(match?.[4] ?? "");
  if (sha === undefined || digest === undefined) return undefined;
  return digest.length === BLOCK_BYTES[sha.name] ? { sha, digest } : undefined;
}

/** Whether the hash is so cheap to guess that it must not stay as it is. */
export const isSaltedSha = (hash: string | null | undefined): boolean =>
  typeof hash === "string" && plainSha(hash) !== undefined;

/**
 * The form in which a salted SHA is stored until the next sign-in: what it knows of the password is hashed with Argon2id.
 * @param hash hashes a text with Argon2id.
 * @returns `undefined` if it is no salted SHA.
 */
export async function wrappedSha(
  text: string,
  hash: (text: string) => Promise<string>,
): Promise<string | undefined> {
  const plain = plainSha(text);
  if (plain === undefined) return undefined;
  const { name, order, salt } = plain.sha;
  return `$wrapped-${name}$o=${order}$${salt.toString("base64")}${await hash(plain.digest.toString("base64"))}`;
}

/** The Argon2id hash that this is, or that wraps it; else the text. */
export function argon2idPart(hash: string): string {
  return hash.startsWith("$wrapped-") ? hash.slice(hash.indexOf("$argon2id$")) : hash;
}

function readSaltedSha(text: string): ForeignHash | undefined {
  const plain = plainSha(text);
  if (plain !== undefined) {
    const { sha, digest } = plain;
    return {
      algorithm: "salted-sha",
      matches: (password) => timingSafeEqual(shaOf(sha, password), digest),
    };
  }
  const match = WRAPPED_SHA.exec(text);
  const sha = match === null ? undefined : saltedSha(match);
  const outer = readArgon2(argon2idPart(text));
  if (sha === undefined || outer === undefined) return undefined;
  return { ...outer, matches: (password) => outer.matches(shaOf(sha, password).toString("base64")) };
}

const READERS = [readArgon2, readBcrypt, readScrypt, readPbkdf2, readFirebase, readSaltedSha] as const;

function hasDigestLength(bytes: number): boolean {
  return bytes >= DIGEST_BYTES.least && bytes <= DIGEST_BYTES.most;
}

/** Base64 with or without padding; passlib writes `.` for `+`. */
function fromBase64(text: string): Buffer | undefined {
  if (!/^[A-Za-z0-9+/.]*={0,2}$/u.test(text)) return undefined;
  const bytes = Buffer.from(text.replaceAll(".", "+"), "base64");
  return bytes.length <= MAX_SALT_BYTES ? bytes : undefined;
}
