/** Registration and forgotten passwords inside a running sign-in, as pages and as JSON. */
import { describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { BOB, NEWS, UNLIMITED } from "../flows/running-service.ts";
import { JsonVisitor } from "./json-visitor.ts";
import { ASKS, codeIn, linkIn, startSelfService, TERMS } from "./self-service.ts";
import { beforeTests } from "../closing.ts";

const service = beforeTests(() => startSelfService());
const news = clientAt(service, "oauth2", NEWS);
const openid = clientAt(service, "openid", NEWS);

const PASSWORD = "a long sentence about nothing";
let count = 0;
const newAddress = (): string => `person-${(count += 1)}@example.org`;
const title = (browser: Browser): string => tagsNamed(browser.html, "h1")[0]?.text ?? "";
const code = (browser: Browser): string | null | undefined => browser.location?.searchParams.get("code");

/** A browser at the page of a way from the login form. */
async function at(way: string, party: TestClient = news): Promise<Browser> {
  const browser = await party.browser().get(party.authorizeUrl());
  return browser.get(`${browser.url.href}/${way}`);
}

/** A browser that waits for the code. */
async function registering(email: string, more: Record<string, string> = {}): Promise<Browser> {
  const browser = await at("register");
  await browser.submit(browser.form("email"), { email, password: PASSWORD, name: "Eve", ...more });
  return browser;
}

describe("registration", () => {
  it("by code ends where the person was going, signed in", async () => {
    const email = newAddress();
    const browser = await registering(email);
    expect(title(browser)).toBe("Confirm your email address");
    expect(browser.html).toContain(email);
    const message = await service.mailTo(email);
    expect(message.text).toMatch(/^Confirm your email address\nto continue to \S/);
    // As it is copied from the HTML.
    await browser.submit(browser.form("code"), { code: codeIn(message).replace(/^.{4}/, "$& ") });
    expect(code(browser)).toEqual(expect.any(String));
    await expect(service.service.accounts.findByLogin(email)).resolves.toMatchObject({
      name: "Eve",
      email_verified: true,
    });
  });

  it("by link in the same browser confirms with a POST only, and ends where the person was going [D-LINK-1]", async () => {
    const email = newAddress();
    const browser = await registering(email);
    const link = linkIn(await service.mailTo(email));
    expect((await fetch(link, { method: "HEAD", redirect: "manual" })).status).toBe(303);
    await browser.get(link);
    expect(browser.visits.map(({ status }) => status)).toEqual([303, 303, 200]);
    expect(browser.visits.slice(1).some(({ url }) => url.href.includes("token"))).toBe(false);
    expect(await service.service.accounts.findByLogin(email)).toBeUndefined();
    await browser.submit(browser.form("csrf"), {});
    expect(code(browser)).toEqual(expect.any(String));
    await browser.get(link);
    expect(title(browser)).toBe("This link no longer works");
  });

  it("by link in another browser confirms nothing, and says to type the code where the sign-in waits [D-REGISTER-7]", async () => {
    const email = newAddress();
    const browser = await registering(email);
    const message = await service.mailTo(email);
    const other = await new Browser().get(linkIn(message));
    expect(other.visits.at(-1)?.status).toBe(200);
    expect(other.html).toContain("Enter the code from the message there. Nothing has been confirmed here.");
    expect(tagsNamed(other.html, "form")).toEqual([]);
    expect(await service.service.accounts.findByLogin(email)).toBeUndefined();
    await browser.submit(browser.form("code"), { code: codeIn(message).toLowerCase() });
    expect(code(browser)).toEqual(expect.any(String));
  });

  it("sends a new code, and the old one no longer works", async () => {
    const email = newAddress();
    const browser = await registering(email);
    const old = codeIn(await service.mailTo(email));
    await browser.submit(browser.form("action"), {});
    expect(browser.html).toContain("We have sent another message");
    const fresh = codeIn(await service.mailTo(email));
    await browser.submit(browser.form("code"), { code: old });
    expect([browser.status, browser.html.includes("This code is wrong")]).toEqual([400, true]);
    await browser.submit(browser.form("code"), { code: fresh });
    expect(code(browser)).toEqual(expect.any(String));
  });

  it("answers the same for a known address, a free and a taken username [D-REGISTER-4]", async () => {
    const answers = new Set<string>();
    for (const [email, username] of [
      [newAddress(), `free-${count}`],
      [newAddress(), BOB.username],
      [BOB.email, `free-${count}x`],
    ] as const) {
      const browser = await registering(email, { username });
      answers.add(stable(browser, email, username));
    }
    expect(answers.size).toBe(1);
  });

  it("says that a username is taken after the confirmation, and goes on with another", async () => {
    const email = newAddress();
    const browser = await registering(email, { username: BOB.username });
    await browser.submit(browser.form("code"), { code: codeIn(await service.mailTo(email)) });
    expect(browser.html).toContain("but the username is taken");
    await browser.submit(browser.form("username"), { username: BOB.username });
    expect([browser.status, browser.html.includes("This username is taken")]).toEqual([400, true]);
    await browser.submit(browser.form("username"), { username: `other-${count}` });
    expect(code(browser)).toEqual(expect.any(String));
  });

  it("shows each problem at its field, keeps what was entered, but no password", async () => {
    const browser = await at("register");
    await browser.submit(browser.form("email"), {
      email: "not an address",
      password: "password",
      name: "<b>Eve</b>",
      date_of_birth: "1990-02-30",
    });
    expect(browser.status).toBe(400);
    const values = new Map(browser.form("email").fields);
    expect([values.get("email"), values.get("name"), values.get("password")]).toEqual([
      "not an address",
      "<b>Eve</b>",
      "",
    ]);
    const links = tagsNamed(browser.html, "a").map(({ attributes }) => attributes.get("href"));
    expect(links.slice(0, 3)).toEqual(["#email", "#password", "#date_of_birth"]);
  });
});

/** The page without what differs for each sign-in. */
function stable(browser: Browser, ...typed: string[]): string {
  let { html } = browser;
  for (const text of typed) html = html.replaceAll(text, "TYPED");
  return `${browser.status} ${html}`
    .replaceAll(/name="(?:csrf|again)" value="[^"]*"/g, "")
    .replaceAll(/interaction\/[\w-]+/g, "interaction");
}

describe("prompt=create [D-UI-5]", () => {
  it("opens the registration, and ends where the person was going", async () => {
    const browser = await openid.browser().get(openid.authorizeUrl({ prompt: "create" }));
    expect(title(browser)).toBe("Create an account");
    const email = newAddress();
    await browser.submit(browser.form("email"), { email, password: PASSWORD, name: "Eve" });
    await browser.submit(browser.form("code"), { code: codeIn(await service.mailTo(email)) });
    expect(code(browser)).toEqual(expect.any(String));
  });

  it("lets people sign in instead", async () => {
    const browser = await openid.browser().get(openid.authorizeUrl({ prompt: "create" }));
    await browser.get(`${browser.url.href}/login`);
    await signIn(browser, BOB);
    expect(code(browser)).toEqual(expect.any(String));
  });

  it("is announced, and refused without registration [D-ACCOUNT-12]", async () => {
    const discovery = await fetch(`${service.openid}/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({
      prompt_values_supported: ["none", "login", "consent", "select_account", "create"],
    });
    const without = await startSelfService({});
    const party = clientAt(without, "openid", NEWS);
    const browser = await party.browser().get(party.authorizeUrl({ prompt: "create" }));
    expect(browser.location?.searchParams.get("error")).toBe("invalid_request");
    const document = await fetch(`${without.openid}/.well-known/openid-configuration`);
    const { prompt_values_supported: prompts } = (await document.json()) as Record<string, unknown>;
    expect(prompts).not.toContain("create");
    const login = await party.browser().get(party.authorizeUrl());
    expect(login.html).not.toContain("Create an account");
    expect(title(await login.get(`${login.url.href}/register`))).toMatch(/^Sign in/);
  });
});

/** The address of a new account. */
async function newAccount(): Promise<string> {
  const email = newAddress();
  await service.service.accounts.create({ email, password: "the password before it" });
  return email;
}

/** A browser that has asked for mail. */
async function askedFor(login: string): Promise<Browser> {
  const browser = await at("forgot-password");
  await browser.submit(browser.form("username"), { username: login });
  return browser;
}

/** The page without the name that was typed, which password managers store. */
const unnamed = (browser: Browser): string =>
  stable(browser).replace(/(<input name="username" type="text" value=")[^"]*/, "$1");

describe("a forgotten password", () => {
  it("is replaced by code, and the person signs in with the new one and goes on", async () => {
    const email = await newAccount();
    const browser = await askedFor(email);
    expect(title(browser)).toBe("Choose a new password");
    const message = await service.mailTo(email);
    await browser.submit(browser.form("code"), { code: codeIn(message), password: PASSWORD });
    expect(browser.html).toContain("Your password has been changed.");
    await signIn(browser, { username: email, password: PASSWORD });
    expect(code(browser)).toEqual(expect.any(String));
  });

  it("is replaced by link in the same browser, without a code", async () => {
    const email = await newAccount();
    const browser = await askedFor(email);
    await browser.get(linkIn(await service.mailTo(email)));
    expect(new Map(browser.form("password").fields).has("code")).toBe(false);
    await browser.submit(browser.form("password"), { password: "password" });
    expect([browser.status, title(browser)]).toEqual([400, "Choose a new password"]);
    await browser.submit(browser.form("password"), { password: PASSWORD });
    await signIn(browser, { username: email, password: PASSWORD });
    expect(code(browser)).toEqual(expect.any(String));
  });

  it("is replaced by link in another browser, which goes on to the account [D-RESET-3]", async () => {
    const email = await newAccount();
    await askedFor(email);
    const link = linkIn(await service.mailTo(email));
    const other = await new Browser().get(link);
    expect([other.visits.at(-1)?.status, title(other)]).toEqual([200, "Choose a new password"]);
    await other.submit(other.form("password"), { password: "" });
    expect(other.status).toBe(400);
    const form = other.form("password");
    await other.submit(form, { password: PASSWORD, csrf: "x" });
    expect(other.status).toBe(403);
    await other.submit(form, { password: PASSWORD });
    expect(title(other)).toBe("Sign in");
    await signIn(other, { username: email, password: PASSWORD });
    expect(title(other)).toBe("Your account");
    expect(title(await other.get(link))).toBe("This link no longer works");
  });

  it("is replaced by somebody who is signed in here, whose session ends with it", async () => {
    const email = await newAccount();
    const browser = await news.browser().get(news.authorizeUrl());
    await signIn(browser, { username: email, password: "the password before it" });
    await browser.get(news.authorizeUrl({ prompt: "login" }));
    await browser.get(`${browser.url.href}/forgot-password`);
    await browser.submit(browser.form("username"), { username: email });
    const values = { code: codeIn(await service.mailTo(email)), password: PASSWORD };
    await browser.submit(browser.form("code"), values);
    await signIn(browser, { username: email, password: PASSWORD });
    expect(code(browser)).toEqual(expect.any(String));
  });

  it("gets the same answer for every name [D-RESET-1]", async () => {
    const answers = new Set<string>();
    for (const name of [await newAccount(), BOB.username, "nobody", "x".repeat(10_000), "<script>", "a@b"]) {
      const browser = await askedFor(name);
      answers.add(unnamed(browser));
      await browser.submit(browser.form("code"), { code: "00000000", password: PASSWORD });
      answers.add(unnamed(browser).replaceAll('value="00000000"', ""));
    }
    expect(answers.size).toBe(2);
  });

  it("ends a code after five wrong tries", async () => {
    const email = await newAccount();
    const browser = await askedFor(email);
    const message = await service.mailTo(email);
    for (let tries = 0; tries < 5; tries += 1)
      await browser.submit(browser.form("code"), { code: "00000000", password: PASSWORD });
    expect(browser.html).toContain("Too many wrong codes.");
    await browser.submit(browser.form("code"), { code: codeIn(message), password: PASSWORD });
    expect(browser.status).toBe(400);
  });
});

describe("terms of use", () => {
  it("are accepted at registration, and newer ones at the next sign-in [D-TERMS-1, D-REGISTER-9]", async () => {
    const first = await startSelfService({ registration: { ...ASKS, terms: TERMS } });
    const party = clientAt(first, "oauth2", NEWS);
    const browser = await party.browser().get(party.authorizeUrl());
    await signIn(browser, BOB);
    expect(title(browser)).toBe("New terms of use");
    await browser.submit(browser.forms()[0], {});
    expect([browser.status, browser.html.includes("Accept the terms of use")]).toEqual([400, true]);
    await browser.submit(browser.forms()[0], { terms: "0" });
    expect([browser.status, browser.html.includes("have changed")]).toEqual([400, true]);
    await browser.submit(browser.forms()[0], { terms: TERMS.version });
    expect(code(browser)).toEqual(expect.any(String));
    const again = await party.browser().get(party.authorizeUrl());
    await signIn(again, BOB);
    expect(code(again)).toEqual(expect.any(String));
    const refusing = await party.browser().get(party.authorizeUrl());
    await signIn(refusing, { username: "ada", password: "the password of ada" });
    await refusing.submit(refusing.form("action"), {});
    expect(refusing.location?.searchParams.get("error")).toBe("access_denied");
    const visitor = await party.browser().get(party.authorizeUrl());
    await visitor.get(`${visitor.url.href}/register`);
    const email = newAddress();
    const form = visitor.form("email");
    await visitor.submit(form, { email, password: PASSWORD, name: "Eve" });
    expect(visitor.html).toContain("Accept the terms of use to continue.");
    await visitor.submit(form, { email, password: PASSWORD, name: "Eve", terms: TERMS.version });
    await visitor.submit(visitor.form("code"), { code: codeIn(await first.mailTo(email)) });
    expect(code(visitor)).toEqual(expect.any(String));
  });
});

describe("a UI of one's own", () => {
  it("gets the address of the interaction, while start again, errors and signing out stay built in [D-UI-4]", async () => {
    const own = await startSelfService({ registration: ASKS, ui: "/login" });
    const party = clientAt(own, "oauth2", NEWS);
    const browser = party.browser({ stopAt: [`${own.origin}/login`] });
    await browser.get(party.authorizeUrl());
    expect(browser.visits.at(-1)?.status).toBe(303);
    const address = browser.location?.searchParams.get("interaction") ?? "";
    expect(address).toMatch(/^\/interaction\/[\w-]+$/);
    const gone = await new Browser().get(`${own.origin}${address}`);
    expect(title(gone)).toBe("Your browser sent no cookies");
    const visitor = new JsonVisitor(browser);
    const step = await visitor.get(`${own.origin}${address}`);
    expect(step.body.actions.map(({ name }) => name)).toEqual(["submit", "forgot-password", "register"]);
    const wrong = await new Browser().get(`${own.origin}/oauth2/authorize?client_id=unknown`);
    expect([wrong.status, title(wrong)]).toEqual([400, "We don’t know this service"]);
    const signOut = await new Browser().get(`${own.openid}/oauth2/logout`);
    expect([signOut.status, signOut.url.pathname]).toEqual([200, "/openid/oauth2/logout/success"]);
  });
});

/** What password managers store with a new password: the visible or hidden field that says whose it is. */
function ownerOf({ html }: Browser): (string | null | undefined)[] {
  const fields = tagsNamed(html, "input").map(({ attributes }) => attributes);
  const owners = fields.filter((each) => each.get("autocomplete") === "username");
  const isBefore = fields.indexOf(owners[0]!) < fields.findIndex((each) => each.get("type") === "password");
  expect([owners.length, isBefore]).toEqual([1, true]);
  return [owners[0]?.get("type"), owners[0]?.get("value")];
}

describe("the name that password managers store with a new password", () => {
  it("is the name for which a reset was asked, by code and by link; elsewhere it is the address", async () => {
    const email = newAddress();
    await service.service.accounts.create({ email, password: "the password before it" });
    const typed = email.toUpperCase();
    const browser = await at("forgot-password");
    await browser.submit(browser.form("username"), { username: typed });
    expect(ownerOf(browser)).toEqual(["text", typed]);
    // A refused password leaves it there.
    const message = await service.mailTo(email);
    await browser.submit(browser.form("code"), { code: codeIn(message), password: "short" });
    expect(ownerOf(browser)).toEqual(["text", typed]);
    const link = linkIn(message);
    await browser.get(link);
    expect(ownerOf(browser)).toEqual(["text", typed]);
    const other = await new Browser().get(link);
    expect(ownerOf(other)).toEqual(["text", email]);
    await other.submit(other.form("password"), { password: "short" });
    expect(ownerOf(other)).toEqual(["text", email]);
  });

  it("is what was typed for an unknown name, too", async () => {
    const browser = await at("forgot-password");
    await browser.submit(browser.form("username"), { username: "nobody-here" });
    expect(ownerOf(browser)).toEqual(["text", "nobody-here"]);
  });

  it.each([
    [undefined, "email"],
    ["optional", "email"],
    ["required", "username"],
  ] as const)("is one field at registration, where the username is %s: %s", async (username, field) => {
    const own = await startSelfService({ registration: { fields: { ...(username && { username }) } } });
    const party = clientAt(own, "oauth2", NEWS);
    const browser = await party.browser().get(`${party.authorizeUrl()}&prompt=create`);
    ownerOf(browser);
    const owner = tagsNamed(browser.html, "input").find(
      ({ attributes }) => attributes.get("autocomplete") === "username",
    );
    expect(owner?.attributes.get("name")).toBe(field);
  });
});

describe("the JSON interface", () => {
  it("registers: each POST answers the next step", async () => {
    const visitor = new JsonVisitor(news.browser());
    const login = await visitor.open(news.authorizeUrl());
    const register = await visitor.act(login.body, "register");
    expect(register.body.fields.map(({ name, autocomplete }) => [name, autocomplete])).toEqual([
      ["email", "username"],
      ["username", "nickname"],
      ["name", "given-name"],
      ["surname", "family-name"],
      ["date_of_birth", "bday"],
      ["gender", "sex"],
      ["password", "new-password"],
    ]);
    const email = newAddress();
    const wrong = await visitor.act(register.body, "submit", { email, password: "password", name: "Eve" });
    expect(wrong.body.problems).toMatchObject([{ code: "common", fields: ["password"] }]);
    const confirm = await visitor.act(register.body, "submit", { email, password: PASSWORD, name: "Eve" });
    expect([confirm.status, confirm.body.step, confirm.body.email]).toEqual([200, "confirm-email", email]);
    const resent = await visitor.act(confirm.body, "resend");
    expect([resent.status, resent.body.notice?.code]).toEqual([200, "sent"]);
    // A tab that fell behind gets the step that the sign-in is at.
    const present = await visitor.get();
    expect(present.body.step).toBe("confirm-email");
    let message = await service.mailTo(email);
    const bad = await visitor.act(resent.body, "submit", { code: codeIn(message) === "" ? "x" : "00000000" });
    expect([bad.status, bad.body.problems[0]?.code]).toEqual([400, "wrong-code"]);
    message = service.sent.findLast(({ to }) => to === email) ?? message;
    const done = await visitor.act(resent.body, "submit", { code: codeIn(message) });
    expect(done.body).toMatchObject({ done: true });
  });

  it("says that nothing was sent where a limit stops a resend, and not that something was [D-MAILLIMIT-4]", async () => {
    const mail = { ...UNLIMITED.mail, recipientAndCaller: { points: 1, seconds: 3_600 } };
    const own = await startSelfService(undefined, { config: { rateLimits: { ...UNLIMITED, mail } } });
    const party = clientAt(own, "oauth2", NEWS);
    const visitor = new JsonVisitor(party.browser());
    const login = await visitor.open(party.authorizeUrl());
    const register = await visitor.act(login.body, "register");
    const entered = { email: newAddress(), password: PASSWORD, name: "Eve" };
    const confirm = await visitor.act(register.body, "submit", entered);
    expect(JSON.stringify(confirm.body.text)).toContain("We have sent");
    const { status, body } = await visitor.act(confirm.body, "resend");
    expect([status, body.problems[0]?.text]).toEqual([429, expect.stringContaining("Nothing was sent now")]);
    expect(JSON.stringify([body.text, body.notice])).not.toMatch(/sent/);
  });

  it("resets a password and goes back to the login step", async () => {
    const email = newAddress();
    await service.service.accounts.create({ email, password: "the password before it" });
    const visitor = new JsonVisitor(news.browser());
    const login = await visitor.open(news.authorizeUrl());
    const forgot = await visitor.act(login.body, "forgot-password");
    const asked = await visitor.act(forgot.body, "submit", { username: email });
    expect([asked.body.step, asked.body.username]).toEqual(["new-password", email]);
    const values = { code: codeIn(await service.mailTo(email)), password: PASSWORD };
    const back = await visitor.act(asked.body, "submit", values);
    expect([back.body.step, back.body.notice?.code]).toEqual(["login", "password-changed"]);
    const done = await visitor.act(back.body, "submit", { username: email, password: PASSWORD });
    expect(done.body.done).toBe(true);
  });
});
