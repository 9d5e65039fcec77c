import { describe, expect, it } from "@jest/globals";
import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import { readTokens, send, type TestAnswer } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { ACR_PASSWORD, KNOWN_ACRS } from "../../provider/authentication.ts";
import {
  ADA,
  BOB,
  type KnownClient,
  NEWS,
  PARTNER,
  SHOP,
  startService,
  useService,
} from "./running-service.ts";
import { expectRefusal, expectTokens } from "./token-answers.ts";

const running = useService();
const news = clientAt(running, "openid", NEWS);

function introspect(token: string, party: KnownClient = NEWS): Promise<TestAnswer> {
  return clientAt(running, "openid", party).post("/oauth2/introspect", { token });
}

describe("the discovery document", () => {
  const path = "/.well-known/openid-configuration";

  it("lists what is supported, and nothing internal or unsupported [D-DEPLOY-4, D-DEPLOY-5, D-CLAIMS-1]", async () => {
    const { body, status, headers } = await send(`${running.openid}${path}`, {
      headers: { origin: "https://app.example" },
    });
    expect(status).toBe(200);
    expect(headers.get("access-control-allow-origin")).not.toBeNull();
    const at = (rest: string): string => `${running.openid}${rest}`;
    expect(body).toMatchObject({
      issuer: running.openid,
      authorization_endpoint: at("/oauth2/authorize"),
      token_endpoint: at("/oauth2/token"),
      userinfo_endpoint: at("/oauth2/userinfo"),
      jwks_uri: at("/oauth2/jwks"),
      revocation_endpoint: at("/oauth2/revoke"),
      introspection_endpoint: at("/oauth2/introspect"),
      end_session_endpoint: at("/oauth2/logout"),
      pushed_authorization_request_endpoint: at("/oauth2/par"),
      scopes_supported: ["openid", "email", "profile", "roles"],
      response_types_supported: ["code"],
      response_modes_supported: ["query", "form_post"],
      device_authorization_endpoint: at("/oauth2/device"),
      grant_types_supported: [
        "authorization_code",
        "refresh_token",
        "client_credentials",
        "urn:ietf:params:oauth:grant-type:device_code",
        "password",
      ],
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: [
        "client_secret_basic",
        "client_secret_post",
        "private_key_jwt",
        "none",
      ],
      token_endpoint_auth_signing_alg_values_supported: ["RS256", "PS256", "ES256", "EdDSA", "Ed25519"],
      id_token_signing_alg_values_supported: ["RS256", "PS256", "ES256", "EdDSA"],
      authorization_response_iss_parameter_supported: true,
      backchannel_logout_supported: true,
      claims_parameter_supported: true,
      request_uri_parameter_supported: false,
      acr_values_supported: [...KNOWN_ACRS],
    });
    for (const absent of ["dpop_signing_alg_values_supported", "registration_endpoint"]) {
      expect(body).not.toHaveProperty(absent);
    }
    // Only a client authenticates with "none", and a request may want no page; nothing is signed with it.
    const {
      prompt_values_supported: _prompts,
      token_endpoint_auth_methods_supported: methods,
      revocation_endpoint_auth_methods_supported: atRevocation,
      introspection_endpoint_auth_methods_supported: atIntrospection,
      ...rest
    } = Object(body) as Record<string, unknown>;
    expect(atRevocation).toEqual(methods);
    expect(atIntrospection).toEqual(["client_secret_basic", "client_secret_post", "private_key_jwt"]);
    const text = JSON.stringify(rest);
    for (const internal of ['"account"', "sent_state", '"none"', "client_secret_jwt", "HS256", "fragment"]) {
      expect(text).not.toContain(internal);
    }
  });

  it("lists exactly the claims that can have a value [D-CLAIMS-1]", async () => {
    const { body } = await send(`${running.openid}${path}`);
    const supported = (body["claims_supported"] as string[]).toSorted();
    const all = JSON.stringify({
      id_token: Object.fromEntries(
        [...supported, "zoneinfo", "address", "picture"].map((name) => [name, null]),
      ),
    });
    const { accounts, directory } = running.service;
    await accounts.update(running.ada.sub, { locale: "en" });
    const settings = { name: "Shop" };
    await directory.services.put(SHOP.service, { ...settings, roles: ["buyer"] });
    await accounts.assign(running.ada.sub, SHOP.service);
    await accounts.setRoles(running.ada.sub, SHOP.service, ["buyer"]);
    const shop = clientAt(running, "openid", SHOP);
    const { id_token = "" } = await shop.signIn(ADA, { scope: "openid roles", claims: all });
    await accounts.update(running.ada.sub, { locale: null });
    await accounts.setRoles(running.ada.sub, SHOP.service, []);
    const { aud: _aud, iat: _iat, exp: _exp, ...claims } = decodeJwt(id_token);
    expect(Object.keys(claims).toSorted()).toEqual(supported);
    expect(claims["acr"]).toBe(ACR_PASSWORD);
  });

  it("is where the issuer leads clients, by RFC 8414 and by OpenID Connect Discovery [D-META-1]", async () => {
    const { origin, pathname } = new URL(running.openid);
    const issuerPath = pathname === "/" ? "" : pathname;
    const document = await send(`${running.openid}${path}`);
    for (const address of [
      `${origin}/.well-known/oauth-authorization-server${issuerPath}`,
      `${origin}/.well-known/openid-configuration${issuerPath}`,
    ]) {
      const headers = { origin: "https://app.example" };
      const answer = await send(address, { headers });
      expect([address, answer.status, answer.body]).toEqual([address, 200, document.body]);
      expect(answer.headers.get("access-control-allow-origin")).not.toBeNull();
      const preflight = await send(address, {
        method: "OPTIONS",
        headers: { ...headers, "access-control-request-method": "GET" },
      });
      expect(preflight.status).toBeLessThan(300);
      const head = await send(address, { method: "HEAD" });
      expect([head.status, head.text]).toEqual([200, ""]);
      const post = await send(address, { method: "POST" });
      expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
    }
    for (const absent of ["protected_resources", "client_id_metadata_document_supported"])
      expect(document.body).not.toHaveProperty(absent);
  });

  it("asked for at another address, is a 404 that says where it is [D-META-2]", async () => {
    const { oauth2, openid } = running;
    const origin = new URL(openid).origin;
    const issuerPath = new URL(openid).pathname.replace(/\/$/u, "");
    const advice = `the issuer is ${openid}, and its discovery document is ${openid}${path}`;
    for (const address of [
      `${oauth2}${path}`,
      `${origin}${path}`,
      `${origin}/.well-known/oauth-authorization-server`,
      `${origin}/.well-known/oauth-authorization-server${issuerPath}/`,
      `${origin}/.well-known/oauth-authorization-server${issuerPath}/other`,
      `${openid}/.well-known/oauth-authorization-server`,
      `${openid}/oauth2${path}`,
    ]) {
      if (address === `${openid}${path}`) continue;
      if (address === `${origin}/.well-known/oauth-authorization-server${issuerPath}`) continue;
      const { status, body, headers } = await send(address);
      expect([address, status, body]).toEqual([
        address,
        404,
        { error: "not_found", error_description: advice },
      ]);
      expect(headers.get("cache-control")).toBe("no-store");
    }
    // Anywhere else it is the host's own 404.
    expect((await send(`${oauth2}/.well-known/change-password`)).body).not.toHaveProperty(
      "error_description",
    );
    const alone = await startService({ deployments: (host) => ({ oauth2: { url: `${host}/login` } }) });
    expect((await send(`${alone.oauth2}${path}`)).body).toMatchObject({
      error_description: expect.stringContaining("has no OpenID Connect deployment"),
    });
    // The OAuth 2.0 deployment has no issuer, and no metadata.
    for (const other of ["oauth-authorization-server", "openid-configuration"])
      expect((await send(`${alone.origin}/.well-known/${other}/login`)).status).toBe(404);
    // What is not under a base URL belongs to the host application.
    for (const other of [path, `/shop${path}`, `/login/shop${path}`, `/loginx${path}`, `${path}/login`])
      expect([other, await send(`${alone.origin}${other}`)]).toMatchObject([
        other,
        { status: 404, body: {} },
      ]);
    for (const other of [path, `/shop${path}`, `${path}/login`])
      expect((await send(`${alone.origin}${other}`)).text).toBe("Not Found");
  });

  it("and the endpoints it lists are on openid only [D-DEPLOY-2, D-DEPLOY-3, D-DEPLOY-5]", async () => {
    const gone: [method: string, path: string][] = [
      ["GET", path],
      ["GET", "/oauth2/jwks"],
      ["POST", "/oauth2/par"],
      ["POST", "/oauth2/introspect"],
      ["GET", "/oauth2/userinfo"],
      ["GET", "/oauth2/logout"],
    ];
    const alone = await startService({ deployments: (origin) => ({ oauth2: { url: `${origin}/login` } }) });
    for (const base of [running.oauth2, alone.oauth2]) {
      for (const [method, rest] of gone) {
        expect((await send(`${base}${rest}`, { method })).status).toBe(404);
      }
    }
    const party = clientAt(alone, "oauth2", NEWS);
    const { location } = await party.authorize(ADA, { scope: "openid", state: "s" });
    expect([...location.searchParams.keys()]).toEqual(["code", "state"]);
    expectTokens(await party.exchange(location.searchParams.get("code") ?? ""));
  });

  it("leads to the public keys of the ID tokens; both allow CORS [D-DEPLOY-8]", async () => {
    const jwks = await send(`${running.openid}/oauth2/jwks`, { headers: { origin: "https://app.example" } });
    expect(jwks.headers.get("access-control-allow-origin")).not.toBeNull();
    const keys = jwks.body["keys"] as Record<string, unknown>[];
    for (const key of keys) for (const secret of ["d", "p", "q", "k"]) expect(key).not.toHaveProperty(secret);
    const { id_token = "" } = await news.signIn(ADA, { scope: "openid" });
    const keySet = createRemoteJWKSet(new URL(`${running.openid}/oauth2/jwks`));
    const { protectedHeader } = await jwtVerify(id_token, keySet, {
      issuer: running.openid,
      audience: "news",
    });
    expect(protectedHeader).toMatchObject({ alg: "RS256", kid: keys[0]?.["kid"] });
    for (const rest of [path, "/oauth2/jwks"]) {
      const headers = { origin: "https://app.example", "access-control-request-method": "GET" };
      const { status } = await send(`${running.openid}${rest}`, { method: "OPTIONS", headers });
      expect(status).toBeLessThan(300);
    }
    const userinfo = await news.bearer("/oauth2/userinfo", "x", {
      headers: { origin: "https://app.example" },
    });
    expect(userinfo.headers.get("access-control-allow-origin")).toBeNull();
  });
});

