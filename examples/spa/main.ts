/**
 * A service, and a single-page application at another origin: the next port.
 *
 *     npx node examples/spa/main.ts        then open http://localhost:3001
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import Koa from "koa";
import { applySeed, createSignInService } from "../../lib/index.ts";
import { readExample } from "../example-config.ts";

const CLIENT_ID = "spa";

const usage = "Usage: node examples/spa/main.ts [--config FILE]";
const { port, host, config, seed } = await readExample(usage, new URL("spa.json", import.meta.url));
const issuer = config.deployments.openid?.url;
if (issuer === undefined) throw new TypeError("the page needs the OpenID Connect deployment");
const page = `http://localhost:${port + 1}`;

const service = await createSignInService(config);
await applySeed(service, seed);
if ((await service.clients.find(CLIENT_ID)) === undefined) {
  await service.clients.register({
    kind: "public",
    client_id: CLIENT_ID,
    name: "News",
    service: "1",
    redirect_uris: [`${page}/`],
    post_logout_redirect_uris: [`${page}/`],
  });
}

const read = (file: string): string => readFileSync(new URL(file, import.meta.url), "utf8");
const library = fileURLToPath(import.meta.resolve("oauth4webapi"));
/** The files of the page, as any web server would serve them. */
const files: Readonly<Record<string, readonly [type: string, text: string]>> = {
  "/": ["html", read("index.html").replace("{issuer}", issuer).replace("{client_id}", CLIENT_ID)],
  "/app.js": ["js", read("app.js")],
  "/oauth4webapi.js": ["js", readFileSync(library, "utf8")],
};
const pages = new Koa().use((ctx) => {
  const [type, text] = files[ctx.path] ?? [];
  if (type === undefined) return;
  ctx.type = type;
  ctx.body = text;
});
const app = new Koa().use(service.routes());

const servers = [app.listen(port, host), pages.listen(port + 1, host, () => console.log(`Open ${page}`))];
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    void service.close().then(() => servers.forEach((server) => server.close().closeAllConnections()));
  });
}
