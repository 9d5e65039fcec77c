/** A client that needs a second factor, and people who add their first one in the sign-in. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import { createAuthenticator } from "../../testing/authenticator.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { type JsonAnswer, JsonVisitor, type Waiting } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { clientAt, signedIn } from "./clients.ts";
import { ADA, BOB, NEWS, VAULT } from "./running-service.ts";

const [, MFA = "", PASSKEY = ""] = KNOWN_ACRS;

let clock: TestClock;
let running: SelfService;
let vault: TestClient;
let news: TestClient;
beforeEach(async () => {
  clock = new TestClock();
  running = await startSelfService(undefined, {
    config: { clock },
    // Browsers make no passkeys for IP addresses.
    deployments(origin) {
      const base = origin.replace("127.0.0.1", "localhost");
      return { oauth2: { url: base }, openid: { url: `${base}/openid` } };
    },
  });
  await running.service.clients.register(VAULT);
  vault = clientAt(running, "openid", VAULT);
  news = clientAt(running, "openid", NEWS);
});

type Step = JsonAnswer["body"];
/** Enters the password. */
async function entered(
  party: TestClient = vault,
  parameters: RequestParameters = {},
  person: { readonly username: string; readonly password: string } = ADA,
  visitor: JsonVisitor = new JsonVisitor(party.browser()),
): Promise<Waiting> {
  const { body: login } = await visitor.open(party.authorizeUrl({ scope: "openid", ...parameters }));
  expect(login.step).toBe("login");
  const { username, password } = person;
  const { body: step } = await visitor.act(login, "submit", { username, password });
  return { visitor, step };
}

/** The code in the mail about enrolling. */
async function mailedCode(address: string = ADA.email): Promise<string> {
  for (;;) {
    const code = codeIn(await running.mailTo(address));
    if (code !== "") return code;
  }
}

/** A person who may enrol now. */
async function enrolling(parameters: RequestParameters = {}): Promise<Waiting> {
  const { visitor, step } = await entered(vault, parameters);
  expect([step.step, step.email]).toEqual(["enrol-confirm", "a…@example.com"]);
  const { body } = await visitor.act(step, "submit", { code: await mailedCode() });
  expect(body.step).toBe("enrol");
  return { visitor, step: body };
}

const appCode = ({ app }: Step): string => totpCode(app?.secret ?? "", clock.now());

/** A new passkey for what the step asks. */
function newPasskey({ passkey }: Step) {
  if (passkey === undefined || !("rp" in passkey.publicKey)) throw new Error("no passkey is asked for");
  const phone = createAuthenticator({ origin: new URL(running.openid).origin });
  return { phone, credential: phone.create(passkey.publicKey) };
}

function post({ visitor, step }: Waiting, name: string, values: Readonly<Record<string, unknown>>) {
  const { href = "" } = step.actions.find((each) => each.name === name) ?? {};
  return visitor.post(href, { csrf: step.csrf, ...values });
}

/** A person who has to keep recovery codes. */
async function enrolled(): Promise<Waiting> {
  const waiting = await enrolling();
  const { body } = await waiting.visitor.act(waiting.step, "app", { code: appCode(waiting.step) });
  expect([body.step, body.recovery_codes?.length]).toEqual(["recovery-codes", 10]);
  return { visitor: waiting.visitor, step: body };
}

const hasSession = ({ browser }: JsonVisitor): boolean =>
  browser.jar.all().some(({ name }) => /_session|_device/.test(name));

const errorOf = ({ browser }: JsonVisitor): string | null | undefined =>
  browser.location?.searchParams.get("error");

const essential = (value: string): RequestParameters => ({
  claims: JSON.stringify({ id_token: { acr: { essential: true, value } } }),
});

