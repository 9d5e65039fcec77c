/** Invitations, from the mail to the account: as pages and as JSON, and what must not come of one. */
import { describe, expect, it } from "@jest/globals";
import { createAuthenticator } from "../../testing/authenticator.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { beforeTests } from "../closing.ts";
import { JsonVisitor, publicKeyOf } from "../interactions/json-visitor.ts";
import { linkIn, startSelfService } from "../interactions/self-service.ts";
import { clientAt, signIn } from "./clients.ts";
import { ADA, NEWS, onLocalhost } from "./running-service.ts";

const PASSWORD = "grapefruit under the stairs";
const OPERATOR = "0f8fad5b-d9cb-469f-a165-70867728950e";
const DAY = 86_400;
const clock = new TestClock();
let people = 0;

const running = beforeTests(() =>
  startSelfService(
    {},
    {
      config: {
        clock,
        operators: { [OPERATOR]: "administrator" },
        accounts: { attributes: { department: { type: "text", label: "Department" } } },
        providers: {
          corp: {
            issuer: "https://login.corp.example",
            client_id: "news",
            name: "Corp ID",
            domains: ["staff.example"],
            only: true,
          },
        },
      },
      deployments: onLocalhost,
    },
  ),
);

const newAddress = (): string => `invited-${(people += 1)}@example.org`;
const invite = (email: string, more = {}, options = {}) =>
  running.service.accounts.invite({ email, ...more }, options);
const find = (id: string) => running.service.invitations.find(id);
const accountOf = (login: string) => running.service.accounts.findByLogin(login);

/** Somebody who is invited, and the link that they got. */
async function invited(more = {}, options = {}) {
  const email = newAddress();
  const invitation = await invite(email, more, options);
  const link = linkIn(await running.mailTo(email));
  return { ...invitation, link };
}

async function accept(link: string, password = PASSWORD): Promise<Browser> {
  const browser = await new Browser().get(link);
  return browser.submit(browser.form("password"), { password });
}

