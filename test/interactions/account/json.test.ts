/** The pages of the account as JSON: what they say, what they do, and what they refuse. */
import { beforeTests } from "../../closing.ts";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import ejs from "ejs";
import { builtInLocales } from "../../../core/texts.ts";
import { PERSON_PAGES } from "../../../interactions/account/pages.ts";
import type {
  AccountPageDescription,
  PersonLocals,
  PersonView,
} from "../../../interactions/account/person-view.ts";
import { samples } from "../../../interactions/samples/samples.ts";
import { Browser } from "../../../testing/browser/browser.ts";
import { TestClock } from "../../../testing/test-clock.ts";
import { totpCode } from "../../../testing/totp-code.ts";
import { send } from "../../../testing/test-client.ts";
import { factorKey } from "../../../accounts/factors/factor.ts";
import { identityId } from "../../../records/people/identity-kinds.ts";
import { signedIn, signIn } from "../../flows/clients.ts";
import { linkTo } from "../../flows/provider-party.ts";
import { ADA } from "../../flows/running-service.ts";
import { pagesWith } from "../every-page.ts";
import { type JsonAnswer, JsonVisitor } from "../json-visitor.ts";
import { checkOf } from "../published.ts";
import { codeIn, startSelfService } from "../self-service.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const ISSUER = "https://id.example.com";
const clock = new TestClock();
let people = 0;

