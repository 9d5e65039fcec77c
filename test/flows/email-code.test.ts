/** Signing in with a code by mail: as a person, as a program, and as somebody who is not the person. */
import { describe, expect, it } from "@jest/globals";
import { createAuthenticator } from "../../testing/authenticator.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import type { RequestParameters } from "../../testing/test-client.ts";
import { beforeTests } from "../closing.ts";
import {
  atLogin,
  type JsonAnswer,
  JsonVisitor,
  publicKeyOf,
  type Waiting,
} from "../interactions/json-visitor.ts";
import { codeIn, startSelfService } from "../interactions/self-service.ts";
import { atBoth, clientAt } from "./clients.ts";
import { textOf } from "./methods-party.ts";
import { type KnownClient, NEWS, onLocalhost, SHOP } from "./running-service.ts";

const PASSWORD = "grapefruit under the stairs";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const OPERATOR = "0b0f6b3e-5a52-4f0e-9f0e-2f0b6a1f7d11";
const VAULT: KnownClient = { ...SHOP, client_id: "vault", second_factor: "required" };
const PASSWORD_ACR = "urn:sign-in-service:acr:password";
const MFA = "urn:sign-in-service:acr:mfa";
/** A Firefox on Windows. */
const FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0";

const clock = new TestClock();
const running = beforeTests(async () => {
  const started = await startSelfService(
    { registration: { passwordless: true } },
    {
      config: { clock, signIn: { emailCode: true }, operators: [OPERATOR], secondFactor: { remember: 30 } },
      deployments: onLocalhost,
    },
  );
  await started.service.clients.register(VAULT);
  return started;
});
const clients = atBoth(running, NEWS);
const news = clients.openid;
const vault = clientAt(running, "openid", VAULT);

type Step = JsonAnswer["body"];
let people = 0;

interface Person {
  readonly sub: string;
  readonly email: string;
}

/** Somebody with a password. */
async function person(more: object = {}): Promise<Person> {
  const email = `person-${(people += 1)}@example.org`;
  const fields = { email, email_verified: true, password: PASSWORD, ...more };
  const { sub } = await running.service.accounts.import(fields);
  return { sub, email };
}

/** Somebody with nothing but an address. */
const newcomer = (more: object = {}): Promise<Person> => person({ password: null, ...more });

const namesOf = ({ actions }: Step): readonly string[] => actions.map(({ name }) => name);

/** Asks for a code. */
async function asking(
  username: string,
  parameters: RequestParameters = {},
  client: typeof news = news,
): Promise<Waiting> {
  const { visitor, step: login } = await atLogin(client, { scope: "openid", ...parameters });
  const { body: ask } = await visitor.act(login, "email-code");
  return { visitor, step: (await visitor.act(ask, "submit", { username })).body };
}

/** The code in the newest message that has one. */
async function mailedCode(to: string): Promise<string> {
  for (;;) {
    const code = codeIn(await running.mailTo(to));
    if (code !== "") return code;
  }
}

const enter = ({ visitor, step }: Waiting, code: string, more: object = {}) =>
  visitor.act(step, "submit", { code, ...more });

