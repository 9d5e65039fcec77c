/** Signing in with another provider, as a person whose account is linked there. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import type { RequestParameters } from "../../testing/test-client.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { codeIn, startSelfService } from "../interactions/self-service.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { clientAt } from "./clients.ts";
import { leaveFor, linkTo, type ProviderParty, startWithProvider } from "./provider-party.ts";
import { ADA, NEWS, onLocalhost, UNLIMITED } from "./running-service.ts";

const ADA_THERE = { sub: "ada-there", email: "ada@corp.example" };
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let clock: TestClock;
let party: ProviderParty;

beforeEach(async () => {
  clock = new TestClock();
  party = await startWithProvider({ trustsMfa: true }, { config: { clock } });
  await party.link(party.ada.sub, ADA_THERE);
  party.provider.signIn(ADA_THERE);
});

const now = (): number => Math.floor(clock.now() / 1000);
const newsAt = (kind: DeploymentKind = "openid") => clientAt(party, kind, NEWS);
const WITH_TIME = { claims: '{"id_token":{"auth_time":{"essential":true}}}' };
const begin = (parameters: RequestParameters = {}, kind?: DeploymentKind): Promise<Browser> =>
  newsAt(kind)
    .browser()
    .get(newsAt(kind).authorizeUrl({ scope: "openid", ...parameters }));
/** The claims about the sign-in that the client gets. */
async function claimsOf(browser: Browser) {
  const { id_token = "" } = await newsAt().tokensOf(browser);
  const { amr, acr, auth_time } = decodeJwt(id_token);
  return { amr, acr, auth_time };
}
const failures = async () =>
  (await party.service.audit.list({ action: "sign_in", limit: 100 })).items.filter(
    ({ outcome }) => outcome === "failure",
  );
function typeCode(browser: Browser): Promise<Browser> {
  const form = browser.forms().find(({ fields }) => fields.some(([name]) => name === "code"));
  return browser.submit(form, { code: totpCode(SECRET, clock.now()) });
}

const lastUse = async (): Promise<unknown> => {
  const { records } = await party.storage.records.store.scan("identity", undefined, 10);
  return records[0]?.value["last_used_at"];
};
const titleAfter = async (browser: Browser): Promise<string> => (await leaveFor(browser)).title;
const page = ({ html }: Browser): string => html.replaceAll(/value="[^"]*"|\/interaction\/[\w-]+/g, "");
const jsonOf = async (browser: Browser): Promise<unknown> =>
  (await browser.json(browser.url.href))["provider"];
