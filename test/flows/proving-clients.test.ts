/** DPoP as real clients use it (RFC 9449), what an API is told, and what a bound token costs. */
import { createServer } from "node:http";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import * as oauth from "oauth4webapi";
import * as client from "openid-client";
import type { RecordStore } from "../../adapters/record-store.ts";
import { type AccessError, createApi } from "../../api/index.ts";
import { basic, send } from "../../testing/test-client.ts";
import { APP, clientAt, signIn } from "./clients.ts";
import { atEnd } from "../closing.ts";
import { moduleIn } from "../examples/documents.ts";
import { athOf, makeProof, newProofKey, type ProofKey } from "./proof-maker.ts";
import { ADA, CALLBACK, listen, NEWS, useService } from "./running-service.ts";
import { API, ARTICLES, GRANTED, READER, registerReader, resetApis, SCOPE, VIDEOS } from "./sample-apis.ts";

/** What docs/connect/apis/high-security.md shows. */
interface Documented {
  readonly refreshed: (
    config: client.Configuration,
    keys: client.CryptoKeyPair,
    refreshToken: string,
    sub: string,
  ) => Promise<client.UserInfoResponse>;
}

let calls = 0;

/** Counts what the service asks of its storage. */
function counting(store: RecordStore): RecordStore {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...given: unknown[]): unknown => {
        calls += 1;
        return Reflect.apply(member, target, given) as unknown;
      };
    },
  });
}

const running = useService({ config: { features: { dpop: true } }, through: counting });
let mine: ProofKey;

beforeAll(async () => {
  mine = await newProofKey();
  await running.service.clients.register(APP);
  await registerReader(running);
  await resetApis(running, [NEWS]);
  await running.service.clients.register({
    kind: "machine",
    client_id: "robot",
    client_secret: "the secret of a robot, of 32 and more",
    name: "Robot",
    service: "1",
    apis: GRANTED,
  });
});

const news = clientAt(running, "openid", NEWS);
const local = { execute: [client.allowInsecureRequests] };

/** Opens an address, and signs in. @returns the redirect to the client. */
async function visit(address: URL, browser = news.browser({ stopAt: [CALLBACK, ...APP.redirect_uris] })) {
  await browser.get(address);
  if (browser.html.includes('name="password"')) await signIn(browser);
  return browser.location!;
}

describe.each(["ES256", "Ed25519", "PS256", "RS256"])("openid-client with a %s key", (alg) => {
  it.each([true, false])(
    "pushes %s, signs in, reads userinfo and refreshes [D-DPOP-12, D-DPOP-30]",
    async (pushes) => {
      const config = await client.discovery(
        new URL(running.openid),
        APP.client_id,
        undefined,
        client.None(),
        local,
      );
      const keys = await client.randomDPoPKeyPair(alg);
      const DPoP = client.getDPoPHandle(config, keys);
      const pkceCodeVerifier = client.randomPKCECodeVerifier();
      const parameters = {
        redirect_uri: APP.redirect_uris[0] ?? "",
        scope: "openid",
        code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
        code_challenge_method: "S256",
      };
      const address = pushes
        ? await client.buildAuthorizationUrlWithPAR(config, parameters, { DPoP })
        : client.buildAuthorizationUrl(config, { ...parameters, dpop_jkt: await DPoP.calculateThumbprint() });
      const location = await visit(address);
      const tokens = await client.authorizationCodeGrant(config, location, { pkceCodeVerifier }, undefined, {
        DPoP,
      });
      // The library writes it in small letters.
      expect(tokens.token_type).toBe("dpop");
      const sub = running.ada.sub;
      expect(await client.fetchUserInfo(config, tokens.access_token, sub, { DPoP })).toMatchObject({ sub });
      const next = await client.refreshTokenGrant(config, tokens.refresh_token ?? "", undefined, { DPoP });
      const documented = new URL(`${running.openid}/resources/userinfo?client_id=${APP.client_id}`);
      const answer = await client.fetchProtectedResource(
        config,
        next.access_token,
        documented,
        "GET",
        undefined,
        undefined,
        { DPoP },
      );
      expect(await answer.json()).toEqual({ sub, email: ADA.email });
      await expect(client.refreshTokenGrant(config, next.refresh_token ?? "")).rejects.toMatchObject({
        error: "invalid_grant",
      });
      const { refreshed } = await moduleIn<Documented>("prove-a-client", ".cache/proving-clients");
      expect(await refreshed(config, keys, next.refresh_token ?? "", sub)).toMatchObject({ sub });
    },
  );
});