describe("a code by mail", () => {
  it.each(["openid", "oauth2"] as const)(
    "signs in at the deployment %s, on pages without a script [D-MAILCODE-1]",
    async (deployment) => {
      const { email } = await person();
      const client = clients[deployment];
      const browser = await client.browser().get(client.authorizeUrl({ scope: "openid" }));
      const [, link = ""] = /<a href="([^"]*\/email-code)">Email me a code instead</.exec(browser.html) ?? [];
      await browser.get(new URL(link, browser.url).href);
      expect([browser.title, browser.forms().length]).toEqual(["Sign in with a code", 1]);
      await browser.submit(browser.form("username"), { username: email });
      expect(browser.title).toBe("Enter your code");
      expect(textOf(browser)).toContain(
        "If there is an account with this name, a message with a code is on its way to its email address. The code works for ten minutes, and only in this browser.",
      );
      expect(browser.html).toContain('autocomplete="one-time-code"');
      // Reloading shows the same.
      await browser.get(browser.url.href);
      expect(browser.title).toBe("Enter your code");
      await browser.submit(browser.form("code"), { code: (await mailedCode(email)).toLowerCase() });
      await client.tokensOf(browser);
    },
  );

  it("is in the JSON interface, with the name as typed, and says amr and acr [D-MAILCODE-1, D-MAILCODE-8]", async () => {
    const { email, sub } = await person();
    const typed = ` ${email.toUpperCase()} `;
    const waiting = await asking(typed);
    expect(waiting.step).toMatchObject({
      step: "email-code",
      title: "Enter your code",
      username: typed.trim(),
      fields: [{ name: "code", autocomplete: "one-time-code" }],
    });
    expect(namesOf(waiting.step)).toEqual(["submit", "resend", "change", "login", "register"]);
    const { body: done } = await enter(waiting, await mailedCode(email));
    await expect(waiting.visitor.claims(news, done.location)).resolves.toMatchObject({
      sub,
      amr: ["email"],
      acr: PASSWORD_ACR,
    });
  });

  it("answers known and unknown names alike: steps, statuses, texts and problems, and mails the known one [D-MAILCODE-5]", async () => {
    const { email } = await person();
    const told = async (name: string): Promise<readonly unknown[]> => {
      const waiting = await asking(name);
      const answers = [waiting.step];
      for (let number = 0; number < 6; number += 1) answers.push((await enter(waiting, "00000000")).body);
      answers.push((await waiting.visitor.act(waiting.step, "resend")).body);
      clock.advance(601);
      answers.push((await enter(waiting, "00000000")).body);
      const own = [email, name, waiting.step.csrf, waiting.step.again ?? ""];
      return answers.map((each) => {
        let text = JSON.stringify({ ...each, again: "", csrf: "" });
        for (const value of own) text = text.replaceAll(value, "…");
        return text.replaceAll(/interaction\/[\w-]+/g, "interaction/…");
      });
    };
    const known = await told(email);
    const before = running.sent.length;
    expect(await told("nobody@example.net")).toEqual(known);
    expect(known.join()).toContain("This code is wrong. Check it against the newest message.");
    expect(known.join()).toContain("Too many wrong codes. This code no longer works: ask for a new one.");
    expect(known.join()).toContain("This code has expired. Ask for a new one.");
    expect(known.join()).toContain(
      "If there is an account with this name, a new code is on its way. The old one no longer works.",
    );
    // The next mail is somebody else's, so none is on its way.
    const { email: next } = await person();
    await asking(next);
    await running.mailTo(next);
    expect(running.sent.slice(before).map(({ to }) => to)).toEqual([next]);
  });

  it("works only in the browser and the sign-in that asked [D-MAILCODE-3, D-MAILCODE-4]", async () => {
    const { email } = await person();
    const owner = await asking(email);
    const code = await mailedCode(email);
    // A thief who waits for a code of the same name, and reads this one over a shoulder.
    const thief = await asking(email);
    const { status, body } = await enter(thief, code);
    expect([status, body.step, body.problems[0]?.code]).toEqual([400, "email-code", "wrong-code"]);
    // And one who has the address of the page.
    const submit = owner.step.actions[0]?.href ?? "";
    const stranger = new JsonVisitor();
    const url = new URL(submit, running.openid).href;
    expect((await stranger.get(url)).status).toBe(410);
    expect((await stranger.post(url, { csrf: owner.step.csrf, code })).status).toBe(410);
    expect((await enter(owner, code)).body.done).toBe(true);
  });

  it("can be asked for again, or for another name; the older one then no longer works [D-MAILCODE-4]", async () => {
    const [one, other] = [await person(), await person()];
    const waiting = await asking(one.email);
    const first = await mailedCode(one.email);
    const { body: again } = await waiting.visitor.act(waiting.step, "resend");
    expect(again.notice?.code).toBe("code-sent");
    const second = await mailedCode(one.email);
    expect((await enter(waiting, first)).body.problems[0]?.code).toBe("wrong-code");
    const { body: changing } = await waiting.visitor.act(again, "change");
    expect([changing.step, changing.username, changing.fields[0]?.value]).toEqual([
      "email-code",
      undefined,
      one.email,
    ]);
    const { body: step } = await waiting.visitor.act(changing, "submit", { username: other.email });
    expect(step.username).toBe(other.email);
    const third = await mailedCode(other.email);
    expect((await enter({ ...waiting, step }, second)).body.problems[0]?.code).toBe("wrong-code");
    const { body: done } = await enter({ ...waiting, step }, third);
    expect((await waiting.visitor.claims(news, done.location)).sub).toBe(other.sub);
  });

  it("comes in a mail that says who asked, with the code on a line of its own, and without a link that signs in [D-MAILCODE-6]", async () => {
    const { email } = await person({ locale: "en" });
    const { visitor, step: login } = await atLogin(news, { scope: "openid" });
    const { body: ask } = await visitor.act(login, "email-code");
    const headers = { "user-agent": FIREFOX };
    await visitor.act(ask, "submit", { username: email }, { headers });
    const mail = await running.mailTo(email);
    expect(mail.subject).toBe("Your sign-in code");
    const code = codeIn(mail);
    expect(code).toHaveLength(8);
    expect(mail.text).toContain("It works once, for ten minutes, only in that browser.");
    expect(mail.text).toMatch(
      /Asked for on .+ UTC, with Firefox on Windows, from the network (?:127\.0\.0\.0\/24|::\/48)\./,
    );
    expect(mail.text).toContain("will ever ask you for it.");
    expect(`${mail.text}${mail.html}`).not.toMatch(/https?:|confirm/);
    expect(mail.subject).not.toContain(code);
  });

  it("is off by default: no link, no step, no action [D-MAILCODE-1]", async () => {
    const plain = await startSelfService();
    try {
      const client = clientAt(plain, "openid", NEWS);
      const { visitor, step } = await atLogin(client);
      expect(namesOf(step)).not.toContain("email-code");
      const [href = ""] = (step.actions[0]?.href ?? "").split("?");
      expect((await visitor.get(`${href}/email-code`)).body.step).toBe("login");
      const { status } = await visitor.post(`${href}/email-code`, { csrf: step.csrf, username: "ada" });
      expect(status).toBe(200);
      expect(plain.sent).toEqual([]);
    } finally {
      await plain.close();
    }
  });
});