/** Bob, who has confirmed his address by the code, at his own sign-in. */
async function enrollingElsewhere(): Promise<Waiting> {
  const { visitor, step } = await entered(vault, {}, BOB);
  const { body } = await visitor.act(step, "submit", { code: await mailedCode(BOB.email) });
  expect(body.step).toBe("enrol");
  return { visitor, step: body };
}

describe("a client that needs a second factor", () => {
  it("lets a person add an app, shows recovery codes once, and ends the sign-in when they are kept [D-FACTOR-20, D-FACTOR-29, D-FACTOR-43]", async () => {
    const { visitor, step } = await enrolling();
    expect(step.actions.map(({ name }) => name)).toEqual(["app", "passkey", "login"]);
    // The same in every GET.
    const { body: again } = await visitor.get();
    expect([again.app, again.passkey]).toEqual([step.app, step.passkey]);
    expect(hasSession(visitor)).toBe(false);
    const wrong = await visitor.act(step, "app", { code: "000000" });
    expect([wrong.status, wrong.body.problems[0]?.code]).toEqual([400, "wrong-app-code"]);
    const { body: codes } = await visitor.act(step, "app", { code: appCode(step) });
    expect([codes.step, codes.recovery_codes?.length]).toEqual(["recovery-codes", 10]);
    expect(hasSession(visitor)).toBe(false);
    const { body: later } = await visitor.get();
    expect([later.step, later.recovery_codes]).toEqual(["recovery-codes", undefined]);
    for (const kept of [undefined, "", "false"])
      expect((await post({ visitor, step: later }, "submit", { kept })).status).toBe(400);
    const { body: done } = await post({ visitor, step: later }, "submit", { kept: true });
    await expect(visitor.claims(vault, done.location)).resolves.toMatchObject({
      acr: MFA,
      amr: ["pwd", "otp", "mfa"],
    });
    // From now on it is asked for, everywhere.
    const { step: next } = await entered(news);
    expect(next.step).toBe("second-factor");
    const used = codes.recovery_codes?.[0] ?? "";
    const { visitor: other, step: asked } = await entered();
    const { body: byCode } = await other.act(asked, "recovery", { code: used });
    expect(byCode.done).toBe(true);
  });

  it("lets a person add a passkey", async () => {
    const waiting = await enrolling();
    const { phone, credential } = newPasskey(waiting.step);
    const nameless = await post(waiting, "passkey", { credential, name: " " });
    expect([nameless.status, nameless.body.problems[0]?.code]).toEqual([400, "passkey-name"]);
    const { body: codes } = await post(waiting, "passkey", { credential, name: "Phone" });
    expect(codes.step).toBe("recovery-codes");
    const { body } = await post({ ...waiting, step: codes }, "submit", { kept: true });
    const claims = await waiting.visitor.claims(vault, body.location);
    expect(claims["acr"]).toBe(PASSKEY);
    expect(claims["amr"]).toEqual(["pwd", "swk", "user", "mfa"]);
    const factors = await running.service.accounts.factors(running.ada.sub);
    expect(factors?.passkeys.map(({ id, name }) => [id, name])).toEqual([[phone.ids[0], "Phone"]]);
  });

  it("steps a session up that has a factor, and asks for the password where there is none [D-FACTOR-20]", async () => {
    const plain = await entered(news);
    await plain.visitor.browser.get(plain.step.location ?? "");
    const { body: login } = await plain.visitor.open(vault.authorizeUrl());
    // Adding a factor needs a recent sign-in.
    expect(login.step).toBe("login");
    const { sub } = running.ada;
    const secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
    await running.service.accounts.addApp(sub, { secret });
    const { visitor, step } = await entered(news);
    const { body } = await visitor.act(step, "submit", { code: totpCode(secret, clock.now()) });
    await visitor.browser.get(body.location ?? "");
    await visitor.browser.get(vault.authorizeUrl({ prompt: "none" }));
    expect(errorOf(visitor)).toBeNull();
  });

  it.each<[string, RequestParameters, string]>([
    ["nobody is signed in", { prompt: "none" }, "login_required"],
    ["the session has a password only", { prompt: "none" }, "interaction_required"],
    ["the session is old, too", { prompt: "none", max_age: "100" }, "login_required"],
    [
      "acr is essential, too",
      {
        prompt: "none",
        scope: "openid",
        claims: JSON.stringify({ id_token: { acr: { essential: true, value: PASSKEY } } }),
      },
      "interaction_required",
    ],
  ])("answers prompt=none where %s", async (state, parameters, error) => {
    const visitor = new JsonVisitor(vault.browser());
    if (!state.startsWith("nobody")) {
      const { step } = await entered(news, {}, ADA, visitor);
      await visitor.browser.get(step.location ?? "");
    }
    clock.advance(state.includes("old") ? 1_000 : 1);
    for (const party of [vault, clientAt(running, "oauth2", VAULT)]) {
      const { claims: _openidOnly, ...rest } = parameters;
      await visitor.browser.get(party.authorizeUrl(party === vault ? parameters : rest));
      expect(errorOf(visitor)).toBe(error);
    }
  });

  it("has no password grant, and a client that has it can't become one [D-FACTOR-20]", async () => {
    const { clients } = running.service;
    const refused = /password_grant: a client with second_factor required/;
    const grant = { client_id: "grant", password_grant: true };
    await expect(clients.register({ ...VAULT, ...grant })).rejects.toThrow(refused);
    await expect(clients.update(NEWS.client_id, { second_factor: "required" })).rejects.toThrow(refused);
    await expect(clients.update(VAULT.client_id, { password_grant: true })).rejects.toThrow(refused);
    await clients.update(NEWS.client_id, { second_factor: "required", password_grant: false });
    const token = await news.token({
      grant_type: "password",
      username: ADA.username,
      password: ADA.password,
    });
    expect(token.body["error"]).toBe("unauthorized_client");
    await expect(clients.find(NEWS.client_id)).resolves.toMatchObject({ second_factor: "required" });
    await clients.update(NEWS.client_id, { second_factor: "optional" });
    await expect(clients.find(NEWS.client_id)).resolves.toMatchObject({ second_factor: "optional" });
  });

  it("keeps refusing a person who finished the password form of another client in the same browser", async () => {
    const { visitor, step } = await entered();
    expect(step.step).toBe("enrol-confirm");
    const other = await entered(news, {}, ADA, new JsonVisitor(visitor.browser));
    await other.visitor.browser.get(other.step.location ?? "");
    await visitor.browser.get(vault.authorizeUrl({ prompt: "none" }));
    expect(errorOf(visitor)).toBe("interaction_required");
  });
});

