/** Clients that nobody has registered, as an attacker and as the programs that people use would be one. */
import { randomUUID } from "node:crypto";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { exportJWK, generateKeyPair, type JWK, SignJWT, UnsecuredJWT } from "jose";
import { Browser } from "../../testing/browser/browser.ts";
import {
  newProof,
  type RequestParameters,
  type TestAnswer,
  TestClient,
  type TestTokens,
} from "../../testing/test-client.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { atVeryEnd } from "../closing.ts";
import { selfSigned } from "../notifier/peers.ts";
import { rounds } from "../rounds.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService, startService, UNLIMITED } from "../flows/running-service.ts";
import { type Answer, documentOf, json, LIES } from "./lying-documents.ts";
import { PUBLISHED } from "./published-documents.ts";

const NOTES = "https://notes.example.com/mcp";
const LOOPBACK = "http://127.0.0.1:4000/callback";
const clock = new TestClock();

/** What the server of the clients answers, by path. Every other path is 404. */
const pages = new Map<string, Answer>();
/** The paths that were asked for. */
let asked: string[] = [];
let origin: string;
let running: RunningService;
/** Reaches the same server under a name. */
let named: RunningService;

/** A good document, but for the changes. */
const documentAt = (path: string, change: Readonly<Record<string, unknown>> = {}): object =>
  documentOf(origin + path, change);

