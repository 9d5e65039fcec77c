/** Clients that sign assertions instead of keeping a secret (`private_key_jwt`), and what a thief of one may not do. */
import { createHmac, createPublicKey, KeyObject, sign as signBytes } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";
import * as openid from "openid-client";
import { useTwoProcesses } from "../hosting/processes.ts";
import { rounds } from "../rounds.ts";
import type { StorageConfig } from "../servers/storage.ts";
import { APP, clientAt, signIn } from "./clients.ts";
import { basic, newProof, send, type TestAnswer, type TestTokens } from "../../testing/test-client.ts";
import { ADA, CALLBACK, type RunningService, startService, storageIn } from "./running-service.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { newFolder } from "../closing.ts";

const ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"] as const;
const ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

interface KeyPair {
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}
const keys = new Map<string, KeyPair>();
/** A key that no client has. */
let stranger: CryptoKey;
let folder: string;
let storage: StorageConfig;
let running: RunningService;

beforeAll(async () => {
  folder = newFolder();
  storage = await storageIn(folder);
  running = await startService({ config: { ...storage, proxy: true } });
  for (const alg of ALGORITHMS) {
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
    keys.set(alg, { privateKey, jwk: { ...(await exportJWK(publicKey)), kid: alg, alg } });
  }
  ({ privateKey: stranger } = await generateKeyPair("ES256"));
  const jwks = { keys: [...keys.values()].map(({ jwk }) => jwk as Record<string, string>) };
  const { clients } = running.service;
  await clients.register({
    client_id: "signed",
    name: "Signed",
    service: "1",
    redirect_uris: [CALLBACK],
    jwks,
    error_status: "standard",
  });
  await clients.register({
    client_id: "signed2",
    name: "Other",
    service: "1",
    redirect_uris: [CALLBACK],
    jwks,
    error_status: "standard",
  });
  await clients.register({ kind: "machine", client_id: "robot", name: "Robot", service: "1", jwks });
  await clients.register(APP);
});

const now = (): number => Math.floor(Date.now() / 1000);
let count = 0;
let requests = 0;

interface Made {
  readonly alg?: (typeof ALGORITHMS)[number];
  readonly key?: CryptoKey;
  readonly header?: object;
}

/** An assertion of the client `signed` for the token endpoint on `openid`. */
function assertion(claims: JWTPayload = {}, { alg = "ES256", key, header = {} }: Made = {}): Promise<string> {
  count += 1;
  const payload = {
    iss: "signed",
    sub: "signed",
    aud: `${running.openid}/oauth2/token`,
    jti: `jti-${count}`,
    iat: now(),
    exp: now() + 60,
    ...claims,
  };
  return new SignJWT(payload)
    .setProtectedHeader({ alg, kid: alg, ...header })
    .sign(key ?? keys.get(alg)!.privateKey);
}

/** Sends a form with an assertion. */
function post(
  path: string,
  client_assertion: string,
  form: Record<string, string> = {},
  base = running.openid,
): Promise<TestAnswer> {
  const body = new URLSearchParams({ client_assertion, client_assertion_type: ASSERTION_TYPE, ...form });
  // Each from another address: beyond ten failures of one, the audit only counts.
  const from = `10.0.${(requests += 1) >> 8}.${requests & 255}`;
  return send(`${base}${path}`, { method: "POST", headers: { "x-forwarded-for": from }, body });
}

/** A code for the client `signed`. */
async function code(base = running.openid, client_id = "signed"): Promise<string> {
  const browser = new Browser({ stopAt: CALLBACK });
  const query = new URLSearchParams({
    client_id,
    response_type: "code",
    redirect_uri: CALLBACK,
    scope: "openid email",
  });
  await browser.get(`${base}/oauth2/authorize?${query}`);
  await signIn(browser);
  return browser.location?.searchParams.get("code") ?? "";
}

const exchange = (fresh: string): Record<string, string> => ({
  grant_type: "authorization_code",
  code: fresh,
  redirect_uri: CALLBACK,
});

/** Introspection of an unknown token: the answer only says whether the client is who it says. */
const isAccepted = async (made: string, form: Record<string, string> = {}): Promise<boolean> => {
  const { status, body } = await post("/oauth2/introspect", made, { token: "unknown", ...form });
  expect([200, 400, 401]).toContain(status);
  if (status === 401) expect(body["error"]).toBe("invalid_client");
  return status === 200;
};

/** A token that no library makes. */
function forged(header: object, sign: (text: string) => string): string {
  const claims = {
    iss: "signed",
    sub: "signed",
    aud: running.openid,
    jti: `f-${(count += 1)}`,
    iat: now(),
    exp: now() + 60,
  };
  const text = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  return `${text}.${sign(text)}`;
}

