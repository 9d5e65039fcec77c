/** Every kind of token at every endpoint that takes tokens, on both deployments: `token-table.ts` says what happens. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { Browser } from "../../testing/browser/browser.ts";
import type { ApiSettings } from "../../accounts/operations/apis.ts";
import { TELEVISION } from "../flows/devices.ts";
import { APP, clientAt } from "../flows/clients.ts";
import {
  type TestClient,
  basic,
  PATHS,
  send,
  type TestAnswer,
  type TestTokens,
} from "../../testing/test-client.ts";
import { ADA, CALLBACK, NEWS, SHOP, UNLIMITED, useService } from "../flows/running-service.ts";
import { athOf, makeProof, newProofKey, type ProofKey } from "../flows/proof-maker.ts";
import { expectRefusal } from "../flows/token-answers.ts";
import {
  CLIENT_ENDPOINTS,
  type ClientEndpoint,
  clientError,
  ENDPOINTS,
  type TokenEndpoint,
  type TokenKind,
  TOKENS,
  type Verdict,
  VERDICTS,
} from "./token-table.ts";

const OPAQUE = "https://articles.example/";
const JWT = "https://videos.example/";
const SCOPE = "articles:read";
const JOB = { client_id: "job", client_secret: "the secret of a machine, of 32 and more" };
const READER = { ...JOB, client_id: "reader" };
const SETTINGS: ApiSettings = {
  name: "Articles",
  service: "1",
  scopes: { [SCOPE]: "Read your articles" },
  lifetime: 300,
  introspection: [READER.client_id],
};
const KINDS = ["oauth2", "openid"] as const;
type Kind = (typeof KINDS)[number];

/** A token that has not been used yet. */
interface Issued {
  readonly token: string;
  readonly client: Client;
  /** Makes the proof with which it is sent as `DPoP` wherever it is in the header. */
  readonly proof?: (method: string, address: string) => Promise<string>;
  /** Whether it still does what it is for. Called once. */
  readonly isGood: () => Promise<boolean>;
  /** Whether what was issued with it still works. */
  readonly isFamilyGood?: () => Promise<boolean>;
}

/** Without a secret, it sends its `client_id` alone. */
interface Client {
  readonly client_id: string;
  readonly client_secret?: string;
}
/** Ada is signed in. */
let browser: Browser;
let keys: ReturnType<typeof createRemoteJWKSet>;
/** The key that tokens are bound to, and another one. */
let proofKeys: readonly [mine: ProofKey, other: ProofKey];

const running = useService({ config: { rateLimits: UNLIMITED, features: { dpop: true } } });

beforeAll(async () => {
  const { accounts, clients, directory } = running.service;
  await clients.register({ ...READER, kind: "machine", name: "Articles", service: "1" });
  await clients.register(TELEVISION);
  await clients.register(APP);
  await directory.apis.put(OPAQUE, SETTINGS);
  await directory.apis.put(JWT, { ...SETTINGS, tokens: "jwt" });
  const apis = { [OPAQUE]: [SCOPE], [JWT]: [SCOPE] };
  await clients.register({ ...JOB, kind: "machine", name: "Job", service: "2", apis });
  await clients.update(NEWS.client_id, { apis });
  await accounts.assign(running.ada.sub, "1");
  browser = new Browser({ stopAt: [CALLBACK] });
  proofKeys = await Promise.all([newProofKey(), newProofKey()]);
  keys = createRemoteJWKSet(new URL(`${running.openid}/oauth2/jwks`));
});

const news = (kind: Kind): TestClient => clientAt(running, kind, NEWS);
const issue = (kind: Kind, parameters: Record<string, string>): Promise<TestTokens> =>
  news(kind).signIn({ ...ADA, browser }, parameters);

const isActive = async (kind: Kind, token: string): Promise<boolean> =>
  (await post(kind, "/oauth2/introspect", READER, token)).body["active"] === true;
