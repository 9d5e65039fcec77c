/** A second factor in the sign-in: what each proof alone is worth, and what a request for an `acr` asks for. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { JsonVisitor, afterPassword, atLogin } from "../interactions/json-visitor.ts";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { ADA, BOB, NEWS, type RunningService, startService } from "./running-service.ts";
import { rounds } from "../rounds.ts";

/** At once. */
const GUESSES = rounds(50, 200);

const [PASSWORD = "", MFA = "", PASSKEY = ""] = KNOWN_ACRS;
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let clock: TestClock;
let running: RunningService;
let news: TestClient;
let recoveryCodes: readonly string[];
beforeEach(async () => {
  clock = new TestClock();
  running = await startService({ config: { clock } });
  news = clientAt(running, "openid", NEWS);
  const added = await running.service.accounts.addApp(running.ada.sub, { secret: SECRET });
  recoveryCodes = added.recovery_codes;
});

const code = (): string => totpCode(SECRET, clock.now());
/** A code that is neither the current one nor an adjacent one. */
const wrong = (): string => {
  const near = new Set([-30_000, 0, 30_000].map((offset) => totpCode(SECRET, clock.now() + offset)));
  return ["000000", "111111", "222222", "333333"].find((each) => !near.has(each)) ?? "";
};
const password = { username: ADA.username, password: ADA.password };

/** A program that has shown the password of ada. */
async function halfway(parameters: RequestParameters = {}, visitor = new JsonVisitor(news.browser())) {
  const { body: login } = await visitor.open(news.authorizeUrl({ scope: "openid", ...parameters }));
  const { body: step } = await visitor.act(login, "submit", password);
  expect(step.step).toBe("second-factor");
  return { visitor, login, step };
}

const hasSession = (visitor: JsonVisitor): boolean =>
  visitor.browser.jar.all().some(({ name }) => /_session_|_device_/.test(name));

async function isSignedIn(visitor: JsonVisitor): Promise<boolean> {
  await visitor.browser.get(news.authorizeUrl({ prompt: "none" }));
  return visitor.browser.location?.searchParams.has("code") ?? false;
}

