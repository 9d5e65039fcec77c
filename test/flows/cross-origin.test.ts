/** Which scripts may read the answers of the service: those from the origins of public clients, and no others. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { sendRaw } from "../hostile/raw.ts";
import { APP, clientAt, issue } from "./clients.ts";
import { send, type TestAnswer } from "../../testing/test-client.ts";
import { ADA, NEWS, startService, useService } from "./running-service.ts";

const ORIGIN = "https://app.example";
const OTHER = "https://other.example";
const EXPOSED = "WWW-Authenticate, Retry-After, DPoP-Nonce";

const running = useService();
const app = clientAt(running, "openid", APP);

beforeAll(async () => {
  await running.service.clients.register(APP);
  await running.service.clients.register({
    ...APP,
    client_id: "other",
    redirect_uris: ["https://other.example/callback"],
    origins: [OTHER],
  });
});

/** The endpoints that are open, on both deployments. */
const OPEN: readonly (readonly ["oauth2" | "openid", string])[] = [
  ["oauth2", "/oauth2/token"],
  ["oauth2", "/oauth2/revoke"],
  ["oauth2", "/resources/userinfo"],
  ["oauth2", "/external/profile"],
  ["openid", "/oauth2/token"],
  ["openid", "/oauth2/revoke"],
  ["openid", "/oauth2/userinfo"],
  ["openid", "/oauth2/resources/userinfo"],
  ["openid", "/oauth2/external/profile"],
  ["openid", "/resources/userinfo"],
  ["openid", "/external/profile"],
];

const HEADER = "access-control-allow-origin";
const cors = ({ headers }: TestAnswer): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith("access-control-")));
const varies = ({ headers }: TestAnswer): string[] =>
  (headers.get("vary") ?? "").split(/, ?/).map((each) => each.toLowerCase());

function preflight(
  address: string,
  origin: string,
  headers: Record<string, string> = {},
): Promise<TestAnswer> {
  return send(address, {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST", ...headers },
  });
}

describe("a preflight", () => {
  it.each(OPEN)(
    "on %s at %s is 204, with the headers for a listed origin only [D-KIND-6]",
    async (kind, path) => {
      const listed = await preflight(`${running[kind]}${path}`, ORIGIN);
      expect(listed.status).toBe(204);
      expect(cors(listed)).toEqual({
        "access-control-allow-origin": ORIGIN,
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": "Authorization, Content-Type, DPoP",
        "access-control-max-age": "600",
      });
      const unlisted = await preflight(`${running[kind]}${path}`, "https://evil.example");
      expect(unlisted.status).toBe(204);
      expect(cors(unlisted)).toEqual({});
      for (const answer of [listed, unlisted]) expect(varies(answer)).toEqual(["origin"]);
      const plain = await send(`${running[kind]}${path}`, { method: "OPTIONS" });
      expect([plain.status, varies(plain)]).toEqual([405, ["origin"]]);
    },
  );

  it.each([
    ["oauth2", "/oauth2/authorize"],
    ["openid", "/oauth2/authorize"],
    ["openid", "/oauth2/par"],
    ["openid", "/oauth2/introspect"],
    ["openid", "/oauth2/logout"],
    ["openid", "/account"],
    ["openid", "/interaction/abc"],
  ] as const)("on %s at %s is 405, and nothing there is for other origins [D-KIND-6]", async (kind, path) => {
    const answer = await preflight(`${running[kind]}${path}`, ORIGIN);
    expect([answer.status, cors(answer)]).toEqual([405, {}]);
    const read = await send(`${running[kind]}${path}?client_id=app`, { headers: { origin: ORIGIN } });
    expect(cors(read)).toEqual({});
  });

  it("reflects nothing of a long header [D-KIND-6]", async () => {
    const long = "x-evil, ".repeat(1_000);
    const answer = await preflight(`${running.openid}/oauth2/token`, ORIGIN, {
      "access-control-request-headers": long,
    });
    expect(cors(answer)["access-control-allow-headers"]).toBe("Authorization, Content-Type, DPoP");
    const strange = await preflight(`${running.openid}/oauth2/token`, `${ORIGIN}/${"a".repeat(8_000)}`);
    expect([strange.status, cors(strange)]).toEqual([204, {}]);
  });
});