/** What the audit says about the last refused assertion of the client `signed`. */
async function refusal(): Promise<
  Pick<AuditRecord, "subject" | "outcome" | "reason" | "detail"> | undefined
> {
  const { items: records } = await running.service.audit.list({
    client: "signed",
    action: "client.authentication",
    limit: 1,
  });
  return records[0];
}

/** Signs what libraries refuse to sign, with a key of the client. */
function signed(header: object): string {
  const key = KeyObject.from(keys.get("ES256")!.privateKey);
  return forged({ alg: "ES256", kid: "ES256", ...header }, (text) =>
    signBytes("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" }).toString("base64url"),
  );
}

describe("an assertion", () => {
  it.each(ALGORITHMS)("with %s authenticates the client at every endpoint [D-KIND-7]", async (alg) => {
    const made = (): Promise<string> => assertion({}, { alg });
    const exchanged = await post("/oauth2/token", await made(), exchange(await code()));
    expect(exchanged.status).toBe(200);
    const { access_token, refresh_token } = exchanged.body as unknown as TestTokens;
    const refreshed = await post("/oauth2/token", await made(), {
      grant_type: "refresh_token",
      refresh_token,
    });
    expect(refreshed.status).toBe(200);
    const introspected = await post("/oauth2/introspect", await made(), { token: access_token });
    expect(introspected.body).toMatchObject({ active: true, client_id: "signed" });
    const pushed = await post("/oauth2/par", await made(), {
      client_id: "signed",
      response_type: "code",
      redirect_uri: CALLBACK,
    });
    expect(pushed.status).toBe(201);
    const revoked = await post("/oauth2/revoke", await made(), { token: access_token });
    expect(revoked.status).toBe(200);
    expect((await post("/oauth2/introspect", await made(), { token: access_token })).body).toEqual({
      active: false,
    });
  });

  it("may be for the issuer on openid, and for the token endpoint on each deployment [D-KIND-7, D-KIND-10]", async () => {
    expect(await isAccepted(await assertion({ aud: running.openid }))).toBe(true);
    const there = await assertion({ aud: `${running.oauth2}/oauth2/token` });
    const answer = await post("/oauth2/token", there, exchange(await code(running.oauth2)), running.oauth2);
    expect(answer.status).toBe(200);
    expect(answer.body).not.toHaveProperty("scope");
  });

  it("may be a little ahead of the service's clock [D-KIND-7]", async () => {
    const ahead = now() + 28;
    expect(await isAccepted(await assertion({ iat: ahead, nbf: ahead }))).toBe(true);
    expect(await isAccepted(await assertion({ iat: now() - 328 }))).toBe(true);
    expect(await isAccepted(await assertion({ exp: now() + 299 }))).toBe(true);
  });

  it.each<[string, () => Promise<string>]>([
    ["is for another server", () => assertion({ aud: "https://other.example/oauth2/token" })],
    ["is for the other deployment", () => assertion({ aud: `${running.oauth2}/oauth2/token` })],
    ["is for another endpoint", () => assertion({ aud: `${running.openid}/oauth2/introspect` })],
    [
      "is for several audiences",
      () => assertion({ aud: [`${running.openid}/oauth2/token`, "https://other.example"] }),
    ],
    ["is for one audience, as a list", () => assertion({ aud: [`${running.openid}/oauth2/token`] })],
    ["is for no audience", () => assertion({ aud: undefined as never })],
    ["has no iat", () => assertion({ iat: undefined as never })],
    ["has a text as iat", () => assertion({ iat: String(now()) as never })],
    ["was made too long ago", () => assertion({ iat: now() - 335 })],
    ["was made in the future", () => assertion({ iat: now() + 35 })],
    ["is valid later", () => assertion({ nbf: now() + 35 })],
    ["has no exp", () => assertion({ exp: undefined as never })],
    ["has expired", () => assertion({ exp: now() - 1, iat: now() - 60 })],
    ["has just expired", () => assertion({ exp: now(), iat: now() - 60 })],
    ["is valid for too long", () => assertion({ exp: now() + 330 })],
    ["has no jti", () => assertion({ jti: undefined as never })],
    ["has an empty jti", () => assertion({ jti: "" })],
    ["has a number as jti", () => assertion({ jti: 7 as never })],
    ["has an endless jti", () => assertion({ jti: "x".repeat(2_000) })],
    ["is by another client", () => assertion({ iss: "signed2" })],
    ["is about another client", () => assertion({ sub: "signed2" })],
    ["is signed by somebody else", () => assertion({}, { key: stranger })],
    ["names another key", () => assertion({}, { header: { kid: "RS256" } })],
  ])("is refused if it %s [D-KIND-7, D-KIND-10]", async (_what, made) => {
    expect(await isAccepted(await made(), { client_id: "signed" })).toBe(false);
  });

  it("is refused with alg none, and with an HMAC of the public key [D-KIND-7]", async () => {
    for (const alg of ["none", "None", "NONE", ""])
      expect(await isAccepted(forged({ alg }, () => ""))).toBe(false);
    const { jwk } = keys.get("RS256")!;
    const publicKey = createPublicKey({ format: "jwk", key: jwk });
    const pem = publicKey.export({ format: "pem", type: "spki" });
    const der = publicKey.export({ format: "der", type: "spki" });
    for (const secret of [pem, der, JSON.stringify(jwk), jwk.n!, "kept-as-a-keyed-digest"])
      for (const [alg, hash] of [
        ["HS256", "sha256"],
        ["HS512", "sha512"],
      ] as const)
        expect(
          await isAccepted(
            forged({ alg, kid: "RS256" }, (text) =>
              createHmac(hash, secret).update(text).digest("base64url"),
            ),
          ),
        ).toBe(false);
  });

  it.each(["", "a", "a.b", "a.b.c", "..", "e30.e30.", "e30.W10.x", "e30.eyJzdWIiOjd9.x"])(
    "is refused if it is %j [D-KIND-7]",
    async (made) => {
      expect(await isAccepted(made, { client_id: "signed" })).toBe(false);
      expect(await isAccepted(made)).toBe(false);
    },
  );

  it("counts once: for the same request, at another endpoint, for another grant [D-KIND-7]", async () => {
    const made = await assertion();
    expect(await isAccepted(made)).toBe(true);
    expect(await isAccepted(made)).toBe(false);
    const refused = { status: 401, body: { error: "invalid_client" } };
    const fresh = await code();
    expect(await post("/oauth2/token", made, exchange(fresh))).toMatchObject(refused);
    expect(await post("/oauth2/revoke", made, { token: "unknown" })).toMatchObject(refused);
    // It has not used up the code.
    expect(await post("/oauth2/token", await assertion(), exchange(fresh))).toMatchObject({ status: 200 });
    // A refused request uses up the assertion, too.
    const other = await assertion();
    expect(await post("/oauth2/token", other, exchange("unknown"))).toMatchObject({ status: 400 });
    expect(await isAccepted(other)).toBe(false);
  });

  it("of one client uses up no assertion of another [D-KIND-7]", async () => {
    const other = { iss: "signed2", sub: "signed2" };
    expect(await isAccepted(await assertion({ jti: "2-shared" }))).toBe(true);
    expect(await isAccepted(await assertion({ ...other, jti: "-shared" }))).toBe(true);
    expect(await isAccepted(await assertion({ ...other, jti: "2-shared" }))).toBe(true);
  });

  it("is the only credential: no secret beside it or in place of it, and not for a client with a secret [D-KIND-7]", async () => {
    const refused = { status: 401, body: { error: "invalid_client" } };
    const authorization = basic({ client_id: "signed", client_secret: "kept-as-a-keyed-digest" });
    const form = new URLSearchParams({ token: "unknown" });
    expect(
      await send(`${running.openid}/oauth2/introspect`, {
        method: "POST",
        headers: { authorization },
        body: form,
      }),
    ).toMatchObject(refused);
    const secret = new URLSearchParams({
      token: "unknown",
      client_id: "signed",
      client_secret: "kept-as-a-keyed-digest",
    });
    expect(await send(`${running.openid}/oauth2/introspect`, { method: "POST", body: secret })).toMatchObject(
      refused,
    );
    expect(await isAccepted(await assertion(), { client_secret: "kept-as-a-keyed-digest" })).toBe(false);
    expect(await isAccepted(await assertion({ iss: "news", sub: "news" }))).toBe(false);
    expect(await isAccepted(await assertion(), { client_id: "signed2" })).toBe(false);
    const wrongType = new URLSearchParams({
      token: "unknown",
      client_assertion: await assertion(),
      client_assertion_type: "jwt",
    });
    expect(
      (await send(`${running.openid}/oauth2/introspect`, { method: "POST", body: wrongType })).status,
    ).toBe(400);
  });

  it("is refused with crit, whatever it names, and though its signature is right [D-KIND-8]", async () => {
    expect(await isAccepted(signed({}))).toBe(true);
    for (const header of [
      { crit: ["x"], x: 1 },
      { crit: ["b64"], b64: true },
      { crit: ["exp"], exp: 1 },
      { crit: [] },
      { crit: null },
    ]) {
      expect([header, await isAccepted(signed(header))]).toEqual([header, false]);
      expect((await refusal())?.detail).toEqual({ wrong: "form" });
    }
  });

  it.each<[string, () => Promise<string>]>([
    ["time", () => assertion({ iat: now() + 35 })],
    ["time", () => assertion({ exp: now() - 1, iat: now() - 60 })],
    ["time", () => assertion({ nbf: now() + 35 })],
    ["time", () => assertion({ iat: undefined as never })],
    ["signature", () => assertion({}, { key: stranger })],
    ["audience", () => assertion({ aud: "https://other.example/oauth2/token" })],
    ["audience", () => assertion({ aud: [running.openid] })],
    ["key", () => assertion({}, { header: { kid: "nobody's" } })],
    ["key", () => assertion({}, { header: { kid: "RS256" } })],
    ["key", async () => forged({ alg: "none" }, () => "")],
    ["key", async () => forged({ alg: "constructor", kid: "ES256" }, () => "x")],
    ["client", () => assertion({ iss: "signed2" })],
    ["form", () => assertion({ jti: "" })],
    ["form", async () => "a.b.c"],
    ["form", async () => `${Buffer.from("null").toString("base64url")}.e30.x`],
    [
      "used",
      async () => {
        const made = await assertion();
        await isAccepted(made);
        return made;
      },
    ],
  ])(
    "that is refused is in the audit, with what is wrong and none of its text: %s [D-KIND-8]",
    async (wrong, made) => {
      expect(await isAccepted(await made(), { client_id: "signed" })).toBe(false);
      expect(await refusal()).toMatchObject({
        subject: "signed",
        outcome: "failure",
        reason: "assertion",
        detail: { wrong },
      });
    },
  );

  it("of a machine is accepted, and its grants decide [D-KIND-7, D-KIND-1]", async () => {
    const robot = { iss: "robot", sub: "robot" };
    expect(await isAccepted(await assertion(robot))).toBe(true);
    const answer = await post("/oauth2/token", await assertion(robot), {
      grant_type: "refresh_token",
      refresh_token: "x",
    });
    expect(answer).toMatchObject({ status: 400, body: { error: "unauthorized_client" } });
  });

  it("works with openid-client and only the issuer [D-KIND-7]", async () => {
    const { privateKey } = keys.get("ES256")!;
    const config = await openid.discovery(
      new URL(running.openid),
      "signed",
      undefined,
      openid.PrivateKeyJwt({ key: privateKey, kid: "ES256" }),
      { execute: [openid.allowInsecureRequests] },
    );
    const { request, code_verifier } = newProof();
    const address = openid.buildAuthorizationUrl(config, {
      redirect_uri: CALLBACK,
      scope: "openid",
      ...request,
    });
    const browser = new Browser({ stopAt: CALLBACK });
    await browser.get(address.href);
    await signIn(browser);
    const tokens = await openid.authorizationCodeGrant(config, browser.location!, {
      pkceCodeVerifier: code_verifier,
    });
    expect(tokens.claims()?.sub).toBe(running.ada.sub);
    expect((await openid.tokenIntrospection(config, tokens.access_token)).active).toBe(true);
    await openid.tokenRevocation(config, tokens.access_token);
    expect((await openid.tokenIntrospection(config, tokens.access_token)).active).toBe(false);
  });
});

