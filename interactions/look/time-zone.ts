/** The time zone of the delivery console. Without scripts, a server does not learn that of the browser: the person chooses. */
import { readCookie, setCookie } from "../../core/cookies.ts";
import type { LanguageWishes } from "./language.ts";

const COOKIE = "sign_in_time_zone";
/** A year. */
const LIFETIME_SECONDS = 31_536_000;
const DEFAULT = "UTC";

/** The names of all time zones, UTC first. */
export function timeZones(): readonly string[] {
  return [DEFAULT, ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== DEFAULT)];
}

/** The zone of the form on the page, which sets the cookie; then that of the cookie; then UTC. */
export function chooseTimeZone(ctx: Omit<LanguageWishes, "acceptsLanguages">): string {
  const known = new Set(timeZones());
  const chosen = new URLSearchParams(ctx.querystring).get("zone");
  if (ctx.method === "GET" && chosen !== null && known.has(chosen)) {
    const { secure } = ctx.exchange.deployment;
    setCookie(ctx, { name: COOKIE, value: chosen, lifetimeSeconds: LIFETIME_SECONDS, secure });
    return chosen;
  }
  const kept = readCookie(ctx, COOKIE) ?? DEFAULT;
  return known.has(kept) ? kept : DEFAULT;
}
