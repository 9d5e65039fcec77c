/** A browser in which the password is enough, because the person wanted it so: what it spares, and what ends it. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { formOf } from "../interactions/console-visitor.ts";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { ADA, BOB, NEWS, type RunningService, startService } from "./running-service.ts";

const [PASSWORD, MFA = ""] = KNOWN_ACRS;
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let clock: TestClock;
let running: RunningService;
let news: TestClient;
let visitor: JsonVisitor;

async function open(days: number | undefined): Promise<void> {
  clock = new TestClock();
  const secondFactor = days === undefined ? {} : { secondFactor: { remember: days } };
  running = await startService({ config: { ...secondFactor, clock } });
  news = clientAt(running, "openid", NEWS);
  visitor = new JsonVisitor(news.browser());
  for (const { sub } of [running.ada, running.bob])
    await running.service.accounts.addApp(sub, { secret: SECRET });
}
beforeEach(() => open(30));

/** The step after the right password. */
async function password(
  who: typeof ADA | typeof BOB = ADA,
  parameters: RequestParameters = {},
  at = visitor,
) {
  const { body: login } = await at.open(
    news.authorizeUrl({ scope: "openid", prompt: "login", ...parameters }),
  );
  const { body } = await at.act(login, "submit", { username: who.username, password: who.password });
  return body;
}

/** Forgets the session, as closing the browser and coming back after its end would. */
async function signOut(at = visitor): Promise<void> {
  await at.browser.get(`${running.openid}/oauth2/logout`);
  // Without a session, nothing is asked.
  if (at.browser.forms().length > 0) await at.browser.submit(at.browser.form("logout"), { logout: "yes" });
}

const claimsOf = (location?: string, at = visitor) => at.claims(news, location);

/** Signs in with the box ticked, and signs out. */
async function remember(who: typeof ADA | typeof BOB = ADA): Promise<void> {
  clock.advance(60);
  const step = await password(who);
  expect(step.fields[1]).toMatchObject({ name: "remember", type: "checkbox", required: false, value: "1" });
  const { body } = await visitor.act(step, "submit", { code: totpCode(SECRET, clock.now()), remember: "1" });
  await expect(claimsOf(body.location)).resolves.toMatchObject({ acr: MFA });
  await signOut();
}

/** A sign-in that asks for nothing special. */
const again = (who: typeof ADA | typeof BOB = ADA, parameters: RequestParameters = {}) =>
  password(who, { prompt: "consent", ...parameters });

/** Signs out everywhere else, in a browser of ada's that is not remembered. */
async function endOthers(): Promise<void> {
  await claimsOf((await again()).location);
  const other = new JsonVisitor(news.browser());
  clock.advance(60);
  const step = await password(ADA, {}, other);
  const { body } = await other.act(step, "submit", { code: totpCode(SECRET, clock.now()) });
  await claimsOf(body.location, other);
  await other.browser.get(`${running.openid}/account/sessions`);
  await other.browser.submit(formOf(other.browser, "others"));
  expect(other.browser.html).toContain("You are signed out everywhere but here.");
}

const hasCookie = (): boolean => visitor.browser.jar.all().some(({ name }) => name.includes("_remembered_"));

