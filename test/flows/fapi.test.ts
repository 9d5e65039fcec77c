/** Clients with `profile: "fapi2"`: what the FAPI 2.0 Security Profile refuses and what passes, and real clients that keep it. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { type CryptoKey, decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, SignJWT } from "jose";
import * as oauth from "oauth4webapi";
import * as client from "openid-client";
import { newProof, PATHS, send, type TestAnswer } from "../../testing/test-client.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { signIn } from "./clients.ts";
import { athOf, makeProof, newProofKey, type ProofKey } from "./proof-maker.ts";
import { API, VIDEOS } from "./sample-apis.ts";
import { useService } from "./running-service.ts";
import { CLIENT_ENDPOINTS, type ClientEndpoint, clientError } from "../hostile/token-table.ts";

const ADDRESS = "https://fapi.example/callback";
const ALGORITHMS = ["PS256", "ES256", "EdDSA", "RS256"] as const;

let passedMs = 0;
const clock = { virtual: true, now: () => Date.now() + passedMs };
const running = useService({ config: { clock, lifetimes: { authorizationCode: 600 } } });
let mine: ProofKey;
const keys = new Map<string, { readonly privateKey: CryptoKey; readonly jwk: Record<string, string> }>();

const settings = (): Record<string, unknown> => ({
  kind: "web",
  name: "Bank",
  service: "1",
  profile: "fapi2",
  redirect_uris: [ADDRESS],
  jwks: { keys: ["PS256", "ES256", "EdDSA"].map((alg) => keys.get(alg)?.jwk) },
});
const register = (changed: Record<string, unknown> = {}): Promise<{ client_id: string }> =>
  running.service.clients.register({ ...settings(), ...changed } as never);

beforeAll(async () => {
  mine = await newProofKey();
  for (const alg of ALGORITHMS) {
    const { privateKey, publicKey } = await generateKeyPair(alg);
    keys.set(alg, { privateKey, jwk: (await exportJWK(publicKey)) as Record<string, string> });
  }
  await register({ client_id: "bank" });
  const apis = { [VIDEOS]: ["articles:read"] };
  await running.service.directory.apis.put(VIDEOS, {
    ...API,
    tokens: "jwt",
    lifetime: 300,
    introspection: [],
  });
  const { jwks, name, service, profile } = settings();
  const robot = { kind: "machine", client_id: "robot", jwks, name, service, profile, apis };
  await running.service.clients.register(robot as never);
});

async function assertion(claims: Record<string, unknown> = {}, alg = "PS256", sub = "bank"): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  return new SignJWT({
    iss: sub,
    sub,
    aud: running.openid,
    jti: randomUUID(),
    iat: now,
    exp: now + 60,
    ...claims,
  })
    .setProtectedHeader({ alg })
    .sign(keys.get(alg)!.privateKey);
}

type Form = Record<string, string | undefined>;

/** A form of the client, `undefined` left out, with a proof that has a nonce. */
async function post(
  path: string,
  form: Form,
  proof: ProofKey | null = mine,
  base = running.openid,
): Promise<TestAnswer> {
  const signed = { client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" };
  const all = { client_id: "bank", ...signed, client_assertion: await assertion(), ...form };
  const body = new URLSearchParams(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  const address = `${base}${path}`;
  const ask = async (nonce?: string | null): Promise<TestAnswer> => {
    const dpop = proof && (await makeProof(proof, { htm: "POST", htu: address, ...(nonce && { nonce }) }));
    body.set("client_assertion", form["client_assertion"] ?? (await assertion()));
    return send(address, { method: "POST", headers: { ...(dpop && { dpop }) }, body });
  };
  const first = await ask();
  return first.body["error"] === "use_dpop_nonce" ? ask(first.headers.get("dpop-nonce")) : first;
}

const proved = newProof();
const REQUEST = {
  response_type: "code",
  redirect_uri: ADDRESS,
  scope: "openid",
  state: "s",
  ...proved.request,
};
const push = (form: Form = {}): Promise<TestAnswer> => post("/oauth2/par", { ...REQUEST, ...form });

const addressOf = (request_uri: unknown): string =>
  `${running.openid}/oauth2/authorize?${new URLSearchParams({ client_id: "bank", request_uri: String(request_uri) })}`;

const browser = new Browser({ stopAt: [ADDRESS] });

/** The redirect to the client after a pushed request. */
async function redirected(form: Form = {}): Promise<URLSearchParams> {
  const { body } = await push(form);
  await browser.get(addressOf(body["request_uri"]));
  if (browser.hasForm("password")) await signIn(browser);
  return browser.location!.searchParams;
}

const exchange = (code: string | null, proof: ProofKey | null = mine, form: Form = {}): Promise<TestAnswer> =>
  post(
    "/oauth2/token",
    {
      grant_type: "authorization_code",
      code: code ?? "",
      redirect_uri: ADDRESS,
      code_verifier: proved.code_verifier,
      ...form,
    },
    proof,
  );

const outcome = ({ status, body }: TestAnswer): unknown => [status, body["error"]];

describe("the registration of a client with profile: fapi2", () => {
  const small = generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey.export({ format: "jwk" });
  it.each<[section: string, changed: Record<string, unknown>, refused: string]>([
    ["5.3.2.1, a secret", { jwks: undefined, client_secret: "a secret of 32 characters, and more" }, "jwks"],
    ["5.3.2.1, no keys", { jwks: undefined }, "jwks"],
    ["5.3.2.1, a public client", { kind: "public", jwks: undefined }, "profile"],
    ["5.3.2.1, Bearer tokens", { dpop: "optional" }, "dpop"],
    ["5.3.2.1, the password grant", { password_grant: true }, "grant_types"],
    ["5.3.2.1, rotation", { refresh_tokens: { rotate: true } }, "refresh_tokens.rotate"],
    [
      "5.3.2.2, an address without TLS",
      { redirect_uris: ["http://127.0.0.1:4000/callback"] },
      "redirect_uris",
    ],
    ["5.3.1, the documented statuses", { error_status: "documented" }, "error_status"],
    ["5.4.1, RSA of 1,024 bits", { jwks: { keys: [small] } }, "jwks"],
    ["5.4.1, a key for RS256", { jwks: { keys: [{ ...small, alg: "RS256" }] } }, "jwks"],
    [
      "5.4.1, ID tokens with RS256",
      { id_token_signed_response_alg: "RS256" },
      "id_token_signed_response_alg",
    ],
  ])("refuses: section %s [D-FAPI-1]", async (_section, changed, refused) => {
    await expect(register(changed)).rejects.toThrow(refused);
  });

  it("has what the profile asks for, which no change takes away [D-FAPI-1, D-FAPI-5]", async () => {
    const { clients } = running.service;
    const kept = {
      profile: "fapi2",
      dpop: "required",
      error_status: "standard",
      id_token_signed_response_alg: "PS256",
    };
    expect(await clients.find("bank")).toMatchObject({ ...kept, refresh_tokens: { rotate: false } });
    const changes = [
      { dpop: "optional" },
      { error_status: "documented" },
      { client_secret: "a secret of 32 characters, and more" },
      { redirect_uris: ["http://127.0.0.1/callback"] },
      { refresh_tokens: { rotate: true } },
      { password_grant: true },
      { profile: null },
    ];
    for (const change of changes)
      await expect(clients.update("bank", change as never)).rejects.toThrow(TypeError);
    expect(await clients.update("bank", { name: "Bank" })).toMatchObject(kept);
    const chosen = await register({ id_token_signed_response_alg: "ES256" });
    expect(await clients.find(chosen.client_id)).toMatchObject({ id_token_signed_response_alg: "ES256" });
  });
});

describe("a request of a client with profile: fapi2", () => {
  it.each<[section: string, form: Form]>([
    ["5.3.2.2, without PKCE", { code_challenge: undefined, code_challenge_method: undefined }],
    ["5.3.2.2, with the method plain", { code_challenge_method: "plain" }],
    ["5.3.2.2, without the method", { code_challenge_method: undefined }],
    ["5.3.2.2, without redirect_uri", { redirect_uri: undefined }],
    ["5.3.2.2, without response_type", { response_type: undefined }],
    ["5.3.2.2, with another response_type", { response_type: "code id_token" }],
  ])("is not pushed: section %s [D-FAPI-2]", async (_section, form) => {
    expect(outcome(await push(form))).toEqual([
      400,
      expect.stringMatching(/^invalid_(?:request|response_type)$/),
    ]);
  });

  it.each<[section: string, client_assertion: () => Promise<string>]>([
    ["5.3.2.1, for the token endpoint", () => assertion({ aud: `${running.openid}/oauth2/token` })],
    ["5.3.2.1, for a list with the issuer", () => assertion({ aud: [running.openid] })],
    ["5.3.2.1, for PAR", () => assertion({ aud: `${running.openid}/oauth2/par` })],
    ["5.4.1, signed with RS256", () => assertion({}, "RS256")],
  ])("authenticates nobody: section %s [D-FAPI-3]", async (_section, client_assertion) => {
    const refused = [401, "invalid_client"];
    expect(outcome(await push({ client_assertion: await client_assertion() }))).toEqual(refused);
    const form = {
      grant_type: "refresh_token",
      refresh_token: "x",
      client_assertion: await client_assertion(),
    };
    expect(outcome(await post("/oauth2/token", form))).toEqual(refused);
  });

  it("is pushed with PS256, ES256 or EdDSA, and lives less than ten minutes (5.3.2.2, 5.4.1) [D-FAPI-3]", async () => {
    for (const alg of ["PS256", "ES256", "EdDSA"]) {
      const pushed = await push({ client_assertion: await assertion({}, alg) });
      expect([alg, pushed.status, Number(pushed.body["expires_in"]) < 600]).toEqual([alg, 201, true]);
    }
  });

  it("is refused unless it was pushed, and at the oauth2 deployment (5.3.2.2) [D-FAPI-2]", async () => {
    const sent = new URLSearchParams({ client_id: "bank", ...REQUEST });
    const plain = await send(`${running.openid}/oauth2/authorize?${sent}`, { redirect: "manual" });
    expect(outcome(plain)).toEqual([400, "invalid_request"]);
    const elsewhere = await send(`${running.oauth2}/oauth2/authorize?${sent}`, { redirect: "manual" });
    expect(outcome(elsewhere)).toEqual([400, "invalid_client"]);
    const form = { grant_type: "refresh_token", refresh_token: "x" };
    const token = await post("/oauth2/token", form, mine, running.oauth2);
    expect(outcome(token)).toEqual([401, "invalid_client"]);
  });

  it("gets a code for its key, tokens for a proof with a nonce, and no rotation (5.3.2.1) [D-FAPI-4, D-FAPI-5, D-FAPI-10]", async () => {
    const answer = await redirected();
    expect([answer.get("state"), answer.get("iss")]).toEqual(["s", running.openid]);
    const code = answer.get("code");
    expect(outcome(await exchange(code, null))).toEqual([400, "invalid_grant"]);
    expect(outcome(await exchange(code, await newProofKey()))).toEqual([400, "invalid_grant"]);
    const { body } = await exchange(code);
    expect(body["token_type"]).toBe("DPoP");
    const id = String(body["id_token"]);
    expect([decodeProtectedHeader(id).alg, decodeJwt(id).sub]).toEqual(["PS256", running.ada.sub]);
    const refresh = { grant_type: "refresh_token", refresh_token: String(body["refresh_token"]) };
    for (let use = 0; use < 2; use += 1) {
      const next = await post("/oauth2/token", refresh);
      expect([next.status, next.body["refresh_token"]]).toEqual([200, refresh.refresh_token]);
    }
    expect(outcome(await post("/oauth2/token", refresh, null))).toEqual([400, "invalid_grant"]);
    const token = String(body["access_token"]);
    const address = `${running.openid}/oauth2/userinfo`;
    const bearer = await send(address, { headers: { authorization: `Bearer ${token}` } });
    expect(bearer.status).toBe(401);
    const dpop = await makeProof(mine, { htm: "GET", htu: address, ath: athOf(token) });
    expect((await send(address, { headers: { authorization: `DPoP ${token}`, dpop } })).status).toBe(200);
    for (const path of Object.values(PATHS.oauth2)) {
      const htu = `${running.oauth2}${path}`;
      const proof = await makeProof(mine, { htm: "GET", htu, ath: athOf(token) });
      const headers = { authorization: `DPoP ${token}`, dpop: proof };
      expect(outcome(await send(`${htu}?client_id=bank`, { headers }))).toEqual([401, "invalid_client"]);
    }
    // A code counts once, and ends what came of it (5.3.2.2).
    expect(outcome(await exchange(code))).toEqual([400, "invalid_grant"]);
  });

  it.each([
    [50, [200, undefined]],
    [61, [400, "invalid_grant"]],
  ])(
    "after %i seconds gets %j for its code, although others live longer (5.3.2.1) [D-FAPI-4]",
    async (seconds, expected) => {
      const code = (await redirected()).get("code");
      passedMs += seconds * 1000;
      expect(outcome(await exchange(code))).toEqual(expected);
    },
  );

  it("gets errors with iss, by redirects with 302 or 303 (5.3.2.2) [D-FAPI-4]", async () => {
    const answer = await redirected({ prompt: "none", max_age: "0" });
    expect([answer.get("error"), answer.get("iss"), answer.get("state")]).toEqual([
      "invalid_request",
      running.openid,
      "s",
    ]);
    const { body } = await push();
    const redirect = await send(addressOf(body["request_uri"]), { redirect: "manual" });
    expect([302, 303]).toContain(redirect.status);
  });
});

it.each(
  (["bank", "robot"] as const).flatMap((name) =>
    (Object.keys(CLIENT_ENDPOINTS) as ClientEndpoint[]).map((endpoint) => [name, endpoint] as const),
  ),
)("the client %s at %s [D-FAPI-12]", async (client_id, endpoint) => {
  const { path, form } = CLIENT_ENDPOINTS[endpoint];
  const sent = { client_id, redirect_uri: ADDRESS, ...form };
  const answer =
    endpoint === "authorization"
      ? await send(`${running.openid}${path}?${new URLSearchParams(sent)}`, { redirect: "manual" })
      : await post(path, { ...sent, client_assertion: await assertion({}, "PS256", client_id) }, null);
  expect(answer.body["error"]).toBe(clientError(client_id, endpoint));
});

/** A token request of the machine. */
const askAsRobot = async (proof: ProofKey | null, alg = "ES256"): Promise<TestAnswer> =>
  post(
    "/oauth2/token",
    {
      client_id: "robot",
      grant_type: "client_credentials",
      resource: VIDEOS,
      client_assertion: await assertion({}, alg, "robot"),
    },
    proof,
  );

it("a machine with it needs an assertion for the issuer and DPoP, and its JWTs are not signed with RS256 [D-FAPI-6]", async () => {
  expect(outcome(await askAsRobot(null))).toEqual([400, "invalid_grant"]);
  expect(outcome(await askAsRobot(mine, "RS256"))).toEqual([401, "invalid_client"]);
});

describe("real clients", () => {
  it.each(["PS256", "ES256", "EdDSA"])(
    "openid-client signs in with %s, DPoP and PAR [D-FAPI-7, D-FAPI-11]",
    async (alg) => {
      const config = await client.discovery(
        new URL(running.openid),
        "bank",
        undefined,
        client.PrivateKeyJwt(keys.get(alg)!.privateKey),
        { execute: [client.allowInsecureRequests] },
      );
      expect(config.serverMetadata()).toMatchObject({
        dpop_signing_alg_values_supported: expect.any(Array),
        authorization_response_iss_parameter_supported: true,
        code_challenge_methods_supported: ["S256"],
      });
      const DPoP = client.getDPoPHandle(config, await client.randomDPoPKeyPair());
      const pkceCodeVerifier = client.randomPKCECodeVerifier();
      const parameters = {
        redirect_uri: ADDRESS,
        scope: "openid",
        code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
        code_challenge_method: "S256",
      };
      await browser.get(await client.buildAuthorizationUrlWithPAR(config, parameters, { DPoP }));
      const checks = { pkceCodeVerifier };
      const tokens = await client.authorizationCodeGrant(config, browser.location!, checks, undefined, {
        DPoP,
      });
      const { sub } = running.ada;
      expect(await client.fetchUserInfo(config, tokens.access_token, sub, { DPoP })).toMatchObject({ sub });
      const next = await client.refreshTokenGrant(config, tokens.refresh_token ?? "", undefined, { DPoP });
      expect(next.refresh_token ?? tokens.refresh_token).toBe(tokens.refresh_token);
    },
  );

  it("oauth4webapi gets a JWT for an API, for a machine [D-FAPI-6, D-FAPI-7]", async () => {
    const insecure = { [oauth.allowInsecureRequests]: true };
    const found = await oauth.discoveryRequest(new URL(running.openid), { algorithm: "oidc", ...insecure });
    const server = await oauth.processDiscoveryResponse(new URL(running.openid), found);
    const party: oauth.Client = { client_id: "robot" };
    const DPoP = oauth.DPoP(party, await oauth.generateKeyPair("ES256"));
    const ask = async (): Promise<oauth.TokenEndpointResponse> =>
      oauth.processClientCredentialsResponse(
        server,
        party,
        await oauth.clientCredentialsGrantRequest(
          server,
          party,
          oauth.PrivateKeyJwt(keys.get("PS256")!.privateKey),
          { resource: VIDEOS },
          { DPoP, ...insecure },
        ),
      );
    const { access_token } = await ask().catch((error: unknown) => {
      if (!oauth.isDPoPNonceError(error)) throw error;
      return ask();
    });
    expect(decodeProtectedHeader(access_token).alg).toBe("PS256");
  });
});
