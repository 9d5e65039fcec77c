/** The console's pages about people: how an operator finds an account and removes lost second factors, and how nobody else does. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { type FactorChanges, factorKey } from "../../accounts/factors/factor.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { resultOf } from "../interactions/console-visitor.ts";
import { formOf, MethodsParty, startMethodsService, textOf } from "./methods-party.ts";
import type { TestVisitor } from "../../testing/test-client.ts";
import { signedIn, signIn } from "./clients.ts";
import { linkTo } from "./provider-party.ts";
import { ADA, OPERATOR } from "./running-service.ts";
import { beforeTests } from "../closing.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const COLLEAGUE = "9c1d7e3a-8f5b-4c39-9d4e-2a6b1c0d7e8f";
const NOBODY = "00000000-0000-4000-8000-000000000000";
let people: string;
/** Somebody with an app, a passkey and recovery codes. */
let lost: MethodsParty;
/** The browser of the operator, who has just signed in. */
let browser: Browser;

const running = beforeTests(() =>
  startMethodsService({
    operators: { [OPERATOR.sub]: "support", [COLLEAGUE]: "deliveries" },
    providers: { google: { client_id: "1", client_secret: "2" } },
  }),
);

beforeAll(async () => {
  const { accounts } = running.service;
  await accounts.import({ ...OPERATOR, email_verified: true });
  await accounts.import({ sub: COLLEAGUE, email: "colleague@example.com", password: "their own password" });
  await accounts.addApp(COLLEAGUE, { secret: SECRET });
  people = `${running.openid}/account/people`;
});
afterAll(() => {
  expect(running.log.join("")).not.toMatch(/@example|remove=/);
});
beforeEach(async () => {
  lost = await MethodsParty.create(running);
  await running.service.accounts.addApp(lost.person.sub, { secret: SECRET });
  await addPhone(running, lost.person.sub, running.clock);
  browser = await signedIn(running.openid, OPERATOR);
});

const pageOf = ({ person }: MethodsParty): string => `${people}/${person.sub}`;

/** Types a name into the form. */
async function find(name: string, by: Browser = browser): Promise<Browser> {
  await by.get(people);
  return by.submit(by.form("name"), { name });
}

