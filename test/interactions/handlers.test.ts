/** The handlers and responses in a bare Koa application, over a flow in memory. */
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { CheckedPassword, PasswordTry } from "../../accounts/limits/password-check.ts";
import { describe, expect, it } from "@jest/globals";
import { createHash } from "node:crypto";
import { ConditionFailed, StorageUnavailable } from "../../core/errors.ts";
import Koa from "koa";
import request, { type Response, type Test } from "supertest";
import type { Deployment } from "../../config/configuration.ts";
import { createSignInFlow, type SignInFlow } from "../../interactions/flow.ts";
import { createInteractionHandlers } from "../../interactions/handlers.ts";
import type { Exchange, ServiceContext } from "../../provider/exchange.ts";
import type { RunningSignIn } from "../../interactions/steps/running-sign-in.ts";
import type { StepServices } from "../../interactions/steps/step.ts";
import type { FindBrowser } from "../../provider/sessions/browser-cookie.ts";
import { createLinkCookie } from "../../interactions/link-cookie.ts";
import { localeFile, pagesWith } from "./every-page.ts";
import { tagsNamed } from "../../testing/browser/html.ts";

/** Host of the deployment. */
const HOST = "login.example";
/** The hidden field of both interactions. */
const TOKEN = "k7Jw-token";

const LOGIN: RunningSignIn = {
  uid: "login1",
  prompt: "login",
  client: { client_id: "news", name: "News" },
  clientThen: { client_id: "news", services: ["1"] },
  csrf: TOKEN,
  path: "/prefix/interaction/login1",
  shares: [],
  apis: [],
  state: {},
  expiresAt: 0,
};
const CONSENT: RunningSignIn = {
  ...LOGIN,
  uid: "consent1",
  prompt: "consent",
  path: "/prefix/interaction/consent1",
  account: { sub: "1", email: "ada@example.com", name: "Ada", ways: ["password"] },
  shares: ["sub", "email"],
  apis: [],
};

/** How an attempt to sign in ends. */
type SignInOutcome =
  | { readonly kind: "done"; readonly location: string }
  | { readonly kind: "wrong" }
  | { readonly kind: "limited"; readonly retryAfter: number };

const findBrowser: FindBrowser = () => ({ digest: "", remember: () => undefined });

const settle = async (): Promise<void> => undefined;

/** The calls of the service. */
type Call = ["signIn", { readonly username: string; readonly password: string }] | ["allow"] | ["deny"];

/** The flow over a stub of the service with two sign-ins in memory. test/flows uses the real one. */
function memoryFlow(
  outcome: () => SignInOutcome,
  changes: Partial<RunningSignIn> = {},
): { flow: SignInFlow; calls: Call[] } {
  const calls: Call[] = [];
  let ended: SignInOutcome = { kind: "wrong" };
  const services = {
    configuration: { clock: { now: () => 0 } },
    units: { current: () => undefined, required: () => ({ refund: settle, alongside: settle }) },
    events: { emit: () => undefined },
    audit: { note: () => undefined, noteRefusal: () => undefined },
    devices: { has: () => false, lastWay: () => ({}), read: () => undefined, write: () => undefined },
    secondFactors: {},
    passwordCheck: {
      async check({ name, password }: PasswordTry): Promise<CheckedPassword> {
        ended = outcome();
        if (ended.kind === "limited") {
          const { retryAfter } = ended;
          const attempt = {
            allowed: false,
            retryAfter,
            refusedBy: [],
            repeatedIn: [],
            succeed: settle,
            withdraw: settle,
          };
          return { kind: "limited", attempt };
        }
        calls.push(["signIn", { username: name, password }]);
        return ended.kind === "done"
          ? { kind: "right", record: { sub: "1", ways: {} } as AccountRecord, attempt: { succeed: settle } }
          : { kind: "refused", reason: "credentials", record: undefined };
      },
    },
    addressOf: () => "127.0.0.1",
    links: createLinkCookie("link", findBrowser),
    people: {},
    offers: { resets: false, passwordLength: { min: 8, max: 128 } },
    limits: {},
    protocol: {
      async find(_ctx: ServiceContext, uid: string) {
        const found = [LOGIN, CONSENT].find((signIn) => signIn.uid === uid);
        return found && { ...found, ...changes };
      },
      isOwnForm: (_signIn: unknown, presented: string) => presented === TOKEN,
      signedIn: async () => (ended.kind === "done" ? ended.location : ""),
      async allow() {
        calls.push(["allow"]);
        return "https://login.example/go/allowed";
      },
      async deny() {
        calls.push(["deny"]);
        return "https://login.example/go/denied";
      },
    },
  };
  return { flow: createSignInFlow(services as unknown as StepServices), calls };
}

