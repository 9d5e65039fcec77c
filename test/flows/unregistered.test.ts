/** Clients that nobody has registered, from their first request to the end of their tokens (Client ID Metadata Documents). */
import { generateKeyPairSync } from "node:crypto";
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { type RequestParameters, send, TestClient } from "../../testing/test-client.ts";
import { DEVICE_GRANT } from "../../accounts/clients/client-kinds.ts";
import { documentId, DOCUMENT } from "../../records/directory/document-kinds.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { newProof } from "../../testing/test-client.ts";
import { clientAt, issue, signIn } from "./clients.ts";
import { ADA, useService } from "./running-service.ts";
import { CLIENT_ENDPOINTS, type ClientEndpoint, clientError } from "../hostile/token-table.ts";

const CLIENT = "https://tool.example/client.json";
const WHOLE = "https://other.example/oauth/client.json";
const API = "https://articles.example";
const CLOSED = "https://closed.example";
const DAY = 86_400;
const LOOPBACK = "http://127.0.0.1/callback";

type Body = Record<string, unknown> | string | number;
/** What the hosts of the documents answer: a document, a text, or a status. */
const published = new Map<string, Body>();
/** The addresses that were asked. */
const asked: string[] = [];

function answer(url: string): Response {
  asked.push(url);
  const body = published.get(url) ?? 404;
  if (typeof body === "number") return new Response(null, { status: body });
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return new Response(text, {
    headers: { "content-type": "application/json", "cache-control": "max-age=600" },
  });
}

/** What the service has asked of its storage. */
let calls = 0;

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

const clock = new TestClock();
const running = useService({
  through: counting,
  config: {
    clock,
    lifetimes: { refreshToken: 90 * DAY },
    refreshTokens: { maxAge: 365 * DAY },
    fetch: async (url) => answer(url as string),
    clients: { metadataDocuments: { allow: ["https://tool.example", WHOLE], schemes: ["tool"] } },
  },
});

const document = (client_id: string, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  client_id,
  client_name: "A Tool",
  redirect_uris: [LOOPBACK, "http://localhost:3000/callback", "https://tool.example/callback", "tool://back"],
  ...more,
});

const party = (client_id = CLIENT, redirect_uri = "http://127.0.0.1:4567/callback"): TestClient =>
  new TestClient({
    client_id,
    client_secret: undefined,
    redirect_uris: [redirect_uri],
    urls: running,
    deployment: "openid",
  } as never);
const ASKS = { resource: API, scope: "articles:read" };

/** A request that ends before a page. @returns the error at the client's address, or the status and the code of the page. */
async function refusal(client: TestClient, parameters: RequestParameters): Promise<unknown> {
  const url = client.authorizeUrl({
    ...ASKS,
    code_challenge: "x".repeat(43),
    code_challenge_method: "S256",
    ...parameters,
  });
  const response = await fetch(url, { redirect: "manual" });
  const at = response.headers.get("location");
  if (at !== null && !at.includes("/interaction/")) return new URL(at).searchParams.get("error");
  if (at !== null) return "page";
  const { error } = (await response.json()) as { error: string };
  return `${response.status} ${error}`;
}

const copy = async (url: string) =>
  (await running.storage.records.find(DOCUMENT.ref(documentId(url))))?.value;

const READER = { client_id: "reader", client_secret: "the secret of a machine, of 32 and more" };

beforeAll(async () => {
  const { apis } = running.service.directory;
  await running.service.clients.register({ ...READER, kind: "machine", name: "Articles", service: "1" });
  const scopes = { "articles:read": "Read", "articles:write": "Write" };
  await apis.put(API, {
    name: "Articles",
    service: "1",
    scopes,
    introspection: [READER.client_id],
    unregistered: ["articles:read"],
  });
  await apis.put(CLOSED, { name: "Closed", service: "1", scopes });
  await running.service.accounts.assign(running.ada.sub, "1");
});
beforeEach(() => {
  published.clear();
  published.set(CLIENT, document(CLIENT));
  asked.length = 0;
  // The copy of another test counts no longer, whichever was first.
  clock.advance(601);
});

