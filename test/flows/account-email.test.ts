/** Changing the e-mail address on the account pages: sign-in, mail, code or link. */
import { setTimeout as pause } from "node:timers/promises";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { send, type TestVisitor } from "../../testing/test-client.ts";
import { signIn } from "./clients.ts";
import { ADA, BOB, startService, useService } from "./running-service.ts";
import type { MailMessage } from "../../config/mail.ts";

const KINDS = ["oauth2", "openid"] as const;
const mails: MailMessage[] = [];
let people = 0;
let person: TestVisitor & { readonly sub: string; readonly email: string };
let fresh: string;

const running = useService({
  config: {
    mail: async (mail) => void mails.push(mail),
    rateLimits: { mail: { caller: { points: 1_000, seconds: 3_600 } } },
  },
});
beforeEach(async () => {
  people += 1;
  mails.length = 0;
  const username = `person${people}`;
  const password = `a password of ${people} own`;
  const email = `${username}@example.com`;
  const { sub } = await running.service.accounts.create({ email, username, password, email_verified: true });
  person = { username, password, sub, email };
  fresh = `fresh${people}@example.com`;
});

/** The mails to an address, once there are enough. */
async function mailsTo(address: string, count = 1): Promise<readonly MailMessage[]> {
  for (let tries = 0; tries < 5_000; tries += 1) {
    const found = mails.filter(({ to }) => to === address);
    if (found.length >= count) return found;
    await pause(10);
  }
  throw new Error(`no mail to ${address}`);
}

async function codeIn(address: string, count = 1): Promise<string> {
  const found = await mailsTo(address, count);
  return /^[0-9A-HJKMNP-TV-Z]{8}$/m.exec(found.at(-1)?.text ?? "")?.[0] ?? "";
}

/** The address of the link in the mail. */
async function linkTo(address: string): Promise<string> {
  const [mail] = await mailsTo(address);
  return /https?:\S+\/confirm\?token=[\w-]+/.exec(mail?.text ?? "")?.[0] ?? "";
}

const pageText = ({ html }: Browser): string =>
  html
    .replace(/^[\s\S]*<main>/, "")
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ");

/** The form that sends this action. */
const formOf = (browser: Browser, action: string) =>
  browser
    .forms()
    .find(({ fields }) => fields.some(([name, value]) => name === "action" && value === action))!;

const addressNow = async (): Promise<string | undefined> =>
  (await running.service.accounts.find(person.sub))?.email;

/** A browser in which the person has asked for a new address. */
async function asked(address = fresh, kind: (typeof KINDS)[number] = "openid"): Promise<Browser> {
  const browser = await new Browser().get(`${running[kind]}/account/email`);
  await signIn(browser, person);
  await browser.click("Change email address");
  return browser.submit(browser.form("email"), { email: address });
}

describe.each(KINDS)("a change of address on %s", (kind) => {
  it("takes effect when the code is typed; both addresses are notified [D-SELF-7]", async () => {
    const browser = await asked(fresh, kind);
    expect(browser.url.href).toContain(`${running[kind]}/account/email?done=`);
    expect(pageText(browser)).toContain("is on its way to the new address");
    expect(pageText(browser)).toContain(`We have sent a message to ${fresh}`);
    expect(await addressNow()).toBe(person.email);
    const code = await codeIn(fresh);
    await browser.submit(formOf(browser, "code"), {
      code: `${code.slice(0, 4).toLowerCase()}-${code.slice(4)}`,
    });
    expect(pageText(browser)).toContain("Your email address has been changed.");
    expect(pageText(browser)).toContain(`Your address ${fresh}`);
    expect(await addressNow()).toBe(fresh);
    await mailsTo(person.email);
    const { items: records } = await running.service.audit.list({ account: person.sub });
    expect(records.find(({ action }) => action === "account.updated")).toMatchObject({
      actor: { kind: "account", id: person.sub },
      address: "127.0.0.0/24",
      detail: { fields: "email" },
    });
  });
});