describe("an account with an authenticator app", () => {
  it("is signed in by the password and a code, and says so in the ID token [D-FACTOR-3, D-FACTOR-16]", async () => {
    const { visitor, step } = await halfway();
    const { body } = await visitor.act(step, "submit", { code: code() });
    const claims = await visitor.claims(news, body.location);
    expect(claims).toMatchObject({ amr: ["pwd", "otp", "mfa"], acr: MFA });
    await expect(isSignedIn(visitor)).resolves.toBe(true);
  });

  it("is signed in by a recovery code, once [D-FACTOR-3, D-FACTOR-16]", async () => {
    const [recovery = ""] = recoveryCodes;
    const { visitor, step } = await halfway();
    const { body } = await visitor.act(step, "recovery", { code: recovery.toLowerCase() });
    await expect(visitor.claims(news, body.location)).resolves.toMatchObject({
      acr: MFA,
      amr: ["pwd", "otp", "mfa"],
    });
    const again = await halfway();
    const { status, body: refused } = await again.visitor.act(again.step, "recovery", { code: recovery });
    expect([status, refused.problems.map((each) => each.code)]).toEqual([400, ["wrong-recovery-code"]]);
  });

  it("has neither a session nor a device cookie by its password alone [D-FACTOR-15]", async () => {
    const { visitor } = await halfway();
    expect(hasSession(visitor)).toBe(false);
    await expect(isSignedIn(visitor)).resolves.toBe(false);
    const { visitor: other } = await halfway();
    expect(hasSession(other)).toBe(false);
  });

  it("gets no tokens by the password grant, with the answer for a wrong password [D-TOKEN-23, D-FACTOR-4]", async () => {
    const right = await news.password(password);
    const refused = await news.password({ ...password, password: "this is not the password" });
    expect(right).toMatchObject({ status: refused.status, body: refused.body });
    expect(right.body["error"]).toBe("invalid_grant");
    // The right one gives no point back: ten are all there are.
    for (let tries = 2; tries < 10; tries += 1)
      expect((await news.password(password)).headers.has("retry-after")).toBe(false);
    const limited = await news.password(password);
    expect([limited.body["error"], limited.headers.has("retry-after")]).toEqual(["invalid_grant", true]);
  });

  it("is asked for the second factor only after the right password [D-FACTOR-27]", async () => {
    const answers = await Promise.all(
      [ADA, BOB].map(async ({ username }) => {
        const { visitor, step: login } = await atLogin(news);
        const { status, body } = await visitor.act(login, "submit", { username, password: "wrong one" });
        return [status, body.step, body.problems];
      }),
    );
    expect(answers[0]).toEqual(answers[1]);
  });

  it("accepts no code twice, whoever shows it", async () => {
    const used = code();
    const first = await halfway();
    await first.visitor.act(first.step, "submit", { code: used });
    const second = await halfway();
    const { status, body } = await second.visitor.act(second.step, "submit", { code: used });
    expect([status, body.problems.map((each) => each.code)]).toEqual([400, ["wrong-app-code"]]);
  });

  it("accepts one code once, from four sign-ins at the same moment", async () => {
    const all = [];
    for (let i = 0; i < 4; i += 1) all.push(await halfway());
    const answers = await Promise.all(
      all.map(({ visitor, step }) => visitor.act(step, "submit", { code: code() })),
    );
    expect(answers.filter(({ body }) => body.done)).toHaveLength(1);
  });

  it("can be guessed five times, even by many requests at once", async () => {
    const { visitor, step } = await halfway();
    const guess = wrong();
    const answers = await Promise.all(
      Array.from({ length: GUESSES }, () => visitor.act(step, "submit", { code: guess })),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 400)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(GUESSES - 5);
    // The right code does not help while the limit lasts, and the recovery codes have a limit of their own.
    const { status } = await visitor.act(step, "submit", { code: code() });
    expect(status).toBe(429);
    const recovered = await visitor.act(step, "recovery", { code: recoveryCodes[0] ?? "" });
    expect(recovered.body.done).toBe(true);
  });

  it("is guessed by a stranger, which does not keep its owner out of a browser that has signed in before [D-FACTOR-25]", async () => {
    const own = await halfway();
    const { body } = await own.visitor.act(own.step, "submit", { code: code() });
    await own.visitor.browser.get(body.location ?? "");
    const halfKnown = await halfway();
    const stranger = await halfway();
    for (let tries = 0; tries < 5; tries += 1)
      await stranger.visitor.act(stranger.step, "submit", { code: wrong() });
    clock.advance(60);
    // The right password alone has not made a browser known.
    for (const { visitor, step } of [stranger, halfKnown])
      expect((await visitor.act(step, "submit", { code: code() })).status).toBe(429);
    const again = await halfway({ prompt: "login" }, own.visitor);
    const { body: done } = await again.visitor.act(again.step, "submit", { code: code() });
    expect(done.done).toBe(true);
  });
});

/** What somebody tries who has the password and no factor. */
const SHORT_CUTS: readonly [string, (found: Awaited<ReturnType<typeof halfway>>) => Promise<unknown>][] = [
  [
    "the bare address",
    ({ visitor, step }) =>
      visitor.post(step.actions[0]?.href.replace("/second-factor", "") ?? "", { csrf: step.csrf }),
  ],
  [
    "terms",
    ({ visitor, step }) =>
      visitor.post(step.actions[0]?.href.replace("second-factor", "terms") ?? "", {
        csrf: step.csrf,
        terms: "1",
      }),
  ],
  [
    "consent",
    ({ visitor, step }) =>
      visitor.post(`${step.actions[0]?.href.replace("second-factor", "consent")}?action=allow`, {
        csrf: step.csrf,
      }),
  ],
  [
    "continue",
    ({ visitor, step }) =>
      visitor.post(step.actions[0]?.href.replace("second-factor", "continue") ?? "", { csrf: step.csrf }),
  ],
  ["no code", ({ visitor, step }) => visitor.act(step, "submit", {})],
  ["an empty recovery code", ({ visitor, step }) => visitor.act(step, "recovery", {})],
  [
    "a passkey that nobody has",
    ({ visitor, step }) =>
      visitor.post(`${step.actions[0]?.href}?action=passkey`, { csrf: step.csrf, credential: {} }),
  ],
];