describe("somebody whose account is linked", () => {
  it.each(["oauth2", "openid"] as const)("comes in at %s [D-PROV-80]", async (kind) => {
    const browser = await leaveFor(await begin({}, kind));
    expect(browser.location?.searchParams.has("code")).toBe(true);
    const paths = browser.visits.map(
      ({ method, url }) => `${method} ${url.pathname.replace(/[\w-]{43}/, "ID")}`,
    );
    const base = new URL(party[kind]).pathname.replace(/\/$/, "");
    expect(paths).toEqual([
      `POST ${base}/interaction/ID`,
      "GET /authorize",
      `GET ${base}/providers/corp/callback`,
      `GET ${base}/oauth2/authorize/ID`,
    ]);
    expect(await failures()).toEqual([]);
  });

  it("is fed, at the strength of a password, at the time of the provider [D-PROV-81]", async () => {
    party.provider.signIn({ ...ADA_THERE, auth_time: now() - 3_600 });
    expect(await claimsOf(await leaveFor(await begin(WITH_TIME)))).toEqual({
      amr: ["fed"],
      acr: "urn:sign-in-service:acr:password",
      auth_time: now() - 3_600,
    });
  });

  it("is never known at a time that is to come [D-PROV-81]", async () => {
    party.provider.signIn({ ...ADA_THERE, auth_time: now() + 3_600 });
    const { auth_time } = await claimsOf(await leaveFor(await begin(WITH_TIME)));
    expect(auth_time === undefined || Number(auth_time) <= now()).toBe(true);
  });

  it("comes in by JSON: the action answers with the address [D-PROV-80]", async () => {
    const news = newsAt();
    const visitor = new JsonVisitor(news.browser());
    const { body } = await visitor.open(news.authorizeUrl());
    expect(body.providers).toEqual([
      { key: "corp", name: "Test provider", label: "Sign in with Test provider", preset: "openid" },
    ]);
    const { body: done } = await visitor.act(body, "provider", { provider: "corp" });
    expect(done.done).toBe(true);
    await visitor.browser.get(done.location ?? "");
    expect(visitor.browser.location?.searchParams.has("code")).toBe(true);
  });

  it("is not taken to a provider that the client does not offer [D-PROV-80]", async () => {
    await party.service.clients.update("news", { providers: [] });
    const news = newsAt();
    const visitor = new JsonVisitor(news.browser());
    const { body } = await visitor.open(news.authorizeUrl());
    expect([body.providers, body.actions.map(({ name }) => name)]).toEqual([
      undefined,
      expect.not.arrayContaining(["provider"]),
    ]);
  });

  it.each(["nobody", "__proto__", "", "corp "])(
    "is told that there is no provider %j [D-PROV-80]",
    async (key) => {
      const news = newsAt();
      const visitor = new JsonVisitor(news.browser());
      const { body } = await visitor.open(news.authorizeUrl());
      const answer = await visitor.act(body, "provider", { provider: key });
      expect([answer.status, answer.body.problems[0]?.code]).toEqual([400, "no-provider"]);
    },
  );

  it.each([
    ["", false],
    [", with the second factor that the account has", true],
  ])("is in the audit with the name of the provider%s, as failures are", async (_how, hasFactor) => {
    const { sub } = party.ada;
    if (hasFactor) await party.service.accounts.addApp(sub, { secret: SECRET });
    const browser = await leaveFor(await begin());
    if (hasFactor) await typeCode(browser);
    expect(browser.location?.searchParams.has("code")).toBe(true);
    const { items } = await party.service.audit.list({ account: sub, action: "sign_in" });
    expect(items).toEqual([
      expect.objectContaining({
        outcome: "success",
        client: "news",
        detail: { provider: "corp", amr: expect.stringMatching(/^fed/u) },
      }),
    ]);
  });

  it("has its identity marked as used [D-PROV-81]", async () => {
    expect(await lastUse()).toBeNull();
    await leaveFor(await begin());
    expect(await lastUse()).toBe(now());
  });

  it("takes a second factor with it, if the account has one, and no browser is spared it [D-PROV-86]", async () => {
    await party.service.accounts.addApp(party.ada.sub, { secret: SECRET });
    party.provider.signIn({ ...ADA_THERE, auth_time: now() - 3_600 });
    const browser = await leaveFor(await begin(WITH_TIME));
    expect(browser.hasForm("remember")).toBe(false);
    await typeCode(browser);
    expect(await claimsOf(browser)).toEqual({
      amr: ["fed", "otp", "mfa"],
      acr: "urn:sign-in-service:acr:mfa",
      auth_time: now(),
    });
  });
});