describe("what a code by mail is worth", () => {
  it("is one factor: the app is asked for, also in a remembered browser [D-MAILCODE-9]", async () => {
    const { email, sub } = await person();
    await running.service.accounts.addApp(sub, { secret: SECRET });
    const code = (): string => {
      clock.advance(30);
      return totpCode(SECRET, clock.now());
    };
    const remembering = await atLogin(news, { scope: "openid" });
    const password = { username: email, password: PASSWORD };
    const { body: factor } = await remembering.visitor.act(remembering.step, "submit", password);
    const { body: in1 } = await remembering.visitor.act(factor, "submit", { code: code(), remember: "1" });
    await remembering.visitor.browser.get(in1.location ?? "");
    // The same browser, without its session.
    const { jar } = remembering.visitor.browser;
    jar.clear(jar.all().find(({ name }) => name.includes("_session_"))?.name ?? "");
    const visitor = new JsonVisitor(remembering.visitor.browser);
    const { body: login } = await visitor.open(news.authorizeUrl({ scope: "openid" }));
    const { body: ask } = await visitor.act(login, "email-code");
    const { body: waiting } = await visitor.act(ask, "submit", { username: email });
    const { body: second } = await visitor.act(waiting, "submit", { code: await mailedCode(email) });
    expect([second.step, second.done]).toEqual(["second-factor", undefined]);
    const { body: done } = await visitor.act(second, "submit", { code: code() });
    await expect(visitor.claims(news, done.location)).resolves.toMatchObject({
      sub,
      amr: ["email", "otp", "mfa"],
      acr: MFA,
    });
  });

  it("enrols nothing for a client that needs a second factor, and signs nobody in there [D-MAILCODE-12]", async () => {
    const { email, sub } = await person();
    const waiting = await asking(email, {}, vault);
    const { body } = await enter(waiting, await mailedCode(email));
    expect([body.step, body.notice?.code, body.done]).toEqual(["login", "code-too-little", undefined]);
    expect(await running.service.accounts.factors(sub)).toMatchObject({ app: null, passkeys: [] });
    // The password does.
    const { body: next } = await waiting.visitor.act(body, "submit", { username: email, password: PASSWORD });
    expect(next.step).toBe("enrol-confirm");
  });

  it("lets an account with nothing else enrol, with a second code [D-MAILCODE-13]", async () => {
    const { email } = await newcomer();
    const waiting = await asking(email, {}, vault);
    const signedIn = await mailedCode(email);
    const { body } = await enter(waiting, signedIn);
    expect(body.step).toBe("enrol-confirm");
    const again = await waiting.visitor.act(body, "submit", { code: signedIn });
    expect(again.body.problems[0]?.code).toBe("wrong-code");
    const { body: enrol } = await waiting.visitor.act(body, "submit", { code: await mailedCode(email) });
    expect(enrol.step).toBe("enrol");
  });

  it("ends no review after a reset: the next sign-in with the password still shows it [D-MAILCODE-12]", async () => {
    const { email, sub } = await person();
    await running.service.accounts.addApp(sub, { secret: SECRET });
    const { visitor, step: login } = await atLogin(news);
    const { body: forgot } = await visitor.act(login, "forgot-password");
    const { body: reset } = await visitor.act(forgot, "submit", { username: email });
    await visitor.act(reset, "submit", { code: await mailedCode(email), password: PASSWORD });
    const app = (): string => {
      clock.advance(30);
      return totpCode(SECRET, clock.now());
    };
    const byMail = await asking(email);
    const { body: second } = await enter(byMail, await mailedCode(email));
    expect((await byMail.visitor.act(second, "submit", { code: app() })).body.done).toBe(true);
    const byPassword = await atLogin(news);
    const password = { username: email, password: PASSWORD };
    const { body: factor } = await byPassword.visitor.act(byPassword.step, "submit", password);
    const { body: review } = await byPassword.visitor.act(factor, "submit", { code: app() });
    expect(review.step).toBe("review-methods");
  });

  it("offers no passkey to somebody with a password [D-MAILCODE-12]", async () => {
    const { email } = await person();
    const waiting = await asking(email);
    const { body } = await enter(waiting, await mailedCode(email), { can_add_passkey: true });
    expect(body.done).toBe(true);
  });

  it("goes to no operator: the mail says that a code is not enough [D-MAILCODE-10]", async () => {
    const email = "root@example.org";
    await person({ email, sub: OPERATOR, locale: "en" });
    const waiting = await asking(email);
    expect(waiting.step.step).toBe("email-code");
    const mail = await running.mailTo(email);
    expect([mail.subject, codeIn(mail)]).toEqual(["No code for this sign-in", ""]);
    expect((await enter(waiting, "00000000")).status).toBe(400);
  });
});

