import { createHash, randomBytes } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import { TestClock } from "../../testing/test-clock.ts";
import { basic, readTokens, type TestClient, type TestTokens } from "../../testing/test-client.ts";
import { atBoth, clientAt, signIn } from "./clients.ts";
import {
  ADA,
  CALLBACK,
  type KnownClient,
  NEWS,
  type RunningOptions,
  type RunningService,
  SHOP,
  startService,
  useService,
} from "./running-service.ts";
import { expectRefusal, expectTokens, untilReplay } from "./token-answers.ts";

const KINDS = ["oauth2", "openid"] as const;

const running = useService();
const news = atBoth(running, NEWS);

/** Whether both tokens of a response work. */
async function works(party: TestClient, { access_token, refresh_token }: TestTokens): Promise<boolean[]> {
  const [userinfo, refresh] = [await party.userinfo(access_token), await party.refresh(refresh_token)];
  return [userinfo.status === 200, refresh.status === 200];
}

/** A client with its own rules for refresh tokens. */
async function withRules(
  refresh_tokens: NonNullable<KnownClient["refresh_tokens"]>,
  service: RunningService = running,
): Promise<TestClient> {
  const client = { ...NEWS, client_id: randomBytes(8).toString("hex"), refresh_tokens };
  await service.service.clients.register(client);
  return clientAt(service, "openid", client);
}

async function withService(
  options: RunningOptions,
  work: (service: RunningService) => Promise<void>,
): Promise<void> {
  const service = await startService(options);
  try {
    await work(service);
  } finally {
    await service.close();
  }
}

describe.each(KINDS)("an authorization code, %s", (kind) => {
  it("gives tokens to exactly one of 20 concurrent exchanges, whose tokens keep working [D-TOKEN-13]", async () => {
    for (const scope of [undefined, "openid"]) {
      const code = await news[kind].code(ADA, { scope });
      const answers = await Promise.all(Array.from({ length: 20 }, () => news[kind].exchange(code)));
      const won = answers.filter(({ status }) => status === 200);
      expect(won).toHaveLength(1);
      for (const answer of answers) if (answer !== won[0]) expectRefusal(answer, "invalid_grant");
      const tokens = readTokens(won[0]!);
      expect(await works(news[kind], tokens)).toEqual([true, true]);
      await untilReplay();
      expectRefusal(await news[kind].exchange(code), "invalid_grant");
      expect(await works(news[kind], tokens)).toEqual([false, false]);
    }
  });

  it("that is replayed ends its whole family and no other [D-TOKEN-13, D-AUTHZ-16]", async () => {
    const code = await news[kind].code(ADA);
    const tokens = readTokens(await news[kind].exchange(code));
    const refreshed = readTokens(await news[kind].refresh(tokens.refresh_token));
    const other = await news[kind].signIn(ADA);
    const byPassword = readTokens(await news[kind].password(ADA));
    await untilReplay();
    expectRefusal(await news[kind].exchange(code), "invalid_grant");
    expect(await works(news[kind], tokens)).toEqual([false, false]);
    expect(await works(news[kind], refreshed)).toEqual([false, false]);
    for (const alive of [other, byPassword]) expect(await works(news[kind], alive)).toEqual([true, true]);
    expectRefusal(await news[kind].exchange(code), "invalid_grant");
  });

  it("is not consumed by a wrong secret, verifier, address or client [D-TOKEN-13, D-TOKEN-14]", async () => {
    const code_verifier = randomBytes(32).toString("base64url");
    const code_challenge = createHash("sha256").update(code_verifier).digest("base64url");
    const code = await news[kind].code(ADA, { code_challenge, code_challenge_method: "S256" });
    const good = { grant_type: "authorization_code", code, redirect_uri: CALLBACK, code_verifier };
    const authorization = basic({ ...NEWS, client_secret: "wrong" });
    expectRefusal(await news[kind].token(good, { authorization }), "invalid_client");
    expectRefusal(await news[kind].token({ ...good, code_verifier: "x".repeat(43) }), "invalid_grant");
    expectRefusal(await news[kind].token({ ...good, code_verifier: undefined }), "invalid_grant");
    expectRefusal(await news[kind].token({ ...good, redirect_uri: `${CALLBACK}/` }), "invalid_grant");
    expectRefusal(await news[kind].token({ ...good, redirect_uri: undefined }), "invalid_request");
    expectRefusal(await clientAt(running, kind, SHOP).token(good), "invalid_grant");
    expectTokens(await news[kind].token(good));
  });

  it("requires the redirect address of its request, even if that was the default [TOKEN-CODE-5, D-TOKEN-14]", async () => {
    const shop = clientAt(running, kind, SHOP);
    const [first, second] = SHOP.redirect_uris;
    const code = await shop.code(ADA, { redirect_uri: second });
    expectRefusal(await shop.exchange(code, { redirect_uri: first }), "invalid_grant");
    expectTokens(await shop.exchange(code, { redirect_uri: second }));
    if (kind === "openid") return;
    const another = await shop.code(ADA, { redirect_uri: undefined });
    expectRefusal(await shop.exchange(another, { redirect_uri: second }), "invalid_grant");
    expectTokens(await shop.exchange(another, { redirect_uri: first }));
  });

  it("refuses a verifier without a challenge [D-DEPLOY-4]", async () => {
    const code = await news[kind].code(ADA);
    expectRefusal(await news[kind].exchange(code, { code_verifier: "x".repeat(43) }), "invalid_grant");
  });
});

