/**
 * `auth.ts` of a Next.js application whose users sign in with the service.
 * The environment has ISSUER, CLIENT_ID, CLIENT_SECRET, APP_URL and SESSION_SECRET (at least 32 characters).
 */
import { type CookieStore, getIronSession } from "iron-session";
import * as oidc from "openid-client";

const { ISSUER = "", CLIENT_ID = "", CLIENT_SECRET = "", APP_URL = "", SESSION_SECRET = "" } = process.env;

export interface User {
  sub: string;
  email: string;
}

interface Session {
  user: User;
  idToken: string;
}

/** A sign-in that has not come back yet. */
interface Started {
  pending: { nonce: string; verifier: string; returnTo: string };
}

/** The session is an encrypted cookie. After an hour, the application asks the service again who this is. */
const sessionSettings = {
  cookieName: "session",
  password: SESSION_SECRET,
  ttl: 3600,
  cookieOptions: { httpOnly: true, sameSite: "lax", secure: APP_URL.startsWith("https:") },
} as const;

/** Each sign-in has a cookie of its own, named by its `state`, because several tabs may sign in at once. */
const startedOf = (request: Request, response: Response, state: string) =>
  getIronSession<Started>(request, response, {
    ...sessionSettings,
    cookieName: `sign-in-${state}`,
    cookieOptions: { ...sessionSettings.cookieOptions, path: "/auth" },
  });

/** Keeps the last five sign-ins of a browser. It sends the oldest cookie first. */
async function forgetOldest(request: Request, response: Response): Promise<void> {
  const states = [...(request.headers.get("cookie") ?? "").matchAll(/(?<=\bsign-in-)[\w-]+(?==)/g)];
  for (const [state] of states.slice(0, -4)) (await startedOf(request, response, state)).destroy();
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
function localAddress(to: string | null): string {
  const url = URL.parse(to ?? "/", APP_URL);
  return url?.origin === new URL(APP_URL).origin && url.href.length < 1000 ? url.href : APP_URL;
}

function redirect(location: string): Response {
  return new Response(null, { status: 303, headers: { location } });
}

function failure(text: string): Response {
  const html = `${text} <a href="/auth/sign-in">Sign in</a>`;
  return new Response(html, { status: 400, headers: { "content-type": "text/html; charset=utf-8" } });
}

async function signIn(request: Request): Promise<Response> {
  const [state, nonce, verifier] = [oidc.randomState(), oidc.randomNonce(), oidc.randomPKCECodeVerifier()];
  const location = oidc.buildAuthorizationUrl(await discovered(), {
    redirect_uri: new URL("/auth/callback", APP_URL).href,
    scope: "openid email",
    state,
    nonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  const response = redirect(location.href);
  await forgetOldest(request, response);
  const started = await startedOf(request, response, state);
  const returnTo = localAddress(new URL(request.url).searchParams.get("to"));
  started.pending = { nonce, verifier, returnTo };
  await started.save();
  return response;
}

async function callback(request: Request): Promise<Response> {
  const came = new URL(`/auth/callback${new URL(request.url).search}`, APP_URL);
  const [expectedState = ""] = /^[\w-]+$/.exec(came.searchParams.get("state") ?? "") ?? [];
  const { pending } = await startedOf(request, new Response(), expectedState);
  if (pending === undefined) return failure("This sign-in has ended.");
  try {
    const tokens = await oidc.authorizationCodeGrant(await discovered(), came, {
      expectedState,
      expectedNonce: pending.nonce,
      pkceCodeVerifier: pending.verifier,
      idTokenExpected: true,
    });
    const { sub, email } = tokens.claims() as oidc.IDToken & { email: string };
    const response = redirect(pending.returnTo);
    (await startedOf(request, response, expectedState)).destroy();
    const session = await getIronSession<Session>(request, response, sessionSettings);
    session.user = { sub, email };
    session.idToken = tokens.id_token ?? "";
    await session.save();
    return response;
  } catch (error) {
    console.warn("sign-in failed:", error instanceof Error ? error.message : error);
    return failure("That didn't work.");
  }
}

/** `app/auth/[action]/route.ts` exports this and `POST`. */
export async function GET(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname === "/auth/sign-in") return signIn(request);
  if (pathname === "/auth/callback") return callback(request);
  return new Response("Not found", { status: 404 });
}

/** Signs out here and at the service. */
export async function POST(request: Request): Promise<Response> {
  if (new URL(request.url).pathname !== "/auth/sign-out") return new Response("Not found", { status: 404 });
  const { idToken = "" } = await getIronSession<Session>(request, new Response(), sessionSettings);
  const location = oidc.buildEndSessionUrl(await discovered(), {
    id_token_hint: idToken,
    post_logout_redirect_uri: APP_URL,
  });
  const response = redirect(location.href);
  (await getIronSession<Session>(request, response, sessionSettings)).destroy();
  return response;
}

/** Who is signed in, in pages and actions: `await currentUser(await cookies())`. */
export async function currentUser(cookies: CookieStore): Promise<User | undefined> {
  return (await getIronSession<Session>(cookies, sessionSettings)).user;
}
