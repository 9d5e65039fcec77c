/** What somebody with only a session, only the password, or only a form tries on the page "Sign-in methods". */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import type { Form } from "../../testing/browser/forms.ts";
import { totpCode } from "../../testing/totp-code.ts";
import {
  type FactorKind,
  formOf,
  METHODS,
  MethodsParty,
  NEW,
  startMethodsService,
  textOf,
} from "../flows/methods-party.ts";
import { signIn } from "../flows/clients.ts";
import { beforeTests } from "../closing.ts";

let party: MethodsParty;

const running = beforeTests(() => startMethodsService());
beforeEach(async () => {
  party = await MethodsParty.create(running);
});

const KINDS: readonly FactorKind[] = ["app", "passkey"];
const CHANGE = `${METHODS}/change`;
const CODES = `${METHODS}/recovery-codes`;

/** What each change sends, besides its hidden token. */
const CHANGES: readonly [path: string, query: string, fields: Readonly<Record<string, string>>][] = [
  [NEW.app, "", { action: "send" }],
  [NEW.app, "", { action: "code", code: "AAAAAAAA" }],
  [NEW.app, "", { action: "app", code: "123456", "set-up": "A" }],
  [NEW.passkey, "", { action: "passkey", credential: "{}", name: "Phone", "set-up": "A" }],
  [CHANGE, "?factor=app", { action: "remove", factor: "app" }],
  [CODES, "", {}],
];

/** The hidden token of a page of this session. */
function tokenOf(browser: Browser): string {
  return browser.forms().flatMap(({ fields }) => fields.filter(([name]) => name === "csrf"))[0]?.[1] ?? "";
}

/** Sends a form with headers of its own. */
async function post(
  browser: Browser,
  path: string,
  fields: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly status: number; readonly location: string; readonly text: string }> {
  const url = new URL(running.openid + path);
  const response = await fetch(url, {
    method: "POST",
    body: new URLSearchParams(fields),
    redirect: "manual",
    headers: { cookie: browser.jar.header(url), origin: url.origin, ...headers },
  });
  browser.jar.take(url, response.headers.getSetCookie());
  const { status } = response;
  return { status, location: response.headers.get("location") ?? "", text: await response.text() };
}

const secretOn = (browser: Browser): string =>
  /app-key">([^<]*)/.exec(browser.html)?.[1]?.replaceAll(" ", "") ?? "";

/** A person with an app, and a browser that has signed in with it. */
async function enrolled(): Promise<Browser> {
  const browser = await party.browser();
  await party.add(browser, "app");
  return browser;
}

describe("a session alone", () => {
  it.each(CHANGES)(
    "changes nothing at %s%s %j when the sign-in is not recent [D-FACTOR-8, D-FACTOR-30]",
    async (path, query, fields) => {
      const browser = await enrolled();
      await browser.get(running.openid + path + query);
      const csrf = tokenOf(browser);
      const before = await party.factors();
      const sent = running.sent.length;
      running.clock.advance(301);
      const answer = await post(browser, path, { csrf, ...fields });
      expect([answer.status, answer.location]).toEqual([303, expect.stringContaining("prompt=login")]);
      await browser.getOnly(running.openid + path + query);
      expect([browser.status, browser.location?.searchParams.get("prompt")]).toEqual([303, "login"]);
      await expect(party.factors()).resolves.toEqual(before);
      expect(running.sent).toHaveLength(sent);
    },
  );

  it("of a remembered browser, which has shown only the password, changes nothing however recent it is [D-FACTOR-24, D-ADDRESS-5]", async () => {
    await enrolled();
    const browser = await new Browser().get(`${running.openid}/account`);
    await signIn(browser, party.person);
    await browser.submit(browser.forms()[0], { code: party.appCode(), remember: "1" });
    expect(browser.title).toBe("Your account");
    await browser.submit(browser.form("csrf"));
    await browser.get(running.openid + METHODS);
    await signIn(browser, party.person);
    // No second factor was asked for, which is enough to view the page.
    expect(browser.title).toBe("Sign-in methods");
    for (const path of [
      NEW.passkey,
      `${CHANGE}?factor=app`,
      CODES,
      "/account/email/new",
      "/account/password",
    ]) {
      await browser.getOnly(running.openid + path);
      expect([path, browser.location?.searchParams.get("prompt")]).toEqual([path, "login"]);
    }
    await browser.get(`${running.openid}${CHANGE}?factor=app`);
    await signIn(browser, party.person);
    expect(browser.title).toBe("Confirm that it’s you");
    await browser.submit(browser.forms()[0], { code: party.appCode() });
    expect(browser.title).toBe("Authenticator app");
    await browser.submit(formOf(browser, "remove"));
    await expect(party.factors()).resolves.toMatchObject({ app: null });
  });

  it("asks for everything again: the password, then the factor [D-FACTOR-13]", async () => {
    const browser = await enrolled();
    running.clock.advance(301);
    await browser.get(`${running.openid}${CHANGE}?factor=app`);
    await signIn(browser, party.person);
    expect(browser.title).toBe("Confirm that it’s you");
    await browser.get(`${running.openid}${CHANGE}?factor=app`);
    expect(browser.hasForm("password")).toBe(true);
    await party.signIn(browser);
    expect([browser.url.pathname, browser.url.search]).toEqual([`/openid${CHANGE}`, "?factor=app"]);
    await browser.submit(formOf(browser, "remove"));
    await expect(party.factors()).resolves.toMatchObject({ app: null });
  });
});

