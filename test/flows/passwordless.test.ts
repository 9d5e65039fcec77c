/** Registration without a password, in a sign-in: what the JSON interface does, and what a hostile program can't. */
import { describe, expect, it } from "@jest/globals";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import { type AnswerOverrides, createAuthenticator } from "../../testing/authenticator.ts";
import { TestClock } from "../../testing/test-clock.ts";
import {
  type JsonAnswer,
  JsonVisitor,
  publicKeyOf,
  atLogin,
  type Waiting,
} from "../interactions/json-visitor.ts";
import { codeIn, linkIn, startSelfService } from "../interactions/self-service.ts";
import type { RequestParameters } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { BOB, NEWS, onLocalhost } from "./running-service.ts";
import { beforeTests } from "../closing.ts";

const PASSKEY = KNOWN_ACRS[2];
const PASSWORD = "grapefruit under the stairs";
let people = 0;
const clock = new TestClock();

const running = beforeTests(() =>
  startSelfService(
    { registration: { fields: { username: "optional" }, passwordless: true } },
    { config: { clock }, deployments: onLocalhost },
  ),
);
const news = clientAt(running, "openid", NEWS);

type Step = JsonAnswer["body"];
interface Registering extends Waiting {
  readonly email: string;
}

const newAddress = (): string => `person-${(people += 1)}@example.org`;

/** Sends the form without a password. */
async function registering(
  values: Record<string, string> = {},
  parameters: RequestParameters = {},
): Promise<Registering> {
  const { visitor, step: first } = await atLogin(news, { scope: "openid", ...parameters });
  const register = first.step === "register" ? first : (await visitor.act(first, "register")).body;
  const email = values["email"] ?? newAddress();
  const { body: step } = await visitor.act(register, "without-password", { email, ...values });
  return { visitor, step, email };
}

async function confirmed({ visitor, step, email }: Registering): Promise<Registering> {
  const { body } = await visitor.act(step, "submit", { code: codeIn(await running.mailTo(email)) });
  return { visitor, step: body, email };
}

/** Where the passkey is made. */
async function atPasskey(
  values: Record<string, string> = {},
  parameters: RequestParameters = {},
): Promise<Registering> {
  const waiting = await confirmed(await registering(values, parameters));
  expect(waiting.step.step).toBe("enrol");
  return waiting;
}

function post({ visitor, step }: Registering, credential: unknown, name = "Phone", action = "passkey") {
  const [href = ""] = (step.actions.find((each) => each.name === "passkey")?.href ?? "").split("?");
  return visitor.post(`${href}?action=${action}`, { csrf: step.csrf, credential, name });
}

const newPhone = (origin = new URL(running.openid).origin) => createAuthenticator({ origin });
const made = ({ step }: Registering, overrides: AnswerOverrides = {}, phone = newPhone()) =>
  phone.create(publicKeyOf(step), overrides);

const accountOf = (login: string) => running.service.accounts.findByLogin(login);
const namesOf = ({ actions }: Step): readonly string[] => actions.map(({ name }) => name);

