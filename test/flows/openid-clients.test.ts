import { describe, expect, it } from "@jest/globals";
import * as oauth from "oauth4webapi";
import * as client from "openid-client";
import { clientAt, signIn } from "./clients.ts";
import { ADA, CALLBACK, type KnownClient, NEWS, SHOP, useService } from "./running-service.ts";

const running = useService();
const news = clientAt(running, "openid", NEWS);

/** openid-client with only the issuer and the client's registration. */
function discovered(
  { client_id, client_secret }: KnownClient = NEWS,
  authentication: client.ClientAuth = client.ClientSecretBasic(client_secret),
): Promise<client.Configuration> {
  return client.discovery(new URL(running.openid), client_id, undefined, authentication, {
    execute: [client.allowInsecureRequests],
  });
}

/** A request with PKCE, nonce and state. */
async function protectedRequest(scope = "openid email profile") {
  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const [expectedNonce, expectedState] = [client.randomNonce(), client.randomState()];
  return {
    checks: { pkceCodeVerifier, expectedNonce, expectedState, idTokenExpected: true },
    parameters: {
      redirect_uri: CALLBACK,
      scope,
      nonce: expectedNonce,
      state: expectedState,
      code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: "S256",
    },
  };
}

/** Opens an address, signs in if there is a form, and returns the redirect to the client. */
async function visit(address: URL, browser = news.browser()): Promise<URL> {
  await browser.get(address);
  if (browser.html.includes('name="password"')) {
    await signIn(browser);
  }
  return browser.location!;
}

describe("openid-client with only the issuer", () => {
  const styles = [client.ClientSecretBasic, client.ClientSecretPost];
  it.each(styles)("signs in, reads userinfo, refreshes, introspects and revokes, by $name", async (style) => {
    const config = await discovered(NEWS, style(NEWS.client_secret));
    const { checks, parameters } = await protectedRequest();
    const location = await visit(client.buildAuthorizationUrl(config, parameters));
    const tokens = await client.authorizationCodeGrant(config, location, checks);
    expect(tokens.claims()).toMatchObject({
      iss: running.openid,
      sub: running.ada.sub,
      aud: NEWS.client_id,
      email: ADA.email,
      nonce: parameters.nonce,
    });
    expect(await client.fetchUserInfo(config, tokens.access_token, running.ada.sub)).toEqual({
      sub: running.ada.sub,
      email: ADA.email,
      email_verified: true,
      name: "Ada Lovelace",
      given_name: ADA.name,
      family_name: ADA.surname,
      birthdate: ADA.date_of_birth,
      gender: ADA.gender,
      preferred_username: ADA.username,
      updated_at: expect.any(Number),
    });
    const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token ?? "");
    expect(refreshed.claims()?.sub).toBe(running.ada.sub);
    expect(await client.tokenIntrospection(config, refreshed.access_token)).toMatchObject({
      active: true,
      sub: running.ada.sub,
      client_id: NEWS.client_id,
    });
    await client.tokenRevocation(config, refreshed.access_token);
    expect(await client.tokenIntrospection(config, refreshed.access_token)).toEqual({ active: false });
    await client.tokenRevocation(config, tokens.refresh_token ?? "");
    await expect(client.refreshTokenGrant(config, tokens.refresh_token ?? "")).rejects.toMatchObject({
      error: "invalid_grant",
    });
    await expect(client.fetchUserInfo(config, tokens.access_token, running.ada.sub)).rejects.toMatchObject({
      status: 401,
    });
  });

  it("works with a generated client_id and Basic [D-DEPLOY-4, D-TOKEN-6]", async () => {
    const { client_id: _chosen, client_secret: _secret, ...settings } = NEWS;
    const made = await running.service.clients.register(settings);
    const config = await discovered({ ...NEWS, ...made });
    const { checks, parameters } = await protectedRequest();
    const location = await visit(await client.buildAuthorizationUrlWithPAR(config, parameters));
    const tokens = await client.authorizationCodeGrant(config, location, checks);
    const introspected = await client.tokenIntrospection(config, tokens.access_token);
    expect(introspected).toMatchObject({ active: true, client_id: made.client_id });
    await client.tokenRevocation(config, tokens.access_token);
    expect(await client.tokenIntrospection(config, tokens.access_token)).toEqual({ active: false });
  });

  it("pushes its request, and receives the response by form post [D-DEPLOY-4, D-AUTHZ-5, D-AUTHZ-6]", async () => {
    const config = await discovered();
    const { checks, parameters } = await protectedRequest("openid");
    const pushed = await client.buildAuthorizationUrlWithPAR(config, parameters);
    expect([...pushed.searchParams.keys()].toSorted()).toEqual(["client_id", "request_uri"]);
    const tokens = await client.authorizationCodeGrant(config, await visit(pushed), checks);
    expect(tokens.claims()?.nonce).toBe(parameters.nonce);
    const second = await protectedRequest("openid");
    const address = client.buildAuthorizationUrl(config, {
      ...second.parameters,
      response_mode: "form_post",
    });
    const browser = news.browser();
    await visit(address, browser);
    const { action, fields } = browser.form();
    const posted = new Request(action, {
      method: "POST",
      body: new URLSearchParams(fields.map(([name, value]) => [name, value])),
    });
    const answer = await client.authorizationCodeGrant(config, posted, second.checks);
    expect(answer.claims()?.sub).toBe(running.ada.sub);
  });

  it("gets the errors [D-AUTHZ-8, D-TOKEN-3]", async () => {
    const config = await discovered();
    const { checks, parameters } = await protectedRequest();
    const address = client.buildAuthorizationUrl(config, { ...parameters, prompt: "none" });
    const location = await visit(address);
    await expect(client.authorizationCodeGrant(config, location, checks)).rejects.toMatchObject({
      error: "login_required",
    });
    const wrong = await discovered({ ...NEWS, client_secret: "wrong" });
    await expect(client.refreshTokenGrant(wrong, "x")).rejects.toMatchObject({ error: "invalid_client" });
    const shop = await discovered({ ...SHOP, client_secret: "wrong" });
    await expect(client.refreshTokenGrant(shop, "x")).rejects.toMatchObject({ status: 401 });
  });
});

