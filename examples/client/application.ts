/** The demo client: signs users in with the service and shows what it learns about them. It stores nothing else. */
import Koa, { type Context } from "koa";
import { controlsSection, type DemoControl, type DemoControls } from "./demo-controls.ts";
import { type Call, CallFailed, type Person } from "./documented-calls.ts";
import { accountPage, homePage, problemPage, STYLE_SOURCE } from "./pages.ts";
import { createSessions, type Deployment, type Sessions, type SignedIn } from "./sessions.ts";
import { type ClientSettings, oauth2SignIn, openidSignIn, type SignIn, InvalidResponse } from "./sign-in.ts";

type Handler = (ctx: Context) => Promise<void>;

interface Parts {
  readonly sessions: Sessions;
  readonly ways: Readonly<Record<Deployment, SignIn>>;
  readonly controls: DemoControls | undefined;
}

/** Creates the client as a Koa application. @param controls Additional buttons, for the demo. */
export function createClient(settings: ClientSettings, controls?: DemoControls): Koa {
  const parts: Parts = {
    sessions: createSessions(),
    ways: { oauth2: oauth2SignIn(settings), openid: openidSignIn(settings) },
    controls,
  };
  const handlers: Readonly<Record<string, Handler>> = {
    "GET /": home(parts),
    "GET /sign-in/oauth2": begin(parts, "oauth2"),
    "GET /sign-in/openid": begin(parts, "openid"),
    "GET /callback": finish(parts, "oauth2"),
    "GET /callback/openid": finish(parts, "openid"),
    "POST /refresh": refresh(parts),
    "POST /revoke": revoke(parts),
    "POST /sign_out": signOut(parts),
    ...demoHandlers(parts),
  };
  const app = new Koa();
  app.use(async (ctx) => {
    secure(ctx);
    const handle = handlers[`${ctx.method} ${ctx.path}`];
    if (handle === undefined) return show(ctx, problemPage("Not found", "This page does not exist."), 404);
    if (ctx.method === "POST" && !isFromHere(ctx, settings.url)) {
      return show(ctx, problemPage("Refused", "This form was sent by another site."), 403);
    }
    await handle(ctx).catch((error: unknown) => explain(ctx, error));
  });
  return app;
}

function secure(ctx: Context): void {
  ctx.set({
    "Content-Security-Policy": `default-src 'none'; img-src data:; style-src ${STYLE_SOURCE}; base-uri 'none'; frame-ancestors 'none'`,
    "Cache-Control": "no-store",
    // With `no-referrer`, browsers would not send us the origin of our own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
  });
}

function show(ctx: Context, page: string, status = 200): void {
  ctx.status = status;
  ctx.type = "html";
  ctx.body = page;
}

function isFromHere(ctx: Context, url: string): boolean {
  return ctx.get("origin") === url;
}

/** Redirects with 303, so that the browser continues with GET. */
function goTo(ctx: Context, address: string): void {
  ctx.redirect(address);
  ctx.status = 303;
}

function explain(ctx: Context, error: unknown): void {
  if (error instanceof InvalidResponse) {
    return show(ctx, problemPage("Not signed in", error.message), 400);
  }
  if (error instanceof CallFailed && error.status === 400) {
    const text = `The sign-in service refused the request (${error.error}).`;
    return show(ctx, problemPage("Refused", text), 400);
  }
  const text = "The sign-in service is not available. Please try again in a moment.";
  return show(ctx, problemPage("Not available", text), 502);
}

function home({ sessions, controls }: Parts): Handler {
  return async (ctx) => {
    const signedIn = sessions.find(ctx)?.signedIn;
    if (signedIn === undefined) return show(ctx, homePage());
    const more = controls && controlsSection(controls, signedIn.person !== undefined);
    return show(ctx, accountPage(signedIn, more));
  };
}

function begin({ sessions, ways }: Parts, deployment: Deployment): Handler {
  return async (ctx) => {
    const { location, pending } = await ways[deployment].begin();
    sessions.begin(ctx, pending);
    goTo(ctx, location);
  };
}