describe("forms", () => {
  it.each(CHANGES)(
    "of another site, page or person change nothing at %s%s %j",
    async (path, query, fields) => {
      const browser = await enrolled();
      await browser.get(running.openid + path + query);
      const csrf = tokenOf(browser);
      const before = await party.factors();
      const stranger = await MethodsParty.create(running);
      const other = await stranger.browser(NEW.app);
      for (const [what, who, headers] of [
        [{ csrf }, browser, { origin: "https://evil.example" }],
        [{ csrf }, browser, { origin: "null", "sec-fetch-site": "cross-site" }],
        [{ csrf }, browser, { "sec-fetch-site": "same-site" }],
        [{ csrf: `${csrf}A` }, browser, {}],
        [{ csrf: tokenOf(other) }, browser, {}],
        [{ csrf }, other, {}],
        [{}, browser, {}],
      ] as const) {
        const answer = await post(who, path, { ...fields, ...what }, headers);
        expect([answer.status, what, headers]).toEqual([403, what, headers]);
      }
      await browser.get(`${running.openid}/account`);
      const elsewhere = await post(browser, path, { ...fields, csrf: tokenOf(browser) });
      expect(elsewhere.status).toBe(403);
      await expect(party.factors()).resolves.toEqual(before);
      await expect(stranger.factors()).resolves.toMatchObject({ app: null, passkeys: [] });
    },
  );

  it("are used up by a change, even in the session that made it: sent again, one makes no further recovery codes", async () => {
    const browser = await enrolled();
    await browser.get(running.openid + CODES);
    const fields = { csrf: tokenOf(browser) };
    const first = await post(browser, CODES, fields);
    expect([first.status, first.text.includes("<li><code>")]).toEqual([200, true]);
    const again = await post(browser, CODES, fields);
    expect([again.status, again.text.includes("<li><code>")]).toEqual([403, false]);
    const made = (await party.actions()).filter((action) => action === "account.recovery_codes_replaced");
    expect(made).toHaveLength(1);
  });

  it("that name a factor of another account do nothing to it", async () => {
    const own = await party.browser();
    await party.add(own, "passkey");
    await own.get(running.openid + METHODS);
    const [, change = ""] = /href="([^"]*change\?factor=[\w-]{22})"/.exec(own.html) ?? [];
    const factor = new URL(change, own.url).searchParams.get("factor") ?? "";
    const thief = await MethodsParty.create(running);
    const browser = await thief.browser();
    await thief.add(browser, "app");
    await browser.get(`${running.openid}${CHANGE}?factor=app`);
    for (const action of ["remove", "rename"]) {
      for (const named of [factor, (await party.factors()).passkeys[0]!.id, "__proto__", ""]) {
        await browser.get(`${running.openid}${CHANGE}?factor=app`);
        await browser.submit(formOf(browser, "remove"), { factor: named, action, name: "Stolen" });
        expect(browser.url.pathname).toBe(`/openid${METHODS}`);
      }
    }
    expect((await party.factors()).passkeys).toMatchObject([{ name: "Phone" }]);
    await expect(thief.factors()).resolves.toMatchObject({ app: expect.anything() });
  });
});

/** Sends the form of a set-up as a browser does, from this page. */
function fieldsOf(form: Form, changes: Readonly<Record<string, string>>): Record<string, string> {
  return { ...Object.fromEntries(form.fields), ...changes };
}

/** The last fields of a set-up, as this page makes them. */
function proofOf(browser: Browser, kind: FactorKind): Record<string, string> {
  if (kind === "app") return { code: totpCode(secretOn(browser), running.clock.now()) };
  return { credential: party.newPasskey(browser), name: "Phone" };
}