describe("a person who registers without a password", () => {
  it.each([
    ["at the sign-in", {}],
    ["with prompt=create", { prompt: "create" }],
  ])(
    "%s makes a passkey, keeps the codes, and signs in with it from then on [D-FACTOR-42]",
    async (_how, parameters) => {
      const username = `ada-${people}`;
      const waiting = await atPasskey({ username }, parameters);
      const { visitor, step, email } = waiting;
      expect(await accountOf(email)).toBeUndefined();
      expect(step).toMatchObject({ title: "Create your passkey", fields: [{ name: "name" }] });
      expect([step.app, namesOf(step)]).toEqual([undefined, ["passkey", "register", "login"]]);
      const options = publicKeyOf(step);
      expect([options.user.name, options.excludeCredentials]).toEqual([username, []]);
      // The same each time it is shown.
      expect(publicKeyOf((await visitor.get()).body)).toEqual(options);
      const phone = newPhone();
      const { body: codes } = await post(waiting, made(waiting, {}, phone));
      expect([codes.step, codes.recovery_codes?.length]).toEqual(["recovery-codes", 10]);
      const account = await accountOf(username);
      expect(account).toMatchObject({ email, email_verified: true });
      const { body: done } = await visitor.act(codes, "submit", { kept: true });
      const claims = await visitor.claims(news, done.location);
      expect(claims).toMatchObject({ sub: account?.sub, acr: PASSKEY, amr: ["swk", "user", "mfa"] });
      const { text } = await running.mailTo(email);
      expect([text.includes("passkey"), /confirm\?token=/.test(text)]).toEqual([true, true]);
      const { visitor: later, step: login } = await atLogin(news, { scope: "openid" });
      const credential = phone.get(publicKeyOf(login));
      const { body: back } = await later.act(login, "passkey", { credential });
      expect((await later.claims(news, back.location)).sub).toBe(account?.sub);
    },
  );

  it("sets a password later, and deletes the account", async () => {
    const waiting = await atPasskey();
    const { visitor, email } = waiting;
    const { body: codes } = await post(waiting, made(waiting));
    await visitor.browser.get((await visitor.act(codes, "submit", { kept: true })).body.location ?? "");
    const { browser } = visitor;
    await browser.get(`${running.openid}/account/password`);
    expect(browser.html).toContain(">Set password<");
    await browser.submit(browser.form("password"), { password: PASSWORD });
    await browser.get(`${running.openid}/account/password`);
    expect(browser.html).toContain(">Change password<");
    const { sub = "" } = (await accountOf(email)) ?? {};
    await expect(running.service.accounts.verifyPassword(sub, PASSWORD)).resolves.toBe(true);
    await browser.get(`${running.openid}/account/delete`);
    await browser.submit(browser.form("csrf"));
    expect(browser.title).toBe("Your account has been deleted");
    expect(await accountOf(email)).toBeUndefined();
  });

  it("shows the passkey for a recent sign-in: there is no password to ask for", async () => {
    const phone = newPhone();
    const waiting = await atPasskey();
    const { visitor } = waiting;
    const { body: codes } = await post(waiting, made(waiting, {}, phone));
    await visitor.browser.get((await visitor.act(codes, "submit", { kept: true })).body.location ?? "");
    clock.advance(301);
    const { body: step } = await visitor.open(`${running.openid}/account/password`);
    expect([step.step, step.fields, namesOf(step)]).toEqual([
      "reauthenticate",
      [],
      ["passkey", "forgot-password", "login"],
    ]);
    expect(step.actions.map(({ label }) => label)[1]).toBe("Set a password by email");
    const href = step.actions[0]?.href ?? "";
    const guessed = { csrf: step.csrf, password: PASSWORD };
    expect((await visitor.post(href.split("?")[0] ?? "", guessed)).body.error).toBe("invalid_request");
    const credential = phone.get(publicKeyOf(step));
    const { body: done } = await visitor.post(href, { csrf: step.csrf, credential });
    await visitor.browser.get(done.location ?? "");
    expect(visitor.browser.url.pathname).toBe("/openid/account/password");
  });

  it("gets a password by mail after losing the passkey, and needs a recovery code with it [D-FACTOR-42]", async () => {
    const waiting = await atPasskey();
    const { email } = waiting;
    const { body: codes } = await post(waiting, made(waiting));
    const { visitor, step: login } = await atLogin(news, { scope: "openid" });
    const wrong = await visitor.act(login, "submit", { username: email, password: PASSWORD });
    expect([wrong.status, wrong.body.problems[0]?.code]).toEqual([400, "wrong"]);
    const { body: forgot } = await visitor.act(login, "forgot-password");
    const { body: reset } = await visitor.act(forgot, "submit", { username: email });
    let code = "";
    while (code === "") code = codeIn(await running.mailTo(email));
    const { body: again } = await visitor.act(reset, "submit", { code, password: PASSWORD });
    const { body: factor } = await visitor.act(again, "submit", { username: email, password: PASSWORD });
    expect(factor.step).toBe("second-factor");
    const [first = ""] = codes.recovery_codes ?? [];
    const { body: review } = await visitor.act(factor, "recovery", { code: first });
    expect(review.step).toBe("review-methods");
  });

  it("follows the link of the mail in this browser", async () => {
    const { visitor, email } = await registering();
    const { browser } = visitor;
    await browser.get(linkIn(await running.mailTo(email)));
    await browser.submit(browser.form("csrf"));
    expect(browser.title).toBe("Create your passkey");
    await browser.click("Choose a password instead");
    await browser.submit(browser.form("email"), { email, password: PASSWORD });
    await browser.submit(browser.form("code"), { code: codeIn(await running.mailTo(email)) });
    expect(browser.location?.searchParams.get("code")).toEqual(expect.any(String));
    const { sub = "" } = (await accountOf(email)) ?? {};
    await expect(running.service.accounts.factors(sub)).resolves.toMatchObject({ passkeys: [] });
  });

  it("chooses another username if somebody takes it while the passkey is made", async () => {
    const username = `eve-${people}`;
    const waiting = await atPasskey({ username });
    await running.service.accounts.create({ email: newAddress(), username });
    const { body: rename } = await post(waiting, made(waiting));
    expect([rename.step, rename.notice?.code, rename.email]).toEqual([
      "confirm-email",
      "username-taken",
      waiting.email,
    ]);
    const { body: enrol } = await waiting.visitor.act(rename, "submit", { username: `${username}-2` });
    const again = { ...waiting, step: enrol };
    // The same user handle: on the device, the second passkey replaces the first, which belongs to no account.
    expect(publicKeyOf(enrol).user).toMatchObject({
      name: `${username}-2`,
      id: publicKeyOf(waiting.step).user.id,
    });
    // The first ceremony is over.
    expect((await post(again, made(waiting))).body.problems[0]?.code).toBe("new-passkey-refused");
    expect((await post(again, made(again))).body.step).toBe("recovery-codes");
    expect(await accountOf(`${username}-2`)).toMatchObject({ email: waiting.email });
  });

  it("begins again if somebody takes the address meanwhile, or after ten minutes", async () => {
    const taken = await atPasskey();
    await running.service.accounts.create({ email: taken.email });
    const late = await atPasskey();
    const expired = await post(taken, made(taken));
    expect([expired.body.step, expired.body.notice?.code]).toEqual(["register", "expired"]);
    const shown = await atPasskey();
    clock.advance(601);
    for (const answer of [await post(late, made(late)), await shown.visitor.get()])
      expect([answer.body.step, answer.body.notice?.code]).toEqual(["register", "expired"]);
    expect(await accountOf(late.email)).toBeUndefined();
    const [handle, ...others] = [shown, late, taken].map(({ step }) => publicKeyOf(step).user.id);
    expect(others).not.toContain(handle);
    const { body: register } = await shown.visitor.get();
    const { body: step } = await shown.visitor.act(register, "without-password", { email: newAddress() });
    const again = await confirmed({ ...shown, step, email: `person-${people}@example.org` });
    expect(publicKeyOf(again.step).user.id).toBe(handle);
    expect((await post(again, made(again))).body.step).toBe("recovery-codes");
  });
});

