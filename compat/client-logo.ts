/** The logo of a client, from the service's own address: pages load nothing from other hosts. */
import type { ClientInternals } from "../accounts/clients/client.ts";
import type { Step } from "./exchange.ts";

/** Seconds for which a browser keeps a logo whose digest is in the address: a year. */
const KEPT = 31_536_000;

/** 200 with the image, 304 if the browser has it already, 404 if there is none. */
export function clientLogo(clients: Pick<ClientInternals, "logo">): Step {
  return async ({ ctx, uid = "" }) => {
    ctx.set("X-Content-Type-Options", "nosniff");
    ctx.set("Content-Security-Policy", "default-src 'none'; sandbox");
    ctx.set("Cross-Origin-Resource-Policy", "same-origin");
    ctx.set("Referrer-Policy", "no-referrer");
    const logo = await clients.logo(uid);
    if (logo === undefined) {
      ctx.set("Cache-Control", "no-store");
      ctx.status = 404;
      ctx.type = "text/plain";
      ctx.body = "There is no logo here.\n";
      return;
    }
    ctx.status = 200;
    ctx.etag = logo.sha256;
    // An address with another digest is of an older logo: the browser asks again next time.
    const isNamed = ctx.querystring === logo.sha256;
    ctx.set("Cache-Control", isNamed ? `public, max-age=${KEPT}, immutable` : "public, no-cache");
    const known = ctx.get("If-None-Match").split(/\s*,\s*/);
    if (known.some((tag) => tag.replace(/^W\//, "") === `"${logo.sha256}"`)) {
      ctx.status = 304;
      return;
    }
    ctx.set("Content-Type", logo.type);
    ctx.body = Buffer.from(logo.bytes, "base64");
  };
}