const BAD_BODY = Object.assign(new Error("bad body"), { status: 400 });

async function readForm(ctx: Pick<Koa.Context, "req">): Promise<ReadonlyMap<string, string>> {
  const chunks: Buffer[] = [];
  for await (const chunk of ctx.req) chunks.push(chunk);
  const pairs = [...new URLSearchParams(Buffer.concat(chunks).toString("utf8"))];
  const form = new Map(pairs);
  if (form.size !== pairs.length) throw BAD_BODY;
  return form;
}

/** How the site differs from the usual one. */
interface Setting {
  readonly outcome?: () => SignInOutcome;
  readonly changes?: Partial<RunningSignIn>;
  readonly secure?: boolean;
}

/** A site to send requests to. */
interface Site {
  readonly agent: ReturnType<typeof request>;
  readonly calls: readonly Call[];
  readonly post: (
    fields: Record<string, string> | string,
    headers?: Record<string, string>,
    uid?: string,
  ) => Test;
}

/** Every password is wrong unless `outcome` says something else. */
function site({ outcome = () => ({ kind: "wrong" }), changes, secure = true }: Setting = {}): Site {
  const { flow, calls } = memoryFlow(outcome, changes);
  const pages = pagesWith();
  const handlers = createInteractionHandlers({
    flow,
    pages,
    links: createLinkCookie("link", findBrowser),
    ended: { find: async () => ({ reason: "expired" }) },
  });
  const url = `${secure ? "https" : "http"}://${HOST}/prefix`;
  const deployment: Deployment = { kind: "oauth2", url, path: "/prefix", host: HOST, secure, post: false };
  const app = new Koa();
  app.silent = true;
  app.use(async (ctx) => {
    const { 1: kind = "", 2: uid = "" } = ctx.path.split("/");
    const state = Object.assign(ctx, {
      exchange: { deployment, uid, address: "127.0.0.1", form: () => readForm(ctx) } as unknown as Exchange,
    });
    if (kind === "interaction") return ctx.method === "POST" ? handlers.submit(state) : handlers.show(state);
    if (kind === "logout") return pages.confirmLogout(state, { action: "/confirm", xsrf: "x" });
    if (kind === "logged-out") return pages.loggedOut(state);
    if (kind === "unavailable") return pages.unavailable(state, 4.2);
    return pages.error(state, { status: 429, error: "rate_limited", retryAfter: 600, uiLocales: "pl" });
  });
  const agent = request(app.callback());
  const post = (
    fields: Record<string, string> | string,
    headers: Record<string, string> = {},
    uid = "login1",
  ) => agent.post(`/interaction/${uid}`).set(headers).type("form").send(fields);
  return { agent, calls, post };
}

/** What our own login form sends. */
const RIGHT: Readonly<Record<"csrf" | "username" | "password", string>> = {
  csrf: TOKEN,
  username: "ada",
  password: "correct horse",
};

/** The text of the h1. */
function title(response: Response): string {
  return tagsNamed(response.text, "h1")[0]?.text ?? "";
}

/** What is said to be wrong, below the fields and above the form. */
function problems(response: Response): string[] {
  const texts = [...response.text.matchAll(/<p class="problem" id="[^"]*">([^<]*)</g)].map(
    ([, text = ""]) => text,
  );
  const [, alert = ""] = /role="alert"[^>]*>\n<p>([^<]*)</.exec(response.text) ?? [];
  return [...texts, ...(alert === "" || texts.length > 0 ? [] : [alert])];
}

