/** The pages that docs/customize/own-sign-in-page.md and docs/customize/own-account-pages.md show for a UI of one's own, served as the documents do it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type Koa from "koa";
import { namedBlock, ROOT } from "../examples/documents.ts";

const PAGE = namedBlock("login.html").code;
const ACCOUNT_PAGE = namedBlock("account.html").code;
const PASSKEYS = readFileSync(join(ROOT, "interactions/browser.js"));

export function ownUi(application: Koa): void {
  application.use(async (ctx, next) => {
    if (ctx.path === "/login") [ctx.type, ctx.body] = ["html", PAGE];
    else if (ctx.path === "/passkeys.js") [ctx.type, ctx.body] = ["js", PASSKEYS];
    else await next();
  });
}

/** In place of the pages for the profile and the address. */
export function ownAccount(application: Koa): void {
  const own = new Set(["/account/profile", "/account/email", "/account/email/new"]);
  application.use(async (ctx, next) => {
    const isOwn = ctx.method === "GET" && own.has(ctx.path) && ctx.accepts("html", "json") === "html";
    if (isOwn) [ctx.type, ctx.body] = ["html", ACCOUNT_PAGE];
    else await next();
  });
}