describe("the link in the mail", () => {
  it("confirms in a browser that is signed in as that account, once its owner says so [D-SELF-7]", async () => {
    const browser = await asked();
    const link = await linkTo(fresh);
    // A mail scanner.
    for (const method of ["HEAD", "GET"]) await send(link, { method });
    await browser.get(link);
    expect([browser.status, browser.url.href]).toEqual([200, `${running.openid}/account/email`]);
    expect(pageText(browser)).toContain(`From now on, you sign in with ${fresh}`);
    expect(await addressNow()).toBe(person.email);
    await browser.submit(formOf(browser, "link"));
    expect(pageText(browser)).toContain("Your email address has been changed.");
    expect(await addressNow()).toBe(fresh);
    // It works once.
    await browser.get(link);
    expect(browser.status).toBe(400);
  });

  it("asks for a sign-in elsewhere, and does nothing for another account", async () => {
    await asked();
    const link = await linkTo(fresh);
    const stranger = await new Browser().get(link);
    expect(stranger.title).toBe("Sign in");
    await signIn(stranger, ADA);
    expect(stranger.url.pathname).toBe("/openid/account/email");
    expect(pageText(stranger)).not.toContain(fresh);
    expect(stranger.forms()).toEqual([]);
    expect(await addressNow()).toBe(person.email);
    const other = await new Browser().get(link);
    await signIn(other, person);
    await other.submit(formOf(other, "link"));
    expect(await addressNow()).toBe(fresh);
  });
});

