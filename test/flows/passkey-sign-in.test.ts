/** Signing in with a passkey alone, on the first page, with an authenticator whose signatures are real. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import {
  type AnswerOverrides,
  createAuthenticator,
  type TestAuthenticator,
} from "../../testing/authenticator.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { type JsonAnswer, JsonVisitor, publicKeyOf, type Waiting } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { ADA, BOB, NEWS, onLocalhost, type RunningService, startService } from "./running-service.ts";

const PASSKEY = KNOWN_ACRS[2];
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let clock: TestClock;
let running: RunningService;
let news: TestClient;
let phone: TestAuthenticator;
beforeEach(async () => {
  clock = new TestClock();
  running = await startService({
    config: { clock },
    deployments: onLocalhost,
  });
  news = clientAt(running, "openid", NEWS);
  phone = await addPhone(running, running.ada.sub, clock);
});

async function firstPage(
  parameters: RequestParameters = {},
  visitor = new JsonVisitor(news.browser()),
): Promise<Waiting> {
  const { body: step } = await visitor.open(news.authorizeUrl({ scope: "openid", ...parameters }));
  return { visitor, step };
}

const namesOf = (step: JsonAnswer["body"]): readonly string[] => step.actions.map(({ name }) => name);

const send = ({ visitor, step }: Waiting, credential: unknown): Promise<JsonAnswer> =>
  visitor.act(step, "passkey", { credential });

/** Answers as the authenticator does. */
const use = (asked: Waiting, authenticator = phone, overrides: AnswerOverrides = {}): Promise<JsonAnswer> =>
  send(asked, authenticator.get(publicKeyOf(asked.step), overrides));

/** The cookies that a sign-in leaves. */
const traces = ({ visitor }: Waiting): readonly string[] =>
  visitor.browser.jar
    .all()
    .map(({ name }) => name)
    .filter((name) => /_session_|_device_|_passkey_/.test(name));

/** Everything that a refusal shows, without random values. */
function shown({ status, body }: JsonAnswer) {
  const { csrf: _csrf, again: _again, passkey, actions, ...rest } = body;
  const { challenge: _challenge, ...asked } = passkey?.publicKey ?? { challenge: "" };
  return { status, ...rest, asked, actions: actions.map(({ name, label }) => [name, label]) };
}

