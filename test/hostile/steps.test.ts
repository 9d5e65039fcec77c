/** Every step of a sign-in against what a hostile site, program or person sends. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { AccountInternals } from "../../accounts/account.ts";
import type { StepName } from "../../interactions/steps/running-sign-in.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { leaveFor, linkTo } from "../flows/provider-party.ts";
import { ADA, BOB, type KnownClient, NEWS, onLocalhost, PARTNER, SHOP } from "../flows/running-service.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import {
  ASKS,
  codeIn,
  linkIn,
  type SelfService,
  startSelfService,
  TERMS,
} from "../interactions/self-service.ts";
import { createTestProvider, type TestProvider } from "../../testing/test-provider.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { closing } from "../closing.ts";
import { sendRaw } from "./raw.ts";

/** Asks for everything, and has terms that nobody has accepted yet. */
const SETTINGS = { registration: { ...ASKS, terms: TERMS, passwordless: true } };
const PASSWORD = "a long sentence about nothing";
/** Needs a second factor. */
const VAULT: KnownClient = { ...SHOP, client_id: "vault", second_factor: "required" };
/** Has an authenticator app. */
const FAY = { username: "fay@example.com", password: PASSWORD };
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const EVIL = "https://evil.example";

let offset = 0;
let service: SelfService;
let news: TestClient;
let provider: TestProvider;
let count = 0;

beforeAll(async () => {
  provider = await createTestProvider();
  closing(provider);
  const clock = { virtual: true, now: (): number => Date.now() + offset };
  provider.clock = clock;
  service = await startSelfService(SETTINGS, {
    config: {
      clock,
      signIn: { emailCode: true },
      providers: { corp: { ...provider.settings, trustsEmail: true } },
    },
    deployments: onLocalhost,
  });
  const identity = { provider: "corp", issuer: provider.issuer, subject: "ada-there" };
  await linkTo(service, service.ada.sub, identity);
  news = clientAt(service, "oauth2", NEWS);
  await service.service.accounts.import({
    email: "carl@example.com",
    password: PASSWORD,
    email_verified: true,
  });
  await service.service.clients.register(VAULT);
  const { sub } = await service.service.accounts.create({ email: FAY.username, password: PASSWORD });
  await service.service.accounts.addApp(sub, { secret: SECRET });
});

const title = (browser: Browser): string => tagsNamed(browser.html, "h1")[0]?.text ?? "";
const ada = { username: ADA.username, password: ADA.password };

async function atLogin(party: TestClient = news): Promise<Browser> {
  return party.browser().get(party.authorizeUrl());
}

/** Somebody with a password and a confirmed address. */
const known = (email: string) =>
  service.service.accounts.import({ email, password: PASSWORD, email_verified: true });

/** A browser at the form of another step. */
async function way(step: string): Promise<Browser> {
  const browser = await atLogin();
  return browser.get(`${browser.url.href}/${step}`);
}

/** Somebody new who signs in to a client that needs a second factor. */
async function atEnrolment(): Promise<{ readonly browser: Browser; readonly email: string }> {
  const { email } = await known(`factors-${(count += 1)}@example.org`);
  const browser = await atLogin(clientAt(service, "oauth2", VAULT));
  return { browser: await signIn(browser, { username: email, password: PASSWORD }), email };
}

/** The same person, with the code from the mail. */
async function confirmed({ browser, email }: Awaited<ReturnType<typeof atEnrolment>>): Promise<Browser> {
  return browser.submit(browser.form("code"), { code: codeIn(await service.mailTo(email)) });
}

/** The code in the newest mail that has one. */
async function mailedCode(to: string): Promise<string> {
  for (;;) {
    const code = codeIn(await service.mailTo(to));
    if (code !== "") return code;
  }
}

/** Somebody who comes back from the provider for the first time, with an address that it vouches for. */
async function atNewcomer(email?: string): Promise<Browser> {
  count += 1;
  provider.signIn({ sub: `newcomer-${count}`, ...(email !== undefined && { email, email_verified: true }) });
  return leaveFor(await atLogin());
}

