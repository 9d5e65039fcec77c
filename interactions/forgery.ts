/** Is this form our own? Cross-site request forgery, and signing somebody in as somebody else. */
import { createHash, timingSafeEqual } from "node:crypto";

/** What the check needs of a Koa context. */
export interface FormOrigin {
  get(field: string): string;
  readonly state: { readonly deployment: { readonly url: string } };
}

/**
 * False when the browser says that another site sent the form. `Origin: null` says nothing: browsers send it for
 * our own forms too, since our pages are `no-referrer`; then `Sec-Fetch-Site` and the hidden field decide.
 */
export function isFromHere(ctx: FormOrigin): boolean {
  const site = ctx.get("Sec-Fetch-Site");
  if (!["", "same-origin", "none"].includes(site)) return false;
  const origin = ctx.get("Origin");
  return ["", "null", new URL(ctx.state.deployment.url).origin].includes(origin);
}

/** Constant time, whatever the lengths. An empty expectation matches nothing. */
export function isSameToken(expected: string, presented: string): boolean {
  return timingSafeEqual(digest(expected), digest(presented)) && expected !== "";
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
