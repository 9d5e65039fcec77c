/** A sign-in that has ended: its pages say why, and one button starts the same authorization again. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import type { Form } from "../../testing/browser/forms.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { type RequestParameters, send, type TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { ADA, NEWS, PARTNER, type RunningService, startService } from "./running-service.ts";

const NIGHT = 14 * 3_600;
const DAY = 86_400;
const HOME = "https://news.example/home";
const EXPIRED = "This sign-in has run out of time";
const COMPLETE = "This sign-in is complete";
const ELSEWHERE = "This sign-in belongs to another browser";
const NO_COOKIES = "Your browser sent no cookies";

let clock: TestClock;
let running: RunningService;
let news: TestClient;

beforeEach(async () => {
  clock = new TestClock(Math.floor(Date.now() / 1_000) * 1_000);
  running = await startService({ config: { clock } });
  news = clientAt(running, "oauth2", NEWS);
  await running.service.clients.update("news", { client_uri: HOME });
});

/** The dates of cookies are those of the system. */
const browserNow = (party: TestClient = news): Browser => party.browser();

/** A browser at the login form. */
const opened = (parameters: RequestParameters = { state: "s 1" }, party = news): Promise<Browser> =>
  browserNow(party).get(party.authorizeUrl(parameters));

/** The form that starts again. */
function restart(browser: Browser): Form {
  return browser.forms().find(({ buttons }) => buttons.some(([, value]) => value === "again"))!;
}

const pressAgain = (browser: Browser): Promise<Browser> =>
  browser.submit(restart(browser), { action: "again" });

const blind = (): Browser => {
  const browser = browserNow();
  browser.jar.take = () => undefined;
  return browser;
};

/** An ended sign-in, with its address and its sealed request. */
async function ended(party: TestClient = news) {
  const browser = await opened({ state: "s 1" }, party);
  const form = browser.form("password");
  const again = form.fields.find(([name]) => name === "again")?.[1] ?? "";
  clock.advance(NIGHT);
  return { browser, again, action: form.action.href };
}

const post = (browser: Browser, address: string, again: string, headers: Record<string, string> = {}) =>
  send(address, {
    method: "POST",
    headers: { cookie: browser.jar.header(new URL(address)), "sec-fetch-site": "same-origin", ...headers },
    body: new URLSearchParams({ again, action: "again" }),
  });

