import { beforeEach, describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { decodeJwt } from "jose";
import type { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { basic, readTokens, send } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { PARTNER, useService } from "../flows/running-service.ts";
import { PLANTED } from "./verdict.ts";

let browser: Browser;

const running = useService({});
const partner = clientAt(running, "openid", PARTNER);
/** A signed-in browser that has given no consent. */
beforeEach(async () => {
  browser = partner.browser();
  await browser.get(partner.authorizeUrl({ scope: "openid" }));
  await signIn(browser);
  expect(browser.html).toContain('name="decision"');
});

/** The fields on the consent page. The entries of the footer hold links, and no text of their own. */
const plainFields = (): string[] =>
  tagsNamed(browser.html, "li").flatMap(({ text }) => (text.trim() === "" ? [] : [text.trim()]));

/** A `claims` parameter of so many bytes. */
const padded = (bytes: number): string =>
  `{"userinfo":{"${"é".repeat((bytes - '{"userinfo":{"":null}}'.length) / 2)}":null}}`;

/** In the browser's request, and pushed. */
const WAYS: readonly [way: string, address: (claims: string) => Promise<string>][] = [
  ["in the address", async (claims) => partner.authorizeUrl({ scope: "openid", claims })],
  [
    "pushed",
    async (claims) => {
      const { client_id } = PARTNER;
      const redirect_uri = partner.redirect_uri;
      const form = { client_id, redirect_uri, response_type: "code", scope: "openid", claims };
      const { status, body } = await send(`${running.openid}/oauth2/par`, {
        method: "POST",
        headers: { authorization: basic(PARTNER) },
        body: new URLSearchParams(form),
      });
      expect([status, body]).toEqual([201, expect.anything()]);
      const pushed = { client_id, request_uri: String(body["request_uri"]) };
      return `${running.openid}/oauth2/authorize?${new URLSearchParams(pushed)}`;
    },
  ],
];

const P = PLANTED;
/** Each with the fields that it adds to those of `openid`. */
const STRANGE: readonly [what: string, claims: string, adds: readonly string[]][] = [
  ["an unknown name", `{"userinfo":{"${P}":null}}`, []],
  ["HTML", `{"userinfo":{"<script>${P}</script>":null,"<b>${P}</b>":{"essential":true}}}`, []],
  ["a sentence that looks like ours", `{"id_token":{"Your ${P} password":null}}`, []],
  ["__proto__", `{"userinfo":{"__proto__":{"${P}":null},"constructor":null,"toString":null}}`, []],
  ["__proto__ around it", `{"__proto__":{"userinfo":{"gender":null}},"userinfo":{}}`, []],
  ["a name in the text files", `{"userinfo":{"account":null,"field.email":null,"zoneinfo":null}}`, []],
  ["values", `{"userinfo":{"gender":{"value":"${P}","values":["${P}"],"${P}":"${P}"}}}`, ["Gender"]],
  ["values of acr", `{"id_token":{"acr":{"values":["${P}"],"${P}":1},"gender":null}}`, ["Gender"]],
  ["a string for a request", `{"id_token":{"sub":"${P}","gender":"${P}","acr":"${P}"}}`, []],
  [
    "numbers and lists for requests",
    `{"id_token":{"sub":7,"gender":["${P}"],"acr":[],"auth_time":true}}`,
    [],
  ],
  ["nested", `{"userinfo":{"gender":${'{"a":'.repeat(18)}null${"}".repeat(18)}}}`, ["Gender"]],
  ["nested lists", `{"userinfo":{"gender":${"[".repeat(18)}${"]".repeat(18)}}}`, []],
  [
    "the same name twice",
    `{"userinfo":{"gender":"${P}","gender":null},"id_token":{"${P}":1,"${P}":2}}`,
    ["Gender"],
  ],
  ["an escaped name", `{"userinfo":{"\\u0067ender":null,"\\u0000${P}":null,"\\ud800":null}}`, ["Gender"]],
  ["other targets", `{"userinfo":{},"${P}":{"gender":null},"introspection":{"email":null}}`, []],
  [
    "many names",
    JSON.stringify({ userinfo: Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`${n}`, null])) }),
    [],
  ],
];