describe("an essential acr", () => {
  it.each([MFA, PASSKEY])("%s lets a person without a factor add one", async (value) => {
    const { visitor, step } = await entered(news, essential(value));
    expect(step.step).toBe("enrol-confirm");
    const { body } = await visitor.act(step, "submit", { code: await mailedCode() });
    // An app is not enough for a passkey.
    expect([body.app === undefined, body.passkey === undefined]).toEqual([value === PASSKEY, false]);
    if (value === PASSKEY) {
      const { href = "" } = body.actions.find(({ name }) => name === "passkey") ?? {};
      const byApp = await visitor.post(href.replace("action=passkey", "action=app"), {
        csrf: body.csrf,
        code: "000000",
      });
      expect([byApp.status, byApp.body.error]).toEqual([400, "invalid_request"]);
    }
    const { credential } = newPasskey(body);
    const { body: codes } = await post({ visitor, step: body }, "passkey", { credential, name: "Phone" });
    const { body: done } = await post({ visitor, step: codes }, "submit", { kept: true });
    await expect(visitor.claims(news, done.location)).resolves.toMatchObject({ acr: value });
  });

  it("is a demand, and acr_values a wish, on both deployments [D-FACTOR-18, D-FACTOR-19]", async () => {
    for (const kind of ["openid", "oauth2"] as const) {
      const party = clientAt(running, kind, NEWS);
      const { step } = await entered(party, { acr_values: MFA });
      expect([kind, step.done]).toEqual([kind, true]);
    }
  });
});

