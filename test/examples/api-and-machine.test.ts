/** The API, the job, and the MCP server with its agent of the examples, as processes, at a service whose signing key the test has. */
import { generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { setTimeout as pause } from "node:timers/promises";
import type { OAuthClientProvider } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js";
import { exportJWK, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { applySeed } from "../../lib/index.ts";
import type { Seed } from "../../lib/seed.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { basic } from "../../testing/test-client.ts";
import { atVeryEnd } from "../closing.ts";
import { heading, signIn as signInWith, useBrowser } from "../browser/chromium.ts";
import { clientAt, issue, signIn } from "../flows/clients.ts";
import { selfSigned } from "../notifier/peers.ts";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { freePorts, type Running, start } from "./processes.ts";

const OPAQUE = "https://articles.example.com";
const JWT = "https://videos.example.com";
const MFA = "urn:sign-in-service:acr:mfa";
const RIGHTS = ["articles:read", "articles:write"];
const CONFIG = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../examples/api/service.json"), "utf8"),
) as { readonly seed: Seed };
const secretOf = (id: string): string =>
  CONFIG.seed.clients?.find(({ client_id }) => client_id === id)?.client_secret ?? "";
const JOB = { client_id: "job", client_secret: secretOf("job") };

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const stranger = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;

const PUBLIC_PEM = new TextEncoder().encode(publicKey.export({ type: "spki", format: "pem" }).toString());

let running: RunningService;
let documentAddress: string;
/** The addresses of the two APIs. */
const addresses: Record<string, string> = {};
const programs: Running[] = [];

/** The document of an agent that nobody has registered, at a web server of its own. */
async function serveDocument(): Promise<string> {
  const { key, cert } = selfSigned("localhost");
  const trusted = getCACertificates();
  setDefaultCACertificates([...trusted, cert]);
  let address = "";
  const server = createServer({ key, cert }, (_request, response) => {
    const redirect_uris = ["http://127.0.0.1/callback"];
    const document = { client_id: address, client_name: "Agent", redirect_uris };
    response.setHeader("content-type", "application/json").end(JSON.stringify(document));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  atVeryEnd(() => {
    setDefaultCACertificates(trusted);
    server.close().closeAllConnections();
  });
  address = `https://localhost:${(server.address() as AddressInfo).port}/agent.json`;
  return address;
}

beforeAll(async () => {
  documentAddress = await serveDocument();
  const jwk = { ...(await exportJWK(privateKey)), kid: "known", use: "sig", alg: "RS256" };
  running = await startService({
    config: {
      storage: "sqlite::memory:",
      keys: { signing: [jwk] },
      clients: { metadataDocuments: { allow: [documentAddress] } },
    },
  });
  const { service } = running;
  await applySeed(service, CONFIG.seed);
  await service.clients.update(NEWS.client_id, { apis: { [OPAQUE]: RIGHTS, [JWT]: RIGHTS } });
  const port = await freePorts(2);
  for (const [index, AUDIENCE] of [OPAQUE, JWT].entries()) {
    const PORT = `${port + index}`;
    const client = { CLIENT_ID: "articles", CLIENT_SECRET: secretOf("articles") };
    const api = start("examples/api/main.ts", { env: { ISSUER: running.openid, AUDIENCE, PORT, ...client } });
    programs.push(api);
    await api.until(/Listening/);
    addresses[AUDIENCE] = `http://127.0.0.1:${PORT}/articles`;
  }
});
afterAll(async () => {
  await Promise.all(programs.map((each) => each.stop("SIGKILL")));
});

interface Verdict {
  readonly status: number;
  readonly challenge: string | null;
}

async function call(api: string, authorization?: string, method = "GET"): Promise<Verdict> {
  const headers = authorization === undefined ? {} : { authorization };
  const response = await fetch(addresses[api]!, { method, headers });
  return { status: response.status, challenge: response.headers.get("www-authenticate") };
}
const bearer = (api: string, token: string, method?: string): Promise<Verdict> =>
  call(api, `Bearer ${token}`, method);

const OK: Verdict = { status: 200, challenge: null };
/** What the API answers: the challenge says where its metadata is. */
const refusal =
  (status: number, values: string) =>
  (api: string): Verdict => {
    const where = `resource_metadata="${api}/.well-known/oauth-protected-resource"`;
    return { status, challenge: `Bearer ${[values, where].filter(Boolean).join(", ")}` };
  };
const MISSING = refusal(401, "");
const INVALID = refusal(401, 'error="invalid_token"');
const SCOPE = refusal(403, 'error="insufficient_scope", scope="articles:write"');
const STEP_UP = refusal(
  401,
  `error="insufficient_user_authentication", acr_values="${MFA} urn:sign-in-service:acr:passkey", max_age="300"`,
);

/** A token of the job. */
async function ofJob(resource: string): Promise<string> {
  const response = await fetch(`${running.oauth2}/oauth2/token`, {
    method: "POST",
    headers: { authorization: basic(JOB) },
    body: new URLSearchParams({ grant_type: "client_credentials", resource }),
  });
  const { access_token } = (await response.json()) as { readonly access_token: string };
  return access_token;
}

/** A token of Ada, who signs in with her password. */
async function ofAda(resource?: string): Promise<string> {
  const news = clientAt(running, "openid", NEWS);
  const browser = news.browser();
  const wanted = resource === undefined ? { scope: "openid" } : { scope: RIGHTS.join(" "), resource };
  await browser.get(news.authorizeUrl(wanted));
  if (browser.location === undefined) await signIn(browser);
  const { access_token } = await news.tokensOf(browser);
  return access_token;
}

const now = (): number => Math.floor(Date.now() / 1000);

/** Claims as the service writes them. */
const claims = (): JWTPayload => ({
  iss: running.openid,
  aud: JWT,
  sub: running.ada.sub,
  client_id: NEWS.client_id,
  scope: RIGHTS.join(" "),
  iat: now(),
  exp: now() + 60,
  jti: randomUUID(),
  auth_time: now(),
  acr: MFA,
});

interface Forgery {
  readonly change?: Readonly<Record<string, unknown>>;
  readonly header?: object;
  readonly key?: KeyObject | Uint8Array;
}

/** A JWT that only differs from a valid one in what a test changes. */
function signed({ change = {}, header = {}, key = privateKey }: Forgery = {}): Promise<string> {
  const protectedHeader = { alg: "RS256", typ: "at+jwt", kid: "known", ...header };
  return new SignJWT({ ...claims(), ...change }).setProtectedHeader(protectedHeader).sign(key);
}

describe("examples/machine", () => {
  const jobs: Running[] = [];
  afterEach(() => Promise.all(jobs.splice(0).map((each) => each.stop("SIGKILL"))));

  /** @returns the exit code and the output. */
  async function run(resource: string, secret = JOB.client_secret): Promise<readonly unknown[]> {
    const job = start("examples/machine/job.ts", {
      args: [running.openid, resource, addresses[resource] ?? `${addresses[OPAQUE]}`],
      env: { CLIENT_ID: JOB.client_id, CLIENT_SECRET: secret },
    });
    jobs.push(job);
    return [await job.ended, job.output()];
  }

  it.each([OPAQUE, JWT])("calls examples/api, %s", async (resource) => {
    expect(await run(resource)).toEqual([0, expect.stringMatching(/^200 .*First article.*"for":"job"/)]);
  });

  it("says why it was refused", async () => {
    expect(await run("https://unknown.example.com")).toEqual([1, "Refused: 400 invalid_target\n"]);
    const wrong = "another secret of the job";
    expect(await run(OPAQUE, wrong)).toEqual([1, "Refused: 401 invalid_client\n"]);
  });
});

describe("examples/api", () => {
  it.each([OPAQUE, JWT])("answers as RFC 6750 and RFC 9470 say: %s", async (api) => {
    const { status, challenge } = MISSING(api);
    const missing = { status, challenge: `${challenge}, scope="articles:read"` };
    expect(await call(api)).toEqual(missing);
    expect(await call(api, basic(JOB))).toEqual(missing);
    expect(await bearer(api, await ofJob(api))).toEqual(OK);
    expect(await bearer(api, await ofJob(api), "DELETE")).toEqual(SCOPE(api));
    const person = await ofAda(api);
    expect(await bearer(api, person)).toEqual(OK);
    expect(await bearer(api, person, "DELETE")).toEqual(STEP_UP(api));
  });

  it("accepts a fresh sign-in with a second factor, and no old one", async () => {
    expect(await bearer(JWT, await signed(), "DELETE")).toEqual(OK);
    const old = await signed({ change: { auth_time: now() - 400 } });
    expect(await bearer(JWT, old, "DELETE")).toEqual(STEP_UP(JWT));
    const missing = await signed({ change: { auth_time: undefined } });
    expect(await bearer(JWT, missing, "DELETE")).toEqual(STEP_UP(JWT));
  });

  const forgeries: Readonly<Record<string, () => Promise<string>>> = {
    "another audience": () => signed({ change: { aud: OPAQUE } }),
    "no audience": () => signed({ change: { aud: undefined } }),
    "another issuer": () => signed({ change: { iss: "https://evil.example" } }),
    "an expired one": () => signed({ change: { exp: now() - 5 } }),
    "one that never expires": () => signed({ change: { exp: undefined } }),
    "one that is not valid yet": () => signed({ change: { nbf: now() + 60 } }),
    "an ID token's type": () => signed({ header: { typ: "JWT" } }),
    "the key of a stranger": () => signed({ key: stranger }),
    "an unknown key": () => signed({ key: stranger, header: { kid: "unknown" } }),
    "HS256 with the public key": () => signed({ key: PUBLIC_PEM, header: { alg: "HS256" } }),
    "one that is bound to a key": () => signed({ change: { cnf: { jkt: "x" } } }),
    "alg none": async () => new UnsecuredJWT(claims()).encode(),
    "no signature": async () => (await signed()).replace(/[^.]+$/, "AAAA"),
    "no JWT at all": async () => "a.b.c",
    "a token of another API": () => ofJob(OPAQUE),
    "a token for userinfo": () => ofAda(),
  };
  it.each(Object.entries(forgeries))("refuses %s", async (_name, forge) => {
    expect(await bearer(JWT, await forge())).toEqual(INVALID(JWT));
  });

  it("refuses opaque tokens of others, and a JWT of another API", async () => {
    for (const token of ["unknown", await ofAda(), await ofJob(JWT), await signed()])
      expect(await bearer(OPAQUE, token)).toEqual(INVALID(OPAQUE));
  });

  it("refuses a revoked opaque token, at once if it is new, and else when the cache ends", async () => {
    const [unseen, seen] = [await ofJob(OPAQUE), await ofJob(OPAQUE)];
    expect(await bearer(OPAQUE, seen)).toEqual(OK);
    await running.service.clients.revokeTokens(JOB.client_id);
    expect(await bearer(OPAQUE, unseen)).toEqual(INVALID(OPAQUE));
    const end = Date.now() + 40_000;
    while ((await bearer(OPAQUE, seen)).status === 200 && Date.now() < end) await pause(200);
    expect(await bearer(OPAQUE, seen)).toEqual(INVALID(OPAQUE));
  });
});

/** The message of an MCP client that calls a tool. */
const tool = (name: string): object => ({
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: { name, arguments: { text: "x" } },
});

describe("examples/mcp", () => {
  const chromium = useBrowser();
  let notes: string;
  beforeAll(async () => {
    notes = `http://localhost:${await freePorts()}/mcp`;
    const { clients, directory } = running.service;
    const scopes = { "notes:read": "Read your notes", "notes:write": "Add notes" };
    await directory.apis.put(notes, {
      name: "Notes",
      service: NEWS.service,
      scopes,
      unregistered: Object.keys(scopes),
      assign: true,
      introspection: ["articles"],
    });
    const apis = { [notes]: Object.keys(scopes) };
    const agent = { kind: "public", native: true, client_id: "agent", name: "Agent" } as const;
    const redirect_uris = ["http://127.0.0.1/callback"];
    await clients.register({ ...agent, service: NEWS.service, first_party: false, redirect_uris, apis });
    const env = { ISSUER: running.openid, RESOURCE: notes };
    const client = { CLIENT_ID: "articles", CLIENT_SECRET: secretOf("articles") };
    const server = start("examples/mcp/server.ts", { env: { ...env, ...client } });
    programs.push(server);
    await server.until(/The MCP server is at/);
  });

  it("says where people sign in, and which scopes a tool needs [D-DOC-70]", async () => {
    const metadata = notes.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    const send = async (body: unknown, token?: string): Promise<Verdict> => {
      const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
      const response = await fetch(notes, {
        method: "POST",
        headers: { ...headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) },
        body: JSON.stringify(body),
      });
      return { status: response.status, challenge: response.headers.get("www-authenticate") };
    };
    const scoped = (scope: string): Verdict => ({
      status: 401,
      challenge: `Bearer resource_metadata="${metadata}", scope="${scope}"`,
    });
    expect(await send(tool("list_notes"))).toEqual(scoped("notes:read"));
    expect(await send([tool("list_notes"), tool("add_note")])).toEqual(scoped("notes:read notes:write"));
    expect(await (await fetch(metadata)).json()).toMatchObject({
      resource: notes,
      authorization_servers: [running.openid],
    });
    await running.service.clients.update(JOB.client_id, { apis: { [notes]: ["notes:read"] } });
    const token = await ofJob(notes);
    expect(await send(tool("list_notes"), token)).toEqual(OK);
    expect(await send(tool("add_note"), token)).toEqual({
      status: 403,
      challenge: `Bearer error="insufficient_scope", scope="notes:read notes:write", resource_metadata="${metadata}"`,
    });
  });

  /** Starts the agent. @returns the address that it asks a person to open. */
  async function startAgent(clientId: string): Promise<readonly [agent: Running, address: string]> {
    const agent = start("examples/mcp/agent.ts", {
      args: [notes, "Water the plants"],
      env: { CLIENT_ID: clientId },
    });
    programs.push(agent);
    const [address = ""] = await agent.until(/http\S+authorize\S+scope=notes%3Aread&\S+/);
    return [agent, address];
  }

  const AGAIN = /http\S+authorize\S+scope=notes%3Aread\+notes%3Awrite&\S+/;
  const ADDED = /^Water the plants$/mu;

  it("lets an agent in once a person agrees, and asks again for more [D-DOC-70]", async () => {
    const [agent, first] = await startAgent("agent");
    const browser = new Browser({ stopAt: new URL(first).searchParams.get("redirect_uri") ?? "" });
    const allow = async (address: string): Promise<void> => {
      await browser.get(address);
      if (browser.hasForm("password")) await signIn(browser);
      await browser.submit(browser.form("decision"), { decision: "allow" });
      await fetch(browser.location ?? "");
    };
    await allow(first);
    const [second = ""] = await agent.until(AGAIN);
    await allow(second);
    expect([await agent.ended, agent.output()]).toEqual([0, expect.stringMatching(ADDED)]);
  });

  it("lets an agent in that nobody has registered, in Chromium [D-DOC-70]", async () => {
    const [agent, first] = await startAgent(documentAddress);
    const page = await chromium.newPage();
    const allow = async (): Promise<void> => {
      await heading(page, "An app on this device wants to use Notes");
      await page.getByRole("button", { name: "Allow" }).click();
      await page.getByText("Done. You can close this page.").waitFor();
    };
    await page.goto(first);
    await signInWith(page, ADA);
    await allow();
    const [second = ""] = await agent.until(AGAIN);
    await page.goto(second);
    await allow();
    expect([await agent.ended, agent.output()]).toEqual([0, expect.stringMatching(ADDED)]);
  });

  it("refreshes for an agent that nobody has registered, whose token has expired [D-DOC-101]", async () => {
    const client = clientAt(running, "openid", {
      client_id: documentAddress,
      redirect_uris: ["http://127.0.0.1:4567/callback"],
    });
    const { code, proof } = await issue(client, { resource: notes, scope: "notes:read" });
    let tokens = (await client.exchange(code, proof)).body as unknown as OAuthTokens;
    const first = tokens;
    // The clock of the service is the real one: an ended token looks like one that has expired.
    await client.post("/oauth2/revoke", { client_id: documentAddress, token: first.access_token }, {});
    const authProvider: OAuthClientProvider = {
      redirectUrl: "http://127.0.0.1:4567/callback",
      clientMetadata: { redirect_uris: ["http://127.0.0.1:4567/callback"] },
      clientInformation: () => ({ client_id: documentAddress }),
      tokens: () => tokens,
      saveTokens: (saved) => void (tokens = saved),
      codeVerifier: () => "",
      saveCodeVerifier: () => undefined,
      redirectToAuthorization: ({ href }) => {
        throw new Error(`it asks the person: ${href}`);
      },
    };
    const agent = new Client({ name: "agent", version: "1.0.0" });
    await agent.connect(new StreamableHTTPClientTransport(new URL(notes), { authProvider }));
    const { content } = await agent.callTool({ name: "list_notes" });
    await agent.close();
    expect(content).toEqual([{ type: "text", text: expect.any(String) }]);
    expect(tokens.access_token).not.toBe(first.access_token);
    expect(tokens.refresh_token).not.toBe(first.refresh_token);
  });

  it("lets no agent in that an operator has blocked [D-DOC-70]", async () => {
    await running.service.documents.block(documentAddress);
    const [, address] = await startAgent(documentAddress);
    const browser = await new Browser().get(address);
    expect([browser.status, browser.html]).toEqual([400, expect.stringContaining("invalid_client")]);
  });
});