it.each(SHORT_CUTS)("nobody gets past the second factor by %s [D-FACTOR-3]", async (_name, tryIt) => {
  const found = await halfway();
  const answer = (await tryIt(found)) as Awaited<ReturnType<JsonVisitor["get"]>>;
  expect(answer.body.done).toBeUndefined();
  expect(hasSession(found.visitor)).toBe(false);
  await expect(isSignedIn(found.visitor)).resolves.toBe(false);
});

describe("what was proven", () => {
  it("counts for five minutes [D-FACTOR-15]", async () => {
    const inTime = await halfway();
    clock.advance(299);
    const { body: done } = await inTime.visitor.act(inTime.step, "submit", { code: code() });
    expect(done.done).toBe(true);
    const { visitor, step } = await halfway();
    clock.advance(300);
    const { body } = await visitor.act(step, "submit", { code: code() });
    expect([body.step, body.notice?.code]).toEqual(["login", "begin-anew"]);
    expect(hasSession(visitor)).toBe(false);
  });

  it.each([
    [
      "a new password",
      () => running.service.accounts.setPassword(running.ada.sub, "another password of ada"),
    ],
    ["a change of the factors", () => running.service.accounts.resetRecoveryCodes(running.ada.sub)],
    ["the end of all sessions", () => running.service.accounts.endSessions(running.ada.sub)],
    ["the removal of the factors", () => running.service.accounts.removeFactors(running.ada.sub)],
    ["disabling the account", () => running.service.accounts.disable(running.ada.sub)],
  ])("ends with %s", async (_name, change) => {
    const { visitor, step } = await halfway();
    await change();
    const { body } = await visitor.act(step, "submit", { code: code() });
    expect([body.step, body.notice?.code]).toEqual(["login", "begin-anew"]);
    expect(hasSession(visitor)).toBe(false);
  });

  it("ends with deleting the account, as the sign-in does", async () => {
    const { visitor, step } = await halfway();
    await running.service.accounts.delete(running.ada.sub);
    expect((await visitor.act(step, "submit", { code: code() })).status).toBe(410);
    expect(hasSession(visitor)).toBe(false);
  });

  it("belongs to one sign-in: another browser does not have it", async () => {
    const { step } = await halfway();
    const other = new JsonVisitor(news.browser());
    await other.open(news.authorizeUrl());
    const { status } = await other.post(step.actions[0]?.href ?? "", { csrf: step.csrf, code: code() });
    expect(status).toBe(410);
  });

  it("is replaced by the password of another account", async () => {
    const { visitor, login } = await halfway();
    const { body } = await visitor.act(login, "submit", { username: BOB.username, password: BOB.password });
    expect(body.done).toBe(true);
    await expect(visitor.claims(news, body.location)).resolves.toMatchObject({
      sub: running.bob.sub,
      acr: PASSWORD,
    });
  });
});

const errorOf = (visitor: JsonVisitor): string | null | undefined =>
  visitor.browser.location?.searchParams.get("error");
const essential = (...values: readonly (string | undefined)[]): RequestParameters => ({
  claims: JSON.stringify({ id_token: { acr: { essential: true, values } } }),
});

/** bob, who has no second factor, is signed in. */
async function signedInByPassword(): Promise<JsonVisitor> {
  const { visitor, step: body } = await afterPassword(news, BOB, { scope: "openid" });
  await visitor.claims(news, body.location);
  return visitor;
}