describe("an exchanged code", () => {
  const MINUTE = 60;

  it("ends its family on a replay up to ten minutes later, even after it expired [D-TOKEN-13]", async () => {
    const clock = new TestClock();
    await withService({ config: { clock } }, async (service) => {
      const party = clientAt(service, "oauth2", NEWS);
      for (const minutes of [0, 1, 9, 10]) {
        const code = await party.code(ADA);
        // In the last second of its life.
        clock.advance(59);
        const tokens = readTokens(await party.exchange(code));
        clock.advance(minutes * MINUTE);
        const refreshed = readTokens(await party.refresh(tokens.refresh_token));
        await untilReplay();
        expectRefusal(await party.exchange(code), "invalid_grant");
        for (const each of [tokens, refreshed]) expect(await works(party, each)).toEqual([false, false]);
      }
    });
  });

  it("is removed ten minutes after it expired unused [D-TOKEN-13, D-TOKEN-10]", async () => {
    const clock = new TestClock();
    await withService({ config: { clock } }, async (service) => {
      const party = clientAt(service, "oauth2", NEWS);
      const code = await party.code(ADA);
      for (const wait of [60, 10 * MINUTE, 10 * MINUTE]) {
        clock.advance(wait);
        expectRefusal(await party.exchange(code), "invalid_grant");
      }
    });
  });

  it("ends nothing with a wrong secret, verifier, address or client [D-TOKEN-13]", async () => {
    const code_verifier = randomBytes(32).toString("base64url");
    const code_challenge = createHash("sha256").update(code_verifier).digest("base64url");
    const code = await news.oauth2.code(ADA, { code_challenge, code_challenge_method: "S256" });
    const good = { grant_type: "authorization_code", code, redirect_uri: CALLBACK, code_verifier };
    const tokens = readTokens(await news.oauth2.token(good));
    await untilReplay();
    const authorization = basic({ ...NEWS, client_secret: "wrong" });
    expectRefusal(await news.oauth2.token(good, { authorization }), "invalid_client");
    expectRefusal(await news.oauth2.token({ ...good, code_verifier: "x".repeat(43) }), "invalid_grant");
    expectRefusal(await news.oauth2.token({ ...good, redirect_uri: `${CALLBACK}/` }), "invalid_grant");
    expectRefusal(await clientAt(running, "oauth2", SHOP).token(good), "invalid_grant");
    expect(await works(news.oauth2, tokens)).toEqual([true, true]);
    expectRefusal(await news.oauth2.token(good), "invalid_grant");
    expect(await works(news.oauth2, tokens)).toEqual([false, false]);
  });
});

