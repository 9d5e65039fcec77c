/** Accounts whose address is in the domain of a provider with `only`: every other way in is closed, and looks as for any other name. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { ProviderSignIn } from "../../accounts/providers.ts";
import { seconds } from "../../core/clock.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import type { TestAuthenticator } from "../../testing/authenticator.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { atLogin, type JsonAnswer, JsonVisitor, publicKeyOf } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import { beforeTests } from "../closing.ts";
import { readTokens, type TestClient, type TestVisitor } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { decide, enter, TELEVISION } from "./devices.ts";
import { type ProviderParty, startWithProvider } from "./provider-party.ts";
import { ADA, NEWS, onLocalhost, OPERATOR, UNLIMITED } from "./running-service.ts";

const DAY = 86_400;
const KINDS = ["oauth2", "openid"] as const;
const CORP = {
  issuer: "http://127.0.0.1:9",
  client_id: "sign-in",
  client_secret: "s3cret",
  name: "Corp",
  domains: ["corp.example"],
  only: true,
};
const ANN = { username: "ann@corp.example", password: "the password of ann" };
const CHIEF = { username: "chief@corp.example", password: OPERATOR.password };
const LATER = { username: "later@corp.example", password: "the password of later" };

const clock = new TestClock();
let annsPhone: TestAuthenticator;
let chiefsPhone: TestAuthenticator;

async function start(): Promise<SelfService> {
  const running = await startSelfService(
    { registration: true },
    {
      config: {
        clock,
        rateLimits: UNLIMITED,
        operators: { [OPERATOR.sub]: "administrator" },
        providers: { corp: CORP },
      },
      deployments: onLocalhost,
    },
  );
  const { accounts } = running.service;
  const { sub } = await accounts.import({
    email: ANN.username,
    email_verified: true,
    password: ANN.password,
  });
  await accounts.import({ email: LATER.username, email_verified: true, password: LATER.password });
  await accounts.import({ ...OPERATOR, email: CHIEF.username, email_verified: true });
  annsPhone = await addPhone(running, sub, clock);
  chiefsPhone = await addPhone(running, OPERATOR.sub, clock);
  return running;
}

const running = beforeTests(start);

/** As if everybody with a session of this account had come by a provider. */
async function cameBy(sub: string, atProvider: ProviderSignIn): Promise<void> {
  const { artifacts } = running.storage;
  const { artifacts: sessions } = await artifacts.page({ model: "Session", account: sub }, { limit: 10 });
  for (const { uid = "" } of sessions)
    await artifacts.change(
      () => artifacts.findByUid("Session", uid),
      (session) => ({ ...session, payload: { ...session.payload, atProvider } }),
    );
}

/** What an answer shows, without random values and what was typed. */
function shown({ status, body }: JsonAnswer): unknown {
  const {
    title,
    notice,
    problems,
    texts,
    step,
    actions = [],
    fields = [],
    error,
  } = body as Partial<JsonAnswer["body"]> & { readonly texts?: unknown };
  return {
    status,
    title,
    notice,
    problems,
    texts,
    step,
    error,
    actions: actions.map(({ name, label }) => [name, label]),
    fields: fields.map(({ name }) => name),
  };
}

