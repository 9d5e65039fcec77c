import { describe, expect, it } from "@jest/globals";
import { calculateJwkThumbprint, decodeJwt, exportJWK, generateKeyPair, SignJWT } from "jose";
import {
  basic,
  PATHS,
  readTokens,
  send,
  type TestAnswer,
  type TestClient,
} from "../../testing/test-client.ts";
import { atBoth, clientAt } from "./clients.ts";
import { ADA, BOB, NEWS, SHOP, startService, useService } from "./running-service.ts";
import { expectRefusal, expectTokens } from "./token-answers.ts";

const KINDS = ["oauth2", "openid"] as const;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const running = useService();
const news = atBoth(running, NEWS);

/** All paths of one purpose, aliases included. */
const ALL = {
  oauth2: { userinfo: [PATHS.oauth2.userinfo], profile: [PATHS.oauth2.profile] },
  openid: {
    userinfo: [PATHS.openid.userinfo, PATHS.oauth2.userinfo],
    profile: [PATHS.openid.profile, PATHS.oauth2.profile],
  },
};

const isAlive = async (party: TestClient, token: string): Promise<boolean> =>
  (await party.userinfo(token)).status === 200;

describe.each(KINDS)("userinfo and profile, %s", (kind) => {
  it("respond with the documented fields in order", async () => {
    const { access_token } = await news[kind].signIn(ADA);
    const { email, name, surname, date_of_birth, gender } = ADA;
    for (const path of ALL[kind].userinfo) {
      const { status, text, headers } = await news[kind].bearer(path, access_token);
      expect([status, text]).toEqual([200, JSON.stringify({ sub: running.ada.sub, email })]);
      expect(headers.get("content-type")).toContain("application/json");
      expect(headers.get("cache-control")).toBe("no-store");
    }
    for (const path of ALL[kind].profile) {
      const { text } = await news[kind].bearer(path, access_token);
      const fields = { sub: running.ada.sub, email, name, surname, date_of_birth, gender };
      expect(text).toBe(JSON.stringify(fields));
    }
    expect(running.ada.sub).toMatch(UUID);
    expect(date_of_birth).toMatch(/^\d{4}-\d\d-\d\d$/);
  });

  it("respond with null for missing fields, and with later changes [D-TOKEN-16, D-TOKEN-17]", async () => {
    const { access_token } = await news[kind].signIn(BOB);
    const { sub } = running.bob;
    const none = { name: null, surname: null, date_of_birth: null, gender: null };
    expect((await news[kind].profile(access_token)).body).toEqual({ sub, email: BOB.email, ...none });
    await running.service.accounts.update(sub, { name: "Bob", gender: "anything, really" });
    expect((await news[kind].profile(access_token)).body).toMatchObject({
      name: "Bob",
      gender: "anything, really",
    });
    await running.service.accounts.update(sub, { name: null, gender: null });
  });

  it("agree with the ID token [USERINFO-4, RES-ID-2]", async () => {
    const { id_token = "" } = await news.openid.signIn(ADA, { scope: "openid" });
    const { sub, email } = decodeJwt(id_token);
    const { access_token } = await news[kind].signIn(ADA);
    expect((await news[kind].userinfo(access_token)).body).toEqual({ sub, email });
  });

  it("accept tokens of the other deployment [D-DEPLOY-1]", async () => {
    const other = kind === "oauth2" ? news.openid : news.oauth2;
    const { access_token } = await other.signIn(ADA);
    expect((await news[kind].userinfo(access_token)).status).toBe(200);
    expect((await news[kind].profile(access_token)).status).toBe(200);
    expectRefusal(await clientAt(running, kind, SHOP).userinfo(access_token), "invalid_token", 401);
  });

  it("are refused without client_id or a Bearer header", async () => {
    const { access_token } = await news[kind].signIn(ADA);
    const authorization = `Bearer ${access_token}`;
    const paths = [...ALL[kind].userinfo, ...ALL[kind].profile, "/oauth2/revoke"];
    for (const path of paths) {
      const get = (query: string, headers: HeadersInit = { authorization }): Promise<TestAnswer> =>
        send(`${news[kind].base}${path}${query}`, { headers });
      const requests: Promise<TestAnswer>[] = [
        get(""),
        get("?client_id="),
        get("?client_id=news&client_id=news"),
        get("?client_id=news&client_id=shop"),
        get("?client_id=news", {}),
        get("?client_id=news", { authorization: access_token }),
        get("?client_id=news", { authorization: "Bearer" }),
        get("?client_id=news", { authorization: basic(NEWS) }),
        get("?client_id=news", { authorization: `${authorization}, Bearer x` }),
        get(`?client_id=news&access_token=${access_token}`, {}),
      ];
      for (const answer of await Promise.all(requests)) {
        expectRefusal(answer, "invalid_request");
        expect(answer.headers.get("www-authenticate")).toBeNull();
      }
    }
    expect(await isAlive(news[kind], access_token)).toBe(true);
  });

  it("have one response for all invalid tokens [ERR-6, ERR-7, ERR-8, D-TOKEN-4]", async () => {
    const { access_token, refresh_token } = await news[kind].signIn(ADA);
    const ended = await news[kind].signIn(ADA);
    await news[kind].revoke(ended.access_token);
    const paths = [...ALL[kind].userinfo, ...ALL[kind].profile, "/oauth2/revoke"];
    const texts = new Set<string>();
    for (const path of paths) {
      const get = (client_id: string, token: string): Promise<TestAnswer> =>
        send(`${news[kind].base}${path}?client_id=${client_id}`, {
          headers: { authorization: `Bearer ${token}`, accept: "text/html" },
        });
      for (const [client_id, token] of [
        ["news", "unknown"],
        ["news", refresh_token],
        ["news", ended.access_token],
        ["partner", access_token],
        ["nobody", access_token],
      ] as const) {
        const answer = await get(client_id, token);
        expectRefusal(answer, "invalid_token");
        texts.add(answer.text);
      }
    }
    expect(texts.size).toBe(1);
    expect(await isAlive(news[kind], access_token)).toBe(true);
  });

  it("respond with 401 and WWW-Authenticate to a client registered for standard statuses [D-TOKEN-2]", async () => {
    const shop = clientAt(running, kind, SHOP);
    for (const path of [...ALL[kind].userinfo, ...ALL[kind].profile, "/oauth2/revoke"]) {
      const bad = await shop.bearer(path, "unknown");
      expectRefusal(bad, "invalid_token", 401);
      expect(bad.headers.get("www-authenticate")).toMatch(/^Bearer .*error="invalid_token"/);
      const missing = await send(`${shop.base}${path}?client_id=shop`);
      expectRefusal(missing, "invalid_request", 401);
      expect(missing.headers.get("www-authenticate")).toMatch(/^Bearer /);
      expect(missing.headers.get("www-authenticate")).not.toContain("error=");
      const repeated = await send(`${shop.base}${path}?client_id=shop&client_id=shop`);
      expect(repeated.status).toBe(400);
    }
    // The client in the query decides, not the one that the token was issued to.
    const [own, others] = [await shop.signIn(ADA), await news[kind].signIn(ADA)];
    for (const path of [...ALL[kind].userinfo, ...ALL[kind].profile, "/oauth2/revoke"]) {
      expectRefusal(await shop.bearer(path, others.access_token), "invalid_token", 401);
      expectRefusal(await news[kind].bearer(path, own.access_token), "invalid_token");
    }
  });
});

