/** What a code by mail is worth beside a password, a passkey and an app, and to an account that has nothing else. */
import { describe, expect, it } from "@jest/globals";
import { createSystemClock } from "../../core/clock.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { createAuthenticator } from "../../testing/authenticator.ts";
import { atLogin, JsonVisitor, publicKeyOf, type Waiting } from "../interactions/json-visitor.ts";
import { codeIn, startSelfService } from "../interactions/self-service.ts";
import { clientAt } from "./clients.ts";
import { EmailCodeParty, enter, namesOf, OPERATOR, PASSWORD, SECRET } from "./email-code-party.ts";
import { textOf } from "./methods-party.ts";
import { NEWS, onLocalhost } from "./running-service.ts";

const MFA = "urn:sign-in-service:acr:mfa";

const party = new EmailCodeParty();

describe("what a code by mail is worth", () => {
  it("is one factor: the app is asked for, also in a remembered browser [D-MAILCODE-9]", async () => {
    const { email, sub } = await party.person();
    await party.running.service.accounts.addApp(sub, { secret: SECRET });
    const remembering = await atLogin(party.news, { scope: "openid" });
    const password = { username: email, password: PASSWORD };
    const { body: factor } = await remembering.visitor.act(remembering.step, "submit", password);
    const { body: in1 } = await remembering.visitor.act(factor, "submit", {
      code: party.appCode(),
      remember: "1",
    });
    await remembering.visitor.browser.get(in1.location ?? "");
    // The same browser, without its session.
    const { jar } = remembering.visitor.browser;
    jar.clear(jar.all().find(({ name }) => name.includes("_session_"))?.name ?? "");
    const visitor = new JsonVisitor(remembering.visitor.browser);
    const { body: login } = await visitor.open(party.news.authorizeUrl({ scope: "openid" }));
    const { body: ask } = await visitor.act(login, "email-code");
    const { body: waiting } = await visitor.act(ask, "submit", { username: email });
    const { body: second } = await visitor.act(waiting, "submit", { code: await party.mailedCode(email) });
    expect([second.step, second.done]).toEqual(["second-factor", undefined]);
    const { body: done } = await visitor.act(second, "submit", { code: party.appCode() });
    await expect(visitor.claims(party.news, done.location)).resolves.toMatchObject({
      sub,
      amr: ["email", "otp", "mfa"],
      acr: MFA,
    });
  });

  it("enrols nothing for a client that needs a second factor, and signs nobody in there [D-MAILCODE-12]", async () => {
    const { email, sub } = await party.person();
    const waiting = await party.asking(email, {}, party.vault);
    const { body } = await enter(waiting, await party.mailedCode(email));
    expect([body.step, body.notice?.code, body.done]).toEqual(["login", "code-too-little", undefined]);
    expect(await party.running.service.accounts.factors(sub)).toMatchObject({ app: null, passkeys: [] });
    // The password does.
    const { body: next } = await waiting.visitor.act(body, "submit", { username: email, password: PASSWORD });
    expect(next.step).toBe("enrol-confirm");
  });

  it("lets an account with nothing else enrol, with a second code [D-MAILCODE-13]", async () => {
    const { email } = await party.newcomer();
    const waiting = await party.asking(email, {}, party.vault);
    const signedIn = await party.mailedCode(email);
    const { body } = await enter(waiting, signedIn);
    expect(body.step).toBe("enrol-confirm");
    const again = await waiting.visitor.act(body, "submit", { code: signedIn });
    expect(again.body.problems[0]?.code).toBe("wrong-code");
    const { body: enrol } = await waiting.visitor.act(body, "submit", {
      code: await party.mailedCode(email),
    });
    expect(enrol.step).toBe("enrol");
  });

  it("ends no review after a reset: the next sign-in with the password still shows it [D-MAILCODE-12]", async () => {
    const { email, sub } = await party.person();
    await party.running.service.accounts.addApp(sub, { secret: SECRET });
    const { visitor, step: login } = await atLogin(party.news);
    const { body: forgot } = await visitor.act(login, "forgot-password");
    const { body: reset } = await visitor.act(forgot, "submit", { username: email });
    await visitor.act(reset, "submit", { code: await party.mailedCode(email), password: PASSWORD });
    const byMail = await party.asking(email);
    const { body: second } = await enter(byMail, await party.mailedCode(email));
    expect((await byMail.visitor.act(second, "submit", { code: party.appCode() })).body.done).toBe(true);
    const byPassword = await atLogin(party.news);
    const password = { username: email, password: PASSWORD };
    const { body: factor } = await byPassword.visitor.act(byPassword.step, "submit", password);
    const { body: review } = await byPassword.visitor.act(factor, "submit", { code: party.appCode() });
    expect(review.step).toBe("review-methods");
  });

  it("offers no passkey to somebody with a password [D-MAILCODE-12]", async () => {
    const { email } = await party.person();
    const waiting = await party.asking(email);
    const { body } = await enter(waiting, await party.mailedCode(email), { can_add_passkey: true });
    expect(body.done).toBe(true);
  });

  it("goes to no operator: the mail says that a code is not enough [D-MAILCODE-10]", async () => {
    const email = "root@example.org";
    await party.person({ email, sub: OPERATOR, locale: "en" });
    const waiting = await party.asking(email);
    expect(waiting.step.step).toBe("email-code");
    const mail = await party.running.mailTo(email);
    expect([mail.subject, codeIn(mail)]).toEqual(["No code for this sign-in", ""]);
    expect((await enter(waiting, "00000000")).status).toBe(400);
  });

  it("is no way in of an operator with a passkey alone: that one stays [D-MAILCODE-10, D-MAILCODE-19]", async () => {
    const { running, clock } = party;
    const { accounts } = running.service;
    const { sub, email } = await party.newcomer();
    await addPhone(running, sub, clock);
    const operated = await startSelfService(undefined, {
      config: { signIn: { emailCode: true }, operators: { [OPERATOR]: "administrator" } },
      deployments: onLocalhost,
    });
    try {
      const { accounts: theirs } = operated.service;
      await theirs.import({ sub: OPERATOR, email, email_verified: true });
      await addPhone(operated, OPERATOR, createSystemClock());
      const { passkeys = [] } = (await theirs.factors(OPERATOR)) ?? {};
      await expect(theirs.removeFactor(OPERATOR, passkeys[0]?.id ?? "")).rejects.toMatchObject({
        code: "last_sign_in_method",
      });
    } finally {
      await operated.close();
    }
    const { passkeys = [] } = (await accounts.factors(sub)) ?? {};
    await expect(accounts.removeFactor(sub, passkeys[0]?.id ?? "")).resolves.toBe(true);
  });
});