describe.each(KINDS)("an account that signs in at its provider only, on %s", (kind) => {
  const news = () => clientAt(running, kind, NEWS);
  const byPassword = async ({ username, password }: TestVisitor): Promise<JsonAnswer> => {
    const { visitor, step } = await atLogin(news());
    return visitor.act(step, "submit", { username, password });
  };
  const byPasskey = async (phone: TestAuthenticator): Promise<JsonAnswer> => {
    const { visitor, step } = await atLogin(news());
    return visitor.act(step, "passkey", { credential: phone.get(publicKeyOf(step)) });
  };
  const reset = async (username: string): Promise<JsonAnswer> => {
    const { visitor, step } = await atLogin(news());
    // The first page asks for the name, and offers a new password only where there can be one.
    const { body: named } = await visitor.act(step, "submit", { username: "somebody@example.com" });
    const { body } = await visitor.act(named, "forgot-password");
    return visitor.act(body, "submit", { username });
  };

  it("gets the answer of a wrong password at the form, but for operators [D-PROV-8, D-PROV-9]", async () => {
    const unknown = await byPassword({ username: "nobody@corp.example", password: ANN.password });
    expect(unknown.body.step).toBe("login");
    for (const person of [ANN, LATER, { ...ANN, password: "another password" }])
      expect(shown(await byPassword(person))).toEqual(shown(unknown));
    expect((await byPassword(CHIEF)).body.step).toBe("second-factor");
    expect((await byPassword(ADA)).body.location).toBeDefined();
  });

  it("gets no tokens by the password grant [D-PROV-9]", async () => {
    const unknown = await news().password({ username: "nobody@corp.example", password: LATER.password });
    const refused = await news().password(LATER);
    expect([refused.status, refused.body]).toEqual([unknown.status, unknown.body]);
    expect(refused.body["error"]).toBe("invalid_grant");
    expect((await news().password(ADA)).status).toBe(200);
  });

  it("gets the answer of an unknown passkey, but for operators [D-PROV-10]", async () => {
    const { accounts } = running.service;
    const { sub } = await accounts.create({ email: "gone@example.com" });
    const stranger = await addPhone(running, sub, clock);
    await accounts.delete(sub);
    const unknown = await byPasskey(stranger);
    expect(unknown.body.notice?.code).toBe("passkey-refused");
    expect(shown(await byPasskey(annsPhone))).toEqual(shown(unknown));
    expect((await byPasskey(chiefsPhone)).body.location).toBeDefined();
  });

  it("gets no mail for a new password, and the page of any other name [D-PROV-11]", async () => {
    expect(shown(await reset(ANN.username))).toEqual(shown(await reset("nobody@corp.example")));
    await reset(ADA.username);
    await running.mailTo(ADA.email);
    const recipients = running.sent.filter((mail) => codeIn(mail) !== "").map(({ to }) => to);
    expect(recipients.filter((to) => /^(?:ann|nobody)@/u.test(to))).toEqual([]);
  });

  it("is not made by the form [D-PROV-12]", async () => {
    const { visitor, step } = await atLogin(news());
    const { body: form } = await visitor.act(step, "register");
    const { body } = await visitor.act(form, "submit", {
      email: "New@Corp.Example",
      password: "grapefruit under the stairs",
    });
    expect(body.problems).toMatchObject([{ code: "domain", fields: ["email"] }]);
  });

  it("stays signed in for sessionMax after the sign-in at its provider, and its tokens as well [D-PROV-14]", async () => {
    const { accounts } = running.service;
    const person = { username: `moved-${kind}@example.com`, password: "the password of somebody" };
    const { sub } = await accounts.import({
      email: person.username,
      email_verified: true,
      password: person.password,
    });
    const party = news();
    const browser = party.browser({ now: () => 0 });
    const visitor = new JsonVisitor(browser);
    const { body: login } = await visitor.open(party.authorizeUrl());
    const { body: done } = await visitor.act(login, "submit", person);
    await browser.get(done.location ?? "");
    const before = await party.tokensOf(browser);
    await accounts.update(sub, { email: `moved-${kind}@else.example`, email_verified: true });
    expect(await party.silently(browser)).toBe("code");
    expect((await party.userinfo(before.access_token)).status).toBe(200);

    await accounts.update(sub, { email: `moved-${kind}@corp.example`, email_verified: true });
    expect(await party.silently(browser)).toBe("login_required");
    expect((await party.refresh(before.refresh_token)).body["error"]).toBe("invalid_grant");
    expect((await party.userinfo(before.access_token)).body["error"]).toBe("invalid_token");
    expect((await browser.get(`${running[kind]}/account`)).url.pathname).toContain("/interaction/");

    await cameBy(sub, { sub, provider: "google", at: seconds(clock) });
    expect(await party.silently(browser)).toBe("login_required");
    await cameBy(sub, { sub: running.ada.sub, provider: "corp", at: seconds(clock) });
    expect(await party.silently(browser)).toBe("login_required");
    await cameBy(sub, { sub, provider: "corp", at: seconds(clock) });
    expect(await party.silently(browser)).toBe("code");
    const after = await party.tokensOf(browser);
    expect((await party.userinfo(after.access_token)).status).toBe(200);
    clock.advance(DAY - 1);
    expect(await party.silently(browser)).toBe("code");
    expect((await party.refresh(after.refresh_token)).status).toBe(200);
    clock.advance(1);
    expect(await party.silently(browser)).toBe("login_required");
    expect((await party.refresh(after.refresh_token)).body["error"]).toBe("invalid_grant");
  });

  it("has no password for the library either", async () => {
    const { accounts } = running.service;
    const sub = (await accounts.findByLogin(LATER.username))?.sub ?? "";
    expect(await accounts.verifyPassword(sub, LATER.password)).toBe(false);
    expect(await accounts.verifyPassword(running.ada.sub, ADA.password)).toBe(true);
  });
});

