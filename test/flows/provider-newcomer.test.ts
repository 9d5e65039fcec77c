/** Somebody who comes back from a provider for the first time: registering, and linking an account that there is. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import type { AccountInternals } from "../../accounts/account.ts";
import type { RegistrationSettings } from "../../config/pages.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import { TestClock } from "../../testing/test-clock.ts";
import type { RequestParameters } from "../../testing/test-client.ts";
import { createTestProvider, type ProviderPerson, type TestProvider } from "../../testing/test-provider.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { closing } from "../closing.ts";
import { JsonVisitor, publicKeyOf } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import { clientAt } from "./clients.ts";
import { leaveFor } from "./provider-party.ts";
import { NEWS, onLocalhost, VAULT } from "./running-service.ts";

const PASSWORD = "grapefruit under the stairs";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const ADA = { sub: "ada-there", email: "ada@gmail.com", given_name: "Ada", family_name: "Lovelace" };
const VOUCHED = { ...ADA, email_verified: true } as const;
const FIELDS: RegistrationSettings = {
  fields: { name: "optional", surname: "optional", username: "optional" },
  terms: { url: "https://example.org/terms", version: "1" },
};

let clock: TestClock;
let provider: TestProvider;
let party: SelfService;

async function start(settings: object = {}, registration: RegistrationSettings | false = FIELDS) {
  provider = await createTestProvider();
  closing(provider);
  clock = new TestClock();
  provider.clock = clock;
  provider.signIn(VOUCHED);
  party = await startSelfService(
    { registration },
    {
      deployments: onLocalhost,
      config: { clock, providers: { corp: { ...provider.settings, trustsEmail: true, ...settings } } },
    },
  );
}
beforeEach(() => start());

const news = () => clientAt(party, "openid", NEWS);
const begin = (parameters: RequestParameters = {}): Promise<Browser> =>
  news()
    .browser()
    .get(news().authorizeUrl({ scope: "openid", ...parameters }));
/** Comes back from the provider, for a person there. */
async function comeBack(person: ProviderPerson = VOUCHED, from?: Browser): Promise<Browser> {
  provider.signIn(person);
  return leaveFor(from ?? (await begin()));
}
async function newAccount(email = ADA.email, password: string | null = PASSWORD): Promise<string> {
  const account = { email, email_verified: true, ...(password !== null && { password }) };
  const { sub } = await party.service.accounts.import(account);
  await internals().acceptTerms(sub, "1", SYSTEM);
  return sub;
}
const internals = () => party.service.accounts as typeof party.service.accounts & AccountInternals;
const identitiesOf = async (sub: string) => (await internals().record(sub))?.ways.provider?.links ?? [];
const accounts = async () => (await party.service.accounts.list({ limit: 100 })).items;
const owner = async (email = ADA.email) => party.service.accounts.findByLogin(email);
const signedIn = ({ location }: Browser): boolean => location?.searchParams.has("code") === true;
async function claimsOf(browser: Browser) {
  const { id_token = "" } = await news().tokensOf(browser);
  return decodeJwt(id_token);
}
const form = (browser: Browser, field: string) => browser.form(field);
const codeTo = async (email = ADA.email): Promise<string> => {
  for (;;) {
    const code = codeIn(await party.mailTo(email));
    if (code !== "") return code;
  }
};
/** The page without what differs in each sign-in. */
const page = ({ html }: Browser): string =>
  html.replaceAll(/value="[\w-]{30,}"|\/interaction\/[\w-]+|data-passkey="[^"]*"/g, "");

const register = (browser: Browser, values: Record<string, string> = {}): Promise<Browser> =>
  browser.submit(form(browser, "email"), { terms: "1", ...values });
const typePassword = (browser: Browser, password = PASSWORD): Promise<Browser> =>
  browser.submit(form(browser, "password"), { password });
/** Presses a button of the page that links. */
const decide = (browser: Browser, action?: "skip"): Promise<Browser> =>
  browser.submit(browser.forms()[0], action === undefined ? {} : { action });
/** Signs in at the page of a known address, and enters the code from the mail. */
async function atLink(email = ADA.email): Promise<Browser> {
  const browser = await typePassword(await comeBack());
  return browser.submit(form(browser, "code"), { code: await codeTo(email) });
}

