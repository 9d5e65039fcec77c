/** Trips to a provider, against whoever did not make them. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { IdentityChanges } from "../../accounts/identities/identity.ts";
import type { StoredIdentity } from "../../records/people/identity-kinds.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { createTestProvider, type TestProvider } from "../../testing/test-provider.ts";
import { send, type TestClient } from "../../testing/test-client.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { closing } from "../closing.ts";
import { clientAt, viaProxy } from "../flows/clients.ts";
import { answerOf, leaveFor, type ProviderParty, startWithProvider } from "../flows/provider-party.ts";
import { BOB, NEWS } from "../flows/running-service.ts";

const ADA_THERE = { sub: "ada-there" };
const MALLORY_THERE = { sub: "mallory-there" };
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let party: ProviderParty;
let other: TestProvider;
let news: TestClient;
let clock: TestClock;

beforeEach(async () => {
  clock = new TestClock();
  other = await createTestProvider();
  closing(other);
  party = await startWithProvider(
    {},
    { config: { clock, providers: { other: { ...other.settings, name: "Other" } } } },
  );
  await party.link(party.ada.sub, ADA_THERE);
  await party.link(party.bob.sub, MALLORY_THERE);
  party.provider.signIn(ADA_THERE);
  other.signIn(ADA_THERE);
  news = clientAt(party, "openid", NEWS);
});

/** A browser that stays here: it does not follow the redirect to the provider. */
const atLogin = (): Promise<Browser> =>
  news.browser({ stayAt: [party.origin, party.oauth2, party.openid] }).get(news.authorizeUrl());
const left = async (key?: string): Promise<Browser> => leaveFor(await atLogin(), key);
const hasCode = ({ location }: Browser): boolean => location?.searchParams.has("code") === true;
/** Nobody is signed in in this browser. */
async function isOutside(browser: Browser): Promise<boolean> {
  await browser.get(news.authorizeUrl({ prompt: "none" }));
  return browser.location?.searchParams.get("error") === "login_required";
}
const trips = async (): Promise<number> =>
  (await party.storage.records.store.scan("trip", undefined, 100)).records.length;
const tokenRequests = (): number =>
  party.provider.requests.filter(({ endpoint }) => endpoint === "token").length;