const isSigned = (token: string, audience: string): Promise<boolean> =>
  jwtVerify(token, keys, { issuer: running.openid, audience }).then(
    () => true,
    () => false,
  );
const isOpening = async (kind: Kind, token: string): Promise<boolean> =>
  (await news(kind).userinfo(token)).status === 200;

const proofFor =
  (key: ProofKey, token: string): NonNullable<Issued["proof"]> =>
  (htm, htu) =>
    makeProof(key, { htm, htu, ath: athOf(token) });

/** A token that is bound to the first key. */
async function boundToken(kind: Kind, parameters: Record<string, string>): Promise<string> {
  const [mine] = proofKeys;
  const code = await news(kind).code({ ...ADA, browser }, parameters);
  const form = { grant_type: "authorization_code", code, redirect_uri: CALLBACK };
  const dpop = await makeProof(mine, { htm: "POST", htu: `${running[kind]}/oauth2/token` });
  const { body } = await news(kind).token(form, { authorization: basic(NEWS), dpop });
  expect(body["token_type"]).toBe("DPoP");
  return String(body["access_token"]);
}

async function bound(kind: Kind): Promise<Issued> {
  const [mine] = proofKeys;
  const token = await boundToken(kind, { scope: "openid" });
  const isGood = async (): Promise<boolean> => {
    const issued = { token, proof: proofFor(mine, token) };
    return (await get(kind, "/resources/userinfo", NEWS, issued)).status === 200;
  };
  return { token, client: NEWS, isGood };
}

async function forMachine(kind: Kind, resource: string): Promise<string> {
  const form = { grant_type: "client_credentials", resource };
  const { status, body } = await news(kind).token(form, { authorization: basic(JOB) });
  expect(status).toBe(200);
  return String(body["access_token"]);
}

const issuers: Readonly<Record<TokenKind, (kind: Kind) => Promise<Issued>>> = {
  async user(kind) {
    const { access_token: token } = await issue(kind, { scope: "openid" });
    return { token, client: NEWS, isGood: () => isOpening(kind, token) };
  },
  bound,
  async boundElsewhere(kind) {
    const issued = await bound(kind);
    return { ...issued, proof: proofFor(proofKeys[1], issued.token) };
  },
  async apiOpaque(kind) {
    const { access_token: token } = await issue(kind, { scope: SCOPE, resource: OPAQUE });
    return { token, client: NEWS, isGood: () => isActive(kind, token) };
  },
  async apiJwt(kind) {
    const { access_token: token } = await issue(kind, { scope: SCOPE, resource: JWT });
    return { token, client: NEWS, isGood: () => isSigned(token, JWT) };
  },
  async boundOpaque(kind) {
    const token = await boundToken(kind, { scope: SCOPE, resource: OPAQUE });
    return { token, client: NEWS, proof: proofFor(proofKeys[0], token), isGood: () => isActive(kind, token) };
  },
  async boundJwt(kind) {
    const token = await boundToken(kind, { scope: SCOPE, resource: JWT });
    return { token, client: NEWS, proof: proofFor(proofKeys[0], token), isGood: () => isSigned(token, JWT) };
  },
  async machineOpaque(kind) {
    const token = await forMachine(kind, OPAQUE);
    return { token, client: JOB, isGood: () => isActive(kind, token) };
  },
  async machineJwt(kind) {
    const token = await forMachine(kind, JWT);
    return { token, client: JOB, isGood: () => isSigned(token, JWT) };
  },
  async refresh(kind) {
    const { access_token, refresh_token: token } = await issue(kind, {});
    return {
      token,
      client: NEWS,
      isGood: async () => (await news(kind).refresh(token)).status === 200,
      isFamilyGood: () => isOpening(kind, access_token),
    };
  },
  /** Only `openid` issues ID tokens, but anybody can bring one to `oauth2`. */
  async id() {
    const { id_token: token = "" } = await issue("openid", { scope: "openid" });
    return { token, client: NEWS, isGood: () => isSigned(token, NEWS.client_id) };
  },
  async device(kind) {
    const television = clientAt(running, kind, TELEVISION);
    const { device_code: token } = await television.deviceCodes();
    const isGood = async (): Promise<boolean> =>
      (await television.poll({ device_code: token })).body["error"] === "authorization_pending";
    return { token, client: TELEVISION, isGood };
  },
};

