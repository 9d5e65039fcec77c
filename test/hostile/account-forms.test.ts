/** Every form of the account pages, sent in every wrong way. Nothing may change. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { send, type TestVisitor } from "../../testing/test-client.ts";
import { signIn } from "../flows/clients.ts";
import { BOB, useService } from "../flows/running-service.ts";

let people = 0;
let person: TestVisitor & { readonly sub: string };
let browser: Browser;

const running = useService({
  config: { mail: async () => undefined, notifications: { worker: false } },
});
beforeEach(async () => {
  people += 1;
  const username = `person${people}`;
  const password = `a password of ${people} own`;
  const email = `${username}@example.com`;
  const { sub } = await running.service.accounts.create({ email, username, name: "Ada", password });
  await running.service.accounts.assign(sub, "1");
  person = { username, password, sub };
  browser = await signIn(await new Browser().get(`${running.openid}/account`), person);
  // The forms that end sessions exist only with a second session.
  await signIn(await new Browser().get(`${running.openid}/account`), person);
});

/** Each form, by its page, with what it would change. */
const FORMS: readonly [path: string, fields: Readonly<Record<string, string>>][] = [
  ["", {}],
  ["/profile", { name: "Eve", username: "eve", locale: "pl" }],
  ["/email", { action: "cancel" }],
  ["/email/new", { email: "eve@example.com" }],
  ["/password", { password: "the password of eve" }],
  ["/sessions", { action: "others" }],
  ["/sessions", { action: "end", session: "of another browser" }],
  ["/services", { action: "disconnect", service: "1" }],
  ["/delete", {}],
];

const cookieOf = (of: Browser): string =>
  of.jar
    .all()
    .map(({ name, value }) => `${name}=${value}`)
    .join("; ");

/** The hidden token of a page. */
async function tokenOf(of: Browser, path: string): Promise<string> {
  await of.get(`${running.openid}/account${path}`);
  return of.forms()[0]?.fields.find(([name]) => name === "csrf")?.[1] ?? "";
}

async function post(
  path: string,
  fields: Readonly<Record<string, string>>,
  { headers = {}, cookie = cookieOf(browser) }: { headers?: Record<string, string>; cookie?: string } = {},
): Promise<number> {
  const { status } = await send(`${running.openid}/account${path}`, {
    method: "POST",
    headers: { cookie, ...headers },
    body: new URLSearchParams(fields),
  });
  return status;
}

/** Everything that a form could change. */
async function state(): Promise<unknown> {
  const account = await running.service.accounts.find(person.sub);
  const isPassword = await running.service.accounts.verifyPassword(person.sub, person.password);
  const { status } = await send(`${running.openid}/account`, { headers: { cookie: cookieOf(browser) } });
  return [account, isPassword, status];
}

describe.each(FORMS)("the form of /account%s %j", (path, fields) => {
  // The form is there only while a change of address waits.
  if (path === "/email") {
    beforeEach(async () => {
      await browser.get(`${running.openid}/account/email/new`);
      await browser.submit(browser.form("email"), { email: `new-${person.username}@example.com` });
    });
  }

  it("counts only with its token, and from our own page [D-SELF-2]", async () => {
    const other = await signIn(await new Browser().get(`${running.openid}/account`), BOB);
    const again = await signIn(await new Browser().get(`${running.openid}/account`), person);
    const csrf = await tokenOf(browser, path);
    const before = await state();
    const tokens = {
      missing: undefined,
      empty: "",
      "of another person": await tokenOf(other, path),
      "of another session": await tokenOf(again, path),
      "of another page": await tokenOf(browser, path === "/profile" ? "/services" : "/profile"),
      long: "x".repeat(10_000),
      "with more": `${csrf}x`,
      "of an object": "__proto__",
    };
    for (const [what, token] of Object.entries(tokens)) {
      const sent = { ...fields, ...(token !== undefined && { csrf: token }) };
      expect([what, await post(path, sent)]).toEqual([what, 403]);
    }
    const sites: readonly Record<string, string>[] = [
      { origin: "https://evil.example" },
      { origin: `${running.origin}.evil.example` },
      { origin: running.origin.replace("http:", "https:") },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { origin: "null" },
      { origin: "null", "sec-fetch-site": "cross-site" },
      { origin: "https://evil.example", "sec-fetch-site": "same-origin" },
    ];
    for (const headers of sites) {
      expect([headers, await post(path, { ...fields, csrf }, { headers })]).toEqual([headers, 403]);
    }
    expect(await post(path, { ...fields, csrf }, { cookie: "" })).toBe(303);
    expect(await state()).toEqual(before);
  });

  it("is refused with a repeated field, another type or a broken escape", async () => {
    const csrf = await tokenOf(browser, path);
    const before = await state();
    const type = "application/x-www-form-urlencoded";
    for (const [body, contentType] of [
      [`csrf=${csrf}&csrf=${csrf}`, type],
      [`csrf=${csrf}&name=%zz`, type],
      [`csrf=${csrf}&name=%00`, type],
      [`csrf=${csrf}&name=${"x".repeat(70_000)}`, type],
      [`csrf=${csrf}&action=no-such-action`, type],
      [`csrf=${csrf}&action=__proto__`, type],
    ] as const) {
      const { status } = await send(`${running.openid}/account${path}`, {
        method: "POST",
        headers: { cookie: cookieOf(browser), "content-type": contentType },
        body,
      });
      expect([body.slice(0, 60), status]).toEqual([body.slice(0, 60), 400]);
    }
    expect(await state()).toEqual(before);
  });

  it("has no fault when it is sent twice at the same time", async () => {
    const csrf = await tokenOf(browser, path);
    const statuses = await Promise.all(Array.from({ length: 4 }, () => post(path, { ...fields, csrf })));
    expect(statuses.filter((status) => ![303, 403].includes(status))).toEqual([]);
    expect(statuses).toContain(303);
  });
});