describe("the answer of a provider", () => {
  it("comes with a cookie of its own, which is gone afterwards [D-PROV-89]", async () => {
    const browser = await left();
    const cookies = browser.headers.getSetCookie().filter((each) => each.includes("_trip_"));
    expect(cookies).toHaveLength(1);
    expect(cookies[0]).toMatch(
      /^sis_trip_[\w-]{16}_[\da-f]{8}=[\w-]{43}; Path=\/openid\/providers\/corp\/callback; Max-Age=600; HttpOnly; SameSite=Lax$/,
    );
    const answer = await answerOf(party, browser);
    await browser.getOnly(answer);
    expect(browser.headers.getSetCookie().find((each) => each.includes("_trip_"))).toContain("Max-Age=0");
    expect(await trips()).toBe(0);
  });

  it("comes on https with the prefix of cookies that https alone sets [D-PROV-89]", async () => {
    const secure = await startWithProvider(
      {},
      {
        config: { proxy: true },
        deployments: () => ({ openid: { url: "https://localhost" } }),
      },
    );
    const client = clientAt(secure, "openid", NEWS);
    const browser = client.browser({ send: viaProxy(secure), stayAt: [secure.openid] });
    await leaveFor(await browser.get(client.authorizeUrl()));
    const cookie = browser.headers.getSetCookie().find((each) => each.includes("_trip_"));
    expect(cookie).toMatch(
      /^__Secure-sis_trip_[\w-]+=[\w-]{43}; Path=\/providers\/corp\/callback; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
    );
    await secure.link(secure.ada.sub, ADA_THERE);
    secure.provider.signIn(ADA_THERE);
    await browser.get(await answerOf(secure, browser));
    expect(hasCode(browser)).toBe(true);
  });

  it("is in no line of the log [D-PROV-89]", async () => {
    const browser = await left();
    const answer = new URL(await answerOf(party, browser));
    await browser.get(answer);
    const log = party.log.join("\n");
    expect(log).toContain("/providers/:uid/:step");
    for (const name of ["code", "state"]) expect(log).not.toContain(answer.searchParams.get(name));
  });

  it("that a provider keeps back keeps nobody else waiting [D-PROV-85]", async () => {
    const waiting = await Promise.all([1, 2, 3].map(() => left()));
    const answers = await Promise.all(waiting.map((browser) => answerOf(party, browser)));
    party.provider.lies.set("silence");
    const asked = party.provider.next("token");
    const pending = waiting.map((browser, index) => browser.get(answers[index] ?? ""));
    await asked;
    const browser = await atLogin();
    await browser.submit(browser.form("password"), { username: BOB.username, password: BOB.password });
    expect(hasCode(browser)).toBe(true);
    const elsewhere = await left("other");
    await elsewhere.get((await other.visit(elsewhere.location?.href ?? "")).url);
    expect(elsewhere.title).toBe("You can’t sign in here with this Other account");
    // It ends the connections, and everybody gets a page.
    await party.provider.close();
    expect((await Promise.all(pending)).map(({ title }) => title)).toEqual(
      Array<string>(3).fill("Test provider doesn’t answer"),
    );
  });

  it("signs nobody else in: the attacker's own, in the browser of a victim [D-PROV-90]", async () => {
    party.provider.signIn(MALLORY_THERE);
    const answer = await answerOf(party, await left());
    const fresh = news.browser();
    const during = await atLogin();
    const away = await left();
    for (const victim of [fresh, during, away]) {
      await victim.get(answer);
      expect([victim.status, hasCode(victim)]).toEqual([400, false]);
      expect(await isOutside(victim)).toBe(true);
    }
    expect(tokenRequests()).toBe(0);
  });

  it("counts with the browser's own cookie only: a sibling host can plant that of the trip [D-PROV-90]", async () => {
    party.provider.signIn(MALLORY_THERE);
    const attacker = await left();
    const answer = await answerOf(party, attacker);
    const victim = await atLogin();
    const planted = attacker.headers.getSetCookie().find((each) => each.includes("_trip_")) ?? "";
    victim.jar.take(new URL(answer), [planted]);
    await victim.get(answer);
    expect([victim.status, victim.title]).toEqual([400, "This sign-in belongs to another browser"]);
    expect(await isOutside(victim)).toBe(true);
    // The trip is still the attacker's.
    await attacker.get(answer);
    expect(hasCode(attacker)).toBe(true);
  });

  it("counts once, also of two at the same time [D-PROV-91]", async () => {
    const browser = await left();
    const answer = await answerOf(party, browser);
    const cookie = browser.jar.header(new URL(answer));
    const both = await Promise.all(
      [1, 2].map(() => send(answer, { headers: { cookie }, redirect: "manual" })),
    );
    expect(both.map(({ status }) => status).toSorted((one, two) => one - two)).toEqual([303, 400]);
    expect(tokenRequests()).toBe(1);
    await browser.get(answer);
    expect([browser.status, hasCode(browser)]).toEqual([400, false]);
  });

  it("counts for its provider and its deployment only [D-PROV-92]", async () => {
    for (const [from, to] of [
      ["/openid/providers/corp/", "/openid/providers/other/"],
      ["/openid/providers/corp/", "/providers/corp/"],
    ] as const) {
      const browser = await left();
      const answer = await answerOf(party, browser);
      const cookies = browser.jar.header(new URL(answer));
      const moved = answer.replace(from, to);
      const { status } = await send(moved, { headers: { cookie: cookies }, redirect: "manual" });
      expect([moved, status]).toEqual([moved, 400]);
      // It was not spent.
      await browser.get(answer);
      expect(hasCode(browser)).toBe(true);
    }
  });

  it("of one provider is worth nothing at another: mix-up [D-PROV-92]", async () => {
    // The other provider sends the browser to the first one's callback, with its own code.
    const browser = await left("corp");
    const target = new URL(browser.location ?? "");
    const swapped = new URL(`${other.issuer}/authorize${target.search}`);
    swapped.searchParams.set("client_id", other.client_id);
    const { url } = await other.visit(swapped.href);
    expect(new URL(url).pathname).toBe("/openid/providers/corp/callback");
    await browser.get(url);
    expect([browser.title, hasCode(browser)]).toEqual(["The answer from Test provider can’t be used", false]);
    expect(other.requests.filter(({ endpoint }) => endpoint === "token")).toEqual([]);
  });

  it("with a code of another trip is worth nothing [D-PROV-91]", async () => {
    party.provider.signIn(MALLORY_THERE);
    const stolen = new URL(await answerOf(party, await left())).searchParams.get("code") ?? "";
    party.provider.signIn(ADA_THERE);
    const browser = await left();
    const answer = new URL(await answerOf(party, browser));
    answer.searchParams.set("code", stolen);
    await browser.get(answer);
    expect([browser.title, hasCode(browser)]).toEqual(["The answer from Test provider can’t be used", false]);
  });

  it.each(["", "__proto__", "constructor", "x", "x".repeat(4_096), "a\u0000b".replace("\u0000", "%01")])(
    "with the state %j leads to the start again, and nothing is asked or stored [D-PROV-91]",
    async (state) => {
      const browser = await left();
      const before = await trips();
      const callback = `${party.openid}/providers/corp/callback`;
      await browser.get(`${callback}?${new URLSearchParams({ state, code: "x" })}`);
      expect([browser.status, browser.title]).toEqual([400, "Please start again"]);
      expect([await trips(), tokenRequests()]).toEqual([before, 0]);
      const { status } = await send(`${callback}?state=a&state=b`);
      expect(status).toBe(400);
    },
  );

  it("that comes after ten minutes leads to the start again, though the sign-in lasts [D-PROV-91]", async () => {
    const browser = await left();
    const answer = await answerOf(party, browser);
    const cookie = browser.jar.header(new URL(answer));
    clock.advance(600);
    const { status } = await send(answer, { headers: { cookie }, redirect: "manual" });
    expect([status, tokenRequests()]).toEqual([400, 0]);
  });

  it("comes back to a sign-in that another tab has ended, and changes nothing [D-PROV-93]", async () => {
    const browser = await atLogin();
    const page = browser.url.href;
    const form = browser.form("password");
    await leaveFor(browser);
    const answer = await answerOf(party, browser);
    await browser.submit(form, { username: BOB.username, password: BOB.password });
    expect(hasCode(browser)).toBe(true);
    await browser.get(answer);
    expect([browser.status, browser.url.href]).toEqual([400, page]);
    expect(browser.title).toBe("This sign-in is complete");
    await browser.get(news.authorizeUrl({ prompt: "none", scope: "openid" }));
    const { body } = await news.userinfo((await news.tokensOf(browser)).access_token);
    expect(JSON.stringify(body)).toContain("bob@example.com");
  });

  it("of two tabs: the first completes the sign-in, the second learns that [D-PROV-93]", async () => {
    const browser = await atLogin();
    const page = browser.url.href;
    await leaveFor(browser);
    const first = await answerOf(party, browser);
    await browser.get(page);
    await leaveFor(browser);
    const second = await answerOf(party, browser);
    await browser.get(second);
    expect(hasCode(browser)).toBe(true);
    await browser.get(first);
    expect(browser.title).toBe("This sign-in is complete");
  });
});