describe("somebody who is invited", () => {
  it("chooses a password, is signed in, and has what the invitation brings [D-INVITE-1] [D-INVITE-3]", async () => {
    await running.service.directory.services.put("club", { name: "Club", roles: ["member", "chair"] });
    const { email, link, id } = await invited({
      name: "Grace",
      attributes: { department: "navy" },
      services: ["club"],
      roles: { club: ["chair"] },
    });
    // Programs that scan mail open links.
    for (let opened = 0; opened < 3; opened += 1) {
      const browser = await new Browser().get(link);
      expect(browser.title).toBe("Accept your invitation");
      expect(browser.url.search).not.toContain("token");
      expect(browser.html).toContain(email);
    }
    expect(await accountOf(email)).toBeUndefined();
    const browser = await accept(link);
    expect([browser.status, browser.url.pathname]).toEqual([200, "/openid/account"]);
    const account = await accountOf(email);
    expect(account).toMatchObject({
      email_verified: true,
      name: "Grace",
      services: { club: null },
      roles: { club: ["chair"] },
      attributes: { department: "navy" },
    });
    expect(await find(id)).toMatchObject({ state: "accepted", sub: account?.sub, sends_left: 0 });
    const { items } = await running.service.audit.list({ account: account?.sub ?? "" });
    expect(items.find(({ action }) => action === "account.registered")?.detail).toEqual({ invitation: id });
    // Once.
    const again = await new Browser().get(link);
    expect(again.status).toBe(400);
    expect(
      await new Browser()
        .get(`${running.openid}/account`)
        .then((each) => signIn(each, { username: email, password: PASSWORD })),
    ).toMatchObject({ status: 200 });
    // It is about this person.
    await running.service.accounts.delete(account?.sub ?? "");
    expect(await find(id)).toBeUndefined();
  });

  it("chooses a passkey, as JSON, and a password that breaks a rule makes no account [D-INVITE-3]", async () => {
    const { email, link } = await invited();
    const visitor = new JsonVisitor();
    const { body: step } = await visitor.open(link);
    expect(step).toMatchObject({
      step: "invitation",
      fields: [{ name: "email", value: email }, { name: "password" }],
    });
    const { body: refused } = await visitor.act(step, "submit", { email, password: email });
    expect(refused.problems.map(({ code }) => code)).toEqual(["name"]);
    expect(await accountOf(email)).toBeUndefined();
    const { body: enrol } = await visitor.act(refused, "without-password");
    expect(enrol.actions.map(({ name }) => name)).toEqual(["passkey", "invitation", "login"]);
    const phone = createAuthenticator({ origin: new URL(running.openid).origin });
    const { body: codes } = await visitor.act(enrol, "passkey", {
      credential: phone.create(publicKeyOf(enrol)),
      name: "Phone",
    });
    expect([codes.step, codes.recovery_codes?.length]).toEqual(["recovery-codes", 10]);
    const { body: done } = await visitor.act(codes, "submit", { kept: true });
    await visitor.browser.get(done.location ?? "");
    expect(visitor.browser.url.pathname).toBe("/openid/account");
    const account = await accountOf(email);
    expect(account?.email_verified).toBe(true);
    expect((await running.service.accounts.factors(account?.sub ?? ""))?.passkeys).toHaveLength(1);
  });

  it("sends another address and accepts for the invited one only", async () => {
    const { email, link } = await invited();
    const browser = await new Browser().get(link);
    const other = newAddress();
    await browser.submit(browser.form("password"), { email: other, password: PASSWORD });
    expect([await accountOf(other), (await accountOf(email))?.email]).toEqual([undefined, email]);
  });

  it("accepts in two browsers at once: there is one account [D-INVITE-1]", async () => {
    const { email, link, id } = await invited();
    const browsers = await Promise.all([1, 2, 3].map(() => new Browser().get(link)));
    await Promise.all(
      browsers.map((browser) => browser.submit(browser.form("password"), { password: PASSWORD })),
    );
    const ended = browsers.filter(({ url }) => url.pathname === "/openid/account");
    expect(ended).toHaveLength(1);
    expect((await find(id))?.sub).toBe((await accountOf(email))?.sub);
  });

  it("is told that this browser is signed in, and signs out first [D-INVITE-2]", async () => {
    const { email, link } = await invited();
    const browser = await new Browser().get(`${running.openid}/account`);
    await signIn(browser, ADA);
    await browser.get(link);
    expect([browser.status, browser.title]).toEqual([200, "You are signed in"]);
    expect(browser.html).toContain(ADA.email);
    expect(browser.html).toContain(`href="${running.openid}/oauth2/logout"`);
    expect(browser.hasForm("password")).toBe(false);
    expect(await accountOf(email)).toBeUndefined();
  });

  it("without what is gone in between: service, role, username [D-INVITE-8]", async () => {
    const { services } = running.service.directory;
    for (const key of ["first", "second"]) await services.put(key, { name: key, roles: ["reader"] });
    const { email, link } = await invited({
      username: "grace-h",
      services: ["first", "second"],
      roles: { first: ["reader"], second: ["reader"] },
    });
    await services.put("first", { name: "first" });
    await services.remove("second");
    await running.service.accounts.create({ email: newAddress(), username: "grace-h" });
    await accept(link);
    expect(await accountOf(email)).toMatchObject({ username: null, services: { first: null }, roles: {} });
  });
});