describe("a refresh token", () => {
  it("stays the same and belongs to its client [D-TOKEN-12, TOKEN-REFRESH-3]", async () => {
    const { refresh_token } = await news.oauth2.signIn(ADA);
    for (const kind of KINDS) {
      const answers = await Promise.all(Array.from({ length: 5 }, () => news[kind].refresh(refresh_token)));
      for (const answer of answers) {
        expectTokens(answer);
        expect(answer.body["refresh_token"]).toBe(refresh_token);
      }
      expectRefusal(await clientAt(running, kind, SHOP).refresh(refresh_token), "invalid_grant");
    }
  });

  it("yields another ID token, with the nonce, on openid [D-TOKEN-11, RES-ID-3]", async () => {
    const first = await news.openid.signIn(ADA, { scope: "openid email", nonce: "n-0S6" });
    const again = await news.openid.refresh(first.refresh_token);
    expectTokens(again, ["id_token"]);
    const [one, two] = [decodeJwt(first.id_token ?? ""), decodeJwt(String(again.body["id_token"]))];
    expect(two).toMatchObject({ sub: one.sub, nonce: "n-0S6", aud: NEWS.client_id });
    const narrowed = await news.openid.refresh(first.refresh_token, { scope: "email" });
    expectTokens(narrowed);
    expectRefusal(await news.openid.refresh(first.refresh_token, { scope: "profile" }), "invalid_scope");
  });

  it("that rotates returns one response to all concurrent and repeated requests within the window [D-TOKEN-12]", async () => {
    const party = await withRules({ rotate: true, reuseWindow: 600 });
    const first = await party.signIn(ADA, { scope: "openid" });
    const answers = await Promise.all(Array.from({ length: 20 }, () => party.refresh(first.refresh_token)));
    answers.push(await party.refresh(first.refresh_token));
    const tokens = answers.map((answer) => readTokens(answer));
    const [{ access_token, refresh_token, id_token } = tokens[0]!] = tokens;
    for (const answer of answers)
      expectTokens({ ...answer, body: { ...answer.body, expires_in: 36_000 } }, ["id_token"]);
    for (const one of tokens) expect(one).toMatchObject({ access_token, refresh_token, id_token });
    expect(refresh_token).not.toBe(first.refresh_token);
    expect(await works(party, first)).toEqual([true, true]);
    expect(await works(party, tokens[0]!)).toEqual([true, true]);
    const wrong = { grant_type: "refresh_token", refresh_token: first.refresh_token };
    const authorization = basic({ client_id: party.client_id, client_secret: "wrong" });
    expectRefusal(await party.token(wrong, { authorization }), "invalid_client");
    expectRefusal(await news.openid.refresh(first.refresh_token), "invalid_grant");
    await running.service.accounts.revokeTokens(running.ada.sub, party.client_id);
    expectRefusal(await party.refresh(first.refresh_token), "invalid_grant");
  });

  it("that rotates is refused within the window if its new access token was revoked [D-TOKEN-12]", async () => {
    const party = await withRules({ rotate: true, reuseWindow: 600 });
    const first = await party.signIn(ADA);
    const second = readTokens(await party.refresh(first.refresh_token));
    expect((await party.revoke(second.access_token)).status).toBe(200);
    expectRefusal(await party.refresh(first.refresh_token), "invalid_grant");
    // Nothing else has ended.
    expect(await works(party, { ...second, access_token: first.access_token })).toEqual([true, true]);
  });

  it("that rotates is refused within the window for another scope [D-TOKEN-12]", async () => {
    const party = await withRules({ rotate: true, reuseWindow: 600 });
    const scope = "openid email profile";
    const all = await party.signIn(ADA, { scope });
    const whole = readTokens(await party.refresh(all.refresh_token));
    const narrow = readTokens(await party.refresh(whole.refresh_token, { scope: "email openid" }));
    for (const same of [undefined, "", scope, "profile email openid profile"]) {
      const again = readTokens(await party.refresh(all.refresh_token, { scope: same }));
      expect(again.access_token).toBe(whole.access_token);
    }
    const again = readTokens(await party.refresh(whole.refresh_token, { scope: "openid email" }));
    expect(again.access_token).toBe(narrow.access_token);
    for (const [{ refresh_token }, others] of [
      [all, ["openid", "email profile", "openid email profile phone"]],
      [whole, [undefined, scope, "openid", "email", "openid profile"]],
    ] as const) {
      for (const other of others)
        expectRefusal(await party.refresh(refresh_token, { scope: other }), "invalid_scope");
    }
    expect(await works(party, narrow)).toEqual([true, true]);
  });

  it("that rotates can be repeated within the window after its access token expired [D-TOKEN-12]", async () => {
    const clock = new TestClock();
    await withService({ config: { clock, lifetimes: { accessToken: 60 } } }, async (service) => {
      const party = await withRules({ rotate: true, reuseWindow: 600 }, service);
      const { refresh_token } = await party.signIn(ADA);
      const first = readTokens(await party.refresh(refresh_token));
      const left: number[] = [];
      for (const wait of [59, 1, 100]) {
        clock.advance(wait);
        const again = readTokens(await party.refresh(refresh_token));
        expect(again.refresh_token).toBe(first.refresh_token);
        left.push(again.expires_in);
      }
      expect(left).toEqual([1, 0, 0]);
      expect((await party.refresh(first.refresh_token)).status).toBe(200);
    });
  });

  it("that rotates returns the remaining lifetime in a repeated response [D-TOKEN-12, D-TOKEN-10]", async () => {
    const clock = new TestClock();
    await withService({ config: { clock } }, async (service) => {
      const party = await withRules({ rotate: true, reuseWindow: 60 }, service);
      const { refresh_token } = await party.signIn(ADA);
      const first = readTokens(await party.refresh(refresh_token));
      clock.advance(40);
      const again = readTokens(await party.refresh(refresh_token));
      expect([first.expires_in, again.expires_in]).toEqual([36_000, 35_960]);
      expect(again.access_token).toBe(first.access_token);
      clock.advance(35_959);
      expect((await party.userinfo(again.access_token)).status).toBe(200);
      clock.advance(1);
      expect((await party.userinfo(again.access_token)).status).toBe(400);
    });
  });

  it("that rotates ends its whole family if it is reused after the window [D-TOKEN-12]", async () => {
    const party = await withRules({ rotate: true, reuseWindow: 0 });
    const other = await party.signIn(ADA);
    const first = await party.signIn(ADA);
    const second = readTokens(await party.refresh(first.refresh_token));
    const third = readTokens(await party.refresh(second.refresh_token));
    expect((await party.userinfo(third.access_token)).status).toBe(200);
    expectRefusal(await party.refresh(first.refresh_token), "invalid_grant");
    for (const tokens of [first, second, third]) expect(await works(party, tokens)).toEqual([false, false]);
    expect(await works(party, other)).toEqual([true, true]);
  });

  it("that slides is extended by each use up to its maximum age; others are not [D-TOKEN-12, D-TOKEN-10]", async () => {
    const clock = new TestClock();
    await withService({ config: { clock, lifetimes: { refreshToken: 400 } } }, async (service) => {
      const plain = clientAt(service, "oauth2", NEWS);
      const sliding = await withRules({ sliding: true, maxAge: 600 }, service);
      const bounded = await withRules({ sliding: true, maxAge: 400 }, service);
      const rotating = await withRules({ rotate: true, reuseWindow: 0 }, service);
      const slidingOn = await withRules(
        { rotate: true, sliding: true, maxAge: 600, reuseWindow: 0 },
        service,
      );
      const parties = [plain, sliding, bounded, rotating, slidingOn];
      const tokens = await Promise.all(parties.map(async (party) => (await party.signIn(ADA)).refresh_token));
      const refreshAll = (): Promise<boolean[]> =>
        Promise.all(
          parties.map(async (party, index) => {
            const { status, body } = await party.refresh(tokens[index] ?? "");
            if (status === 200) tokens[index] = String(body["refresh_token"]);
            return status === 200;
          }),
        );
      clock.advance(399);
      expect(await refreshAll()).toEqual([true, true, true, true, true]);
      clock.advance(1);
      expect(await refreshAll()).toEqual([false, true, false, false, true]);
      clock.advance(200);
      expect(await refreshAll()).toEqual([false, false, false, false, false]);
    });
  });
});