/** The headers of a request with the token. */
async function headersOf(
  { token, proof }: Pick<Issued, "token" | "proof">,
  method: string,
  address: string,
): Promise<Record<string, string>> {
  return proof === undefined
    ? { authorization: `Bearer ${token}` }
    : { authorization: `DPoP ${token}`, dpop: await proof(method, address) };
}

async function get(
  kind: Kind,
  path: string,
  { client_id }: Client,
  issued: Pick<Issued, "token" | "proof">,
  method = "GET",
): Promise<TestAnswer> {
  const address = `${running[kind]}${path}`;
  const query = new URLSearchParams({ client_id });
  return send(`${address}?${query}`, { method, headers: await headersOf(issued, method, address) });
}

/** A token in the form, with the client's own way of authentication. */
function post(kind: Kind, path: string, client: Client, token: string): Promise<TestAnswer> {
  const { client_id, client_secret } = client;
  const isPublic = client_secret === undefined;
  return send(`${running[kind]}${path}`, {
    method: "POST",
    headers: isPublic ? {} : { authorization: basic({ client_id, client_secret }) },
    body: new URLSearchParams({ token, ...(isPublic && { client_id }) }),
  });
}

type Attempt = (kind: Kind, issued: Issued) => Promise<TestAnswer>;

/** All addresses and methods of the documented endpoints. */
const documentedPaths = (kind: Kind): readonly string[] => [
  ...new Set([...Object.values(PATHS[kind]), ...Object.values(PATHS.oauth2)]),
];
const reads = (kind: Kind, client?: Client): Attempt[] =>
  documentedPaths(kind).map(
    (path): Attempt =>
      (at, issued) =>
        get(at, path, client ?? issued.client, issued),
  );
const revocations = (client?: Client): Attempt[] =>
  ["GET", "POST"].map(
    (method): Attempt =>
      (at, issued) =>
        get(at, "/oauth2/revoke", client ?? issued.client, issued, method),
  );
/** The three ways of RFC 6750 that the standard endpoint knows. */
const STANDARD = [{ method: "GET" }, { method: "POST" }, { method: "POST", isForm: true }].map(
  ({ method, isForm }): Attempt =>
    async (at, issued) => {
      const address = `${running[at]}/oauth2/userinfo`;
      const { authorization = "", ...others } = await headersOf(issued, method, address);
      return send(address, {
        method,
        ...(isForm
          ? { headers: others, body: new URLSearchParams({ access_token: issued.token }) }
          : { headers: { authorization, ...others } }),
      });
    },
);
const inForm =
  (path: string, client?: Client): Attempt =>
  (at, issued) =>
    post(at, path, client ?? issued.client, issued.token);

/** The requests that each endpoint stands for. */
const attempts: Readonly<Record<TokenEndpoint, (kind: Kind) => readonly Attempt[]>> = {
  documented: (kind) => reads(kind),
  standard: () => STANDARD,
  revoke: () => revocations(),
  foreign: (kind) => [SHOP, READER].flatMap((client) => reads(kind, client).concat(revocations(client))),
  revokeOwn: () => [inForm("/oauth2/revoke")],
  revokeOther: () => [inForm("/oauth2/revoke", SHOP), inForm("/oauth2/revoke", READER)],
  introspectOwn: () => [inForm("/oauth2/introspect")],
  introspectApi: () => [inForm("/oauth2/introspect", READER)],
  introspectOther: () => [inForm("/oauth2/introspect", SHOP)],
};