describe("oauth4webapi", () => {
  it("gets a nonce for a clock that is an hour off, and repeats the request with it [D-DPOP-12]", async () => {
    await running.service.clients.update(NEWS.client_id, { dpop: "required" });
    const insecure = { [oauth.allowInsecureRequests]: true };
    const issuer = new URL(running.openid);
    const found = await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure });
    const server = await oauth.processDiscoveryResponse(issuer, found);
    const party: oauth.Client = { client_id: NEWS.client_id, [oauth.clockSkew]: 3_600 };
    const DPoP = oauth.DPoP(party, await oauth.generateKeyPair("ES256"));
    const ask = async (parameters: Record<string, string>): Promise<oauth.TokenEndpointResponse> => {
      const request = (): Promise<Response> =>
        oauth.genericTokenEndpointRequest(
          server,
          party,
          oauth.ClientSecretBasic(NEWS.client_secret),
          "password",
          parameters,
          { DPoP, ...insecure },
        );
      const attempt = async (): Promise<oauth.TokenEndpointResponse> =>
        oauth.processGenericTokenEndpointResponse(server, party, await request());
      return attempt().catch((error: unknown) => {
        if (!oauth.isDPoPNonceError(error)) throw error;
        return attempt();
      });
    };
    const { username, password } = ADA;
    const tokens = await ask({ username, password, scope: "openid" });
    expect(tokens.token_type).toBe("dpop");
    const info = await oauth.userInfoRequest(server, party, tokens.access_token, { DPoP, ...insecure });
    expect(info.status).toBe(200);
    await running.service.clients.update(NEWS.client_id, { dpop: "optional" });
  });
});

const proofOf = (): Promise<string> =>
  makeProof(mine, { htm: "POST", htu: `${running.openid}/oauth2/token` });

const robot = { client_id: "robot", client_secret: "the secret of a robot, of 32 and more" };

/** An API with `sign-in-service/api`, behind a proxy. @returns `fetch` for requests to its public address. */
async function apiBehindProxy(
  resource: string,
): Promise<(url: string, request: { readonly headers?: HeadersInit }) => Promise<Response>> {
  const introspection = { ...READER, cache_seconds: 0 };
  const api = createApi({ issuer: running.openid, resource, introspection });
  const server = createServer((request, response) => {
    api.verify(request, { scope: "articles:read" }).then(
      ({ client_id }) => response.end(client_id),
      (error: unknown) => {
        const { status, headers } = error as AccessError;
        response.writeHead(status, headers).end();
      },
    );
  });
  const inside = await listen(server, 0);
  atEnd(() => {
    server.close().closeAllConnections();
  });
  return (url, { headers }) => {
    const forwarded = new Headers(headers);
    forwarded.set("x-forwarded-host", "evil.example");
    return fetch(url.replace(resource, `${inside}/`), { headers: forwarded });
  };
}