describe("acr_values without the scope openid (RFC 9470)", () => {
  it("asks a session for what is missing", async () => {
    const oauth2 = clientAt(running, "oauth2", NEWS);
    const { visitor, step } = await entered(oauth2);
    await visitor.browser.get(step.location ?? "");
    const secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
    await running.service.accounts.addApp(running.ada.sub, { secret });
    // Adding the app has ended the session.
    const { step: asked, visitor: next } = await entered(oauth2, { acr_values: MFA });
    expect(asked.step).toBe("second-factor");
    const { body } = await next.act(asked, "submit", { code: totpCode(secret, clock.now()) });
    await next.browser.get(body.location ?? "");
    await next.browser.get(oauth2.authorizeUrl({ acr_values: `${PASSKEY} ${MFA}`, prompt: "none" }));
    expect(next.browser.location?.searchParams.has("code")).toBe(true);
    // A parameter of ours can't be sent.
    await next.browser.get(oauth2.authorizeUrl({ sent_acr_values: PASSKEY }));
    expect(next.browser.location?.searchParams.has("code")).toBe(true);
  });
});

describe("somebody who has only the password", () => {
  it("can't skip the code, whatever is posted where [D-FACTOR-5]", async () => {
    const { visitor, step } = await entered();
    const base = step.actions.find(({ name }) => name === "submit")?.href.split("/enrol-confirm")[0] ?? "";
    const { credential } = newPasskey((await enrollingElsewhere()).step);
    for (const [path, values] of [
      ["/enrol?action=app", { code: "000000" }],
      ["/enrol?action=passkey", { credential, name: "Evil" }],
      ["/recovery-codes", { kept: true }],
      ["/recovery-codes?action=renew", {}],
      ["/second-factor", { code: "000000" }],
      ["/terms", { terms: "1" }],
    ] as const) {
      const answer = await visitor.post(`${base}${path}`, { csrf: step.csrf, ...values });
      expect([path, answer.status, answer.body.step]).toEqual([path, 200, "enrol-confirm"]);
    }
    const login = await visitor.post(base, { csrf: step.csrf, username: "", password: "" });
    expect(login.body.done).toBeUndefined();
    expect(hasSession(visitor)).toBe(false);
    await expect(running.service.accounts.factors(running.ada.sub)).resolves.toMatchObject({
      app: null,
      passkeys: [],
    });
  });

  it("gets five tries, and a code of another sign-in or account is worth nothing", async () => {
    const { visitor, step } = await entered();
    const first = await mailedCode();
    const other = await entered();
    const theirs = await mailedCode();
    const bob = await entered(vault, {}, BOB);
    for (const code of [theirs, await mailedCode(BOB.email), "00000000", "", "x".repeat(5_000)])
      expect((await visitor.act(step, "submit", { code })).status).toBe(400);
    for (let tries = 0; tries < 3; tries += 1) await visitor.act(step, "submit", { code: "00000000" });
    // Even the right code is too late.
    const late = await visitor.act(step, "submit", { code: first });
    expect([late.status, late.body.step, late.body.problems[0]?.code]).toEqual([
      400,
      "enrol-confirm",
      "no-tries",
    ]);
    expect((await other.visitor.act(other.step, "submit", { code: theirs })).body.step).toBe("enrol");
    expect(bob.step.step).toBe("enrol-confirm");
  });

  it("of one account, and then of another, sees nothing of the code of the first", async () => {
    const { visitor } = await entered();
    await mailedCode();
    const { body: login } = await visitor.act((await visitor.get()).body, "login");
    const { username, password } = BOB;
    const { body: step } = await visitor.act(login, "submit", { username, password });
    expect([step.step, step.email]).toEqual(["enrol-confirm", "b…@example.com"]);
    expect((await visitor.act(step, "submit", { code: await mailedCode(BOB.email) })).body.step).toBe(
      "enrol",
    );
  });

  it("has five minutes; then the password is asked for again, and the code still works", async () => {
    const { visitor, step } = await entered();
    const code = await mailedCode();
    clock.advance(299);
    expect((await visitor.get()).body.step).toBe("enrol-confirm");
    clock.advance(1);
    const { body: anew } = await visitor.act(step, "submit", { code });
    expect([anew.step, anew.notice?.code]).toEqual(["login", "begin-anew"]);
    const { username, password } = ADA;
    const { body: confirm } = await visitor.act(anew, "submit", { username, password });
    expect(confirm.step).toBe("enrol-confirm");
    expect((await visitor.act(confirm, "submit", { code })).body.step).toBe("enrol");
  });

  it("does nothing with somebody else's cookie or hidden field", async () => {
    const ada = await enrolling();
    const bob = await enrollingElsewhere();
    const { href = "" } = ada.step.actions.find(({ name }) => name === "app") ?? {};
    const values = { csrf: ada.step.csrf, code: appCode(ada.step) };
    expect((await bob.visitor.post(href, values)).status).toBe(410);
    const { href: own = "" } = bob.step.actions.find(({ name }) => name === "app") ?? {};
    expect((await bob.visitor.post(own, values)).status).toBe(403);
    // Each has a secret of its own.
    const foreign = await bob.visitor.act(bob.step, "app", { code: appCode(ada.step) });
    expect(foreign.status).toBe(400);
    const { credential } = newPasskey(ada.step);
    expect((await post(bob, "passkey", { credential, name: "Evil" })).status).toBe(400);
  });

  it("can't send the code to a mailbox of their own: for seven days it goes to the address before [D-FACTOR-7]", async () => {
    const address = "new@example.org";
    const base = new URL(running.openid).href;
    const browser = await signedIn(base, ADA);
    await browser.get(`${base}/account/email`);
    await browser.click("Change email address");
    await browser.submit(browser.form("email"), { email: address });
    await browser.submit(browser.form("code"), { code: codeIn(await running.mailTo(address)) });
    await expect(running.service.accounts.find(running.ada.sub)).resolves.toMatchObject({ email: address });
    const { step } = await entered();
    expect(step.email).toBe("a…@example.com");
    await mailedCode(ADA.email);
    clock.advance(8 * 86_400);
    const { step: later } = await entered();
    expect(later.email).toBe("n…@example.org");
    await mailedCode(address);
  });
});

