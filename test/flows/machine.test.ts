/** Services that act for themselves: the client credentials grant, and what its tokens open, on both deployments. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { rmSync } from "node:fs";
import type { DeploymentsInput } from "../../config/input.ts";
import { basic, type RequestParameters, send, type TestAnswer } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import {
  ADA,
  NEWS,
  PARTNER,
  type RunningService,
  SHOP,
  startService,
  startWithClock,
  storageIn,
} from "./running-service.ts";
import { newFolder } from "../examples/processes.ts";
import { API, ARTICLES, READER, registerReader, RIGHTS, VIDEOS } from "./sample-apis.ts";
import { expectRefusal } from "./token-answers.ts";

const OTHER = "https://other.example/";
const SECRET = "the secret of a machine, of 32 and more";
const JOB = { client_id: "job", client_secret: SECRET };
type Kind = "oauth2" | "openid";
const BOTH = ["oauth2", "openid"] as const;

let running: RunningService;

async function prepare(at: RunningService): Promise<void> {
  const { directory, clients } = at.service;
  await registerReader(at);
  await directory.apis.put(ARTICLES, API);
  await directory.apis.put(OTHER, { ...API, introspection: [] });
  const apis = { [ARTICLES]: RIGHTS, [OTHER]: RIGHTS };
  await clients.register({ ...JOB, kind: "machine", name: "Job", service: "2", apis });
}

beforeAll(async () => {
  running = await startService();
  await prepare(running);
  await running.service.directory.apis.put(VIDEOS, {
    ...API,
    tokens: "jwt",
    lifetime: 300,
  });
  await running.service.clients.update("job", {
    apis: { [ARTICLES]: RIGHTS, [OTHER]: RIGHTS, [VIDEOS]: RIGHTS },
  });
});

const deployments = (origin: string): DeploymentsInput => ({ oauth2: { url: origin } });

interface Credentials {
  readonly client_id: string;
  readonly client_secret: string;
}

function post(
  kind: Kind,
  path: string,
  form: RequestParameters | string,
  client: Credentials = JOB,
): Promise<TestAnswer> {
  const body =
    typeof form === "string"
      ? form
      : new URLSearchParams(JSON.parse(JSON.stringify(form)) as Record<string, string>);
  return send(`${running[kind]}${path}`, {
    method: "POST",
    headers: { authorization: basic(client), "content-type": "application/x-www-form-urlencoded" },
    body: String(body),
  });
}
const request = (kind: Kind, form: RequestParameters = {}, client?: Credentials): Promise<TestAnswer> =>
  post(kind, "/oauth2/token", { grant_type: "client_credentials", resource: ARTICLES, ...form }, client);
const issue = async (form: RequestParameters = {}, kind: Kind = "openid"): Promise<string> => {
  const { status, body } = await request(kind, form);
  expect([status, body["error"]]).toEqual([200, undefined]);
  return String(body["access_token"]);
};
const introspect = async (
  token: string,
  client: Credentials = READER,
  kind: Kind = "openid",
): Promise<unknown> => {
  const { status, body } = await post(kind, "/oauth2/introspect", { token }, client);
  expect([status, body["error"]]).toEqual([200, undefined]);
  return body;
};
const isActive = async (token: string): Promise<unknown> =>
  Reflect.get(Object(await introspect(token)), "active");

describe.each(BOTH)("a machine client on %s", (kind) => {
  it("gets an opaque token for one API, and nothing else [D-MACHINE-1, D-API-3, D-API-12]", async () => {
    const { status, body, headers } = await request(kind, { scope: "articles:read" });
    expect(status).toBe(200);
    expect(body).toEqual({
      access_token: expect.stringMatching(/^[\w-]{43,}$/),
      token_type: "bearer",
      expires_in: 1200,
      scope: "articles:read",
    });
    expect(headers.get("cache-control")).toBe("no-store");
    expect(await introspect(String(body["access_token"]), READER, kind)).toEqual({
      active: true,
      iss: running.openid,
      sub: "job",
      aud: ARTICLES,
      client_id: "job",
      scope: "articles:read",
      token_type: "bearer",
      iat: expect.any(Number),
      exp: expect.any(Number),
    });
  });

  it("gets all that it may have without a scope, and never more [D-MACHINE-1, D-API-2]", async () => {
    const granted = async (scope?: string): Promise<unknown> =>
      (await request(kind, { scope })).body["scope"];
    expect(await granted()).toBe("articles:read articles:write");
    expect(await granted("")).toBe("articles:read articles:write");
    expect(await granted("articles:publish articles:write openid profile")).toBe("articles:write");
    for (const scope of ["articles:publish", "openid", "account", "unknown", "__proto__ constructor"])
      expectRefusal(await request(kind, { scope }), "invalid_scope");
    expectRefusal(await request(kind, { scope: 'a"b' }), "invalid_scope");
  });

  it("names one API that it may ask for [D-MACHINE-1, D-API-2]", async () => {
    const unknown = [
      "",
      "articles",
      "https://articles.example",
      `${ARTICLES}x`,
      "constructor",
      "https://none.example/",
    ];
    for (const resource of [undefined, ...unknown, "\u{1F600}", "x".repeat(4_000)])
      expectRefusal(await request(kind, { resource }), "invalid_target");
    const twice = `grant_type=client_credentials&resource=${ARTICLES}&resource=${ARTICLES}`;
    expectRefusal(await post(kind, "/oauth2/token", twice), "invalid_target");
    expectRefusal(await request(kind, {}, READER), "invalid_target");
  });

  it("has no other grant and no sign-in [D-MACHINE-1]", async () => {
    for (const grant of ["authorization_code", "refresh_token", "password"]) {
      const form = { grant_type: grant, code: "x", redirect_uri: "https://x.example/", refresh_token: "x" };
      expectRefusal(
        await post(kind, "/oauth2/token", { ...form, username: "ada", password: "x" }),
        "unauthorized_client",
      );
    }
    expectRefusal(await request(kind, {}, NEWS), "unauthorized_client");
    expectRefusal(await request(kind, {}, { ...JOB, client_secret: "wrong" }), "invalid_client", 401);
    const query = new URLSearchParams({
      client_id: "job",
      response_type: "code",
      redirect_uri: "https://x.example/",
    });
    expect((await send(`${running[kind]}/oauth2/authorize?${query}`)).status).toBe(400);
    if (kind === "openid")
      expect(
        (await post(kind, "/oauth2/par", { response_type: "code", redirect_uri: "https://x.example/" }))
          .status,
      ).toBe(400);
  });

  it("can't be given a token by password for an API", async () => {
    const form = {
      grant_type: "password",
      username: "ada",
      password: "the password of ada",
      resource: ARTICLES,
    };
    expectRefusal(await post(kind, "/oauth2/token", form, NEWS), "invalid_target");
  });
});

describe("a JWT for an API", () => {
  it.each(BOTH)(
    "from %s is what RFC 9068 says, and an API verifies it with the JWKS [D-API-5]",
    async (kind) => {
      const { body } = await request(kind, { resource: VIDEOS, scope: "articles:read" });
      expect(body).toMatchObject({ token_type: "bearer", expires_in: 300, scope: "articles:read" });
      const jwks = createRemoteJWKSet(new URL(`${running.openid}/oauth2/jwks`));
      const { payload, protectedHeader } = await jwtVerify(String(body["access_token"]), jwks, {
        issuer: running.openid,
        audience: VIDEOS,
        typ: "at+jwt",
        algorithms: ["RS256"],
      });
      expect(protectedHeader).toEqual({ alg: "RS256", typ: "at+jwt", kid: expect.any(String) });
      expect(payload).toEqual({
        iss: running.openid,
        sub: "job",
        aud: VIDEOS,
        client_id: "job",
        scope: "articles:read",
        jti: expect.any(String),
        iat: expect.any(Number),
        exp: Number(payload.iat) + 300,
      });
    },
  );

  it("can't be revoked, and says nothing at introspection [D-API-4, D-API-5]", async () => {
    const token = await issue({ resource: VIDEOS });
    expectRefusal(await post("openid", "/oauth2/revoke", { token }), "unsupported_token_type");
    expectRefusal(await post("oauth2", "/oauth2/revoke", { token }), "unsupported_token_type");
    expect(await introspect(token)).toEqual({ active: false });
    for (const other of ["a.b.c", "e30.e30.e30", `${token.split(".")[0]}`])
      expect((await post("openid", "/oauth2/revoke", { token: other })).status).toBe(200);
  });

  it("is for no API that could pass for the service: none begins like a deployment [D-API-1]", async () => {
    const { apis } = running.service.directory;
    for (const base of [running.oauth2, running.openid])
      for (const identifier of [base, `${base}/`, `${base}/articles`])
        await expect(apis.put(identifier, API)).rejects.toThrow(
          "identifier: must not begin with the base URL of a deployment",
        );
  });

  it("needs the openid deployment: without it the API is refused, and the start [D-API-5]", async () => {
    const folder = newFolder();
    const config = {
      ...(await storageIn(folder)),
      keys: { secrets: [Buffer.alloc(32, 5).toString("base64")] },
    };
    const jwt = { ...API, introspection: [], lifetime: 900, tokens: "jwt" } as const;
    const both = await startService({ config });
    await both.service.directory.apis.put(VIDEOS, jwt);
    await both.close();
    const refused = startWithClock({ ...config, deployments: deployments("http://127.0.0.1:3999") });
    await expect(refused).rejects.toMatchObject({
      problems: [expect.stringContaining("config.deployments.openid: is required")],
    });
    const only = await startService({ deployments });
    await expect(only.service.directory.apis.put(VIDEOS, jwt)).rejects.toThrow(/api\.tokens: jwt needs/);
    await only.close();
    rmSync(folder, { recursive: true, force: true });
  });
});

describe("introspection", () => {
  it("shows a token to the clients that its API names, not to its owner or to others [D-API-4]", async () => {
    const token = await issue();
    for (const kind of BOTH) {
      for (const client of [JOB, NEWS, SHOP, PARTNER]) {
        const { client_id, client_secret } = client;
        expect(await introspect(token, { client_id, client_secret }, kind)).toEqual({ active: false });
      }
      expect(await introspect(token, READER, kind)).toMatchObject({ active: true });
    }
    expect(await isActive(await issue({ resource: OTHER }))).toBe(false);
  });

  it("shows the API nothing of people's tokens that are for no API [D-API-4]", async () => {
    const { access_token, refresh_token } = await clientAt(running, "openid", NEWS).signIn(ADA, {
      scope: "openid",
    });
    for (const token of [access_token, refresh_token]) {
      expect(await introspect(token)).toEqual({ active: false });
      expect(await introspect(token, NEWS)).toMatchObject({ active: true, client_id: "news" });
    }
  });

  it("exists on oauth2 once there is an API, and falls through before [D-API-4]", async () => {
    const fresh = await startService({
      host: (application) =>
        void application.use(async (ctx, next) => {
          await next();
          if (ctx.status === 404) ctx.body = "of the host";
        }),
    });
    const at = (): Promise<TestAnswer> =>
      send(`${fresh.oauth2}/oauth2/introspect`, {
        method: "POST",
        headers: { authorization: basic(NEWS) },
      });
    expect((await at()).text).toBe("of the host");
    await fresh.service.directory.apis.put(ARTICLES, { ...API, introspection: [] });
    expectRefusal(await at(), "invalid_request");
    await fresh.service.directory.apis.remove(ARTICLES);
    expect((await at()).text).toBe("of the host");
  });
});

const restore = async (): Promise<void> => {
  const { clients, directory } = running.service;
  await clients.enable("job");
  await clients.update("job", {
    client_secret: SECRET,
    apis: { [ARTICLES]: RIGHTS, [OTHER]: RIGHTS, [VIDEOS]: RIGHTS },
  });
  await directory.apis.put(ARTICLES, API);
};

describe("the token of a machine ends", () => {
  const ends: Record<string, () => Promise<unknown>> = {
    "clients.disable, for good": async () => {
      await running.service.clients.disable("job");
      await running.service.clients.enable("job");
    },
    "clients.revokeTokens": () => running.service.clients.revokeTokens("job"),
    "rotateSecret without keepOldFor": () => running.service.clients.rotateSecret("job"),
    "another secret": () => running.service.clients.update("job", { client_secret: `${SECRET}!` }),
    "removal of the API, though it is put again": async () => {
      await running.service.clients.update("job", { apis: {} });
      await running.service.directory.apis.remove(ARTICLES);
      await running.service.directory.apis.put(ARTICLES, API);
    },
    "removal of the client, though its id is taken again": async () => {
      await running.service.clients.remove("job");
      await running.service.directory.apis.put(ARTICLES, API);
      await running.service.clients.register({ ...JOB, kind: "machine", name: "Other", service: "2" });
    },
    "its own revocation": () => Promise.resolve(),
  };
  it.each(Object.keys(ends))("with %s [D-MACHINE-2]", async (way) => {
    await restore();
    const token = await issue();
    expect(await isActive(token)).toBe(true);
    if (way === "its own revocation") {
      // Another client ends nothing.
      expect((await post("openid", "/oauth2/revoke", { token }, READER)).status).toBe(200);
      expect(await isActive(token)).toBe(true);
      expect((await post("oauth2", "/oauth2/revoke", { token })).status).toBe(200);
    }
    await ends[way]?.();
    expect(await introspect(token)).toEqual({ active: false });
    await restore();
    expect(await introspect(token)).toEqual({ active: false });
  });

  it("not with rotateSecret that keeps the old one, or another name [D-MACHINE-2]", async () => {
    await restore();
    const token = await issue();
    await running.service.clients.rotateSecret("job", { keepOldFor: 60 });
    await running.service.clients.update("job", { name: "Renamed" });
    expect(await isActive(token)).toBe(true);
    await restore();
  });

  it("for a client that the API no longer names [D-API-4]", async () => {
    await restore();
    const token = await issue();
    await running.service.directory.apis.put(ARTICLES, { ...API, introspection: [] });
    expect(await isActive(token)).toBe(false);
    await restore();
    expect(await isActive(token)).toBe(true);
  });

  it("not with a scope: what the client may ask for is read at each issue [D-API-2]", async () => {
    await restore();
    await running.service.clients.update("job", { apis: { [ARTICLES]: ["articles:read"] } });
    expectRefusal(await request("openid", { scope: "articles:write" }), "invalid_scope");
    expectRefusal(await request("openid", { resource: VIDEOS }), "invalid_target");
    const { "articles:read": _read, ...others } = API.scopes;
    await running.service.directory.apis.put(ARTICLES, { ...API, scopes: others });
    expectRefusal(await request("openid"), "invalid_scope");
    await running.service.directory.apis.put(ARTICLES, API);
    await restore();
  });

  it("with the lifetime of the API, to the second [D-API-1, D-MACHINE-2]", async () => {
    const clock = { virtual: true, ms: Date.now(), now: () => clock.ms };
    const main = running;
    running = await startService({ config: { clock } });
    try {
      await prepare(running);
      const token = await issue();
      clock.ms += 1_199_000;
      expect(await isActive(token)).toBe(true);
      clock.ms += 1_000;
      expect(await introspect(token)).toEqual({ active: false });
    } finally {
      await running.close();
      running = main;
    }
  });
});