/** Opens the page that asks before removing this. */
async function ask(what: string, by: Browser = browser): Promise<Browser> {
  await by.get(pageOf(lost));
  const href = [...by.html.matchAll(/href="([^"]*\?remove=([^"]+))"/g)]
    .map(([, address = "", key = ""]) => ({ address, key: key.length > 3 ? "passkey" : key }))
    .find(({ key }) => key === what)?.address;
  return by.get(new URL(href ?? "/none", by.url));
}

const fieldsOf = (by: Browser): Record<string, string> => Object.fromEntries(formOf(by, "remove").fields);

/** Sends a form as a program would. */
async function post(
  address: string,
  fields: Readonly<Record<string, string>>,
  { by = browser, headers = {} }: { readonly by?: Browser; readonly headers?: Record<string, string> } = {},
): Promise<{ readonly status: number; readonly location: string; readonly text: string }> {
  const url = new URL(address);
  const response = await fetch(url, {
    method: "POST",
    body: new URLSearchParams(fields),
    redirect: "manual",
    headers: { cookie: by.jar.header(url), ...headers },
  });
  const { status } = response;
  return { status, location: response.headers.get("location") ?? "", text: await response.text() };
}

async function auditOf(sub: string): Promise<readonly AuditRecord[]> {
  return (await running.service.audit.list({ account: sub })).items;
}

const views = async (sub: string): Promise<number> =>
  (await auditOf(sub)).filter(({ action }) => action === "account.viewed").length;

describe("an operator", () => {
  it("finds an account by exactly its address, username or sub, which alone is in the address of the page", async () => {
    const { email, username, sub } = lost.person;
    for (const name of [email, ` ${email.toUpperCase()}\t`, username, sub, ` ${sub.toUpperCase()}\u3000`]) {
      await find(name);
      expect([name, browser.status, browser.url.href]).toEqual([name, 200, pageOf(lost)]);
      expect(browser.visits.map(({ status }) => status)).toEqual([303, 200]);
    }
    for (const name of [username.slice(0, -1), `${email}.org`, `${username}*`, "%", "", NOBODY]) {
      await find(name);
      expect([name, browser.status, browser.url.href]).toEqual([name, 400, people]);
      expect(browser.html).toContain("No account has exactly this");
      expect(browser.form("name").fields).toContainEqual(["name", name]);
    }
  });

  it("sees who it is and what signs in, and the audit records each look [D-CONSOLE-1]", async () => {
    await running.service.accounts.update(lost.person.sub, { name: "<b>Eve</b>", surname: "O'Neil" });
    await find(lost.person.email);
    const text = textOf(browser);
    for (const shown of [
      lost.person.email,
      lost.person.username,
      lost.person.sub,
      "Active",
      "Authenticator app",
    ])
      expect(text).toContain(shown);
    expect(text).toContain("Phone Passkey · Backed up");
    expect(text).toContain("Never used");
    expect(text).toMatch(/Recovery codes 10 /);
    expect(browser.html).toContain("&lt;b&gt;Eve&lt;/b&gt; O&#39;Neil");
    expect(browser.html).not.toContain("<b>Eve");
    expect(browser.headers.get("cache-control")).toBe("no-store");
    await browser.get(pageOf(lost));
    const [last] = await auditOf(lost.person.sub);
    expect(last).toMatchObject({
      action: "account.viewed",
      subject: lost.person.sub,
      actor: { kind: "operator", id: OPERATOR.sub },
      address: "127.0.0.0/24",
      detail: {},
    });
    expect(await views(lost.person.sub)).toBe(2);
    const { items: records } = await running.service.audit.list({ limit: 1000 });
    expect(JSON.stringify(records)).not.toMatch(/example\.com|Eve/);
  });

  it("sees the linked accounts without their addresses, and removes none here", async () => {
    const { sub } = lost.person;
    for (const provider of ["google", "library"])
      await linkTo(running, sub, {
        provider,
        issuer: `https://${provider}.example`,
        subject: `there-${sub}`,
        email: "eve@corp.example",
      });
    await find(sub);
    expect(textOf(browser)).toMatch(
      /Linked accounts .* Google .* Never used library Not configured .* Never used/,
    );
    expect(browser.html).not.toMatch(/corp\.example|google\.example|there-/);
    const accounts = running.service.accounts as typeof running.service.accounts & FactorChanges;
    const { identities = [] } = (await accounts.ownedWays(sub)) ?? {};
    expect(identities).toHaveLength(2);
    for (const { id } of identities) {
      expect(browser.html).not.toContain(factorKey(id));
      await browser.get(`${pageOf(lost)}?remove=${factorKey(id)}`);
      expect(resultOf(browser)).toBe("It was already removed.");
    }
    await ask("all");
    await browser.submit(formOf(browser, "remove"));
    expect(textOf(browser)).toContain("Linked accounts");
  });

  it.each([
    [
      "app",
      "account.factor_removed",
      { factor: "app" },
      "It has been removed.",
      /app of your account was removed/,
    ],
    [
      "passkey",
      "account.factor_removed",
      { factor: "passkey" },
      "It has been removed.",
      /A passkey of your account was/,
    ],
    [
      "all",
      "account.factors_removed",
      {},
      "All second factors have been removed.",
      /All passkeys, the authenticator app/,
    ],
  ])(
    "removes %s after a page that says what to check; sessions end, and the person gets a mail [D-CONSOLE-1]",
    async (what, action, detail, result, mail) => {
      const theirs = await signedIn(running.openid, { ...lost.person });
      await ask(what);
      expect([browser.status, textOf(browser)]).toEqual([
        200,
        expect.stringContaining("Verify who is asking"),
      ]);
      expect(textOf(browser)).toContain("The person gets a message about it.");
      const before = running.sent.length;
      await browser.submit(formOf(browser, "remove"));
      expect([browser.status, browser.url.origin + browser.url.pathname]).toEqual([200, pageOf(lost)]);
      expect(resultOf(browser)).toContain(result);
      const { app, passkeys, recovery_codes_left: codes } = await lost.factors();
      const left = { app: [false, 1, 10], passkey: [true, 0, 10], all: [false, 0, 0] }[what];
      expect([app !== null, passkeys.length, codes]).toEqual(left);
      const removal = (await auditOf(lost.person.sub)).find((each) => each.action === action);
      expect(removal).toMatchObject({
        actor: { kind: "operator", id: OPERATOR.sub },
        subject: lost.person.sub,
        address: "127.0.0.0/24",
        detail,
      });
      const message = await lost.mail();
      expect(message.text).toMatch(mail);
      expect(running.sent.length).toBeGreaterThan(before);
      await theirs.get(`${running.openid}/account`);
      expect(theirs.title).not.toBe("Your account");
    },
  );

  it("removes nothing twice, and says so", async () => {
    const second = await new Browser().get(pageOf(lost));
    await signIn(second, OPERATOR);
    await ask("app");
    await ask("app", second);
    await browser.submit(formOf(browser, "remove"));
    const after = await lost.factors();
    for (const by of [browser, second]) {
      if (by === browser) await by.get(`${pageOf(lost)}?remove=app`);
      else await by.submit(formOf(by, "remove"));
      expect(resultOf(by)).toBe("It was already removed.");
    }
    expect(await lost.factors()).toEqual(after);
  });

  it.each(["app", "all"])("removes nothing (%s) that was added after the page was shown", async (what) => {
    await ask(what);
    const { accounts } = running.service;
    await accounts.removeFactor(lost.person.sub, "app");
    await accounts.addApp(lost.person.sub, { secret: SECRET });
    await browser.submit(formOf(browser, "remove"));
    expect(resultOf(browser)).toContain("Nothing was removed: the account has changed");
    const { app, passkeys } = await lost.factors();
    expect([app !== null, passkeys.length]).toEqual([true, 1]);
  });

  it("removes a factor with only one of several forms sent at once", async () => {
    await ask("passkey");
    const fields = fieldsOf(browser);
    const answers = await Promise.all(Array.from({ length: 4 }, () => post(pageOf(lost), fields)));
    expect(answers.map(({ status }) => status)).toEqual([303, 303, 303, 303]);
    const removed = (await auditOf(lost.person.sub)).filter(
      ({ action }) => action === "account.factor_removed",
    );
    expect(removed).toHaveLength(1);
  });

  it("keeps the last passkey of an account without a password, unless all go", async () => {
    const { sub } = await running.service.accounts.create({ email: `keys@${NOBODY}.example` });
    await addPhone(running, sub, running.clock);
    lost = Object.assign(Object.create(lost) as MethodsParty, { person: { ...lost.person, sub } });
    await ask("passkey");
    expect(textOf(browser)).toContain("Because the account has no password");
    await browser.submit(formOf(browser, "remove"));
    expect(resultOf(browser)).toContain("the last passkey of an account without a password");
    await ask("all");
    await browser.submit(formOf(browser, "remove"));
    expect(resultOf(browser)).toContain("All second factors have been removed.");
  });

  it.each([
    ["their own", OPERATOR.sub, "This is your own account."],
    ["a colleague’s", COLLEAGUE, "This account belongs to an operator."],
  ])("removes nothing of %s account here", async (_whose, sub, text) => {
    await find(sub);
    expect(textOf(browser)).toContain(text);
    expect(browser.html).not.toContain("?remove=");
    for (const key of ["app", "all"]) {
      await browser.get(`${people}/${sub}?remove=${key}`);
      expect(resultOf(browser)).toContain("the account belongs to an operator");
      expect(browser.html).not.toContain('name="generation"');
    }
    await ask("app");
    const answer = await post(`${people}/${sub}`, fieldsOf(browser));
    expect(answer.status).toBe(403);
  });

  it("gets a 404 for an account that is deleted, before the form and after it", async () => {
    await ask("app");
    await running.service.accounts.delete(lost.person.sub);
    await browser.submit(formOf(browser, "remove"));
    expect([browser.status, browser.title]).toEqual([404, "This account doesn’t exist"]);
    const before = await auditOf(lost.person.sub);
    await browser.get(pageOf(lost));
    expect(browser.status).toBe(404);
    expect(await auditOf(lost.person.sub)).toEqual(before);
  });
});

describe("a recent sign-in", () => {
  it("is needed to see what would be removed, and to remove it; looking needs none [D-CONSOLE-1]", async () => {
    await ask("all");
    const fields = fieldsOf(browser);
    const before = [await lost.factors(), running.sent.length];
    running.clock.advance(301);
    const { status, location } = await post(pageOf(lost), fields);
    expect([status, location]).toEqual([303, expect.stringContaining("prompt=login")]);
    await browser.getOnly(`${pageOf(lost)}?remove=all`);
    expect([browser.status, browser.location?.searchParams.get("prompt")]).toEqual([303, "login"]);
    expect([await lost.factors(), running.sent.length]).toEqual(before);
    await browser.get(pageOf(lost));
    expect([browser.status, browser.url.href]).toEqual([200, pageOf(lost)]);
    // After the sign-in, the question comes again.
    await browser.get(`${pageOf(lost)}?remove=all`);
    await signIn(browser, OPERATOR);
    expect(browser.url.href).toBe(`${pageOf(lost)}?remove=all`);
    await browser.submit(formOf(browser, "remove"));
    expect(resultOf(browser)).toContain("All second factors have been removed.");
  });

  it("includes the second factor of an operator who has one", async () => {
    await ask("app");
    const fields = fieldsOf(browser);
    const address = pageOf(lost);
    await running.service.accounts.addApp(OPERATOR.sub, { secret: SECRET });
    try {
      const party = Object.assign(Object.create(lost) as MethodsParty, { person: OPERATOR, secret: SECRET });
      const again = await new Browser().get(`${address}?remove=app`);
      await signIn(again, OPERATOR);
      expect(again.title).toBe("Confirm that it’s you");
      expect(again.html).not.toContain(lost.person.email);
      await again.submit(again.forms()[0], { code: party.appCode() });
      expect([again.status, again.url.href]).toEqual([200, `${address}?remove=app`]);
      // The session before has ended with the change.
      expect(await post(address, fields)).toMatchObject({
        status: 303,
        location: expect.not.stringContaining("result="),
      });
      expect((await lost.factors()).app).not.toBeNull();
    } finally {
      await running.service.accounts.removeFactors(OPERATOR.sub);
    }
  });
});

/** Text that is not the name of an account. */
const TERMS = [
  ["__proto__", "__proto__"],
  ["constructor", "constructor"],
  ["toString", "toString"],
  ["10 kB", "x".repeat(10_000)],
  ["12 kB of emoji", "😀".repeat(3_000)],
  ["many accents", "a\u0301".repeat(200)],
  ["a script", '"><script>alert(1)</script>'],
  ["SQL", "' OR '1'='1"],
  ["a header", "line\r\nSet-Cookie: a=b"],
  ["half a character", "\ud800"],
  ["an at", "@"],
  ["a domain", "example.com"],
] as const;

describe("hostile input", () => {
  it.each(TERMS)("%s names nobody, and stays text", async (_what, term) => {
    await find(term);
    expect([browser.status, browser.url.href]).toEqual([400, people]);
    expect(browser.html).not.toContain("<script>");
    expect(browser.headers.get("set-cookie")).toBeNull();
    await find(lost.person.username);
    expect(browser.url.href).toBe(pageOf(lost));
  });

  it.each([
    "x",
    "__proto__",
    "constructor",
    NOBODY,
    `${NOBODY}0`,
    NOBODY.replaceAll("-", ""),
    "ada%40example.com",
  ])("the page of %s is a 404 that the audit doesn’t record", async (sub) => {
    const before = await running.service.audit.list({ action: "account.viewed" });
    for (const query of ["", "?remove=app", "?remove=__proto__"]) {
      await browser.get(`${people}/${sub}${query}`);
      expect([sub, query, browser.status]).toEqual([sub, query, 404]);
    }
    expect(await running.service.audit.list({ action: "account.viewed" })).toEqual(before);
  });

  it("nothing is removed by a name that no factor has", async () => {
    for (const key of ["", "x", "__proto__", "constructor", "x".repeat(800)]) {
      await browser.get(`${pageOf(lost)}?remove=${key}`);
      expect([browser.status, resultOf(browser)]).toEqual([200, "It was already removed."]);
      expect(browser.html).not.toContain('name="generation"');
    }
  });

  it("a form counts only with its own token, from our own page, for its own account", async () => {
    const other = await MethodsParty.create(running);
    await running.service.accounts.addApp(other.person.sub, { secret: SECRET });
    const elsewhere = await signedIn(running.openid, OPERATOR);
    await ask("app", elsewhere);
    const { csrf: otherSession = "" } = fieldsOf(elsewhere);
    await browser.get(people);
    const search = new Map(browser.form("name").fields).get("csrf") ?? "";
    await ask("all");
    const { csrf: ofAll = "" } = fieldsOf(browser);
    await ask("app");
    const fields = fieldsOf(browser);
    const { csrf = "", generation = "" } = fields;
    const before = [await lost.factors(), await other.factors(), running.sent.length];
    const wrong: readonly [string, Record<string, string>, number][] = [
      ...[
        "",
        "x",
        `${csrf}x`,
        csrf.slice(1),
        "__proto__",
        "x".repeat(10_000),
        otherSession,
        search,
        ofAll,
      ].map((token): [string, Record<string, string>, number] => [
        pageOf(lost),
        { ...fields, csrf: token },
        403,
      ]),
      [pageOf(lost), { ...fields, factor: "all" }, 403],
      [pageOf(lost), { ...fields, generation: String(Number(generation) + 1) }, 403],
      [pageOf(lost), { ...fields, generation: "" }, 403],
      [pageOf(other), fields, 403],
      [`${people}/${NOBODY}`, fields, 403],
      [people, { csrf, name: lost.person.email }, 403],
      [people, { name: lost.person.email }, 403],
      [pageOf(lost), { ...fields, action: "constructor" }, 400],
      [pageOf(lost), { csrf }, 400],
    ];
    for (const [address, body, status] of wrong)
      expect([body, (await post(address, body)).status]).toEqual([body, status]);
    for (const headers of [
      { origin: "https://evil.example" },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
    ] as Record<string, string>[]) {
      expect((await post(pageOf(lost), fields, { headers })).status).toBe(403);
      const answer = await post(people, { csrf: search, name: lost.person.email }, { headers });
      expect([answer.status, answer.location]).toEqual([403, ""]);
    }
    expect([await lost.factors(), await other.factors(), running.sent.length]).toEqual(before);
    expect((await post(pageOf(lost), fields)).status).toBe(303);
  });
});

describe("other users", () => {
  it("learn nothing about who has an account", async () => {
    const visitors: readonly [TestVisitor | undefined, number][] = [
      [ADA, 403],
      [undefined, 303],
    ];
    await ask("app");
    const fields = fieldsOf(browser);
    await browser.get(people);
    const search = new Map(browser.form("name").fields).get("csrf") ?? "";
    const before = await views(lost.person.sub);
    for (const [person, status] of visitors) {
      const by = person === undefined ? new Browser() : await signedIn(running.openid, person);
      const same = (answers: readonly { readonly status: number; readonly text: string }[]): void => {
        const [first, ...others] = answers.map((each) => [
          each.status,
          each.text.replaceAll(/[\w-]{20,}/g, ""),
        ]);
        expect(first?.[0]).toBe(status);
        for (const each of others) expect(each).toEqual(first);
      };
      same([
        await post(people, { csrf: search, name: lost.person.email }, { by }),
        await post(people, { csrf: search, name: "nobody@example.com" }, { by }),
        await post(pageOf(lost), fields, { by }),
        await post(`${people}/${NOBODY}`, fields, { by }),
      ]);
      for (const address of [people, pageOf(lost), `${people}/${NOBODY}`, `${pageOf(lost)}?remove=app`]) {
        await by.getOnly(address);
        expect([address, by.status]).toEqual([address, status]);
        expect(by.html).not.toContain(lost.person.email);
      }
    }
    expect(await views(lost.person.sub)).toBe(before);
    expect((await lost.factors()).app).not.toBeNull();
  });
});