async function atKnownAddress(): Promise<{ readonly browser: Browser; readonly email: string }> {
  const { email } = await known(`known-${(count += 1)}@example.org`);
  return { browser: await atNewcomer(email), email };
}

/** The person has signed in to it. */
async function atLinkCode(): ReturnType<typeof atKnownAddress> {
  const { browser, email } = await atKnownAddress();
  return { browser: await browser.submit(browser.form("password"), { password: PASSWORD }), email };
}

/** How to reach each step. The browser shows its page. */
const REACH: Readonly<Record<StepName, () => Promise<Browser>>> = {
  login: atLogin,
  provider: () => news.browser().get(news.authorizeUrl({ provider_hint: "corp" })),
  async reauthenticate() {
    const browser = await new Browser().get(`${service.oauth2}/account`);
    await signIn(browser, ada);
    await acceptTerms(browser);
    offset += 400_000;
    return browser.get(`${service.oauth2}/account/password`);
  },
  async "email-code"() {
    const browser = await way("email-code");
    return browser.submit(browser.form("username"), { username: BOB.email });
  },
  async "second-factor"() {
    const browser = await atLogin();
    return signIn(browser, FAY);
  },
  async "provider-problem"() {
    provider.signIn({ sub: "nobody-there" });
    provider.lies.set("wrong nonce");
    return leaveFor(await atLogin()).finally(() => provider.lies.clear());
  },
  async "provider-fresh"() {
    provider.signIn({ sub: "ada-there", auth_time: null });
    return leaveFor(await news.browser().get(news.authorizeUrl({ prompt: "login" })));
  },
  async invitation() {
    const { email } = await service.service.accounts.invite({ email: `invited-${(count += 1)}@example.org` });
    return new Browser().get(linkIn(await service.mailTo(email)));
  },
  "provider-register": () => atNewcomer(),
  "provider-known": async () => (await atKnownAddress()).browser,
  "provider-confirm": async () => (await atLinkCode()).browser,
  async "provider-link"() {
    const { browser, email } = await atLinkCode();
    return browser.submit(browser.form("code"), { code: await mailedCode(email) });
  },
  async "offer-passkey"() {
    count += 1;
    const email = `offered-${count}@example.org`;
    const { sub } = await service.service.accounts.import({
      email,
      password: PASSWORD,
      email_verified: true,
    });
    await (service.service.accounts as unknown as AccountInternals).acceptTerms(sub, TERMS.version, SYSTEM);
    const browser = await atLogin();
    return browser.submit(browser.form("password"), {
      username: email,
      password: PASSWORD,
      can_add_passkey: "true",
    });
  },
  "enrol-confirm": async () => (await atEnrolment()).browser,
  enrol: async () => confirmed(await atEnrolment()),
  async "recovery-codes"() {
    const browser = await confirmed(await atEnrolment());
    const form = browser.forms().find(({ fields }) => fields.some(([, value]) => value === "app"));
    const key = /class="app-key">([^<]*)</.exec(browser.html)?.[1] ?? "";
    await browser.submit(form, { code: totpCode(key, Date.now() + offset) });
    // The codes are shown only in the answer that made them: a page with its own form.
    return browser.get(browser.url.href.replace(/\/enrol$/, "/recovery-codes"));
  },
  async "review-methods"() {
    count += 1;
    const username = `reset-${count}@example.org`;
    const person = { email: username, password: PASSWORD, email_verified: true };
    const { sub } = await service.service.accounts.create(person);
    await service.service.accounts.addApp(sub, { secret: SECRET });
    const browser = await way("forgot-password");
    await browser.submit(browser.form("username"), { username });
    await browser.submit(browser.form("code"), { code: await mailedCode(username), password: PASSWORD });
    await signIn(browser, { username, password: PASSWORD });
    const [form] = browser.forms();
    return browser.submit(form, { code: totpCode(SECRET, Date.now() + offset) });
  },
  register: () => way("register"),
  async "confirm-email"() {
    const browser = await way("register");
    count += 1;
    const email = `person-${count}@example.org`;
    const values = { email, password: PASSWORD, name: "Eve", terms: TERMS.version };
    return browser.submit(browser.form("email"), values);
  },
  "forgot-password": () => way("forgot-password"),
  async "new-password"() {
    const browser = await way("forgot-password");
    return browser.submit(browser.form("username"), { username: BOB.email });
  },
  async terms() {
    const browser = await atLogin();
    return signIn(browser, { username: "carl@example.com", password: PASSWORD });
  },
  async continue() {
    const client_id = "hostile-app";
    await service.service.clients
      .register({
        kind: "public",
        native: true,
        client_id,
        name: "App",
        service: "1",
        redirect_uris: ["http://127.0.0.1/callback"],
      })
      .catch(() => undefined);
    const browser = await atLogin();
    await signIn(browser, ada);
    await acceptTerms(browser);
    const app = new URL(news.authorizeUrl());
    app.searchParams.set("client_id", client_id);
    app.searchParams.set("redirect_uri", "http://127.0.0.1:4999/callback");
    app.searchParams.set("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    app.searchParams.set("code_challenge_method", "S256");
    return browser.get(app.href);
  },
  async consent() {
    const partner = clientAt(service, "oauth2", PARTNER);
    const browser = await atLogin(partner);
    await signIn(browser, BOB);
    await acceptTerms(browser);
    return browser;
  },
};

/** Accepts the terms, if the sign-in asks for that. */
async function acceptTerms(browser: Browser): Promise<void> {
  if (!browser.html.includes('name="terms"')) return;
  const [form] = browser.forms();
  await browser.submit(form, { terms: TERMS.version });
}

/** Somebody who registers without a password, where the passkey is made. */
async function newcomer(): Promise<Browser> {
  const browser = await way("register");
  count += 1;
  const email = `newcomer-${count}@example.org`;
  const action = "without-password";
  await browser.submit(browser.form("email"), { email, name: "Eve", terms: TERMS.version, action });
  return browser.submit(browser.form("code"), { code: await mailedCode(email) });
}

const PLACES: readonly (readonly [string, StepName, () => Promise<Browser>])[] = [
  ...(Object.keys(REACH) as StepName[]).map((name) => [name, name, REACH[name]] as const),
  ["enrol of a new account", "enrol", newcomer],
];

/** The form of the fields: the first one. */
function formOf(browser: Browser) {
  const [form] = browser.forms();
  if (form === undefined) throw new Error("the page has no form");
  return form;
}

/** Sends the form of a step, complete with values, as another site or program could. */
function post(browser: Browser, changes: Record<string, string>, headers: Record<string, string> = {}) {
  const form = formOf(browser);
  // At other steps it would be an unknown action, and nothing else of the form would be read.
  const decision = browser.html.includes('name="decision"') ? { decision: "allow" } : {};
  const values = { ...Object.fromEntries(form.fields), ...decision, ...changes };
  return fetch(form.action, {
    method: "POST",
    redirect: "manual",
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      accept: "text/html",
      cookie: browser.jar.header(form.action),
      ...headers,
    },
    body: new URLSearchParams(values),
  });
}

