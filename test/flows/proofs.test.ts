/** DPoP at every endpoint that takes a token (RFC 9449): which proofs count, and what the others are answered. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { basic, send, type TestAnswer, type TestClient } from "../../testing/test-client.ts";
import { APP, clientAt, issue } from "./clients.ts";
import { athOf, makeProof, newProofKey, type ProofKey } from "./proof-maker.ts";
import { ADA, CALLBACK, NEWS, type RunningService, useService } from "./running-service.ts";

const running = useService({ config: { features: { dpop: true } } });
let mine: ProofKey;
let other: ProofKey;
/** One for each algorithm; the last two are not offered. */
const keys = new Map<string, ProofKey>();

beforeAll(async () => {
  for (const alg of ["ES256", "EdDSA", "Ed25519", "PS256", "RS256", "ES384", "RS512"])
    keys.set(alg, await newProofKey(alg));
  [mine, other] = await Promise.all([newProofKey(), newProofKey()]);
  await running.service.clients.register(APP);
});

const news = (deployment: "oauth2" | "openid" = "openid", at: RunningService = running): TestClient =>
  clientAt(at, deployment, NEWS);

type Claims = Record<string, unknown>;

/** A request with a proof. */
interface Place {
  readonly method: string;
  readonly address: string;
  /** The access token that it brings. */
  readonly token?: string;
  send(headers: Record<string, string>): Promise<TestAnswer>;
}

const right = ({ method, address, token }: Place): Claims => ({
  htm: method,
  htu: address,
  ...(token !== undefined && { ath: athOf(token) }),
});

async function refreshToken(): Promise<string> {
  const { refresh_token } = await news().signIn(ADA, { scope: "openid" });
  return refresh_token;
}

function tokenPlace(deployment: "oauth2" | "openid") {
  return async (): Promise<Place> => {
    const refresh_token = await refreshToken();
    const client = news(deployment);
    return {
      method: "POST",
      address: `${client.base}/oauth2/token`,
      send: (headers) =>
        client.token(
          { grant_type: "refresh_token", refresh_token },
          { authorization: basic(NEWS), ...headers },
        ),
    };
  };
}

async function pushPlace(): Promise<Place> {
  const client = news();
  const parameters = {
    client_id: NEWS.client_id,
    redirect_uri: CALLBACK,
    response_type: "code",
    scope: "openid",
  };
  return {
    method: "POST",
    address: `${client.base}/oauth2/par`,
    send: (headers) => client.post("/oauth2/par", parameters, { authorization: basic(NEWS), ...headers }),
  };
}

/** An access token that is bound to a key. */
async function boundToken(key: ProofKey = mine, at: RunningService = running): Promise<string> {
  const { refresh_token } = await news("openid", at).signIn(ADA, { scope: "openid" });
  const dpop = await makeProof(key, { htm: "POST", htu: `${at.openid}/oauth2/token` });
  const headers = { authorization: basic(NEWS), dpop };
  const { body } = await news("openid", at).token({ grant_type: "refresh_token", refresh_token }, headers);
  expect(body["token_type"]).toBe("DPoP");
  return String(body["access_token"]);
}

function tokenUser(deployment: "oauth2" | "openid", method: string, path: string) {
  return async (): Promise<Place> => {
    const token = await boundToken();
    const address = `${running[deployment]}${path}`;
    return {
      method,
      address,
      token,
      send: (headers) =>
        send(`${address}?client_id=${NEWS.client_id}`, {
          method,
          headers: { authorization: `DPoP ${token}`, ...headers },
        }),
    };
  };
}

const ISSUING: readonly [where: string, place: () => Promise<Place>][] = [
  ["the token endpoint of oauth2", tokenPlace("oauth2")],
  ["the token endpoint of openid", tokenPlace("openid")],
  ["a pushed request", pushPlace],
];