describe("an invitation", () => {
  it("to an address that has an account is refused, and nobody is mailed [D-INVITE-4]", async () => {
    const before = running.sent.length;
    await expect(invite(ADA.email.toUpperCase())).rejects.toMatchObject({ code: "name_taken" });
    await expect(invite(newAddress(), { username: ADA.email })).rejects.toThrow();
    await expect(invite(newAddress(), { services: ["nowhere"] })).rejects.toMatchObject({
      code: "unknown_reference",
    });
    await expect(invite(newAddress(), { roles: { club: ["chair"] } })).rejects.toMatchObject({
      code: "invalid_argument",
    });
    await expect(invite("ada@staff.example")).rejects.toMatchObject({ code: "not_applicable" });
    expect(running.sent).toHaveLength(before);
  });

  it("is sent again three times, each time with another link, and withdrawn [D-INVITE-5]", async () => {
    const { email, link, id } = await invited();
    await expect(invite(email)).rejects.toMatchObject({ code: "already_exists" });
    const { invitations } = running.service;
    let newest = link;
    for (const left of [2, 1, 0]) {
      expect((await invitations.send(id)).sends_left).toBe(left);
      newest = linkIn(await running.mailTo(email));
    }
    await expect(invitations.send(id)).rejects.toMatchObject({ code: "not_applicable" });
    expect((await new Browser().get(link)).status).toBe(400);
    const opened = await new Browser().get(newest);
    expect(opened.status).toBe(200);
    expect((await invitations.list({ email, state: "waiting" })).items.map((each) => each.id)).toEqual([id]);
    expect(await invitations.withdraw(id)).toMatchObject({ state: "withdrawn" });
    await expect(invitations.withdraw(id)).rejects.toMatchObject({ code: "not_applicable" });
    await expect(invitations.send(id)).rejects.toMatchObject({ code: "not_applicable" });
    // The page was open.
    await opened.submit(opened.form("password"), { password: PASSWORD });
    expect(opened.html).toContain("This invitation is no longer valid");
    expect([(await new Browser().get(newest)).status, await accountOf(email)]).toEqual([400, undefined]);
    await expect(invitations.send("nothing")).rejects.toMatchObject({ code: "not_found" });
  });

  it("ends after seven days, and can then be sent again [D-INVITE-1]", async () => {
    const { email, link, id } = await invited();
    clock.advance(7 * DAY);
    expect((await new Browser().get(link)).status).toBe(400);
    expect((await find(id))?.state).toBe("expired");
    await running.service.invitations.send(id);
    await accept(linkIn(await running.mailTo(email)));
    expect((await find(id))?.state).toBe("accepted");
  });

  it("is void once its inviter is no administrator; the command line does not void it [D-INVITE-6]", async () => {
    await running.service.accounts.import({ sub: OPERATOR, email: "op@example.com", password: PASSWORD });
    const actor = { kind: "operator", id: OPERATOR } as const;
    const { email, link, id } = await invited({}, { actor });
    const opened = await new Browser().get(link);
    const byCommand = await invited({}, { actor: { kind: "command_line" } });
    await running.service.accounts.disable(OPERATOR);
    expect((await find(id))?.state).toBe("void");
    expect((await new Browser().get(link)).status).toBe(400);
    await opened.submit(opened.form("password"), { password: PASSWORD });
    expect(await accountOf(email)).toBeUndefined();
    await expect(running.service.invitations.send(id)).rejects.toMatchObject({ code: "not_applicable" });
    await accept(byCommand.link);
    expect(await accountOf(byCommand.email)).toBeDefined();
  });

  it("is void once the token that made it is ended, and not when that only runs out [D-INVITE-6]", async () => {
    const { tokens } = running.service;
    const made = async (expires: number) => {
      const { id: token } = await tokens.create({ role: "administrator", expires });
      return { ...(await invited({}, { actor: { kind: "token", id: token } })), token };
    };
    const [ended, over] = [await made(30 * DAY), await made(DAY)];
    await tokens.end(ended.token);
    clock.advance(2 * DAY);
    expect([(await find(ended.id))?.state, (await find(over.id))?.state]).toEqual(["void", "waiting"]);
    await expect(running.service.invitations.send(ended.id)).rejects.toMatchObject({
      code: "not_applicable",
    });
    await accept(over.link);
    expect([await accountOf(ended.email), (await accountOf(over.email))?.email]).toEqual([
      undefined,
      over.email,
    ]);
    // Also when its token is long forgotten, and whoever sends it again does not know.
    const first = await made(DAY);
    await tokens.end(first.token);
    clock.advance(60 * DAY);
    expect((await find(first.id))?.state).toBe("void");
    await expect(running.service.invitations.send(first.id)).rejects.toMatchObject({
      code: "not_applicable",
    });
  });

  it("to an address that gets an account in between leads to the sign-in, and brings nothing [D-INVITE-7]", async () => {
    const { email, link, id } = await invited({ services: ["club"], name: "Grace" });
    const browser = await new Browser().get(link);
    const { sub } = await running.service.accounts.create({ email, password: PASSWORD });
    await browser.submit(browser.form("password"), { password: "another long password" });
    expect(browser.html).toContain("There is an account with this email address already");
    expect(browser.hasForm("username")).toBe(true);
    expect(await running.service.accounts.find(sub)).toMatchObject({
      name: null,
      services: {},
      email_verified: false,
    });
    expect((await find(id))?.state).toBe("void");
    expect(await running.service.accounts.verifyPassword(sub, PASSWORD)).toBe(true);
  });

  it("is nothing that other links can be, and no sign-in of a client can begin with it", async () => {
    const browser = clientAt(running, "openid", NEWS).browser();
    const news = clientAt(running, "openid", NEWS);
    await browser.get(news.authorizeUrl({ scope: "openid", invited: "1" }));
    expect(browser.hasForm("username")).toBe(true);
    const { link } = await invited();
    const { body } = await new JsonVisitor().open(link);
    expect(JSON.stringify(body)).not.toContain(new URL(link).searchParams.get("token"));
  });
});