describe.each(PLACES)("the step %s", (_place, name, reach) => {
  it("does nothing for a form without its token, with another's, or from another site [D-UI-2, D-SELF-2]", async () => {
    const browser = await reach();
    const other = await atLogin();
    const foreign = Object.fromEntries(formOf(other).fields)["csrf"] ?? "";
    const { headers: at } = browser;
    expect(at.get("content-type")).toContain("text/html");
    for (const [changes, headers] of [
      [{ csrf: "" }, {}],
      [{ csrf: foreign }, {}],
      [{}, { origin: EVIL }],
      [{}, { origin: "null" }],
      [{}, { "sec-fetch-site": "cross-site" }],
      [{}, { "sec-fetch-site": "same-site" }],
      [{}, { origin: EVIL, "sec-fetch-site": "same-origin" }],
    ] as const) {
      const answer = await post(browser, changes, headers);
      expect([changes, headers, answer.status]).toEqual([changes, headers, 403]);
      expect(answer.headers.get("location")).toBeNull();
    }
    const visitor = new JsonVisitor(browser);
    const { pathname } = formOf(browser).action;
    const address = `${browser.url.origin}${pathname}`;
    const step = await visitor.get(address);
    expect(step.body.step).toBe(name);
    for (const headers of [{ origin: EVIL }, { origin: "null" }, { origin: "" }])
      expect((await visitor.post(address, { csrf: step.body.csrf }, { headers })).status).toBe(403);
    expect((await visitor.get(address)).body.step).toBe(name);
  });

  it("answers hostile text in each field with the step, escaped, and never with a fault", async () => {
    const browser = await reach();
    const form = formOf(browser);
    // The form of a consent allows it, whatever else it sends.
    const aside = new Set(["csrf", "action", ...(name === "consent" ? ["again"] : [])]);
    const names = form.fields.map(([field]) => field).filter((field) => !aside.has(field));
    const fields = names.includes("terms") || name !== "terms" ? names : [...names, "terms"];
    for (const text of [
      '"><script>alert(1)</script>',
      "x".repeat(10_000),
      "' OR 1=1 --",
      "\u202E\uD83D\uDE00\u0000".replace("\u0000", ""),
      "{{7*7}}<%= 1 %>${1}",
      "../../etc/passwd",
      "__proto__",
      "a\r\nBcc: all@example.org",
    ]) {
      for (const field of fields) {
        const answer = await post(browser, { [field]: text }, { "sec-fetch-site": "same-origin" });
        const html = await answer.text();
        expect([name, field, text.slice(0, 20), [200, 303, 400, 429].includes(answer.status)]).toEqual([
          name,
          field,
          text.slice(0, 20),
          true,
        ]);
        expect(html).not.toContain("<script>alert");
        expect(html).not.toContain("49<%");
        if (answer.status === 303)
          expect(answer.headers.get("location")).toMatch(/^\/|^http:\/\/(?:localhost|127\.0\.0\.1)/);
      }
    }
  });

  it("is lost without its cookie, and for another browser [D-UI-2]", async () => {
    const browser = await reach();
    const { action } = formOf(browser);
    const fresh = new Browser();
    expect([title(await fresh.get(action)), fresh.status]).toEqual(["Your browser sent no cookies", 400]);
    const answer = await post(browser, {}, { cookie: "" });
    expect(answer.status).toBe(400);
    const stranger = new JsonVisitor();
    expect((await stranger.get(action.href)).status).toBe(410);
    const headers = { origin: action.origin };
    expect((await stranger.post(action.href, { csrf: "x" }, { headers })).status).toBe(410);
  });

  it("ends with the sign-in: an hour later it starts again", async () => {
    const browser = await reach();
    const { action } = formOf(browser);
    offset += 3_700_000;
    expect((await post(browser, {})).status).toBe(400);
    expect([title(await browser.get(action)), browser.status]).toEqual([
      // The cookie of a browser ends by the clock of the system, which stands still here.
      expect.stringMatching(/^This sign-in /),
      400,
    ]);
  });

  it("never leads to another host, whatever the address or the Host says", async () => {
    const browser = await reach();
    const { action } = formOf(browser);
    for (const query of [
      "?returnTo=https://evil.example",
      "?lang=//evil.example",
      "?interaction=//evil.example",
    ]) {
      await browser.get(`${action.href.split("?")[0]}${query}`);
      expect(browser.status).toBe(200);
      expect(browser.html.replaceAll(/href="\?[^"]*"/g, "")).not.toContain("evil.example");
    }
    const cookie = browser.jar.header(action);
    const raw = await sendRaw(
      Number(action.port),
      `GET ${action.pathname} HTTP/1.1\r\nHost: evil.example\r\nCookie: ${cookie}\r\nAccept: text/html\r\nConnection: close\r\n\r\n`,
    );
    expect(raw.body).not.toContain("evil.example");
    expect(raw.headers.get("location") ?? "").not.toContain("evil.example");
  });
});

describe("a sign-in", () => {
  it("is finished once: a second submit of the same form starts again", async () => {
    const browser = await atLogin();
    const form = formOf(browser);
    await signIn(browser, ada);
    await acceptTerms(browser);
    expect(browser.location?.searchParams.get("code")).toEqual(expect.any(String));
    await browser.submit(form, ada);
    expect([browser.status, title(browser)]).toEqual([400, "This sign-in is complete"]);
  });

  it("goes on after the back button: an earlier step is submitted again, and the current one is shown", async () => {
    const browser = await REACH["confirm-email"]();
    const back = await browser.get(`${browser.url.href}/register`);
    expect(title(back)).toMatch(/^Create an account/);
    const email = `other-${count}@example.org`;
    await browser.submit(browser.form("email"), {
      email,
      password: PASSWORD,
      name: "Eve",
      terms: TERMS.version,
    });
    expect(browser.html).toContain(email);
    const login = await browser.get(`${browser.url.href}/login`);
    expect(title(login)).toMatch(/^Sign in/);
  });

  it("of two clients in two tabs of one browser leads each to its own", async () => {
    const shop = clientAt(service, "oauth2", SHOP);
    const browser = news.browser({ stopAt: [...NEWS.redirect_uris, ...SHOP.redirect_uris] });
    await browser.get(news.authorizeUrl());
    const first = formOf(browser);
    await browser.get(shop.authorizeUrl());
    const second = formOf(browser);
    expect(second.action.href).not.toBe(first.action.href);
    await browser.submit(first, ada);
    await acceptTerms(browser);
    expect(browser.location?.href.startsWith(NEWS.redirect_uris[0]!)).toBe(true);
    await browser.get(shop.authorizeUrl());
    expect(browser.location?.href.startsWith(SHOP.redirect_uris[0]!)).toBe(true);
  });

  it("gets a new session: one that was planted in the browser is worth nothing", async () => {
    const attacker = await atLogin();
    const planted = attacker.jar.all().map(({ name, value }) => `${name}=${value}`);
    const victim = await atLogin();
    const before = new Set(victim.jar.all().map(({ value }) => value));
    await signIn(victim, ada);
    await acceptTerms(victim);
    const session = victim.jar.all().filter(({ name }) => name.includes("session"));
    expect(session.length).toBeGreaterThan(0);
    for (const { value } of session) {
      expect(before.has(value)).toBe(false);
      expect(planted.some((pair) => pair.endsWith(`=${value}`))).toBe(false);
    }
  });

  it("confirms nothing for a mail scanner: GET, again and again, and HEAD change nothing [D-LINK-1]", async () => {
    const browser = await REACH["new-password"]();
    const link = linkIn(await service.mailTo(BOB.email));
    expect(link.startsWith(`${service.oauth2}/confirm?token=`)).toBe(true);
    for (let visits = 0; visits < 3; visits += 1) {
      const scanner = await new Browser().get(link);
      expect([scanner.status, title(scanner)]).toEqual([200, "Choose a new password"]);
      expect(scanner.url.href).not.toContain("token");
      const [cookie] = scanner.visits[0]?.headers.getSetCookie() ?? [];
      expect(cookie).toMatch(/; HttpOnly; SameSite=Lax/);
      const head = await fetch(link, { method: "HEAD", redirect: "manual" });
      expect([head.status, head.headers.get("location"), head.headers.getSetCookie()]).toEqual([
        303,
        "/confirm",
        [],
      ]);
    }
    const forged = await fetch(`${service.oauth2}/confirm`, {
      method: "POST",
      headers: { origin: EVIL, cookie: `x=y`, "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ password: PASSWORD }),
    });
    expect(forged.status).toBe(400);
    await expect(service.service.accounts.verifyPassword(service.bob.sub, BOB.password)).resolves.toBe(true);
    expect(title(await browser.get(link))).toBe("Choose a new password");
  });

  it.each(["", "x", "a".repeat(43), "a".repeat(10_000), "<script>", "../..", "%00"])(
    "has no page for the token %j",
    async (token) => {
      const browser = await new Browser().get(`${service.oauth2}/confirm?token=${token}`);
      expect(browser.status).toBe(400);
      expect(browser.html).not.toContain("<script>");
    },
  );
});