const TEXTS = localeFile("en");

describe("every response", () => {
  const { agent, post } = site({ outcome: () => ({ kind: "limited", retryAfter: 30 }) });
  it.each<[string, number, () => PromiseLike<Response>]>([
    ["login form", 200, () => agent.get("/interaction/login1")],
    ["consent form", 200, () => agent.get("/interaction/consent1")],
    ["start again", 400, () => agent.get("/interaction/gone")],
    ["foreign form", 403, () => post({ ...RIGHT, csrf: "other" })],
    ["limited sign-in", 429, () => post(RIGHT)],
    ["logout", 200, () => agent.get("/logout")],
    ["logged out", 200, () => agent.get("/logged-out")],
    ["error", 429, () => agent.get("/error")],
    ["unavailable", 503, () => agent.get("/unavailable")],
  ])("%s (%d) carries the security headers and the hash of its style", async (_name, status, send) => {
    const response = await send();
    expect(response.status).toBe(status);
    const style = createHash("sha256").update(tagsNamed(response.text, "style")[0]?.text ?? "");
    expect(response.headers).toMatchObject({
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": `default-src 'none'; script-src https://login.example/prefix/pages.js; style-src 'sha256-${style.digest("base64")}'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'`,
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "referrer-policy": "same-origin",
      "cache-control": "no-store",
      "strict-transport-security": "max-age=31536000",
    });
  });

  it("never restricts form-action, which browsers also apply to redirects to the client [D-PAGE-2]", async () => {
    const { headers } = await agent.get("/interaction/login1");
    expect(headers["content-security-policy"]).not.toContain("form-action");
  });

  it("over http has no Strict-Transport-Security", async () => {
    const { headers } = await site({ secure: false }).agent.get("/interaction/login1");
    expect(headers["strict-transport-security"]).toBeUndefined();
  });

  it("has Retry-After in whole seconds", async () => {
    const { headers } = await agent.get("/unavailable");
    expect(headers["retry-after"]).toBe("5");
    expect((await agent.get("/error")).headers["retry-after"]).toBe("600");
  });
});

describe("GET of an interaction", () => {
  it("shows the login form with the client's name and the hint, for the same path", async () => {
    const { agent } = site({ changes: { loginHint: 'ada"<b>@example.com' } });
    const response = await agent.get("/interaction/login1");
    expect(title(response)).toBe("Sign in");
    expect(tagsNamed(response.text, "form")[0]?.attributes.get("action")).toBe("/prefix/interaction/login1");
    const [csrf, username, password] = tagsNamed(response.text, "input").map(({ attributes }) => attributes);
    expect(csrf?.get("value")).toBe(TOKEN);
    expect(username?.get("value")).toBe('ada"<b>@example.com');
    expect(password?.has("value")).toBe(false);
  });

  it("shows the consent form with the account and the fields", async () => {
    const response = await site().agent.get("/interaction/consent1");
    expect(title(response)).toBe("Share your data with News?");
    expect(response.text).toContain("You are signed in as ada@example.com.");
    const items = tagsNamed(response.text, "li").map(({ text }) => text);
    expect(items.slice(0, 2)).toEqual([TEXTS["field.email"], TEXTS["field.sub"]]);
    expect(response.text).toContain("News will receive:");
  });

  it("for an unknown interaction or one of another browser is 400 and says to start again", async () => {
    const response = await site().agent.get("/interaction/gone");
    expect(response.status).toBe(400);
    expect(title(response)).toBe("This sign-in has run out of time");
    expect(tagsNamed(response.text, "a").map(({ attributes }) => attributes.get("href"))).toEqual([
      "https://login.example/prefix/account",
      "?lang=en",
      "?lang=pl",
    ]);
  });

  it.each([
    [undefined, "pl-PL,pl;q=0.9,en;q=0.8", "pl"],
    [undefined, "de, en-GB;q=0.7", "en"],
    [undefined, "de", "en"],
    [undefined, "*", "en"],
    [undefined, "pl;q=0, en", "en"],
    ["pl", "en", "pl"],
    ["de", "pl", "pl"],
  ])("for ui_locales %j and Accept-Language %j uses %s", async (uiLocales, header, lang) => {
    const { agent } = site(uiLocales === undefined ? {} : { changes: { uiLocales } });
    const response = await agent.get("/interaction/login1").set("Accept-Language", header);
    expect(tagsNamed(response.text, "html")[0]?.attributes.get("lang")).toBe(lang);
  });
});