describe("nobody comes in", () => {
  it("who cancels there: the first page says so, and it is no failure [D-PROV-84]", async () => {
    party.provider.signIn(undefined);
    const browser = await leaveFor(await begin());
    expect(browser.html).toContain("You didn’t sign in with Test provider. Choose how to go on.");
    expect(browser.hasForm("password")).toBe(true);
    expect(await failures()).toEqual([]);
    await browser.submit(browser.form("password"), { username: ADA.username, password: ADA.password });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it.each([
    ["hang up", "Test provider doesn’t answer"],
    ["wrong key", "The answer from Test provider can’t be used"],
    ["no signature", "The answer from Test provider can’t be used"],
  ] as const)("while the provider does “%s”, and both ways on work [D-PROV-85]", async (lie, title) => {
    party.provider.lies.set(lie);
    const browser = await leaveFor(await begin());
    expect([browser.status, browser.title]).toEqual([200, title]);
    party.provider.lies.clear();
    const other = await leaveFor(await begin());
    expect(other.location?.searchParams.has("code")).toBe(true);
    await browser.submit(browser.form("action"), { action: "another-way" });
    expect(browser.hasForm("password")).toBe(true);
    party.provider.lies.set(lie);
    await leaveFor(browser);
    party.provider.lies.clear();
    await browser.submit(browser.form("action"), { action: "provider" });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("while the provider is not there at the start [D-PROV-85]", async () => {
    party.provider.lies.set("hang up", "discovery");
    const browser = await begin();
    expect(await titleAfter(browser)).toBe("Test provider doesn’t answer");
    party.provider.lies.clear();
    await browser.submit(browser.form("action"), { action: "provider" });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("whose account is disabled, or who has none: both get the same page, and never the provider's words [D-PROV-83]", async () => {
    await party.link(party.bob.sub, { sub: "bob-there" });
    await party.service.accounts.disable(party.bob.sub);
    party.provider.signIn({ sub: "bob-there" });
    const disabled = await leaveFor(await begin());
    party.provider.signIn({ sub: "nobody-there" });
    const unknown = await leaveFor(await begin());
    expect(unknown.title).toBe("You can’t sign in here with this Test provider account");
    expect(page(disabled)).toBe(page(unknown));
    expect(await jsonOf(disabled)).toEqual({ key: "corp", name: "Test provider", problem: "not-here" });
    expect(await jsonOf(unknown)).toEqual(await jsonOf(disabled));
    expect((await failures()).map(({ reason, detail }) => [reason, detail])).toEqual([
      ["credentials", { provider: "corp" }],
      ["disabled", { provider: "corp" }],
    ]);
  });

  it("who has the same address, or a name that differs in its case [D-PROV-83]", async () => {
    for (const sub of ["Ada-There", "ada-there ", "other"]) {
      party.provider.signIn({ sub, email: ADA.email, email_verified: true });
      expect(await titleAfter(await begin())).toBe("You can’t sign in here with this Test provider account");
    }
  });
});

describe("a recent sign-in", () => {
  const OLD = 7_200;

  it("is asked of the provider, whose time counts [D-PROV-88]", async () => {
    const browser = await leaveFor(await begin({ prompt: "login" }));
    expect(
      party.provider.requests.find(({ endpoint }) => endpoint === "authorize")?.parameters,
    ).toMatchObject({
      prompt: "login",
      max_age: "0",
    });
    expect(await claimsOf(browser)).toEqual({
      amr: ["fed"],
      acr: "urn:sign-in-service:acr:password",
      auth_time: now(),
    });
  });

  it("may be as old as max_age [D-PROV-88]", async () => {
    party.provider.signIn({ ...ADA_THERE, auth_time: now() - 1_800 });
    const { auth_time } = await claimsOf(await leaveFor(await begin({ max_age: "3600" })));
    expect(auth_time).toBe(now() - 1_800);
  });

  it.each([
    ["prompt=login", { prompt: "login" }, (now_) => now_ - OLD],
    ["max_age", { max_age: "3600" }, (now_) => now_ - OLD],
    ["prompt=login and no time", { prompt: "login" }, () => null],
    ["max_age and no time", { max_age: "3600" }, () => null],
  ] as [string, RequestParameters, (now_: number) => number | null][])(
    "takes the password, where the provider proves none: %s [D-PROV-88]",
    async (_what, parameters, at) => {
      party.provider.signIn({ ...ADA_THERE, auth_time: at(now()) });
      const browser = await leaveFor(await begin(parameters));
      expect(browser.title).toBe("Confirm that it’s you");
      expect(browser.location).toBeUndefined();
      await browser.submit(browser.form("password"), { password: "wrong" });
      expect(browser.status).toBe(400);
      await browser.submit(browser.form("password"), { password: ADA.password });
      expect(await claimsOf(browser)).toEqual({
        amr: ["fed"],
        acr: "urn:sign-in-service:acr:password",
        auth_time: now(),
      });
    },
  );

  it("takes the second factor, where the provider proves none [D-PROV-88]", async () => {
    await party.service.accounts.addApp(party.ada.sub, { secret: SECRET });
    party.provider.signIn({ ...ADA_THERE, auth_time: now() - OLD, amr: ["mfa"] });
    const browser = await leaveFor(await begin({ prompt: "login" }));
    await typeCode(browser);
    expect(await claimsOf(browser)).toMatchObject({ amr: ["fed", "otp", "mfa"], auth_time: now() });
  });

  it.each([false, true])(
    "takes a code by mail of an account with neither password nor factor, with signIn.emailCode %j [D-PROV-88]",
    async (emailCode) => {
      const mailing = await startSelfService(
        { registration: {} },
        {
          config: {
            clock,
            rateLimits: UNLIMITED,
            signIn: { emailCode },
            providers: { corp: party.provider.settings },
          },
          deployments: onLocalhost,
        },
      );
      const email = "eve@example.com";
      const { sub } = await mailing.service.accounts.import({ email, email_verified: true });
      await linkTo(mailing, sub, { provider: "corp", issuer: party.provider.issuer, subject: "eve-there" });
      party.provider.signIn({ sub: "eve-there", auth_time: null });
      const news = clientAt(mailing, "openid", NEWS);
      const browser = news.browser();
      await leaveFor(await browser.get(news.authorizeUrl({ scope: "openid", prompt: "login" })));
      expect(browser.title).toBe("Confirm that it’s you");
      await browser.submit(browser.form("code"), { code: "WRONGCOD" });
      expect([browser.status, browser.location]).toEqual([400, undefined]);
      const code = codeIn(await mailing.mailTo(email));
      await browser.submit(browser.form("code"), { code });
      const { id_token = "" } = await news.tokensOf(browser);
      expect(decodeJwt(id_token)).toMatchObject({ amr: ["fed"], auth_time: now() });
    },
  );

  it("that the person gives up is login_required [D-PROV-88]", async () => {
    party.provider.signIn({ ...ADA_THERE, auth_time: null });
    const browser = await leaveFor(await begin({ prompt: "login" }));
    const cancel = browser.forms().find(({ fields }) => fields.some(([, value]) => value === "cancel"));
    await browser.submit(cancel);
    expect(browser.location?.searchParams.get("error")).toBe("login_required");
  });

  it("is login_required without a page [D-PROV-88]", async () => {
    const browser = await begin({ prompt: "none" });
    expect(browser.location?.searchParams.get("error")).toBe("login_required");
  });

  it("is not a session of a provider that does not say when: a client has no time, and asks again [D-PROV-88]", async () => {
    party.provider.signIn({ ...ADA_THERE, auth_time: null });
    const browser = await leaveFor(await begin(WITH_TIME));
    expect(await claimsOf(browser)).toEqual({
      amr: ["fed"],
      acr: "urn:sign-in-service:acr:password",
      auth_time: undefined,
    });
    await browser.get(newsAt().authorizeUrl({ max_age: "86400", prompt: "none" }));
    expect(browser.location?.searchParams.get("error")).toBe("login_required");
    await browser.get(newsAt().authorizeUrl());
    expect(browser.location?.searchParams.has("code")).toBe(true);
    await browser.get(`${party.openid}/account/password`);
    expect(browser.title).toBe("Sign in again");
  });

  it("outlives no session: a browser that is open at the provider changes nothing of the account [D-PROV-88]", async () => {
    party.provider.signIn({ ...ADA_THERE, auth_time: now() - OLD });
    const browser = await newsAt().browser().get(`${party.openid}/account/password`);
    await leaveFor(browser);
    expect(browser.title).toBe("Sign in again");
    await leaveFor(browser);
    expect(browser.title).toBe("Confirm that it’s you");
    await browser.submit(browser.form("password"), { password: ADA.password });
    expect(browser.url.pathname).toBe("/openid/account/password");
  });

  it("by the identity of another account changes nothing [D-PROV-83]", async () => {
    await party.link(party.bob.sub, { sub: "bob-there" });
    const browser = await leaveFor(await newsAt().browser().get(`${party.openid}/account/password`));
    clock.advance(400);
    await browser.get(`${party.openid}/account/password`);
    party.provider.signIn({ sub: "bob-there" });
    await leaveFor(browser);
    expect(browser.title).toBe("This Test provider account is linked to another account");
    party.provider.signIn(ADA_THERE);
    await browser.submit(browser.form("action"), { action: "provider" });
    expect(browser.url.pathname).toBe("/openid/account/password");
  });
});

describe("the pages before the provider", () => {
  it("lead there from the page of a hint, and back into the client [D-PROV-151]", async () => {
    const browser = await begin({ provider_hint: "corp" });
    await browser.submit(browser.form("csrf"));
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("show the one that was used last first, after a complete sign-in only [D-PROV-141]", async () => {
    const browser = await begin();
    expect(browser.html).not.toContain("Last time in this browser:");
    await leaveFor(browser);
    const cookie = browser.jar.all().find(({ name }) => name.includes("_way_"));
    expect(cookie?.value).toBe("corp");
    await browser.get(newsAt().authorizeUrl({ prompt: "login" }));
    expect(browser.html).toContain("Last time in this browser:");
    party.provider.signIn(undefined);
    const other = await leaveFor(await begin());
    expect(other.jar.all().some(({ name }) => name.includes("_way_"))).toBe(false);
  });
});

describe("a domain of a provider", () => {
  it.each([true, false])("leads there after the name, with only: %s [D-PROV-148]", async (only) => {
    const domains = ["corp.example"];
    party = await startWithProvider({ domains, only, trustsEmail: true }, { config: { clock } });
    const { sub } = await party.service.accounts.create({
      email: "grace@corp.example",
      email_verified: true,
      password: "the password of grace",
    });
    const there = { sub: "grace-there", email: "grace@corp.example" };
    await party.link(sub, there);
    party.provider.signIn(there);
    const browser = await begin();
    await browser.submit(browser.form("username"), { username: "Grace@Corp.example" });
    expect(browser.hasForm("password")).toBe(!only);
    await leaveFor(browser);
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });
});