describe("somebody whom nobody knows", () => {
  it("registers with what the provider says, and is signed in without mail [D-PROV-110, D-PROV-111]", async () => {
    const browser = await comeBack();
    expect(browser.title).toBe("Create your account");
    const values = Object.fromEntries(form(browser, "email").fields);
    expect(values).toMatchObject({ email: ADA.email, name: "Ada", surname: "Lovelace" });
    expect(browser.html).not.toContain('type="password"');
    expect(browser.html).toContain("Confirmed by Test provider.");
    const done = await register(browser);
    expect(signedIn(done)).toBe(true);
    const { sub, amr, acr } = await claimsOf(done);
    expect([amr, acr]).toEqual([["fed"], "urn:sign-in-service:acr:password"]);
    expect(await owner()).toMatchObject({ sub, email_verified: true, name: "Ada" });
    expect(party.sent).toEqual([]);
    // From then on the identity signs in.
    expect(signedIn(await comeBack())).toBe(true);
    expect(await accounts()).toHaveLength(3);
  });

  it("has to accept the terms, and gets problems back with what was typed", async () => {
    const browser = await comeBack();
    const again = await register(browser, { name: "Grace", terms: "" });
    expect(Object.fromEntries(form(again, "email").fields)).toMatchObject({
      name: "Grace",
      email: ADA.email,
    });
    expect(await owner()).toBeUndefined();
  });

  it("confirms any other address by our own mail, and the identity is registered with it [D-PROV-112]", async () => {
    const waiting = await register(await comeBack(), { email: "ada@example.org" });
    expect(waiting.title).toBe("Confirm your email address");
    expect(await owner("ada@example.org")).toBeUndefined();
    const done = await waiting.submit(form(waiting, "code"), { code: await codeTo("ada@example.org") });
    expect((await claimsOf(done)).amr).toEqual(["fed"]);
    expect(await owner(ADA.email)).toBeUndefined();
    expect(signedIn(await comeBack())).toBe(true);
  });

  it.each([
    ["does not say that it is confirmed", { ...ADA, email_verified: false }],
    ["says it as another text", { ...ADA, email_verified: "yes" as "true" }],
  ])(
    "whose provider %s gets the same page and as many mails for a known address [D-PROV-116]",
    async (_how, person) => {
      await newAccount("known@gmail.com");
      const pages: string[] = [];
      for (const email of ["known@gmail.com", ADA.email]) {
        const first = await comeBack({ ...person, sub: email, email });
        const waiting = await register(first);
        pages.push(page(first).replaceAll(email, ""), page(waiting).replaceAll(email, ""));
      }
      expect(pages.slice(0, 2).map((text) => text.length)).toEqual(pages.slice(2).map((text) => text.length));
      expect(pages[0]).not.toContain("Confirmed by");
      const subjects = await Promise.all(
        ["known@gmail.com", ADA.email].map(async (email) => (await party.mailTo(email)).text),
      );
      expect(subjects.join()).not.toMatch(/Test provider|Lovelace/);
    },
  );

  it("registers by JSON with the same steps [D-UI-1]", async () => {
    const visitor = new JsonVisitor(news().browser());
    const { body: login } = await visitor.open(news().authorizeUrl({ scope: "openid" }));
    const { body: left } = await visitor.act(login, "provider", { provider: "corp" });
    await visitor.browser.get(left.location ?? "");
    const { body: step } = await visitor.get(visitor.browser.url.href);
    expect([step.step, step.came_back]).toEqual([
      "provider-register",
      { key: "corp", preset: "openid", name: "Test provider", email: ADA.email },
    ]);
    const { body: wrong } = await visitor.act(step, "submit", { email: ADA.email });
    expect(wrong.problems).toMatchObject([{ code: "required", fields: ["terms"] }]);
    const { body: done } = await visitor.act(wrong, "submit", { email: ADA.email, terms: "1" });
    expect((await visitor.claims(news(), done.location)).amr).toEqual(["fed"]);
  });

  it("in two tabs and two browsers at once makes one account, and is signed in each time [D-PROV-114]", async () => {
    const browsers = [await comeBack(), await comeBack(), await comeBack()];
    const done = await Promise.all(browsers.map((browser) => register(browser)));
    expect((await accounts()).filter(({ email }) => email === ADA.email)).toHaveLength(1);
    expect(done.some((browser) => signedIn(browser))).toBe(true);
    // Whoever was late has come back with an identity that signs in, or is told that there is an account.
    for (const late of done.filter((browser) => !signedIn(browser)))
      expect(late.title).toBe("You have an account already");
  });

  it("finds the sign-in complete in an old tab", async () => {
    const browser = await comeBack();
    const old = form(browser, "email");
    await register(browser);
    expect((await browser.submit(old, { terms: "1" })).title).toBe("This sign-in is complete");
    expect((await accounts()).filter(({ email }) => email === ADA.email)).toHaveLength(1);
  });

  it("is not offered an account where registration is off, here or for the provider", async () => {
    await start({ registration: false });
    const browser = await comeBack();
    expect(browser.html).toContain("can’t sign in here");
    await start({}, false);
    expect((await comeBack()).html).toContain("can’t sign in here");
    expect(await accounts()).toHaveLength(2);
  });

  it("whose name is 10 kB or __proto__ types another one [D-PROV-118]", async () => {
    const long = await comeBack({ ...VOUCHED, given_name: "A".repeat(10_000), family_name: "__proto__" });
    expect(Object.fromEntries(form(long, "email").fields)).toMatchObject({ name: "", surname: "__proto__" });
    expect(long.html.length).toBeLessThan(60_000);
    expect(signedIn(await register(long))).toBe(true);
    expect(await owner()).toMatchObject({ name: null, surname: "__proto__" });
  });

  it("enrols a second factor where the client wants one", async () => {
    await party.service.clients.register(VAULT);
    const vault = clientAt(party, "openid", VAULT);
    const browser = await vault.browser().get(vault.authorizeUrl({ scope: "openid" }));
    const next = await register(
      await comeBack({ ...VOUCHED, auth_time: Math.floor(clock.now() / 1_000) }, browser),
    );
    expect(next.title).toBe("Secure your account");
  });
});