const TAKING: readonly [where: string, place: () => Promise<Place>][] = [
  ["userinfo of oauth2", tokenUser("oauth2", "GET", "/resources/userinfo")],
  ["userinfo of openid", tokenUser("openid", "GET", "/oauth2/resources/userinfo")],
  ["its alias", tokenUser("openid", "GET", "/resources/userinfo")],
  ["profile of oauth2", tokenUser("oauth2", "GET", "/external/profile")],
  ["profile of openid", tokenUser("openid", "GET", "/oauth2/external/profile")],
  ["its alias", tokenUser("openid", "GET", "/external/profile")],
  ["revocation by GET", tokenUser("openid", "GET", "/oauth2/revoke")],
  ["revocation by POST", tokenUser("oauth2", "POST", "/oauth2/revoke")],
  ["the standard userinfo by GET", tokenUser("openid", "GET", "/oauth2/userinfo")],
  ["the standard userinfo by POST", tokenUser("openid", "POST", "/oauth2/userinfo")],
];

const now = (): number => Math.floor(Date.now() / 1000);

/** Proofs that are right but for one thing. */
const WRONG: readonly [
  what: string,
  claims: (place: Place) => Claims,
  header?: () => Record<string, unknown>,
][] = [
  ["another method", ({ method }) => ({ htm: method === "GET" ? "POST" : "GET" })],
  ["a method in small letters", ({ method }) => ({ htm: method.toLowerCase() })],
  ["no method", () => ({ htm: undefined })],
  ["another path", ({ address }) => ({ htu: `${address}/` })],
  [
    "another case of the path",
    ({ address }) => ({
      htu: address
        .replace("/oauth2/", "/OAuth2/")
        .replace("/external/", "/External/")
        .replace("/resources/", "/Resources/"),
    }),
  ],
  ["another host", ({ address }) => ({ htu: address.replace("127.0.0.1", "localhost") })],
  ["another port", ({ address }) => ({ htu: address.replace(/:\d+/, ":1") })],
  ["another scheme", ({ address }) => ({ htu: address.replace("http:", "https:") })],
  ["a user in the address", ({ address }) => ({ htu: address.replace("://", "://user@") })],
  ["a relative address", ({ address }) => ({ htu: new URL(address).pathname })],
  ["a list of addresses", ({ address }) => ({ htu: [address] })],
  ["no address", () => ({ htu: undefined })],
  ["no time", () => ({ iat: undefined })],
  ["a time as text", () => ({ iat: String(now()) })],
  ["an end in the past", () => ({ exp: now() - 1 })],
  ["a beginning in the future", () => ({ nbf: now() + 60 })],
  ["no jti", () => ({ jti: undefined })],
  ["an empty jti", () => ({ jti: "" })],
  ["a jti of 257 characters", () => ({ jti: "x".repeat(257) })],
  ["a number as jti", () => ({ jti: 1 })],
  ["a number as nonce", () => ({ nonce: 1 })],
  ["another type", () => ({}), () => ({ typ: "jwt" })],
  ["no type", () => ({}), () => ({ typ: undefined })],
  ["an extension", () => ({}), () => ({ crit: ["x"], x: 1 })],
  ["no key", () => ({}), () => ({ jwk: undefined })],
  ["somebody else's key", () => ({}), () => ({ jwk: other.jwk })],
  ["a key of another curve", () => ({}), () => ({ jwk: keys.get("ES384")?.jwk })],
  ["a private key", () => ({}), () => ({ jwk: { ...mine.jwk, d: mine.jwk.x } })],
  ["a symmetric key", () => ({}), () => ({ jwk: { kty: "oct", k: "c2VjcmV0" } })],
  ["a key for encryption", () => ({}), () => ({ jwk: { ...mine.jwk, use: "enc" } })],
];

const LATE: readonly [what: string, claims: () => Claims][] = [
  ["61 seconds old", () => ({ iat: now() - 62 })],
  ["12 seconds ahead", () => ({ iat: now() + 13 })],
  ["with an unknown nonce", () => ({ nonce: "x" })],
  ["with a nonce of another time", () => ({ nonce: `${now()}.${"A".repeat(22)}` })],
];

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Texts that are no proof, or have no signature that counts. */
async function broken(place: Place): Promise<readonly string[]> {
  const good = await makeProof(mine, right(place));
  const [header = "", payload = "", signature = ""] = good.split(".");
  const claims = { ...right(place), jti: "j", iat: now() };
  const unsigned = encoded({ alg: "none", typ: "dpop+jwt", jwk: mine.jwk });
  const symmetric = encoded({ alg: "HS256", typ: "dpop+jwt", jwk: mine.jwk });
  return [
    "x",
    "x.y.z",
    `${good}, ${await makeProof(mine, right(place))}`,
    `${header}.${payload}.`,
    `${header}.${payload}.${signature.slice(0, -4)}AAAA`,
    `${header}.${encoded(claims)}.${signature}`,
    `${unsigned}.${encoded(claims)}.`,
    `${unsigned}.${encoded(claims)}.${signature}`,
    `${symmetric}.${encoded(claims)}.${signature}`,
    `${header}.${Buffer.from("[]").toString("base64url")}.${signature}`,
    `${header}.${Buffer.from("null").toString("base64url")}.${signature}`,
    await makeProof(keys.get("ES384") ?? mine, right(place)),
    await makeProof(keys.get("RS512") ?? mine, right(place)),
  ];
}