describe("a grant", () => {
  const DAY = 86_400;

  it.each([{ rotate: false }, { rotate: true, reuseWindow: 0 }])(
    "lives as long as the refresh tokens of the client: %j [D-TOKEN-12]",
    async (rules) => {
      const clock = new TestClock();
      await withService({ config: { clock } }, async (service) => {
        const party = await withRules({ ...rules, sliding: true, maxAge: 200 * DAY }, service);
        let { refresh_token } = await party.signIn(ADA);
        let age = 0;
        for (; age < 180; age += 20) {
          clock.advance(20 * DAY);
          ({ refresh_token } = readTokens(await party.refresh(refresh_token)));
        }
        clock.advance(20 * DAY);
        expectRefusal(await party.refresh(refresh_token), "invalid_grant");
      });
    },
  );
});

describe("lifetimes", () => {
  it("are exact to the second [D-TOKEN-10, RES-TOKEN-3, D-TOKEN-13]", async () => {
    const lifetimes = { authorizationCode: 60, accessToken: 60, idToken: 60, session: 60, interaction: 60 };
    const clock = new TestClock();
    await withService({ config: { clock, lifetimes } }, async (service) => {
      const party = clientAt(service, "openid", NEWS);
      const browser = party.browser();
      const tokens = await party.signIn({ ...ADA, browser }, { scope: "openid" });
      expect(tokens.expires_in).toBe(60);
      const { exp = 0, iat = 0 } = decodeJwt(tokens.id_token ?? "");
      expect(exp - iat).toBe(60);
      const [slow, inTime] = [
        await party.browser().get(party.authorizeUrl()),
        await party.browser().get(party.authorizeUrl()),
      ];
      const [code, early] = [await party.code({ ...ADA, browser }), await party.code({ ...ADA, browser })];
      // A second before the end everything is valid.
      clock.advance(59);
      expect((await party.exchange(early)).status).toBe(200);
      expect((await party.userinfo(tokens.access_token)).status).toBe(200);
      await signIn(inTime);
      expect(inTime.location?.searchParams.has("code")).toBe(true);
      clock.advance(1);
      expectRefusal(await party.exchange(code), "invalid_grant");
      expectRefusal(await party.userinfo(tokens.access_token), "invalid_token");
      expectRefusal(await party.profile(tokens.access_token), "invalid_token");
      expectRefusal(await party.revoke(tokens.access_token), "invalid_token");
      expect((await party.bearer("/oauth2/userinfo", tokens.access_token)).status).toBe(401);
      await browser.get(party.authorizeUrl({ prompt: "none" }));
      expect(browser.location?.searchParams.get("error")).toBe("login_required");
      await signIn(slow);
      expect([slow.status, slow.location]).toEqual([400, undefined]);
      // The refresh token is still valid.
      const { access_token } = readTokens(await party.refresh(tokens.refresh_token));
      expect((await party.userinfo(access_token)).status).toBe(200);
    });
  });
});