describe.each(KINDS)("the documented revoke, %s", (kind) => {
  it.each(["GET", "POST"] as const)("by %s ends exactly the presented access token, once", async (method) => {
    const tokens = await news[kind].signIn(ADA);
    const sibling = readTokens(await news[kind].refresh(tokens.refresh_token));
    const answer = await news[kind].revoke(tokens.access_token, method);
    expect([answer.status, answer.text]).toEqual([200, "{}"]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(await isAlive(news[kind], tokens.access_token)).toBe(false);
    expect(await isAlive(news[kind], sibling.access_token)).toBe(true);
    expectTokens(await news[kind].refresh(tokens.refresh_token));
    expectRefusal(await news[kind].revoke(tokens.access_token, method), "invalid_token");
  });

  it("succeeds for one of twenty concurrent requests [D-TOKEN-18]", async () => {
    const { access_token } = await news[kind].signIn(ADA);
    const answers = await Promise.all(Array.from({ length: 20 }, () => news[kind].revoke(access_token)));
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    for (const answer of answers) if (answer !== won[0]) expectRefusal(answer, "invalid_token");
  });

  it("ignores prefetch requests [D-TOKEN-18]", async () => {
    const { access_token } = await news[kind].signIn(ADA);
    const prefetches: Record<string, string>[] = [
      { "sec-purpose": "prefetch" },
      { "sec-purpose": "prefetch;prerender" },
      { purpose: "prefetch" },
    ];
    for (const headers of prefetches) {
      const answer = await news[kind].bearer("/oauth2/revoke", access_token, { headers });
      expectRefusal(answer, "invalid_request");
    }
    expect(await isAlive(news[kind], access_token)).toBe(true);
  });

  it("accepts no token and client_id in the form, and refuses ambiguous requests [D-TOKEN-19]", async () => {
    const { access_token } = await news[kind].signIn(ADA);
    const { client_id, client_secret } = NEWS;
    const authorization = `Bearer ${access_token}`;
    const post = (query: string, form: Record<string, string>, headers: Record<string, string> = {}) =>
      send(`${news[kind].base}/oauth2/revoke${query}`, {
        method: "POST",
        headers,
        body: new URLSearchParams(form),
      });
    const query = "?client_id=news";
    for (const answer of [
      await post(query, { token: access_token }, { authorization }),
      await post(query, { client_id }, { authorization }),
      await post("", { client_id }, { authorization }),
      await post("", {}, { authorization }),
      await post(query, {}),
      await post("", { client_id, client_secret }),
      await post("", {}, { authorization: basic(NEWS) }),
      await post("", { client_id, client_secret, token: "" }),
    ]) {
      expectRefusal(answer, "invalid_request");
    }
    expect(await isAlive(news[kind], access_token)).toBe(true);
  });
});

describe.each(KINDS)("RFC 7009 revocation, %s", (kind) => {
  function revoke(token: string, client = NEWS, form: Record<string, string> = {}): Promise<TestAnswer> {
    return clientAt(running, kind, client).post("/oauth2/revoke", { token, ...form });
  }

  it("ends an access token alone and a refresh token with its family [D-DEPLOY-4, D-TOKEN-19]", async () => {
    for (const token_type_hint of ["", "access_token", "refresh_token", "nonsense"]) {
      const hint: Record<string, string> = token_type_hint === "" ? {} : { token_type_hint };
      const tokens = await news[kind].signIn(ADA);
      const other = await news[kind].signIn(ADA);
      const sibling = readTokens(await news[kind].refresh(tokens.refresh_token));
      expect((await revoke(tokens.access_token, NEWS, hint)).text).toBe("{}");
      expect(await isAlive(news[kind], tokens.access_token)).toBe(false);
      expect(await isAlive(news[kind], sibling.access_token)).toBe(true);
      expect((await revoke(tokens.refresh_token, NEWS, hint)).status).toBe(200);
      expect(await isAlive(news[kind], sibling.access_token)).toBe(false);
      expectRefusal(await news[kind].refresh(tokens.refresh_token), "invalid_grant");
      expect(await isAlive(news[kind], other.access_token)).toBe(true);
      expectTokens(await news[kind].refresh(other.refresh_token));
    }
  });

  it("is 200 for unknown, ended and other clients' tokens, and ends nothing [D-TOKEN-19]", async () => {
    const tokens = await news[kind].signIn(ADA);
    for (const token of ["unknown", "ž", tokens.access_token, tokens.refresh_token]) {
      expect((await revoke(token, SHOP)).status).toBe(200);
    }
    expect(await isAlive(news[kind], tokens.access_token)).toBe(true);
    expectTokens(await news[kind].refresh(tokens.refresh_token));
    for (let time = 0; time < 2; time += 1) expect((await revoke(tokens.access_token)).status).toBe(200);
    const both = await Promise.all(Array.from({ length: 10 }, () => revoke(tokens.refresh_token)));
    expect(both.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
  });

  it("requires the client's secret, by Basic or in the form [D-TOKEN-7, D-TOKEN-19]", async () => {
    const tokens = await news[kind].signIn(ADA);
    expectRefusal(await revoke(tokens.access_token, { ...NEWS, client_secret: "wrong" }), "invalid_client");
    expect(await isAlive(news[kind], tokens.access_token)).toBe(true);
    const { client_id, client_secret } = NEWS;
    const body = new URLSearchParams({ token: tokens.access_token, client_id, client_secret });
    const answer = await send(`${news[kind].base}/oauth2/revoke`, { method: "POST", body });
    expect([answer.status, await isAlive(news[kind], tokens.access_token)]).toEqual([200, false]);
  });
});

it("a DPoP-bound token is not accepted as a bearer token [D-TOKEN-4]", async () => {
  const bound = await startService({ config: { features: { dpop: true } } });
  const party = clientAt(bound, "openid", NEWS);
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
  const code = await party.code(ADA);
  const form = { grant_type: "authorization_code", code, redirect_uri: party.redirect_uri };
  const { body } = await party.token(form, { authorization: basic(NEWS), dpop: proof });
  expect(body["token_type"]).toBe("DPoP");
  for (const path of [...ALL.openid.userinfo, ...ALL.openid.profile, "/oauth2/revoke"]) {
    expectRefusal(await party.bearer(path, String(body["access_token"])), "invalid_token");
  }
});
