/** The steps as JSON, at a service that runs. */
import { describe, expect, it } from "@jest/globals";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, BOB, NEWS, ONE_GUESS, PARTNER, startService, useService } from "../flows/running-service.ts";
import { builtInLocales } from "../../core/texts.ts";
import { sampleStep } from "../../interactions/samples/steps.ts";
import { describeStep } from "../../interactions/steps/description.ts";
import { stepPage } from "../../interactions/steps/views.ts";
import { STEP_NAMES } from "../../interactions/steps/running-sign-in.ts";
import { readTags } from "../../testing/browser/html.ts";
import { localeFile, pagesWith } from "./every-page.ts";
import { checkOf, deviation, DOCUMENT } from "./published.ts";
import { type JsonAnswer, JsonVisitor, atLogin } from "./json-visitor.ts";

const BUILT_IN = builtInLocales();

const running = useService();
const news = clientAt(running, "oauth2", NEWS);
const partner = clientAt(running, "openid", PARTNER);

const ada = { username: ADA.username, password: ADA.password };
const wrong = { username: ADA.username, password: "not the password" };

async function begin(
  party: TestClient = news,
  parameters: RequestParameters = {},
): Promise<{ visitor: JsonVisitor; login: JsonAnswer }> {
  const visitor = new JsonVisitor(party.browser());
  return { visitor, login: await visitor.open(party.authorizeUrl(parameters)) };
}

const codes = ({ body }: JsonAnswer): string[] => body.problems.map(({ code }) => code);

