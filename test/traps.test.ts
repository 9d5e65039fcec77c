/** Where the library that is used and the documented interface differ: one short test for each place, 1 to 17. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { calculateJwkThumbprint, decodeJwt, exportJWK, generateKeyPair, SignJWT } from "jose";
import type { Browser } from "../lib/testing/browser/browser.ts";
import {
  basic,
  type Parameters,
  PATHS,
  readTokens,
  type RelyingParty,
  relyingParty,
  send,
  type Tokens,
} from "./flows/relying-party.ts";
import { ADA, BOB, CALLBACK, NEWS, type RunningService, startService } from "./flows/running-service.ts";
import { openStorage } from "../lib/storage.ts";
import { StorageUnavailable } from "../lib/errors.ts";
import { createSignInServiceOver } from "../lib/service.ts";
import { WatchedStorage } from "./faults/watched-storage.ts";

let running: RunningService;
let watched: WatchedStorage;
let oauth2: RelyingParty;
let openid: RelyingParty;
/** Ada's browser, signed in. */
let browser: Browser;

beforeAll(async () => {
  running = await startService({
    start: (config) =>
      createSignInServiceOver(config, async (configuration) => {
        watched = new WatchedStorage(await openStorage(configuration));
        return watched.storage;
      }),
  });
  oauth2 = relyingParty(running, "oauth2", NEWS);
  openid = relyingParty(running, "openid", NEWS);
  browser = oauth2.browser();
  await oauth2.authorize(browser);
});
afterAll(() => running.close());

/** Where Ada's browser is sent at once. */
async function ask(party: RelyingParty, parameters: Parameters = {}): Promise<URLSearchParams> {
  await browser.getOnly(party.authorizeUrl(parameters));
  return browser.location?.searchParams ?? new URLSearchParams();
}
const errorOf = async (
  answer: Promise<{ status: number; body: Readonly<Record<string, unknown>> }>,
): Promise<unknown> => {
  const { status, body } = await answer;
  return `${status} ${String(body["error"])}`;
};

describe("at the authorization endpoint", () => {
  it("trap 1: a request without a scope, or with unknown ones, works [D-AUTHZ-12]", async () => {
    for (const party of [oauth2, openid]) {
      for (const scope of [undefined, "", "profiles unknown"]) {
        expect((await ask(party, { scope })).has("code")).toBe(true);
      }
    }
  });

  it("trap 2: a nonce without openid is no error [D-AUTHZ-13]", async () => {
    for (const party of [oauth2, openid]) expect((await ask(party, { nonce: "n" })).has("code")).toBe(true);
  });

  it("trap 3: openid asked of the OAuth 2.0 deployment gives no ID token, on the other one neither [D-DEPLOY-3, D-AUTHZ-7]", async () => {
    const code = (await ask(oauth2, { scope: "openid email" })).get("code") ?? "";
    const tokens = readTokens(await openid.exchange(code));
    const refreshed = readTokens(await openid.refresh(tokens.refresh_token));
    expect([tokens.id_token, refreshed.id_token]).toEqual([undefined, undefined]);
    const granted = await openid.tokens({ scope: "openid" }, ADA, browser);
    expect([
      typeof granted.id_token,
      readTokens(await oauth2.refresh(granted.refresh_token)).id_token,
    ]).toEqual(["string", undefined]);
  });

  it("trap 4: redirects are 302, in the query, with the documented error and without iss on the OAuth 2.0 deployment [D-AUTHZ-4, D-AUTHZ-6, D-AUTHZ-9]", async () => {
    const types = ["token", "id_token", "code token", "none", "CODE", undefined];
    for (const response_type of types) {
      for (const response_mode of ["fragment", "form_post", "query"]) {
        const answer = await ask(oauth2, { response_type, response_mode, state: "s" });
        expect([...answer]).toEqual([
          ["error", "invalid_response_type"],
          ["state", "s"],
        ]);
        expect([browser.status, browser.location?.hash]).toEqual([302, ""]);
      }
    }
    expect([...(await ask(oauth2, { response_mode: "form_post" })).keys()]).toEqual(["code"]);
    expect([...(await ask(openid)).keys()]).toEqual(["code", "iss"]);
    expect(browser.status).toBe(302);
  });

  it("trap 5: errors are JSON unless the browser accepts HTML, at the token endpoint always [D-AUTHZ-14, EP-2]", async () => {
    for (const [accept, type] of [
      ["text/html", "text/html"],
      ["*/*", "application/json"],
      ["application/json", "application/json"],
    ] as const) {
      const { status, headers } = await send(`${oauth2.base}/oauth2/authorize`, { headers: { accept } });
      expect([status, headers.get("content-type")?.split(";")[0]]).toEqual([400, type]);
      const token = await oauth2.token({}, { authorization: basic(NEWS), accept });
      expect([token.status, token.body["error"]]).toEqual([400, "invalid_request"]);
    }
  });

  it("trap 6: an empty state comes back, a space as %20, and the registered address as it was registered [D-AUTHZ-10]", async () => {
    expect((await ask(oauth2, { state: "" })).get("state")).toBe("");
    await ask(oauth2, { state: "a b+c" });
    expect(browser.headers.get("location")).toMatch(/&state=a%20b%2Bc$/);
    const address = "https://App.example?state=mine&x=%20";
    await running.service.clients.register({
      ...NEWS,
      client_id: "as-is",
      name: "As is",
      redirect_uris: [address],
    });
    await ask(oauth2, { client_id: "as-is", redirect_uri: address, state: "s" });
    expect(browser.headers.get("location")).toMatch(/^https:\/\/App\.example\?x=%20&code=[\w-]+&state=s$/);
  });
});

