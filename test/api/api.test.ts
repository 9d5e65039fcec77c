/** What `sign-in-service/api` checks of a request, at a service whose signing key the test has. */
import { createHash, generateKeyPairSync, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import { AccessError, type Api, type ApiRequest, createApi, type Needs } from "../../api/index.ts";
import { basic } from "../../testing/test-client.ts";
import { NEWS, type RunningService, startService } from "../flows/running-service.ts";

const ARTICLES = "https://articles.example.com/v1";
const VIDEOS = "https://videos.example.com";
const METADATA = "https://articles.example.com/.well-known/oauth-protected-resource/v1";

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
let running: RunningService;
let api: Api;
let machine: { readonly client_id: string; readonly client_secret: string };

beforeAll(async () => {
  const jwk = { ...(await exportJWK(privateKey)), kid: "known", use: "sig", alg: "RS256" };
  running = await startService({
    config: {
      storage: "sqlite::memory:",
      keys: { signing: [jwk] },
      features: { dpop: true },
      rateLimits: {},
    },
  });
  const { clients, directory } = running.service;
  const { client_id, client_secret } = await clients.register({
    kind: "machine",
    name: "Articles",
    service: NEWS.service,
  });
  machine = { client_id, client_secret };
  const scopes = { read: "Read", write: "Write" };
  const entry = { name: "Articles", service: NEWS.service, scopes };
  await directory.apis.put(ARTICLES, { ...entry, introspection: [client_id] });
  await directory.apis.put(VIDEOS, { ...entry, tokens: "jwt" });
  await clients.update(client_id, { apis: { [ARTICLES]: ["read"], [VIDEOS]: ["read"] } });
  api = createApi({
    issuer: running.openid,
    resource: ARTICLES,
    introspection: machine,
    scopes: ["read", "write"],
  });
});

/** What an API does with a request: who it is, or the refusal. */
async function verdict(
  of: Api,
  request: ApiRequest,
  needs?: Needs,
): Promise<readonly [number, string | undefined]> {
  try {
    return [200, (await of.verify(request, needs)).sub];
  } catch (error) {
    if (!(error instanceof AccessError)) throw error;
    return [error.status, error.headers["www-authenticate"]];
  }
}

const request = (headers: Record<string, string>, method = "GET", path = "/v1/articles"): Request =>
  new Request(`http://inside.invalid${path}`, { method, headers });
const bearer = (token: string): Request => request({ authorization: `Bearer ${token}` });

const now = (): number => Math.floor(Date.now() / 1000);

/** A JWT as the service signs it, but for the changes. */
function signed(change: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const claims = { iss: running.openid, aud: ARTICLES, sub: running.ada.sub, client_id: NEWS.client_id };
  const times = { iat: now(), exp: now() + 60, jti: randomUUID() };
  return new SignJWT({ ...claims, ...times, scope: "read", roles: ["editor"], ...change })
    .setProtectedHeader({ alg: "RS256", typ: "at+jwt", kid: "known" })
    .sign(privateKey);
}

async function opaque(headers: Record<string, string> = {}, resource = ARTICLES): Promise<string> {
  const response = await fetch(`${running.openid}/oauth2/token`, {
    method: "POST",
    headers: { authorization: basic(machine), ...headers },
    body: new URLSearchParams({ grant_type: "client_credentials", resource }),
  });
  return ((await response.json()) as { readonly access_token: string }).access_token;
}

const node = (headersDistinct: Record<string, string[]>): IncomingMessage =>
  ({ method: "GET", url: "/v1/articles", headers: {}, headersDistinct }) as unknown as IncomingMessage;

interface Pair {
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

const pair = async (): Promise<Pair> => {
  const made = await generateKeyPair("ES256", { extractable: true });
  return { privateKey: made.privateKey, jwk: await exportJWK(made.publicKey) };
};

const refusal = (error: string): readonly [number, string] => [
  401,
  `DPoP error="${error}", algs="ES256 EdDSA Ed25519 PS256 RS256", resource_metadata="${METADATA}"`,
];

const at = (path: string, method = "GET"): Response | undefined =>
  api.metadataResponse(request({}, method, path));

const metadataOf = (issuer: string): object => ({
  issuer,
  jwks_uri: `${issuer}/jwks`,
  introspection_endpoint: `${issuer}/introspect`,
  id_token_signing_alg_values_supported: ["RS256"],
});

describe("a request", () => {
  it("says who calls, and what they may do", async () => {
    const auth_time = now();
    const access = await api.verify(bearer(await signed({ auth_time, acr: "urn:x" })));
    expect(access).toMatchObject({
      sub: running.ada.sub,
      client_id: NEWS.client_id,
      isMachine: false,
      acr: "urn:x",
      auth_time,
    });
    expect([[...access.scopes], [...access.roles]]).toEqual([["read"], ["editor"]]);
    const job = await api.verify(bearer(await opaque()));
    expect(job).toMatchObject({ sub: machine.client_id, client_id: machine.client_id, isMachine: true });
  });

  it.each<[string, Record<string, string>, number, string]>([
    ["no token", {}, 401, `Bearer resource_metadata="${METADATA}", scope="read write"`],
    [
      "another scheme",
      { authorization: "Basic eDp5" },
      401,
      `Bearer resource_metadata="${METADATA}", scope="read write"`,
    ],
    [
      "an empty token",
      { authorization: "Bearer " },
      400,
      `Bearer error="invalid_request", resource_metadata="${METADATA}"`,
    ],
    [
      "two tokens",
      { authorization: "Bearer a, Bearer b" },
      400,
      `Bearer error="invalid_request", resource_metadata="${METADATA}"`,
    ],
    [
      "a token of 9 kB",
      { authorization: `Bearer ${"a".repeat(9000)}` },
      400,
      `Bearer error="invalid_request", resource_metadata="${METADATA}"`,
    ],
    [
      "an unknown token",
      { authorization: "Bearer unknown" },
      401,
      `Bearer error="invalid_token", resource_metadata="${METADATA}"`,
    ],
  ])("with %s is refused", async (_what, headers, status, challenge) => {
    expect(await verdict(api, request(headers), { scope: ["read", "write"] })).toEqual([status, challenge]);
  });

  it("needs all scopes, and one of the roles", async () => {
    const token = bearer(await signed());
    expect(await verdict(api, token, { scope: "read", role: ["admin", "editor"] })).toEqual([
      200,
      running.ada.sub,
    ]);
    const scope = `Bearer error="insufficient_scope", scope="read write", resource_metadata="${METADATA}"`;
    expect(await verdict(api, token, { scope: ["read", "write"] })).toEqual([403, scope]);
    expect(await verdict(api, token, { role: "admin" })).toEqual([403, undefined]);
    expect((await verdict(api, bearer(await signed({ roles: "admin" })), { role: "admin" }))[0]).toBe(403);
  });

  it("needs a recent sign-in, which a machine never has", async () => {
    const old = bearer(await signed({ auth_time: now() - 301 }));
    const challenge = `Bearer error="insufficient_user_authentication", max_age="300", resource_metadata="${METADATA}"`;
    expect(await verdict(api, old, { max_age: 300 })).toEqual([401, challenge]);
    expect((await verdict(api, bearer(await opaque()), { max_age: 300 }))[0]).toBe(401);
    expect((await verdict(api, bearer(await signed({ auth_time: now() })), { max_age: 300 }))[0]).toBe(200);
  });

  it("whose JWT is for others as well is refused", async () => {
    expect((await verdict(api, bearer(await signed({ aud: [ARTICLES, VIDEOS] }))))[0]).toBe(401);
    expect((await verdict(api, bearer(await opaque({}, VIDEOS))))[0]).toBe(401);
  });

  it("of Node is read like one of the Web; a repeated header is refused", async () => {
    const token = await signed();
    expect(await verdict(api, node({ authorization: [`Bearer ${token}`] }))).toEqual([200, running.ada.sub]);
    expect((await verdict(api, node({ authorization: [`Bearer ${token}`, "Bearer x"] })))[0]).toBe(400);
  });
});

describe("a bound token", () => {
  let mine: Pair;
  let other: Pair;
  let jkt: string;
  beforeAll(async () => {
    [mine, other] = [await pair(), await pair()];
    jkt = await calculateJwkThumbprint(mine.jwk);
  });

  const URL_OF_API = "https://articles.example.com/v1/articles";
  interface Made {
    readonly claims?: Readonly<Record<string, unknown>>;
    readonly header?: Readonly<Record<string, unknown>>;
    readonly key?: Pair;
  }
  function proof(token: string, { claims = {}, header = {}, key = mine }: Made = {}): Promise<string> {
    const ath = createHash("sha256").update(token).digest("base64url");
    return new SignJWT({ htm: "GET", htu: URL_OF_API, ath, jti: randomUUID(), iat: now(), ...claims })
      .setProtectedHeader({ alg: "ES256", typ: "dpop+jwt", jwk: key.jwk, ...header })
      .sign(key.privateKey);
  }

  it("works with a proof: JWT and opaque", async () => {
    const htu = `${running.openid}/oauth2/token`;
    const issued = await opaque({ dpop: await proof("", { claims: { htm: "POST", htu, ath: undefined } }) });
    for (const token of [await signed({ cnf: { jkt } }), issued]) {
      const headers = { authorization: `DPoP ${token}`, dpop: await proof(token) };
      expect([(await verdict(api, request(headers)))[0], token === issued]).toEqual([200, token === issued]);
      expect(await verdict(api, bearer(token))).toEqual([
        401,
        `Bearer error="invalid_token", resource_metadata="${METADATA}"`,
      ]);
      const { dpop: _proof, ...without } = headers;
      expect(await verdict(api, request(without))).toEqual(refusal("invalid_dpop_proof"));
    }
  });

  it.each<[string, Made]>([
    ["with another key", {}],
    ["for another method", { claims: { htm: "POST" } }],
    ["for another path", { claims: { htu: `${URL_OF_API}/1` } }],
    ["for the host that the request names", { claims: { htu: "http://inside.invalid/v1/articles" } }],
    ["for another port", { claims: { htu: "https://articles.example.com:8443/v1/articles" } }],
    ["for no address", { claims: { htu: "articles" } }],
    ["of two minutes ago", { claims: { iat: now() - 120 } }],
    ["of the future", { claims: { iat: now() + 60 } }],
    ["without a time", { claims: { iat: undefined } }],
    ["without an identifier", { claims: { jti: undefined } }],
    ["with an empty identifier", { claims: { jti: "" } }],
    ["with an identifier of 257 characters", { claims: { jti: "j".repeat(257) } }],
    ["with a number as identifier", { claims: { jti: 7 } }],
    ["for another token", { claims: { ath: createHash("sha256").update("other").digest("base64url") } }],
    ["without the token", { claims: { ath: undefined } }],
    ["of another type", { header: { typ: "JWT" } }],
    ["without a key", { header: { jwk: undefined } }],
    ["with an unknown critical header", { header: { crit: ["x"], x: 1 } }],
  ])("is refused with a proof %s", async (what, made) => {
    const token = await signed({ cnf: { jkt } });
    const key = what === "with another key" ? { key: other } : {};
    // jose itself signs no header that it does not know.
    const dpop = await proof(token, { ...made, ...key }).catch(() => "a.b.c");
    expect(await verdict(api, request({ authorization: `DPoP ${token}`, dpop }))).toEqual(
      refusal("invalid_dpop_proof"),
    );
  });

  it("is refused with the private key in the proof, a symmetric one, or with two proofs", async () => {
    const token = await signed({ cnf: { jkt } });
    const privateJwk = await exportJWK(mine.privateKey);
    const symmetric = await new SignJWT({ htm: "GET", htu: URL_OF_API, jti: "1", iat: now() })
      .setProtectedHeader({ alg: "HS256", typ: "dpop+jwt", jwk: { kty: "oct", k: "AAAA" } as JWK })
      .sign(new Uint8Array(32));
    const [one, two] = [await proof(token), await proof(token)];
    for (const dpop of [
      await proof(token, { header: { jwk: privateJwk } }),
      symmetric,
      `${one}, ${two}`,
      "x".repeat(9000),
    ])
      expect(await verdict(api, request({ authorization: `DPoP ${token}`, dpop }))).toEqual(
        refusal("invalid_dpop_proof"),
      );
  });

  it("has the address of the identifier, without query and port; an unbound one is no DPoP", async () => {
    const token = await signed({ cnf: { jkt } });
    const dpop = await proof(token, { claims: { htu: "HTTPS://Articles.example.com:443/v1/./articles#x" } });
    const asked = request({ authorization: `DPoP ${token}`, dpop }, "GET", "/v1/articles?page=2");
    expect((await verdict(api, asked))[0]).toBe(200);
    const unbound = await signed();
    const headers = { authorization: `DPoP ${unbound}`, dpop: await proof(unbound) };
    expect(await verdict(api, request(headers))).toEqual(refusal("invalid_token"));
  });

  it("is not confused by a path that begins like a host", async () => {
    const token = await signed({ cnf: { jkt } });
    const dpop = await proof(token);
    const sent = { method: "GET", url: "//evil.example/v1/articles", headers: {} };
    const headersDistinct = { authorization: [`DPoP ${token}`], dpop: [dpop] };
    const [status] = await verdict(api, { ...sent, headersDistinct } as unknown as IncomingMessage);
    expect(status).toBe(401);
  });
});

describe("the metadata", () => {
  it("is at the path of the identifier, for scripts of every origin", async () => {
    const response = at("/.well-known/oauth-protected-resource/v1");
    expect(response?.headers.get("access-control-allow-origin")).toBe("*");
    expect(await response?.json()).toEqual({
      resource: ARTICLES,
      authorization_servers: [running.openid],
      bearer_methods_supported: ["header"],
      dpop_signing_alg_values_supported: ["ES256", "EdDSA", "Ed25519", "PS256", "RS256"],
      scopes_supported: ["read", "write"],
    });
    expect(at("/.well-known/oauth-protected-resource/v1", "OPTIONS")?.status).toBe(204);
    expect(at("/.well-known/oauth-protected-resource/v1", "POST")?.status).toBe(405);
  });

  it("is nowhere else", () => {
    expect(at("/.well-known/oauth-protected-resource")).toBeUndefined();
    expect(at("/v1/articles")).toBeUndefined();
  });
});

describe("a service that fails", () => {
  const servers: { close(): unknown }[] = [];
  afterAll(() => servers.forEach((each) => each.close()));

  /** A server that answers as it is told, instead of the service: what it sends can't be had of the real one. */
  async function pretending(
    answer: (path: string, origin: string) => object | number | "hang up",
  ): Promise<string> {
    let origin = "";
    const server = createServer((req, res) => {
      const given = answer(req.url ?? "", origin);
      if (given === "hang up") return req.socket.destroy();
      res.statusCode = typeof given === "number" ? given : 200;
      return res.end(typeof given === "number" ? "" : JSON.stringify(given));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    servers.push(server);
    return origin;
  }

  it.each<[string, (path: string, origin: string) => object | number | "hang up"]>([
    ["hangs up", () => "hang up"],
    ["answers 500", () => 500],
    ["is another issuer", (_path, origin) => ({ ...metadataOf(origin), issuer: "https://evil.example" })],
    [
      "has its keys elsewhere",
      (_path, origin) => ({ ...metadataOf(origin), jwks_uri: "https://evil.example/jwks" }),
    ],
    [
      "fails at introspection and has no keys",
      (path, origin) => (path.startsWith("/.well") ? metadataOf(origin) : 500),
    ],
  ])("is a 503, and no verdict: it %s", async (_what, answer) => {
    const issuer = await pretending(answer);
    const failing = createApi({ issuer, resource: ARTICLES, introspection: machine });
    for (const token of [await signed(), "opaque"]) {
      const error: unknown = await failing.verify(bearer(token)).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ status: 503, headers: { "retry-after": "5" } });
      expect(String(error)).not.toContain(token);
    }
  });

  it("is asked again by the next request", async () => {
    let isDown = true;
    const issuer = await pretending((path, origin) => {
      if (isDown) return 503;
      if (path.startsWith("/.well")) return metadataOf(origin);
      return { active: true, iss: origin, aud: ARTICLES, sub: "s", client_id: "c", exp: now() + 60 };
    });
    const later = createApi({ issuer, resource: ARTICLES, introspection: machine });
    expect((await verdict(later, bearer("opaque")))[0]).toBe(503);
    isDown = false;
    expect(await verdict(later, bearer("opaque"))).toEqual([200, "s"]);
  });

  it.each<[string, object]>([
    ["of another API", { aud: VIDEOS }],
    ["of several APIs", { aud: [ARTICLES, VIDEOS] }],
    ["of another issuer", { iss: "https://evil.example" }],
    ["that has ended", { exp: 1 }],
    ["that never ends", { exp: undefined }],
    ["that is not active", { active: "true" }],
  ])("can't make an opaque token valid %s", async (_what, change) => {
    const issuer = await pretending((path, origin) =>
      path.startsWith("/.well")
        ? metadataOf(origin)
        : { active: true, iss: origin, aud: ARTICLES, sub: "s", client_id: "c", exp: now() + 60, ...change },
    );
    const asked = createApi({ issuer, resource: ARTICLES, introspection: machine });
    expect((await verdict(asked, bearer("opaque")))[0]).toBe(401);
  });

  it.each([
    [5, 1],
    [0, 3],
  ])(
    "is asked once for a token within the cache of %s s: %s times for three requests",
    async (seconds, times) => {
      let asked = 0;
      const issuer = await pretending((path, origin) => {
        if (path.startsWith("/.well")) return metadataOf(origin);
        asked += 1;
        return { active: true, iss: origin, aud: ARTICLES, sub: "s", client_id: "c", exp: now() + 60 };
      });
      const cached = createApi({
        issuer,
        resource: ARTICLES,
        introspection: { ...machine, cache_seconds: seconds },
      });
      // Two at once, and one later.
      await Promise.all([verdict(cached, bearer("opaque")), verdict(cached, bearer("opaque"))]);
      await verdict(cached, bearer("opaque"));
      expect(asked).toBe(times);
    },
  );
});

describe("the options", () => {
  const resource = ARTICLES;
  it.each<[string, () => Api]>([
    ["issuer", () => createApi({ issuer: "login.example.com", resource })],
    ["resource", () => createApi({ issuer: "https://login.example.com", resource: "https://a:b@x.example" })],
    ["resource", () => createApi({ issuer: "https://login.example.com", resource: "urn:x" })],
    [
      "cache_seconds",
      () =>
        createApi({
          issuer: "https://login.example.com",
          resource,
          introspection: { ...machine, cache_seconds: 11 },
        }),
    ],
  ])("name what is wrong: %s", (name, make) => {
    expect(make).toThrow(name);
  });
});