describe("a client that nobody has registered", () => {
  it.each(Object.keys(CLIENT_ENDPOINTS) as ClientEndpoint[])(
    "has at %s what a public client has [D-DOC-1, D-FAPI-12]",
    async (endpoint) => {
      const client = party();
      const { path, form } = CLIENT_ENDPOINTS[endpoint];
      const sent = { client_id: CLIENT, redirect_uri: LOOPBACK, ...ASKS };
      const pushed = await client.post("/oauth2/par", { ...sent, ...CLIENT_ENDPOINTS.par.form }, {});
      expect(pushed.status).toBe(201);
      const { body } =
        endpoint === "authorization"
          ? await send(client.authorizeUrl({ ...sent, ...form }), { redirect: "manual" })
          : await client.post(
              path,
              endpoint === "par" ? { ...sent, ...form } : { client_id: CLIENT, ...form },
              {},
            );
      expect(body["error"]).toBe(clientError("unregistered", endpoint));
    },
  );

  it.each<[string, RequestParameters]>([
    ["password", { username: ADA.username, password: ADA.password }],
    ["client_credentials", {}],
    [DEVICE_GRANT, { device_code: "x" }],
  ])("has no grant %s [D-DOC-1]", async (grant_type, parameters) => {
    const client = party();
    const sent = { client_id: CLIENT, redirect_uri: LOOPBACK, ...ASKS, ...CLIENT_ENDPOINTS.par.form };
    await client.post("/oauth2/par", sent, {});
    const form = { client_id: CLIENT, grant_type, ...parameters };
    const { status, body } = await client.post("/oauth2/token", form, {});
    expect([status, body["error"]]).toEqual([400, "unauthorized_client"]);
  });

  it("is named by no record of the audit before somebody allows it something, only counted [D-DOC-106]", async () => {
    const url = "https://tool.example/unnamed.json";
    published.set(url, document(url));
    const client = party(url);
    const browser = client.browser();
    await browser.get(client.authorizeUrl({ ...ASKS, ...PKCE }));
    await signIn(browser);
    const records = async (): Promise<readonly AuditRecord[]> => {
      const { items } = await running.service.audit.list({ limit: 200 });
      return items.filter((each) => JSON.stringify(each).includes(documentId(url)));
    };
    // The sign-in has a hash, from which nobody tells whose it is.
    const before = await records();
    expect(before.map(({ action }) => action)).toEqual(["sign_in"]);
    expect(JSON.stringify(before)).not.toContain("tool.example");
    expect(await running.service.metrics()).toMatch(/document\w*\{[^}]*host="tool\.example"[^}]*\} [1-9]/u);
    await browser.submit(browser.form("decision"), { decision: "allow" });
    const allowed = (await records()).find(({ action }) => action === "account.consented");
    expect(allowed?.detail).toMatchObject({ host: "tool.example" });
    await running.service.accounts.revokeTokens(running.ada.sub, url);
  });

  it("is read by scripts of its own origin, when nothing but the browser keeps its tokens [D-DOC-100]", async () => {
    const ours = "https://tool.example";
    const client = party();
    const { code, proof } = await issue(client, ASKS);
    const { body } = await client.exchange(code, proof);
    const { refresh_token } = body as { refresh_token: string };
    const token = (deployment: "oauth2" | "openid"): string => `${running[deployment]}/oauth2/token`;
    const readers = async (address: string, init: RequestInit): Promise<readonly (string | null)[]> => {
      const found = [ours, "https://other.example", "https://kept.example", "http://tool.example"].map(
        async (origin) => {
          const headers = { ...(init.headers as Record<string, string>), origin };
          const { headers: sent } = await send(address, { ...init, headers });
          return sent.get("access-control-allow-origin");
        },
      );
      return (await Promise.all(found)).filter((each) => each !== null);
    };
    const asks = { method: "OPTIONS", headers: { "access-control-request-method": "POST" } };
    // A preflight names no client: every origin that is allowed may ask.
    expect(await readers(token("openid"), asks)).toEqual([ours, new URL(WHOLE).origin]);
    expect(await readers(token("oauth2"), asks)).toEqual([]);
    const form = (client_id: string): RequestInit => ({
      method: "POST",
      body: new URLSearchParams({
        client_id,
        grant_type: "refresh_token",
        refresh_token: `${refresh_token}x`,
      }),
    });
    expect(await readers(token("openid"), form(CLIENT))).toEqual([ours]);
    // With keys, it is a server.
    const keyed = "https://tool.example/server.json";
    const jwk = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
    const keys = { token_endpoint_auth_method: "private_key_jwt", jwks: { keys: [jwk] } };
    published.set(keyed, document(keyed, keys));
    expect(await refusal(party(keyed), {})).toBe("page");
    expect((await running.service.documents.find(keyed))?.authentication).toBe("private_key_jwt");
    expect(await readers(token("openid"), form(keyed))).toEqual([]);
    // A real refresh of a script.
    const refresh = new URLSearchParams({ client_id: CLIENT, grant_type: "refresh_token", refresh_token });
    const refreshed = await send(token("openid"), {
      method: "POST",
      headers: { origin: ours },
      body: refresh,
    });
    expect([refreshed.status, refreshed.headers.get("access-control-allow-origin")]).toEqual([200, ours]);
  });

  it("gets a token for one API after a page, every time, and refreshes it [D-DOC-1]", async () => {
    const client = party();
    const { code, proof } = await issue(client, ASKS);
    expect(asked).toEqual([CLIENT]);
    const { status, body } = await client.exchange(code, proof);
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { scope: "articles:read", token_type: "bearer" },
    });
    expect(body).not.toHaveProperty("id_token");
    const refreshed = await client.refresh(body["refresh_token"]);
    expect(refreshed).toMatchObject({ status: 200, body: { scope: "articles:read" } });
    expect(refreshed.body["refresh_token"]).not.toBe(body["refresh_token"]);
    // Consent is remembered for that grant alone.
    const browser = client.browser();
    await client.authorize({ ...ADA, browser }, { ...ASKS, ...PKCE });
    expect(await silent(client, browser)).toBe("consent_required");
    expect(asked).toEqual([CLIENT]);
    expect((await copy(CLIENT))?.granted_until).toBeGreaterThan(clock.now());
  });

  it.each<[string, RequestParameters, string]>([
    ["no resource", { resource: undefined }, "invalid_target"],
    ["two resources", { resource: [API, CLOSED] }, "invalid_target"],
    ["an API that does not take part", { resource: CLOSED }, "invalid_target"],
    ["an unknown API", { resource: "https://unknown.example" }, "invalid_target"],
    ["another redirect address", { redirect_uri: "https://evil.example/" }, "400 invalid_redirect_uri"],
    [
      "a host that only looks local",
      { redirect_uri: "http://localhost.evil.example/callback" },
      "400 invalid_redirect_uri",
    ],
    [
      "an address of its origin that is not in the document",
      { redirect_uri: "https://tool.example/x" },
      "400 invalid_redirect_uri",
    ],
    ["a scheme that is not allowed", { redirect_uri: "other://back" }, "400 invalid_redirect_uri"],
    ["no PKCE", { code_challenge: undefined, code_challenge_method: undefined }, "invalid_request"],
    ["scopes of the service", { scope: "openid profile offline_access" }, "page"],
    ["no scope", { scope: undefined }, "page"],
    ["another port of localhost", { redirect_uri: "http://localhost:9/callback" }, "page"],
    ["its scheme", { redirect_uri: "tool://back" }, "page"],
  ])("is known, and asks with %s [D-DOC-2]", async (_what, parameters, expected) => {
    expect(await refusal(party(), {})).toBe("page");
    expect(await refusal(party(), parameters)).toBe(expected);
  });
});