describe("at the token endpoint", () => {
  it("trap 7: Basic works plain and form-encoded, with + and % in the secret [D-TOKEN-6]", async () => {
    const client = { ...NEWS, client_id: "signs", client_secret: "a+b%2Bc%zz d:e&=" };
    await running.service.clients.register({ ...client, name: "Signs" });
    const form = { grant_type: "refresh_token", refresh_token: "unknown" };
    for (const client_secret of [client.client_secret, encodeURIComponent(client.client_secret)]) {
      expect(await errorOf(oauth2.token(form, { authorization: basic({ ...client, client_secret }) }))).toBe(
        "400 invalid_grant",
      );
    }
  });

  it("trap 8: client-side faults are 400 without WWW-Authenticate [ERR-5, ERR-6, D-TOKEN-2]", async () => {
    const wrong = { authorization: basic({ ...NEWS, client_secret: "this is not the secret" }) };
    for (const answer of [await oauth2.token({ grant_type: "x" }, wrong), await oauth2.userinfo("unknown")]) {
      expect([answer.status, answer.headers.has("www-authenticate")]).toEqual([400, false]);
    }
  });

  it("trap 9: token_type is bearer in small letters, and there is no member beside the documented ones [D-TOKEN-9, D-TOKEN-11]", async () => {
    const { body } = await oauth2.exchange(await oauth2.code({ scope: "profile" }, ADA, browser));
    expect(Object.keys(body)).toEqual(["access_token", "token_type", "expires_in", "refresh_token"]);
    expect(body["token_type"]).toBe("bearer");
  });

  it("trap 10: there is always a refresh token, for a default client too, and tokens outlive the session [D-TOKEN-12]", async () => {
    const own = oauth2.browser();
    const tokens = await oauth2.tokens({}, BOB, own);
    await running.service.accounts.endSessions(running.bob.sub);
    expect((await oauth2.userinfo(tokens.access_token)).status).toBe(200);
    expect(typeof readTokens(await oauth2.refresh(tokens.refresh_token)).refresh_token).toBe("string");
  });

  it("trap 11: the ID token carries the e-mail address, also from the password grant [RES-ID-2]", async () => {
    const tokens: Tokens[] = [
      await openid.tokens({ scope: "openid" }, ADA, browser),
      readTokens(await openid.password(ADA, { scope: "openid" })),
    ];
    for (const { id_token = "" } of tokens) {
      expect(decodeJwt(id_token)).toMatchObject({ sub: running.ada.sub, email: ADA.email });
    }
  });

  it("trap 12: redirect_uri is required for a code [TOKEN-CODE-5, D-TOKEN-14]", async () => {
    const code = await oauth2.code({}, ADA, browser);
    expect(await errorOf(oauth2.token({ grant_type: "authorization_code", code }))).toBe(
      "400 invalid_request",
    );
    expect((await oauth2.exchange(code)).status).toBe(200);
  });

  it("trap 13: an Origin header is no reason to refuse [D-DEPLOY-8]", async () => {
    const code = await oauth2.code({}, ADA, browser);
    const form = { grant_type: "authorization_code", code, redirect_uri: CALLBACK };
    const headers = { authorization: basic(NEWS), origin: "https://app.example" };
    expect((await oauth2.token(form, headers)).status).toBe(200);
  });
});