/** The pages that need a recent sign-in. */
const RECENT = [
  "/account/password",
  "/account/email/new",
  "/account/delete",
  "/account/sign-in-methods/new-app",
  "/account/sign-in-methods/new-passkey",
];

describe("a recent sign-in", () => {
  it("is not one by a code of an account with a password, a minute ago or again [D-MAILCODE-11]", async () => {
    const account = await party.person();
    const browser = await party.atAccount(account);
    for (const path of RECENT) {
      await browser.get(`${party.running.openid}${path}`);
      expect([path, browser.title]).toEqual([path, "Sign in again"]);
      expect(browser.html).not.toContain("Email me a code");
    }
    // Signing in to another account leads to no code for this one either.
    const [, login = ""] = /href="([^"]*\/login)"/.exec(browser.html) ?? [];
    await browser.get(new URL(login, browser.url).href);
    await browser.get(browser.url.href.replace(/\/login$/, "/email-code"));
    await browser.submit(browser.form("username"), { username: account.email });
    let subject = "";
    while (!subject.includes("code")) ({ subject } = await party.running.mailTo(account.email));
    expect(subject).toBe("No code for this sign-in");
  });

  it.each([{ prompt: "login" }, { max_age: "3600" }])(
    "that a client wants (%j) takes a code only from an account with nothing else [D-MAILCODE-11, D-MAILCODE-13]",
    async (parameters) => {
      for (const [made, subject] of [
        [await party.person({ locale: "en" }), "No code for this sign-in"],
        [await party.newcomer({ locale: "en" }), "Your sign-in code"],
      ] as const) {
        await party.asking(made.email, parameters);
        expect((await party.running.mailTo(made.email)).subject).toBe(subject);
      }
    },
  );

  it("is no session of a code of an account with a password, however young, for `max_age` [D-MAILCODE-11]", async () => {
    for (const [made, isRecent] of [
      [await party.person(), false],
      [await party.newcomer(), true],
    ] as const) {
      for (const client of Object.values(party.clients)) {
        const waiting = await party.asking(
          made.email,
          { scope: client === party.news ? "openid" : "email" },
          client,
        );
        const { body: done } = await enter(waiting, await party.mailedCode(made.email));
        const { browser } = waiting.visitor;
        await browser.get(done.location ?? "");
        await browser.get(client.authorizeUrl({ max_age: "3600", prompt: "none" }));
        expect(browser.location?.searchParams.get("error")).toBe(isRecent ? null : "login_required");
        await browser.get(client.authorizeUrl({ prompt: "none" }));
        expect(browser.location?.searchParams.has("code")).toBe(true);
      }
    }
  });

  it.each(["openid", "oauth2"] as const)(
    "is one by a code of an account with nothing else, which is asked for again in place, at %s [D-MAILCODE-13]",
    async (base) => {
      const account = await party.newcomer();
      const browser = await party.atAccount(account, base);
      for (const path of RECENT) {
        await browser.get(`${party.running[base]}${path}`);
        expect(browser.url.pathname.endsWith(path)).toBe(true);
      }
      party.clock.advance(301);
      await browser.get(`${party.running[base]}/account/password`);
      expect([browser.title, textOf(browser)]).toEqual([
        "Sign in again",
        expect.stringContaining("This change needs a code from your mailbox."),
      ]);
      const { csrf = "" } = Object.fromEntries(browser.forms()[0]?.fields ?? []);
      await browser.submit(browser.forms()[0], { csrf, action: "email" });
      expect(browser.title).toBe("Enter your code");
      await browser.submit(browser.form("code"), { code: await party.mailedCode(account.email) });
      expect(browser.url.pathname.endsWith("/account/password")).toBe(true);
      // With a password, the code no longer suffices.
      await browser.submit(browser.form("password"), { password: PASSWORD });
      await browser.get(`${party.running[base]}/account/delete`);
      expect(browser.title).toBe("Sign in again");
    },
  );
});