describe("a form that was left open over night", () => {
  it("says that its time is over, and starts the same authorization again, with the name [D-AGAIN-1]", async () => {
    const browser = await opened({ state: "a b+c%", login_hint: "x@example.com", ui_locales: "en" });
    const form = browser.form("password");
    clock.advance(NIGHT);
    await browser.submit(form, { username: ADA.username, password: ADA.password });
    expect([browser.status, browser.title]).toEqual([400, EXPIRED]);
    expect(browser.html).toContain("What you typed is gone, except your name.");
    expect(browser.html).not.toContain(ADA.password);
    expect(browser.html).toContain(`href="${HOME}"`);
    await pressAgain(browser);
    expect([browser.status, browser.title]).toEqual([200, "Sign in"]);
    expect(browser.form("password").fields).toContainEqual(["username", ADA.username]);
    await signIn(browser);
    expect(browser.location?.searchParams.get("state")).toBe("a b+c%");
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it.each<[string, "oauth2" | "openid", RequestParameters, RequestParameters]>([
    ["a plain one", "oauth2", {}, {}],
    ["an empty state", "oauth2", { state: "" }, { state: "" }],
    ["OpenID Connect", "openid", { scope: "openid email", nonce: "n", max_age: "60" }, {}],
    ["claims", "openid", { scope: "openid", claims: '{"id_token":{"acr":null}}' }, {}],
    ["what needs openid", "openid", { scope: "email", nonce: "n" }, { nonce: undefined }],
    ["a recent sign-in", "oauth2", { max_age: "60", acr_values: "urn:sign-in-service:acr:mfa" }, {}],
    ["the most recent sign-in", "oauth2", { max_age: "0" }, { max_age: undefined, prompt: "login" }],
    ["unknown scopes", "oauth2", { scope: "email unknown" }, { scope: "email" }],
    ["PKCE", "oauth2", { code_challenge: "a".repeat(43), code_challenge_method: "S256" }, {}],
    ["text of any kind", "openid", { state: "&=#?+ %\u00fc", response_mode: "form_post" }, {}],
    ["prompts", "openid", { prompt: "login consent", ui_locales: "de en" }, { prompt: "login" }],
  ])(
    "starts a request with the same parameters: %s on %s [D-AGAIN-1]",
    async (_name, kind, sent, changes) => {
      const party = clientAt(running, kind, NEWS);
      const visitor = new JsonVisitor(browserNow(party));
      let { body } = await visitor.open(party.authorizeUrl(sent));
      const defaults = { client_id: "news", response_type: "code", redirect_uri: party.redirect_uri };
      const wanted = Object.entries({ ...defaults, ...sent, ...changes }).filter(
        ([, value]) => value !== undefined,
      );
      for (let round = 0; round < 2; round += 1) {
        clock.advance(NIGHT);
        const { location = "" } = (await visitor.post(body.actions[0]!.href, { again: body.again })).body;
        const query = Object.fromEntries(new URL(location).searchParams);
        expect(query).toEqual(Object.fromEntries(wanted));
        ({ body } = await visitor.open(location));
      }
    },
  );

  it("keeps its request for 24 hours [D-AGAIN-1]", async () => {
    const browser = await opened();
    const form = browser.form("password");
    clock.advance(DAY - 1);
    await browser.submit(form, { username: "ada", password: "x" });
    const again = restart(browser);
    expect(again.fields.find(([name]) => name === "again")?.[1]).not.toBe("");
    clock.advance(1);
    await browser.submit(again, { action: "again" });
    expect(browser.status).toBe(400);
    expect(restart(browser).fields).toContainEqual(["again", ""]);
    // Nothing is left but the way to the account.
    expect(browser.html).toContain(`href="${running.oauth2}/account"`);
  });

  it("of the account pages leads to the page that was wanted [D-AGAIN-1]", async () => {
    const browser = await browserNow().get(`${running.openid}/account/sessions`);
    const form = browser.form("password");
    clock.advance(NIGHT);
    await browser.submit(form, { username: ADA.username, password: ADA.password });
    await pressAgain(browser);
    await signIn(browser);
    expect([browser.status, browser.url.pathname]).toEqual([200, "/openid/account/sessions"]);
  });

  it("does not start again what came by PAR: the way to the client [D-AGAIN-1]", async () => {
    const party = clientAt(running, "openid", NEWS);
    const pushed = await party.post("/oauth2/par", {
      client_id: "news",
      response_type: "code",
      redirect_uri: party.redirect_uri,
      scope: "openid",
    });
    const browser = browserNow(party);
    const query = new URLSearchParams({ client_id: "news", request_uri: String(pushed.body["request_uri"]) });
    await browser.get(`${party.base}/oauth2/authorize?${query}`);
    const form = browser.form("password");
    expect(form.fields.map(([name]) => name)).not.toContain("again");
    clock.advance(NIGHT);
    await browser.submit(form, { username: "ada", password: "x" });
    expect(browser.status).toBe(400);
    expect(restart(browser).fields).toContainEqual(["again", ""]);
    const described = await browser.json(browser.url);
    expect(described).not.toHaveProperty("again");
  });
});

describe("an old page", () => {
  it("of a sign-in that is complete says so, and goes on to the client [D-AGAIN-1]", async () => {
    const browser = await opened();
    const form = browser.form("password");
    const address = browser.url;
    await signIn(browser);
    await browser.submit(form, { username: ADA.username, password: ADA.password });
    expect([browser.status, browser.title]).toEqual([400, COMPLETE]);
    expect(browser.html).toContain("Continue to News");
    await pressAgain(browser);
    expect(browser.location?.searchParams.has("code")).toBe(true);
    await browser.get(address);
    expect([browser.status, browser.title]).toEqual([400, COMPLETE]);
  });

  it("of another browser says so, and starts there what was started here [D-AGAIN-1]", async () => {
    const mine = await opened();
    const form = mine.form("password");
    const other = await opened();
    await other.submit(form, { username: ADA.username, password: ADA.password });
    expect([other.status, other.title]).toEqual([400, ELSEWHERE]);
    await pressAgain(other);
    expect([other.status, other.title]).toEqual([200, "Sign in"]);
    // The address alone reveals the client, and nothing of the request.
    await other.get(mine.url);
    expect([other.status, other.title]).toEqual([400, ELSEWHERE]);
    expect(other.html).toContain(`href="${HOME}"`);
    expect(restart(other).fields).toContainEqual(["again", ""]);
  });

  it("of the way back says that it is complete", async () => {
    const browser = await opened();
    await signIn(browser);
    const { url } = browser.visits.at(-1)!;
    await browser.get(url);
    expect([browser.status, browser.title]).toEqual([400, COMPLETE]);
  });
});

describe("a browser without cookies", () => {
  it("reads that cookies are needed, and can start again once they are allowed [D-AGAIN-1]", async () => {
    const browser = await blind().get(news.authorizeUrl({ state: "s 1" }));
    expect([browser.status, browser.title]).toEqual([400, NO_COOKIES]);
    expect(browser.html).toContain("Allow cookies for 127.0.0.1");
    const allowed = await browserNow().get(browser.url);
    await allowed.submit(restart(browser), { action: "again" });
    await signIn(allowed);
    expect(allowed.location?.searchParams.get("state")).toBe("s 1");
  });

  it("gets the request within a minute only: an address that was passed on reveals nothing [D-AGAIN-1]", async () => {
    const { url } = await opened();
    clock.advance(61);
    const stranger = await new Browser().get(url);
    expect(stranger.title).toBe(NO_COOKIES);
    expect(restart(stranger).fields).toContainEqual(["again", ""]);
  });
});

describe("a sealed request", () => {
  it("leads to the authorization endpoint and nowhere else [D-AGAIN-2]", async () => {
    const { browser, again, action } = await ended();
    const { status, headers } = await post(browser, action, again);
    const location = new URL(headers.get("location") ?? "");
    expect([status, location.origin + location.pathname]).toEqual([
      303,
      `${running.oauth2}/oauth2/authorize`,
    ]);
  });

  it("counts only as it was made: forged, cut, of another sign-in, deployment or service [D-AGAIN-2]", async () => {
    const one = await ended();
    const two = await ended();
    const openid = await ended(clientAt(running, "openid", NEWS));
    const foreign = await startService({ config: { clock } });
    const theirs = await clientAt(foreign, "oauth2", NEWS)
      .browser()
      .get(clientAt(foreign, "oauth2", NEWS).authorizeUrl());
    const [, stranger = ""] = theirs.form("password").fields.find(([name]) => name === "again") ?? [];
    const flipped = one.again.slice(0, 40) + (one.again[40] === "A" ? "B" : "A") + one.again.slice(41);
    const plain = Buffer.from(JSON.stringify({ query: "client_id=news", sealedAt: clock.now() }));
    const wrong: [string, string][] = [
      ["empty", ""],
      ["text", "https://evil.example/"],
      ["plain", plain.toString("base64url")],
      ["flipped", flipped],
      ["cut", one.again.slice(0, -4)],
      ["longer", `${one.again}AAAA`],
      ["of another sign-in", two.again],
      ["of another deployment", openid.again],
      ["of another service", stranger],
      ["huge", "A".repeat(60_000)],
    ];
    for (const [name, again] of wrong) {
      const { status, headers, text } = await post(one.browser, one.action, again);
      expect([name, status, headers.get("location")]).toEqual([name, 400, null]);
      expect(text).toContain("<h1>");
    }
    const moved = openid.action.replace(running.openid, running.oauth2);
    expect((await post(openid.browser, moved, openid.again)).status).toBe(400);
  });

  it("does nothing for another site [D-AGAIN-2]", async () => {
    const { browser, again, action } = await ended();
    for (const headers of [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }]) {
      const answer = await post(browser, action, again, headers);
      expect([answer.status, answer.headers.get("location")]).toEqual([400, null]);
    }
  });

  it("is a new request with every check [D-AGAIN-2]", async () => {
    const { browser, again, action } = await ended();
    await running.service.clients.update("news", { redirect_uris: ["https://news.example/new"] });
    const answer = await post(browser, action, again);
    const refused = await send(answer.headers.get("location") ?? "");
    expect([refused.status, refused.body["error"]]).toEqual([400, "invalid_redirect_uri"]);
    await running.service.clients.disable("news");
    expect((await post(browser, action, again)).status).toBe(400);
  });

  it("shows nothing of the request or the person to those who read the page", async () => {
    const { again } = await ended();
    expect(Buffer.from(again, "base64url").toString("latin1")).not.toMatch(/news|client_id|s\+1/);
  });

  it("leads back to a sign-in that goes on", async () => {
    const browser = await opened();
    await browser.submit(browser.form("password"), { action: "again" });
    expect([browser.status, browser.title]).toEqual([200, "Sign in"]);
  });
});

describe("in JSON", () => {
  it("410 says why, and the address takes again for a location [D-AGAIN-3]", async () => {
    const visitor = new JsonVisitor(browserNow());
    const { body } = await visitor.open(news.authorizeUrl({ state: "s 1" }));
    const { href } = body.actions[0]!;
    expect(body.again).toMatch(/^[\w-]{100,}$/);
    clock.advance(NIGHT);
    const late = await visitor.post(href, {
      csrf: body.csrf,
      username: "ada",
      password: "x",
      again: body.again,
    });
    expect(late.status).toBe(410);
    expect(late.body).toMatchObject({
      error: "gone",
      reason: "expired",
      client: { name: "News", client_uri: HOME },
    });
    const evil = { headers: { origin: "https://evil.example" } };
    expect((await visitor.post(href, { again: body.again }, evil)).status).toBe(403);
    const restarted = await visitor.post(href, { again: body.again, username: "ada" });
    expect([restarted.status, Object.keys(restarted.body)]).toEqual([200, ["location"]]);
    const next = await visitor.open(restarted.body.location ?? "");
    expect(next.body.step).toBe("login");
    expect(next.body.fields[0]).toMatchObject({ name: "username", value: "ada" });
    const done = await visitor.act(next.body, "submit", { username: ADA.username, password: ADA.password });
    await visitor.browser.get(done.body.location ?? "");
    expect(visitor.browser.location?.searchParams.get("state")).toBe("s 1");
  });

  it("nothing else than a sealed request of this sign-in starts anything [D-AGAIN-3]", async () => {
    const visitor = new JsonVisitor(browserNow());
    const { body } = await visitor.open(news.authorizeUrl());
    const other = await new JsonVisitor(browserNow()).open(news.authorizeUrl());
    const { href } = body.actions[0]!;
    // A sign-in that goes on is changed by its own form only.
    expect((await visitor.post(href, { again: body.again })).status).toBe(403);
    clock.advance(NIGHT);
    for (const again of ["", "x", other.body.again]) {
      const answer = await visitor.post(href, { again });
      expect([answer.status, answer.body.error]).toEqual([410, "gone"]);
    }
  });
});

describe("consent", () => {
  it("starts the whole authorization again [D-AGAIN-1]", async () => {
    const partner = clientAt(running, "openid", PARTNER);
    const browser = await opened({ scope: "openid email", state: "s 2" }, partner);
    await signIn(browser);
    const form = browser.form("decision");
    clock.advance(NIGHT);
    await browser.submit(form, { decision: "allow" });
    expect(browser.title).toBe(EXPIRED);
    expect(browser.html).not.toContain("What you typed");
    await pressAgain(browser);
    expect(browser.title).toBe("Share your data with Partner?");
    await browser.submit(browser.form("decision"), { decision: "allow" });
    expect(browser.location?.searchParams.get("state")).toBe("s 2");
  });
});