describe("an address that has an account", () => {
  it("is never linked by itself, whoever vouches for it [D-PROV-113]", async () => {
    const sub = await newAccount();
    const browser = await comeBack();
    expect(browser.title).toBe("You have an account already");
    expect(await identitiesOf(sub)).toEqual([]);
    expect(signedIn(browser)).toBe(false);
  });

  it("is linked after its password, a code of its own and the page that asks [D-PROV-119, D-PROV-126]", async () => {
    const sub = await newAccount();
    await party.service.accounts.update(sub, { name: "Ada", surname: "Byron" });
    const confirm = await typePassword(await comeBack());
    expect([confirm.title, signedIn(confirm)]).toEqual(["Confirm that it’s you", false]);
    const wrong = await confirm.submit(form(confirm, "code"), { code: "00000000" });
    expect(wrong.html).toContain("aria-invalid");
    const asks = await wrong.submit(form(wrong, "code"), { code: await codeTo() });
    expect(asks.title).toBe("Link Test provider to your account?");
    expect(asks.html).toContain("Ada Byron");
    expect(asks.html).not.toContain("autofocus");
    expect(await identitiesOf(sub)).toEqual([]);
    const done = await decide(asks);
    expect(await claimsOf(done)).toMatchObject({ sub, amr: ["pwd"] });
    expect(await identitiesOf(sub)).toHaveLength(1);
    expect(signedIn(await comeBack())).toBe(true);
  });

  it("stays as it is for whoever goes on without linking, at each page [D-PROV-126]", async () => {
    const sub = await newAccount();
    const confirm = await typePassword(await comeBack());
    const skip = confirm.forms().at(-1);
    expect(signedIn(await confirm.submit(skip, { action: "skip" }))).toBe(true);
    expect(signedIn(await decide(await atLink(), "skip"))).toBe(true);
    expect(await identitiesOf(sub)).toEqual([]);
  });

  it("warns if the two addresses differ, and only then [D-PROV-126]", async () => {
    await newAccount();
    expect((await atLink()).html).not.toContain("The two addresses differ");
    const other = await newAccount("grace@example.org");
    const browser = await comeBack({ sub: "another", email: "somebody@example.org", email_verified: true });
    const login = await browser.get(`${browser.url.href}/login`);
    const confirm = await login.submit(form(login, "username"), {
      username: "grace@example.org",
      password: PASSWORD,
    });
    const link = await confirm.submit(form(confirm, "code"), { code: await codeTo("grace@example.org") });
    expect(link.html).toContain("The two addresses differ");
    expect(await identitiesOf(other)).toEqual([]);
  });

  it("asks for the second factor, and for no code, if the account has one [D-PROV-119]", async () => {
    const sub = await newAccount();
    await party.service.accounts.addApp(sub, { secret: SECRET });
    const factor = await typePassword(await comeBack());
    expect(factor.title).toBe("Confirm that it’s you");
    const sent = party.sent.length;
    const link = await factor.submit(factor.forms()[0], { code: totpCode(SECRET, clock.now()) });
    expect([link.title, party.sent.length]).toEqual(["Link Test provider to your account?", sent]);
    expect((await claimsOf(await decide(link))).amr).toEqual(["pwd", "otp", "mfa"]);
    expect(await identitiesOf(sub)).toHaveLength(1);
  });

  it("is linked after its passkey, and no other", async () => {
    const sub = await newAccount(ADA.email, null);
    const phone = await addPhone(party, sub, clock);
    const visitor = new JsonVisitor(await comeBack());
    const { body: step } = await visitor.open(visitor.browser.url.href);
    expect([step.step, step.fields, step.actions.map(({ name }) => name)]).toEqual([
      "provider-known",
      [],
      ["passkey", "forgot-password", "provider-register", "login"],
    ]);
    const stranger = await addPhone(party, await newAccount("grace@example.org", null), clock);
    const foreign = stranger.get(publicKeyOf(step));
    const { body: refused } = await visitor.act(step, "passkey", { credential: foreign });
    expect(refused).toMatchObject({ step: "provider-known", notice: { code: "passkey-refused" } });
    const { body: link } = await visitor.act(refused, "passkey", {
      credential: phone.get(publicKeyOf(refused)),
    });
    expect([link.step, link.account]).toEqual(["provider-link", ADA.email]);
    const { body: done } = await visitor.act(link, "submit");
    expect((await visitor.claims(news(), done.location)).amr).toContain("mfa");
    expect(await identitiesOf(sub)).toHaveLength(1);
  });

  it("shows neither a name nor services, and the same for a disabled account [D-PROV-127]", async () => {
    const sub = await newAccount();
    await party.service.accounts.update(sub, { name: "Augusta" });
    const known = await comeBack();
    expect(known.html).not.toContain("Augusta");
    await party.service.accounts.disable(sub);
    const disabled = await comeBack();
    expect(page(disabled)).toBe(page(known));
    expect(page(await typePassword(disabled))).toBe(page(await typePassword(known, "a wrong password")));
    expect(await identitiesOf(sub)).toEqual([]);
  });

  it("is that of the stored identity, whatever the form says [D-PROV-127]", async () => {
    await newAccount();
    const victim = await newAccount("victim@example.org");
    const browser = await comeBack();
    const changed = await browser.submit(form(browser, "password"), {
      username: "victim@example.org",
      email: "victim@example.org",
      sub: victim,
      password: PASSWORD,
    });
    const link = await changed.submit(form(changed, "code"), { code: await codeTo() });
    await link.submit(link.forms()[0], { sub: victim, account: "victim@example.org" });
    expect(await identitiesOf(victim)).toEqual([]);
  });

  it("can be left for an account with another address [D-PROV-112]", async () => {
    await newAccount();
    const known = await comeBack();
    const other = await known.get(`${known.url.href}/provider-register`);
    expect(Object.fromEntries(form(other, "email").fields)).toMatchObject({ email: "" });
    const back = await register(other, { email: ADA.email });
    expect(back.title).toBe("You have an account already");
    const waiting = await register(await back.get(`${back.url.href}/provider-register`), {
      email: "new@example.org",
    });
    const done = await waiting.submit(form(waiting, "code"), { code: await codeTo("new@example.org") });
    expect(signedIn(done)).toBe(true);
    expect(await owner("new@example.org")).toBeDefined();
  });
});
