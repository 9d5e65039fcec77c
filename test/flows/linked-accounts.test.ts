/** Linking accounts at other providers on the account pages, and removing them. */
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { MailMessage } from "../../config/mail.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { Browser } from "../../testing/browser/browser.ts";
import type { ProviderPerson } from "../../testing/test-provider.ts";
import type { TestVisitor } from "../../testing/test-client.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { signIn } from "./clients.ts";
import { answerOf, leaveFor, type ProviderParty, startWithProvider } from "./provider-party.ts";

const LINK = "/account/identities/link";
const METHODS = "/account/sign-in-methods";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

const mails: MailMessage[] = [];
let party: ProviderParty;
let people = 0;
let person: TestVisitor & { readonly sub: string; readonly email: string };
let there: ProviderPerson & { readonly email: string };

beforeAll(async () => {
  const limit = { points: 1_000, seconds: 3_600 };
  party = await startWithProvider(
    {},
    {
      config: {
        mail: async (mail) => void mails.push(mail),
        rateLimits: { mail: { caller: limit }, signIn: { address: limit } },
      },
    },
  );
});

beforeEach(async () => {
  people += 1;
  mails.length = 0;
  const username = `person${people}`;
  const password = `a password of ${people} own`;
  const email = `${username}@example.com`;
  const { sub } = await party.service.accounts.create({ email, username, password, email_verified: true });
  person = { username, password, sub, email };
  there = { sub: `there-${people}`, email: `${username}@corp.example` };
  party.provider.signIn(there);
});

const at = (path: string): string => `${party.openid}${path}`;
/** Somebody who has signed in with the password, at a page. */
const visit = async (path = LINK): Promise<Browser> =>
  signIn(await new Browser().get(at(path)), person).then((browser) => browser.get(at(path)));
const text = ({ html }: Browser): string =>
  html
    .replace(/^[\s\S]*<main>/, "")
    .replaceAll(/<wbr>/g, "")
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ");
const formOf = (browser: Browser, action: string) =>
  browser.forms().find(({ fields }) => fields.some(([name, value]) => name === "action" && value === action));
/** The form with the button that links: it has no action of its own. */
const linkForm = (browser: Browser) =>
  browser
    .forms()
    .find(
      ({ fields }) =>
        fields.some(([name]) => name === "set-up") && !fields.some(([name]) => name === "action"),
    );
async function codeSent(): Promise<string> {
  for (let tries = 0; tries < 5_000; tries += 1) {
    const mail = mails.findLast(({ to, text: body }) => to === person.email && CODE.test(body));
    if (mail !== undefined) return CODE.exec(mail.text)?.[0] ?? "";
    await pause(10);
  }
  throw new Error("no code was sent");
}
const CODE = /^[0-9A-HJKMNP-TV-Z]{8}$/m;
const linked = async (): Promise<readonly string[]> => {
  const account = await party.storage.directory.findAccount(person.sub);
  return account?.ways.provider?.links.map(({ provider }) => provider) ?? [];
};
/** At the page that asks whether to link. */
async function confirmed(): Promise<Browser> {
  const browser = await leaveFor(await visit());
  await browser.submit(formOf(browser, "send"));
  return browser.submit(formOf(browser, "code"), { code: await codeSent() });
}