describe("POST of the login form", () => {
  it("redirects with 303 for a right password", async () => {
    const location = "https://login.example/prefix/oauth2/authorize/login1";
    const { post, calls } = site({ outcome: () => ({ kind: "done", location }) });
    const response = await post(RIGHT);
    expect(response.status).toBe(303);
    expect(response.headers).toMatchObject({
      location,
      "cache-control": "no-store",
      "referrer-policy": "same-origin",
    });
    expect(calls).toEqual([["signIn", { username: "ada", password: "correct horse" }]]);
  });

  it("passes name and password on unchanged", async () => {
    const { post, calls } = site();
    const typed = { username: " Łucja+x@example.com ", password: "  zażółć \u{1F511} %2B&=  " };
    await post({ csrf: TOKEN, ...typed });
    expect(calls).toEqual([["signIn", typed]]);
  });

  it("with a wrong password or an unknown name gets 400 and the same page, without the password", async () => {
    const { post } = site();
    const wrong = await post(RIGHT);
    const unknown = await post({ ...RIGHT, username: "bob", password: "correct mule" });
    expect([wrong.status, unknown.status]).toEqual([400, 400]);
    expect(wrong.text.replace('value="ada"', 'value="bob"')).toBe(unknown.text);
    expect(problems(wrong)).toEqual([TEXTS["problem.wrong"]]);
    expect(wrong.text).not.toContain("correct horse");
    expect(wrong.headers["set-cookie"]).toBeUndefined();
    expect(wrong.headers["www-authenticate"]).toBeUndefined();
  });

  it.each([
    [{ username: "", password: "x" }, ["username"]],
    [{ username: " \u00a0", password: "x" }, ["username"]],
    [{ username: "ada", password: "" }, ["password"]],
    [{}, ["username", "password"]],
  ])(
    "with missing fields (%j) gets 400 with their names, and uses no rate-limit point",
    async (typed, fields) => {
      const { post, calls } = site();
      const response = await post({ csrf: TOKEN, ...typed });
      expect(response.status).toBe(400);
      expect(problems(response)).toEqual(fields.map((field) => TEXTS[`problem.${field}.required`]));
      expect(calls).toEqual([]);
    },
  );

  it("after too many attempts gets 429 with Retry-After and the form [D-PAGE-3]", async () => {
    const response = await site({ outcome: () => ({ kind: "limited", retryAfter: 839.2 }) }).post(RIGHT);
    expect(response.status).toBe(429);
    expect(response.headers["retry-after"]).toBe("840");
    expect(response.text).toContain("Too many attempts. Try again in 14 minutes.");
    expect(tagsNamed(response.text, "input")).toHaveLength(3);
  });

  it("for a completed interaction gets 400 and says to start again", async () => {
    const { post } = site({
      outcome: () => {
        throw new ConditionFailed("the interaction is gone");
      },
    });
    const response = await post(RIGHT);
    expect([response.status, title(response)]).toEqual([400, "This sign-in has run out of time"]);
  });

  it("leaves a storage failure to the service", async () => {
    const { post } = site({
      outcome: () => {
        throw new StorageUnavailable("no answer");
      },
    });
    // Bare Koa responds with 500, the service with 503.
    expect((await post(RIGHT)).status).toBe(500);
  });

  it("with a repeated field gets 400 without a call of the flow", async () => {
    const { post, calls } = site();
    const response = await post(`csrf=${TOKEN}&username=a&username=b&password=c`);
    expect([response.status, title(response)]).toEqual([400, TEXTS["error.title"]]);
    expect(calls).toEqual([]);
  });
});

