/** Requests for a recent sign-in (`max_age`), and for one person (`id_token_hint`, the claim `sub`). */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import { TestClock } from "../../testing/test-clock.ts";
import { startSelfService, TERMS } from "../interactions/self-service.ts";
import { newStorage } from "../servers/storage.ts";
import { readTokens, send, type TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { ADA, BOB, NEWS, PARTNER, type RunningService, startService } from "./running-service.ts";

let clock: TestClock;
let running: RunningService;
beforeEach(async () => {
  clock = new TestClock();
  running = await startService({ config: { clock } });
});

const errorOf = (url: URL | undefined): string | null | undefined => url?.searchParams.get("error");
const hasCode = (url: URL | undefined): boolean => url?.searchParams.has("code") ?? false;

describe.each(["oauth2", "openid"] as const)("max_age without the scope openid at %s", (kind) => {
  let news: TestClient;
  beforeEach(() => {
    news = clientAt(running, kind, NEWS);
  });

  it("shows the form for an older sign-in, and not for a recent one [D-AUTHZ-18]", async () => {
    const browser = news.browser();
    await news.authorize({ ...ADA, browser });
    clock.advance(100);
    await browser.get(news.authorizeUrl({ max_age: "100" }));
    expect(hasCode(browser.location)).toBe(true);
    clock.advance(1);
    await browser.get(news.authorizeUrl({ max_age: "100", prompt: "none" }));
    expect(errorOf(browser.location)).toBe("login_required");
    await browser.get(news.authorizeUrl({ max_age: "100" }));
    expect(browser.location).toBeUndefined();
    await signIn(browser);
    expect(hasCode(browser.location)).toBe(true);
    await browser.get(news.authorizeUrl({ max_age: "100", prompt: "none" }));
    expect(hasCode(browser.location)).toBe(true);
  });

  it("of 0 always shows the form, once", async () => {
    const browser = news.browser();
    await news.authorize({ ...ADA, browser });
    await browser.get(news.authorizeUrl({ max_age: "0", prompt: "none" }));
    expect(errorOf(browser.location)).toBe("login_required");
    await browser.get(news.authorizeUrl({ max_age: "0" }));
    expect(browser.location).toBeUndefined();
    await signIn(browser);
    expect(hasCode(browser.location)).toBe(true);
  });

  it.each(["x", "-1", "1.5", "1e400", "9007199254740993"])("of %s is invalid_request", async (max_age) => {
    const browser = news.browser();
    await browser.get(news.authorizeUrl({ max_age }));
    expect(errorOf(browser.location)).toBe("invalid_request");
  });

  it("can't be switched off by the parameter that carries it, and is not repeated", async () => {
    const browser = news.browser();
    await news.authorize({ ...ADA, browser });
    clock.advance(200);
    await browser.get(news.authorizeUrl({ max_age: "100", sent_max_age: "100000" }));
    expect(browser.location).toBeUndefined();
    await browser.get(news.authorizeUrl({ sent_max_age: "0" }));
    expect(hasCode(browser.location)).toBe(true);
    const { status, body } = await send(`${news.authorizeUrl({ max_age: "100" })}&max_age=100000`);
    expect([status, body["error"]]).toEqual([400, "invalid_request"]);
  });
});

it("max_age holds for a pushed request without openid, too [D-AUTHZ-18]", async () => {
  const news = clientAt(running, "openid", NEWS);
  const browser = news.browser();
  await news.authorize({ ...ADA, browser });
  clock.advance(200);
  const pushed = await news.post("/oauth2/par", {
    client_id: NEWS.client_id,
    response_type: "code",
    redirect_uri: news.redirect_uri,
    max_age: "100",
  });
  const query = new URLSearchParams({
    client_id: NEWS.client_id,
    request_uri: String(pushed.body["request_uri"]),
  });
  await browser.get(`${running.openid}/oauth2/authorize?${query}`);
  expect(browser.hasForm("password")).toBe(true);
});

async function authTime(party: TestClient, location: URL | undefined): Promise<unknown> {
  const { id_token = "" } = readTokens(await party.exchange(location?.searchParams.get("code") ?? ""));
  return decodeJwt(id_token)["auth_time"];
}

describe("auth_time", () => {
  const request = { scope: "openid", max_age: "1000" };

  it("is when the person was authenticated, not when the terms were accepted [D-AUTHZ-19]", async () => {
    await running.close();
    const config = { ...(await newStorage()), clock };
    running = await startSelfService({ registration: { terms: TERMS } }, { config });
    const news = clientAt(running, "openid", NEWS);
    const browser = news.browser();
    await browser.get(news.authorizeUrl(request));
    await signIn(browser);
    expect(browser.title).toBe("New terms of use");
    const at = Math.floor(clock.now() / 1000);
    clock.advance(120);
    await browser.submit(browser.forms()[0], { terms: TERMS.version });
    await expect(authTime(news, browser.location)).resolves.toBe(at);
  });

  it("is when the person was authenticated, not when consent was given [D-AUTHZ-19]", async () => {
    const partner = clientAt(running, "openid", PARTNER);
    const browser = partner.browser();
    await browser.get(partner.authorizeUrl(request));
    await signIn(browser);
    const at = Math.floor(clock.now() / 1000);
    clock.advance(120);
    await browser.submit(browser.form("decision"), { decision: "allow" });
    await expect(authTime(partner, browser.location)).resolves.toBe(at);
  });
});

describe("a request that names a person", () => {
  let news: TestClient;
  let named: readonly (readonly [string, Readonly<Record<string, string>>])[];
  beforeEach(async () => {
    news = clientAt(running, "openid", NEWS);
    const { id_token = "" } = await news.signIn(ADA, { scope: "openid" });
    const claims = JSON.stringify({ id_token: { sub: { value: running.ada.sub } } });
    named = [
      ["by id_token_hint", { scope: "openid", id_token_hint: id_token }],
      ["by the claim sub", { scope: "openid", claims }],
    ];
  });

  it("gets a code for this person, from a session or from the form", async () => {
    for (const [, parameters] of named) {
      const browser = news.browser();
      await browser.get(news.authorizeUrl(parameters));
      await signIn(browser, ADA);
      expect(hasCode(browser.location)).toBe(true);
      await browser.get(news.authorizeUrl({ ...parameters, prompt: "none" }));
      expect(hasCode(browser.location)).toBe(true);
    }
  });

  it("gets no code for somebody else who is signed in, and login_required with prompt=none [D-AUTHZ-20]", async () => {
    for (const [, parameters] of named) {
      const browser = news.browser();
      await news.authorize({ ...BOB, browser });
      await browser.get(news.authorizeUrl({ ...parameters, prompt: "none", state: "s" }));
      expect([errorOf(browser.location), browser.location?.searchParams.get("state")]).toEqual([
        "login_required",
        "s",
      ]);
      await browser.get(news.authorizeUrl(parameters));
      expect(browser.hasForm("password")).toBe(true);
    }
  });

  it("gets login_required after somebody else has signed in for it, and not the form again [D-AUTHZ-20]", async () => {
    for (const before of [undefined, BOB]) {
      for (const [what, parameters] of named) {
        const browser = news.browser();
        if (before !== undefined) await news.authorize({ ...before, browser });
        await browser.get(news.authorizeUrl({ ...parameters, state: "s" }));
        await signIn(browser, BOB);
        expect([what, errorOf(browser.location), hasCode(browser.location)]).toEqual([
          what,
          "login_required",
          false,
        ]);
        expect(browser.location?.searchParams.get("state")).toBe("s");
      }
    }
  });

  it("gets login_required after the last step: a consent of somebody else gives no code [D-AUTHZ-20]", async () => {
    const partner = clientAt(running, "openid", PARTNER);
    const { id_token = "" } = readTokens(
      await partner.exchange(await consentedCode(partner, { scope: "openid" })),
    );
    const browser = partner.browser();
    await browser.get(
      partner.authorizeUrl({ scope: "openid", id_token_hint: id_token, prompt: "consent login" }),
    );
    await signIn(browser, BOB);
    if (browser.location === undefined) await browser.submit(browser.form("decision"), { decision: "allow" });
    expect([errorOf(browser.location), hasCode(browser.location)]).toEqual(["login_required", false]);
  });

  it("lets the named person replace somebody else", async () => {
    const browser = news.browser();
    await news.authorize({ ...BOB, browser });
    await browser.get(news.authorizeUrl(named[0]![1]));
    await signIn(browser, ADA);
    if (browser.location === undefined && browser.forms().length > 0) await browser.submit();
    expect(hasCode(browser.location)).toBe(true);
  });
});

async function consentedCode(
  partner: TestClient,
  parameters: Readonly<Record<string, string>>,
): Promise<string> {
  const browser = partner.browser();
  await browser.get(partner.authorizeUrl(parameters));
  await signIn(browser, ADA);
  await browser.submit(browser.form("decision"), { decision: "allow" });
  return browser.location?.searchParams.get("code") ?? "";
}