describe.each(KINDS)("a set-up of a new %s", (kind) => {
  it("counts once, from however many requests at the same moment", async () => {
    const browser = await party.begin(await party.browser(), kind);
    const form = formOf(browser, kind);
    const all = Array.from({ length: 4 }, () => fieldsOf(form, proofOf(browser, kind)));
    const answers = await Promise.all(all.map((fields) => post(browser, NEW[kind], fields)));
    expect(answers.filter(({ status, text }) => status === 200 && text.includes("<li><code>"))).toHaveLength(
      1,
    );
    const { app, passkeys } = await party.factors();
    expect((app === null ? 0 : 1) + passkeys.length).toBe(1);
    // Nor later.
    const late = await post(browser, NEW[kind], all[0]!);
    expect([303, 403]).toContain(late.status);
    const after = await party.factors();
    expect((after.app === null ? 0 : 1) + after.passkeys.length).toBe(1);
  });

  it.each([
    [599, 1],
    [600, 0],
  ])("after %i seconds adds %i factors", async (age, count) => {
    const browser = await party.begin(await party.browser(), kind);
    const form = formOf(browser, kind);
    const page = browser.html;
    const proof = proofOf(browser, kind);
    running.clock.advance(age);
    await browser.get(running.openid + NEW[kind]);
    await party.signIn(browser);
    const code = totpCode(
      /app-key">([^<]*)/.exec(page)?.[1]?.replaceAll(" ", "") ?? "A",
      running.clock.now(),
    );
    const fields = fieldsOf(form, kind === "app" ? { code } : proof);
    const answer = await post(browser, NEW[kind], fields);
    expect([answer.status, answer.text.includes("<li><code>")]).toEqual(
      count === 1 ? [200, true] : [303, false],
    );
    const { app, passkeys } = await party.factors();
    expect((app === null ? 0 : 1) + passkeys.length).toBe(count);
  });

  it("is refused when the hidden field is changed, of another page, session or account", async () => {
    const browser = await party.begin(await party.browser(), kind);
    const form = formOf(browser, kind);
    const setUp = Object.fromEntries(form.fields)["set-up"] ?? "";
    const stranger = await MethodsParty.create(running);
    const other = await stranger.begin(await stranger.browser(), kind);
    const theirs = Object.fromEntries(formOf(other, kind).fields)["set-up"] ?? "";
    const second = await party.browser(NEW[kind]);
    for (const [from, value] of [
      [browser, `${setUp.startsWith("A") ? "B" : "A"}${setUp.slice(1)}`],
      [browser, setUp.slice(0, -2)],
      [browser, ""],
      [browser, "\u0000"],
      [browser, theirs],
      [second, setUp],
    ] as const) {
      const fields = fieldsOf(form, { ...proofOf(browser, kind), "set-up": value });
      const answer = await post(from, NEW[kind], {
        ...fields,
        csrf: from === browser ? (fields["csrf"] ?? "") : tokenOf(from),
      });
      expect(answer.text).not.toContain("<li><code>");
    }
    await expect(party.factors()).resolves.toMatchObject({ app: null, passkeys: [] });
    // It was not used up by that.
    await party.finish(browser, kind);
    const { app, passkeys } = await party.factors();
    expect((app === null ? 0 : 1) + passkeys.length).toBe(1);
  });

  it.each([
    ["the password", ({ sub }) => running.service.accounts.setPassword(sub, "quite another password")],
    ["the address", ({ sub }) => running.service.accounts.update(sub, { email: `${sub}@example.com` })],
    ["the factors", ({ sub }) => running.service.accounts.addApp(sub, { secret: "GEZDGNBVGY3TQOJQ" })],
    ["the sessions", ({ sub }) => running.service.accounts.endSessions(sub)],
  ] as readonly [string, (person: { readonly sub: string }) => Promise<unknown>][])(
    "ends with a change of %s",
    async (_what, change) => {
      const browser = await party.begin(await party.browser(), kind);
      const fields = fieldsOf(formOf(browser, kind), proofOf(browser, kind));
      await change(party.person);
      const before = await party.factors();
      const answer = await post(browser, NEW[kind], fields);
      expect(answer.status).not.toBe(200);
      await expect(party.factors()).resolves.toEqual(before);
    },
  );
});

describe("at most", () => {
  it("ten passkeys: the eleventh is not offered, nor accepted from a page that was open [D-FACTOR-11]", async () => {
    const browser = await party.browser();
    for (let i = 1; i <= 9; i += 1) {
      await party.add(browser, "passkey", `Passkey ${i}`);
    }
    const tenth = await party.begin(browser, "passkey");
    const form = formOf(tenth, "passkey");
    const spare = fieldsOf(form, proofOf(tenth, "passkey"));
    await party.finish(tenth, "passkey", "Passkey 10");
    await post(browser, NEW.passkey, spare);
    await browser.get(running.openid + NEW.passkey);
    expect([browser.url.pathname, textOf(browser)]).toEqual([
      `/openid${METHODS}`,
      expect.stringContaining("Nothing more can be added here."),
    ]);
    expect(browser.html).not.toContain("new-passkey");
    expect((await party.factors()).passkeys).toHaveLength(10);
  });

  it("one app: the second is not offered, nor accepted from a page that was open [D-FACTOR-11]", async () => {
    const browser = await party.begin(await party.browser(), "app");
    const fields = fieldsOf(formOf(browser, "app"), proofOf(browser, "app"));
    await party.finish(browser, "app");
    const before = await party.factors();
    await post(browser, NEW.app, fields);
    await browser.get(running.openid + NEW.app);
    expect(browser.url.pathname).toBe(`/openid${METHODS}`);
    await expect(party.factors()).resolves.toEqual(before);
  });
});

