/** The console's pages for support: the search, and the page of a person. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { MailMessage } from "../../../config/mail.ts";
import type { OperatorRole } from "../../../config/operators.ts";
import type { Browser } from "../../../testing/browser/browser.ts";
import { exchange } from "../stage.ts";
import {
  act,
  openConsole,
  OPERATORS,
  type RunningConsole,
  SECRET,
  SignedIn,
  stopApp,
  textOf,
} from "./console-visitor.ts";

const sent: MailMessage[] = [];
let console: RunningConsole;
beforeAll(async () => {
  console = await openConsole({ config: { mail: async (message) => void sent.push(message) } });
});

const signedIn = new SignedIn(() => console);
const as: SignedIn["as"] = (role, path) => signedIn.as(role, path);

let people = 0;
/** Somebody who is not in any other test. */
async function somebody(more: object = {}) {
  people += 1;
  const account = { email: `person${people}@example.com`, email_verified: true, password: "a long password" };
  return console.running.service.accounts.create({ ...account, username: `person${people}`, ...more });
}

/** How many rows the table has. */
const rows = ({ html }: Browser): number => html.match(/<th scope="row"/gu)?.length ?? 0;

const tabOf = ({ html }: Browser): string => /<title>([^<]*)/u.exec(html)?.[1] ?? "";

async function search(term: string, role: OperatorRole = "support"): Promise<Browser> {
  const browser = await as(role, "/people");
  return browser.submit(browser.form("q"), { q: term });
}

async function auditOf(account: string, action?: string) {
  const { audit } = console.running.service;
  return (await audit.list({ account, ...(action !== undefined && { action }) })).items;
}