/** Registers without a password, up to the code. */
async function registered(): Promise<Waiting & { readonly email: string }> {
  const { visitor, step: login } = await atLogin(party.news, { scope: "openid" });
  const { body: register } = await visitor.act(login, "register");
  const email = party.newAddress();
  const { body: confirm } = await visitor.act(register, "without-password", { email });
  const { body: step } = await visitor.act(confirm, "submit", { code: await party.mailedCode(email) });
  return { visitor, step, email };
}

describe("an account with nothing but its address", () => {
  it("registers without a passkey, signs in with codes, is offered a passkey once, and adds it [D-MAILCODE-17, D-MAILCODE-18]", async () => {
    const { visitor, step, email } = await registered();
    expect([step.step, namesOf(step)]).toEqual(["enrol", ["passkey", "later", "register", "login"]]);
    expect(await party.running.service.accounts.findByLogin(email)).toBeUndefined();
    const { body: done } = await visitor.act(step, "later");
    await expect(visitor.claims(party.news, done.location)).resolves.toMatchObject({ amr: ["email"] });
    const account = await party.running.service.accounts.findByLogin(email);
    expect(account).toMatchObject({ email, email_verified: true });
    // No password is right.
    const { visitor: guesser, step: guess } = await atLogin(party.news);
    expect((await guesser.act(guess, "submit", { username: email, password: PASSWORD })).status).toBe(400);

    const first = await party.asking(email);
    const { body: offer } = await enter(first, await party.mailedCode(email), { can_add_passkey: true });
    expect(offer.step).toBe("offer-passkey");
    const { body: confirm } = await first.visitor.act(offer, "submit");
    expect(confirm.step).toBe("enrol-confirm");
    const { body: enrol } = await first.visitor.act(confirm, "submit", {
      code: await party.mailedCode(email),
    });
    const phone = createAuthenticator({ origin: new URL(party.running.openid).origin });
    const credential = phone.create(publicKeyOf(enrol));
    const { body: codes } = await first.visitor.act(enrol, "passkey", { name: "Phone", credential });
    const { body: end } = await first.visitor.act(codes, "submit", { kept: true });
    await expect(first.visitor.claims(party.news, end.location)).resolves.toMatchObject({
      amr: ["email", "swk", "user", "mfa"],
    });

    // From now on the passkey is a second factor.
    const second = await party.asking(email);
    const { body: factor } = await enter(second, await party.mailedCode(email), { can_add_passkey: true });
    expect(factor.step).toBe("second-factor");
    // The last one can go: the address is left. It stays confirmed.
    const { accounts } = party.running.service;
    const { sub = "" } = account ?? {};
    const { passkeys = [] } = (await accounts.factors(sub)) ?? {};
    await expect(accounts.removeFactor(sub, passkeys[0]?.id ?? "")).resolves.toBe(true);
    await expect(accounts.update(sub, { email_verified: false })).rejects.toMatchObject({
      code: "not_applicable",
    });
  });

  it("is asked about a passkey once, and not without a device that makes one [D-MAILCODE-18]", async () => {
    const { email } = await party.newcomer();
    for (const [more, step] of [
      [{}, undefined],
      [{ can_add_passkey: true }, "offer-passkey"],
      [{ can_add_passkey: true }, undefined],
    ] as const) {
      const waiting = await party.asking(email);
      const { body } = await enter(waiting, await party.mailedCode(email), more);
      expect([body.step, body.done]).toEqual([step, step === undefined ? true : undefined]);
    }
  });

  it("registers on pages without a script [D-MAILCODE-17]", async () => {
    const browser = await party.news
      .browser()
      .get(party.news.authorizeUrl({ scope: "openid", prompt: "create" }));
    expect(browser.html).toMatch(/value="without-password">Continue without a password</);
    const email = party.newAddress();
    await browser.submit(browser.form("email"), { email, action: "without-password" });
    await browser.submit(browser.form("code"), { code: await party.mailedCode(email) });
    expect(browser.title).toBe("Create your passkey");
    const later = browser.forms().find(({ fields }) => fields.some(([, value]) => value === "later"));
    await browser.submit(later);
    await party.news.tokensOf(browser);
  });

  it("keeps its confirmed address, and gets a password by a reset [D-MAILCODE-19, D-MAILCODE-20]", async () => {
    const { email, sub } = await party.newcomer();
    const { accounts } = party.running.service;
    for (const change of [{ email_verified: false }, { email: "else@example.org" }])
      await expect(accounts.update(sub, change)).rejects.toMatchObject({ code: "not_applicable" });
    const { visitor, step: login } = await atLogin(party.news);
    const { body: forgot } = await visitor.act(login, "forgot-password");
    const { body: reset } = await visitor.act(forgot, "submit", { username: email });
    const { body: back } = await visitor.act(reset, "submit", {
      code: await party.mailedCode(email),
      password: PASSWORD,
    });
    const { body: done } = await visitor.act(back, "submit", { username: email, password: PASSWORD });
    expect(done.done).toBe(true);
    await expect(accounts.update(sub, { email_verified: false })).resolves.toMatchObject({ email });
  });

  it("registers where passkeys are off: the code is all [D-MAILCODE-17]", async () => {
    const off = await startSelfService(
      { registration: { passwordless: true }, passkeys: { enabled: false } },
      { config: { signIn: { emailCode: true } } },
    );
    try {
      const client = clientAt(off, "oauth2", NEWS);
      const { visitor, step: register } = await atLogin(client, { prompt: "create" });
      const email = party.newAddress();
      const { body: confirm } = await visitor.act(register, "without-password", { email });
      const code = codeIn(await off.mailTo(email));
      const { body: done } = await visitor.act(confirm, "submit", { code });
      expect(done.done).toBe(true);
      await expect(off.service.accounts.findByLogin(email)).resolves.toMatchObject({ email_verified: true });
    } finally {
      await off.close();
    }
  });

  it("is in none of its ways while codes by mail are off: its passkey stays, and nobody registers so [D-MAILCODE-19]", async () => {
    const off = await startSelfService(
      { registration: { passwordless: true } },
      { deployments: onLocalhost },
    );
    try {
      const { accounts } = off.service;
      const { sub } = await accounts.import({ email: party.newAddress(), email_verified: true });
      await addPhone(off, sub, createSystemClock());
      const { passkeys = [] } = (await accounts.factors(sub)) ?? {};
      const removed = accounts.removeFactor(sub, passkeys[0]?.id ?? "");
      await expect(removed).rejects.toMatchObject({ code: "last_sign_in_method" });
      const { visitor, step: register } = await atLogin(clientAt(off, "openid", NEWS), { prompt: "create" });
      const email = party.newAddress();
      const { body: confirm } = await visitor.act(register, "without-password", { email });
      const { body: enrol } = await visitor.act(confirm, "submit", { code: codeIn(await off.mailTo(email)) });
      expect(namesOf(enrol)).toEqual(["passkey", "register", "login"]);
      const [href = ""] = (enrol.actions[0]?.href ?? "").split("?");
      const forced = await visitor.post(`${href}?action=later`, { csrf: enrol.csrf });
      expect([forced.status, await accounts.findByLogin(email)]).toEqual([400, undefined]);
    } finally {
      await off.close();
    }
  });
});
