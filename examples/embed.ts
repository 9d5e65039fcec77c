/**
 * The service in an application with its own middleware, signed cookie, body parser and routes.
 *
 *     npx node examples/embed.ts        then open http://localhost:3000
 *
 * With `--config FILE`, the application signs users in as the first client of the seed, through the `oauth2` deployment.
 * The first redirect URI of the client must be `/callback` of this application.
 */
import { randomUUID } from "node:crypto";
import Koa, { type Context } from "koa";
import { koaBody } from "koa-body";
import { applySeed, createSignInService } from "../lib/index.ts";
import { readExample } from "./example-config.ts";
import { CommandFailure } from "../cli/program/command-failure.ts";
import { endWith } from "./ending.ts";

const usage = "Usage: node examples/embed.ts [--config FILE]";
const own = new URL("embed.json", import.meta.url);
const { port, host, config, seed } = await readExample(usage, own);
const { oauth2 } = config.deployments;
const [client] = seed?.clients ?? [];
if (oauth2 === undefined || client === undefined) {
  endWith(new CommandFailure("The configuration must have an oauth2 deployment, and a client in its seed."));
}
const { url: auth } = oauth2;
const { client_id, client_secret } = client;
const [redirect_uri = ""] = client.redirect_uris ?? [];

const service = await createSignInService(config);
await applySeed(service, seed);

const app = new Koa();
// The service signs its cookies with its own keys and ignores these.
app.keys = ["the application's own key, which the service never sees"];

app.use(async (ctx, next) => {
  const startedAt = performance.now();
  await next();
  ctx.set("X-Response-Time", `${Math.round(performance.now() - startedAt)}ms`);
});
// A body parser may run before the service, which then uses the parsed body.
app.use(koaBody());
app.use(async (ctx, next) => {
  const visits = Number(ctx.cookies.get("visits", { signed: true }) ?? 0) + 1;
  ctx.cookies.set("visits", String(visits), { signed: true });
  ctx.state["visits"] = visits;
  await next();
});

// The service matches the full path, so `mount("/auth", service.routes())` works the same.
app.use(service.routes());

/** The cookies of sign-ins that this browser began. It sends the oldest first. */
const begunBy = (ctx: Context): readonly string[] =>
  ctx.get("cookie").match(/(?<=^|; )sign-in-[\w-]+(?==)/g) ?? [];

/** Begins a sign-in. Each has a cookie of its own, named by its `state`, because several tabs may sign in at once. */
function begin(ctx: Context): void {
  const state = randomUUID();
  for (const old of begunBy(ctx).slice(0, -4)) ctx.cookies.set(old, null, { signed: false });
  ctx.cookies.set(`sign-in-${state}`, "1", { signed: false, maxAge: 3_600_000, sameSite: "lax" });
  const query = new URLSearchParams({ response_type: "code", client_id, redirect_uri, state });
  ctx.redirect(`${auth}/oauth2/authorize?${query}`);
}

/** Whether this browser began the sign-in that comes back. Without this, a link could sign it in as somebody else. */
function isBegunHere(ctx: Context): boolean {
  const cookie = begunBy(ctx).find((name) => name === `sign-in-${String(ctx.query["state"])}`);
  if (cookie !== undefined) ctx.cookies.set(cookie, null, { signed: false });
  return cookie !== undefined;
}

/** Exchanges the code for a token, and reads the profile of the user. */
async function whoIs(code: string): Promise<unknown> {
  const credentials = Buffer.from(`${client_id}:${client_secret}`).toString("base64");
  const answer = await fetch(`${auth}/oauth2/token`, {
    method: "POST",
    headers: { authorization: `Basic ${credentials}` },
    body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri }),
  });
  const { access_token = "" } = (await answer.json()) as { access_token?: string };
  const headers = { authorization: `Bearer ${access_token}` };
  const profile = await fetch(`${auth}/external/profile?client_id=${client_id}`, { headers });
  return profile.json();
}

app.use(async (ctx) => {
  switch (`${ctx.method} ${ctx.path}`) {
    case "GET /":
      ctx.type = "html";
      ctx.body = `<h1>My application</h1><a href="/sign-in">Sign in</a>`;
      break;
    case "GET /sign-in":
      begin(ctx);
      break;
    case "GET /callback":
      if (!isBegunHere(ctx)) ctx.throw(400, "This sign-in has ended. Please start again.");
      ctx.body = await whoIs(String(ctx.query["code"]));
      break;
    case "POST /api/hello":
      ctx.body = {
        hello: (ctx.request.body as { name?: unknown }).name,
        visits: ctx.state["visits"] as number,
      };
      break;
    default:
  }
});

const server = app.listen(port, host, () => console.log(`My application is at http://localhost:${port}`));

/** Finishes running requests, then closes connections that browsers opened in advance. */
async function stop(): Promise<void> {
  server.close();
  await service.close();
  server.closeAllConnections();
}
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void stop());