describe("POST of the consent form", () => {
  it.each(["allow", "deny"])(
    "with decision=%s calls the flow once and redirects with 303",
    async (decision) => {
      const { post, calls } = site();
      const response = await post({ csrf: TOKEN, decision }, {}, "consent1");
      expect(response.status).toBe(303);
      expect(response.headers["location"]).toMatch(decision === "allow" ? /allowed$/ : /denied$/);
      expect(calls).toEqual([[decision]]);
    },
  );

  it.each([{}, { decision: "" }, { decision: "ALLOW" }, { username: "ada", password: "x" }])(
    "with %j decides nothing and gets 400",
    async (fields) => {
      const { post, calls } = site();
      const response = await post({ csrf: TOKEN, ...fields }, {}, "consent1");
      expect([response.status, title(response)]).toEqual([400, TEXTS["error.title"]]);
      expect(calls).toEqual([]);
    },
  );
});

describe("a forged form", () => {
  it.each<[string, Record<string, string>, Record<string, string>]>([
    ["no hidden field", { username: "ada", password: "x" }, {}],
    ["an empty one", { ...RIGHT, csrf: "" }, {}],
    ["another one", { ...RIGHT, csrf: "k7Jw-tokem" }, {}],
    ["a part of it", { ...RIGHT, csrf: TOKEN.slice(0, -1) }, {}],
    ["more than it", { ...RIGHT, csrf: `${TOKEN}x` }, {}],
    ["another site", RIGHT, { "Sec-Fetch-Site": "cross-site" }],
    ["another site under the same domain", RIGHT, { "Sec-Fetch-Site": "same-site" }],
    ["another site, with our origin", RIGHT, { "Sec-Fetch-Site": "cross-site", Origin: `https://${HOST}` }],
    ["another origin", RIGHT, { Origin: "https://evil.example" }],
    ["an origin that is hidden", RIGHT, { Origin: "null" }],
    ["our host on http", RIGHT, { Origin: `http://${HOST}` }],
    ["our host on another port", RIGHT, { Origin: `https://${HOST}:8443` }],
    [
      "another origin that the fetch metadata hide",
      RIGHT,
      { "Sec-Fetch-Site": "same-origin", Origin: "https://evil.example" },
    ],
  ])("(%s) gets 403 and says to start again, without a call of the flow", async (_name, fields, headers) => {
    const { post, calls } = site({ outcome: () => ({ kind: "done", location: "/in" }) });
    const response = await post(fields, headers);
    expect([response.status, title(response)]).toEqual([403, "Please start again"]);
    expect(calls).toEqual([]);
    expect(response.headers["location"]).toBeUndefined();
    expect(tagsNamed(response.text, "a")[0]?.attributes.get("href")).toBe("/prefix/interaction/login1");
  });

  it.each<[string, Record<string, string>]>([
    ["without such headers", {}],
    [
      "from our page in a browser, which sends Origin: null",
      { "Sec-Fetch-Site": "same-origin", Origin: "null" },
    ],
    ["from an older browser, without the fetch metadata", { Origin: `https://${HOST}` }],
    ["with our origin", { Origin: `https://${HOST}`, "Sec-Fetch-Site": "same-origin" }],
    ["sent again by the person", { "Sec-Fetch-Site": "none" }],
  ])("is not assumed %s", async (_name, headers) => {
    const { post, calls } = site({ outcome: () => ({ kind: "done", location: "/in" }) });
    expect((await post(RIGHT, headers)).status).toBe(303);
    expect(calls).toHaveLength(1);
  });

  it("decides no consent", async () => {
    const { post, calls } = site();
    expect((await post({ csrf: "x", decision: "allow" }, {}, "consent1")).status).toBe(403);
    expect(
      (await post({ csrf: TOKEN, decision: "allow" }, { Origin: "https://evil.example" }, "consent1")).status,
    ).toBe(403);
    expect(calls).toEqual([]);
  });

  it("for an unknown interaction gets 400", async () => {
    const { post } = site();
    expect((await post(RIGHT, {}, "gone")).status).toBe(400);
  });
});