/** As read: an address may break anywhere. */
const pageText = ({ html }: Browser): string => html.replaceAll("<wbr>", "");

/** What the API learns of a token, as at a call. */
async function called(token: unknown): Promise<unknown> {
  const reader = new TestClient({ ...READER, urls: running, deployment: "openid" });
  return (await reader.post("/oauth2/introspect", { token: String(token) })).body;
}

describe("access of such a client", () => {
  const client = party();
  async function tokens(): Promise<Readonly<Record<string, unknown>>> {
    const { code, proof } = await issue(client, ASKS);
    const first = await client.exchange(code, proof);
    expect(await called(first.body["access_token"])).toMatchObject({
      active: true,
      client_id: CLIENT,
      aud: API,
    });
    const next = await client.refresh(first.body["refresh_token"]);
    expect(next.status).toBe(200);
    expect(await called(next.body["access_token"])).toMatchObject({ active: true });
    return next.body;
  }
  async function expectEnded({
    access_token,
    refresh_token,
  }: Readonly<Record<string, unknown>>): Promise<void> {
    expect(await client.refresh(refresh_token)).toMatchObject({
      status: 400,
      body: { error: expect.stringMatching(/^invalid_(?:grant|client)$/) },
    });
    expect(await called(access_token)).toEqual({ active: false });
  }

  it.each([CLIENT, new URL(CLIENT).origin])(
    "ends when an operator blocks %s, and begins anew with a page when it is unblocked [D-DOC-46]",
    async (blocked) => {
      const before = await tokens();
      const { documents } = running.service;
      await documents.block(blocked);
      await expectEnded(before);
      asked.length = 0;
      expect(await refusal(client, {})).toBe("400 invalid_client");
      // Nothing is asked of a host that is blocked, however old the copy is.
      clock.advance(601);
      expect(await refusal(client, {})).toBe("400 invalid_client");
      expect(asked).toEqual([]);
      await documents.unblock(blocked);
      expect(await refusal(client, {})).toBe("page");
      expect(asked).toEqual([CLIENT]);
      await tokens();
      await expectEnded(before);
    },
  );

  it("ends when the person ends it among the connected services, where it has its host [D-DOC-44]", async () => {
    const before = await tokens();
    const browser = new Browser();
    await signIn(await browser.get(`${running.openid}/account/services`));
    expect(pageText(browser)).toContain(new URL(CLIENT).host);
    await browser.submit(browser.form("application"));
    expect(browser.status).toBe(200);
    expect(pageText(browser)).not.toContain(new URL(CLIENT).host);
    await expectEnded(before);
  });
});