describe.each([...ISSUING, ...TAKING])("%s", (where, begin) => {
  const isTaking = TAKING.some(([name]) => name === where);
  const status = isTaking ? 401 : 400;
  const success = where === "a pushed request" ? 201 : 200;

  function expectChallenge({ headers }: TestAnswer, error: string): void {
    if (!isTaking) return expect(headers.get("www-authenticate")).toBeNull();
    expect(headers.get("www-authenticate")).toBe(
      `DPoP realm="sign-in-service", error="${error}", algs="ES256 EdDSA Ed25519 PS256 RS256"`,
    );
  }

  it("refuses wrong proofs with the standard status, and they spend nothing [D-DPOP-3, D-DPOP-4]", async () => {
    const place = await begin();
    const texts = await broken(place);
    const sent = texts.map((dpop, index): [what: string, dpop: string] => [`text ${index}`, dpop]);
    for (const [what, claims, header] of WRONG)
      sent.push([what, await makeProof(mine, { ...right(place), ...claims(place) }, header?.())]);
    for (const [what, dpop] of sent) {
      const answer = await place.send({ dpop });
      expect([what, answer.status, answer.body["error"]]).toEqual([what, status, "invalid_dpop_proof"]);
      expectChallenge(answer, "invalid_dpop_proof");
    }
    expect((await place.send({ dpop: await makeProof(mine, right(place)) })).status).toBe(success);
  });

  it("asks for a nonce where the clocks differ, and then takes any time [D-DPOP-5]", async () => {
    const place = await begin();
    let nonce = "";
    for (const [what, claims] of LATE) {
      const answer = await place.send({ dpop: await makeProof(mine, { ...right(place), ...claims() }) });
      expect([what, answer.status, answer.body["error"]]).toEqual([what, status, "use_dpop_nonce"]);
      expectChallenge(answer, "use_dpop_nonce");
      nonce = answer.headers.get("dpop-nonce") ?? "";
      expect(nonce).toMatch(/^[\x21\x23-\x5b\x5d-\x7e]+$/);
    }
    const answer = await place.send({ dpop: await makeProof(mine, { ...right(place), iat: 1, nonce }) });
    expect([answer.status, answer.headers.has("dpop-nonce")]).toEqual([success, true]);
  });

  it("takes an address with a query and a fragment, as it is compared [D-DPOP-3]", async () => {
    const place = await begin();
    const htu = `${place.address.replace("http:", "HTTP:")}?client_id=x#y`;
    expect((await place.send({ dpop: await makeProof(mine, { ...right(place), htu }) })).status).toBe(
      success,
    );
  });
});