function expectVerdict(answer: TestAnswer, verdict: Verdict): void {
  const [status = "", error] = verdict.split(" ");
  if (status.startsWith("4")) return expectRefusal(answer, error ?? "", Number(status));
  const { body } = answer;
  expect([answer.status, body["error"]]).toEqual([200, undefined]);
  if (verdict === "opens") expect(body["sub"]).toBe(running.ada.sub);
  else if (verdict === "active") expect(body["active"]).toBe(true);
  else expect(body).toEqual(verdict === "inactive" ? { active: false } : {});
}

const rows = KINDS.flatMap((kind) =>
  (Object.keys(TOKENS) as TokenKind[]).map((token): [TokenKind, Kind] => [token, kind]),
);
describe.each(rows)("the token %s on %s", (name, kind) => {
  it.each(Object.keys(ENDPOINTS) as TokenEndpoint[])("has one answer at %s", async (endpoint) => {
    const verdict = VERDICTS[name][endpoint];
    for (const attempt of attempts[endpoint](kind)) {
      const issued = await issuers[name](kind);
      const answer = await attempt(kind, issued);
      // Only `openid` has the standard endpoint.
      if (endpoint === "standard" && kind === "oauth2") expect(answer.status).toBe(404);
      else expectVerdict(answer, verdict);
      const isFamilyGood = verdict !== "ends its family";
      expect((await issued.isFamilyGood?.()) ?? isFamilyGood).toBe(isFamilyGood);
      expect(await issued.isGood()).toBe(verdict !== "ends" && isFamilyGood);
    }
  });
});

it("a person's token that is for no API lacks only the scope at the standard userinfo", async () => {
  const { access_token: token } = await issue("openid", { scope: "email" });
  for (const attempt of STANDARD) {
    const answer = await attempt("openid", { token, client: NEWS, isGood: () => isOpening("openid", token) });
    expectRefusal(answer, "insufficient_scope", 403);
  }
  expect(await isOpening("openid", token)).toBe(true);
});

it("a proof saves no bound token that comes as Bearer [D-DPOP-31]", async () => {
  const { token, isGood } = await bound("openid");
  const proof = proofFor(proofKeys[0], token);
  for (const [method, path] of [
    ["GET", "/oauth2/userinfo"],
    ["POST", "/oauth2/userinfo"],
    ["GET", "/resources/userinfo"],
    ["GET", "/oauth2/revoke"],
  ] as const) {
    const address = `${running.openid}${path}`;
    const headers = { authorization: `Bearer ${token}`, dpop: await proof(method, address) };
    const query = path === "/oauth2/userinfo" ? "" : `?client_id=${NEWS.client_id}`;
    const { status, body } = await send(`${address}${query}`, { method, headers });
    expect([path, status, body["error"]]).toEqual([path, 401, "invalid_token"]);
  }
  expect(await isGood()).toBe(true);
});

const ROWS = [
  ["web", NEWS],
  ["public", APP],
  ["machine", JOB],
  ["device", TELEVISION],
] as const;
describe.each(ROWS)("a client of the kind %s", (name, { client_id, ...client }) => {
  it.each(Object.keys(CLIENT_ENDPOINTS) as ClientEndpoint[])("at %s [D-FAPI-12]", async (endpoint) => {
    const { path, form } = CLIENT_ENDPOINTS[endpoint];
    const redirect_uri = name === "public" ? String(APP.redirect_uris[0]) : CALLBACK;
    const credentials = "client_secret" in client ? { client_secret: client.client_secret } : {};
    // Requests are pushed to `openid` only.
    for (const kind of endpoint === "par" ? (["openid"] as const) : KINDS) {
      const isPage = endpoint === "authorization";
      const sent = { client_id, ...(isPage ? {} : credentials), redirect_uri, ...form };
      const body = new URLSearchParams(sent);
      const answer = isPage
        ? await send(`${running[kind]}${path}?${body}`, { redirect: "manual" })
        : await send(`${running[kind]}${path}`, { method: "POST", body });
      expect([kind, answer.body["error"]]).toEqual([kind, clientError(name, endpoint)]);
    }
  });
});
