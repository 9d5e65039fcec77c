/** Names that may be any string, as parts of keys in Redis: two different ones are never the same part. */
import { hash } from "node:crypto";

/** Written as they are: printable, and nothing that divides parts or stands in front of a hash. */
const PLAIN = /^[!-9;-}]{1,255}$/;

/** The part of a key that stands for this name; without colons. */
export function part(name: string): string {
  // JSON tells apart what UTF-8 does not: halves of surrogate pairs.
  return PLAIN.test(name) ? name : `~${hash("sha256", JSON.stringify(name), "base64url")}`;
}

/** The id of an artifact: the end of its key. */
export function artifactId(model: string, key: string): string {
  return `${part(model)}:${part(key)}`;
}
