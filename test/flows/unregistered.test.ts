/** Clients that nobody has registered, from their first request to the end of their tokens (Client ID Metadata Documents). */
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { TestClock } from "../../testing/test-clock.ts";
import { type RequestParameters, TestClient } from "../../testing/test-client.ts";
import { documentId, DOCUMENT } from "../../records/directory/document-kinds.ts";
import { issue } from "./clients.ts";
import { ADA, useService } from "./running-service.ts";

const CLIENT = "https://tool.example/client.json";
const WHOLE = "https://other.example/oauth/client.json";
const API = "https://articles.example";
const CLOSED = "https://closed.example";
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

const clock = new TestClock();
const running = useService({
  config: {
    clock,
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

beforeAll(async () => {
  const { apis } = running.service.directory;
  const scopes = { "articles:read": "Read", "articles:write": "Write" };
  await apis.put(API, { name: "Articles", service: "1", scopes, unregistered: ["articles:read"] });
  await apis.put(CLOSED, { name: "Closed", service: "1", scopes });
  await running.service.accounts.assign(running.ada.sub, "1");
});
beforeEach(() => {
  published.clear();
  published.set(CLIENT, document(CLIENT));
  asked.length = 0;
});

describe("a client that nobody has registered", () => {
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

const PKCE = { code_challenge: "x".repeat(43), code_challenge_method: "S256" };

async function silent(client: TestClient, browser: ReturnType<TestClient["browser"]>): Promise<unknown> {
  await browser.get(client.authorizeUrl({ ...ASKS, ...PKCE, prompt: "none" }));
  return browser.location?.searchParams.get("error");
}
