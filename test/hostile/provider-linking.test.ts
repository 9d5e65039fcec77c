/** Attacks on linking: nobody gets into an account by an identity that its owner has not linked. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { AccountInternals } from "../../accounts/account.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { createTestProvider, type ProviderPerson, type TestProvider } from "../../testing/test-provider.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { closing } from "../closing.ts";
import { clientAt } from "../flows/clients.ts";
import { leaveFor, linkTo } from "../flows/provider-party.ts";
import { NEWS, onLocalhost } from "../flows/running-service.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";

const PASSWORD = "grapefruit under the stairs";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const VICTIM = "victim@example.org";
const THIEF = { sub: "thief-there", email: "thief@example.org", email_verified: true };
/** The victim, as the provider knows the owner of the mailbox. */
const OWNER = { sub: "victim-there", email: VICTIM, email_verified: true };
const LINK = "Link Test provider to your account?";

let clock: TestClock;
let provider: TestProvider;
/** The only way in for its domain. */
let staff: TestProvider;
let party: SelfService;
let victim: string;

beforeEach(async () => {
  provider = await createTestProvider();
  closing(provider);
  clock = new TestClock();
  provider.clock = clock;
  staff = await createTestProvider();
  closing(staff);
  staff.clock = clock;
  party = await startSelfService(
    { registration: true },
    {
      deployments: onLocalhost,
      config: {
        clock,
        secondFactor: { remember: 60 },
        providers: {
          corp: { ...provider.settings, trustsEmail: true },
          staff: {
            ...staff.settings,
            trustsEmail: true,
            name: "Staff ID",
            domains: ["staff.example"],
            only: true,
          },
        },
      },
    },
  );
  victim = await newAccount(VICTIM);
});

const internals = () => party.service.accounts as typeof party.service.accounts & AccountInternals;
async function newAccount(email: string): Promise<string> {
  return (await party.service.accounts.import({ email, email_verified: true, password: PASSWORD })).sub;
}
const linksOf = async (sub = victim) => (await internals().record(sub))?.ways.provider?.links ?? [];
const news = () => clientAt(party, "openid", NEWS);
const begin = (from?: Browser): Promise<Browser> =>
  (from ?? news().browser()).get(news().authorizeUrl({ scope: "openid" }));
async function comeBack(person: ProviderPerson, from?: Browser): Promise<Browser> {
  provider.signIn(person);
  return leaveFor(await begin(from));
}
async function comeFromStaff(person: ProviderPerson): Promise<Browser> {
  staff.signIn(person);
  return leaveFor(await begin(), "staff");
}
const signedIn = ({ location }: Browser): boolean => location?.searchParams.has("code") === true;
/** Signs in at the first page, where the identity waits. */
async function signInAs(browser: Browser, username: string, password = PASSWORD): Promise<Browser> {
  await browser.get(`${browser.url.href}/login`);
  return browser.submit(browser.form("username"), { username, password });
}
const newestCode = async (email: string): Promise<string> => codeIn(await party.mailTo(email));
const enter = (browser: Browser, code: string): Promise<Browser> =>
  browser.submit(browser.form("code"), { code });
const press = (browser: Browser, values: Record<string, string> = {}): Promise<Browser> =>
  browser.submit(browser.forms()[0], values);