describe("the answers to a script", () => {
  it("of a listed origin can be read: tokens, refresh, userinfo, profile, revocation [D-KIND-6]", async () => {
    const readable = { "access-control-allow-origin": ORIGIN, "access-control-expose-headers": EXPOSED };
    const headers = { origin: ORIGIN };
    const { code, proof } = await issue(app, { scope: "openid email profile" });
    const exchanged = await app.token({ grant_type: "authorization_code", code, ...proof }, headers);
    expect(exchanged.status).toBe(200);
    const { access_token, refresh_token } = exchanged.body as Record<string, string>;
    const bearer = { headers: { ...headers, authorization: `Bearer ${access_token}` } };
    const refreshed = await app.token({ grant_type: "refresh_token", refresh_token }, headers);
    const answers = [
      exchanged,
      refreshed,
      await send(`${running.openid}/oauth2/userinfo`, bearer),
      await send(`${running.openid}/oauth2/userinfo`, { ...bearer, method: "POST" }),
      await send(`${running.openid}/resources/userinfo?client_id=app`, bearer),
      await send(`${running.openid}/external/profile?client_id=app`, bearer),
      await app.post("/oauth2/revoke", { token: String(refreshed.body["refresh_token"]) }, headers),
    ];
    for (const answer of answers) {
      expect([answer.status, cors(answer), varies(answer)]).toEqual([
        200,
        readable,
        expect.arrayContaining(["origin"]),
      ]);
      expect(answer.headers.has("access-control-allow-credentials")).toBe(false);
    }
  });

  it("can be read when they are errors, too [D-KIND-6]", async () => {
    const headers = { origin: ORIGIN };
    const bearer = { headers: { ...headers, authorization: "Bearer unknown" } };
    const unknown = { grant_type: "authorization_code", code: "unknown", redirect_uri: app.redirect_uri };
    const answers: [number, TestAnswer][] = [
      [400, await app.token(unknown, headers)],
      [401, await app.token({ client_secret: "a secret" }, headers)],
      [400, await app.token({ client_id: "unknown" }, headers)],
      [400, await app.token({ grant_type: "a", code: "\0" }, headers)],
      [401, await send(`${running.openid}/oauth2/userinfo`, bearer)],
      [401, await send(`${running.openid}/external/profile?client_id=app`, bearer)],
      [405, await send(`${running.openid}/oauth2/token`, { headers })],
      [400, await app.post("/oauth2/revoke", {}, headers)],
    ];
    for (const [status, answer] of answers)
      expect([answer.status, answer.headers.get(HEADER)]).toEqual([status, ORIGIN]);
  });

  it.each([
    "https://app.example.evil.example",
    "https://app.example:8443",
    "https://app.example:443",
    "https://app.example/",
    "https://APP.example",
    "HTTPS://app.example",
    "https://app.exampl",
    "https://xapp.example",
    "http://app.example",
    "null",
    "*",
    "https://app.example https://app.example",
    "https://app.example, https://evil.example",
  ])("of %s can't be read, and the request is served like any other [D-KIND-6]", async (origin) => {
    const { code, proof } = await issue(app);
    const form = { grant_type: "authorization_code", code, ...proof };
    const answer = await app.token(form, { origin });
    expect([answer.status, cors(answer), varies(answer)]).toEqual([200, {}, ["origin"]]);
    const unknown = await send(`${running.openid}/oauth2/userinfo`, {
      headers: { origin, authorization: "Bearer x" },
    });
    expect([unknown.status, cors(unknown)]).toEqual([401, {}]);
  });

  it("of another client's origin can't be read: the client in the form, the query or the token decides [D-KIND-6]", async () => {
    const { access_token } = await app.signIn(ADA, { scope: "openid email" });
    const headers = { origin: OTHER, authorization: `Bearer ${access_token}` };
    const answers = [
      await app.token({ grant_type: "refresh_token", refresh_token: "unknown" }, { origin: OTHER }),
      await send(`${running.openid}/resources/userinfo?client_id=app`, { headers }),
      await send(`${running.openid}/oauth2/userinfo`, { headers }),
    ];
    for (const answer of answers) expect(cors(answer)).toEqual({});
    const web = clientAt(running, "openid", NEWS);
    const tokens = await web.signIn(ADA, { scope: "openid" });
    const read = await send(`${running.openid}/oauth2/userinfo`, {
      headers: { origin: ORIGIN, authorization: `Bearer ${tokens.access_token}` },
    });
    expect([read.status, cors(read)]).toEqual([200, {}]);
  });

  it("follows the client at once: other origins, disabled, removed [D-KIND-6]", async () => {
    const { clients } = running.service;
    await clients.register({ ...APP, client_id: "brief", redirect_uris: ["https://brief.example/callback"] });
    const at = async (origin: string): Promise<string | null> =>
      (await preflight(`${running.openid}/oauth2/token`, origin)).headers.get(HEADER);
    expect(await at("https://brief.example")).toBe("https://brief.example");
    await clients.update("brief", { origins: ["https://cdn.example"] });
    expect([await at("https://brief.example"), await at("https://cdn.example")]).toEqual([
      null,
      "https://cdn.example",
    ]);
    await clients.disable("brief");
    expect(await at("https://cdn.example")).toBeNull();
    await clients.enable("brief");
    expect(await at("https://cdn.example")).toBe("https://cdn.example");
    await clients.remove("brief");
    expect(await at("https://cdn.example")).toBeNull();
  });

  it("with two Origin headers can't be read [D-KIND-6]", async () => {
    const { host } = new URL(running.openid);
    const path = `${new URL(running.openid).pathname}/oauth2/token`;
    const lines = [
      `OPTIONS ${path} HTTP/1.1`,
      `Host: ${host}`,
      `Origin: ${ORIGIN}`,
      `Origin: ${OTHER}`,
      "Connection: close",
    ];
    const answer = await sendRaw(Number(new URL(running.origin).port), `${lines.join("\r\n")}\r\n\r\n`);
    expect(answer.headers.get(HEADER)).not.toBe(OTHER);
  });
});

describe("a host application that answers other origins itself", () => {
  it("keeps its headers [D-KIND-6]", async () => {
    const own = await startService({
      host: (application) =>
        application.use(async (ctx, next) => {
          ctx.set("Access-Control-Allow-Origin", "https://host.example");
          await next();
        }),
    });
    await own.service.clients.register(APP);
    const answer = await send(`${own.openid}/oauth2/userinfo`, { headers: { origin: ORIGIN } });
    expect(answer.headers.get(HEADER)).toBe("https://host.example");
  });
});
