/** The files that pages load: nothing comes from other hosts. */
import type { Context } from "koa";
import type { PageScript } from "../provider/pages.ts";
import type { ClientInternals } from "../accounts/clients/client.ts";
import type { Handler } from "./exchange.ts";

/** How long a browser keeps a file whose digest is in the address: a year. */
const LIFETIME_SECONDS = 31_536_000;

/** Browsers must not show the file as a page. */
function fileHeaders(ctx: Context): void {
  ctx.set("X-Content-Type-Options", "nosniff");
  ctx.set("Content-Security-Policy", "default-src 'none'; sandbox");
  ctx.set("Cross-Origin-Resource-Policy", "same-origin");
  ctx.set("Referrer-Policy", "no-referrer");
}

/** Sends a file, or 304 if the browser has it already. */
function sendFile(
  ctx: Context,
  { digest, type, body }: { readonly digest: string; readonly type: string; readonly body: Buffer },
): void {
  ctx.status = 200;
  ctx.etag = digest;
  // An address with another digest is that of an older file: the browser asks again next time.
  const isNamed = ctx.querystring === digest;
  ctx.set("Cache-Control", isNamed ? `public, max-age=${LIFETIME_SECONDS}, immutable` : "public, no-cache");
  const known = ctx.get("If-None-Match").split(/\s*,\s*/);
  if (known.some((tag) => tag.replace(/^W\//, "") === `"${digest}"`)) {
    ctx.status = 304;
    return;
  }
  ctx.set("Content-Type", type);
  ctx.body = body;
}

/** The script of the pages. */
export function pageScript({ text, digest }: PageScript): Handler {
  const body = Buffer.from(text);
  return async ({ ctx }) => {
    fileHeaders(ctx);
    sendFile(ctx, { digest, type: "text/javascript; charset=utf-8", body });
  };
}

/** 200 with the image, 304 if the browser has it already, 404 if there is none. */
export function clientLogo(clients: Pick<ClientInternals, "logo">): Handler {
  return async ({ ctx, uid = "" }) => {
    fileHeaders(ctx);
    const logo = await clients.logo(uid);
    if (logo === undefined) {
      ctx.set("Cache-Control", "no-store");
      ctx.status = 404;
      ctx.type = "text/plain";
      ctx.body = "There is no logo here.\n";
      return;
    }
    const body = Buffer.from(logo.bytes, "base64");
    sendFile(ctx, { digest: logo.sha256, type: logo.type, body });
  };
}