describe("a passkey on the first page", () => {
  it("is asked for without naming any, and is both factors [D-FACTOR-3, D-FACTOR-16, D-FACTOR-33]", async () => {
    const asked = await firstPage({ max_age: "3600" });
    expect(asked.step.step).toBe("login");
    expect(publicKeyOf(asked.step)).toMatchObject({
      rpId: "localhost",
      userVerification: "required",
      allowCredentials: [],
    });
    expect(asked.step.fields[0]?.autocomplete).toBe("username webauthn");
    clock.advance(60);
    const { body } = await use(asked);
    const claims = await asked.visitor.claims(news, body.location);
    expect(claims).toMatchObject({
      sub: running.ada.sub,
      acr: PASSKEY,
      auth_time: Math.floor(clock.now() / 1000),
    });
    expect(claims["amr"]).toEqual(["swk", "user", "mfa"]);
    await asked.visitor.browser.get(news.authorizeUrl({ prompt: "none", acr_values: PASSKEY ?? "" }));
    expect(asked.visitor.browser.location?.searchParams.has("code")).toBe(true);
  });

  it("of a security key, which stays in one device, is hwk [D-FACTOR-16]", async () => {
    const key = await addPhone(running, running.ada.sub, clock, { synced: false });
    const asked = await firstPage();
    const { body } = await use(asked, key);
    const claims = await asked.visitor.claims(news, body.location);
    expect([claims["acr"], claims["amr"]]).toEqual([PASSKEY, ["hwk", "user", "mfa"]]);
  });

  it("comes first in a browser where one was used, and the cookie for that names nobody", async () => {
    const asked = await firstPage();
    expect(namesOf(asked.step).slice(0, 2)).toEqual(["submit", "passkey"]);
    await use(asked);
    const cookie = asked.visitor.browser.jar.all().find(({ name }) => name.includes("_way_"));
    expect(cookie?.value).toBe("1");
    const again = await firstPage({ prompt: "login" }, asked.visitor);
    expect(namesOf(again.step).slice(0, 2)).toEqual(["passkey", "submit"]);
  });

  it("says nothing about names [D-FACTOR-33]", async () => {
    const pages = await Promise.all(
      [ADA.username, BOB.username, "nobody"].map((login_hint) => firstPage({ login_hint })),
    );
    const seen = pages.map(({ step }) => [namesOf(step), publicKeyOf(step).allowCredentials]);
    expect(new Set(seen.map((each) => JSON.stringify(each)))).toHaveProperty("size", 1);
  });

  it("signs nobody in with a wrong answer, and the page asks anew [D-FACTOR-32]", async () => {
    const asked = await firstPage();
    const { body } = await use(asked, phone, { origin: "https://evil.example" });
    expect([body.step, body.notice?.code]).toEqual(["login", "passkey-refused"]);
    expect(publicKeyOf(body).challenge).not.toBe(publicKeyOf(asked.step).challenge);
    expect(traces(asked)).toEqual([]);
    // The password still signs in, for which the second factor is asked.
    const { body: next } = await asked.visitor.act(body, "submit", {
      username: ADA.username,
      password: ADA.password,
    });
    expect(next.step).toBe("second-factor");
  });

  it.each([undefined, {}, "x", { id: "A" }])(
    "signs nobody in with %j for a credential",
    async (credential) => {
      const asked = await firstPage();
      const { status, body } = await send(asked, credential);
      expect([status, body.notice?.code]).toEqual([200, "passkey-refused"]);
      expect(traces(asked)).toEqual([]);
    },
  );

  it("gets one answer for an unknown one, a disabled or deleted account, a removed one and a wrong signature [D-FACTOR-35]", async () => {
    const { accounts } = running.service;
    const bobs = await addPhone(running, running.bob.sub, clock);
    const stranger = createAuthenticator({ origin: new URL(running.openid).origin });
    stranger.create({
      challenge: "x",
      rp: { id: "localhost" },
      user: { id: "AAAA" },
      pubKeyCredParams: [{ alg: -7 }],
    });
    const asked = await firstPage();
    const credential = phone.get(publicKeyOf(asked.step));
    const other = phone.get(publicKeyOf(asked.step));
    const signature = String(other.response["signature"]).replace(/^.{20}/, "A".repeat(20));
    const answers = [await send(asked, { ...credential, response: { ...credential.response, signature } })];
    answers.push(await use(await firstPage(), stranger));
    await accounts.disable(running.ada.sub);
    answers.push(await use(await firstPage()));
    await accounts.enable(running.ada.sub);
    await accounts.removeFactor(running.ada.sub, phone.ids[0] ?? "");
    answers.push(await use(await firstPage()));
    await accounts.delete(running.bob.sub);
    answers.push(await use(await firstPage(), bobs));
    expect(answers.map((each) => each.body.notice?.code)).toEqual(Array(5).fill("passkey-refused"));
    for (const each of answers.slice(1)) {
      expect({ ...shown(each), expires_in: 0 }).toEqual({
        ...shown(answers[0] as JsonAnswer),
        expires_in: 0,
      });
    }
  });

  it("answers the challenge of its own sign-in, once, at the same moment too", async () => {
    const [first, second] = [await firstPage(), await firstPage()];
    const credential = phone.get(publicKeyOf(first.step));
    const { body: elsewhere } = await send(second, credential);
    expect(elsewhere.notice?.code).toBe("passkey-refused");
    const all = await Promise.all([1, 2, 3, 4].map(() => send(first, credential)));
    expect(all.filter(({ body }) => body.done)).toHaveLength(1);
    const { body: later } = await send(await firstPage(), credential);
    expect(later.notice?.code).toBe("passkey-refused");
  });

  it("is too late after five minutes, and then works with the new challenge [D-FACTOR-31]", async () => {
    const asked = await firstPage();
    const credential = phone.get(publicKeyOf(asked.step));
    clock.advance(300);
    const { body } = await send(asked, credential);
    expect([body.step, body.notice?.code]).toEqual(["login", "passkey-late"]);
    const { body: done } = await use({ ...asked, step: body });
    expect(done.done).toBe(true);
    const stale = await firstPage();
    clock.advance(300);
    const { body: fresh } = await stale.visitor.get();
    expect(publicKeyOf(fresh).challenge).not.toBe(publicKeyOf(stale.step).challenge);
    const { body: old } = await use(stale);
    expect(old.notice?.code).toBe("passkey-refused");
  });

  it("does not answer the challenge of another step of the same sign-in [D-FACTOR-31]", async () => {
    const asked = await firstPage();
    const credential = phone.get(publicKeyOf(asked.step));
    const { body: step } = await asked.visitor.act(asked.step, "submit", {
      username: ADA.username,
      password: ADA.password,
    });
    expect(publicKeyOf(step).challenge).not.toBe(publicKeyOf(asked.step).challenge);
    const { body } = await send({ ...asked, step }, credential);
    expect(body.notice?.code).toBe("passkey-refused");
    expect(traces(asked)).toEqual([]);
  });

  it("needs the hidden field of the form", async () => {
    const asked = await firstPage();
    const credential = phone.get(publicKeyOf(asked.step));
    const { status } = await send({ ...asked, step: { ...asked.step, csrf: "x" } }, credential);
    expect(status).toBe(403);
    await expect(send(asked, credential)).resolves.toMatchObject({ body: { done: true } });
  });

  it("is in the audit, whether or not it was right", async () => {
    await use(await firstPage());
    await use(await firstPage(), phone, { userVerified: false });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const { items: records } = await running.service.audit.list({ action: "sign_in" });
    expect(records.map(({ outcome, subject, detail }) => [outcome, subject, detail])).toEqual(
      expect.arrayContaining([
        ["success", running.ada.sub, { amr: expect.stringMatching(/^[sh]wk /u) }],
        ["failure", null, { factor: "passkey" }],
      ]),
    );
  });
});