const service = beforeTests(() =>
  startSelfService(undefined, {
    config: {
      clock,
      providers: { corp: { issuer: ISSUER, client_id: "c", client_secret: "s", name: "Corp" } },
    },
    // Browsers make no passkeys for IP addresses.
    deployments(origin) {
      const base = origin.replace("127.0.0.1", "localhost");
      return { oauth2: { url: base }, openid: { url: `${base}/openid` } };
    },
  }),
);
afterAll(async () => {
  expect(service.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  await service.close();
});

/** A person who has just signed in. @param app with an app, and an account that is linked. */
async function newcomer(app = false) {
  people += 1;
  const username = `person${people}`;
  const password = `a password of ${people} own`;
  const email = `${username}@example.com`;
  const { accounts } = service.service;
  const { sub } = await accounts.create({ email, username, name: "Ada", password, email_verified: true });
  await accounts.assign(sub, "1");
  if (app) await accounts.addApp(sub, { secret: SECRET });
  if (app) await linkTo(service, sub, { provider: "corp", issuer: ISSUER, subject: sub });
  const browser = await new Browser().get(`${service.openid}/account`);
  await signIn(browser, { username, password });
  if (app) await browser.submit(browser.forms()[0], { code: totpCode(SECRET, clock.now()) });
  const visitor = new JsonVisitor(browser);
  return { sub, username, password, email, visitor };
}
type Newcomer = Awaited<ReturnType<typeof newcomer>>;

const urlOf = (path: string): string => service.openid + path;
const open = ({ visitor }: Pick<Newcomer, "visitor">, path: string): Promise<JsonAnswer> =>
  visitor.open(urlOf(path));
const page = ({ body }: JsonAnswer): AccountPageDescription & Readonly<Record<string, unknown>> =>
  body as never;
const notice = (answer: JsonAnswer): string | undefined => page(answer).notice?.code;

/** Follows the location of what is done. */
async function follow({ visitor }: Pick<Newcomer, "visitor">, answer: JsonAnswer): Promise<JsonAnswer> {
  expect([answer.status, answer.body.done]).toEqual([200, true]);
  return visitor.get(answer.body.location ?? "");
}

describe("every page of the account in every state", () => {
  const shown: [name: string, view: PersonView<PersonLocals>, data: PersonLocals][] = [];
  for (const { name, render } of samples()) {
    const capturing = {
      render(view: object, _visit: unknown, data: unknown) {
        if ("takes" in view) shown.push([name, view as never, data as never]);
        return "";
      },
    };
    render(capturing, { locale: "en" });
  }
  const pages = pagesWith({ locales: builtInLocales() });
  const published = new Set(PERSON_PAGES.flatMap(({ views }) => views));

  it("is one of those that are published [D-UI-6]", () => {
    expect(new Set(shown.map(([, view]) => view))).toEqual(published);
  });

  it.each(builtInLocales())(
    "is as published, and says nothing that its page does not say, in %s [D-UI-9]",
    (locale) => {
      for (const [name, view, data] of shown) {
        const described: unknown = JSON.parse(JSON.stringify(view.describe(pages.translator(locale), data)));
        const schema = `#/components/schemas/${view.name.replaceAll(/(?:^|-)(\w)/g, (_, letter) => letter.toUpperCase())}Page`;
        expect([name, checkOf({ $ref: schema }).safeParse(described).error?.message]).toEqual([
          name,
          undefined,
        ]);
        const known = new Set([...COMMON, ...Object.keys(view.members)]);
        expect(Object.keys(described as object).filter((key) => !known.has(key))).toEqual([]);
        const html = pages.render(view, { locale }, data).replaceAll(/<\/?(?:bdi|wbr)>/g, "");
        const unsaid = wordsOf(described).filter((text) => !html.includes(ejs.escapeXML(text)));
        expect([name, unsaid]).toEqual([name, []]);
      }
    },
  );

  it.each(shown)("takes the fields of its actions and no others: %s", (_name, view, data) => {
    const { fields, actions } = view.describe(pages.translator("en"), data);
    const posts = actions.filter(({ method }) => method === "POST");
    for (const each of posts)
      expect(
        each.fields.filter((field) => !isOfAttribute(field) && !view.takes[each.name]?.includes(field)),
      ).toEqual([]);
    expect(fields.filter(({ name }) => !posts.some((each) => each.fields.includes(name)))).toEqual([]);
    expect(posts.filter(({ name }) => view.takes[name] === undefined)).toEqual([]);
  });
});

/** Fields of attributes, which only the configuration names. */
const isOfAttribute = (field: string): boolean => /^(?:phone_number|website|address\..+)$/.test(field);

/** The members that all pages have. */
const COMMON = [
  "page",
  "title",
  "text",
  "person",
  "pages",
  "notice",
  "fields",
  "problems",
  "actions",
  "csrf",
  "locale",
];

/** Members with codes, addresses and keys, which a page does not print as they are. */
const UNPRINTED = new Set(
  // Who is signed in is on every page but the last one of a device.
  "person page pages provider name code href csrf type autocomplete locale method kind id logo passkey secret value".split(
    " ",
  ),
);

/** The texts for people in a description. */
function wordsOf(value: unknown, key = ""): readonly string[] {
  if (UNPRINTED.has(key)) return [];
  if (typeof value === "string") return value.split("\n").filter((line) => line !== "");
  if (typeof value !== "object" || value === null) return [];
  // Those of a problem and of an action are names.
  if (Array.isArray(value) && key === "fields")
    return value.flatMap((each) => (typeof each === "string" ? [] : wordsOf(each)));
  if (Array.isArray(value)) return value.flatMap((each) => wordsOf(each));
  return Object.entries(value).flatMap(([name, each]) => wordsOf(each, name));
}

describe("a person", () => {
  it("reads every page, which nobody keeps [D-UI-9]", async () => {
    const person = await newcomer(true);
    // The person has an app already: there leads nothing.
    for (const { path, views } of PERSON_PAGES.filter((each) => !each.path.endsWith("/new-app"))) {
      const answer = await person.visitor.open(addressOf(path, person));
      expect([path, answer.status]).toEqual([path, 200]);
      expect(answer.headers.get("cache-control")).toBe("no-store");
      expect(views.map(({ name }) => name)).toContain(page(answer).page);
      expect(page(answer).person).toEqual({ name: "Ada", email: person.email });
      expect(JSON.stringify(answer.body)).not.toMatch(/hash|\$argon|JBSWY3DP/i);
    }
  });

  it("changes the profile: a wrong entry comes back with its problems [D-UI-9]", async () => {
    const person = await newcomer();
    const { visitor } = person;
    const form = await open(person, "/account/profile");
    expect(page(form)).toMatchObject({ page: "profile", title: "Profile", locale: "en" });
    expect(page(form).fields.find(({ name }) => name === "name")).toMatchObject({
      label: "Given name",
      value: "Ada",
    });
    const wrong = await visitor.act(form.body, "submit", { name: "Augusta", username: "ada", gender: "x" });
    expect(wrong.status).toBe(400);
    expect(page(wrong).problems).toEqual([{ code: "choice", fields: ["gender"], text: expect.any(String) }]);
    expect(page(wrong).fields.find(({ name }) => name === "name")?.value).toBe("Augusta");
    const taken = await visitor.act(form.body, "submit", { username: ADA.username });
    expect(page(taken).problems.map(({ code }) => code)).toEqual(["taken"]);
    const right = await follow(person, await visitor.act(form.body, "submit", { surname: "King" }));
    expect([notice(right), page(right).page]).toEqual(["profile", "profile"]);
    expect(await service.service.accounts.find(person.sub)).toMatchObject({ name: "Ada", surname: "King" });
  });

  it("chooses a password, and stays signed in [D-UI-9]", async () => {
    const person = await newcomer();
    const { visitor } = person;
    const form = await open(person, "/account/password");
    expect(page(form)["username"]).toBe(person.username);
    const short = await visitor.act(form.body, "submit", { password: "x" });
    expect([short.status, page(short).problems.map(({ code }) => code)]).toEqual([400, ["too-short"]]);
    expect(page(short).fields.map(({ value }) => value)).toEqual([""]);
    const password = "another sentence about nothing";
    const home = await follow(person, await visitor.act(form.body, "submit", { password }));
    expect([notice(home), page(home).page]).toEqual(["password", "overview"]);
    expect(await service.service.accounts.verifyPassword(person.sub, password)).toBe(true);
  });

  it("changes the address with the code from the mail [D-UI-9]", async () => {
    const person = await newcomer();
    const { visitor } = person;
    const fresh = `fresh-${person.username}@example.com`;
    const now = await open(person, "/account/email");
    expect(page(now)).toMatchObject({ email: person.email, confirmed: true, fields: [] });
    const form = await visitor.act(now.body, "new-email");
    expect((await visitor.act(form.body, "submit", { email: person.email })).status).toBe(400);
    const pending = await follow(person, await visitor.act(form.body, "submit", { email: fresh }));
    expect(page(pending)).toMatchObject({ pending: { email: fresh, link: false } });
    expect(page(pending).actions.map(({ name }) => name)).toEqual(["code", "again", "cancel"]);
    const wrong = await visitor.act(pending.body, "code", { code: "00000000" });
    expect([wrong.status, page(wrong).problems.length]).toEqual([400, 1]);
    const code = codeIn(await service.mailTo(fresh));
    expect(notice(await follow(person, await visitor.act(pending.body, "code", { code })))).toBe("address");
    expect((await service.service.accounts.find(person.sub))?.email).toBe(fresh);
  });

  it("adds an app with a code from the mail; the recovery codes come once [D-UI-9]", async () => {
    const person = await newcomer();
    const { visitor } = person;
    const methods = await open(person, "/account/sign-in-methods");
    const first = await visitor.act(methods.body, "new-app");
    expect(page(first)).toMatchObject({ page: "confirm-factor", kind: "app" });
    const sent = await follow(person, await visitor.act(first.body, "send"));
    const code = codeIn(await service.mailTo(person.email));
    const form = await visitor.act(sent.body, "code", { code });
    const { app, fields } = page(form) as ReturnType<typeof page> & {
      readonly app: { readonly secret: string };
    };
    const setUp = fields.find(({ name }) => name === "set-up")?.value ?? "";
    const entry = { "set-up": setUp, code: totpCode(app.secret, clock.now()) };
    const wrong = await visitor.act(form.body, "app", { ...entry, code: "000000" });
    expect([wrong.status, page(wrong).page]).toEqual([400, "new-app"]);
    const codes = await visitor.act(form.body, "app", entry);
    expect(page(codes)["recovery_codes"]).toHaveLength(10);
    const later = await visitor.get(urlOf("/account/sign-in-methods/recovery-codes"));
    expect(page(later)["recovery_codes"]).toBeUndefined();
    expect(page(later)["recovery_codes_left"]).toBe(10);
  });

  it("ends another session, and disconnects a service [D-UI-9]", async () => {
    const person = await newcomer();
    const { visitor } = person;
    const other = await signedIn(service.openid, person);
    const list = await open(person, "/account/sessions");
    const sessions = page(list)["sessions"] as readonly { readonly id: string; readonly current: boolean }[];
    expect(sessions.map(({ current }) => current)).toEqual([true, false]);
    const ended = await visitor.act(list.body, "end", { session: sessions[1]?.id ?? "" });
    expect(notice(await follow(person, ended))).toBe("session");
    expect((await other.get(urlOf("/account"))).title).toBe("Sign in");
    const services = await open(person, "/account/services");
    expect(page(services).fields).toMatchObject([{ name: "service", options: [{ value: "1" }] }]);
    const gone = await visitor.act(services.body, "disconnect", { service: "1" });
    expect(page(await follow(person, gone))).toMatchObject({ notice: { code: "service" }, services: [] });
  });

  it("signs out, or deletes the account; then there is a sign-in to go to [D-UI-9]", async () => {
    for (const path of ["/account", "/account/delete"]) {
      const person = await newcomer();
      const { visitor } = person;
      const form = await open(person, path);
      const answer = await visitor.act(form.body, "submit");
      expect(answer.body.location).toContain("/account/signed-out");
      expect((await visitor.get(urlOf(path))).status).toBe(401);
      expect((await service.service.accounts.find(person.sub)) === undefined).toBe(path !== "/account");
    }
  });

  it("signs in where the answer says, and again where a page needs it, and comes back [D-UI-9]", async () => {
    const person = await newcomer();
    const { visitor } = person;
    clock.advance(301);
    const refused = await visitor.get(urlOf("/account/email/new"));
    expect([refused.status, refused.body.error]).toEqual([401, "login_required"]);
    expect((await visitor.get(urlOf("/account/profile"))).status).toBe(200);
    const { browser } = visitor;
    await browser.get(refused.body.location ?? "");
    await browser.submit(browser.form("password"), { password: person.password });
    expect(browser.url.href).toBe(urlOf("/account/email/new"));
    expect((await visitor.get(browser.url.href)).status).toBe(200);
  });

  it("is limited as with forms [D-UI-9]", async () => {
    const limited = await startSelfService(undefined, {
      config: { rateLimits: { changes: { points: 1, seconds: 900 } } },
    });
    try {
      const visitor = new JsonVisitor(await signedIn(limited.openid, ADA));
      const form = await visitor.open(`${limited.openid}/account/profile`);
      expect((await visitor.act(form.body, "submit", { surname: "King" })).status).toBe(200);
      const answer = await visitor.act(form.body, "submit", { surname: "Byron" });
      expect([answer.status, answer.body.error]).toEqual([429, "too_many_changes"]);
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    } finally {
      await limited.close();
    }
  });
});

/** The address of a page, with what it is about. */
function addressOf(path: string, { sub }: Newcomer): string {
  if (path.endsWith("/change")) return urlOf(`${path}?factor=app`);
  if (!/identities\/(?:remove|undo)$/.test(path)) return urlOf(path);
  return urlOf(`${path}?identity=${factorKey(identityId({ issuer: ISSUER, subject: sub }))}`);
}

/** The same answer to each case. */
const all = (cases: readonly (readonly [string, ...unknown[]])[], status: number, error: string) =>
  cases.map(([what]) => [what, status, error]);

describe("a POST of JSON is refused", () => {
  let person: Newcomer;
  /** Only a person without an app can add one. */
  let plain: Newcomer;
  const tokens = new Map<string, string>();
  const personAt = (path: string): Newcomer => (path.endsWith("/new-app") ? plain : person);
  const FORMS = PERSON_PAGES.filter(({ submit }) => submit !== undefined).map(({ path }) => path);

  beforeAll(async () => {
    person = await newcomer(true);
    plain = await newcomer();
    for (const path of FORMS)
      tokens.set(path, (await personAt(path).visitor.get(addressOf(path, personAt(path)))).body.csrf);
  });

  async function state({ visitor, sub, password }: Newcomer): Promise<unknown> {
    const { accounts } = service.service;
    const isSame = await accounts.verifyPassword(sub, password);
    const { status } = await visitor.get(urlOf("/account"));
    return [await accounts.find(sub), await accounts.factors(sub), isSame, status];
  }

  describe.each(FORMS)("at %s", (path) => {
    const token = (): string => tokens.get(path) ?? "";
    async function refusals(
      cases: readonly [
        what: string,
        headers: Readonly<Record<string, string>>,
        text: string,
        query?: string,
      ][],
    ): Promise<(readonly [string, number, string | undefined])[]> {
      const before = await state(personAt(path));
      const answers = [];
      for (const [what, headers, text, query = ""] of cases) {
        const { status, body } = await personAt(path).visitor.post(
          urlOf(path) + query,
          {},
          { headers, text },
        );
        answers.push([what, status, body.error] as const);
      }
      expect(await state(personAt(path))).toEqual(before);
      return answers;
    }

    it("from elsewhere, or as another type [D-UI-2, D-UI-9]", async () => {
      const body = JSON.stringify({ csrf: token() });
      const cases: Parameters<typeof refusals>[0] = [
        ["another origin", { origin: "https://evil.example" }, body],
        ["the origin null", { origin: "null" }, body],
        ["no origin", { origin: "" }, body],
        ["another port", { origin: "http://localhost:1" }, body],
        ["a form's type", { "content-type": "application/x-www-form-urlencoded" }, `csrf=${token()}`],
        ["plain text", { "content-type": "text/plain" }, body],
        ["no type", { "content-type": "" }, body],
      ];
      expect(await refusals(cases)).toEqual(all(cases, 403, "forbidden"));
    });

    it("without the token of this page and session [D-UI-2, D-UI-9]", async () => {
      const other = await newcomer();
      const foreign = await open(other, "/account");
      const elsewhere = tokens.get(path === "/account/profile" ? "/account" : "/account/profile");
      const cases: Parameters<typeof refusals>[0] = [
        ["none", {}, "{}"],
        ...["", "x", `${token()}x`, "__proto__", foreign.body.csrf, elsewhere].map(
          (csrf) => [`${csrf}`, {}, JSON.stringify({ csrf })] as [string, object, string],
        ),
      ].map(([what, headers, text]) => [what as string, headers as Record<string, string>, text as string]);
      expect(await refusals(cases)).toEqual(all(cases, 403, "forbidden"));
    });

    it("that is no object of strings, or too large [D-UI-9]", async () => {
      const csrf = JSON.stringify(token());
      const cases = [
        "{",
        "",
        "null",
        "[]",
        '"x"',
        "1",
        ...[1, {}, [], true, null, "\0"].map((value) => `{"csrf":${csrf},"name":${JSON.stringify(value)}}`),
        `{"csrf":${csrf},"__proto__":{"csrf":"x"}}`,
        `{"csrf":${csrf},"name":"${"x".repeat(70_000)}"}`,
      ].map((text): Parameters<typeof refusals>[0][number] => [text.slice(0, 80), {}, text]);
      expect(await refusals(cases)).toEqual(all(cases, 400, "invalid_request"));
    });

    it("for an action that the page does not have [D-UI-9]", async () => {
      const body = JSON.stringify({ csrf: token() });
      const cases = ["no-such-action", "__proto__", "constructor", "toString"].map(
        (action): Parameters<typeof refusals>[0][number] => [action, {}, body, `?action=${action}`],
      );
      expect(await refusals(cases)).toEqual(all(cases, 400, "invalid_request"));
    });

    it("without a session, and there is no CORS [D-UI-9]", async () => {
      const stranger = new JsonVisitor();
      const asOurs = { headers: { origin: new URL(service.openid).origin } };
      const before = await state(personAt(path));
      const answer = await stranger.post(urlOf(path), { csrf: token() }, asOurs);
      expect([answer.status, answer.body.error]).toEqual([401, "login_required"]);
      expect(answer.body.location).toContain("/oauth2/authorize?");
      expect((await stranger.get(urlOf(path))).status).toBe(401);
      const preflight = await send(urlOf(path), {
        method: "OPTIONS",
        headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
      });
      expect(preflight.status).toBe(405);
      for (const { headers } of [answer, preflight])
        expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
      expect(await state(personAt(path))).toEqual(before);
    });
  });

  it("but members that the page does not know count for nothing", async () => {
    const form = await open(person, "/account/profile");
    const more = {
      surname: "King",
      sub: "x",
      email: "eve@example.com",
      constructor: "x",
      email_verified: "true",
    };
    const text = JSON.stringify({ csrf: form.body.csrf, ...more }).replace("{", '{"__proto__":"x",');
    expect((await person.visitor.post(urlOf("/account/profile"), {}, { text })).status).toBe(200);
    const account = await service.service.accounts.find(person.sub);
    expect(account).toMatchObject({ sub: person.sub, email: person.email, surname: "King" });
  });
});
