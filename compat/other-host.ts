/**
 * Another host name, such as one of a former time or an IP address: cookies belong to one host, so a sign-in that begins
 * there could not end at the address of the deployment. People are led to that address first.
 */
import type { Context } from "koa";
import type { EndpointName } from "../config/deployments.ts";
import type { Configuration } from "../config/configuration.ts";
import { hasCookie, setCookie } from "../core/cookies.ts";
import { securityHeaders } from "../core/security-headers.ts";
import { cookieName } from "../provider/sessions/cookies.ts";
import { forwardedHost, hostNameOf, requestedHost } from "./forwarded.ts";
import type { Destination } from "./dispatch.ts";

/** The endpoints that people come to, by what `Accept` must prefer: pages are HTML unless it prefers JSON. */
const PEOPLE: ReadonlyMap<EndpointName, readonly string[]> = new Map([
  ["authorize", ["json", "html"]],
  ["resume", ["json", "html"]],
  ["logout", ["json", "html"]],
  ["logoutSuccess", ["html", "json"]],
  ["interaction", ["html", "json"]],
  ["confirm", ["html", "json"]],
  ["account", ["html", "json"]],
]);

/** A proxy that sends its upstream's name leads here again at once. */
const LIFETIME_SECONDS = 10;

/** @returns whether the request was answered with a redirect. Nothing is stored before it. */
export type LeadToHost = (ctx: Context, destination: Destination) => boolean;

export function createLeadToHost(
  configuration: Configuration,
  onWarning: (text: string) => void,
): LeadToHost {
  const { deployments, proxy, stripPrefix } = configuration;
  const name = cookieName(configuration, "moved");
  const known = new Set(
    [deployments.oauth2, deployments.openid].flatMap((each) =>
      each === undefined ? [] : [new URL(each.url).hostname],
    ),
  );
  let hasWarned = false;

  const isOther = (host: string): boolean => {
    const hostName = hostNameOf(host);
    return hostName !== undefined && !known.has(hostName);
  };

  /** Behind a proxy, only that proxy knows which name the browser has asked for. */
  function isAskedElsewhere({ req }: Context): boolean {
    if (proxy === false) return isOther(requestedHost(req, proxy));
    const host = forwardedHost(req, proxy);
    if (host !== undefined) return isOther(host);
    if (!hasWarned && isOther(requestedHost(req, proxy))) {
      hasWarned = true;
      onWarning(
        "a page was requested with a Host of no deployment and without X-Forwarded-Host: people who use another host name are led to the right one only if the proxy sends X-Forwarded-Host",
      );
    }
    return false;
  }

  return (ctx, { route: { endpoint, deployment }, isAmbiguous }) => {
    const types = PEOPLE.get(endpoint);
    if (ctx.method !== "GET" || isAmbiguous || types === undefined) return false;
    if (ctx.accepts([...types]) !== "html" || hasCookie(ctx, name) || !isAskedElsewhere(ctx)) return false;
    setCookie(ctx, { name, value: "", lifetimeSeconds: LIFETIME_SECONDS, secure: deployment.secure });
    ctx.set("Location", new URL(deployment.url).origin + stripPrefix + ctx.originalUrl);
    ctx.status = 303;
    ctx.body = "";
    // Nothing is said about https at a host of somebody else.
    securityHeaders(ctx, { secure: false });
    return true;
  };
}
