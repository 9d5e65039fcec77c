/**
 * A login page of your own: React instead of the built-in pages, over the JSON interface of a running sign-in.
 *
 *     npx node examples/own-login/main.ts        then open http://localhost:3000
 */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Koa from "koa";
import { build } from "vite";
import { applySeed, createSignInService } from "../../lib/index.ts";
import { Mailbox } from "../../testing/index.ts";
import { readExample } from "../example-config.ts";

/** Where the page lives. The service redirects people who must sign in to it. */
const UI = "/login";

const usage = "Usage: node examples/own-login/main.ts [--config FILE]";
const { port, host, config, seed } = await readExample(usage, new URL("own-login.json", import.meta.url));
const root = fileURLToPath(new URL("ui", import.meta.url));
const outDir = fileURLToPath(new URL("dist", import.meta.url));
await build({ root, base: `${UI}/`, logLevel: "error", build: { outDir, emptyOutDir: true } });
/** What Vite has built, by path. */
const files = new Map<string, Buffer>(
  readdirSync(outDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .map((file) => [`${UI}/${file.slice(outDir.length + 1)}`, readFileSync(file)] as const),
);

// Stands in for a mail server. Its page shows the mails with the codes.
const mailbox = new Mailbox();
const service = await createSignInService({ ...config, mailer: mailbox });
await applySeed(service, seed);
const [client] = seed?.clients ?? [];

const app = new Koa();
app.use(mailbox.routes());
app.use(service.routes());
app.use((ctx) => {
  if (ctx.path === "/") {
    return ctx.redirect(`/oauth2/authorize?response_type=code&client_id=${client?.client_id}`);
  }
  if (ctx.path === "/callback") {
    ctx.body = ctx.query["error"] === undefined ? "You are signed in." : "You are not signed in.";
    return undefined;
  }
  const path = ctx.path === UI ? `${UI}/index.html` : ctx.path;
  const file = files.get(path);
  if (file === undefined) return undefined;
  ctx.set("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'");
  ctx.type = path.slice(path.lastIndexOf("."));
  ctx.body = file;
  return undefined;
});

const server = app.listen(port, host, () =>
  console.log(`Sign in at http://localhost:${port}, read mail at http://localhost:${port}/dev/mail`),
);
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => void service.close().then(() => server.close().closeAllConnections()));
}
