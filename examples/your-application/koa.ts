/**
 * A Koa application whose users sign in with the service.
 * The environment has ISSUER, CLIENT_ID, CLIENT_SECRET, APP_URL and SESSION_SECRET (at least 32 characters).
 */
import { Router } from "@koa/router";
import { getIronSession } from "iron-session";
import Koa, { type Context, type Middleware } from "koa";
import * as oidc from "openid-client";

const { ISSUER = "", CLIENT_ID = "", CLIENT_SECRET = "", APP_URL = "", SESSION_SECRET = "" } = process.env;
const redirect_uri = new URL("/auth/callback", APP_URL).href;

interface Session {
  user: { sub: string; email: string };
  idToken: string;
}

/** A sign-in that has not come back yet. */
interface Started {
  pending: { nonce: string; verifier: string; returnTo: string };
}

const cookieOptions = { httpOnly: true, sameSite: "lax", secure: APP_URL.startsWith("https:") } as const;
const encrypted = { password: SESSION_SECRET, ttl: 3600, cookieOptions };

/** The session is an encrypted cookie. After an hour, the application asks the service again who this is. */
const sessionOf = ({ req, res }: Context) =>
  getIronSession<Session>(req, res, { ...encrypted, cookieName: "session" });

/** Each sign-in has a cookie of its own, named by its `state`, because several tabs may sign in at once. */
const startedOf = ({ req, res }: Context, state: string) =>
  getIronSession<Started>(req, res, {
    ...encrypted,
    cookieName: `sign-in-${state}`,
    cookieOptions: { ...cookieOptions, path: "/auth" },
  });

/** Keeps the last five sign-ins of a browser. It sends the oldest cookie first. */
async function forgetOldest(ctx: Context): Promise<void> {
  const states = [...ctx.get("cookie").matchAll(/(?<=\bsign-in-)[\w-]+(?==)/g)];
  for (const [state] of states.slice(0, -4)) (await startedOf(ctx, state)).destroy();
}

let provider: Promise<oidc.Configuration> | undefined;

/** Reads the discovery document once. If that fails, the next request tries again. */
function discovered(): Promise<oidc.Configuration> {
  // Only a service on your own machine may use http.
  const execute = ["localhost", "127.0.0.1"].includes(new URL(ISSUER).hostname)
    ? [oidc.allowInsecureRequests]
    : [];
  provider ??= oidc
    .discovery(new URL(ISSUER), CLIENT_ID, undefined, oidc.ClientSecretBasic(CLIENT_SECRET), { execute })
    .catch((error: unknown) => {
      provider = undefined;
      throw error;
    });
  return provider;
}

/**
 * Where to go after signing in. An address of another site would let a link send your users there, and a long one does
 * not fit into a cookie.
 */
function localAddress(to: unknown): string {
  const url = typeof to === "string" ? URL.parse(to, APP_URL) : null;
  return url?.origin === new URL(APP_URL).origin && url.href.length < 1000 ? url.href : APP_URL;
}

function redirect(ctx: Context, location: string): void {
  ctx.status = 303;
  ctx.redirect(location);
}

/** Protects a route: users who are not signed in are sent to sign in, and come back. */
const requireUser: Middleware = async (ctx, next) => {
  const { user } = await sessionOf(ctx);
  if (user !== undefined) {
    ctx.state["user"] = user;
    await next();
  } else if (ctx.method === "GET") redirect(ctx, `/auth/sign-in?to=${encodeURIComponent(ctx.url)}`);
  else ctx.status = 401;
};

const router = new Router();

router.get("/auth/sign-in", async (ctx) => {
  const [state, nonce, verifier] = [oidc.randomState(), oidc.randomNonce(), oidc.randomPKCECodeVerifier()];
  await forgetOldest(ctx);
  const started = await startedOf(ctx, state);
  started.pending = { nonce, verifier, returnTo: localAddress(ctx.query["to"]) };
  await started.save();
  const location = oidc.buildAuthorizationUrl(await discovered(), {
    redirect_uri,
    scope: "openid email",
    state,
    nonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  redirect(ctx, location.href);
});

router.get("/auth/callback", async (ctx) => {
  const came = new URL(ctx.url, APP_URL);
  const [expectedState = ""] = /^[\w-]+$/.exec(came.searchParams.get("state") ?? "") ?? [];
  const started = await startedOf(ctx, expectedState);
  const { pending } = started;
  // An answer counts once.
  started.destroy();
  ctx.status = 400;
  ctx.type = "html";
  ctx.body = 'This sign-in has ended. <a href="/auth/sign-in">Sign in</a>';
  if (pending === undefined) return;
  try {
    const tokens = await oidc.authorizationCodeGrant(await discovered(), came, {
      expectedState,
      expectedNonce: pending.nonce,
      pkceCodeVerifier: pending.verifier,
      idTokenExpected: true,
    });
    const session = await sessionOf(ctx);
    const { sub, email } = tokens.claims() as oidc.IDToken & { email: string };
    session.user = { sub, email };
    session.idToken = tokens.id_token ?? "";
    await session.save();
    redirect(ctx, pending.returnTo);
  } catch (error) {
    console.warn("sign-in failed:", error instanceof Error ? error.message : error);
    ctx.body = 'That didn\'t work. <a href="/auth/sign-in">Try again</a>';
  }
});

router.post("/auth/sign-out", async (ctx) => {
  const session = await sessionOf(ctx);
  const { idToken = "" } = session;
  session.destroy();
  const location = oidc.buildEndSessionUrl(await discovered(), {
    id_token_hint: idToken,
    post_logout_redirect_uri: APP_URL,
  });
  redirect(ctx, location.href);
});

router.get("/", async (ctx) => {
  const { user } = await sessionOf(ctx);
  ctx.body = user === undefined ? '<a href="/auth/sign-in">Sign in</a>' : '<a href="/account">Account</a>';
});

router.get("/account", requireUser, (ctx) => {
  ctx.body = ctx.state["user"];
});

const app = new Koa();
app.use(router.routes());
const { port, hostname } = new URL(APP_URL);
app.listen(Number(port), hostname, () => console.log(`listening on ${APP_URL}`));