/** Signs in to the account pages with a code. */
async function atAccount({ email }: Person, base: "openid" | "oauth2" = "openid"): Promise<Browser> {
  const browser = await new Browser().get(`${running[base]}/account`);
  await browser.get(`${browser.url.href}/email-code`);
  await browser.submit(browser.form("username"), { username: email });
  await browser.submit(browser.form("code"), { code: await mailedCode(email) });
  expect(browser.url.pathname.endsWith("/account")).toBe(true);
  return browser;
}

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
    const account = await person();
    const browser = await atAccount(account);
    for (const path of RECENT) {
      await browser.get(`${running.openid}${path}`);
      expect([path, browser.title]).toEqual([path, "Sign in again"]);
      expect(browser.html).not.toContain("Email me a code");
    }
    // Signing in to another account leads to no code for this one either.
    const [, login = ""] = /href="([^"]*\/login)"/.exec(browser.html) ?? [];
    await browser.get(new URL(login, browser.url).href);
    await browser.get(browser.url.href.replace(/\/login$/, "/email-code"));
    await browser.submit(browser.form("username"), { username: account.email });
    let subject = "";
    while (!subject.includes("code")) ({ subject } = await running.mailTo(account.email));
    expect(subject).toBe("No code for this sign-in");
  });

  it.each([{ prompt: "login" }, { max_age: "3600" }])(
    "that a client wants (%j) takes a code only from an account with nothing else [D-MAILCODE-11, D-MAILCODE-13]",
    async (parameters) => {
      for (const [made, subject] of [
        [await person({ locale: "en" }), "No code for this sign-in"],
        [await newcomer({ locale: "en" }), "Your sign-in code"],
      ] as const) {
        await asking(made.email, parameters);
        expect((await running.mailTo(made.email)).subject).toBe(subject);
      }
    },
  );

  it("is no session of a code of an account with a password, however young, for `max_age` [D-MAILCODE-11]", async () => {
    for (const [made, isRecent] of [
      [await person(), false],
      [await newcomer(), true],
    ] as const) {
      for (const client of Object.values(clients)) {
        const waiting = await asking(made.email, { scope: client === news ? "openid" : "email" }, client);
        const { body: done } = await enter(waiting, await mailedCode(made.email));
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
      const account = await newcomer();
      const browser = await atAccount(account, base);
      for (const path of RECENT) {
        await browser.get(`${running[base]}${path}`);
        expect(browser.url.pathname.endsWith(path)).toBe(true);
      }
      clock.advance(301);
      await browser.get(`${running[base]}/account/password`);
      expect([browser.title, textOf(browser)]).toEqual([
        "Sign in again",
        expect.stringContaining("This change needs a code from your mailbox."),
      ]);
      const { csrf = "" } = Object.fromEntries(browser.forms()[0]?.fields ?? []);
      await browser.submit(browser.forms()[0], { csrf, action: "email" });
      expect(browser.title).toBe("Enter your code");
      await browser.submit(browser.form("code"), { code: await mailedCode(account.email) });
      expect(browser.url.pathname.endsWith("/account/password")).toBe(true);
      // With a password, the code no longer suffices.
      await browser.submit(browser.form("password"), { password: PASSWORD });
      await browser.get(`${running[base]}/account/delete`);
      expect(browser.title).toBe("Sign in again");
    },
  );
});

