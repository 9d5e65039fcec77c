/** A script of Redis. */
import { hash } from "node:crypto";

/** A script and the name under which Redis remembers it. */
export interface Script {
  readonly text: string;
  readonly sha: string;
}

/** A script of these parts, one after the other. */
export function script(...parts: readonly string[]): Script {
  const text = parts.join("\n");
  return { text, sha: hash("sha1", text) };
}