describe.each(TAKING)("a bound token at %s", (_where, begin) => {
  it("needs a proof for itself, and its key [D-DPOP-6]", async () => {
    const place = await begin();
    for (const ath of [undefined, athOf("another"), place.token])
      expect(await place.send({ dpop: await makeProof(mine, { ...right(place), ath }) })).toMatchObject({
        status: 401,
        body: { error: "invalid_dpop_proof" },
      });
    const wrongKey = await place.send({ dpop: await makeProof(other, right(place)) });
    expect(wrongKey).toMatchObject({ status: 401, body: { error: "invalid_token" } });
    expect(wrongKey.headers.get("www-authenticate")).toMatch(/^DPoP .*error="invalid_token"/);
    expect(await place.send({})).toMatchObject({ status: 400, body: { error: "invalid_request" } });
  });

  it("is refused as a Bearer token [D-DPOP-6]", async () => {
    const place = await begin();
    const isStandard = place.address.endsWith("/oauth2/userinfo");
    const answer = await place.send({ authorization: `Bearer ${place.token}` });
    expect(answer).toMatchObject({ status: isStandard ? 401 : 400, body: { error: "invalid_token" } });
    const dpop = await makeProof(mine, right(place));
    const withProof = await place.send({ authorization: `Bearer ${place.token}`, dpop });
    expect(withProof).toMatchObject({ status: 401, body: { error: "invalid_token" } });
  });

  it("may come with the same proof again within its minute [D-DPOP-7]", async () => {
    const place = await begin();
    if (place.address.endsWith("/revoke")) return;
    const dpop = await makeProof(mine, right(place));
    for (let sent = 0; sent < 3; sent += 1) expect((await place.send({ dpop })).status).toBe(200);
  });

  it("is the only one that has the scheme DPoP [D-DPOP-6]", async () => {
    const place = await begin();
    const { access_token } = await news().signIn(ADA, { scope: "openid" });
    const dpop = await makeProof(mine, { ...right(place), ath: athOf(access_token) });
    const answer = await place.send({ authorization: `DPoP ${access_token}`, dpop });
    expect(answer).toMatchObject({ status: 401, body: { error: "invalid_token" } });
  });
});

describe("a proof", () => {
  it.each(["ES256", "EdDSA", "Ed25519", "PS256", "RS256"])(
    "is signed with %s [D-DPOP-3, D-DPOP-30]",
    async (alg) => {
      const place = await tokenPlace("openid")();
      const key = keys.get(alg) ?? mine;
      const { status, body } = await place.send({ dpop: await makeProof(key, right(place)) });
      expect([status, body["token_type"]]).toEqual([200, "DPoP"]);
      const token = String(body["access_token"]);
      const address = `${running.openid}/resources/userinfo`;
      const dpop = await makeProof(key, { htm: "GET", htu: address, ath: athOf(token) });
      const headers = { authorization: `DPoP ${token}`, dpop };
      expect((await send(`${address}?client_id=news`, { headers })).status).toBe(200);
    },
  );

  it("may have a jti of 256 characters, and counts once [D-DPOP-7]", async () => {
    const place = await tokenPlace("openid")();
    const dpop = await makeProof(mine, { ...right(place), jti: "x".repeat(256) });
    expect((await place.send({ dpop })).status).toBe(200);
    expect((await place.send({ dpop })).body["error"]).toBe("invalid_grant");
    const pushed = await pushPlace();
    const again = await makeProof(mine, right(pushed));
    expect((await pushed.send({ dpop: again })).status).toBe(201);
    expect(await pushed.send({ dpop: again })).toMatchObject({
      status: 400,
      body: { error: "invalid_request" },
    });
  });

  it("that comes with wrong credentials gets the standard status [D-DPOP-4]", async () => {
    const place = await tokenPlace("openid")();
    const authorization = basic({ ...NEWS, client_secret: "wrong" });
    const answer = await place.send({ authorization, dpop: await makeProof(mine, right(place)) });
    expect([answer.status, answer.body["error"]]).toEqual([401, "invalid_client"]);
    expect(answer.headers.get("www-authenticate")).toMatch(/^Basic /);
    expect((await place.send({ authorization })).status).toBe(400);
  });

  it("with a key that costs time is refused before it is used [D-DPOP-3]", async () => {
    const place = await tokenPlace("openid")();
    const jwk = keys.get("RS256")?.jwk;
    for (const wrong of [
      { ...jwk, n: Buffer.alloc(1_024, 0xff).toString("base64url") },
      { ...jwk, e: Buffer.alloc(64, 0xff).toString("base64url") },
      { ...jwk, n: Buffer.alloc(128, 0xff).toString("base64url") },
    ]) {
      const dpop = await makeProof(keys.get("RS256") ?? mine, right(place), { jwk: wrong });
      expect((await place.send({ dpop })).body["error"]).toBe("invalid_dpop_proof");
    }
  });
});