describe("with a token", () => {
  it("trap 14: userinfo needs no openid, takes its own client only, and no disabled one [D-TOKEN-4]", async () => {
    const client = { ...NEWS, client_id: "going", name: "Going" };
    await running.service.clients.register(client);
    const going = relyingParty(running, "openid", client);
    const { access_token } = readTokens(await going.password());
    expect((await going.userinfo(access_token)).body).toEqual({ sub: running.ada.sub, email: ADA.email });
    expect(await errorOf(openid.userinfo(access_token))).toBe("400 invalid_token");
    await running.service.clients.disable("going");
    expect(await errorOf(going.userinfo(access_token))).toBe("400 invalid_token");
  });

  it("trap 14, with DPoP: a token that is bound to a key is no bearer token, and says what it is", async () => {
    const bound = await startService({ config: { features: { dpop: true } } });
    try {
      const party = relyingParty(bound, "openid", NEWS);
      const { privateKey, publicKey } = await generateKeyPair("ES256");
      const jwk = await exportJWK(publicKey);
      const proof = await new SignJWT({
        htm: "POST",
        htu: `${party.base}/oauth2/token`,
        jti: await calculateJwkThumbprint(jwk),
      })
        .setProtectedHeader({ alg: "ES256", typ: "dpop+jwt", jwk })
        .setIssuedAt()
        .sign(privateKey);
      const form = { grant_type: "authorization_code", code: await party.code(), redirect_uri: CALLBACK };
      const { body } = await party.token(form, { authorization: basic(NEWS), dpop: proof });
      expect(body["token_type"]).toBe("DPoP");
      for (const path of [PATHS.openid.userinfo, PATHS.openid.profile, "/oauth2/revoke"]) {
        expect((await party.bearer(path, String(body["access_token"]))).body["error"]).toBe("invalid_token");
      }
    } finally {
      await bound.close();
    }
  });

  it("trap 15: revoking an access token ends it alone, in both meanings of POST [D-TOKEN-18, D-TOKEN-19]", async () => {
    const first = await oauth2.tokens({}, ADA, browser);
    const [second, third] = [
      await oauth2.refresh(first.refresh_token),
      await oauth2.refresh(first.refresh_token),
    ].map(readTokens);
    expect((await oauth2.revoke(first.access_token, "POST")).status).toBe(200);
    const form = new URLSearchParams({ token: second?.access_token ?? "" });
    const standard = await send(`${oauth2.base}/oauth2/revoke`, {
      method: "POST",
      headers: { authorization: basic(NEWS) },
      body: form,
    });
    expect([standard.status, standard.text]).toEqual([200, "{}"]);
    expect(await errorOf(oauth2.userinfo(second?.access_token ?? ""))).toBe("400 invalid_token");
    expect((await oauth2.userinfo(third?.access_token ?? "")).status).toBe(200);
    expect((await oauth2.refresh(first.refresh_token)).status).toBe(200);
  });
});

describe("under stress", () => {
  it("trap 16: a fault of the store is 503 without a Location, and the same request succeeds afterwards; NUL is 400 [ERR-9, D-TOKEN-5, D-TOKEN-8]", async () => {
    const code = await oauth2.code({}, ADA, browser);
    watched.fail = ({ name }) => {
      if (name.endsWith("commit")) throw new StorageUnavailable("planted by the test");
    };
    const exchange = await oauth2.exchange(code);
    expect([exchange.status, exchange.body["error"], exchange.headers.has("retry-after")]).toEqual([
      503,
      "temporarily_unavailable",
      true,
    ]);
    for (const party of [oauth2, openid]) {
      await browser.getOnly(party.authorizeUrl());
      expect([browser.status, browser.location, browser.headers.getSetCookie()]).toEqual([
        503,
        undefined,
        [],
      ]);
    }
    watched.fail = () => undefined;
    expect((await oauth2.exchange(code)).status).toBe(200);
    expect(await errorOf(oauth2.exchange("a\0b"))).toBe("400 invalid_request");
    expect(await errorOf(send(`${oauth2.authorizeUrl()}&state=%00`))).toBe("400 invalid_request");
  });

  it("trap 17: of many exchanges of one code exactly one gets tokens [D-TOKEN-13]", async () => {
    const code = await oauth2.code({}, ADA, browser);
    const answers = await Promise.all(Array.from({ length: 30 }, () => oauth2.exchange(code)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(29);
  });
});
