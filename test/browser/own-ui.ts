/** The page that docs/pages.md shows for a UI of one's own, served beside the service as the document does it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type Koa from "koa";

const ROOT = join(import.meta.dirname, "../..");
const PAGE = /```html login\.html\n([\s\S]*?)```/.exec(
  readFileSync(join(ROOT, "docs/pages.md"), "utf8"),
)?.[1];
const PASSKEYS = readFileSync(join(ROOT, "interactions/browser.js"));

export function ownUi(application: Koa): void {
  application.use(async (ctx, next) => {
    if (ctx.path === "/login") [ctx.type, ctx.body] = ["html", PAGE];
    else if (ctx.path === "/passkeys.js") [ctx.type, ctx.body] = ["js", PASSKEYS];
    else await next();
  });
}