describe("the search", () => {
  it("finds people by the beginning of a surname, with nothing personal in addresses, tabs and referrers [D-ADM-150]", async () => {
    await somebody({ surname: "Loveday-Smith" });
    const browser = await search("lovel");
    expect([browser.status, browser.title]).toEqual([200, "People matching “lovel”"]);
    expect(browser.visits.map(({ status }) => status)).toEqual([303, 200]);
    expect(browser.html).toContain("<mark>Lovel</mark>ace");
    expect(textOf(browser)).not.toContain("Loveday");
    const address = decodeURIComponent(browser.url.href);
    for (const shown of [address, tabOf(browser)]) expect(shown).not.toMatch(/lovel|ada/iu);
    // The field keeps what was typed.
    expect(browser.html).toContain('type="search" value="lovel"');
    expect(browser.headers.get("referrer-policy")).toBe("same-origin");
    await browser.get(address);
    expect(browser.html).toContain("<mark>Lovel</mark>ace");
    // Another operator's address, and one that was changed, say nothing.
    const colleague = await as("viewer", browser.url.pathname + browser.url.search);
    expect([colleague.status, colleague.title]).toEqual([200, "Search"]);
    expect(textOf(colleague)).not.toMatch(/lovel/iu);
    await browser.get(`${address}A`);
    expect(browser.title).toBe("Search");
  });

  it.each(["sub", "user_id", "email", "username"] as const)(
    "leads to the person who is named exactly: by %s [D-ADM-151]",
    async (name) => {
      const person = await somebody();
      const browser = await search(` ${String(person[name]).toUpperCase()} `);
      expect([browser.status, browser.url.pathname]).toEqual([200, `/people/${person.sub}`]);
    },
  );

  it("says what is too short, and whom nobody matches [D-ADM-151]", async () => {
    const short = await search("lo");
    expect([short.status, textOf(short)]).toEqual([422, expect.stringContaining("at least three letters")]);
    const none = await search("zzzzzz");
    expect([none.status, textOf(none)]).toEqual([200, expect.stringContaining("Nobody matches “zzzzzz”")]);
    const empty = await search("");
    expect([empty.url.pathname, empty.title]).toEqual(["/people", "Search"]);
  });

  it("filters, and shows 20 people a page to support and more to administrators [D-ADM-152]", async () => {
    for (let count = 0; count < 21; count += 1)
      await somebody({ surname: `Wielogłowska ${count}`, email_verified: count !== 7 });
    const gone = await somebody({ surname: "Wielogłowska gone" });
    await console.running.service.accounts.disable(gone.sub);
    const browser = await search("wielogłowska");
    expect(rows(browser)).toBe(20);
    await browser.click("Next page");
    expect(rows(browser)).toBe(2);
    await browser.click("First page");
    await browser.submit(browser.form("state"), { state: "disabled" });
    expect([rows(browser), textOf(browser)]).toEqual([1, expect.stringContaining("Wielogłowska gone")]);
    await browser.submit(browser.form("state"), { state: "unconfirmed" });
    expect([rows(browser), textOf(browser)]).toEqual([1, expect.stringContaining("Wielogłowska 7 ")]);
    await browser.submit(browser.form("state"), { state: "active" });
    expect(rows(browser)).toBe(20);
    expect(textOf(browser)).not.toContain("Next page");
    expect(rows(await search("wielogłowska", "administrator"))).toBe(22);
  });

  it("also finds a client with exactly this identifier, and has no field for the role deliveries [D-ADM-151]", async () => {
    const browser = await search("partner");
    expect(browser.html).toContain('href="/clients/partner"');
    const dan = await as("deliveries", "/deliveries");
    expect([dan.status, dan.hasForm("q")]).toEqual([200, false]);
    for (const path of ["/people", `/people/${console.running.ada.sub}`, "/audit", "/search"])
      expect([path, (await dan.get(console.url + path)).status]).toEqual([path, 403]);
  });

  it("says how many accounts the operator can still read in this hour, but not to administrators [D-ADM-257]", async () => {
    const person = await somebody({ surname: "Countable" });
    const before = await as("viewer", "/people");
    const left = Number(/hour: (\d+) of 600/u.exec(textOf(before))?.[1]);
    await search("countab", "viewer");
    // One for looking for exactly this name, and one that is shown.
    expect(textOf(before)).toContain(`hour: ${left - 2} of 600`);
    expect(before.html).toContain(`<meter id="left" min="0" max="600" low="100" value="${left - 2}">`);
    await as("viewer", `/people/${person.sub}`);
    expect(textOf(await as("viewer", "/people"))).toContain(`hour: ${left - 3} of 600`);
    expect(textOf(await as("administrator", "/people"))).not.toContain("you can still read");
  });

  it("names operators and stopped apps below the names [D-ADM-257]", async () => {
    const person = await somebody({ surname: "Stoppedsson" });
    await console.running.service.accounts.addApp(person.sub, { secret: SECRET });
    await stopApp(console.running, person.sub);
    const browser = await search("stoppedss", "administrator");
    expect(textOf(browser)).toContain("App stopped after 100 wrong codes");
    expect(textOf(await search("vera@", "administrator"))).not.toContain("App stopped");
    await search("ver", "administrator");
    expect(textOf(browser)).toContain("Operator: Viewer");
  });

  it("begins with the people that this operator has opened lately [D-ADM-152]", async () => {
    const person = await somebody({ name: "Recently", surname: "Opened" });
    await as("support", `/people/${person.sub}`);
    const browser = await as("support", "/people");
    expect(textOf(browser)).toContain("Recently Opened");
    expect(textOf(await as("viewer", "/people"))).not.toContain("Recently Opened");
  });
});

