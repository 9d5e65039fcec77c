import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { tagsNamed } from "../../testing/browser/html.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { readTokens, type RequestParameters, type TestClient } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { ADA, BOB, NEWS, PARTNER, useService } from "./running-service.ts";

const DOCUMENTED = ["sub", "email", "name", "surname", "date_of_birth", "gender"];

const running = useService();
const oauth2 = clientAt(running, "oauth2", PARTNER);
const openid = clientAt(running, "openid", PARTNER);

/** Opens the consent page, if there is one. */
async function consentPage(
  party: TestClient,
  parameters: RequestParameters = {},
  { username, password }: { username: string; password: string } = ADA,
  browser: Browser = party.browser(),
): Promise<Browser> {
  await browser.get(party.authorizeUrl(parameters));
  if (browser.html.includes('name="password"')) {
    await browser.submit(browser.form("password"), { username, password });
  }
  return browser;
}

const texts = JSON.parse(
  readFileSync(new URL("../../core/locales/en.json", import.meta.url), "utf8"),
) as Record<string, string>;
/** Field names by their label on the page. Documented names precede standard claims in the file. */
const FIELDS = new Map(
  Object.entries(texts)
    .toReversed()
    .flatMap(([key, text]) => (key.startsWith("field.") ? [[text, key.slice("field.".length)]] : [])),
);

/** The fields that the page lists. */
function listed(browser: Browser): ReadonlySet<string> {
  expect([browser.status, browser.location]).toEqual([200, undefined]);
  // The entries of the footer hold links, and no text of their own.
  const items = tagsNamed(browser.html, "li").filter(({ text }) => text.trim() !== "");
  const fields = items.map(({ text }) => FIELDS.get(text.trim()) ?? text);
  // The page names both parts of a name in one word.
  return new Set(fields.flatMap((field) => (field === "fullName" ? ["name", "surname"] : field)));
}

async function decide(browser: Browser, decision: "allow" | "deny"): Promise<URL> {
  await browser.submit(browser.form("decision"), { decision });
  expect(browser.visits.map(({ status }) => status)).toEqual([303, 302]);
  return browser.location!;
}

async function allowed(browser: Browser, party: TestClient): Promise<string> {
  const code = (await decide(browser, "allow")).searchParams.get("code") ?? "";
  return readTokens(await party.exchange(code)).access_token;
}

/** Whether Ada sees the consent page. She allows it. */
async function needsConsent(): Promise<boolean> {
  const browser = await consentPage(oauth2, { scope: "email" });
  if (browser.location !== undefined) return false;
  await decide(browser, "allow");
  return true;
}

/** A `claims` parameter with one claim that the service knows and one that it doesn't. */
const withUnknown = (name: string): string =>
  JSON.stringify({ userinfo: { email_verified: null, [name]: null } });

/** Removes the consents of earlier tests. */
const forget = (): Promise<void> => running.service.accounts.revokeTokens(running.ada.sub);