describe("two processes on one storage", () => {
  const bases = useTwoProcesses(() => ({
    ...storage,
    deployments: { oauth2: { url: running.oauth2 }, openid: { url: running.openid } },
  }));

  it("accept an assertion once, when both get it at the same time [D-KIND-7]", async () => {
    for (let round = 0; round < rounds(5, 30); round += 1) {
      const made = await assertion();
      const answers = await Promise.all(
        [...bases, ...bases].map((base) => post("/oauth2/introspect", made, { token: "unknown" }, base)),
      );
      expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(1);
      const fresh = await code();
      const other = await assertion();
      const exchanges = await Promise.all(
        bases.map((base) => post("/oauth2/token", other, exchange(fresh), base)),
      );
      expect(exchanges.filter(({ status }) => status === 200)).toHaveLength(1);
      const revoking = await assertion();
      const won = exchanges.find(({ status }) => status === 200);
      const { access_token = "" } = (won?.body ?? {}) as Record<string, string>;
      const revoked = await Promise.all(
        [access_token, "unknown"].map((token, i) => post("/oauth2/revoke", revoking, { token }, bases[i])),
      );
      expect(new Set(revoked.map(({ status }) => status))).toEqual(new Set([200, 401]));
    }
  });

  it("give 50 refreshes of a rotating client one answer: nobody is signed out [D-KIND-3]", async () => {
    const party = clientAt(running, "openid", APP);
    const { refresh_token } = await party.signIn(ADA);
    const at = bases.map((base) => clientAt({ ...running, openid: base }, "openid", APP));
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => at[i % 2]!.refresh(refresh_token)),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const next = new Set(answers.map(({ body }) => String(body["refresh_token"])));
    expect(next.size).toBe(1);
    expect(await party.refresh([...next][0]!)).toMatchObject({ status: 200 });
  });
});