describe("a code", () => {
  it("is bound by a proof with which its request was pushed [D-DPOP-8]", async () => {
    const place = await pushPlace();
    const pushed = await place.send({ dpop: await makeProof(mine, right(place)) });
    const { location } = await news().authorize(ADA, { request_uri: String(pushed.body["request_uri"]) });
    const form = {
      grant_type: "authorization_code",
      code: location.searchParams.get("code") ?? "",
      redirect_uri: CALLBACK,
    };
    const exchange = (headers: Record<string, string>): Promise<TestAnswer> =>
      news().token(form, { authorization: basic(NEWS), ...headers });
    const claims = { htm: "POST", htu: `${running.openid}/oauth2/token` };
    expect((await exchange({})).body["error"]).toBe("invalid_grant");
    expect((await exchange({ dpop: await makeProof(other, claims) })).body["error"]).toBe("invalid_grant");
    expect(await exchange({ dpop: await makeProof(mine, claims) })).toMatchObject({
      status: 200,
      body: { token_type: "DPoP" },
    });
  });

  it("is pushed with one key only [D-DPOP-8]", async () => {
    const client = news();
    const parameters = {
      client_id: "news",
      redirect_uri: CALLBACK,
      response_type: "code",
      dpop_jkt: other.thumbprint,
    };
    const dpop = await makeProof(mine, { htm: "POST", htu: `${client.base}/oauth2/par` });
    const answer = await client.post("/oauth2/par", parameters, { authorization: basic(NEWS), dpop });
    expect([answer.status, answer.body["error"]]).toEqual([400, "invalid_request"]);
  });
});

describe("dpop_jkt", () => {
  it.each([
    ["empty", ""],
    ["short", "A".repeat(42)],
    ["long", "A".repeat(44)],
    ["padded", `${"A".repeat(43)}=`],
    ["not base64url", `+${"A".repeat(42)}`],
    ["followed by a line break", `${"A".repeat(43)}\n`],
  ])("is refused when it is %s, pushed or not [D-DPOP-8]", async (_what, dpop_jkt) => {
    const parameters = { client_id: "news", redirect_uri: CALLBACK, response_type: "code", dpop_jkt };
    const pushed = await news().post("/oauth2/par", parameters, { authorization: basic(NEWS) });
    const sent = await send(`${running.openid}/oauth2/authorize?${new URLSearchParams(parameters)}`);
    for (const { status, body } of [pushed, sent])
      expect([status, body["error"]]).toEqual([400, "invalid_request"]);
  });
});

describe("the password grant", () => {
  it("binds its token, and its refresh token belongs to the client [D-DPOP-9]", async () => {
    const { username, password } = ADA;
    const dpop = await makeProof(mine, { htm: "POST", htu: `${running.openid}/oauth2/token` });
    const headers = { authorization: basic(NEWS), dpop };
    const { body } = await news().token(
      { grant_type: "password", username, password, scope: "openid" },
      headers,
    );
    expect(body["token_type"]).toBe("DPoP");
    expect(await news().userinfo(body["access_token"])).toMatchObject({ status: 400 });
    const { body: introspected } = await news().post("/oauth2/introspect", {
      token: String(body["access_token"]),
    });
    expect(introspected).toMatchObject({ active: true, token_type: "DPoP", cnf: { jkt: mine.thumbprint } });
    expect((await news().token({ grant_type: "password", username, password }, headers)).body["error"]).toBe(
      "invalid_grant",
    );
  });
});

describe("a public client", () => {
  it("has refresh tokens that are bound to its key, and proves it at each use [D-DPOP-9]", async () => {
    const app = clientAt(running, "openid", APP);
    const { code, proof } = await issue(app);
    const htu = `${running.openid}/oauth2/token`;
    const made = (key: ProofKey): Promise<string> => makeProof(key, { htm: "POST", htu });
    const first = await app.token(
      { grant_type: "authorization_code", code, ...proof },
      { dpop: await made(mine) },
    );
    expect(first.body["token_type"]).toBe("DPoP");
    const refresh_token = String(first.body["refresh_token"]);
    const refresh = (headers: Record<string, string>): Promise<TestAnswer> =>
      app.token({ grant_type: "refresh_token", refresh_token }, headers);
    for (const headers of [{}, { dpop: await made(other) }] as Record<string, string>[])
      expect((await refresh(headers)).body["error"]).toBe("invalid_grant");
    expect((await refresh({ dpop: await made(mine) })).body["token_type"]).toBe("DPoP");
  });
});
