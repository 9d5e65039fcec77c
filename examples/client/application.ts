/** A relying party: signs people in with the service, shows what it learns of them, and keeps nothing else. */
import Koa, { type Context } from "koa";
import { controlsSection, type DemoControl, type DemoControls } from "./demo-controls.ts";
import { type Call, CallFailed, type Person } from "./documented-calls.ts";
import { accountPage, homePage, problemPage, STYLE_SOURCE } from "./pages.ts";
import { createSessions, type Deployment, type Sessions, type SignedIn } from "./sessions.ts";
import { type ClientSettings, oauth2SignIn, openidSignIn, type SignIn, WrongAnswer } from "./sign-in.ts";

type Handler = (ctx: Context) => Promise<void>;

interface Parts {
  readonly sessions: Sessions;
  readonly ways: Readonly<Record<Deployment, SignIn>>;
  readonly controls: DemoControls | undefined;
}

/** The demo client; it does nothing before a request comes. @param controls what a demo adds to it. */
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
    if (handle === undefined) return show(ctx, problemPage("Not found", "There is no such page here."), 404);
    if (ctx.method === "POST" && !isFromHere(ctx, settings.url)) {
      return show(ctx, problemPage("Not from here", "This form was sent by another site."), 403);
    }
    await handle(ctx).catch((error: unknown) => explain(ctx, error));
  });
  return app;
}

function secure(ctx: Context): void {
  ctx.set({
    "Content-Security-Policy": `default-src 'none'; img-src data:; style-src ${STYLE_SOURCE}; base-uri 'none'; frame-ancestors 'none'`,
    "Cache-Control": "no-store",
    // Not `no-referrer`: browsers then hide where a form came from, from us too.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
  });
}

function show(ctx: Context, page: string, status = 200): void {
  ctx.status = status;
  ctx.type = "html";
  ctx.body = page;
}

/** Browsers say where a form came from. */
function isFromHere(ctx: Context, url: string): boolean {
  return ctx.get("origin") === url;
}

/** 303: the browser goes on with GET. */
function goTo(ctx: Context, address: string): void {
  ctx.redirect(address);
  ctx.status = 303;
}

function explain(ctx: Context, error: unknown): void {
  if (error instanceof WrongAnswer) {
    const text = `The answer of the sign-in service could not be used (${error.message}). Nobody was signed in.`;
    return show(ctx, problemPage("Not signed in", text), 400);
  }
  if (error instanceof CallFailed && error.status === 400) {
    const text = `The sign-in service refused the request (${error.error}).`;
    return show(ctx, problemPage("Refused", text), 400);
  }
  const text = "The sign-in service does not answer as it should. Please try again in a moment.";
  return show(ctx, problemPage("Out of reach", text), 502);
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
    sessions.renew(ctx, { pending });
    goTo(ctx, location);
  };
}

function finish({ sessions, ways }: Parts, deployment: Deployment): Handler {
  return async (ctx) => {
    const session = sessions.find(ctx);
    const pending = session?.pending;
    if (session === undefined || pending?.deployment !== deployment) {
      throw new WrongAnswer("no sign-in was begun in this browser");
    }
    // One answer for one request, whatever comes of it.
    session.pending = undefined;
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

/** A step of somebody who is signed in; whoever is not goes to the start. */
function step(
  { sessions, ways }: Parts,
  take: (signedIn: SignedIn, way: SignIn, calls: Call[]) => Promise<SignedIn>,
): Handler {
  return async (ctx) => {
    const session = sessions.find(ctx);
    if (session?.signedIn !== undefined) {
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
    return { ...signedIn, tokens, person, calls, notice: "There is a new access token." };
  });
}

/** Ends the token, and shows that it is no longer good for anything. */
function revoke(parts: Parts): Handler {
  return step(parts, async (signedIn, way, calls) => {
    const { access_token } = signedIn.tokens;
    await way.calls.revoke(access_token, calls);
    const answer = await way.calls.person(access_token, calls).catch((error: unknown) => error);
    const refused = answer instanceof CallFailed ? `${answer.status} ${answer.error}` : "it still works";
    const notice = `The access token has ended; user information now answers: ${refused}. The refresh token lives on.`;
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

/** Changes the account of whom the token says it is, and shows what the token is good for afterwards. */
function change(parts: Parts, control: DemoControl): Handler {
  return step(parts, async (signedIn, way, calls) => {
    const { access_token } = signedIn.tokens;
    const { basic } = await way.calls.person(access_token, []);
    const notice = await control.act(basic["sub"] ?? "");
    const person = await personNow(way, access_token, calls);
    return { ...signedIn, person, calls, notice };
  });
}

/** `undefined` when the token has ended. */
async function personNow(way: SignIn, accessToken: string, calls: Call[]): Promise<Person | undefined> {
  try {
    return await way.calls.person(accessToken, calls);
  } catch (error) {
    if (error instanceof CallFailed && error.error === "invalid_token") return undefined;
    throw error;
  }
}

/** Signs out here, and with OpenID Connect at the service too. */
function signOut({ sessions, ways }: Parts): Handler {
  return async (ctx) => {
    const signedIn = sessions.find(ctx)?.signedIn;
    sessions.end(ctx);
    const way = signedIn && ways[signedIn.deployment];
    goTo(ctx, (await way?.signOutAddress(signedIn?.tokens.id_token)) ?? "/");
  };
}