function finish({ sessions, ways }: Parts, deployment: Deployment): Handler {
  return async (ctx) => {
    // A response is used once, even if it turns out to be invalid.
    const pending = sessions.take(ctx, new URLSearchParams(ctx.search).get("state") ?? "");
    if (pending?.deployment !== deployment) {
      throw new InvalidResponse(
        "This sign-in was not started in this browser, or it is over. Sign in again.",
      );
    }
    const calls: Call[] = [];
    const way = ways[deployment];
    const { tokens, claims } = await way.finish(ctx.search, pending, calls);
    const person = await way.calls.person(tokens.access_token, calls);
    const notice = "You are signed in.";
    const signedIn = { deployment, tokens, person, calls, notice, ...(claims && { claims }) };
    sessions.renew(ctx, { signedIn });
    goTo(ctx, "/");
  };
}

/** A step for signed-in users. Others are sent to the home page. */
function step(
  { sessions, ways }: Parts,
  take: (signedIn: SignedIn, way: SignIn, calls: Call[]) => Promise<SignedIn>,
): Handler {
  return async (ctx) => {
    const session = sessions.find(ctx);
    if (session !== undefined) {
      const { signedIn } = session;
      session.signedIn = await take(signedIn, ways[signedIn.deployment], []);
    }
    goTo(ctx, "/");
  };
}

function refresh(parts: Parts): Handler {
  return step(parts, async (signedIn, way, calls) => {
    const { refresh_token } = signedIn.tokens;
    const tokens = await way.calls.tokens({ grant_type: "refresh_token", refresh_token }, calls);
    const person = await way.calls.person(tokens.access_token, calls);
    return { ...signedIn, tokens, person, calls, notice: "You have a new access token." };
  });
}

/** Revokes the token, and shows that it no longer works. */
function revoke(parts: Parts): Handler {
  return step(parts, async (signedIn, way, calls) => {
    const { access_token } = signedIn.tokens;
    await way.calls.revoke(access_token, calls);
    const answer = await way.calls.person(access_token, calls).catch((error: unknown) => error);
    const refused = answer instanceof CallFailed ? `${answer.status} ${answer.error}` : "it still works";
    const notice = `The access token is revoked. User information now responds with: ${refused}. The refresh token still works.`;
    return { ...signedIn, person: undefined, calls, notice };
  });
}

function demoHandlers(parts: Parts): Readonly<Record<string, Handler>> {
  const { changes = [], receivers = [] } = parts.controls ?? {};
  return Object.fromEntries([
    ...changes.map((control) => [`POST /demo/${control.name}`, change(parts, control)]),
    ...receivers.map((control) => [
      `POST /demo/${control.name}`,
      step(parts, async (signedIn) => ({ ...signedIn, notice: await control.act("") })),
    ]),
  ]) as Readonly<Record<string, Handler>>;
}

/** Changes the account that the token belongs to, and shows what the token can read afterwards. */
function change(parts: Parts, control: DemoControl): Handler {
  return step(parts, async (signedIn, way, calls) => {
    const { access_token } = signedIn.tokens;
    const { basic } = await way.calls.person(access_token, []);
    const notice = await control.act(basic["sub"] ?? "");
    const person = await personNow(way, access_token, calls);
    return { ...signedIn, person, calls, notice };
  });
}

/** Returns `undefined` if the token has ended. */
async function personNow(way: SignIn, accessToken: string, calls: Call[]): Promise<Person | undefined> {
  try {
    return await way.calls.person(accessToken, calls);
  } catch (error) {
    if (error instanceof CallFailed && error.error === "invalid_token") return undefined;
    throw error;
  }
}

/** Signs out of the client, and with OpenID Connect also of the service. */
function signOut({ sessions, ways }: Parts): Handler {
  return async (ctx) => {
    const signedIn = sessions.find(ctx)?.signedIn;
    sessions.end(ctx);
    const way = signedIn && ways[signedIn.deployment];
    goTo(ctx, (await way?.signOutAddress(signedIn?.tokens.id_token)) ?? "/");
  };
}