describe("linking an account on the account page", () => {
  it("takes a recent sign-in, a code from the mailbox, and the button [D-PROV-170]", async () => {
    const browser = await leaveFor(await visit());
    expect(browser.url.pathname.endsWith(LINK)).toBe(true);
    expect([text(browser), await linked()]).toEqual([expect.stringContaining("enter a code"), []]);
    await browser.submit(formOf(browser, "send"));
    await browser.submit(formOf(browser, "code"), { code: await codeSent() });
    expect(text(browser)).toMatch(`Link Test provider to your account? Test provider ${there.email}`);
    expect(text(browser)).toContain("The two addresses differ");
    expect(await linked()).toEqual([]);
    await browser.submit(linkForm(browser));
    expect([browser.url.pathname.endsWith(METHODS), await linked()]).toEqual([true, ["corp"]]);
    expect(text(browser)).toContain("The account has been linked.");
    expect(text(browser)).toContain(there.email);
  });

  it("ends all other sessions, and not this one [D-PROV-171]", async () => {
    const other = await visit(METHODS);
    const browser = await confirmed();
    await browser.submit(linkForm(browser));
    expect((await browser.get(at(METHODS))).title).toContain("Sign-in methods");
    expect((await other.get(at(METHODS))).title).toContain("Sign in");
  });

  it("does nothing for somebody who goes back [D-PROV-170]", async () => {
    const browser = await confirmed();
    await browser.submit(formOf(browser, "skip"));
    expect([browser.url.pathname.endsWith(METHODS), await linked()]).toEqual([true, []]);
    expect(text(await browser.get(at(LINK)))).toContain("Choose where you have an account");
  });

  it("is not done by a stolen password: without the code nothing is linked [D-PROV-172]", async () => {
    const browser = await leaveFor(await visit());
    const [, setUp = ""] = /name="set-up" value="([^"]+)"/.exec(browser.html) ?? [];
    await browser.submit(formOf(browser, "send"), { action: "submit", "set-up": setUp });
    expect([text(browser), await linked()]).toEqual([expect.stringContaining("enter a code"), []]);
  });

  it("takes no code of another session [D-PROV-172]", async () => {
    const first = await leaveFor(await visit());
    await first.submit(formOf(first, "send"));
    const code = await codeSent();
    const second = await leaveFor(await visit());
    await second.submit(formOf(second, "send"));
    await second.submit(formOf(second, "code"), { code });
    expect([linkForm(second), await linked()]).toEqual([undefined, []]);
  });

  it("shows the second factor in place of the code, if there is one [D-PROV-170]", async () => {
    await party.service.accounts.addApp(person.sub, { secret: SECRET });
    const browser = await signIn(await new Browser().get(at(LINK)), person);
    await browser.submit(
      browser.forms().find(({ fields }) => fields.some(([name]) => name === "code")),
      {
        code: totpCode(SECRET, Date.now()),
      },
    );
    await leaveFor(await browser.get(at(LINK)));
    expect(text(browser)).toContain("Link Test provider to your account?");
    await browser.submit(linkForm(browser));
    expect(await linked()).toEqual(["corp"]);
  });

  it("refuses an account that is linked to somebody else, and never moves it [D-PROV-173]", async () => {
    const { sub } = await party.service.accounts.create({ email: `other${people}@example.com` });
    await party.link(sub, there);
    const browser = await leaveFor(await visit());
    expect(text(browser)).toContain("That account is linked to another account. Nothing was changed.");
    expect(await linked()).toEqual([]);
  });

  it("refuses a second one of the same provider [D-PROV-173]", async () => {
    await party.link(person.sub, { sub: `first-${people}` });
    const browser = await visit();
    expect([text(browser), formOf(browser, "link")]).toEqual([
      expect.stringContaining("There is nothing more to link."),
      undefined,
    ]);
  });

  it("does not take the answer of another browser [D-PROV-174]", async () => {
    const thief = await visit();
    const stays = new Browser({ stopAt: [party.provider.issuer] });
    await signIn(await stays.get(at(LINK)), person);
    await leaveFor(await stays.get(at(LINK)));
    const answer = await answerOf(party, stays);
    await thief.get(answer);
    expect(text(await thief.get(at(LINK)))).toContain("Choose where you have an account");
    expect(await linked()).toEqual([]);
  });

  it("asks for the password of somebody who came in by a provider [D-PROV-175]", async () => {
    await party.link(person.sub, { sub: `other-${people}` }, "elsewhere");
    await party.link(person.sub, there);
    const browser = await leaveFor(await new Browser().get(at(METHODS)));
    expect(browser.title).toContain("Sign-in methods");
    await browser.get(at(LINK));
    expect(text(browser)).toContain("Password");
    expect(browser.html).not.toContain('name="provider"');
    await browser.submit(browser.form("password"), { password: person.password });
    expect(browser.url.pathname.endsWith(LINK)).toBe(true);
  });

  it("says so when the provider's answer is refused, and nothing is changed [D-PROV-176]", async () => {
    party.provider.lies.set("wrong nonce");
    try {
      const browser = await leaveFor(await visit());
      expect(text(browser)).toContain("Its answer can’t be used. Nothing was changed.");
      expect(await linked()).toEqual([]);
    } finally {
      party.provider.lies.clear();
    }
  });
});

describe("a linked account", () => {
  it("is removed after a recent sign-in; nobody comes in by it any more [D-PROV-177]", async () => {
    await party.link(person.sub, there);
    const browser = await visit(METHODS);
    await browser.click("Remove…");
    expect(text(browser)).toContain("Remove Test provider?");
    await browser.submit(formOf(browser, "remove"));
    expect([text(browser), await linked()]).toEqual([
      expect.stringContaining("The linked account has been removed."),
      [],
    ]);
  });

  it("stays if it is the only way to sign in, whatever is sent [D-PROV-178]", async () => {
    await party.link(person.sub, there);
    const browser = await visit(METHODS);
    await browser.click("Remove…");
    const form = formOf(browser, "remove");
    // Meanwhile the password ends.
    await party.storage.records.transact(async (tx) => {
      const account = await tx.get(ACCOUNT.ref(person.sub));
      if (account !== undefined) {
        const { password: _password, ...ways } = account.ways;
        tx.put(ACCOUNT.record({ ...account, ways }));
      }
    });
    await browser.submit(form);
    expect(await linked()).toEqual(["corp"]);
    expect(text(await browser.get(at(METHODS)))).toContain("This is your only way to sign in.");
  });

  it("that somebody else has linked is undone in one step, with all sessions and the password [D-PROV-179]", async () => {
    await party.link(person.sub, there);
    const browser = await visit(METHODS);
    expect(text(browser)).toContain("New");
    await browser.click("This wasn’t me…");
    await browser.submit(formOf(browser, "undo"));
    expect([text(browser), await linked()]).toEqual([expect.stringContaining("password"), []]);
    const fresh = "a new password of one's own";
    await browser.submit(browser.form("password"), { password: fresh });
    expect((await signIn(await new Browser().get(at(METHODS)), person)).html).toContain('name="password"');
    expect(
      (await signIn(await new Browser().get(at(METHODS)), { ...person, password: fresh })).title,
    ).toContain("Sign-in methods");
  });

  it("of another person can't be reached [D-PROV-177]", async () => {
    const { sub } = await party.service.accounts.create({ email: `other${people}@example.com` });
    await party.link(sub, there);
    const browser = await visit(METHODS);
    for (const path of ["remove", "undo"])
      for (const identity of ["x", "__proto__", ""]) {
        await browser.get(at(`/account/identities/${path}?identity=${identity}`));
        expect(browser.url.pathname.endsWith(METHODS)).toBe(true);
      }
  });
});
