/** Sealing: values that must be readable again are stored encrypted with AES-256-GCM. */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";
import { SignInError } from "./errors.ts";

const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Encrypts with a 32-byte key. `context` binds the result to its purpose: with another context it can't be decrypted.
 */
export function encrypt(key: KeyObject, context: string, text: string): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, iv).setAAD(Buffer.from(context));
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), body]).toString("base64url");
}

/** The text; `undefined` if the key, the context or the sealed text is wrong. */
export function decrypt(key: KeyObject, context: string, sealed: string): string | undefined {
  const raw = Buffer.from(sealed, "base64url");
  // Node skips what is not Base64url, so one text could be written in many ways.
  if (raw.length < IV_BYTES + TAG_BYTES || raw.toString("base64url") !== sealed) return undefined;
  const decipher = createDecipheriv("aes-256-gcm", key, raw.subarray(0, IV_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(context)).setAuthTag(raw.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  try {
    return decipher.update(raw.subarray(IV_BYTES + TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
  } catch {
    return undefined;
  }
}

/** A 32-byte key for one purpose, derived from a secret (RFC 5869). Not a `Buffer`, which Node converts at each use. */
export function deriveKey(secret: string | Buffer, purpose: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync("sha256", secret, "", purpose, 32)));
}

/** A keyed digest, Base64url. */
export function hmac(key: KeyObject, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}

/** The block of SHA-256, in bytes. */
const BLOCK = 64;

/**
 * The same for many short texts in a row (RFC 2104, section 2). It makes no object of OpenSSL for each, which takes longer than the
 * hash and is freed late. Don't keep the function: its closure holds the key in readable form.
 */
export function hmacOfMany(key: KeyObject): (text: string) => string {
  const exported = key.export();
  const secret = exported.length > BLOCK ? hash("sha256", exported, "buffer") : exported;
  const inner = Buffer.alloc(BLOCK, 0x36);
  const outer = Buffer.alloc(BLOCK + 32, 0x5c);
  for (let at = 0; at < secret.length; at += 1) {
    const byte = secret.readUInt8(at);
    inner.writeUInt8(0x36 ^ byte, at);
    outer.writeUInt8(0x5c ^ byte, at);
  }
  return (text) => {
    const message = Buffer.allocUnsafe(BLOCK + 3 * text.length);
    inner.copy(message);
    const end = BLOCK + message.write(text, BLOCK);
    outer.write(hash("sha256", message.subarray(0, end), "binary"), BLOCK, "binary");
    return hash("sha256", outer, "base64url");
  };
}

/** Whether two texts are the same, in a time that does not reveal where they differ. */
export function isEqual(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)];
  return first.length === second.length && timingSafeEqual(first, second);
}

/** Signs with the first key and verifies with all, so that keys can be rotated. */
export interface Signer {
  /** 43 characters, Base64url. */
  sign(text: string): string;
  /** Whether one of the keys made the signature. */
  verify(text: string, signature: string): boolean;
}

/** @param keys at least one. */
export function createSigner(keys: readonly KeyObject[]): Signer {
  const [first] = keys;
  if (first === undefined) throw new TypeError("keys: at least one key");
  return {
    sign: (text) => hmac(first, text),
    verify: (text, signature) => keys.some((key) => isEqual(hmac(key, text), signature)),
  };
}

/** Encrypts with the first of several keys, and decrypts with any. */
export interface Encrypter {
  /** @param context as for {@link encrypt}. */
  encrypt(context: string, text: string): string;
  /** `undefined` unless one of the keys has encrypted it in this context. */
  decrypt(context: string, sealed: string): string | undefined;
}

export function createEncrypter(keys: readonly KeyObject[]): Encrypter {
  const [first] = keys;
  if (first === undefined) throw new TypeError("keys: at least one key");
  return {
    encrypt: (context, text) => encrypt(first, context, text),
    decrypt: (context, sealed) =>
      keys.map((key) => decrypt(key, context, sealed)).find((text) => text !== undefined),
  };
}

/** Seals with the first key and opens with all, so that keys can be rotated. */
export interface Sealer {
  /** What names the secrets, in their order: keyed hashes of twelve hexadecimal digits, which reveal nothing of them. */
  readonly ids: readonly string[];
  seal(context: string, text: string): string;
  /** @throws SignInError `unusable_secrets` when no key opens it. */
  open(context: string, sealed: string): string;
  /**
   * Seals again what a key other than the first has sealed. @returns the same text if the first key opens it.
   * @throws SignInError `unusable_secrets` when no key opens it.
   */
  reseal(context: string, sealed: string): string;
  /** A keyed hash of a text that holds secrets, to compare it with others. */
  hash(text: string): string;
}

/** The id of the secret that a key was derived from. */
const idOf = (key: KeyObject): string => createHmac("sha256", key).update("id").digest("hex").slice(0, 12);

/**
 * @param secrets `keys.secrets` of the configuration: 32 bytes each, Base64.
 * @param sealing the index of the one that seals. Default: the first.
 */
export function createSealer(secrets: readonly string[], sealing: number = 0): Sealer {
  const raw = secrets.map((each) => Buffer.from(each, "base64"));
  const keys = raw.map((each) => deriveKey(each, "sign-in-service sealing"));
  const first = keys[sealing];
  const secret = raw[sealing];
  if (first === undefined || secret === undefined)
    throw new SignInError("unusable_secrets", "keys.secrets is empty");
  const hashing = deriveKey(secret, "sign-in-service hashes");
  function open(context: string, sealed: string): string {
    for (const key of keys) {
      const text = decrypt(key, context, sealed);
      if (text !== undefined) return text;
    }
    throw new SignInError(
      "unusable_secrets",
      `no key of keys.secrets opens what is sealed for ${context.split(" ")[0]}`,
    );
  }
  return {
    ids: raw.map((each) => idOf(deriveKey(each, "sign-in-service ids of secrets"))),
    seal: (context, text) => encrypt(first, context, text),
    open,
    hash: (text) => hmac(hashing, text),
    reseal(context, sealed) {
      if (decrypt(first, context, sealed) !== undefined) return sealed;
      return encrypt(first, context, open(context, sealed));
    },
  };
}
