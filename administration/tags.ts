/** The entity tag of a record (RFC 9110): a change says with it which state it is meant for. */
import type { KeyObject } from "node:crypto";
import { hmac, isEqual } from "../core/sealing.ts";
import { canonicalJson } from "../core/untrusted-json.ts";

/** Raised when the same record gets another form, so that no tag of before is taken for one of today. */
const FORM = 1;

/**
 * The tag of what somebody reads of a record. An HMAC, because a hash would let a token that is limited to a service try out what it
 * may not see.
 *
 * @param view what is read: the operations, and the service if it is the view of one.
 */
export function tagOf(key: KeyObject, view: readonly string[], record: unknown): string {
  return `"${hmac(key, canonicalJson(["tag", FORM, view, record]))}"`;
}

/** Whether the `If-Match` of a request names the tag. `*` means any. A weak tag matches nothing. */
export function matches(ifMatch: string, tag: string): boolean {
  if (ifMatch.trim() === "*") return true;
  return [...ifMatch.matchAll(/(?<weak>W\/)?(?<strong>"[^"]*")/gu)].some(
    ({ groups: { weak, strong } = {} }) => weak === undefined && isEqual(strong ?? "", tag),
  );
}