/** The answer without what differs from one sign-in to the next. */
function stable({
  step: { csrf: _csrf, again: _again, actions, email: _email, text: _text, ...rest },
}: Registering) {
  return { ...rest, actions: actions.map(({ name, label }) => [name, label]) };
}

describe("what makes no account", () => {
  it("is a form without an address, or one without the password that it asks for", async () => {
    const { step } = await registering({ email: "" });
    expect([step.step, step.problems]).toMatchObject(["register", [{ code: "required", fields: ["email"] }]]);
    const { visitor, step: login } = await atLogin(news);
    const { body: register } = await visitor.act(login, "register");
    const { status } = await visitor.act(register, "submit", { email: newAddress() });
    expect(status).toBe(400);
  });

  it("is an address of somebody else: it gets the same answer, and a mail without a code", async () => {
    const known = await registering({ email: BOB.email });
    const unknown = await registering();
    expect(stable(known)).toEqual(stable(unknown));
    expect(codeIn(await running.mailTo(BOB.email))).toBe("");
  });

  it("is a passkey before the code, with a wrong code, or in another browser", async () => {
    const before = await registering();
    const after = await atPasskey();
    const path = (after.step.actions[0]?.href ?? "").split("?")[0]?.replace(/[^/]+\/enrol$/, "") ?? "";
    const id = /interaction\/([^/?]+)/.exec(before.step.actions[0]?.href ?? "")?.[1] ?? "";
    const skipped = await before.visitor.post(`${path}${id}/enrol?action=passkey`, {
      csrf: before.step.csrf,
      name: "Phone",
      credential: made(after),
    });
    expect(skipped.body.step).toBe("confirm-email");
    const wrong = await before.visitor.act(before.step, "submit", { code: "00000000" });
    expect([wrong.status, wrong.body.step]).toEqual([400, "confirm-email"]);
    const stranger = { ...after, visitor: new JsonVisitor() };
    const href = new URL(after.step.actions[0]?.href ?? "", running.openid).href;
    expect((await stranger.visitor.post(href, { csrf: after.step.csrf, name: "x" })).status).toBe(410);
    // The token of another sign-in, in the browser that has this one.
    const forged = { ...after, step: { ...after.step, csrf: before.step.csrf } };
    expect((await post(forged, made(after))).status).toBe(403);
    for (const email of [before.email, after.email]) expect(await accountOf(email)).toBeUndefined();
  });

  it("is a passkey that is not what was asked for", async () => {
    const waiting = await atPasskey();
    const other = await atPasskey();
    const good = made(waiting);
    const elsewhere = newPhone("https://evil.example");
    for (const credential of [
      made(other),
      made(waiting, { challenge: "AAAA" }),
      made(waiting, { type: "webauthn.get" }),
      made(waiting, { origin: "https://evil.example" }),
      made(waiting, { crossOrigin: true }),
      made(waiting, { rpId: "evil.example" }),
      made(waiting, { userVerified: false }),
      made(waiting, { userPresent: false }),
      made(waiting, {}, elsewhere),
      { ...good, id: made(other).id },
      { ...good, response: {} },
      { ...good, type: "password" },
      {},
    ]) {
      const { status, body } = await post(waiting, credential);
      expect([status, body.step, body.problems[0]?.code]).toEqual([400, "enrol", "new-passkey-refused"]);
    }
    for (const credential of ["", "x", "[]", "null", `{"id":"${"A".repeat(20_000)}"}`])
      expect((await post(waiting, credential)).body.problems[0]?.code).toBe("new-passkey-refused");
    for (const name of ["", " ", "x".repeat(65), "a\nb"])
      expect((await post(waiting, good, name)).status).toBe(400);
    for (const action of ["app", "later", "submit", "without-password", "recovery"])
      expect((await post(waiting, good, "Phone", action)).body.error).toBe("invalid_request");
    expect(await accountOf(waiting.email)).toBeUndefined();
    expect((await post(waiting, good)).body.step).toBe("recovery-codes");
    // Nothing of it works twice, and the passkey belongs to one account.
    const twice = await post(waiting, good);
    expect(twice.body.step).toBe("recovery-codes");
    expect(twice.body.recovery_codes).toBeUndefined();
    expect(await accountOf(waiting.email)).toBeDefined();
  });

  it("is the second of two forms at once", async () => {
    const waiting = await atPasskey();
    const answers = await Promise.all([post(waiting, made(waiting)), post(waiting, made(waiting))]);
    const codes = answers.filter(({ body }) => body.recovery_codes !== undefined);
    expect(codes).toHaveLength(1);
    const { sub = "" } = (await accountOf(waiting.email)) ?? {};
    const factors = await running.service.accounts.factors(sub);
    expect(factors?.passkeys).toHaveLength(1);
  });
});