const PKCE = { code_challenge: "x".repeat(43), code_challenge_method: "S256" };

async function silent(client: TestClient, browser: ReturnType<TestClient["browser"]>): Promise<unknown> {
  await browser.get(client.authorizeUrl({ ...ASKS, ...PKCE, prompt: "none" }));
  return browser.location?.searchParams.get("error");
}

/** Calls of the storage for each step. The least of several, because work in the background may add to one of them. */
async function callsOf(
  client: TestClient,
): Promise<Readonly<Record<"authorization" | "exchange" | "refresh", number>>> {
  const rounds: (readonly number[])[] = [];
  for (let round = 0; round < 4; round += 1) {
    const counts = [calls];
    const asking = await fetch(client.authorizeUrl({ ...ASKS, ...PKCE }), { redirect: "manual" });
    expect(asking.headers.get("location")).toContain("/interaction/");
    counts.push(calls);
    const { code, proof } = await issue(client, ASKS);
    counts.push(calls);
    const { body } = await client.exchange(code, proof);
    counts.push(calls);
    expect((await client.refresh(body["refresh_token"])).status).toBe(200);
    counts.push(calls);
    rounds.push(counts.slice(1).map((count, index) => count - counts[index]!));
  }
  const least = (step: number): number => Math.min(...rounds.map((counts) => counts[step]!));
  return { authorization: least(0), exchange: least(2), refresh: least(3) };
}

it("a kept document costs no more than a registered client, at authorization, exchange and refresh [D-DOC-79]", async () => {
  await running.service.clients.register({
    kind: "public",
    client_id: "registered",
    name: "Registered",
    service: "1",
    native: true,
    redirect_uris: [LOOPBACK],
    apis: { [API]: ["articles:read"] },
  });
  const redirect_uris = [LOOPBACK];
  const registered = clientAt(running, "openid", { client_id: "registered", redirect_uris });
  const [kept, known] = [await callsOf(party()), await callsOf(registered)];
  for (const step of ["authorization", "exchange", "refresh"] as const)
    expect(kept[step]).toBeLessThanOrEqual(known[step]);
});

it("its refresh token lives for 30 days, however often it is used [D-DOC-80]", async () => {
  const client = party();
  const { code, proof } = await issue(client, ASKS);
  const first = await client.exchange(code, proof);
  clock.advance(29 * DAY);
  const next = await client.refresh(first.body["refresh_token"]);
  expect(next.status).toBe(200);
  clock.advance(DAY + 60);
  expect(await client.refresh(next.body["refresh_token"])).toMatchObject({
    status: 400,
    body: { error: "invalid_grant" },
  });
});

const push = (client: TestClient) =>
  client.post("/oauth2/par", {
    response_type: "code",
    redirect_uri: client.redirect_uri,
    ...ASKS,
    ...newProof().request,
  });

it("it may push its request; of many unknown ones there, the rest get 503 in JSON [D-DOC-81]", async () => {
  clock.advance(3_600);
  const { status, body } = await push(party());
  expect([status, body["error"]]).toEqual([201, undefined]);
  const query = new URLSearchParams({ client_id: CLIENT, request_uri: String(body["request_uri"]) });
  const opened = await fetch(`${running.openid}/oauth2/authorize?${query}`, { redirect: "manual" });
  expect(opened.headers.get("location")).toContain("/interaction/");
  asked.length = 0;
  const answers = [];
  for (let index = 0; index < 22; index += 1) {
    const client_id = `https://tool.example/${index}.json`;
    published.set(client_id, document(client_id));
    answers.push(await push(party(client_id)));
  }
  expect(asked.length).toBeLessThanOrEqual(20);
  const last = answers.at(-1);
  expect(last).toMatchObject({ status: 503, body: { error: "temporarily_unavailable" } });
  expect(Number(last?.headers.get("retry-after"))).toBeGreaterThan(0);
  expect((await push(party())).status).toBe(201);
});