beforeAll(async () => {
  const { key, cert } = selfSigned("localhost");
  const trusted = getCACertificates();
  setDefaultCACertificates([...trusted, cert]);
  const server = createServer({ key, cert }, (request, response) => {
    const path = request.url ?? "";
    asked.push(path);
    const answer = pages.get(path);
    if (answer === undefined) response.writeHead(404).end();
    else answer(response);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  origin = `https://localhost:${(server.address() as AddressInfo).port}`;
  atVeryEnd(() => {
    setDefaultCACertificates(trusted);
    server.close().closeAllConnections();
  });
  // Whole addresses are not counted.
  const whole = ["/agent.json", ...LIES.map((_, index) => `/lie-${index}`)];
  running = await startService({
    config: {
      clock,
      proxy: true,
      rateLimits: UNLIMITED,
      clients: {
        metadataDocuments: { allow: [origin, ...whole.map((path) => origin + path)], schemes: ["cursor"] },
      },
    },
  });
  await openApi();
  named = await startService({
    config: {
      clients: { metadataDocuments: { allow: [AGENTS], schemes: ["cursor"] } },
      fetch: (url, init) => fetch(new Request(url).url.replace(AGENTS, origin), init),
    },
  });
  await openApi(["notes:read"], named);
});
beforeEach(() => {
  asked = [];
});

const READER = { client_id: "reader", client_secret: "the secret of a machine, of 32 and more" };

async function openApi(
  unregistered: readonly string[] = ["notes:read"],
  { service } = running,
  assign = true,
): Promise<void> {
  const { clients, directory } = service;
  if ((await clients.find(READER.client_id)) === undefined)
    await clients.register({ ...READER, kind: "machine", name: "Notes", service: NEWS.service });
  await directory.apis.put(NOTES, {
    name: "Notes",
    service: NEWS.service,
    assign,
    scopes: { "notes:read": "Read your notes", "notes:write": "Add notes" },
    introspection: ["reader"],
    unregistered: [...unregistered],
  });
}

/** The client of a document at this path. */
const clientOf = (path: string, redirect_uri = LOOPBACK): TestClient =>
  new TestClient({
    client_id: origin + path,
    redirect_uris: [redirect_uri],
    urls: running,
    deployment: "openid",
  });

const request = (more: RequestParameters = {}): RequestParameters => ({
  scope: "notes:read",
  resource: NOTES,
  state: "s",
  ...newProof().request,
  ...more,
});

/** A browser that asks for a page of the authorization endpoint. */
const visit = (
  client: TestClient,
  more: RequestParameters = {},
  browser = client.browser(),
): Promise<Browser> => browser.get(client.authorizeUrl(request(more)));

/** What the person sees, or where the answer went. */
function outcome(browser: Browser): string {
  if (browser.location !== undefined) return browser.location.searchParams.get("error") ?? "code";
  if (browser.hasForm("password")) return "login";
  return browser.hasForm("decision") ? "consent" : String(browser.status);
}

/** Ada allows it. */
async function tokensOf(client: TestClient, more: RequestParameters = {}): Promise<TestTokens> {
  return client.signIn(ADA, { scope: "notes:read", resource: NOTES, ...more });
}

async function introspected(token: string, at = running): Promise<Readonly<Record<string, unknown>>> {
  const reader = new TestClient({ ...READER, urls: at, deployment: "openid" });
  return (await reader.post("/oauth2/introspect", { token })).body;
}

const verdict = ({ status, body }: TestAnswer): readonly unknown[] => [status, body["error"]];

/** Has a name, as the origins of these clients do. */
const AGENTS = "https://agents.example";

const own = (text: string): string => text.replaceAll("ORIGIN", AGENTS);

describe.each(Object.entries(PUBLISHED))("the document of %s", (_who, { path, to, document }) => {
  it("makes a client that people let in, whose tokens are refreshed [D-DOC-72]", async () => {
    const { privateKey, publicKey } = await generateKeyPair("RS256");
    const jwk: JWK = { ...(await exportJWK(publicKey)), kid: "1", alg: "RS256", use: "sig" };
    const published = { client_id: AGENTS + path, ...(JSON.parse(own(JSON.stringify(document))) as object) };
    pages.set(path, json(published));
    pages.set("/oauth/jwks.json", json({ keys: [jwk] }));
    const hasKey = document["token_endpoint_auth_method"] === "private_key_jwt";
    const credentials = async (): Promise<RequestParameters> => {
      if (!hasKey) return {};
      const assertion = new SignJWT({ jti: randomUUID() })
        .setProtectedHeader({ alg: "RS256", kid: "1" })
        .setIssuer(AGENTS + path)
        .setSubject(AGENTS + path)
        .setAudience(named.openid)
        .setIssuedAt()
        .setExpirationTime("1m");
      const client_assertion_type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
      return { client_assertion_type, client_assertion: await assertion.sign(privateKey) };
    };
    for (const address of to.map(own)) {
      const client = new TestClient({
        client_id: AGENTS + path,
        redirect_uris: [address],
        urls: named,
        deployment: "openid",
      });
      const { request: challenge, code_verifier } = newProof();
      const result = await client.authorize(ADA, request(challenge));
      expect([address, result.consentShown, result.location.href.startsWith(address)]).toEqual([
        address,
        true,
        true,
      ]);
      const first = await client.exchange(result.code ?? "", { code_verifier, ...(await credentials()) });
      expect(verdict(first)).toEqual([200, undefined]);
      const next = await client.refresh(first.body["refresh_token"], await credentials());
      expect(await introspected(String(next.body["access_token"]), named)).toMatchObject({
        active: true,
        client_id: AGENTS + path,
        aud: NOTES,
        scope: "notes:read",
        sub: named.ada.sub,
      });
      if (hasKey)
        expect(verdict(await client.refresh(next.body["refresh_token"]))).toEqual([401, "invalid_client"]);
    }
  });
});

it("a document that lies makes no client, and its page has no way on [D-DOC-73]", async () => {
  pages.set("/agent.json", json(documentAt("/agent.json")));
  LIES.forEach(([, answer], index) => pages.set(`/lie-${index}`, answer(`${origin}/lie-${index}`)));
  const seen = await Promise.all(
    LIES.map(async ([what], index) => {
      const client = clientOf(`/lie-${index}`);
      return [what, outcome(await visit(client)), verdict(await client.exchange("code"))];
    }),
  );
  expect(seen).toEqual(LIES.map(([what]) => [what, "400", [400, "invalid_client"]]));
  expect(asked).not.toContain("/agent.json");
});

it("asks an address that had no document again after a minute [D-DOC-91]", async () => {
  pages.delete("/late");
  const seen: string[] = [];
  for (const wait of [0, 59, 2]) {
    clock.advance(wait);
    seen.push(outcome(await visit(clientOf("/late"))));
    pages.set("/late", json(documentAt("/late")));
  }
  expect([seen, asked]).toEqual([
    ["400", "400", "login"],
    ["/late", "/late"],
  ]);
});

describe("nothing is fetched", () => {
  it.each<[string, string]>([
    ["another host", "https://evil.example/callback"],
    ["a name that begins like the loopback", "http://localhost.evil.example/callback"],
    ["an address of the loopback in a name", "http://127.0.0.1.evil.example/callback"],
    ["the loopback as a user", "http://127.0.0.1@evil.example/callback"],
    ["a scheme that a browser runs", "javascript:alert(1)"],
    ["a scheme that nobody allows", "zed://callback"],
    ["plain http", "http://localhost.localdomain/callback"],
    ["another port of its host", "https://localhost:1/callback"],
    ["a name that looks like its host", "https://l\u043ecalhost/callback"],
    ["that name in ASCII", "https://xn--lcalhost-5fg/callback"],
  ])("for an answer to %s, and nothing is sent there [D-DOC-74]", async (_what, redirect_uri) => {
    const browser = await visit(clientOf("/new.json", redirect_uri));
    expect([browser.location, browser.status]).toEqual([undefined, 400]);
    expect(asked).toEqual([]);
  });

  it.each([
    "https://127.0.0.1/agent.json",
    "https://[::1]/agent.json",
    "https://[::ffff:127.0.0.1]/agent.json",
    "https://2130706433/agent.json",
    "https://0x7f.1/agent.json",
    "https://169.254.169.254/latest",
    "https://localhost/agent.json",
    "https://localhost:1/agent.json",
    "https://LOCALHOST:PORT/agent.json",
    "https://localhost:PORT/a/../agent.json",
    "https://localhost:PORT/agent.json?x=1",
    "https://localhost:PORT/agent.json#x",
    "https://user@localhost:PORT/agent.json",
    "https://localhost:PORT/",
    "https://localhost:PORT",
    "http://localhost:PORT/agent.json",
    "https://l\u043ecalhost:PORT/agent.json",
    "https://xn--lcalhost-5fg:PORT/agent.json",
    "https://\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54:PORT/agent.json",
  ])("for the client %s [D-DOC-74]", async (written) => {
    const client_id = written.replace("PORT", new URL(origin).port);
    const client = new TestClient({
      client_id,
      redirect_uris: [LOOPBACK],
      urls: running,
      deployment: "openid",
    });
    expect(outcome(await visit(client))).toBe("400");
    expect(asked).toEqual([]);
  });

  it("where a request only names a client: logout, tokens, introspection, revocation [D-DOC-74]", async () => {
    const client = clientOf("/unknown.json");
    const id_token_hint = new UnsecuredJWT({ aud: client.client_id, sub: running.ada.sub })
      .setIssuer(running.openid)
      .encode();
    const { client_id } = client;
    const back = { post_logout_redirect_uri: `${origin}/bye` };
    for (const parts of [{ id_token_hint }, { client_id }, { id_token_hint, client_id }]) {
      const query = new URLSearchParams({ ...parts, ...back });
      const browser = await new Browser().get(`${running.openid}/oauth2/logout?${query}`);
      expect([browser.status, browser.location]).toEqual([400, undefined]);
    }
    await new Browser().get(clientAt(running, "openid", NEWS).authorizeUrl({ id_token_hint }));
    for (const path of ["/oauth2/introspect", "/oauth2/revoke", "/oauth2/device"])
      await client.post(path, { token: "x" });
    expect(verdict(await client.refresh("x"))).toEqual([400, "invalid_client"]);
    expect(verdict(await client.password(ADA))).toEqual([400, "invalid_client"]);
    expect(asked).toEqual([]);
  });
});

describe("a client that people let in", () => {
  const path = "/agent.json";
  const agent = (): TestClient => clientOf(path);
  beforeEach(async () => {
    pages.set(path, json(documentAt(path)));
    await openApi();
  });

  it("learns no name and gets no scope beyond the API's, at a refresh too [D-DOC-75]", async () => {
    const tokens = await tokensOf(agent(), {
      scope: "openid profile email offline_access notes:read notes:write",
    });
    expect([tokens.scope, tokens.id_token]).toEqual(["notes:read", undefined]);
    expect((await agent().userinfo(tokens.access_token)).status).toBe(401);
    const wider = await agent().refresh(tokens.refresh_token, { scope: "notes:read notes:write openid" });
    expect(wider.body["scope"] ?? "").not.toMatch(/write|openid/);
    for (const resource of [undefined, "https://elsewhere.example", [NOTES, NOTES]])
      expect([resource, outcome(await visit(agent(), { resource }))]).toEqual([
        resource,
        expect.stringMatching(/^(?:400|invalid_target)$/),
      ]);
  });

  it("gets no code without a page: not again, and not by prompt=none [D-DOC-75]", async () => {
    const browser = agent().browser();
    expect(outcome(await visit(agent(), { prompt: "none" }, browser))).toBe("login_required");
    expect((await agent().authorize({ ...ADA, browser }, request())).consentShown).toBe(true);
    expect(outcome(await visit(agent(), {}, browser))).toBe("consent");
    expect(outcome(await visit(agent(), { prompt: "none" }, browser))).toMatch(
      /^(?:consent|interaction)_required$/,
    );
  });

  it("keeps what it has when its document changes or goes, and does not come back [D-DOC-76]", async () => {
    const { request: challenge, code_verifier } = newProof();
    const { code } = await agent().authorize(ADA, request(challenge));
    pages.set(path, json(documentAt(path, { redirect_uris: ["cursor://other"] })));
    const first = await agent().exchange(code ?? "", { code_verifier });
    expect(verdict(first)).toEqual([200, undefined]);
    pages.delete(path);
    clock.advance(600);
    expect(verdict(await agent().refresh(first.body["refresh_token"]))).toEqual([200, undefined]);
    expect(outcome(await visit(agent()))).toBe("400");
    clock.advance(61);
  });

  it("is not authenticated by a key that its owner has removed [D-DOC-76]", async () => {
    const keys = await Promise.all([1, 2].map(() => generateKeyPair("ES256")));
    const jwks = async (which: number): Promise<object> => ({
      keys: [{ ...(await exportJWK(keys[which]!.publicKey)), kid: String(which) }],
    });
    const withKey = async (which: number): Promise<Answer> =>
      json(documentAt(path, { token_endpoint_auth_method: "private_key_jwt", jwks: await jwks(which) }));
    const assertion = async (which: number): Promise<RequestParameters> => ({
      client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      client_assertion: await new SignJWT({
        jti: randomUUID(),
        iss: origin + path,
        sub: origin + path,
        aud: running.openid,
      })
        .setProtectedHeader({ alg: "ES256", kid: String(which) })
        .setIssuedAt()
        .setExpirationTime("1m")
        .sign(keys[which]!.privateKey),
    });
    clock.advance(86_401);
    pages.set(path, await withKey(0));
    const { request: challenge, code_verifier } = newProof();
    const { code } = await agent().authorize(ADA, request(challenge));
    const first = await agent().exchange(code ?? "", { code_verifier, ...(await assertion(0)) });
    expect(verdict(first)).toEqual([200, undefined]);
    pages.set(path, await withKey(1));
    // Unknown keys make it ask once in five minutes.
    asked = [];
    for (let tries = 0; tries < 2; tries += 1)
      expect(verdict(await agent().refresh(first.body["refresh_token"], await assertion(1)))).toEqual([
        401,
        "invalid_client",
      ]);
    expect(asked).toEqual([]);
    clock.advance(301);
    const next = await agent().refresh(first.body["refresh_token"], await assertion(1));
    expect(verdict(next)).toEqual([200, undefined]);
    expect(verdict(await agent().refresh(next.body["refresh_token"], await assertion(0)))).toEqual([
      401,
      "invalid_client",
    ]);
    clock.advance(86_401);
  });

  it("ends with its API, and when the person disconnects it [D-DOC-76]", async () => {
    const left = await tokensOf(agent());
    await openApi([]);
    expect((await agent().refresh(left.refresh_token)).status).toBe(400);
    expect(outcome(await visit(agent()))).toMatch(/^(?:400|invalid_target)$/);
    await openApi();
    const ended = await tokensOf(agent());
    await running.service.accounts.revokeTokens(running.ada.sub);
    expect(verdict(await agent().refresh(ended.refresh_token))).toEqual([400, "invalid_grant"]);
    expect(await introspected(ended.access_token)).toEqual({ active: false });
  });

  it("meets the second factor that the API needs, at a refresh too [D-API-16]", async () => {
    const weak = await tokensOf(agent());
    await running.service.directory.apis.update(NOTES, { second_factor: "required" });
    const refused = { error: "invalid_grant", error_description: "second_factor" };
    expect((await agent().refresh(weak.refresh_token)).body).toEqual(refused);
    const browser = agent().browser();
    await visit(agent(), {}, browser);
    await signIn(browser);
    // This service offers none.
    expect(outcome(browser)).toBe("unmet_authentication_requirements");
    await running.service.directory.apis.update(NOTES, { second_factor: "optional" });
    expect((await agent().refresh(weak.refresh_token)).status).toBe(200);
  });

  it("gets nothing of an API for which the person is not assigned [D-DOC-2]", async () => {
    await openApi(["notes:read"], running, false);
    await running.service.accounts.unassign(running.ada.sub, NEWS.service);
    const browser = agent().browser();
    await visit(agent(), {}, browser);
    await signIn(browser);
    expect(outcome(browser)).toBe("access_denied");
  });

  it.each<[string, string, string | undefined]>([
    ["marks of direction", "News\u202e\u2066moc.live\u2069", "Newsmoc.live"],
    ["controls and line breaks", "News\u0000\n\n\u0007approved", "News approved"],
    ["10,000 characters", "N".repeat(10_000), "N".repeat(60)],
    ["markup", "<b>News</b>", "&lt;b&gt;News&lt;/b&gt;"],
  ])("is named without %s, and by its host [D-DOC-77]", async (_what, client_name, shown) => {
    clock.advance(86_401);
    pages.set(path, json(documentAt(path, { client_name })));
    const browser = agent().browser();
    await visit(agent(), {}, browser);
    await signIn(browser);
    expect(browser.html).toContain(new URL(origin).host);
    expect(browser.html).not.toMatch(/[\u202a-\u202e\u2066-\u2069]|<b>News|N{61}/u);
    expect(browser.html).toContain(shown);
  });
});

it("unknown addresses are fetched a few times, and known clients go on [D-DOC-78]", async () => {
  pages.set("/agent.json", json(documentAt("/agent.json")));
  const many = rounds(70, 1_000);
  const ask = async (index: number, from: string): Promise<string> => {
    const path = `/unknown-${from}-${index}`;
    pages.set(path, json(documentAt(path)));
    const client = clientOf(path);
    const browser = client.browser({
      headers: { "x-forwarded-for": from === "one" ? "203.0.113.1" : `198.51.${index >> 8}.${index & 255}` },
    });
    return outcome(await visit(client, {}, browser));
  };
  for (const [from, most] of [
    ["one", 20],
    ["many", 60],
  ] as const) {
    asked = [];
    const seen = new Set<string>();
    for (let index = 0; index < many; index += 1) seen.add(await ask(index, from));
    expect([from, seen]).toEqual([from, new Set(["login", "503"])]);
    expect(asked.length).toBeLessThanOrEqual(most);
  }
  const browser = clientOf("/agent.json").browser();
  expect((await clientOf("/agent.json").authorize({ ...ADA, browser }, request())).code).not.toBeNull();
  // Whoever is signed in has a limit of their own.
  asked = [];
  const outcomes: string[] = [];
  for (let index = 0; index < 22; index += 1) {
    const path = `/for-ada-${index}`;
    pages.set(path, json(documentAt(path)));
    outcomes.push(outcome(await visit(clientOf(path), {}, browser)));
  }
  expect(outcomes).toEqual([...Array<string>(20).fill("consent"), "503", "503"]);
  expect(asked).toHaveLength(20);
});

afterAll(() => pages.clear());