describe("a set-up", () => {
  it("is used once, even at the same moment, for ten minutes [D-FACTOR-43]", async () => {
    const { visitor, step } = await enrolling();
    clock.advance(599);
    const code = appCode(step);
    const { credential } = newPasskey(step);
    const answers = await Promise.all([
      visitor.act(step, "app", { code }),
      visitor.act(step, "app", { code }),
      post({ visitor, step }, "passkey", { credential, name: "Phone" }),
    ]);
    const shown = answers.filter(({ body }) => body.recovery_codes !== undefined);
    expect(shown).toHaveLength(1);
    const factors = await running.service.accounts.factors(running.ada.sub);
    expect((factors?.app === null ? 0 : 1) + (factors?.passkeys.length ?? 0)).toBe(1);
    // The sign-in goes on where the one that was first has left it.
    expect((await visitor.get()).body.step).toBe("recovery-codes");
    const [codes] = shown.map(({ body }) => body);
    const { body: done } = await post({ visitor, step: codes! }, "submit", { kept: true });
    expect(done.done).toBe(true);
  });

  it.each([
    ["ten minutes", async () => clock.advance(600)],
    [
      "a new password",
      () => running.service.accounts.setPassword(running.ada.sub, "another password of ada"),
    ],
    ["the end of all sessions", () => running.service.accounts.endSessions(running.ada.sub)],
    [
      "another factor",
      () => running.service.accounts.addApp(running.ada.sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" }),
    ],
  ] as const)("ends with %s", async (_name, change) => {
    const { visitor, step } = await enrolling();
    const { credential } = newPasskey(step);
    await change();
    const late = await post({ visitor, step }, "passkey", { credential, name: "Phone" });
    expect(late.body.recovery_codes).toBeUndefined();
    expect(late.body.done).toBeUndefined();
    expect([late.body.notice?.code, late.body.problems[0]?.code]).toContain("begin-anew");
    expect((await running.service.accounts.factors(running.ada.sub))?.passkeys).toEqual([]);
  });
});

describe("recovery codes in a sign-in", () => {
  it("can't be given more time, whichever step asks for it", async () => {
    const { visitor, step } = await enrolled();
    clock.advance(3_590);
    const { body: late } = await visitor.get();
    expect(late.step).toBe("recovery-codes");
    expect(late.expires_in).toBeLessThanOrEqual(10);
    expect(late.actions.map(({ name }) => name)).not.toContain("more-time");
    const href = (step.actions[0]?.href ?? "").replace(/\/recovery-codes.*$/, "");
    for (const path of ["", "/login", "/forgot-password", "/recovery-codes"])
      await visitor.post(`${href}${path}?action=more-time`, { csrf: step.csrf });
    expect((await visitor.get()).body.expires_in).toBe(late.expires_in);
  });

  it("are replaced, and the old ones end; after two requests at once, the codes of one work [D-FACTOR-29]", async () => {
    const { visitor, step } = await enrolled();
    const answers = await Promise.all([visitor.act(step, "renew"), visitor.act(step, "renew")]);
    const made = answers.flatMap(({ body }) =>
      body.recovery_codes === undefined ? [] : [body.recovery_codes],
    );
    expect(made.length).toBeGreaterThan(0);
    const { body: again } = await visitor.get();
    expect([again.step, again.recovery_codes]).toEqual(["recovery-codes", undefined]);
    const { body: done } = await post({ visitor, step: again }, "submit", { kept: true });
    expect(done.done).toBe(true);
    const next = await entered();
    const works: unknown[] = [];
    for (const [code = ""] of [step.recovery_codes ?? [], ...made]) {
      const { body } = await next.visitor.act(next.step, "recovery", { code });
      works.push(body.done ?? false);
    }
    expect(works.filter((each) => each === true)).toHaveLength(1);
    expect(works[0]).toBe(false);
  });

  it("end with the sessions of the account: the person begins anew", async () => {
    const { visitor, step } = await enrolled();
    await running.service.accounts.endSessions(running.ada.sub);
    const { body } = await post({ visitor, step }, "submit", { kept: true });
    expect([body.step, body.notice?.code]).toEqual(["login", "begin-anew"]);
    expect(hasSession(visitor)).toBe(false);
  });
});

it("an address that was never confirmed is confirmed by the code [D-FACTOR-5]", async () => {
  const { visitor, step } = await entered(vault, {}, BOB);
  expect([step.step, step.email]).toEqual(["enrol-confirm", "b…@example.com"]);
  await expect(running.service.accounts.find(running.bob.sub)).resolves.toMatchObject({
    email_verified: false,
  });
  const { body } = await visitor.act(step, "submit", { code: await mailedCode(BOB.email) });
  await expect(running.service.accounts.find(running.bob.sub)).resolves.toMatchObject({
    email_verified: true,
  });
  const { body: codes } = await visitor.act(body, "app", { code: appCode(body) });
  const { body: done } = await post({ visitor, step: codes }, "submit", { kept: true });
  await expect(visitor.claims(vault, done.location)).resolves.toMatchObject({ acr: MFA });
});