describe("a thief", () => {
  it("who knows the password links nothing without the mailbox [D-PROV-119]", async () => {
    const browser = await signInAs(await comeBack(THIEF), VICTIM);
    expect(browser.title).toBe("Confirm that it’s you");
    const code = await newestCode(VICTIM);
    for (let i = 0; i < 5; i += 1) await enter(browser, code === "00000000" ? "11111111" : "00000000");
    // Not even the right code helps after five wrong ones.
    expect((await enter(browser, code)).title).not.toBe(LINK);
    expect(await linksOf()).toEqual([]);
    expect(party.sent.filter(({ to }) => to === THIEF.email)).toEqual([]);
  });

  it("gets no page that links by asking for it, and no form of another step does it [D-PROV-126]", async () => {
    const browser = await signInAs(await comeBack(THIEF), VICTIM);
    const { csrf = "" } = Object.fromEntries(browser.form("code").fields);
    const [base = ""] = browser.url.href.split("?");
    for (const step of ["provider-link", "second-factor", "login", "provider-known"]) {
      await browser.get(`${base}/${step}`);
      expect(browser.title).not.toBe(LINK);
      await browser.submit(
        { ...browser.forms()[0]!, action: new URL(`${base}/${step}`), fields: [["csrf", csrf]] } as never,
        {},
      );
    }
    expect(await linksOf()).toEqual([]);
  });

  it("with a remembered browser is asked for the second factor [D-PROV-119]", async () => {
    await party.service.accounts.addApp(victim, { secret: SECRET });
    const browser = await begin();
    await browser.submit(browser.form("username"), { username: VICTIM, password: PASSWORD });
    await press(browser, { code: totpCode(SECRET, clock.now()), remember: "1" });
    expect(signedIn(browser)).toBe(true);
    clock.advance(15 * 86_400);
    await begin(browser);
    await browser.submit(browser.form("username"), { username: VICTIM, password: PASSWORD });
    expect(signedIn(browser)).toBe(true);
    clock.advance(15 * 86_400);
    const again = await signInAs(await comeBack(THIEF, browser), VICTIM);
    expect([again.html.includes("one-time-code"), signedIn(again)]).toEqual([true, false]);
    expect(await linksOf()).toEqual([]);
  });

  it("who has the account wait for its victim is never linked to the victim's identity [D-PROV-113]", async () => {
    // The attacker registered the victim's address first, and knows the password.
    const browser = await comeBack(OWNER);
    expect(browser.title).toBe("You have an account already");
    expect([signedIn(browser), await linksOf()]).toEqual([false, []]);
    // A password that the thief does not know is chosen with the mailbox.
    await browser.get(`${browser.url.href}/forgot-password`);
    await browser.submit(browser.form("username"), { username: VICTIM });
    await browser.submit(browser.form("code"), {
      code: await newestCode(VICTIM),
      password: "a lighthouse in the fog",
    });
    await expect(party.service.accounts.verifyPassword(victim, PASSWORD)).resolves.toBe(false);
  });

  it("who has come in by another identity of the account links no further one [D-PROV-120]", async () => {
    await linkTo(party, victim, { provider: "corp", issuer: provider.issuer, subject: OWNER.sub });
    const browser = await comeBack(THIEF);
    // In the same sign-in, by the identity that is linked.
    provider.signIn(OWNER);
    await browser.get(`${browser.url.href}/login`);
    await leaveFor(browser);
    expect(signedIn(browser)).toBe(true);
    expect(await linksOf()).toHaveLength(1);
  });
});

/** At the page that links. */
async function atLink(person: ProviderPerson = THIEF): Promise<Browser> {
  const browser = await signInAs(await comeBack(person), VICTIM);
  await enter(browser, await newestCode(VICTIM));
  expect(browser.title).toBe(LINK);
  return browser;
}