const callback = (): string => `${party.openid}/providers/corp/callback`;

const post = (form: Record<string, string>, headers: Record<string, string> = {}) =>
  send(callback(), { method: "POST", body: new URLSearchParams(form), redirect: "manual", headers });

async function unlink(sub: string): Promise<void> {
  const { accounts } = party.service as typeof party.service & { readonly accounts: IdentityChanges };
  const identities = await party.storage.records.all<StoredIdentity>("identity");
  const own = identities.find((each) => each.sub === sub);
  await party.storage.records.transact((tx) => accounts.undoIdentity(tx, sub, own?.id ?? "", SYSTEM));
}

describe("an answer that comes as a form", () => {
  it("goes on as a GET with four parameters, sets nothing and asks nothing [D-PROV-94]", async () => {
    await left();
    const sent = { code: "c +/%&", state: "s=", error: "", iss: "https://a b", user: "{}", id_token: "x" };
    const { status, headers } = await post(sent, { origin: "https://appleid.apple.com" });
    expect(status).toBe(303);
    const location = new URL(headers.get("location") ?? "", party.openid);
    expect(location.pathname).toBe("/openid/providers/corp/callback");
    expect(Object.fromEntries(location.searchParams)).toEqual({
      code: sent.code,
      state: sent.state,
      error: "",
      iss: sent.iss,
    });
    expect(headers.getSetCookie()).toEqual([]);
    expect([await trips(), tokenRequests()]).toEqual([1, 0]);
  });

  it("ends the trip there [D-PROV-94]", async () => {
    const browser = await left();
    const answer = new URL(await answerOf(party, browser));
    const { headers } = await post(Object.fromEntries(answer.searchParams));
    await browser.get(new URL(headers.get("location") ?? "", party.openid));
    expect(hasCode(browser)).toBe(true);
  });

  it.each<[string, RequestInit]>([
    ["more than 4 KiB", { body: new URLSearchParams({ code: "x".repeat(4_096), state: "y" }) }],
    ["a megabyte", { body: new URLSearchParams({ code: "x".repeat(1_048_576) }) }],
    ["a repeated parameter", { body: new URLSearchParams("code=a&code=b&state=s") }],
    ["JSON", { body: '{"code":"x"}', headers: { "content-type": "application/json" } }],
  ])("of %s is refused [D-PROV-94]", async (_what, init) => {
    const { status, headers } = await send(callback(), { method: "POST", redirect: "manual", ...init });
    expect([status, headers.get("location")]).toEqual([400, null]);
  });
});