describe("claims", () => {
  it("of the ID token are those of openid and the claims parameter, acr and amr [D-DEPLOY-6, RES-ID-2]", async () => {
    const plain = decodeJwt((await news.signIn(ADA, { scope: "openid" })).id_token ?? "");
    const times = { iat: expect.any(Number), exp: expect.any(Number) };
    expect(plain).toEqual({
      iss: running.openid,
      sub: running.ada.sub,
      aud: NEWS.client_id,
      email: ADA.email,
      acr: expect.any(String),
      amr: ["pwd"],
      sid: expect.any(String),
      ...times,
    });
    const claims = JSON.stringify({
      id_token: { birthdate: null, auth_time: { essential: true }, unknown: null, locale: null },
      userinfo: { given_name: null },
    });
    const tokens = await news.signIn(ADA, { scope: "openid", claims });
    expect(decodeJwt(tokens.id_token ?? "")).toEqual({
      ...plain,
      ...times,
      sid: expect.any(String),
      birthdate: ADA.date_of_birth,
      auth_time: expect.any(Number),
    });
    const { body } = await news.bearer("/oauth2/userinfo", tokens.access_token);
    expect(body).toEqual({ sub: running.ada.sub, email: ADA.email, given_name: ADA.name });
  });

  it.each([
    [{ name: "Grace", surname: "Hopper" }, "Grace Hopper"],
    [{ name: "Grace" }, "Grace"],
    [{ surname: "Hopper" }, "Hopper"],
    [{}, undefined],
  ])(
    "have the full name of %j as the standard name, %j, and the given name as the documented one [D-CLAIMS-1]",
    async (names, full) => {
      const person = { username: `name${Object.keys(names).join("")}`, password: "the password of somebody" };
      await running.service.accounts.create({ ...person, email: `${person.username}@example.com`, ...names });
      const { access_token } = await news.signIn(person, { scope: "openid profile" });
      const { body } = await news.bearer("/oauth2/userinfo", access_token);
      expect(body["name"]).toBe(full);
      const documented = (await news.profile(access_token)).body;
      expect(documented["name"]).toBe((names as { name?: string }).name ?? null);
    },
  );

  it("ignore unknown acr_values [D-CLAIMS-1, D-DEPLOY-6]", async () => {
    for (const acr_values of [ACR_PASSWORD, "unknown", `unknown ${ACR_PASSWORD}`]) {
      const { id_token = "" } = await news.signIn(ADA, { scope: "openid", acr_values });
      expect(decodeJwt(id_token)["acr"]).toBe(ACR_PASSWORD);
    }
  });

  it("without a value are left out of the standard responses [D-DEPLOY-6]", async () => {
    const { access_token } = await news.signIn(BOB, { scope: "openid email profile" });
    const { body } = await news.bearer("/oauth2/userinfo", access_token);
    expect(body).toEqual({
      sub: running.bob.sub,
      email: BOB.email,
      email_verified: false,
      preferred_username: BOB.username,
      updated_at: expect.any(Number),
    });
  });

  it("are in an ID token of the password grant with scope openid, on openid only [D-TOKEN-15]", async () => {
    const answer = await news.password(ADA, { scope: "openid" });
    expectTokens(answer, ["id_token"]);
    const { sub, email, amr } = decodeJwt(String(answer.body["id_token"]));
    expect([sub, email, amr]).toEqual([running.ada.sub, ADA.email, ["pwd"]]);
    expectTokens(await news.refresh(String(answer.body["refresh_token"])), ["id_token"]);
    expectTokens(await news.password(ADA));
    expectTokens(await clientAt(running, "oauth2", NEWS).password(ADA, { scope: "openid" }));
  });
});