describe("oauth4webapi with only the issuer", () => {
  it("finds its metadata as RFC 8414 says [D-META-1]", async () => {
    const issuer = new URL(running.openid);
    const options = { algorithm: "oauth2", [oauth.allowInsecureRequests]: true } as const;
    const response = await oauth.discoveryRequest(issuer, options);
    expect(new URL(response.url).pathname).toMatch(/^\/\.well-known\/oauth-authorization-server/);
    const server = await oauth.processDiscoveryResponse(issuer, response);
    expect(server).toMatchObject({
      authorization_response_iss_parameter_supported: true,
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: expect.arrayContaining(["none", "private_key_jwt"]),
      scopes_supported: expect.arrayContaining(["openid"]),
    });
    const { client_id, client_secret } = NEWS;
    const config = await client.discovery(
      issuer,
      client_id,
      undefined,
      client.ClientSecretBasic(client_secret),
      {
        algorithm: "oauth2",
        execute: [client.allowInsecureRequests],
      },
    );
    expect(config.serverMetadata().token_endpoint).toBe(server.token_endpoint);
  });

  it("signs in with PKCE and reads userinfo [AUTH-8, D-DEPLOY-4, D-DEPLOY-6]", async () => {
    const options = { [oauth.allowInsecureRequests]: true };
    const issuer = new URL(running.openid);
    const discovery = await oauth.discoveryRequest(issuer, { algorithm: "oidc", ...options });
    const server = await oauth.processDiscoveryResponse(issuer, discovery);
    const party: oauth.Client = { client_id: NEWS.client_id };
    const authentication = oauth.ClientSecretBasic(NEWS.client_secret);
    const { checks, parameters } = await protectedRequest("openid");
    const address = new URL(server.authorization_endpoint ?? "");
    address.search = new URLSearchParams({
      client_id: NEWS.client_id,
      response_type: "code",
      ...parameters,
    }).toString();
    const location = await visit(address);
    const back = oauth.validateAuthResponse(server, party, location, checks.expectedState);
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      party,
      authentication,
      back,
      CALLBACK,
      checks.pkceCodeVerifier,
      options,
    );
    const tokens = await oauth.processAuthorizationCodeResponse(server, party, response, {
      expectedNonce: checks.expectedNonce,
      requireIdToken: true,
    });
    await oauth.validateApplicationLevelSignature(server, response, options);
    const sub = oauth.getValidatedIdTokenClaims(tokens)?.sub ?? "";
    const userinfo = await oauth.userInfoRequest(server, party, tokens.access_token, options);
    expect(await oauth.processUserInfoResponse(server, party, sub, userinfo)).toEqual({
      sub: running.ada.sub,
      email: ADA.email,
    });
  });
});