describe("the JSON interface", () => {
  it("describes the step: client, fields, actions, csrf, locale and the time that is left [D-UI-3]", async () => {
    const { login } = await begin();
    expect(login.status).toBe(200);
    expect(login.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(login.headers.get("cache-control")).toBe("no-store");
    const { expires_in: left, csrf, again, actions, ...rest } = login.body;
    expect(rest).toEqual({
      step: "login",
      client: { client_id: "news", name: "News" },
      title: "Sign in",
      text: "to continue to News",
      fields: [
        {
          name: "username",
          type: "text",
          label: "Username or email address",
          autocomplete: "username",
          required: true,
          value: "",
          problems: [],
        },
        {
          name: "password",
          type: "password",
          label: "Password",
          autocomplete: "current-password",
          required: true,
          value: "",
          problems: [],
        },
      ],
      problems: [],
      locale: "en",
    });
    expect(csrf).toMatch(/^[\w-]{43}$/);
    expect(again).toMatch(/^[\w-]{200,1000}$/);
    expect(left).toBeGreaterThan(3_590);
    expect(actions[0]).toEqual({
      name: "submit",
      label: "Sign in",
      method: "POST",
      href: expect.stringMatching(/^\/interaction\/[\w-]+$/),
    });
  });

  it("signs in: done and a location, which leads to the client with a code [D-UI-3]", async () => {
    const { visitor, login } = await begin();
    const answer = await visitor.act(login.body, "submit", ada);
    expect([answer.status, Object.keys(answer.body)]).toEqual([200, ["done", "location"]]);
    await visitor.browser.get(answer.body.location ?? "");
    expect(visitor.browser.location?.searchParams.get("code")).toMatch(/^[\w-]{43}$/);
  });

  it("leads to consent under a new id, which lists what is shared, and allows or denies [D-UI-3]", async () => {
    for (const [choice, parameter] of [
      ["deny", "error"],
      ["allow", "code"],
    ] as const) {
      const { visitor, login } = await begin(partner);
      const first = await visitor.act(login.body, "submit", {
        username: BOB.username,
        password: BOB.password,
      });
      const consent = await visitor.open(first.body.location ?? "");
      expect(consent.body.actions[0]?.href).not.toContain(login.body.actions[0]?.href);
      expect(consent.body).toMatchObject({ step: "consent", account: BOB.email, fields: [] });
      expect(consent.body.shares?.map(({ name }) => name)).toContain("date_of_birth");
      const answer = await visitor.act(consent.body, choice);
      expect(answer.body.done).toBe(true);
      await visitor.browser.get(answer.body.location ?? "");
      expect(visitor.browser.location?.searchParams.has(parameter)).toBe(true);
    }
  });

  it("names the APIs of a consent, with what the client could do there [D-UI-3, D-API-11]", async () => {
    const { directory, clients } = running.service;
    const resource = "https://articles.example/";
    const scopes = { read: "Read your articles", write: "Write articles" };
    await directory.apis.put(resource, { name: "Articles", service: "3", scopes });
    await clients.update("partner", { apis: { [resource]: ["read", "write"] } });
    const { visitor, login } = await begin(partner, { resource, scope: "read other" });
    const first = await visitor.act(login.body, "submit", ada);
    const { body } = await visitor.open(first.body.location ?? "");
    expect(body.shares?.map(({ name }) => name)).toEqual(["sub"]);
    expect(body.apis).toEqual([
      { identifier: resource, name: "Articles", scopes: [{ name: "read", label: "Read your articles" }] },
    ]);
  });

  it("answers a wrong entry with 400, the step and its problems, and never repeats a password [D-UI-3]", async () => {
    const { visitor, login } = await begin();
    const answer = await visitor.act(login.body, "submit", wrong);
    expect([answer.status, codes(answer)]).toEqual([400, ["wrong"]]);
    expect(answer.body.fields.map(({ value, problems }) => [value, problems.length])).toEqual([
      [ADA.username, 1],
      ["", 1],
    ]);
    expect(answer.body.problems[0]?.text).toBe("Wrong username or password.");
    const empty = await visitor.act(login.body, "submit", { username: " " });
    expect([empty.status, codes(empty)]).toEqual([400, ["required", "required"]]);
  });

  it("answers a limit with 429 and Retry-After [D-UI-3]", async () => {
    const limited = await startService({ config: { rateLimits: ONE_GUESS } });
    try {
      const { visitor, login } = await begin(clientAt(limited, "oauth2", NEWS));
      await visitor.act(login.body, "submit", wrong);
      const answer = await visitor.act(login.body, "submit", ada);
      expect([answer.status, codes(answer)]).toEqual([429, ["limited"]]);
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(800);
    } finally {
      await limited.close();
    }
  });

  it("answers 410 for a sign-in that is missing, finished, or another browser's [D-UI-3]", async () => {
    const { visitor, login } = await begin();
    const [{ href } = { href: "" }] = login.body.actions;
    const stranger = new JsonVisitor();
    const url = `${running.origin}${href}`;
    expect((await stranger.get(url)).status).toBe(410);
    const post = { csrf: login.body.csrf, ...ada };
    const asOurs = { headers: { origin: running.origin } };
    expect((await stranger.post(url, post, asOurs)).status).toBe(410);
    expect((await visitor.get(`${running.oauth2}/interaction/unknown`)).body.error).toBe("gone");
    const done = await visitor.act(login.body, "submit", ada);
    await visitor.browser.get(done.body.location ?? "");
    expect((await visitor.act(login.body, "submit", ada)).status).toBe(410);
  });

  it.each<[string, Readonly<Record<string, string>>, string]>([
    ["another origin", { origin: "https://evil.example" }, "Origin"],
    ["the origin null", { origin: "null" }, "Origin"],
    ["no origin", { origin: "" }, "Origin"],
    ["our host on another port", { origin: "http://127.0.0.1:1" }, "Origin"],
    ["a form's type", { "content-type": "application/x-www-form-urlencoded" }, "Content-Type"],
    ["plain text", { "content-type": "text/plain" }, "Content-Type"],
    ["no type", { "content-type": "" }, "Content-Type"],
  ])("answers 403 to %s, says so, and guesses nothing [D-UI-2, D-UI-8]", async (_name, headers, what) => {
    const { visitor, login } = await begin();
    const answer = await visitor.act(login.body, "submit", ada, { headers });
    expect([answer.status, answer.body.error]).toEqual([403, "forbidden"]);
    const wanted = what === "Origin" ? running.origin : "application/json";
    expect(answer.body.error_description).toBe(`${what} must be ${wanted}`);
    expect((await visitor.get()).status).toBe(200);
  });

  it("answers 403 to a missing, empty or foreign token, and says so [D-UI-2, D-UI-8]", async () => {
    const { visitor, login } = await begin();
    const other = await begin();
    for (const csrf of ["", "x", other.login.body.csrf, `${login.body.csrf}x`]) {
      const { status, body } = await visitor.act(login.body, "submit", { ...ada, csrf });
      expect([status, body.error_description]).toEqual([403, "csrf is not that of this sign-in"]);
    }
  });

  it.each([
    ["no JSON", "{"],
    ["an empty body", ""],
    ["null", "null"],
    ["a list", "[]"],
    ["a text", '"x"'],
    ["a number as a value", '{"username":1}'],
    ["an object as a value", '{"username":{}}'],
    ["NUL in a value", '{"username":"\\u0000"}'],
    ["more than 64 KiB", JSON.stringify({ username: "x".repeat(70_000) })],
  ])("answers 400 to %s", async (_name, text) => {
    const { visitor, login } = await begin();
    const answer = await visitor.act(login.body, "submit", {}, { text });
    expect([answer.status, answer.body.error]).toEqual([400, "invalid_request"]);
  });

  it("answers 400 to an action that the step does not have", async () => {
    const { visitor, login } = await begin();
    const [{ href } = { href: "" }] = login.body.actions;
    const answer = await visitor.post(`${href}?action=allow`, { csrf: login.body.csrf });
    expect([answer.status, answer.body.error]).toEqual([400, "invalid_request"]);
  });

  it("has no CORS: OPTIONS is refused, and no answer allows another origin [D-UI-3]", async () => {
    const { login } = await begin();
    const [{ href } = { href: "" }] = login.body.actions;
    const preflight = await fetch(`${running.origin}${href}`, {
      method: "OPTIONS",
      headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
    });
    expect(preflight.status).toBe(405);
    for (const { headers } of [login, preflight])
      expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  it("answers in the language that the request asks for", async () => {
    const { visitor } = await begin();
    const answer = await visitor.get(undefined, { headers: { "accept-language": "pl" } });
    expect([answer.body.locale, answer.body.fields[1]?.label]).toEqual(["pl", "Hasło"]);
  });

  it("is for those that ask for it: a browser gets the page, and so does whoever says nothing [D-PAGE-1]", async () => {
    const { visitor } = await begin();
    const { browser } = visitor;
    const { html, headers } = await browser.get(browser.url.href);
    expect([headers.get("content-type"), html.includes("<form")]).toEqual(["text/html; charset=utf-8", true]);
    const cookie = browser.jar.header(browser.url);
    for (const accept of ["*/*", "text/html", "application/xml, */*;q=0.1", "application/json"]) {
      const response = await fetch(browser.url, { headers: { cookie, accept } });
      const [type] = response.headers.get("content-type")?.split(";") ?? [];
      expect([accept, type]).toEqual([accept, accept === "application/json" ? accept : "text/html"]);
    }
  });
});

describe("the published description", () => {
  const schemas = Object.entries(DOCUMENT.components.schemas);

  it("is OpenAPI 3.1, with schemas that are in use and can be compiled [D-UI-6]", () => {
    expect(DOCUMENT.openapi).toBe("3.1.0");
    const text = JSON.stringify(DOCUMENT);
    for (const [name, schema] of schemas) {
      expect(text).toContain(`"#/components/schemas/${name}"`);
      expect(checkOf(schema).safeParse(undefined).success).toBe(false);
    }
    const refs = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name);
    expect(new Set(refs)).toEqual(new Set(schemas.map(([name]) => name)));
  });

  it("describes each step in each state, in each language [D-UI-6, D-FACTOR-43]", () => {
    const pages = pagesWith({ locales: BUILT_IN });
    const step = checkOf({ $ref: "#/components/schemas/Step" });
    const check = (described: unknown): string | undefined => step.safeParse(described).error?.message;
    for (const locale of BUILT_IN)
      for (const name of STEP_NAMES)
        for (const problems of [[], [{ code: "required", fields: ["password"] }]]) {
          const described = describeStep(sampleStep(name, { problems }), pages.translator(locale));
          expect([name, check(described)]).toEqual([name, undefined]);
          expect(check({ ...described, secret: 1 })).toBeDefined();
          expect(check({ ...described, csrf: undefined })).toBeDefined();
        }
  });

  it.each(BUILT_IN)("says what the pages say, in %s [D-UI-1, D-UI-7]", async (locale) => {
    const pages = pagesWith({ locales: BUILT_IN });
    const texts = new Set(Object.values(localeFile("en")));
    const own = { client: { client_id: "x", name: "x", own: true } } as const;
    for (const name of STEP_NAMES)
      for (const signIn of [{}, own, { link: "x" }]) {
        const step = sampleStep(name, { signIn });
        const { title, text, actions, terms } = describeStep(step, pages.translator(locale));
        const html = pages.render(stepPage(step), { locale }, step).replaceAll(/<\/?(?:bdi|wbr)>/g, "");
        const page = readTags(html).map((tag) => tag.text.trim());
        const said = [title, ...actions.map(({ label }) => label), ...(terms ? [terms.label] : [])];
        for (const each of text === "" ? said : [...said, ...text.split("\n")]) {
          expect([name, page]).toEqual([name, expect.arrayContaining([each])]);
          if (locale !== "en") expect(texts).not.toContain(each);
        }
      }
  });

  it("answers in the language of the person [D-UI-7]", async () => {
    const { step } = await atLogin(news, { ui_locales: "pl" });
    expect([step.title, step.actions[0]?.label]).toEqual(["Zaloguj się", "Zaloguj się"]);
  });

  it("finds answers that differ", () => {
    expect(deviation("/interaction/1", "get", 200, { done: true })).toBeDefined();
    expect(deviation("/interaction/1", "get", 403, {})).toBe("get /interaction/{id} must not answer 403");
    expect(deviation("/interaction/1", "post", 200, { done: true, location: "/" })).toBeUndefined();
  });
});
