/** `{base}/confirm` with the link in the mail about a first factor: it removes the factor, as a page and as JSON. */
import { describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { signIn } from "../flows/clients.ts";
import { JsonVisitor } from "./json-visitor.ts";
import { linkIn, startSelfService } from "./self-service.ts";
import { beforeTests } from "../closing.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const PASSWORD = "a password that a thief knows";
const NEW_PASSWORD = "the owner has a new one";
const WEEK_MS = 7 * 86_400_000;
/** Milliseconds that are added to the service's clock. */
let offset = 0;
let people = 0;

const service = beforeTests(() =>
  startSelfService(undefined, {
    config: { clock: { virtual: true, now: () => Date.now() + offset } },
  }),
);

/** Somebody whose account got a first factor from a thief, with the link in the mail about it. */
async function enrolled() {
  people += 1;
  const username = `person${people}@example.com`;
  const { accounts } = service.service;
  const { sub } = await accounts.create({ email: username, password: PASSWORD, email_verified: true });
  await accounts.addApp(sub, { secret: SECRET });
  const link = linkIn(await service.mailTo(username));
  expect(link).not.toBe("");
  return { sub, username, link, hasApp: async () => (await accounts.factors(sub))?.app !== null };
}

/** Signs in to the account pages with the new password, which is all that is asked for. */
async function comesIn(username: string): Promise<void> {
  const owner = await new Browser().get(`${service.openid}/account`);
  await signIn(owner, { username, password: NEW_PASSWORD });
  expect(owner.url.pathname).toMatch(/\/account$/);
}

describe("the link that undoes a first factor", () => {
  it("as a page: asks, removes the factor and the password, and leads to a new password [D-FACTOR-6]", async () => {
    const person = await enrolled();
    const browser = await new Browser().get(person.link);
    expect(browser.status).toBe(200);
    expect(browser.url.search).toBe("");
    // Following the link, as programs do too, changes nothing.
    expect(await person.hasApp()).toBe(true);
    await browser.submit(browser.form("csrf"));
    expect(await person.hasApp()).toBe(false);
    await expect(service.service.accounts.verifyPassword(person.sub, PASSWORD)).resolves.toBe(false);
    expect((await service.mailTo(person.username)).text).toContain(
      "recovery codes of your account were removed",
    );
    await browser.submit(browser.form("password"), { password: NEW_PASSWORD });
    await comesIn(person.username);
    const { items: records } = await service.service.audit.list({
      account: person.sub,
      action: "account.factors_undone",
    });
    expect(records).toHaveLength(1);
  });

  it("as JSON: is the step undo, then new-password, then done", async () => {
    const person = await enrolled();
    const visitor = new JsonVisitor();
    const { status, headers, body } = await visitor.open(person.link);
    expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
    expect(body).toMatchObject({ step: "undo", fields: [], problems: [], actions: [{ name: "submit" }] });
    expect(`${body.title} ${JSON.stringify(body)}`).not.toContain(person.username);
    const next = await visitor.act(body, "submit");
    expect([next.status, next.body.step, await person.hasApp()]).toEqual([200, "new-password", false]);
    const done = await visitor.act(next.body, "submit", { password: NEW_PASSWORD });
    expect(done.body).toEqual({ done: true, location: "/openid/account" });
    await comesIn(person.username);
  });

  it("is used once, by however many browsers at once", async () => {
    const person = await enrolled();
    const visitors = [new JsonVisitor(), new JsonVisitor(), new JsonVisitor()];
    const steps = await Promise.all(visitors.map((visitor) => visitor.open(person.link)));
    const answers = await Promise.all(
      visitors.map((visitor, index) => visitor.act(steps[index]!.body, "submit")),
    );
    expect(answers.map(({ status }) => status).toSorted((one, two) => one - two)).toEqual([200, 410, 410]);
    const late = await new Browser().get(person.link);
    expect(late.status).toBe(400);
    expect(late.html).not.toContain(person.username);
  });

  it("works for seven days, and not a moment longer [D-FACTOR-6]", async () => {
    const [inTime, late, waits] = [await enrolled(), await enrolled(), await enrolled()];
    const waiting = await new Browser().get(waits.link);
    try {
      offset += WEEK_MS - 60_000;
      const browser = await new Browser().get(inTime.link);
      await browser.submit(browser.form("csrf"));
      expect(await inTime.hasApp()).toBe(false);
      offset += 60_000;
      expect((await new Browser().get(late.link)).status).toBe(400);
      expect((await new JsonVisitor().open(late.link)).status).toBe(410);
      // Nor does the form that was opened before.
      await waiting.submit(waiting.form("csrf"));
      expect(waiting.status).toBe(400);
      expect([await late.hasApp(), await waits.hasApp()]).toEqual([true, true]);
    } finally {
      offset -= WEEK_MS;
    }
  });

  it("is worth nothing once the factor is gone, the account is disabled, or another token is sent", async () => {
    const [removed, disabled, other] = [await enrolled(), await enrolled(), await enrolled()];
    await service.service.accounts.removeFactors(removed.sub);
    expect((await new Browser().get(removed.link)).status).toBe(400);
    const browser = await new Browser().get(disabled.link);
    await service.service.accounts.disable(disabled.sub);
    await browser.submit(browser.form("csrf"));
    expect([browser.status, browser.title]).toEqual([400, "This account is blocked"]);
    expect(browser.html).not.toContain(disabled.username);
    const visitor = new JsonVisitor();
    const refused = await visitor.act((await visitor.open(disabled.link)).body, "submit");
    expect([refused.status, refused.body.problems]).toMatchObject([400, [{ code: "blocked" }]]);
    expect(await disabled.hasApp()).toBe(true);
    const token = new URL(other.link).searchParams.get("token") ?? "";
    const first = token.startsWith("A") ? "B" : "A";
    for (const wrong of [
      `${first}${token.slice(1)}`,
      `${token}A`,
      token.slice(1),
      "",
      "__proto__",
      "\u0000",
    ]) {
      const link = new URL(other.link);
      link.searchParams.set("token", wrong);
      const answer = await new Browser().get(link.href);
      expect([wrong, answer.status]).toEqual([wrong, 400]);
    }
    expect(await other.hasApp()).toBe(true);
  });

  it("changes nothing for other origins, bodies, tokens and browsers", async () => {
    const person = await enrolled();
    const visitor = new JsonVisitor();
    const { body: step } = await visitor.open(person.link);
    const url = `${service.openid}/confirm`;
    const good = { csrf: step.csrf };
    for (const [status, body, request] of [
      [403, good, { headers: { origin: "https://evil.example" } }],
      [403, good, { headers: { "content-type": "text/plain" } }],
      [403, {}, {}],
      [403, { csrf: `${step.csrf}x` }, {}],
      [400, { csrf: [step.csrf] }, {}],
      [400, null, {}],
    ] as const) {
      const answer = await visitor.post(url, body, request);
      expect([body, request, answer.status, answer.body.step]).toEqual([body, request, status, undefined]);
    }
    expect((await new JsonVisitor().post(url, good)).status).toBe(410);
    expect(await person.hasApp()).toBe(true);
  });
});
