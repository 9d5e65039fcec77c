import { createHmac } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { exportJWK, exportSPKI, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";
import type { EndpointName } from "../../config/deployments.ts";
import { clientAt } from "../flows/clients.ts";
import { send } from "../../testing/test-client.ts";
import { NEWS, type RunningService, startService, UNLIMITED } from "../flows/running-service.ts";
import { newStorage } from "../servers/storage.ts";
import { fillConsole, WITH_CONSOLE } from "./account-samples.ts";
import { type Sample, samples, sendSample } from "./requests.ts";

/** The service's own signing key, so that the tests can sign as the service does. */
interface SigningKey {
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly publicKey: CryptoKey;
  /** For `keys.signing`. */
  readonly jwk: JWK;
}

async function newSigningKey(): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
  const kid = "of-the-tests";
  return {
    kid,
    privateKey,
    publicKey,
    jwk: { ...(await exportJWK(privateKey)), kid, alg: "RS256", use: "sig" },
  };
}

/** The claims of a valid ID token. */
interface GoodClaims {
  readonly iss: string;
  readonly aud: string;
  readonly sub: string;
}

/** A name for the problem, and the token. */
type BrokenJwt = readonly [what: string, token: string];

const encoded = (part: unknown): string =>
  Buffer.from(typeof part === "string" ? part : JSON.stringify(part)).toString("base64url");

/** All broken tokens. Each fits into a request line. */
async function brokenJwts(key: SigningKey, claims: GoodClaims): Promise<readonly BrokenJwt[]> {
  const now = Math.floor(Date.now() / 1000);
  const good: JWTPayload = { ...claims, iat: now, exp: now + 3600 };
  const header = { alg: "RS256", kid: key.kid };
  const signed = (payload: object): Promise<string> =>
    new SignJWT(payload as JWTPayload).setProtectedHeader(header).sign(key.privateKey);
  const whole = await signed(good);
  const [head = "", body = "", signature = ""] = whole.split(".");
  const hmacInput = `${encoded({ ...header, alg: "HS256" })}.${body}`;
  const publicPem = await exportSPKI(key.publicKey);
  const hmac = createHmac("sha256", publicPem).update(hmacInput).digest("base64url");
  const { aud: _aud, ...withoutAudience } = good;
  const { sub: _sub, ...withoutSubject } = good;

  return [
    // Broken tokens.
    ["alg none", `${encoded({ alg: "none" })}.${body}.`],
    ["alg none, no aud", `${encoded({ alg: "none" })}.${encoded(withoutAudience)}.`],
    ["empty signature", `${head}.${body}.`],
    ["wrong kid", `${encoded({ ...header, kid: "unknown" })}.${body}.${signature}`],
    ["kid is an object", `${encoded({ ...header, kid: { $gt: "" } })}.${body}.${signature}`],
    ["unknown alg", `${encoded({ ...header, alg: "XX999" })}.${body}.${signature}`],
    ["alg is a number", `${encoded({ ...header, alg: 256 })}.${body}.${signature}`],
    ["no alg", `${encoded({ kid: key.kid })}.${body}.${signature}`],
    ["HS256 with the public key", `${hmacInput}.${hmac}`],
    ["truncated", whole.slice(0, -20)],
    ["not Base64", `${head}.${body}.!!!~~~`],
    ["header not Base64", `%%%.${body}.${signature}`],
    ["header an array", `${encoded([])}.${body}.${signature}`],
    ["header null", `${encoded(null)}.${body}.${signature}`],
    ["payload not JSON", `${head}.${encoded("not JSON")}.${signature}`],
    ["payload an array", `${head}.${encoded([1, 2])}.${signature}`],
    ["payload a number", `${head}.${encoded(7)}.${signature}`],
    ["payload null", `${head}.${encoded(null)}.${signature}`],
    ["one part", head],
    ["two parts", `${head}.${body}`],
    ["empty parts", ".."],
    ["five parts, as if encrypted", `${encoded({ alg: "dir", enc: "A256GCM" })}.....`.slice(0, -1)],
    ["huge", `${head}.${encoded({ ...good, filler: "x".repeat(8_000) })}.${signature}`],
    // Signed with the service's key, but not issued by it.
    ["expired", await signed({ ...good, iat: now - 7200, exp: now - 3600 })],
    ["foreign issuer", await signed({ ...good, iss: "https://evil.example" })],
    ["unknown client", await signed({ ...good, aud: "nobody" })],
    ["name of an object", await signed({ ...good, aud: "__proto__" })],
    ["no aud", await signed(withoutAudience)],
    ["aud a number", await signed({ ...good, aud: 7 })],
    ["aud an empty list", await signed({ ...good, aud: [] })],
    ["no sub", await signed(withoutSubject)],
    ["sub an object", await signed({ ...good, sub: { $ne: null } })],
  ];
}

