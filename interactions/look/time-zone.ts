/** How the consoles show times: in which zone, and whether exactly. Without scripts, a server does not learn that of the browser: the person chooses. */
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

const EXACT_COOKIE = "sign_in_exact_times";

/** Whether this browser shows exact times in place of "2 hours ago". The link on the page sets the cookie, or takes it away. */
export function showsExactTimes(ctx: Omit<LanguageWishes, "acceptsLanguages">): boolean {
  const chosen = new URLSearchParams(ctx.querystring).get("times");
  if (ctx.method !== "GET" || (chosen !== "exact" && chosen !== "relative"))
    return readCookie(ctx, EXACT_COOKIE) === "1";
  const isExact = chosen === "exact";
  const { secure } = ctx.exchange.deployment;
  const lifetimeSeconds = isExact ? LIFETIME_SECONDS : 0;
  setCookie(ctx, { name: EXACT_COOKIE, value: isExact ? "1" : "", lifetimeSeconds, secure });
  return isExact;
}