describe("the page that links", () => {
  it("links nothing five minutes after the sign-in [D-PROV-119]", async () => {
    const browser = await atLink();
    clock.advance(301);
    await press(browser);
    expect([browser.title, signedIn(browser)]).toEqual(["Sign in", false]);
    expect(await linksOf()).toEqual([]);
  });

  it.each([
    ["ended its sessions", async () => party.service.accounts.endSessions(victim)],
    [
      "changed its password",
      async () => party.service.accounts.setPassword(victim, "a lighthouse in the fog"),
    ],
    ["disabled it", async () => party.service.accounts.disable(victim)],
    ["deleted it", async () => party.service.accounts.delete(victim)],
  ])("links nothing after somebody %s [D-PROV-124]", async (_what, change) => {
    const browser = await atLink();
    await change();
    await press(browser);
    expect(browser.title).not.toBe(LINK);
    expect([signedIn(browser), await linksOf()]).toEqual([false, []]);
  });

  it("says so if another account has the identity by now, and moves nothing [D-PROV-121]", async () => {
    const browser = await atLink();
    const other = await newAccount("grace@example.org");
    await linkTo(party, other, { provider: "corp", issuer: provider.issuer, subject: THIEF.sub });
    await press(browser);
    expect(browser.html).toContain("is linked to another account");
    expect([await linksOf(), (await linksOf(other)).length]).toEqual([[], 1]);
    expect(signedIn(await press(browser, { action: "skip" }))).toBe(true);
  });

  it("in two tabs at once links once", async () => {
    const browser = await atLink();
    const form = browser.forms()[0];
    await Promise.allSettled([browser.submit(form), browser.submit(form)]);
    expect(await linksOf()).toHaveLength(1);
  });

  it("of an old tab links nothing once the sign-in is complete", async () => {
    const browser = await atLink();
    const form = browser.forms()[0];
    await press(browser, { action: "skip" });
    expect(signedIn(browser)).toBe(true);
    await browser.submit(form);
    expect(browser.title).toBe("This sign-in is complete");
    expect(await linksOf()).toEqual([]);
  });

  it("has nothing to link after the sign-in starts again in another tab", async () => {
    const browser = await atLink();
    await begin(browser);
    await browser.submit(browser.form("username"), { username: VICTIM, password: PASSWORD });
    expect(signedIn(browser)).toBe(true);
    expect(await linksOf()).toEqual([]);
  });

  it("ends the other sessions of the account, and mails its owner a link that undoes it", async () => {
    const elsewhere = await begin();
    await elsewhere.submit(elsewhere.form("username"), { username: VICTIM, password: PASSWORD });
    const browser = await atLink();
    await press(browser);
    expect(signedIn(browser)).toBe(true);
    expect(await linksOf()).toHaveLength(1);
    await elsewhere.get(news().authorizeUrl({ scope: "openid", prompt: "none" }));
    expect(elsewhere.location?.searchParams.get("error")).toBe("login_required");
    const subjects = [await party.mailTo(VICTIM), await party.mailTo(VICTIM)].map(({ subject }) => subject);
    expect(subjects).toContain("Test provider was linked to your account");
  });
});

describe("where a provider is the only way in", () => {
  const EMPLOYEE = { sub: "employee-there", email: "ada@staff.example", email_verified: true };
  let employee: string;
  beforeEach(async () => {
    employee = await newAccount(EMPLOYEE.email);
    await internals().acceptTerms(employee, "1", SYSTEM);
  });

  it("an existing account is linked after a code to its address and the page that asks [D-PROV-125]", async () => {
    const browser = await comeFromStaff(EMPLOYEE);
    expect(browser.hasForm("password")).toBe(false);
    await press(browser);
    expect(browser.title).toBe("Confirm that it’s you");
    await enter(browser, await newestCode(EMPLOYEE.email));
    expect(browser.title).toBe("Link Staff ID to your account?");
    expect(await linksOf(employee)).toEqual([]);
    await press(browser);
    expect(signedIn(browser)).toBe(true);
    expect(await linksOf(employee)).toHaveLength(1);
  });

  it("the code alone signs nobody in: who does not link is back at the first page [D-PROV-125]", async () => {
    const browser = await comeFromStaff(EMPLOYEE);
    await press(browser);
    await enter(browser, await newestCode(EMPLOYEE.email));
    await press(browser, { action: "skip" });
    expect([browser.title, signedIn(browser), await linksOf(employee)]).toEqual(["Sign in", false, []]);
  });

  it("the second factor of the account is asked for besides, and a disabled one gets the same pages", async () => {
    await party.service.accounts.addApp(employee, { secret: SECRET });
    const browser = await comeFromStaff(EMPLOYEE);
    await press(browser);
    await enter(browser, await newestCode(EMPLOYEE.email));
    expect(browser.html).toContain("Code from the app");
    await press(browser, { code: totpCode(SECRET, clock.now()) });
    expect(browser.title).toBe("Link Staff ID to your account?");
    await party.service.accounts.disable(employee);
    const later = await comeFromStaff(EMPLOYEE);
    await press(later);
    expect(later.title).toBe("Confirm that it’s you");
    await enter(later, "00000000");
    expect(later.html).toContain("aria-invalid");
  });

  it("an address of another domain comes in nowhere [D-PROV-117]", async () => {
    const browser = await comeFromStaff({ ...EMPLOYEE, email: "ada@example.org" });
    expect(browser.html).toContain("staff.example");
    expect([signedIn(browser), browser.hasForm("email")]).toEqual([false, false]);
  });
});
