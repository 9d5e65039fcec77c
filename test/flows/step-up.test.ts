/** Passkeys as a second factor, and the step-up of a session, with an authenticator whose signatures are real. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import {
  type AnswerOverrides,
  createAuthenticator,
  type TestAuthenticator,
} from "../../testing/authenticator.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { type JsonAnswer, JsonVisitor, publicKeyOf, atLogin } from "../interactions/json-visitor.ts";
import { startSelfService } from "../interactions/self-service.ts";
import type { RequestParameters, TestClient } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { ADA, BOB, NEWS, onLocalhost, type RunningService } from "./running-service.ts";

const [, MFA = "", PASSKEY = ""] = KNOWN_ACRS;
const essential = {
  scope: "openid",
  claims: JSON.stringify({ id_token: { acr: { essential: true, value: PASSKEY } } }),
};
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const PASSWORDS = {
  [ADA.username]: ADA.password,
  [BOB.username]: BOB.password,
};

let clock: TestClock;
let running: RunningService;
let news: TestClient;
let phone: TestAuthenticator;
beforeEach(async () => {
  clock = new TestClock();
  running = await startSelfService(undefined, {
    config: { clock },
    deployments: onLocalhost,
  });
  news = clientAt(running, "openid", NEWS);
  await running.service.accounts.addApp(running.ada.sub, { secret: SECRET });
  phone = await addPhone(running, running.ada.sub, clock);
});

async function halfway(username: string = ADA.username, parameters: RequestParameters = {}) {
  const { visitor, step: login } = await atLogin(news, { scope: "openid", ...parameters });
  const { body: step } = await visitor.act(login, "submit", {
    username,
    password: PASSWORDS[username] ?? "",
  });
  expect(step.step).toBe("second-factor");
  return { visitor, step };
}

function withCredential(
  { visitor, step }: { readonly visitor: JsonVisitor; readonly step: JsonAnswer["body"] },
  credential: unknown,
): Promise<JsonAnswer> {
  return visitor.act(step, "passkey", { credential });
}

async function idTokenOf(visitor: JsonVisitor, location = ""): Promise<string> {
  await visitor.browser.get(location);
  return (await news.tokensOf(visitor.browser)).id_token ?? "";
}

async function refused(found: Awaited<ReturnType<typeof halfway>>, overrides: AnswerOverrides) {
  const asked = publicKeyOf(found.step);
  const { body } = await withCredential(found, phone.get(asked, overrides));
  expect([body.step, body.notice?.code]).toEqual(["second-factor", "passkey-refused"]);
  expect(publicKeyOf(body).challenge).not.toBe(asked.challenge);
  const cookies = found.visitor.browser.jar.all().map(({ name }) => name);
  expect(cookies.filter((name) => /_session_|_device_/.test(name))).toEqual([]);
}

describe("a passkey after the password", () => {
  it("signs in, is bound to the account, and says so in the ID token [D-FACTOR-3, D-FACTOR-16, D-FACTOR-33]", async () => {
    const found = await halfway();
    expect(publicKeyOf(found.step).allowCredentials.map(({ id }) => id)).toEqual(phone.ids);
    const { body } = await withCredential(found, phone.get(publicKeyOf(found.step)));
    const claims = await found.visitor.claims(news, body.location);
    expect(claims["acr"]).toBe(PASSKEY);
    expect(claims["amr"]).toEqual(["pwd", "swk", "user", "mfa"]);
  });

  it("is refused with a wrong answer, and the step goes on with another challenge [D-FACTOR-32]", async () => {
    await refused(await halfway(), { origin: "https://evil.example" });
  });

  it("is refused with a counter that it has shown before", async () => {
    const found = await halfway();
    const before = await withCredential(found, phone.get(publicKeyOf(found.step), { counter: 5 }));
    expect(before.body.done).toBe(true);
    await refused(await halfway(), { counter: 5 });
  });

  it("of another account is refused [D-FACTOR-33]", async () => {
    const other = await addPhone(running, running.bob.sub, clock);
    const found = await halfway();
    const asked = { ...publicKeyOf(found.step), allowCredentials: [] };
    const { body } = await withCredential(found, other.get(asked));
    expect(body.notice?.code).toBe("passkey-refused");
  });

  it("answers the challenge of its own sign-in, once", async () => {
    const [first, second] = [await halfway(), await halfway()];
    const answer = phone.get(publicKeyOf(first.step));
    const { body: elsewhere } = await withCredential(second, answer);
    expect(elsewhere.notice?.code).toBe("passkey-refused");
    const both = await Promise.all([withCredential(first, answer), withCredential(first, answer)]);
    expect(both.filter(({ body }) => body.done)).toHaveLength(1);
  });
});

describe("the end of a sign-in, opened in two tabs at once", () => {
  it("gives one code", async () => {
    const { visitor, step } = await halfway();
    const { body } = await visitor.act(step, "submit", { code: totpCode(SECRET, clock.now()) });
    const cookie = visitor.browser.jar.header(new URL(body.location ?? ""));
    const tabs = await Promise.all(
      Array.from({ length: 4 }, () =>
        fetch(body.location ?? "", { headers: { cookie }, redirect: "manual" }),
      ),
    );
    const codes = tabs.filter(({ headers }) => headers.get("location")?.includes("code="));
    expect(codes).toHaveLength(1);
  });
});

describe("a sign-in that several forms finish at once", () => {
  it.each([
    [
      "as pages",
      "application/x-www-form-urlencoded",
      (values: object) => String(new URLSearchParams({ ...values })),
    ],
    ["as JSON", "application/json", (values: object) => JSON.stringify(values)],
  ])("gives one code, and nothing else goes wrong: %s", async (_how, type, written) => {
    const { visitor, step } = await atLogin(news, { scope: "openid" });
    const url = new URL(step.actions[0]?.href ?? "", running.openid);
    const { jar } = visitor.browser;
    const body = written({ csrf: step.csrf, username: BOB.username, password: BOB.password });
    const headers = { cookie: jar.header(url), origin: url.origin, "content-type": type, accept: type };
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => fetch(url, { method: "POST", headers, body, redirect: "manual" })),
    );
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    const locations = await Promise.all(
      answers.map(async (answer): Promise<string> => {
        const to = answer.headers.get("location");
        if (type !== "application/json") return to ?? "";
        return ((await answer.json()) as { readonly location?: string }).location ?? "";
      }),
    );
    const found = locations.filter((location) => location !== "");
    expect(found.length).toBeGreaterThan(0);
    const ends = await Promise.all(
      found.map((location) => {
        const to = new URL(location, url);
        return fetch(to, { headers: { cookie: jar.header(to) }, redirect: "manual" });
      }),
    );
    expect(ends.filter(({ status }) => status >= 500)).toEqual([]);
    expect(ends.filter((end) => end.headers.get("location")?.includes("code="))).toHaveLength(1);
  });
});

describe("a session by password and code", () => {
  async function signedIn(): Promise<{ readonly visitor: JsonVisitor }> {
    const { visitor, step } = await halfway();
    const { body } = await visitor.act(step, "submit", { code: totpCode(SECRET, clock.now()) });
    await expect(visitor.claims(news, body.location)).resolves.toMatchObject({ acr: MFA });
    clock.advance(600);
    return { visitor };
  }
  it.each<[string, RequestParameters]>([
    ["acr_values", { scope: "openid", acr_values: `${PASSKEY} ${MFA}` }],
    ["an essential acr", essential],
  ])(
    "steps up to a passkey for %s: only that is asked, and auth_time stays [D-FACTOR-14, D-FACTOR-19]",
    async (_name, parameters) => {
      const { visitor } = await signedIn();
      const { body: step } = await visitor.open(news.authorizeUrl(parameters));
      expect([step.step, step.fields]).toEqual(["second-factor", []]);
      expect(step.actions.map(({ name }) => name)).toEqual(["passkey", "login"]);
      const { body } = await withCredential({ visitor, step }, phone.get(publicKeyOf(step)));
      await expect(visitor.claims(news, body.location)).resolves.toMatchObject({ acr: PASSKEY });
      // The sign-in is as old as before, so it is not recent.
      await visitor.browser.get(news.authorizeUrl({ scope: "openid", max_age: "300", prompt: "none" }));
      expect(visitor.browser.location?.searchParams.get("error")).toBe("login_required");
    },
  );

  it("is asked for nothing more where acr_values prefer what it has [D-FACTOR-19]", async () => {
    const { visitor } = await signedIn();
    await visitor.browser.get(news.authorizeUrl({ scope: "openid", acr_values: `${MFA} ${PASSKEY}` }));
    expect(visitor.browser.location?.searchParams.has("code")).toBe(true);
  });

  it("does not step up without the person [D-FACTOR-18, D-FACTOR-19]", async () => {
    const { visitor } = await signedIn();
    await visitor.browser.get(news.authorizeUrl({ ...essential, prompt: "none" }));
    expect(visitor.browser.location?.searchParams.get("error")).toBe("interaction_required");
    const wish = news.authorizeUrl({ scope: "openid", acr_values: PASSKEY, prompt: "none" });
    await expect(visitor.claims(news, wish)).resolves.toMatchObject({ acr: MFA });
  });

  it("asks for everything where the request also wants a recent sign-in [D-FACTOR-13]", async () => {
    const { visitor } = await signedIn();
    const { body } = await visitor.open(news.authorizeUrl({ ...essential, max_age: "300" }));
    expect(body.step).toBe("login");
  });

  it.each<[string, RequestParameters]>([
    ["acr_values", { scope: "openid", acr_values: PASSKEY }],
    ["an essential acr", essential],
  ])("steps up for %s if the hint names its person; else everything is asked for", async (_name, wish) => {
    const { visitor: bob, step: login } = await atLogin(news, { scope: "openid" });
    const { body: end } = await bob.act(login, "submit", { username: BOB.username, password: BOB.password });
    const idTokens = [await idTokenOf(bob, end.location)];
    const { visitor } = await signedIn();
    idTokens.unshift(await idTokenOf(visitor, news.authorizeUrl({ scope: "openid", prompt: "none" })));
    const steps: JsonAnswer["body"][] = [];
    for (const id_token_hint of idTokens)
      steps.push((await visitor.open(news.authorizeUrl({ ...wish, id_token_hint }))).body);
    expect(steps.map(({ step }) => step)).toEqual(["second-factor", "login"]);
    // Ada may sign in again, with everything: the client asked for bob, and gets nobody.
    const [, step] = steps;
    const { body: asked } = await visitor.act(step!, "submit", {
      username: ADA.username,
      password: ADA.password,
    });
    const { body } = await withCredential({ visitor, step: asked }, phone.get(publicKeyOf(asked)));
    await visitor.browser.get(body.location ?? "");
    const { searchParams } = visitor.browser.location ?? new URL("x:");
    expect([searchParams.get("error"), searchParams.has("code")]).toEqual(["login_required", false]);
  });

  it("can't step up once it has ended", async () => {
    const { visitor } = await signedIn();
    const { body: step } = await visitor.open(news.authorizeUrl(essential));
    await running.service.accounts.endSessions(running.ada.sub);
    const { status } = await withCredential({ visitor, step }, phone.get(publicKeyOf(step)));
    expect(status).toBe(410);
    await visitor.browser.get(news.authorizeUrl({ prompt: "none" }));
    expect(visitor.browser.location?.searchParams.get("error")).toBe("login_required");
  });
});

describe("an essential passkey, and bob, who has only an app", () => {
  let visitor: JsonVisitor;
  let recovery: string;
  beforeEach(async () => {
    const added = await running.service.accounts.addApp(running.bob.sub, { secret: SECRET });
    recovery = added.recovery_codes[0] ?? "";
  });

  /** Bob with a session of an app, a while ago. */
  async function signedIn(): Promise<void> {
    const found = await halfway(BOB.username);
    visitor = found.visitor;
    const { body } = await visitor.act(found.step, "submit", { code: totpCode(SECRET, clock.now()) });
    await visitor.claims(news, body.location);
    clock.advance(600);
  }

  function add(step: JsonAnswer["body"]): Promise<JsonAnswer> {
    const asked = step.passkey?.publicKey;
    if (asked === undefined || !("rp" in asked)) throw new Error("the step asks for no new passkey");
    const credential = createAuthenticator({ origin: new URL(running.openid).origin }).create(asked);
    return visitor.act(step, "passkey", { credential, name: "Phone" });
  }

  it.each([
    ["the app", "submit", true],
    ["a recovery code", "recovery", false],
  ] as const)(
    "adds one after the password and %s, and is signed in with it",
    async (_by, action, isStepUp) => {
      if (isStepUp) await signedIn();
      else visitor = new JsonVisitor(news.browser());
      // A session alone must not add a factor.
      const { body: login } = await visitor.open(news.authorizeUrl({ ...essential, max_age: "9999" }));
      expect(login.step).toBe("login");
      const { username, password } = BOB;
      const { body: asked } = await visitor.act(login, "submit", { username, password });
      expect([asked.step, asked.actions.map(({ name }) => name)]).toEqual([
        "second-factor",
        ["submit", "recovery", "login"],
      ]);
      const base = asked.actions[0]?.href.split("/second-factor")[0] ?? "";
      for (const path of [
        "/enrol?action=passkey",
        "/enrol-confirm",
        "/recovery-codes?action=renew",
        "/offer-passkey",
      ]) {
        const { body } = await visitor.post(base + path, { csrf: asked.csrf, code: "000000", name: "Evil" });
        expect([path, body.step]).toEqual([path, "second-factor"]);
      }
      const code = action === "submit" ? totpCode(SECRET, clock.now()) : recovery;
      const { body: step } = await visitor.act(asked, action, { code });
      expect([step.step, step.app, step.actions.map(({ name }) => name)]).toEqual([
        "enrol",
        undefined,
        ["passkey", "login"],
      ]);
      // The app is not enough, and nobody is signed in yet by this.
      const { status } = await visitor.post(`${base}/enrol?action=app`, { csrf: step.csrf, code: "000000" });
      expect(status).toBe(400);
      clock.advance(60);
      const { body: done } = await add(step);
      const claims = await visitor.claims(news, done.location);
      expect(claims).toMatchObject({ acr: PASSKEY, auth_time: Math.floor(clock.now() / 1000) });
      expect(claims["amr"]).toEqual(["pwd", "otp", "mfa", "swk", "user"]);
      const factors = await running.service.accounts.factors(running.bob.sub);
      expect([factors?.app === null, factors?.passkeys.length]).toEqual([false, 1]);
    },
  );

  it("adds nothing after ten minutes, or once something has ended the sessions", async () => {
    visitor = new JsonVisitor(news.browser());
    const { username, password } = BOB;
    for (const late of [true, false]) {
      const { body: login } = await visitor.open(news.authorizeUrl(essential));
      const { body: asked } = await visitor.act(login, "submit", { username, password });
      const { body: step } = await visitor.act(asked, "submit", { code: totpCode(SECRET, clock.now()) });
      if (late) clock.advance(601);
      else await running.service.accounts.endSessions(running.bob.sub);
      const { body } = await add(step);
      expect([body.done, body.problems?.[0]?.code ?? body.notice?.code]).toEqual([undefined, "begin-anew"]);
    }
    await expect(running.service.accounts.factors(running.bob.sub)).resolves.toMatchObject({ passkeys: [] });
  });

  it("is interaction_required without the person, and a wish goes on without it", async () => {
    await signedIn();
    await visitor.browser.get(news.authorizeUrl({ ...essential, prompt: "none" }));
    expect(visitor.browser.location?.searchParams.get("error")).toBe("interaction_required");
    const wish = news.authorizeUrl({ scope: "openid", acr_values: PASSKEY });
    await expect(visitor.claims(news, wish)).resolves.toMatchObject({ acr: MFA });
  });
});
