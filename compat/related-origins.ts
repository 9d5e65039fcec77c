/**
 * Passkeys that were made for an earlier domain still work after a move, if that domain says which origins may use them:
 * `https://{domain}/.well-known/webauthn` (WebAuthn Level 3 section 5.11). The earlier domain must lead here, whatever
 * the deployments are.
 */
import type { Context } from "koa";
import { relyingPartyOf } from "../accounts/factors/factors.ts";
import type { Configuration } from "../config/configuration.ts";

const PATH = "/.well-known/webauthn";

/** @returns whether the request was answered. */
export function createRelatedOrigins(configuration: Configuration): (ctx: Context) => boolean {
  const { previousIds = [], origins = [] } = relyingPartyOf(configuration) ?? {};
  return (ctx) => {
    if (previousIds.length === 0 || ctx.path !== PATH || !["GET", "HEAD"].includes(ctx.method)) return false;
    const [host = ""] = (ctx.req.headers.host ?? "").toLowerCase().split(":");
    if (!previousIds.includes(host)) return false;
    ctx.set("Cache-Control", "no-store");
    ctx.set("X-Content-Type-Options", "nosniff");
    ctx.body = { origins };
    return true;
  };
}
