/** `{base}/confirm` as JSON: the link that undoes a change of address. */
import { describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { signIn } from "../flows/clients.ts";
import { JsonVisitor } from "./json-visitor.ts";
import { codeIn, linkIn, startSelfService } from "./self-service.ts";
import { beforeTests } from "../closing.ts";

let people = 0;

const service = beforeTests(() => startSelfService());

/** Somebody whose address a thief has changed, with the link in the mail to the old one. */
async function changed() {
  people += 1;
  const [email, newEmail] = [`person${people}@example.com`, `thief${people}@example.com`];
  const password = "a password of the owner";
  const { sub } = await service.service.accounts.create({ email, password, email_verified: true });
  const thief = await new Browser().get(`${service.openid}/account/email`);
  await signIn(thief, { username: email, password });
  await thief.get(`${service.openid}/account/email/new`);
  await thief.submit(thief.form("email"), { email: newEmail });
  await thief.submit(thief.form("code"), { code: codeIn(await service.mailTo(newEmail)) });
  const address = async () => (await service.service.accounts.find(sub))?.email;
  expect(await address()).toBe(newEmail);
  return { username: email, email, newEmail, address, link: linkIn(await service.mailTo(email)) };
}

/** A program that has followed the link, and the step that it got. */
async function atUndo() {
  const person = await changed();
  const visitor = new JsonVisitor();
  const { status, headers, body } = await visitor.open(person.link);
  expect([status, headers.get("cache-control"), body.step]).toEqual([200, "no-store", "undo"]);
  return { visitor, step: body, person };
}

describe("the link in the mail to the old address, as JSON", () => {
  it("is the step undo with one action, then new-password, then done [D-ADDRESS-3, D-UI-3]", async () => {
    const { visitor, step, person } = await atUndo();
    const { csrf, ...rest } = step;
    expect(csrf).toMatch(/^[\w-]{43}$/);
    expect(rest).toEqual({
      step: "undo",
      client: { client_id: "", name: "", own: true },
      title: "Restore your email address",
      text: expect.stringContaining(`becomes ${person.email} again.\nAll devices are signed out`),
      fields: [],
      problems: [],
      actions: [{ name: "submit", label: "Restore this address", method: "POST", href: "/openid/confirm" }],
      locale: "en",
      expires_in: 600,
    });
    const next = await visitor.act(step, "submit");
    expect([next.status, next.body.step, next.body.username, await person.address()]).toEqual([
      200,
      "new-password",
      person.email,
      person.email,
    ]);
    const empty = await visitor.act(next.body, "submit");
    expect([empty.status, empty.body.problems.map(({ code }) => code)]).toEqual([400, ["required"]]);
    const password = "the owner has a new one";
    const done = await visitor.act(next.body, "submit", { password });
    expect(done.body).toEqual({ done: true, location: "/openid/account" });
    expect((await visitor.get(`${service.openid}/confirm`)).status).toBe(410);
    const owner = await new Browser().get(`${service.openid}/account`);
    await signIn(owner, { ...person, password });
    expect(owner.url.pathname).toMatch(/\/account$/);
  });

  it("answers in the language of the request", async () => {
    const { visitor } = await atUndo();
    const { body } = await visitor.get(`${service.openid}/confirm`, { headers: { "accept-language": "pl" } });
    expect([body.locale, body.title]).toEqual(["pl", "Przywróć swój adres e-mail"]);
  });

  it("says in the step that another account has the address in the meantime", async () => {
    const { visitor, step, person } = await atUndo();
    await service.service.accounts.create({ email: person.email, password: "a password of another" });
    const answer = await visitor.act(step, "submit");
    expect([answer.status, answer.body.step, answer.body.problems]).toEqual([
      400,
      "undo",
      [{ code: "taken", text: expect.stringContaining("Nothing was changed"), fields: [] }],
    ]);
    expect(await person.address()).toBe(person.newEmail);
  });

  it("changes nothing for other origins, bodies, tokens and browsers, or when it is repeated", async () => {
    const { visitor, step, person } = await atUndo();
    const url = `${service.openid}/confirm`;
    const good = { csrf: step.csrf };
    const other = await new Browser().get(person.link);
    const otherCsrf = other.form("csrf").fields.find(([name]) => name === "csrf")?.[1];
    expect(otherCsrf).toBe(step.csrf);
    for (const [status, body, request] of [
      [403, good, { headers: { origin: "https://evil.example" } }],
      [403, good, { headers: { origin: "null" } }],
      [403, good, { headers: { "content-type": "text/plain" } }],
      [403, {}, {}],
      [403, { csrf: "x" }, {}],
      [403, { csrf: `${step.csrf}x` }, {}],
      [400, { csrf: [step.csrf] }, {}],
      [400, [step.csrf], {}],
      [400, null, {}],
      [400, { ...good, password: 1 }, {}],
      [400, undefined, { text: "{" }],
      [400, undefined, { text: `{"__proto__":{"csrf":"${step.csrf}"}}` }],
    ] as const) {
      const answer = await visitor.post(url, body, request);
      expect([body, request, answer.status, answer.body.step]).toEqual([body, request, status, undefined]);
    }
    // Without the cookie of the link, and with that of another browser.
    expect((await new JsonVisitor().post(url, good)).status).toBe(410);
    const planted = new JsonVisitor();
    const cookie = visitor.browser.jar
      .header(new URL(url))
      .split("; ")
      .find((each) => each.includes("sis_link_"));
    expect(cookie).toBeDefined();
    expect((await planted.post(url, good, { headers: { cookie: cookie! } })).status).toBe(410);
    expect(await person.address()).toBe(person.newEmail);
    const [first, second] = await Promise.all([visitor.act(step, "submit"), visitor.act(step, "submit")]);
    expect([first.status, second.status].toSorted((one, two) => one - two)).toEqual([200, 410]);
    expect(await person.address()).toBe(person.email);
    // A request that came too late does not touch the link for a new password, and neither does a page.
    await other.submit(other.form("csrf"));
    expect(other.status).toBe(400);
    expect((await visitor.get(url)).body.step).toBe("new-password");
  });
});

it("a form that is sent twice leads to a new password", async () => {
  const person = await changed();
  const browser = await new Browser().get(person.link);
  const form = browser.form("csrf");
  await browser.submit(form);
  await browser.submit({ ...form, fields: form.fields.filter(([name]) => name !== "csrf") });
  expect(browser.status).toBe(403);
  await browser.get(`${service.openid}/confirm`);
  expect(browser.form("password").fields.map(([name]) => name)).toContain("csrf");
});