describe("the page of a person", () => {
  it("begins with the verdict, shows everything, and each look is in the audit [D-ADM-153]", async () => {
    const person = await somebody({ name: "Grace", surname: "Hopper" });
    const { accounts } = console.running.service;
    await accounts.assign(person.sub, "1", 7);
    await accounts.addApp(person.sub, { secret: SECRET });
    const browser = await as("support", `/people/${person.sub}`);
    expect([browser.title, textOf(browser)]).toEqual([
      expect.stringContaining("Grace Hopper"),
      expect.stringMatching(
        /All 11 checks: 0 problems, 0 warnings, 11 in order .* Authenticator app .* Recovery codes 10 of 10 left .* News 1/u,
      ),
    ]);
    expect([...browser.html.matchAll(/<h2[^>]*>([^<]*)/gu)].map(([, heading]) => heading)).toEqual([
      "Nothing here stops this person",
      "Sign-ins and devices",
      "Sign-in methods",
      "Services and roles",
      "Consents",
      "Deliveries",
      "History",
      "Profile",
      "Danger zone",
      "What you can do",
      "Identifiers",
    ]);
    expect(tabOf(browser)).not.toMatch(/Grace|Hopper|person/u);
    const [look] = await auditOf(person.sub, "account.viewed");
    expect(look).toMatchObject({
      actor: { kind: "operator", id: OPERATORS.support.sub },
      subject: person.sub,
      address: "127.0.0.0/24",
    });
    await as("support", `/people/${person.sub}`);
    expect(await auditOf(person.sub, "account.viewed")).toHaveLength(2);
  });

  it("says who has disabled the account, and offers what helps [D-ADM-153]", async () => {
    const person = await somebody();
    const disabled = await as("support", `/people/${person.sub}?do=disable`);
    expect(textOf(disabled)).toContain("All sessions and tokens end at once.");
    await act(disabled);
    expect(textOf(disabled)).toContain("The account is disabled.");
    expect(textOf(disabled)).toMatch(/Can’t sign in: the account is disabled Since .* By: Operator grace/u);
    await disabled.click("Enable…");
    await act(disabled);
    expect(textOf(disabled)).toContain("Nothing here stops this person");
  });

  it("sends a reset mail that the operator does not see [D-ADM-154]", async () => {
    const person = await somebody();
    const browser = await as("support", `/people/${person.sub}?do=sendReset`);
    expect(textOf(browser)).toContain("You don’t see it.");
    await act(browser);
    expect(textOf(browser)).toContain("The mail is on its way.");
    expect(browser.html).not.toContain("/confirm?token=");
    expect(await auditOf(person.sub, "account.reset_sent")).toHaveLength(1);
  });

  it("removes a factor only with an answer to how it was checked who asks, and the audit keeps it [D-ADM-154]", async () => {
    const person = await somebody();
    await console.running.service.accounts.addApp(person.sub, { secret: SECRET });
    const browser = await as("support", `/people/${person.sub}`);
    await browser.get(`${console.url}/people/${person.sub}?do=removeFactor&factor=app`);
    expect(textOf(browser)).toContain("How did you check who is asking?");
    await act(browser);
    expect([browser.status, textOf(browser)]).toEqual([422, expect.stringContaining("Choose or enter")]);
    await expect(console.running.service.accounts.factors(person.sub)).resolves.toMatchObject({ app: {} });
    await act(browser, { verified_by: "called_back" });
    expect([browser.url.pathname, textOf(browser)]).toEqual([
      `/people/${person.sub}`,
      expect.stringContaining("The second factor was removed."),
    ]);
    const [record] = await auditOf(person.sub, "account.factor_removed");
    expect(record).toMatchObject({ detail: { factor: "app", verified_by: "called_back" } });
    for (const factor of ["app", "none", ""])
      expect((await as("support", `/people/${person.sub}?do=removeFactor&factor=${factor}`)).status).toBe(
        404,
      );
  });

  it("deletes only as an administrator who types the address [D-ADM-154]", async () => {
    const person = await somebody();
    const path = `/people/${person.sub}?do=delete`;
    expect((await as("support", path)).status).toBe(403);
    expect(textOf(await as("support", `/people/${person.sub}`))).toContain("Only administrators can do this");
    const browser = await as("administrator", path);
    await act(browser, { typed: person.sub });
    expect([browser.status, textOf(browser)]).toEqual([422, expect.stringContaining("does not identify")]);
    await act(browser, { typed: person.email });
    expect(browser.url.pathname).toBe("/people");
    await expect(console.running.service.accounts.find(person.sub)).resolves.toBeUndefined();
    expect((await browser.get(`${console.url}/people/${person.sub}`)).status).toBe(404);
  });

  it("offers nothing for a colleague’s account, and leads to the account page for one’s own [D-ADM-155]", async () => {
    const colleague = await as("support", `/people/${OPERATORS.viewer.sub}`);
    expect(textOf(colleague)).toContain("This account belongs to an operator.");
    expect(colleague.html).not.toContain("?do=");
    const own = await as("support", `/people/${OPERATORS.support.sub}`);
    expect(textOf(own)).toContain("This is your own account.");
    expect(own.html).not.toContain("?do=");
    const other = await as("administrator", `/people/${OPERATORS.viewer.sub}`);
    expect(other.html).toContain("?do=disable");
  });

  it.each([
    ["viewer", "disable"],
    ["viewer", "removeFactors"],
    ["support", "update"],
    ["support", "setPassword"],
    ["support", "unlinkIdentity"],
  ] as const)("has no page for what a %s may not do: %s [D-ADM-155]", async (role, verb) => {
    const person = await somebody();
    expect((await as(role, `/people/${person.sub}?do=${verb}`)).status).toBe(403);
    expect((await as(role, `/people/${person.sub}`)).html).not.toContain(`?do=${verb}`);
  });

  it("takes no form of another page, of another person or without a token [D-ADM-156]", async () => {
    const [one, other] = [await somebody(), await somebody()];
    const browser = await as("support", `/people/${one.sub}?do=disable`);
    const post = async (path: string, fields: Record<string, string>, origin = console.url) => {
      const url = new URL(console.url + path);
      const headers = { cookie: browser.jar.header(url), origin };
      const body = new URLSearchParams(fields);
      const answer = await fetch(url, { method: "POST", body, redirect: "manual", headers });
      return answer.status;
    };
    const right = browser
      .forms()
      .find(({ action }) => action.search.includes("do=disable"))
      ?.fields.find(([name]) => name === "csrf")?.[1];
    const [ofSearch = ""] = browser.forms().flatMap(({ fields }) => fields.map(([, value]) => value));
    for (const token of ["", "x", ofSearch])
      expect(await post(`/people/${one.sub}?do=disable`, { csrf: token })).toBe(403);
    expect(await post(`/people/${other.sub}?do=disable`, { csrf: right ?? "" })).toBe(403);
    expect(await post(`/people/${one.sub}?do=endSessions`, { csrf: right ?? "" })).toBe(403);
    expect(await post(`/people/${one.sub}?do=disable`, { csrf: right ?? "" }, "https://evil.example")).toBe(
      403,
    );
    const url = new URL(`${console.url}/people/${one.sub}?do=disable`);
    const headers = {
      cookie: browser.jar.header(url),
      origin: console.url,
      "Content-Type": "application/x-www-form-urlencoded",
    };
    const large = { headers, body: `csrf=${right}&reason=${"a".repeat(10_000_000)}` };
    const { status } = await exchange(Number(url.port), "POST", url.pathname + url.search, large);
    expect(status).toBe(400);
    expect(await auditOf(one.sub, "account.disabled")).toEqual([]);
    expect(await post(`/people/${one.sub}?do=disable`, { csrf: right ?? "" })).toBe(303);
  });
});

it.each([
  ["the account", (sub: string) => console.running.service.accounts.disable(sub)],
  ["the session", (sub: string) => console.running.service.accounts.endSessions(sub)],
  ["the factor", (sub: string) => console.running.service.accounts.removeFactors(sub)],
])("does nothing for an operator who has lost %s while a page is open [D-ADM-159]", async (_what, lose) => {
  const { accounts } = console.running.service;
  const person = await somebody();
  // A code of the app works once.
  console.clock.advance(31);
  const admin = await console.open("administrator", `/people/${person.sub}?do=disable`);
  await lose(OPERATORS.administrator.sub);
  await act(admin);
  expect(admin.title).not.toContain("person");
  expect(admin.url.origin).not.toBe(console.url);
  expect((await accounts.find(person.sub))?.disabled).toBe(false);
  await accounts.enable(OPERATORS.administrator.sub);
  signedIn.browsers.delete("administrator");
  if ((await accounts.factors(OPERATORS.administrator.sub))?.app === null)
    await accounts.addApp(OPERATORS.administrator.sub, { secret: SECRET });
});