describe("a remembered browser", () => {
  it("is spared the second factor, and such a sign-in is one by password [D-FACTOR-24]", async () => {
    await remember();
    const claims = await claimsOf((await again()).location);
    expect(claims).toMatchObject({ amr: ["pwd"], acr: PASSWORD });
  });

  it("still needs the right password", async () => {
    await remember();
    const { body: login } = await visitor.open(news.authorizeUrl({ scope: "openid" }));
    const { status, body } = await visitor.act(login, "submit", {
      username: ADA.username,
      password: "wrong",
    });
    expect([status, body.step]).toEqual([400, "login"]);
  });

  it.each<[string, RequestParameters]>([
    ["a new sign-in", { prompt: "login" }],
    ["a recent one", { max_age: "300" }],
    ["a recent one without openid", { scope: "profile", max_age: "300" }],
    ["acr_values", { acr_values: MFA }],
    ["acr_values without openid", { scope: "profile", acr_values: MFA }],
    ["an essential acr", { claims: JSON.stringify({ id_token: { acr: { essential: true, value: MFA } } }) }],
  ])("is asked for it where the request wants %s", async (_what, parameters) => {
    await remember();
    const step = await again(ADA, parameters);
    expect(step.step).toBe("second-factor");
  });

  it("is asked for it by a client that needs it [D-FACTOR-24]", async () => {
    await remember();
    await running.service.clients.update(NEWS.client_id, {
      password_grant: false,
      second_factor: "required",
    });
    expect((await again()).step).toBe("second-factor");
  });

  it("is asked once more where a later request of the session wants that", async () => {
    await remember();
    await claimsOf((await again()).location);
    await visitor.browser.get(news.authorizeUrl({ scope: "openid", max_age: "3600", prompt: "none" }));
    expect(visitor.browser.location?.searchParams.get("error")).toBe("login_required");
    const { body: login } = await visitor.open(news.authorizeUrl({ scope: "openid", max_age: "3600" }));
    const { body: step } = await visitor.act(login, "submit", {
      username: ADA.username,
      password: ADA.password,
    });
    expect(step.step).toBe("second-factor");
    clock.advance(60);
    const { body } = await visitor.act(step, "submit", { code: totpCode(SECRET, clock.now()) });
    await expect(claimsOf(body.location)).resolves.toMatchObject({ acr: MFA });
    await visitor.browser.get(news.authorizeUrl({ scope: "openid", max_age: "3600", prompt: "none" }));
    expect(visitor.browser.location?.searchParams.has("code")).toBe(true);
  });

  it("changes nothing of the account before everything is shown", async () => {
    await remember();
    await claimsOf((await again()).location);
    const { body } = await visitor.open(`${running.oauth2}/account/password`);
    expect(body.step).toBe("reauthenticate");
    const { body: step } = await visitor.act(body, "submit", { password: ADA.password });
    expect(step.step).toBe("second-factor");
  });

  it("is remembered for the accounts that asked, and for no other", async () => {
    await remember();
    expect((await again(BOB)).step).toBe("second-factor");
    await remember(BOB);
    for (const who of [ADA, BOB]) {
      expect((await again(who)).done).toBe(true);
      await signOut();
    }
  });

  it("does not count with a cookie that was made up [D-FACTOR-22]", async () => {
    await remember();
    const stolen = visitor.browser.jar.all().find(({ name }) => name.includes("_remembered_"));
    const name = stolen?.name ?? "";
    for (const value of ["A".repeat(43), "", `${stolen?.value}x`]) {
      const other = new JsonVisitor(news.browser());
      other.browser.jar.take(new URL(running.openid), [`${name}=${value}; Path=/`]);
      expect((await password(ADA, { prompt: "consent" }, other)).step).toBe("second-factor");
    }
  });

  it("is not remembered without the box ticked, or with another value [D-FACTOR-21]", async () => {
    for (const values of [{}, { remember: "0" }, { remember: "true" }]) {
      clock.advance(60);
      const step = await password();
      const { body } = await visitor.act(step, "submit", { code: totpCode(SECRET, clock.now()), ...values });
      await claimsOf(body.location);
      expect(hasCookie()).toBe(false);
    }
  });

  it("is not remembered after a recovery code, which may be all that is left of a lost app", async () => {
    const { recovery_codes } = await running.service.accounts.resetRecoveryCodes(running.ada.sub);
    const step = await password();
    const { body } = await visitor.act(step, "recovery", { code: recovery_codes[0] ?? "", remember: "1" });
    await expect(claimsOf(body.location)).resolves.toMatchObject({ acr: MFA });
    expect(hasCookie()).toBe(false);
  });

  it("is not remembered by a step-up, which does not offer it", async () => {
    await remember();
    await claimsOf((await again()).location);
    const { jar } = visitor.browser;
    jar.clear(jar.all().find(({ name }) => name.includes("_remembered_"))?.name ?? "");
    clock.advance(60);
    const { body: step } = await visitor.open(news.authorizeUrl({ scope: "openid", acr_values: MFA }));
    expect([step.step, step.fields.map(({ name }) => name)]).toEqual(["second-factor", ["code"]]);
    const { body } = await visitor.act(step, "submit", {
      code: totpCode(SECRET, clock.now()),
      remember: "1",
    });
    await expect(claimsOf(body.location)).resolves.toMatchObject({ acr: MFA });
    expect(hasCookie()).toBe(false);
  });

  it("is not remembered after a wrong code: only the box stays ticked", async () => {
    const step = await password();
    const { body } = await visitor.act(step, "submit", { code: "000000", remember: "1" });
    expect(body.fields[1]).toMatchObject({ name: "remember", value: "1", checked: true });
    const { body: other } = await visitor.act(body, "submit", { code: "000000" });
    expect(other.fields[1]?.checked).toBe(false);
    expect(hasCookie()).toBe(false);
  });

  it.each<[string, (sub: string) => Promise<unknown>]>([
    ["a new password", (sub) => running.service.accounts.setPassword(sub, "another good password")],
    ["a new address", (sub) => running.service.accounts.update(sub, { email: "ada@elsewhere.example" })],
    ["the end of all sessions", (sub) => running.service.accounts.endSessions(sub)],
    ["new recovery codes", (sub) => running.service.accounts.resetRecoveryCodes(sub)],
    ["all others signed out on the page of sessions", endOthers],
    ["30 days", async () => clock.advance(30 * 86_400)],
  ])("ends with %s [D-FACTOR-23]", async (what, act) => {
    await remember();
    await act(running.ada.sub);
    const changed = what === "a new password" ? { ...ADA, password: "another good password" } : ADA;
    expect((await again(changed)).step).toBe("second-factor");
  });

  it("ends with another app, and does not exist for an account without a second factor", async () => {
    await remember();
    const { accounts } = running.service;
    await accounts.removeFactors(running.ada.sub);
    await accounts.addApp(running.ada.sub, { secret: SECRET });
    expect((await again()).step).toBe("second-factor");
  });

  it("is listed among the sessions, and forgotten there [D-FACTOR-23]", async () => {
    await remember();
    await claimsOf((await again()).location);
    await visitor.browser.get(`${running.oauth2}/account/sessions`);
    expect(visitor.browser.html).toContain("Remembered browsers");
    await visitor.browser.submit(visitor.browser.form("remembered"), {});
    expect(visitor.browser.html).toContain("This browser is no longer remembered.");
    const { items: records } = await running.service.audit.list({ account: running.ada.sub, limit: 200 });
    const actions = ["account.browser_forgotten", "account.browser_remembered"];
    const ofBrowsers = records.filter(({ action }) => actions.includes(action));
    expect(ofBrowsers.map(({ action }) => action)).toEqual(actions);
    for (const { actor, subject } of ofBrowsers)
      expect([actor, subject]).toEqual([{ kind: "account", id: running.ada.sub }, running.ada.sub]);
    await signOut();
    expect((await again()).step).toBe("second-factor");
  });
});

describe("where browsers are not remembered", () => {
  beforeEach(async () => {
    await running.close();
    await open(undefined);
  });

  it("there is no box to tick, and a value for it does nothing [D-FACTOR-21]", async () => {
    const step = await password();
    expect(step.fields.map(({ name }) => name)).toEqual(["code"]);
    const { body } = await visitor.act(step, "submit", {
      code: totpCode(SECRET, clock.now()),
      remember: "1",
    });
    await claimsOf(body.location);
    expect(hasCookie()).toBe(false);
  });
});
