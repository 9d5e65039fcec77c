/** Clients that can keep no secret: what they may do, and what a thief of their codes and tokens may not. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { APP, clientAt, NATIVE, signIn, issue, nativeAt } from "./clients.ts";
import { connect, TELEVISION } from "./devices.ts";
import { DEVICE_GRANT } from "../../accounts/clients/client-kinds.ts";
import { type TestClient, basic, newProof, send } from "../../testing/test-client.ts";
import { ADA, NEWS, useService } from "./running-service.ts";
import type { AnyNewClient } from "../../accounts/clients/client-schema.ts";

const KINDS = ["oauth2", "openid"] as const;
let offset = 0;

const running = useService({ config: { clock: { virtual: true, now: () => Date.now() + offset } } });

beforeAll(async () => {
  const others: AnyNewClient[] = [
    APP,
    NATIVE,
    { ...APP, client_id: "rival", redirect_uris: ["https://rival.example/callback"] },
    {
      kind: "machine",
      client_id: "machine",
      client_secret: "the secret of the machine, of 32",
      name: "M",
      service: "1",
    },
    { kind: "device", client_id: "device", name: "TV", service: "1" },
  ];
  for (const client of others) await running.service.clients.register(client);
});

const app = (kind: (typeof KINDS)[number]): TestClient => clientAt(running, kind, APP);
const rival = (): TestClient =>
  clientAt(running, "openid", {
    ...APP,
    client_id: "rival",
    redirect_uris: ["https://rival.example/callback"],
  });

describe.each(KINDS)("a public client on %s", (kind) => {
  it("signs people in with PKCE and its client_id alone, and is told the scope [D-KIND-2, D-KIND-3]", async () => {
    const party = app(kind);
    const tokens = await party.signIn(ADA);
    const members = ["access_token", "token_type", "expires_in", "refresh_token", "scope"];
    expect(Object.keys(tokens)).toEqual(members);
    expect(tokens).toMatchObject({ token_type: "bearer", scope: "" });
    expect(await party.userinfo(tokens.access_token)).toMatchObject({
      status: 200,
      body: { email: "ada@example.com" },
    });
    const scoped = await party.signIn(ADA, { scope: "openid email nonsense" });
    expect(scoped.scope).toBe(kind === "openid" ? "openid email" : "email");
    expect("id_token" in scoped).toBe(kind === "openid");
    const again = await party.refresh(scoped.refresh_token);
    expect(again.body).toMatchObject({ scope: scoped.scope });
  });

  it("a web client's answers have no scope", async () => {
    const tokens = await clientAt(running, kind, NEWS).signIn(ADA, { scope: "email" });
    expect(tokens).not.toHaveProperty("scope");
  });

  it("needs a challenge with S256, and says so at its own address [D-KIND-3]", async () => {
    const party = app(kind);
    const asked = async (parameters: Record<string, string | undefined>): Promise<URL> => {
      const browser = await party.browser().get(party.authorizeUrl({ state: "s", ...parameters }));
      expect(browser.status).toBe(302);
      return browser.location!;
    };
    const { code_challenge } = newProof().request;
    for (const parameters of [
      {},
      { code_challenge: "" },
      { code_challenge },
      { code_challenge, code_challenge_method: "plain" },
      { code_challenge, code_challenge_method: "" },
      { code_challenge: "short", code_challenge_method: "S256" },
    ]) {
      const { origin, pathname, searchParams } = await asked(parameters);
      expect(`${origin}${pathname}`).toBe(party.redirect_uri);
      expect([searchParams.get("error"), searchParams.get("state")]).toEqual(["invalid_request", "s"]);
    }
  });

  it("always sends its address, which is compared character by character [D-KIND-3]", async () => {
    const party = app(kind);
    for (const redirect_uri of [
      undefined,
      "",
      "https://app.example/callback/",
      "https://APP.example/callback",
    ]) {
      const browser = await new Browser().get(party.authorizeUrl({ ...newProof().request, redirect_uri }));
      expect([redirect_uri, browser.status, browser.location]).toEqual([redirect_uri, 400, undefined]);
    }
    const { code, proof } = await issue(party);
    const without = await party.exchange(code, { ...proof, redirect_uri: "" });
    expect(without).toMatchObject({ status: 400, body: { error: "invalid_request" } });
  });

  it("has no other credentials: a secret, Basic or an assertion is refused [D-KIND-3]", async () => {
    const party = app(kind);
    const { code, proof } = await issue(party);
    const form = { grant_type: "authorization_code", code, ...proof };
    const refused = { status: 401, body: { error: "invalid_client" } };
    expect(await party.token({ ...form, client_secret: "a secret" })).toMatchObject(refused);
    const assertion = {
      client_assertion: "a.b.c",
      client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    };
    expect(await party.token({ ...form, ...assertion })).toMatchObject(refused);
    const authorization = basic({ client_id: APP.client_id, client_secret: "a secret" });
    expect(await party.token({ ...form, client_id: undefined }, { authorization })).toMatchObject(refused);
    expect(await party.token({ ...form, client_id: undefined })).toMatchObject({
      body: { error: "invalid_client" },
    });
    // None of it has used up the code.
    expect(await party.exchange(code, proof)).toMatchObject({ status: 200 });
  });

  it("has no password grant [D-KIND-3]", async () => {
    const answer = await app(kind).token({
      grant_type: "password",
      username: "ada",
      password: "the password of ada",
    });
    expect(answer).toMatchObject({ status: 400, body: { error: "unauthorized_client" } });
  });

  it("revokes with its client_id alone, and only its own tokens [D-KIND-3]", async () => {
    const party = app(kind);
    const [own, other] = [await party.signIn(ADA), await rival().signIn(ADA)];
    const revoke = (token: string): ReturnType<typeof send> => party.post("/oauth2/revoke", { token });
    for (const token of [other.access_token, other.refresh_token, "unknown"])
      expect(await revoke(token)).toMatchObject({ status: 200, body: {} });
    expect(await rival().userinfo(other.access_token)).toMatchObject({ status: 200 });
    expect(await revoke(own.access_token)).toMatchObject({ status: 200 });
    expect(await party.userinfo(own.access_token)).toMatchObject({ status: 401 });
    const next = await party.refresh(own.refresh_token);
    expect(next.status).toBe(200);
    const { access_token, refresh_token } = next.body as Record<string, string>;
    expect(await revoke(refresh_token!)).toMatchObject({ status: 200 });
    expect(await party.refresh(refresh_token!)).toMatchObject({
      status: 400,
      body: { error: "invalid_grant" },
    });
    expect(await party.userinfo(access_token!)).toMatchObject({ status: 401 });
    // The documented call works, too.
    const { access_token: last } = await party.signIn(ADA);
    const documented = await send(`${party.base}/oauth2/revoke?client_id=app`, {
      headers: { authorization: `Bearer ${last}` },
    });
    expect(documented).toMatchObject({ status: 200, body: {} });
  });
});

describe("a public client", () => {
  it("may not introspect, not even its own tokens [D-KIND-3]", async () => {
    const party = app("openid");
    const { access_token } = await party.signIn(ADA);
    const answer = await party.post("/oauth2/introspect", { token: access_token });
    expect(answer).toMatchObject({ status: 401, body: { error: "invalid_client" } });
  });

  it("may push its requests, with the same rules [D-KIND-3]", async () => {
    const party = app("openid");
    const { request: proof, code_verifier } = newProof();
    const request = {
      response_type: "code",
      redirect_uri: party.redirect_uri,
      scope: "openid",
      prompt: "login",
    };
    expect(await party.post("/oauth2/par", request)).toMatchObject({
      status: 400,
      body: { error: "invalid_request" },
    });
    const unsent = { ...request, ...proof, redirect_uri: undefined };
    expect(await party.post("/oauth2/par", unsent)).toMatchObject({ status: 400 });
    const pushed = await party.post("/oauth2/par", { ...request, ...proof });
    expect(pushed.status).toBe(201);
    const address = `${party.base}/oauth2/authorize?${new URLSearchParams({ client_id: "app", request_uri: String(pushed.body["request_uri"]) })}`;
    const browser = await party.browser().get(address);
    await signIn(browser);
    const code = browser.location?.searchParams.get("code") ?? "";
    const answer = await party.exchange(code, { code_verifier });
    expect(answer).toMatchObject({ status: 200, body: { scope: "openid" } });
  });

  it("loses nothing when its code is stolen: no verifier, a wrong one, that of another code [D-KIND-3]", async () => {
    const party = app("openid");
    const [{ code, proof }, other] = [await issue(party), await issue(party)];
    const { request, code_verifier: unknown } = newProof();
    // A challenge is no verifier.
    const wrong = [undefined, "", unknown, request.code_challenge, other.proof.code_verifier, code, "short"];
    const invalid = { status: 400, body: { error: "invalid_grant" } };
    for (const code_verifier of wrong) {
      const { status, body } = await party.exchange(code, { code_verifier });
      expect([code_verifier, status, body["access_token"]]).toEqual([code_verifier, 400, undefined]);
    }
    expect(await rival().exchange(code, proof)).toMatchObject(invalid);
    expect(await party.exchange(code, proof)).toMatchObject({ status: 200 });
    expect(await party.exchange(other.code, other.proof)).toMatchObject({ status: 200 });
  });

  it("always rotates its refresh tokens, and a stolen one ends the family [D-KIND-3]", async () => {
    const party = app("openid");
    const { refresh_token: first } = await party.signIn(ADA);
    const second = (await party.refresh(first)).body as Record<string, string>;
    expect(second["refresh_token"]).not.toBe(first);
    const third = (await party.refresh(second["refresh_token"]!)).body as Record<string, string>;
    expect(await rival().refresh(third["refresh_token"]!)).toMatchObject({
      status: 400,
      body: { error: "invalid_grant" },
    });
    expect(await party.userinfo(third["access_token"]!)).toMatchObject({ status: 200 });
    offset += 60_000;
    // The thief comes after the window.
    expect(await party.refresh(first)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
    expect(await party.refresh(third["refresh_token"]!)).toMatchObject({ status: 400 });
    expect(await party.userinfo(third["access_token"]!)).toMatchObject({ status: 401 });
  });

  it("gets one answer for refreshes that race: one family goes on [D-KIND-3]", async () => {
    const party = app("openid");
    const { refresh_token } = await party.signIn(ADA);
    const answers = await Promise.all(Array.from({ length: 50 }, () => party.refresh(refresh_token)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const [next, ...others] = new Set(answers.map(({ body }) => String(body["refresh_token"])));
    expect(others).toEqual([]);
    expect(await party.refresh(next!)).toMatchObject({ status: 200 });
  });
});

describe("a native client", () => {
  it("may use any port of a loopback literal; the token endpoint wants exactly that one [D-KIND-4]", async () => {
    const party = nativeAt(running, "http://127.0.0.1:49152/callback");
    const { code, proof } = await issue(party);
    for (const redirect_uri of ["http://127.0.0.1/callback", "http://127.0.0.1:49153/callback"])
      expect(await party.exchange(code, { ...proof, redirect_uri })).toMatchObject({
        status: 400,
        body: { error: "invalid_grant" },
      });
    expect(await party.exchange(code, proof)).toMatchObject({ status: 200 });
  });

  it("may use its private-use scheme, and nobody else's [D-KIND-4]", async () => {
    const party = nativeAt(running, "com.example.app:/callback", "oauth2");
    const browser = party.browser();
    const { code, proof } = await issue(party, { state: "a b" }, browser);
    expect(browser.location?.href).toBe(`com.example.app:/callback?code=${code}&state=a%20b`);
    expect(await party.exchange(code, proof)).toMatchObject({ status: 200 });
    for (const redirect_uri of [
      "com.example.other:/callback",
      "com.example.app:/Callback",
      "com.example.app:/callback/../x",
      "COM.example.app:/callback",
      "com.example.app://callback",
      "http://localhost/callback",
      "http://127.0.0.1:49152/other",
      "http://127.0.0.1:49152@evil.example/callback",
      "http://127.0.0.2/callback",
    ]) {
      const refused = await new Browser().get(party.authorizeUrl({ ...newProof().request, redirect_uri }));
      expect([redirect_uri, refused.status, refused.location]).toEqual([redirect_uri, 400, undefined]);
    }
  });

  it("may send people back to its addresses after signing out, and to no others [D-KIND-4]", async () => {
    await running.service.clients.update("native", { post_logout_redirect_uris: ["http://127.0.0.1/bye"] });
    const address = (post_logout_redirect_uri: string): string =>
      `${running.openid}/oauth2/logout?${new URLSearchParams({ client_id: "native", post_logout_redirect_uri })}`;
    const browser = new Browser({ stopAt: "http://127.0.0.1:49152/" });
    await browser.get(address("http://127.0.0.1:49152/bye"));
    expect(browser.location?.pathname).toBe("/bye");
    for (const other of [
      "http://localhost:49152/bye",
      "http://127.0.0.1:49152/other",
      "http://127.0.0.1@evil.example/bye",
    ])
      expect((await new Browser().get(address(other))).status).toBe(400);
  });
});

describe("a machine or device client", () => {
  it.each(["machine", "device"])("%s sends nobody to sign in [D-KIND-1]", async (client_id) => {
    for (const base of [running.oauth2, running.openid]) {
      const query = new URLSearchParams({
        client_id,
        response_type: "code",
        redirect_uri: "https://app.example/callback",
      });
      const answer = await send(`${base}/oauth2/authorize?${query}`);
      expect(answer).toMatchObject({ status: 400, body: { error: "unauthorized_client" } });
      expect(answer.headers.get("location")).toBeNull();
    }
  });

  it.each([
    ["machine", { client_secret: "the secret of the machine, of 32" }],
    ["device", {}],
  ])("%s may use no grant of people [D-KIND-1]", async (client_id, credentials: object) => {
    for (const form of [
      { grant_type: "authorization_code", code: "code", redirect_uri: "https://app.example/callback" },
      { grant_type: "password", username: "ada", password: "the password of ada" },
    ]) {
      const body = new URLSearchParams({ client_id, ...credentials, ...form });
      const answer = await send(`${running.openid}/oauth2/token`, { method: "POST", body });
      expect(answer).toMatchObject({ status: 400, body: { error: "unauthorized_client" } });
    }
    const body = new URLSearchParams({ client_id, ...credentials, response_type: "code" });
    const pushed = await send(`${running.openid}/oauth2/par`, { method: "POST", body });
    expect(pushed).toMatchObject({ status: 400, body: { error: "unauthorized_client" } });
  });
});

describe("the metrics", () => {
  it("count token responses by grant and by the kind of the client", async () => {
    const { service } = running;
    const counted = async (): Promise<Readonly<Record<string, number>>> => {
      const lines = (await service.metrics()).matchAll(
        /^sign_in_token_responses_total\{grant_type="([^"]+)",kind="([^"]+)"\} (\d+)$/gm,
      );
      return Object.fromEntries(
        [...lines].map(([, grant, kind, count]) => [`${kind} ${grant}`, Number(count)]),
      );
    };
    const before = await counted();
    const identifier = "https://articles.example/";
    await service.directory.apis.put(identifier, { name: "A", service: "1", scopes: { read: "Read" } });
    await service.clients.update("machine", { apis: { [identifier]: ["read"] } });
    const body = new URLSearchParams({
      client_id: "machine",
      client_secret: "the secret of the machine, of 32",
      grant_type: "client_credentials",
      resource: identifier,
    });
    await send(`${running.openid}/oauth2/token`, { method: "POST", body });
    await clientAt(running, "oauth2", NEWS).signIn(ADA);
    const { refresh_token } = await app("openid").signIn(ADA);
    await app("openid").refresh(refresh_token);
    const device = clientAt(running, "openid", { ...TELEVISION, client_id: "device" });
    const codes = await device.deviceCodes();
    await connect(codes);
    await device.poll(codes);
    const after = await counted();
    const risen = Object.keys(after).filter((name) => after[name] !== before[name]);
    expect(risen.toSorted()).toEqual([
      `device ${DEVICE_GRANT}`,
      "machine client_credentials",
      "public authorization_code",
      "public refresh_token",
      "web authorization_code",
    ]);
  });
});