describe.each([ARTICLES, VIDEOS])("sign-in-service/api at %s", (resource) => {
  it("lets openid-client in through a proxy, with DPoP and with Bearer [D-DOC-71]", async () => {
    const reach = await apiBehindProxy(resource);
    const secret = client.ClientSecretBasic(robot.client_secret);
    const config = await client.discovery(new URL(running.openid), robot.client_id, undefined, secret, local);
    config[client.customFetch] = ((url: string, init: RequestInit) =>
      url.startsWith(resource) ? reach(url, init) : fetch(url, init)) as client.CustomFetch;
    const keys = await client.randomDPoPKeyPair("ES256");
    for (const options of [{ DPoP: client.getDPoPHandle(config, keys) }, undefined]) {
      const { access_token } = await client.clientCredentialsGrant(config, { resource }, options);
      const address = new URL("v1/articles?page=2", resource);
      const call = (given: typeof options): Promise<Response> =>
        client.fetchProtectedResource(config, access_token, address, "GET", undefined, undefined, given);
      expect(await (await call(options)).text()).toBe(robot.client_id);
      // A bound token without its key, and a key without a bound token.
      const other = options === undefined ? { DPoP: client.getDPoPHandle(config, keys) } : undefined;
      await expect(call(other)).rejects.toMatchObject({ status: 401 });
    }
  });

  it("lets oauth4webapi in through a proxy, with DPoP and with Bearer [D-DOC-71]", async () => {
    const insecure = { [oauth.allowInsecureRequests]: true };
    const issuer = new URL(running.openid);
    const found = await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure });
    const server = await oauth.processDiscoveryResponse(issuer, found);
    const party: oauth.Client = { client_id: robot.client_id };
    const secret = oauth.ClientSecretBasic(robot.client_secret);
    const reach = { [oauth.customFetch]: await apiBehindProxy(resource) } as const;
    for (const options of [{ DPoP: oauth.DPoP(party, await oauth.generateKeyPair("ES256")) }, {}]) {
      const asked = await oauth.clientCredentialsGrantRequest(
        server,
        party,
        secret,
        { resource },
        { ...options, ...insecure },
      );
      const { access_token } = await oauth.processClientCredentialsResponse(server, party, asked);
      const address = new URL("v1/articles", resource);
      const answer = await oauth.protectedResourceRequest(access_token, "GET", address, new Headers(), null, {
        ...options,
        ...reach,
      });
      expect(await answer.text()).toBe(robot.client_id);
    }
  });
});

describe("an API", () => {
  it("finds the key of a bound token in a JWT and by introspection [D-DPOP-9]", async () => {
    const cnf = { jkt: mine.thumbprint };
    const grants = [
      async (resource: string) => {
        const { refresh_token } = await news.signIn(ADA, { scope: SCOPE, resource });
        const headers = { authorization: basic(NEWS), dpop: await proofOf() };
        return news.token({ grant_type: "refresh_token", refresh_token, resource }, headers);
      },
      async (resource: string) => {
        const headers = { authorization: basic(robot), dpop: await proofOf() };
        const form = { grant_type: "client_credentials", resource };
        return clientAt(running, "openid", robot).token(form, headers);
      },
    ];
    for (const grant of grants) {
      const jwt = await grant(VIDEOS);
      expect([jwt.status, jwt.body["token_type"]]).toEqual([200, "DPoP"]);
      expect(decodeJwt(String(jwt.body["access_token"]))).toMatchObject({ cnf });
      const opaque = await grant(ARTICLES);
      const token = String(opaque.body["access_token"]);
      const { body } = await clientAt(running, "openid", READER).post("/oauth2/introspect", { token });
      expect(body).toMatchObject({ active: true, token_type: "DPoP", cnf, aud: ARTICLES });
      expect(API.introspection).toContain(READER.client_id);
    }
  });
});

describe("a bound token", () => {
  it("costs no call of the storage more at userinfo and profile [D-DPOP-13]", async () => {
    const { access_token: bearer, refresh_token } = await news.signIn(ADA, { scope: "openid" });
    const headers = { authorization: basic(NEWS), dpop: await proofOf() };
    const { body } = await news.token({ grant_type: "refresh_token", refresh_token }, headers);
    const bound = String(body["access_token"]);
    for (const path of ["/resources/userinfo", "/external/profile", "/oauth2/userinfo"]) {
      const address = `${running.openid}${path}`;
      const counted = async (given: Record<string, string>): Promise<number> => {
        // The first request reads what the process keeps.
        await send(`${address}?client_id=news`, { headers: given });
        const before = calls;
        expect((await send(`${address}?client_id=news`, { headers: given })).status).toBe(200);
        return calls - before;
      };
      const dpop = await makeProof(mine, { htm: "GET", htu: address, ath: athOf(bound) });
      const least = await counted({ authorization: `Bearer ${bearer}` });
      const most = await counted({ authorization: `DPoP ${bound}`, dpop });
      expect([path, most]).toEqual([path, least]);
    }
  });
});