describe("an account with nothing but its address", () => {
  /** Registers without a password, up to the code. */
  async function registered(): Promise<Waiting & { readonly email: string }> {
    const { visitor, step: login } = await atLogin(news, { scope: "openid" });
    const { body: register } = await visitor.act(login, "register");
    const email = `new-${(people += 1)}@example.org`;
    const { body: confirm } = await visitor.act(register, "without-password", { email });
    const { body: step } = await visitor.act(confirm, "submit", { code: await mailedCode(email) });
    return { visitor, step, email };
  }

  it("registers without a passkey, signs in with codes, is offered a passkey once, and adds it [D-MAILCODE-17, D-MAILCODE-18]", async () => {
    const { visitor, step, email } = await registered();
    expect([step.step, namesOf(step)]).toEqual(["enrol", ["passkey", "later", "register", "login"]]);
    expect(await running.service.accounts.findByLogin(email)).toBeUndefined();
    const { body: done } = await visitor.act(step, "later");
    await expect(visitor.claims(news, done.location)).resolves.toMatchObject({ amr: ["email"] });
    const account = await running.service.accounts.findByLogin(email);
    expect(account).toMatchObject({ email, email_verified: true });
    // No password is right.
    const { visitor: guesser, step: guess } = await atLogin(news);
    expect((await guesser.act(guess, "submit", { username: email, password: PASSWORD })).status).toBe(400);

    const first = await asking(email);
    const { body: offer } = await enter(first, await mailedCode(email), { can_add_passkey: true });
    expect(offer.step).toBe("offer-passkey");
    const { body: confirm } = await first.visitor.act(offer, "submit");
    expect(confirm.step).toBe("enrol-confirm");
    const { body: enrol } = await first.visitor.act(confirm, "submit", { code: await mailedCode(email) });
    const phone = createAuthenticator({ origin: new URL(running.openid).origin });
    const credential = phone.create(publicKeyOf(enrol));
    const { body: codes } = await first.visitor.act(enrol, "passkey", { name: "Phone", credential });
    const { body: end } = await first.visitor.act(codes, "submit", { kept: true });
    await expect(first.visitor.claims(news, end.location)).resolves.toMatchObject({
      amr: ["email", "swk", "user", "mfa"],
    });

    // From now on the passkey is a second factor.
    const second = await asking(email);
    const { body: factor } = await enter(second, await mailedCode(email), { can_add_passkey: true });
    expect(factor.step).toBe("second-factor");
    // The last one can go: the address is left. It stays confirmed.
    const { accounts } = running.service;
    const { sub = "" } = account ?? {};
    const { passkeys = [] } = (await accounts.factors(sub)) ?? {};
    await expect(accounts.removeFactor(sub, passkeys[0]?.id ?? "")).resolves.toBe(true);
    await expect(accounts.update(sub, { email_verified: false })).rejects.toMatchObject({
      code: "not_applicable",
    });
  });

  it("is asked about a passkey once, and not without a device that makes one [D-MAILCODE-18]", async () => {
    const { email } = await newcomer();
    for (const [more, step] of [
      [{}, undefined],
      [{ can_add_passkey: true }, "offer-passkey"],
      [{ can_add_passkey: true }, undefined],
    ] as const) {
      const waiting = await asking(email);
      const { body } = await enter(waiting, await mailedCode(email), more);
      expect([body.step, body.done]).toEqual([step, step === undefined ? true : undefined]);
    }
  });

  it("registers on pages without a script [D-MAILCODE-17]", async () => {
    const browser = await news.browser().get(news.authorizeUrl({ scope: "openid", prompt: "create" }));
    expect(browser.html).toMatch(/value="without-password">Continue without a password</);
    const email = `new-${(people += 1)}@example.org`;
    await browser.submit(browser.form("email"), { email, action: "without-password" });
    await browser.submit(browser.form("code"), { code: await mailedCode(email) });
    expect(browser.title).toBe("Create your passkey");
    const later = browser.forms().find(({ fields }) => fields.some(([, value]) => value === "later"));
    await browser.submit(later);
    await news.tokensOf(browser);
  });

  it("keeps its confirmed address, and gets a password by a reset [D-MAILCODE-19, D-MAILCODE-20]", async () => {
    const { email, sub } = await newcomer();
    const { accounts } = running.service;
    for (const change of [{ email_verified: false }, { email: "else@example.org" }])
      await expect(accounts.update(sub, change)).rejects.toMatchObject({ code: "not_applicable" });
    const { visitor, step: login } = await atLogin(news);
    const { body: forgot } = await visitor.act(login, "forgot-password");
    const { body: reset } = await visitor.act(forgot, "submit", { username: email });
    const { body: back } = await visitor.act(reset, "submit", {
      code: await mailedCode(email),
      password: PASSWORD,
    });
    const { body: done } = await visitor.act(back, "submit", { username: email, password: PASSWORD });
    expect(done.done).toBe(true);
    await expect(accounts.update(sub, { email_verified: false })).resolves.toMatchObject({ email });
  });
});