describe("a change of address", () => {
  it("needs a recent sign-in only to be asked for [D-SELF-3]", async () => {
    const response = await send(`${running.openid}/account/email/new`, { method: "POST" });
    expect([response.status, response.headers.get("location")]).toEqual([
      303,
      expect.stringContaining("/oauth2/authorize?"),
    ]);
  });

  it("is sent again with a new code, and can be cancelled", async () => {
    const browser = await asked();
    const first = await codeIn(fresh);
    await browser.submit(formOf(browser, "again"));
    const second = await codeIn(fresh, 2);
    await browser.submit(formOf(browser, "code"), { code: first });
    expect([browser.status, pageText(browser)]).toEqual([
      400,
      expect.stringContaining("You have 4 tries left"),
    ]);
    await browser.submit(formOf(browser, "cancel"));
    expect(pageText(browser)).toContain("Your email address stays as it is.");
    const other = await asked(`other-${fresh}`);
    await other.submit(formOf(other, "code"), { code: second });
    expect(other.status).toBe(400);
    expect(await addressNow()).toBe(person.email);
  });

  it("ends after five wrong codes", async () => {
    const browser = await asked();
    const code = await codeIn(fresh);
    const wrong = code === "00000000" ? "00000001" : "00000000";
    for (const left of [4, 3, 2, 1]) {
      await browser.submit(formOf(browser, "code"), { code: wrong });
      expect(pageText(browser)).toContain(`You have ${left} ${left === 1 ? "try" : "tries"} left`);
    }
    await browser.submit(formOf(browser, "code"), { code: wrong });
    expect(pageText(browser)).toContain("The code was wrong too often");
    await browser.submit(formOf(browser, "code"), { code });
    expect([browser.status, await addressNow()]).toEqual([400, person.email]);
  });

  it("to the address of somebody else looks the same, notifies its owner, and changes nothing", async () => {
    const browser = await asked(BOB.email);
    expect(pageText(browser)).toContain(`We have sent a message to ${BOB.email}`);
    const [mail] = await mailsTo(BOB.email);
    expect(mail?.text).not.toMatch(/^[0-9A-HJKMNP-TV-Z]{8}$/m);
    await browser.submit(formOf(browser, "code"), { code: "" });
    expect(pageText(browser)).toContain("Enter the code from the message.");
    expect((await running.service.accounts.find(running.bob.sub))?.email).toBe(BOB.email);
  });

  it.each([
    ["", "Enter an email address"],
    ["nobody", "Enter an email address"],
    ["a@b\r\nBcc: c@d", "Enter an email address"],
    [`${"x".repeat(10_000)}@example.com`, "Enter an email address"],
    ["<script>@example.com", "Enter an email address"],
    ["own", "This is your address already"],
  ])("to %j is refused", async (typed, text) => {
    const browser = await asked(typed === "own" ? person.email.toUpperCase() : typed);
    expect([browser.status, browser.title]).toEqual([400, "Change your email address"]);
    expect(pageText(browser)).toContain(text);
    expect(browser.html).not.toContain("<script>");
    expect(mails).toEqual([]);
  });

  it("is limited like all mail that strangers can trigger, and says that nothing was sent [D-MAILLIMIT-4]", async () => {
    const browser = await asked();
    for (let tries = 0; tries < 8 && browser.status !== 429; tries += 1)
      await browser.submit(formOf(browser, "again"));
    expect(browser.status).toBe(429);
    expect(Number(browser.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(pageText(browser)).toContain("Too many messages were requested. Nothing was sent now.");
  });

  it("of another person can't be confirmed with a code from this one", async () => {
    const browser = await asked();
    const code = await codeIn(fresh);
    const ada = await new Browser().get(`${running.openid}/account/email`);
    await signIn(ada, ADA);
    await ada.click("Change email address");
    await ada.submit(ada.form("email"), { email: `ada-${fresh}` });
    await ada.submit(formOf(ada, "code"), { code });
    expect(ada.status).toBe(400);
    expect((await running.service.accounts.find(running.ada.sub))?.email).toBe(ADA.email);
    await browser.submit(formOf(browser, "code"), { code });
    expect(await addressNow()).toBe(fresh);
  });
});

it("without mail, the address can't be changed, and no page offers it", async () => {
  const other = await startService();
  const browser = await new Browser().get(`${other.openid}/account`);
  await signIn(browser, ADA);
  expect(browser.html).not.toContain("/account/email");
  expect((await send(`${other.openid}/account/email`)).status).toBe(404);
});

describe("the link in the mail to the old address", () => {
  it("undoes the change once a person says so, ends the thief's session, and leads to a new password [D-ADDRESS-3]", async () => {
    const thief = await asked();
    await thief.submit(formOf(thief, "code"), { code: await codeIn(fresh) });
    expect(await addressNow()).toBe(fresh);
    const link = await linkTo(person.email);
    // A mail scanner, and a form of another person.
    for (const method of ["HEAD", "GET"]) await send(link, { method });
    const owner = await new Browser().get(link);
    expect([owner.status, owner.url.href]).toEqual([200, `${running.openid}/confirm`]);
    expect(pageText(owner)).toContain(`The email address of your account becomes ${person.email} again.`);
    const form = owner.form("csrf");
    await new Browser().get(link).then((other) => other.submit(form, { csrf: "x" }));
    expect(await addressNow()).toBe(fresh);
    await owner.submit(form);
    expect(await addressNow()).toBe(person.email);
    await thief.get(`${running.openid}/account`);
    expect(thief.url.href).toContain("/interaction/");
    await signIn(thief, person);
    expect(thief.url.href).toContain("/interaction/");
    expect(owner.url.href).toBe(`${running.openid}/confirm`);
    await owner.submit(owner.form("password"), { password: "the owner has a new one" });
    await signIn(owner, { ...person, password: "the owner has a new one" });
    expect(owner.url.pathname).toMatch(/\/account$/);
    expect(pageText(owner)).toContain(person.email);
    const gone = await new Browser().get(link);
    expect([gone.status, pageText(gone)]).toEqual([
      400,
      expect.stringContaining("expired or was used already"),
    ]);
  });
});

describe("mail to the address of the account", () => {
  it("is not kept from its owner's browser by strangers who ask for mail to it [D-MAILLIMIT-1]", async () => {
    await running.service.accounts.update(person.sub, { email_verified: false });
    const owner = await new Browser().get(`${running.openid}/account/email`);
    await signIn(owner, person);
    const stranger = await new Browser().get(`${running.openid}/account`);
    const forgot = `${stranger.url.href}/forgot-password`;
    for (let count = 0; count < 6; count += 1) {
      await stranger.get(forgot);
      await stranger.submit(stranger.form("username"), { username: person.email });
    }
    expect(stranger.status).toBe(429);
    await owner.get(`${running.openid}/account/email/new`);
    await owner.submit(owner.form("email"), { email: person.email });
    expect(owner.status).toBe(200);
    expect(pageText(owner)).toContain("is on its way to the new address");
  });
});

describe("an internationalized domain", () => {
  it("is shown in its script and mailed to as A-labels; a look-alike stays A-labels [D-NAME-3]", async () => {
    const ascii = `fresh${people}@xn--bcher-kva.example`;
    const shown = `fresh${people}@bücher.example`;
    const browser = await asked(` fresh${people}@BÜCHER.example `);
    expect(pageText(browser)).toContain(`We have sent a message to ${shown}`);
    await browser.submit(formOf(browser, "code"), { code: await codeIn(ascii) });
    expect(pageText(browser)).toContain(`Your address ${shown}`);
    expect(await addressNow()).toBe(ascii);
    for (const page of ["", "/email", "/delete"]) {
      await browser.get(`${running.openid}/account${page}`);
      expect([page, browser.html.includes(shown), browser.html.includes("xn--")]).toEqual([
        page,
        true,
        false,
      ]);
    }
    const lookAlike = `fresh${people}@xn--exmple-4nf.com`;
    await running.service.accounts.update(person.sub, { email: lookAlike, email_verified: true });
    await browser.get(`${running.openid}/account/email`);
    expect(pageText(browser)).toContain(lookAlike);
  });
});