/** A browser that is signed in to the account pages, where a change asks for a recent sign-in. */
async function recent(username = ADA.username, password = ADA.password): Promise<Waiting> {
  const visitor = new JsonVisitor(news.browser());
  await visitor.open(`${running.oauth2}/account`);
  const { body: login } = await visitor.get(visitor.browser.url.href);
  const { body } =
    username === ADA.username
      ? await use({ visitor, step: login })
      : await visitor.act(login, "submit", { username, password });
  await visitor.browser.get(body.location ?? "");
  clock.advance(3_600);
  const { body: step } = await visitor.open(`${running.oauth2}/account/password`);
  expect(step.step).toBe("reauthenticate");
  return { visitor, step };
}

describe("a passkey for a recent sign-in", () => {
  it("is offered to somebody who has one, and must be theirs [D-FACTOR-33]", async () => {
    const bobs = await addPhone(running, running.bob.sub, clock);
    const asked = await recent();
    expect(publicKeyOf(asked.step).allowCredentials).toEqual([]);
    expect(asked.step.fields[0]?.autocomplete).toBe("current-password webauthn");
    const { body: refused } = await use(asked, bobs);
    expect([refused.step, refused.notice?.code]).toEqual(["reauthenticate", "passkey-refused"]);
    const { body } = await use({ ...asked, step: refused });
    await asked.visitor.browser.get(body.location ?? "");
    expect(asked.visitor.browser.url.pathname).toBe("/account/password");
  });

  it("is not offered to somebody who has none", async () => {
    const { step } = await recent(BOB.username, BOB.password);
    expect(namesOf(step)).not.toContain("passkey");
    expect(step.passkey).toBeUndefined();
    expect(step.fields[0]?.autocomplete).toBe("current-password");
  });
});

/** What the start says about passkeys. */
const saidOfPasskeys = ({ log }: Pick<RunningService, "log">): string | undefined =>
  log
    .map((line) => (JSON.parse(line) as { readonly msg: string }).msg)
    .find((msg) => msg.startsWith("passkeys"));