describe.each(KINDS)("somebody who comes by the only provider, on %s", (kind) => {
  const person = { sub: "ann-there", email: ANN.username };
  let party: ProviderParty;
  let phone: TestAuthenticator;
  beforeEach(async () => {
    const mail = { send: async () => undefined };
    party = await startWithProvider({ domains: ["corp.example"], only: true }, { config: { clock, mail } });
    const { accounts } = party.service;
    const { sub } = await accounts.import({ email: ANN.username, email_verified: true });
    await party.link(sub, person);
    party.provider.signIn(person);
    phone = await addPhone(party, sub, clock);
  });

  /** With the passkey as the second factor. The browser keeps expired cookies, so that only the service decides. */
  async function comesIn(): Promise<{ readonly news: TestClient; readonly visitor: JsonVisitor }> {
    const news = clientAt(party, kind, NEWS);
    const visitor = new JsonVisitor(news.browser({ now: () => 0 }));
    const { body } = await visitor.open(news.authorizeUrl());
    const { body: away } = await visitor.act(body, "provider", { provider: "corp" });
    const { body: step } = await visitor.open(away.location ?? "");
    expect(step.step).toBe("second-factor");
    const credential = phone.get(publicKeyOf(step));
    const { body: done } = await visitor.act(step, "passkey", { credential });
    await visitor.browser.get(done.location ?? "");
    return { news, visitor };
  }

  it("stays for sessionMax, and a passkey does not prolong it [D-PROV-14]", async () => {
    const { news, visitor } = await comesIn();
    const { browser } = visitor;
    const tokens = await news.tokensOf(browser);
    clock.advance(DAY - 1);
    expect(await news.silently(browser)).toBe("code");
    const { body: step } = await visitor.open(`${party[kind]}/account/delete`);
    expect(step.step).toBe("reauthenticate");
    const credential = phone.get(publicKeyOf(step));
    const { body: done } = await visitor.act(step, "passkey", { credential });
    await browser.get(done.location ?? "");
    expect(browser.url.pathname).toMatch(/\/account\/delete$/u);
    expect((await news.refresh(tokens.refresh_token)).status).toBe(200);
    clock.advance(1);
    expect(await news.silently(browser)).toBe("login_required");
    expect((await news.refresh(tokens.refresh_token)).body["error"]).toBe("invalid_grant");
    await browser.get(`${party[kind]}/account`);
    expect(browser.url.pathname).toContain("/interaction/");
  });

  it("connects a device for sessionMax [D-PROV-14]", async () => {
    await party.service.clients.register(TELEVISION);
    const television = clientAt(party, kind, TELEVISION);
    const { browser } = (await comesIn()).visitor;
    const codes = await television.deviceCodes();
    await browser.get(codes.verification_uri);
    await decide(await enter(browser, codes.user_code), "connect");
    const { refresh_token } = readTokens(await television.poll(codes));
    clock.advance(DAY - 1);
    const refreshed = readTokens(await television.refresh(refresh_token));
    clock.advance(1);
    expect((await television.refresh(refreshed.refresh_token)).body["error"]).toBe("invalid_grant");
  });

  it("finds no page for a password or another address [D-PROV-13]", async () => {
    const { browser } = (await comesIn()).visitor;
    await browser.get(`${party[kind]}/account`);
    expect(browser.html).not.toMatch(/\/account\/(?:email|password)"/u);
    for (const page of ["email", "email/new", "password"]) {
      await browser.get(`${party[kind]}/account/${page}`);
      expect([page, browser.url.pathname]).toEqual([page, new URL(`${party[kind]}/account`).pathname]);
    }
  });
});
