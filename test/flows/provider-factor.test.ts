/** A second factor that a provider has asked for: where it counts (decisions.md, Second factors). */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import type { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { basic, type RequestParameters, send, type TestAnswer } from "../../testing/test-client.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { clientAt } from "./clients.ts";
import { decide, enter, TELEVISION } from "./devices.ts";
import { leaveFor, type ProviderParty, startWithProvider } from "./provider-party.ts";
import { NEWS, OPERATOR, VAULT } from "./running-service.ts";
import { API, ARTICLES, READER, registerReader, RIGHTS, SCOPE, VIDEOS } from "./sample-apis.ts";

const ADA_THERE = { sub: "ada-there", email: "ada@corp.example" };
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

let clock: TestClock;
let party: ProviderParty;

beforeEach(async () => {
  clock = new TestClock();
  party = await startWithProvider(
    { trustsMfa: true },
    { config: { clock, operators: { [OPERATOR.sub]: "administrator" } } },
  );
  await party.link(party.ada.sub, ADA_THERE);
  await party.service.clients.register({ ...VAULT, client_id: "trusting", providers_mfa: true });
  await party.service.clients.register(VAULT);
});

const now = (): number => Math.floor(clock.now() / 1000);
const newsAt = () => clientAt(party, "openid", NEWS);
const begin = (): Promise<Browser> =>
  newsAt()
    .browser()
    .get(newsAt().authorizeUrl({ scope: "openid" }));
/** The claims about the sign-in that the client gets. */
async function claimsOf(browser: Browser) {
  const { id_token = "" } = await newsAt().tokensOf(browser);
  const { amr, acr } = decodeJwt(id_token);
  return { amr, acr };
}
function typeCode(browser: Browser): Promise<Browser> {
  const form = browser.forms().find(({ fields }) => fields.some(([name]) => name === "code"));
  return browser.submit(form, { code: totpCode(SECRET, clock.now()) });
}
const asksForCode = ({ html }: Browser): boolean => html.includes("one-time-code");

async function introspect(token: string): Promise<TestAnswer["body"]> {
  const { body } = await send(`${party.openid}/oauth2/introspect`, {
    method: "POST",
    headers: { authorization: basic(READER) },
    body: new URLSearchParams({ token }),
  });
  return body;
}
const withMfa = (): void => party.provider.signIn({ ...ADA_THERE, amr: ["pwd", "mfa"] });
async function visit(client_id: string, parameters: RequestParameters = {}, from?: Browser) {
  const client = clientAt(party, "openid", { ...VAULT, client_id });
  const browser = from ?? client.browser();
  await browser.get(client.authorizeUrl({ scope: "openid", ...parameters }));
  return { client, browser };
}
describe("a second factor of the provider", () => {
  it("counts for the clients that accept it, and for no other [D-PROV-87]", async () => {
    withMfa();
    const { client, browser } = await visit("trusting");
    await leaveFor(browser);
    const { id_token = "" } = await client.tokensOf(browser);
    expect(decodeJwt(id_token)).toMatchObject({ amr: ["fed", "mfa"], acr: "urn:sign-in-service:acr:mfa" });
    const elsewhere = await browser.get(newsAt().authorizeUrl({ scope: "openid" }));
    expect(await claimsOf(elsewhere)).toMatchObject({
      amr: ["fed"],
      acr: "urn:sign-in-service:acr:password",
    });
    await visit("vault", { prompt: "none" }, browser);
    expect(browser.location?.searchParams.get("error")).toBe("interaction_required");
  });

  it("spares an ordinary sign-in ours, and a request for more steps up [D-PROV-87]", async () => {
    await party.service.accounts.addApp(party.ada.sub, { secret: SECRET });
    withMfa();
    const browser = await leaveFor(await begin());
    expect(await claimsOf(browser)).toMatchObject({ amr: ["fed"], acr: "urn:sign-in-service:acr:password" });
    await visit("vault", {}, browser);
    expect(asksForCode(browser)).toBe(true);
    await typeCode(browser);
    expect(browser.location?.searchParams.has("code")).toBe(true);
    await browser.get(newsAt().authorizeUrl({ scope: "openid", acr_values: "urn:sign-in-service:acr:mfa" }));
    expect(await claimsOf(browser)).toMatchObject({
      amr: ["fed", "otp", "mfa"],
      acr: "urn:sign-in-service:acr:mfa",
    });
  });

  it("does not count where it is not trusted, is old, or is not said [D-PROV-87]", async () => {
    for (const person of [
      { amr: ["pwd"] },
      { amr: ["mfa"], auth_time: now() - 301 },
      { amr: ["mfa"], auth_time: null },
    ]) {
      party.provider.signIn({ ...ADA_THERE, ...person });
      await party.service.accounts.addApp(party.ada.sub, { secret: SECRET }).catch(() => undefined);
      const browser = await leaveFor(await begin());
      expect(asksForCode(browser)).toBe(true);
    }
  });

  it("does not count on the way to the account pages, nor where a recent sign-in is wanted [D-PROV-87]", async () => {
    await party.service.accounts.addApp(party.ada.sub, { secret: SECRET });
    withMfa();
    for (const address of [`${party.openid}/account`, newsAt().authorizeUrl({ prompt: "login" })]) {
      const browser = await leaveFor(await newsAt().browser().get(address));
      expect(asksForCode(browser)).toBe(true);
    }
  });

  it("is not in the tokens of an API, in introspection or at a device of a client that does not accept it [D-PROV-87]", async () => {
    const { clients, directory } = party.service;
    await registerReader(party);
    await directory.apis.put(ARTICLES, API);
    await directory.apis.put(VIDEOS, { ...API, name: "Videos", tokens: "jwt", lifetime: 300 });
    for (const client_id of ["news", "trusting"])
      await clients.update(client_id, { apis: { [VIDEOS]: RIGHTS, [ARTICLES]: RIGHTS } });
    await clients.register(TELEVISION);
    await clients.register({ ...TELEVISION, client_id: "trusting-television", providers_mfa: true });
    withMfa();
    const browser = await leaveFor(await begin());
    const expected = {
      plain: { amr: ["fed"], acr: "urn:sign-in-service:acr:password" },
      strong: { amr: ["fed", "mfa"], acr: "urn:sign-in-service:acr:mfa" },
    };
    for (const [client_id, shown] of [
      ["news", expected.plain],
      ["trusting", expected.strong],
    ] as const) {
      const client = clientAt(party, "openid", client_id === "news" ? NEWS : { ...VAULT, client_id });
      for (const resource of [VIDEOS, ARTICLES]) {
        await browser.get(client.authorizeUrl({ scope: SCOPE, resource }));
        const { access_token, refresh_token } = await client.tokensOf(browser);
        const { body } = await client.refresh(refresh_token);
        for (const token of [access_token, String(body["access_token"])]) {
          const read = resource === VIDEOS ? decodeJwt(token) : await introspect(token);
          expect([client_id, read]).toMatchObject([client_id, shown]);
        }
      }
    }
    for (const [client_id, shown] of [
      ["television", expected.plain],
      ["trusting-television", expected.strong],
    ] as const) {
      const device = clientAt(party, "openid", { client_id });
      const codes = await device.deviceCodes({ scope: "openid" });
      await decide(await enter(await browser.get(codes.verification_uri), codes.user_code), "connect");
      const { body } = await device.poll(codes);
      expect([client_id, decodeJwt(String(body["id_token"]))]).toMatchObject([client_id, shown]);
    }
  });

  it("does not let an operator into the console [D-PROV-87]", async () => {
    await party.service.accounts.import(OPERATOR);
    await party.service.accounts.addApp(OPERATOR.sub, { secret: SECRET });
    await party.link(OPERATOR.sub, { sub: "operator-there" });
    party.provider.signIn({ sub: "operator-there", amr: ["mfa"] });
    const browser = await leaveFor(await begin());
    expect(browser.location?.searchParams.has("code")).toBe(true);
    for (const page of ["/account/deliveries", "/account/people"]) {
      await browser.get(`${party.openid}${page}`);
      expect([page, browser.title, asksForCode(browser)]).toEqual([page, browser.title, true]);
    }
  });
});
