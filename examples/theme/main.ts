/**
 * The built-in pages in the colors of a city: name, logo, favicon, font, corners, footer and one text.
 *
 *     npx node examples/theme/main.ts        then open http://localhost:3000
 */
import { fileURLToPath } from "node:url";
import Koa from "koa";
import { applySeed, createSignInService } from "../../lib/index.ts";
import { readExample } from "../example-config.ts";

const usage = "Usage: node examples/theme/main.ts [--config FILE]";
const { port, host, config, seed } = await readExample(usage, new URL("theme.json", import.meta.url));
const file = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

const service = await createSignInService({
  ...config,
  interactions: {
    theme: {
      name: "Harbour City",
      accent: "#0e7490",
      radius: 4,
      fonts: "Georgia, Times New Roman, serif",
      logo: file("logo.svg"),
      favicon: file("favicon.svg"),
    },
    links: {
      help: "mailto:help@harbour-city.example",
      privacy: "https://harbour-city.example/{locale}/privacy",
      terms: "https://harbour-city.example/{locale}/terms",
    },
    copy: {
      en: { "login.title": "Sign in with your city account" },
      pl: { "login.title": "Zaloguj się kontem miejskim" },
    },
  },
});
await applySeed(service, seed);
const [client] = seed?.clients ?? [];

const app = new Koa();
app.use(service.routes());
app.use((ctx) => {
  if (ctx.path === "/") ctx.redirect(`/oauth2/authorize?response_type=code&client_id=${client?.client_id}`);
  if (ctx.path === "/callback")
    ctx.body = ctx.query["error"] === undefined ? "You are signed in." : "You are not signed in.";
});

const server = app.listen(port, host, () => console.log(`Sign in at http://localhost:${port}`));
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => void service.close().then(() => server.close().closeAllConnections()));
}