describe.each(WAYS)("the claims parameter, %s", (_way, address) => {
  it.each(STRANGE)("shows nothing of %s on the consent page [D-CLAIMS-2]", async (_what, claims, adds) => {
    const expected = [...plainFields(), ...adds];
    await browser.get(await address(claims));
    expect(browser.status).toBe(200);
    expect(plainFields().toSorted()).toEqual(expected.toSorted());
    expect(browser.html).not.toContain(P);
    await browser.submit(browser.form("decision"), { decision: "allow" });
    const code = browser.location?.searchParams.get("code") ?? "";
    const { id_token = "", access_token } = readTokens(await partner.exchange(code));
    expect(JSON.stringify(decodeJwt(id_token))).not.toContain(P);
    expect((await partner.bearer("/oauth2/userinfo", access_token)).text).not.toContain(P);
    await running.service.accounts.revokeTokens(running.ada.sub);
    expect(Object.hasOwn(Object.prototype, P)).toBe(false);
  });

  it("stores nothing unknown in the account [D-CLAIMS-2]", async () => {
    await browser.get(await address(`{"userinfo":{"${P}":null,"gender":{"value":"${P}"}}}`));
    await browser.submit(browser.form("decision"), { decision: "allow" });
    expect(JSON.stringify(await running.service.accounts.find(running.ada.sub))).not.toContain(P);
    await running.service.accounts.revokeTokens(running.ada.sub);
  });
});

describe("the claims parameter", () => {
  it.each([
    `{"userinfo":{`,
    P,
    `"${P}"`,
    "null",
    "7",
    "[]",
    "{}",
    `{"${P}":{}}`,
    `{"userinfo":["${P}"]}`,
    `{"userinfo":null,"id_token":{}}`,
    `{"id_token":"${P}"}`,
    "[".repeat(3_000),
  ])("is refused with the standard error if it is invalid: %.40s [D-AUTHZ-8, D-CLAIMS-2]", async (claims) => {
    await browser.get(partner.authorizeUrl({ scope: "openid", claims, state: "s" }));
    expect(browser.location?.searchParams.get("error")).toBe("invalid_request");
    expect(browser.location?.searchParams.get("state")).toBe("s");
    expect(browser.location?.href).not.toContain(P);
  });

  it("accepts at most 8,192 bytes, with or without openid [D-CLAIMS-2]", async () => {
    expect(Buffer.byteLength(padded(8_192))).toBe(8_192);
    const push = async (claims: string, scope: string): Promise<number> => {
      const form = {
        client_id: PARTNER.client_id,
        redirect_uri: partner.redirect_uri,
        response_type: "code",
      };
      const body = new URLSearchParams({ ...form, scope, claims });
      const headers = { authorization: basic(PARTNER) };
      return (await send(`${running.openid}/oauth2/par`, { method: "POST", headers, body })).status;
    };
    expect(await push(padded(8_192), "openid")).toBe(201);
    expect(await push(padded(8_194), "openid")).toBe(400);
    const names = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`${n}`, null]));
    expect(await push(JSON.stringify({ userinfo: names }), "openid")).toBe(400);
    expect(await push(padded(8_192), "email")).toBe(201);
    expect(await push(padded(8_194), "email")).toBe(400);
    const oauth2 = clientAt(running, "oauth2", PARTNER);
    await browser.get(oauth2.authorizeUrl({ scope: "openid email", claims: `{"userinfo":{"${P}":null}}` }));
    expect([browser.status, browser.html.includes(P)]).toEqual([200, false]);
  });

  it.each([
    ["objects", `{"userinfo":{"gender":${'{"a":'.repeat(19)}null${"}".repeat(19)}}}`],
    ["lists", `{"userinfo":{"gender":${"[".repeat(19)}${"]".repeat(19)}}}`],
    ["lists and nothing else", `${"[".repeat(2_000)}${"]".repeat(2_000)}`],
  ])("is a 400 if it is nested deeper than 20 levels: %s [D-STRANGER-7]", async (_what, claims) => {
    await browser.get(partner.authorizeUrl({ scope: "openid", claims }));
    expect([browser.status, browser.location]).toEqual([400, undefined]);
  });

  it("never causes a server error, with any JSON [D-CLAIMS-2]", async () => {
    const request = fc.dictionary(
      fc.oneof(fc.constantFrom("sub", "acr", "auth_time", "email", "name", "__proto__"), fc.string()),
      fc.oneof(
        fc.json().map((text) => JSON.parse(text) as unknown),
        fc.constant(null),
      ),
      { maxKeys: 8 },
    );
    await fc.assert(
      fc.asyncProperty(request, request, async (userinfo, id_token) => {
        const claims = JSON.stringify({ userinfo, id_token });
        await browser.getOnly(partner.authorizeUrl({ scope: "openid", claims }));
        // 303 to the consent page or to the login form, or 302 back to the client.
        expect([302, 303]).toContain(browser.status);
      }),
      { numRuns: 60 },
    );
  });
});