describe("without passkeys", () => {
  let plain: SelfService;
  beforeEach(async () => {
    const interactions = { passkeys: { enabled: false } };
    plain = await startSelfService(interactions, {
      config: { clock },
      deployments: onLocalhost,
    });
  });

  async function atLogin(parameters: RequestParameters = {}): Promise<Waiting> {
    const visitor = new JsonVisitor(clientAt(plain, "openid", NEWS).browser());
    const url = clientAt(plain, "openid", NEWS).authorizeUrl({ scope: "openid", ...parameters });
    return { visitor, step: (await visitor.open(url)).body };
  }

  /** Enters the password of somebody who made a passkey while passkeys were on. */
  async function atFactor(
    password: string,
    login: string,
    parameters: RequestParameters = {},
  ): Promise<Waiting> {
    const { visitor, step: first } = await atLogin(parameters);
    const { body: step } = await visitor.act(first, "submit", { username: login, password });
    return { visitor, step };
  }

  it("the first page is as before, and the start says so [D-FACTOR-37]", async () => {
    expect(saidOfPasskeys(plain)).toBe("passkeys are off: interactions.passkeys.enabled is false");
    expect(saidOfPasskeys(running)).toBeUndefined();
    const byAddress = await startService();
    await byAddress.close();
    expect(saidOfPasskeys(byAddress)).toMatch(/^passkeys are off: browsers make none for an IP address/);
    const { step } = await atLogin();
    expect([namesOf(step)[0], step.passkey, step.fields[0]?.autocomplete]).toEqual([
      "submit",
      undefined,
      "username",
    ]);
    expect(namesOf(step)).not.toContain("passkey");
  });

  it.each([
    ["the app", SECRET, ["submit", "recovery", "login"]],
    ["a recovery code", undefined, ["recovery", "login"]],
  ])("a password alone signs in nobody who has one: %s is needed", async (_what, secret, actions) => {
    const { sub } = plain.ada;
    const old = await addPhone(plain, sub, clock);
    if (secret !== undefined) await plain.service.accounts.addApp(sub, { secret });
    const { recovery_codes: codes } = await plain.service.accounts.resetRecoveryCodes(sub);
    const asked = await atFactor(ADA.password, ADA.username);
    const { visitor, step } = asked;
    expect([step.step, namesOf(step), step.passkey]).toEqual(["second-factor", actions, undefined]);
    expect(traces(asked)).toEqual([]);
    const { html } = await visitor.browser.get(visitor.browser.url.href);
    // A recovery code is asked for openly where there is nothing else.
    expect(html.includes('<details class="foot" open>')).toBe(secret === undefined);
    // What the browser could still send from an earlier page.
    const credential = old.get(publicKeyOf((await firstPage()).step));
    for (const { visitor: who, step: at } of [asked, await atLogin()]) {
      const href = `${at.actions[0]?.href.split("?")[0]}?action=passkey`;
      const { status, body } = await who.post(href, { csrf: at.csrf, credential });
      expect([status, body.error]).toEqual([400, "invalid_request"]);
    }
    const [code = ""] = codes;
    const { body: done } =
      secret === undefined
        ? await visitor.act(step, "recovery", { code })
        : await visitor.act(step, "submit", { code: totpCode(secret, clock.now()) });
    expect([done.done, traces(asked).length > 0]).toEqual([true, true]);
  });

  it("an account with neither password nor app gets in by a reset and a recovery code", async () => {
    const email = "grace@example.com";
    const { sub } = await plain.service.accounts.create({ email, email_verified: true });
    await addPhone(plain, sub, clock);
    const { recovery_codes: codes } = await plain.service.accounts.resetRecoveryCodes(sub);
    const { visitor, step: wrong } = await atFactor(ADA.password, email);
    expect([wrong.step, wrong.problems[0]?.code]).toEqual(["login", "wrong"]);
    const { body: forgot } = await visitor.act(wrong, "forgot-password");
    const { body: reset } = await visitor.act(forgot, "submit", { username: email });
    let code = "";
    while (code === "") code = codeIn(await plain.mailTo(email));
    const password = "grapefruit under the stairs";
    await visitor.act(reset, "submit", { code, password });
    const again = await atFactor(password, email);
    expect([again.step.step, namesOf(again.step)]).toEqual(["second-factor", ["recovery", "login"]]);
    const [first = ""] = codes;
    const { body: review } = await again.visitor.act(again.step, "recovery", { code: first });
    expect(review.step).toBe("review-methods");
  });

  it("a client that wishes for a passkey gets less, and one that demands it an error", async () => {
    await addPhone(plain, plain.ada.sub, clock);
    const { recovery_codes: codes } = await plain.service.accounts.resetRecoveryCodes(plain.ada.sub);
    const claims = JSON.stringify({ id_token: { acr: { essential: true, value: PASSKEY } } });
    const ends: (string | null)[] = [];
    for (const [index, parameters] of [{ acr_values: PASSKEY ?? "" }, { claims }].entries()) {
      const { visitor, step } = await atFactor(ADA.password, ADA.username, parameters);
      const { body } = await visitor.act(step, "recovery", { code: codes[index] ?? "" });
      await visitor.browser.get(body.location ?? "");
      const { searchParams } = visitor.browser.location ?? new URL("x:");
      ends.push(searchParams.has("code") ? "code" : searchParams.get("error"));
    }
    expect(ends).toEqual(["code", "unmet_authentication_requirements"]);
  });
});