/** ada is signed in with the password and a code. */
async function signedInByCode(): Promise<JsonVisitor> {
  const { visitor, step } = await halfway();
  const { body } = await visitor.act(step, "submit", { code: code() });
  await visitor.claims(news, body.location);
  clock.advance(60_000);
  return visitor;
}

describe("a request for an acr", () => {
  it.each([
    ["no request", {}, MFA],
    ["the acr that the session has", { acr_values: MFA }, MFA],
    ["a weaker one", { acr_values: PASSWORD }, PASSWORD],
    ["several: the strongest that the session satisfies", { acr_values: `${PASSWORD} ${MFA}` }, MFA],
    ["a stronger one that the account can't have", { acr_values: PASSKEY }, MFA],
    ["an unknown one", { acr_values: "urn:unknown" }, MFA],
    ["an essential one that the session satisfies", essential(PASSWORD), PASSWORD],
  ])("after password and code: %s [D-FACTOR-17]", async (_name, parameters, acr) => {
    const visitor = await signedInByCode();
    const url = news.authorizeUrl({ scope: "openid", prompt: "none", ...parameters });
    await expect(visitor.claims(news, url)).resolves.toMatchObject({ acr, amr: ["pwd", "otp", "mfa"] });
  });

  it.each([
    ["a passkey, which ada does not have", essential(PASSKEY)],
    ["an unknown value", essential("urn:unknown")],
    ["a passkey, beside a wish for less", { ...essential(PASSKEY), acr_values: MFA }],
  ])("that is essential fails for %s, instead of asking forever [D-FACTOR-18]", async (_name, parameters) => {
    const visitor = await signedInByCode();
    for (const prompt of [{}, { prompt: "none" }]) {
      await visitor.browser.get(news.authorizeUrl({ scope: "openid", ...parameters, ...prompt }));
      expect(errorOf(visitor)).toBe("unmet_authentication_requirements");
    }
  });

  it("that is essential fails in a first sign-in, too, where nobody can add a passkey", async () => {
    const { visitor, step } = await halfway(essential(PASSKEY));
    const { body } = await visitor.act(step, "submit", { code: code() });
    await visitor.browser.get(body.location ?? "");
    expect(errorOf(visitor)).toBe("unmet_authentication_requirements");
  });

  it("that is essential fails for an account without a second factor, and a wish goes on [D-FACTOR-18, D-FACTOR-19]", async () => {
    const visitor = await signedInByPassword();
    await visitor.browser.get(news.authorizeUrl({ scope: "openid", ...essential(MFA) }));
    expect(errorOf(visitor)).toBe("unmet_authentication_requirements");
    const wish = news.authorizeUrl({ scope: "openid", acr_values: MFA });
    await expect(visitor.claims(news, wish)).resolves.toMatchObject({ acr: PASSWORD, amr: ["pwd"] });
  });

  it("and a recent sign-in ask for the password and the code again, and auth_time is then [D-FACTOR-13, D-FACTOR-15]", async () => {
    const visitor = await signedInByCode();
    const silent = news.authorizeUrl({ scope: "openid", prompt: "none", max_age: "1000000" });
    const { auth_time } = await visitor.claims(news, silent);
    expect(auth_time).toEqual(expect.any(Number));
    await visitor.browser.get(news.authorizeUrl({ scope: "openid", max_age: "10", prompt: "none" }));
    expect(errorOf(visitor)).toBe("login_required");
    const { visitor: same, step } = await halfway({ max_age: "10", acr_values: MFA }, visitor);
    // The session of before is as it was, until the last part is shown.
    await expect(same.claims(news, silent)).resolves.toMatchObject({ auth_time });
    clock.advance(60);
    const { body } = await same.act(step, "submit", { code: code() });
    const claims = await same.claims(news, body.location);
    expect(claims).toMatchObject({ acr: MFA, auth_time: Math.floor(clock.now() / 1000) });
  });
});