it.each(["nobody", "__proto__", "constructor", "Corp", "corp%2f"])(
  "there is no callback of the provider %s [D-PROV-92]",
  async (key) => {
    for (const method of ["GET", "POST"])
      expect((await send(`${party.openid}/providers/${key}/callback`, { method })).status).toBe(404);
  },
);

describe("what changes while somebody is away", () => {
  it("an identity that is unlinked signs nobody in [D-PROV-95]", async () => {
    const browser = await left();
    const answer = await answerOf(party, browser);
    await unlink(party.ada.sub);
    await browser.get(answer);
    expect(browser.title).toBe("You can’t sign in here with this Test provider account");
  });

  it("an identity that is unlinked before the second factor signs nobody in [D-PROV-95]", async () => {
    await party.service.accounts.addApp(party.ada.sub, { secret: SECRET });
    const browser = await left();
    await browser.get(await answerOf(party, browser));
    const form = browser.forms().find(({ fields }) => fields.some(([name]) => name === "code"));
    await unlink(party.ada.sub);
    await browser.submit(form, { code: totpCode(SECRET, clock.now()) });
    expect(hasCode(browser)).toBe(false);
    expect(await isOutside(browser)).toBe(true);
  });

  it("an account that is disabled has nobody come in [D-PROV-95]", async () => {
    const browser = await left();
    const answer = await answerOf(party, browser);
    await party.service.accounts.disable(party.ada.sub);
    await browser.get(answer);
    expect(browser.title).toBe("You can’t sign in here with this Test provider account");
  });

  it("a client that offers it no longer has nobody come in [D-PROV-95]", async () => {
    const browser = await left();
    const answer = await answerOf(party, browser);
    await party.service.clients.update("news", { providers: ["other"] });
    await browser.get(answer);
    expect(hasCode(browser)).toBe(false);
  });
});