describe("a third-party client", () => {
  const wishes: [scope: string | undefined, fields: string[], userinfo: number, profile: number][] = [
    [undefined, DOCUMENTED, 200, 200],
    ["unknown", DOCUMENTED, 200, 200],
    ["email", ["sub", "email", "email_verified"], 200, 400],
    ["email account", ["sub", "email", "email_verified"], 200, 400],
  ];
  it.each(wishes)(
    "with scope %j shows exactly the fields that its token reads [D-AUTHZ-15]",
    async (scope, fields, userinfo, profile) => {
      for (const party of [oauth2, openid]) {
        await forget();
        const browser = await consentPage(party, { scope });
        expect(listed(browser)).toEqual(new Set(fields));
        expect(browser.html).toContain(PARTNER.name);
        expect(browser.html).toContain(ADA.email);
        const token = await allowed(browser, party);
        const answers = [await party.userinfo(token), await party.profile(token)];
        expect(answers.map(({ status }) => status)).toEqual([userinfo, profile]);
        if (profile === 400) expect(answers[1]?.body["error"]).toBe("insufficient_scope");
      }
    },
  );

  it("gets the e-mail address with scope openid, and the rest of the profile with scope profile [D-AUTHZ-15]", async () => {
    await forget();
    const browser = await consentPage(openid, { scope: "openid" });
    expect(listed(browser)).toEqual(new Set(["sub", "email"]));
    const token = await allowed(browser, openid);
    expect((await openid.userinfo(token)).body).toEqual({ sub: running.ada.sub, email: ADA.email });
    expect((await openid.profile(token)).body).toMatchObject({ error: "insufficient_scope" });
    await forget();
    const profile = await consentPage(oauth2, { scope: "profile" });
    const standard = ["preferred_username", "locale", "updated_at"];
    expect(listed(profile)).toEqual(
      new Set(["sub", "name", "surname", "date_of_birth", "gender", ...standard]),
    );
    const other = await allowed(profile, oauth2);
    expect((await oauth2.userinfo(other)).body).toMatchObject({ error: "insufficient_scope" });
  });

  it("gets the claims of the claims parameter too [D-AUTHZ-15, D-DEPLOY-6]", async () => {
    await forget();
    const claims = JSON.stringify({ userinfo: { birthdate: null }, id_token: { given_name: null } });
    const browser = await consentPage(openid, { scope: "openid", claims });
    expect(listed(browser)).toEqual(new Set(["sub", "email", "name", "date_of_birth"]));
    // The standard name is both names together.
    const whole = await consentPage(openid, { scope: "openid", claims: '{"userinfo":{"name":null}}' });
    expect(listed(whole)).toEqual(new Set(["sub", "email", "name", "surname"]));
  });

  it("asks only once with unknown claims [D-CLAIMS-2, D-AUTHZ-15]", async () => {
    await forget();
    const browser = await consentPage(openid, { scope: "openid", claims: withUnknown("one") });
    expect(listed(browser)).toEqual(new Set(["sub", "email", "email_verified"]));
    await decide(browser, "allow");
    for (const name of ["one", "another", "zoneinfo", "__proto__"]) {
      const { location } = await consentPage(openid, { scope: "openid", claims: withUnknown(name) });
      expect(location?.searchParams.get("code")).toEqual(expect.any(String));
    }
  });

  it("is remembered across browsers and deployments, and asks again only for new fields [D-AUTHZ-15]", async () => {
    await forget();
    await decide(await consentPage(oauth2, { scope: "email" }), "allow");
    const known = await consentPage(openid, { scope: "email" });
    expect(known.location?.searchParams.get("code")).toEqual(expect.any(String));
    const more = await consentPage(openid, { scope: "email profile" }, ADA, known);
    expect(listed(more)).toContain("surname");
    await decide(more, "allow");
    for (const scope of ["email", "profile", "email profile"]) {
      const { location } = await consentPage(oauth2, { scope });
      expect(location?.searchParams.get("code")).toEqual(expect.any(String));
    }
    expect(listed(await consentPage(oauth2, {}))).toEqual(new Set(DOCUMENTED));
    expect(listed(await consentPage(oauth2, { scope: "email" }, BOB))).toContain("email");
  });

  it("asks again with prompt=consent, and never with prompt=none [D-AUTHZ-15, D-AUTHZ-8]", async () => {
    await forget();
    const browser = await consentPage(oauth2, { scope: "email" });
    const form = browser.form("decision");
    await browser.get(oauth2.authorizeUrl({ scope: "email", prompt: "none", state: "s" }));
    expect(browser.location?.searchParams.get("error")).toBe("consent_required");
    await browser.submit(form, { decision: "allow" });
    await consentPage(oauth2, { scope: "email", prompt: "consent" }, ADA, browser);
    expect(listed(browser)).toContain("email");
    await browser.get(oauth2.authorizeUrl({ scope: "email", prompt: "none" }));
    expect(browser.location?.searchParams.get("code")).toEqual(expect.any(String));
  });

  it("gets access_denied if the user refuses, and nothing is remembered [D-AUTHZ-8, D-AUTHZ-15]", async () => {
    for (const party of [oauth2, openid]) {
      await forget();
      const browser = await consentPage(party, { state: "a b" });
      const { searchParams } = await decide(browser, "deny");
      expect([searchParams.get("error"), searchParams.get("state")]).toEqual(["access_denied", "a b"]);
      expect(searchParams.has("code")).toBe(false);
      expect(listed(await consentPage(party, {}, ADA, browser))).toEqual(new Set(DOCUMENTED));
    }
  });

  it("is forgotten after revokeTokens, unassignment and removal [D-AUTHZ-15]", async () => {
    const { accounts, clients } = running.service;
    const { sub } = running.ada;
    await forget();
    expect([await needsConsent(), await needsConsent()]).toEqual([true, false]);
    await accounts.revokeTokens(sub, NEWS.client_id);
    expect(await needsConsent()).toBe(false);
    await accounts.revokeTokens(sub, PARTNER.client_id);
    expect([await needsConsent(), await needsConsent()]).toEqual([true, false]);
    await accounts.unassign(sub, PARTNER.service);
    expect([await needsConsent(), await needsConsent()]).toEqual([true, false]);
    await clients.remove(PARTNER.client_id);
    await clients.register(PARTNER);
    expect([await needsConsent(), await needsConsent()]).toEqual([true, false]);
  });

  it("asks again if the consent is withdrawn before the browser returns [D-AUTHZ-15]", async () => {
    const { accounts } = running.service;
    const { sub } = running.ada;
    for (const withdraw of [
      () => accounts.revokeTokens(sub),
      () => accounts.revokeTokens(sub, PARTNER.client_id),
      () => accounts.unassign(sub, PARTNER.service),
    ]) {
      await forget();
      await accounts.assign(sub, PARTNER.service);
      const resume = `${running.oauth2}/oauth2/authorize/`;
      const browser = oauth2.browser({ stopAt: [...PARTNER.redirect_uris, resume] });
      await browser.get(oauth2.authorizeUrl({ scope: "email" }));
      await signIn(browser);
      await browser.follow();
      await browser.submit(browser.form("decision"), { decision: "allow" });
      expect(browser.location?.href.startsWith(resume)).toBe(true);
      await withdraw();
      await browser.follow();
      expect(listed(browser)).toContain("email");
      await browser.submit(browser.form("decision"), { decision: "allow" });
      await browser.follow();
      const code = browser.location?.searchParams.get("code") ?? "";
      expect((await oauth2.exchange(code)).status).toBe(200);
    }
  });

  it("with standard error statuses gets 403 for insufficient_scope [D-TOKEN-2, D-AUTHZ-15]", async () => {
    await running.service.clients.update(PARTNER.client_id, { error_status: "standard" });
    const token = await allowed(await consentPage(oauth2, { scope: "email", prompt: "consent" }), oauth2);
    const { status, body, headers } = await oauth2.profile(token);
    expect([status, body["error"]]).toEqual([403, "insufficient_scope"]);
    expect(headers.get("www-authenticate")).toMatch(/^Bearer .*error="insufficient_scope"/);
  });
});

describe("a first-party client", () => {
  it("needs no consent, and each of its tokens reads userinfo and profile [D-AUTHZ-15]", async () => {
    for (const kind of ["oauth2", "openid"] as const) {
      const news = clientAt(running, kind, NEWS);
      for (const scope of [undefined, "email", "unknown"]) {
        const { access_token } = await news.signIn(ADA, { scope });
        expect(Object.keys((await news.profile(access_token)).body)).toEqual(DOCUMENTED);
        expect((await news.userinfo(access_token)).status).toBe(200);
      }
    }
  });
});
