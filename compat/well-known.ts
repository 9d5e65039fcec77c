/** Addresses at the root of a host, outside the deployments: what browsers and password managers look for there. */
import type { Context } from "koa";
import { relyingPartyOf } from "../accounts/factors/factors.ts";
import type { Configuration } from "../config/configuration.ts";
import { isHostOf, requestedHost } from "./forwarded.ts";

/** @returns whether the request was answered. */
type WellKnown = (ctx: Context) => boolean;

export function createWellKnown(configuration: Configuration): WellKnown {
  const pages: ReadonlyMap<string, WellKnown> = new Map([
    ["/.well-known/webauthn", relatedOrigins(configuration)],
    ["/.well-known/change-password", changePassword(configuration)],
  ]);
  return (ctx) => {
    if (ctx.method !== "GET" && ctx.method !== "HEAD") return false;
    // A proxy takes no prefix off what is outside the deployments.
    const [path = ""] = ctx.originalUrl.split("?", 1);
    return pages.get(path)?.(ctx) ?? false;
  };
}

/**
 * Passkeys of an earlier domain still work after a move, if the domain lists the origins that may use them
 * (WebAuthn Level 3 section 5.11). The earlier domain must lead here, whatever the deployments are.
 */
function relatedOrigins(configuration: Configuration): WellKnown {
  const { previousIds = [], origins = [] } = relyingPartyOf(configuration) ?? {};
  return (ctx) => {
    const [host = ""] = (ctx.req.headers.host ?? "").toLowerCase().split(":");
    if (!previousIds.includes(host)) return false;
    ctx.set("Cache-Control", "no-store");
    ctx.set("X-Content-Type-Options", "nosniff");
    ctx.body = { origins };
    return true;
  };
}

/**
 * Password managers lead people to the page where they change their password (W3C, A Well-Known URL for Changing
 * Passwords). Under another host name, the only host of the deployments counts.
 */
function changePassword({ deployments: { oauth2, openid }, proxy }: Configuration): WellKnown {
  const all = [openid, oauth2].filter((deployment) => deployment !== undefined);
  const isOneHost = new Set(all.map(({ host }) => host)).size === 1;
  return (ctx) => {
    const host = requestedHost(ctx.req, proxy);
    const named = all.find((deployment) => isHostOf(deployment, host)) ?? (isOneHost ? all[0] : undefined);
    if (named === undefined) return false;
    ctx.redirect(`${named.url}/account/password`);
    ctx.status = 303;
    ctx.set("Cache-Control", "no-store");
    return true;
  };
}