it("the last factor stays while a client that the person uses needs one, whichever of two forms is first [D-FACTOR-10]", async () => {
  const { accounts, clients, directory } = running.service;
  await directory.services.put("must", { name: "Bank" });
  await clients.register({
    client_id: "bank",
    name: "Bank",
    service: "must",
    redirect_uris: ["http://127.0.0.1:4000/must"],
    second_factor: "required",
  });
  const browser = await enrolled();
  await party.add(browser, "passkey");
  await accounts.assign(party.person.sub, "must");
  await browser.get(running.openid + METHODS);
  const pages = [...browser.html.matchAll(/href="([^"]*change\?factor=[\w-]+)"/g)].map(
    ([, href = ""]) => href,
  );
  const forms: Record<string, string>[] = [];
  for (const page of pages) {
    await browser.get(page);
    forms.push(fieldsOf(formOf(browser, "remove"), {}));
  }
  expect(forms).toHaveLength(2);
  // The second is refused, or comes while the session has not been carried over yet, and is asked to sign in.
  await Promise.all(forms.map((fields) => post(browser, CHANGE, fields)));
  await browser.get(running.openid + METHODS);
  await browser.click("Change");
  await browser.submit(formOf(browser, "remove"));
  expect([browser.status, textOf(browser)]).toEqual([
    400,
    expect.stringContaining("You can’t remove your last second factor"),
  ]);
  const { app, passkeys } = await party.factors();
  expect((app === null ? 0 : 1) + passkeys.length).toBe(1);
  await accounts.unassign(party.person.sub, ["must"]);
  await browser.submit(formOf(browser, "remove"));
  await expect(party.factors()).resolves.toMatchObject({ app: null, passkeys: [] });
});

describe("the name of a passkey", () => {
  it("is text, whatever it holds", async () => {
    const name = `<script>alert(1)</script>"'&{{x}}`;
    const browser = await party.browser();
    await party.add(browser, "passkey", name);
    await browser.get(running.openid + METHODS);
    expect(browser.html).not.toContain("<script>alert");
    expect(browser.html).toContain("&lt;script&gt;alert(1)");
    expect((await party.factors()).passkeys).toMatchObject([{ name }]);
  });

  it.each([
    ["", 400],
    [" ", 400],
    ["x".repeat(65), 400],
    ["a\u0085b", 400],
    ["a\u2028b", 400],
    ["x".repeat(64), 200],
  ])("%j is answered with %i", async (name, status) => {
    const browser = await party.begin(await party.browser(), "passkey");
    await party.finish(browser, "passkey", name);
    expect(browser.status).toBe(status);
    const { passkeys } = await party.factors();
    expect(passkeys).toHaveLength(status === 200 ? 1 : 0);
    if (status === 400) {
      await party.finish(browser, "passkey");
      expect((await party.factors()).passkeys).toHaveLength(1);
    }
    await browser.get(running.openid + METHODS);
    const [, change = ""] = /href="([^"]*change\?factor=[\w-]{22})"/.exec(browser.html) ?? [];
    await browser.get(change);
    await browser.submit(formOf(browser, "rename"), { name });
    expect(browser.status).toBe(status);
  });
});

it.each([
  ["another origin", { origin: "https://evil.example" }],
  ["another domain", { rpId: "evil.example" }],
  ["another challenge", { challenge: "A".repeat(43) }],
  ["an unverified user", { userVerified: false }],
  ["an assertion", { type: "webauthn.get" }],
  ["a frame of another site", { crossOrigin: true }],
])("a new passkey of %s is refused, and the page goes on", async (_what, overrides) => {
  const browser = await party.begin(await party.browser(), "passkey");
  const credential = party.newPasskey(browser, overrides);
  await browser.submit(formOf(browser, "passkey"), { credential, name: "Phone" });
  expect([browser.status, textOf(browser)]).toEqual([
    400,
    expect.stringContaining("This passkey could not be added."),
  ]);
  await expect(party.factors()).resolves.toMatchObject({ passkeys: [] });
});