describe("the standard userinfo and introspection", () => {
  it("say of a client's own tokens how the person signed in [D-API-12]", async () => {
    const before = Math.floor(Date.now() / 1000);
    const shown = { active: true, sub: running.ada.sub, acr: ACR_PASSWORD, amr: ["pwd"] };
    for (const scope of [undefined, "openid", "email"]) {
      const signedIn = await news.signIn(ADA, { scope });
      const refreshed = readTokens(await news.refresh(signedIn.refresh_token));
      const granted = readTokens(await news.password(ADA, { scope }));
      for (const { access_token, refresh_token } of [signedIn, refreshed, granted])
        for (const token of [access_token, refresh_token]) {
          const { body } = await introspect(token);
          expect(body).toMatchObject(shown);
          expect(body["auth_time"]).toBeGreaterThanOrEqual(before);
        }
    }
  });

  it("respond to invalid tokens with 401, and to other clients' tokens as unknown [D-DEPLOY-4, D-DEPLOY-8]", async () => {
    const userinfo = `${running.openid}/oauth2/userinfo`;
    const { access_token, refresh_token } = await news.signIn(ADA, { scope: "openid" });
    const authorization = `Bearer ${access_token}`;
    for (const method of ["GET", "POST"]) {
      const { status, body } = await send(userinfo, { method, headers: { authorization } });
      expect([status, body["sub"]]).toEqual([200, running.ada.sub]);
      const bad = await send(userinfo, { method, headers: { authorization: "Bearer unknown" } });
      expectRefusal(bad, "invalid_token", 401);
      expect(bad.headers.get("www-authenticate")).toContain('error="invalid_token"');
    }
    for (const token of [access_token, refresh_token]) {
      expect((await introspect(token)).body["active"]).toBe(true);
      expect((await introspect(token, PARTNER)).body).toEqual({ active: false });
    }
    expect((await introspect("unknown")).body).toEqual({ active: false });
    expectRefusal(await introspect(access_token, { ...NEWS, client_secret: "wrong" }), "invalid_client");
  });
});
