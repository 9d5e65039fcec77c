/**
 * Three views of your own, in place of the built-in ones: the top of each page, its end, and the login form.
 *
 *     npx node examples/own-views/main.ts        then open http://localhost:3000
 */
import { fileURLToPath } from "node:url";
import Koa from "koa";
import { applySeed, createSignInService } from "../../lib/index.ts";
import { readExample } from "../example-config.ts";

const usage = "Usage: node examples/own-views/main.ts [--config FILE]";
const { port, host, config, seed } = await readExample(usage, new URL("own-views.json", import.meta.url));

const service = await createSignInService({
  ...config,
  interactions: {
    locales: ["en", "pl"],
    theme: { name: "Northwind Trails", accent: "#3f6212", radius: 16 },
    views: [fileURLToPath(new URL("views", import.meta.url))],
    // Texts of the views below. Their keys start with `own.`.
    copy: {
      en: {
        "own.motto": "Maps and huts for long walks",
        "own.welcome": "Your maps, bookings and tours are one step away.",
        "own.trouble": "I can’t sign in",
        "own.huts": "Ask at any hut, or call +44 20 7946 0000 between 8 and 18.",
        "own.since": "Northwind Trails – on foot since 1932",
      },
      pl: {
        "own.motto": "Mapy i schroniska na długie wędrówki",
        "own.welcome": "Twoje mapy, rezerwacje i trasy są o krok stąd.",
        "own.trouble": "Nie mogę się zalogować",
        "own.huts": "Zapytaj w dowolnym schronisku albo zadzwoń: +44 20 7946 0000, od 8 do 18.",
        "own.since": "Northwind Trails – pieszo od 1932 roku",
      },
    },
  },
});
await applySeed(service, seed);
const [client] = seed?.clients ?? [];

const app = new Koa();
app.use(service.routes());
app.use((ctx) => {
  if (ctx.path === "/") ctx.redirect(`/oauth2/authorize?response_type=code&client_id=${client?.client_id}`);
  if (ctx.path === "/callback") ctx.body = "You are signed in.";
});

const server = app.listen(port, host, () => console.log(`Sign in at http://localhost:${port}`));
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => void service.close().then(() => server.close().closeAllConnections()));
}