const NASTY = [
  '"><script>alert(1)</script>',
  "'; DROP TABLE account; --",
  "{{7*7}}<%= 7*7 %>${7*7}",
  "\u202egnp.exe",
  "a\u0301\u0301\u0301".repeat(60),
  "😀".repeat(200),
  "x".repeat(10_000),
  "line\r\nSet-Cookie: a=b",
  "\ud800",
  "__proto__",
  "constructor",
];

describe("the profile", () => {
  it.each(NASTY)("takes %j in any field as text or not at all", async (text) => {
    const form = (await browser.get(`${running.openid}/account/profile`)).form("surname");
    for (const field of ["name", "surname", "username", "date_of_birth", "gender", "locale"]) {
      await browser.submit(form, { [field]: text });
      expect([200, 400]).toContain(browser.status);
      expect(browser.html).not.toMatch(
        /<script(?! src="\/openid\/pages\.js\?[0-9a-f]{16}" defer><\/script>)|\{\{49|49\$\{/,
      );
      expect(browser.headers.get("set-cookie")).toBeNull();
    }
    const account = await running.service.accounts.find(person.sub);
    expect([account?.date_of_birth, account?.gender, account?.locale]).toEqual([null, null, null]);
    expect((account?.name ?? "").length).toBeLessThan(600);
    expect((await browser.get(`${running.openid}/account`)).status).toBe(200);
  });

  it.each([
    ["username", "ada", /this name is taken/],
    ["username", "ADA", /this name is taken/],
    ["username", "ada@example.com", /letters of one alphabet/],
    ["username", "a".repeat(65), /at most 64 characters/],
    ["date_of_birth", "2999-01-01", /a real date in the past/],
    ["date_of_birth", "1990-02-30", /a real date in the past/],
    ["date_of_birth", "0001-01-01", /a real date in the past/],
    ["gender", "toString", /choose one from the list/],
    ["locale", "de", /choose one from the list/],
    ["name", "x".repeat(101), /at most 100 characters/],
    ["surname", "Love\u202elace", /at most 100 characters/],
  ])("refuses %s %j and keeps what was typed", async (field, value, text) => {
    await browser.get(`${running.openid}/account/profile`);
    await browser.submit(browser.form("surname"), { name: "Augusta", [field]: value });
    expect([browser.status, browser.title]).toEqual([400, "Profile"]);
    expect(browser.html).toMatch(text);
    expect(browser.html).toContain("Error: Profile");
    if (field !== "name") expect(browser.html).toContain('value="Augusta"');
    expect((await running.service.accounts.find(person.sub))?.name).toBe("Ada");
  });
});

it("a notice can't be made up, moved to another page or another person", async () => {
  await browser.get(`${running.openid}/account/profile`);
  await browser.submit(browser.form("surname"), { surname: "X" });
  const sealed = browser.url.searchParams.get("done") ?? "";
  expect(browser.html).toContain("Your profile has been saved.");
  const bob = await signIn(await new Browser().get(`${running.openid}/account`), BOB);
  for (const [visitor, address] of [
    [browser, `/account?done=${sealed}`],
    [browser, `/account/profile?done=profile`],
    [browser, `/account/profile?done=password.${sealed.split(".")[1]}`],
    [browser, `/account/profile?done=__proto__.${sealed.split(".")[1]}`],
    [bob, `/account/profile?done=${sealed}`],
  ] as const) {
    await visitor.get(running.openid + address);
    expect(visitor.status).toBe(200);
    expect(visitor.html).not.toContain('class="result"');
  }
});