/** Parameters in which a program might read a JWT, with their endpoints. */
const READ: Readonly<Record<string, readonly EndpointName[]>> = {
  id_token_hint: ["authorize", "par", "logout"],
  request: ["authorize", "par"],
  request_uri: ["authorize", "par"],
  login_hint_token: ["authorize", "par"],
  client_assertion: ["token", "par", "introspect", "revoke"],
  token: ["introspect", "revoke"],
  code: ["token"],
  refresh_token: ["token"],
  state: ["authorize", "par", "logout", "account"],
  logout_token: ["logout", "logoutConfirm", "logoutSuccess"],
};

/** The parameters that an endpoint reads. */
function parametersOf(endpoint: EndpointName): string[] {
  return Object.keys(READ).filter((name) => READ[name]?.includes(endpoint));
}

/** The sample with the token in these parameters. */
function withToken(sample: Sample, names: readonly string[], token: string): Sample {
  const more = Object.fromEntries(names.map((name) => [name, token]));
  return sample.method === "GET"
    ? { ...sample, query: { ...sample.query, ...more } }
    : { ...sample, form: { ...sample.form, ...more } };
}

/** Without parameters that are refused first, and without passwords, which are slow. */
function relaxed({ query, form, ...sample }: Sample): Sample {
  const { claims: _claims, prompt: _prompt, ...rest } = query;
  const { password: _password, ...sent } = form ?? {};
  return {
    ...sample,
    query: sample.endpoint === "logout" ? {} : rest,
    ...(form !== undefined && { form: sent }),
  };
}

describe("broken JWTs", () => {
  let running: RunningService;
  let all: readonly Sample[];
  let jwts: readonly BrokenJwt[];

  beforeAll(async () => {
    const storage = await newStorage();
    const key = await newSigningKey();
    running = await startService({
      config: {
        ...WITH_CONSOLE,
        ...storage,
        keys: { ...storage.keys, signing: [key.jwk] },
        features: { dpop: true },
        rateLimits: UNLIMITED,
      },
    });
    const { openid: iss, ada } = running;
    jwts = await brokenJwts(key, { iss, aud: NEWS.client_id, sub: ada.sub });
    const everything = await samples(running, await fillConsole(running));
    // The account pages share one handler, so one of them is enough.
    const page = everything.find(({ endpoint }) => endpoint === "account");
    all = everything.filter((sample) => sample.endpoint !== "account" || sample === page).map(relaxed);
  });

  it("cause no 5xx at any endpoint, in any parameter", async () => {
    const wrong: string[] = [];
    let sent = 0;
    await Promise.all(
      all.map(async (sample) => {
        for (const [what, token] of jwts) {
          const one = parametersOf(sample.endpoint).map((name) => withToken(sample, [name], token));
          const together = withToken(sample, Object.keys(READ), token);
          for (const request of [...one, together]) {
            const { status } = await sendSample(request);
            sent += 1;
            if (status >= 500) wrong.push(`${sample.title}: ${what}: ${status}`);
          }
        }
      }),
    );
    expect(wrong).toEqual([]);
    expect(running.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    expect(sent).toBeGreaterThan(1_000);
  });

  it("cause no 5xx at any endpoint, with the wrong method", async () => {
    const wrong: string[] = [];
    const [, token] = jwts[0]!;
    for (const sample of all) {
      const method = sample.method === "GET" ? "POST" : "GET";
      const { status } = await sendSample(withToken({ ...sample, method }, Object.keys(READ), token));
      if (status >= 500) wrong.push(`${sample.title}: ${status}`);
    }
    expect(wrong).toEqual([]);
  });

  it("cause no 5xx at any endpoint, as a Bearer token, a DPoP token or a proof", async () => {
    const wrong: string[] = [];
    for (const sample of all.filter(({ headers }) => headers["authorization"] !== undefined)) {
      for (const [what, token] of jwts) {
        const headers: Record<string, string>[] = [
          { authorization: `Bearer ${token}` },
          { authorization: `DPoP ${token}`, dpop: token },
          { ...sample.headers, dpop: token },
        ];
        const answers = await Promise.all(headers.map((one) => sendSample(sample, { headers: one })));
        for (const { status } of answers) {
          if (status >= 500) wrong.push(`${sample.title}: ${what}: ${status}`);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  it("as an id_token_hint are 400 at the logout endpoint, and an error for the client at the authorization endpoint [D-DEPLOY-4]", async () => {
    const news = clientAt(running, "openid", NEWS);
    // Hints may have expired (OpenID Connect RP-Initiated Logout 1.0 section 2).
    for (const [what, id_token_hint] of jwts.filter(([name]) => name !== "expired")) {
      const logout = `${running.openid}/oauth2/logout?${new URLSearchParams({ id_token_hint })}`;
      const page = await send(logout, { headers: { accept: "text/html" } });
      expect([what, page.status, page.headers.get("content-type")]).toEqual([
        what,
        400,
        "text/html; charset=utf-8",
      ]);
      const { status, body } = await send(logout);
      expect([what, status, body["error"]]).toEqual([
        what,
        400,
        expect.stringMatching(/^invalid_(?:request|client)$/),
      ]);
      const location = new URL(
        (await send(news.authorizeUrl({ scope: "openid", id_token_hint }))).headers.get("location") ?? "",
      );
      expect([what, location.searchParams.get("error")]).toEqual([what, "invalid_request"]);
    }
  });
});
