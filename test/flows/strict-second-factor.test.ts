/** `profile: strict`: third parties and operators need a second factor. */
import { hash } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { KNOWN_ACRS } from "../../provider/authentication.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { JsonVisitor, afterPassword } from "../interactions/json-visitor.ts";
import { clientAt, signIn } from "./clients.ts";
import { type TestClient, readTokens } from "../../testing/test-client.ts";
import { enter, FRAME, type KnownDevice, TELEVISION } from "./devices.ts";
import { formOf, METHODS, MethodsParty, type MethodsService, startMethodsService } from "./methods-party.ts";
import { type KnownClient, NEWS, OPERATOR, PARTNER, UNLIMITED } from "./running-service.ts";

const VERIFIER = "v".repeat(43);
const REQUEST = {
  scope: "openid",
  code_challenge: hash("sha256", VERIFIER, "base64url"),
  code_challenge_method: "S256",
};
const LACKS = "interaction_required: the client or the API needs a second factor";

/** What a client gets: `code`, an error with its description, or the step that the person is at. */
async function outcome(
  browser: Browser,
  party: TestClient,
  prompt?: string,
  claims?: string,
): Promise<string> {
  await browser.get(party.authorizeUrl({ ...REQUEST, prompt, claims }));
  const answer = browser.location?.searchParams;
  if (answer?.has("error")) return `${answer.get("error")}: ${answer.get("error_description")}`;
  if (answer?.has("code")) return "code";
  return (await new JsonVisitor(browser).get(browser.url.href)).body.step;
}

type State = "no factor" | "remembered" | "app" | "passkey" | "removed";
const STATES: readonly State[] = ["no factor", "remembered", "app", "passkey", "removed"];

/** A browser with a session. `removed`: the person has removed the app in this session. */
async function session(
  state: State,
  party: MethodsParty,
  { stopAt }: { stopAt: string[] },
): Promise<Browser> {
  const { openid } = party.running;
  const browser = await new Browser({ stopAt }).get(openid + METHODS);
  await party.signIn(browser);
  if (state === "no factor") return browser;
  await party.add(browser, state === "passkey" ? "passkey" : "app");
  if (state === "removed") {
    await browser.get(`${openid}${METHODS}/change?factor=app`);
    await browser.submit(formOf(browser, "remove"));
    expect((await party.factors()).app).toBeNull();
  }
  if (state !== "remembered") return browser;
  await endSession(browser, openid);
  await browser.get(openid + METHODS);
  await signIn(browser, party.person);
  await browser.submit(browser.forms()[0], { code: party.appCode(), remember: "1" });
  await endSession(browser, openid);
  await browser.get(`${openid}/device`);
  return signIn(browser, party.person);
}

async function endSession(browser: Browser, base: string): Promise<void> {
  await browser.get(`${base}/oauth2/logout`);
  await browser.submit(browser.form("logout"), { logout: "yes" });
}

describe.each(["strict", "documented"] as const)("profile %s", (profile) => {
  let running: MethodsService;
  beforeAll(async () => {
    running = await startMethodsService({ profile, rateLimits: UNLIMITED });
    for (const device of [FRAME, TELEVISION]) await running.service.clients.register(device);
  });

  describe.each<[string, KnownClient, KnownDevice]>([
    ["a third party", PARTNER, FRAME],
    ["a first party", NEWS, TELEVISION],
  ])("%s", (_kind, client, device) => {
    const needs = profile === "strict" && client === PARTNER;
    /** What follows where no second factor is needed, or one was shown. */
    const goesOn = client === PARTNER ? "consent" : "code";
    const isEnough = (state: State): boolean => !needs || state === "app" || state === "passkey";
    const asks = { "no factor": "login", removed: "login", remembered: "second-factor" };

    it.each(STATES)("with the session %s: code, prompt=none and refresh", async (state) => {
      const party = await MethodsParty.create(running);
      const news = clientAt(running, "openid", client);
      const browser = await session(state, party, { stopAt: client.redirect_uris as string[] });
      const silent = await outcome(browser, news, "none");
      expect(silent.startsWith(LACKS)).toBe(!isEnough(state));
      const step = await outcome(browser, news);
      expect(step).toBe(isEnough(state) ? goesOn : asks[state as keyof typeof asks]);
      if (!isEnough(state)) return;
      if (step === "consent") await browser.get(news.authorizeUrl(REQUEST));
      if (step === "consent") await browser.submit(browser.form("decision"), { decision: "allow" });
      const code = browser.location?.searchParams.get("code") ?? "";
      const tokens = readTokens(await news.exchange(code, { code_verifier: VERIFIER }));
      expect(await outcome(browser, news, "none")).toBe("code");
      expect((await news.refresh(tokens.refresh_token)).status).toBe(200);
    });

    it.each(STATES)("with the session %s: an essential acr of two factors", async (state) => {
      const party = await MethodsParty.create(running);
      const browser = await session(state, party, { stopAt: client.redirect_uris as string[] });
      const news = clientAt(running, "openid", client);
      const claims = JSON.stringify({ id_token: { acr: { essential: true, value: KNOWN_ACRS[1] } } });
      const isShown = state === "app" || state === "passkey";
      const silent = await outcome(browser, news, "none", claims);
      const granted = client === NEWS ? "code" : "consent_required";
      expect(silent.split(":")[0]).toBe(isShown ? granted : "interaction_required");
      const step = await outcome(browser, news, undefined, claims);
      expect(step).toBe(isShown ? goesOn : asks[state]);
    });

    it.each(STATES)("with the session %s: the code of a device", async (state) => {
      const party = await MethodsParty.create(running);
      const browser = await session(state, party, { stopAt: [] });
      const codes = await clientAt(running, "openid", device).deviceCodes();
      await enter(await browser.get(`${running.openid}/device`), codes.user_code);
      const steps = { "no factor": "needs a second factor", removed: "needs a second factor" };
      const wanted = isEnough(state)
        ? device.name
        : (steps[state as keyof typeof steps] ?? "Confirm that it’s you");
      expect(browser.html).toContain(wanted);
      expect(browser.html.includes('value="connect"')).toBe(isEnough(state));
    });

    it("without a session: the password alone is not enough for one that needs more [D-RUN-5]", async () => {
      const { person } = await MethodsParty.create(running);
      const news = clientAt(running, "openid", client);
      const { step: body } = await afterPassword(news, person, REQUEST);
      expect(body.step).toBe(needs ? "enrol-confirm" : undefined);
      expect(body.done).toBe(needs ? undefined : true);
    });

    it("keeps the last factor of a person who uses its service", async () => {
      const party = await MethodsParty.create(running);
      await party.add(await party.browser(), "app");
      await running.service.accounts.assign(party.person.sub, client.service);
      const browser = await party.browser(`${METHODS}/change?factor=app`);
      await browser.submit(formOf(browser, "remove"));
      expect((await party.factors()).app === null).toBe(!needs);
    });
  });
});

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const CONSOLE = [
  "deliveries",
  "deliveries/receivers",
  "deliveries/msg_1",
  "people",
  `people/${OPERATOR.sub}`,
].map((path) => `/account/${path}`);

describe("an operator of a strict service", () => {
  let running: MethodsService;
  let browser: Browser;
  beforeAll(async () => {
    running = await startMethodsService({
      profile: "strict",
      operators: { [OPERATOR.sub]: "administrator" },
      rateLimits: UNLIMITED,
    });
    await running.service.accounts.import({ ...OPERATOR, email_verified: true });
  });

  const signedIn = async (): Promise<Browser> =>
    signIn(await new Browser().get(`${running.openid}/account`), OPERATOR);
  const code = (): string => {
    running.clock.advance(30);
    return totpCode(SECRET, running.clock.now());
  };
  const stepAt = async (): Promise<string> =>
    (await new JsonVisitor(browser).get(browser.url.href)).body.step;

  it("is told at the start", () => {
    expect(running.log.join("")).toContain("third parties and operators need a second factor");
  });

  it.each(CONSOLE)("with nothing but a password is led to add a factor: %s [D-RUN-5]", async (path) => {
    browser = await signedIn();
    await browser.get(running.openid + path);
    expect(await stepAt()).toBe("reauthenticate");
    await browser.submit(browser.form("password"), { password: OPERATOR.password });
    expect(await stepAt()).toBe("enrol-confirm");
    // A link to a page of the account does not end what is missing.
    await browser.get(`${running.openid}/account`);
    expect(browser.status).toBe(200);
    const { status, headers } = await post(path);
    expect([status, headers.get("location")]).toEqual([303, expect.stringContaining("/oauth2/authorize?")]);
  });

  function post(path: string): Promise<Response> {
    const url = new URL(running.openid + path);
    const headers = { cookie: browser.jar.header(url), origin: url.origin };
    const body = new URLSearchParams({ action: "redriveAll", csrf: "x" });
    return fetch(url, { method: "POST", headers, body, redirect: "manual" });
  }

  it("is asked for a factor once, which a remembered browser has not shown, and can't remove the last one", async () => {
    await running.service.accounts.addApp(OPERATOR.sub, { secret: SECRET });
    browser = await signedIn();
    await browser.submit(browser.forms()[0], { code: code(), remember: "1" });
    for (const path of CONSOLE.slice(0, 2)) {
      await browser.get(running.openid + path);
      expect([browser.url.pathname, browser.status]).toEqual([`/openid${path}`, 200]);
    }
    expect((await post(CONSOLE[0] ?? "")).status).toBe(403);
    await browser.get(`${running.openid}${METHODS}/change?factor=app`);
    await browser.submit(formOf(browser, "remove"));
    expect(browser.html).toContain("You can’t remove your last second factor");

    await endSession(browser, running.openid);
    await browser.get(`${running.openid}/account`);
    await signIn(browser, OPERATOR);
    expect(browser.url.pathname).toBe("/openid/account");
    for (const path of CONSOLE) {
      expect((await post(path)).status).toBe(303);
      await browser.get(running.openid + path);
      expect(await stepAt()).toBe("second-factor");
    }
    await browser.get(`${running.openid}${CONSOLE[0]}`);
    await browser.submit(browser.forms()[0], { code: code() });
    expect([browser.url.pathname, browser.status]).toEqual([`/openid${CONSOLE[0]}`, 200]);
  });

  it("is led to add one again once somebody has removed it", async () => {
    await running.service.accounts.removeFactors(OPERATOR.sub);
    await browser.get(`${running.openid}${CONSOLE[0]}`);
    expect(await stepAt()).toBe("login");
    await signIn(browser, OPERATOR);
    expect(await stepAt()).toBe("reauthenticate");
    await browser.submit(browser.form("password"), { password: OPERATOR.password });
    expect(await stepAt()).toBe("enrol-confirm");
  });

  it("nobody else is asked: 403", async () => {
    const { person } = await MethodsParty.create(running);
    const other = await new Browser().get(`${running.openid}${CONSOLE[0]}`);
    await signIn(other, person);
    expect(other.status).toBe(403);
  });
});
