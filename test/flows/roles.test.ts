/** Roles in ID tokens, userinfo and tokens for APIs: who sees them, and when they are gone. */
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import { readTokens, send, type TestClient, type TestTokens } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import { ADA, NEWS, PARTNER, SHOP, useService } from "./running-service.ts";

const OPAQUE = "https://articles.example/";
const JWT = "https://videos.example/";
const READER = { client_id: "reader", client_secret: "the secret of a machine, of 32 and more" };
const SCOPES = { "articles:read": "Read your articles" };
const ROLES = ["editor", "author"];

const running = useService();
const news = clientAt(running, "openid", NEWS);
const shop = clientAt(running, "openid", SHOP);

beforeAll(async () => {
  const { clients, directory } = running.service;
  await clients.register({ ...READER, kind: "machine", name: "Articles", service: "1" });
  for (const [identifier, tokens] of [
    [OPAQUE, "opaque"],
    [JWT, "jwt"],
  ] as const) {
    const api = { name: identifier, service: "1", scopes: SCOPES, tokens, introspection: ["reader"] };
    await directory.apis.put(identifier, { ...api, lifetime: 300 });
  }
  for (const { client_id } of [NEWS, SHOP, PARTNER])
    await clients.update(client_id, { apis: { [OPAQUE]: ["articles:read"], [JWT]: ["articles:read"] } });
});
beforeEach(async () => {
  const { accounts, directory } = running.service;
  for (const key of ["1", "2"]) await directory.services.put(key, { name: `Service ${key}`, roles: ROLES });
  await accounts.unassign(running.ada.sub, ["1", "2", "3"]);
  await accounts.assign(running.ada.sub, "1");
  await accounts.setRoles(running.ada.sub, "1", ["editor"]);
});

async function standardUserinfo(token = ""): Promise<Readonly<Record<string, unknown>>> {
  const { body } = await send(`${running.openid}/oauth2/userinfo`, {
    headers: { authorization: `Bearer ${token}` },
  });
  return body;
}
const rolesIn = (token = ""): unknown => decodeJwt(token)["roles"];

async function introspected(token: string): Promise<unknown> {
  const { body } = await clientAt(running, "openid", READER).post("/oauth2/introspect", { token });
  expect(body["active"]).toBe(true);
  return body["roles"];
}

async function apiToken(party: TestClient, resource: string): Promise<string> {
  const { access_token } = await party.signIn(ADA, { scope: "articles:read", resource });
  return access_token;
}

describe("the scope roles", () => {
  it("gives clients of the service the roles in the ID token and in standard userinfo [D-ROLE-2]", async () => {
    const { id_token, access_token, refresh_token } = await news.signIn(ADA, { scope: "openid roles" });
    expect(rolesIn(id_token)).toEqual(["editor"]);
    expect((await standardUserinfo(access_token))["roles"]).toEqual(["editor"]);
    await running.service.accounts.setRoles(running.ada.sub, "1", ["author"]);
    expect((await standardUserinfo(access_token))["roles"]).toEqual(["author"]);
    const { body } = await news.refresh(refresh_token);
    expect(rolesIn(String(body["id_token"]))).toEqual(["author"]);
  });

  it("is needed: neither openid nor the claims parameter gives roles [D-ROLE-2]", async () => {
    const claims = JSON.stringify({ id_token: { roles: null }, userinfo: { roles: { essential: true } } });
    for (const more of [{}, { claims }]) {
      const { id_token, access_token } = await news.signIn(ADA, { scope: "openid email profile", ...more });
      expect(rolesIn(id_token)).toBeUndefined();
      expect(await standardUserinfo(access_token)).not.toHaveProperty("roles");
    }
  });

  it("gives a client of another service only the roles there [D-ROLE-2]", async () => {
    const { id_token, access_token } = await shop.signIn(ADA, { scope: "openid roles" });
    expect(rolesIn(id_token)).toBeUndefined();
    expect(await standardUserinfo(access_token)).not.toHaveProperty("roles");
    await running.service.accounts.setRoles(running.ada.sub, "2", ["author"]);
    expect((await standardUserinfo(access_token))["roles"]).toEqual(["author"]);
  });

  it("gives no role that the service no longer has, and none of an earlier assignment", async () => {
    const { accounts, directory } = running.service;
    const { access_token } = await news.signIn(ADA, { scope: "openid roles" });
    await directory.services.put("1", { name: "Service 1", roles: ["author"] });
    expect(await standardUserinfo(access_token)).not.toHaveProperty("roles");
    await directory.services.put("1", { name: "Service 1", roles: ROLES });
    await accounts.unassign(running.ada.sub, "1");
    const { id_token } = await news.signIn(ADA, { scope: "openid roles" });
    expect(rolesIn(id_token)).toBeUndefined();
  });

  it("is left out on oauth2 [D-ROLE-2]", async () => {
    const party = clientAt(running, "oauth2", NEWS);
    const { access_token } = await party.signIn(ADA, { scope: "roles email" });
    const { status, body } = await party.userinfo(access_token);
    expect([status, Object.keys(body)]).toEqual([200, ["sub", "email"]]);
    expect(await standardUserinfo(access_token)).not.toHaveProperty("roles");
  });

  it("is in the ID token of the password grant", async () => {
    const { body } = await clientAt(running, "openid", NEWS).post("/oauth2/token", {
      grant_type: "password",
      username: ADA.username,
      password: ADA.password,
      scope: "openid roles",
    });
    expect(rolesIn(String(body["id_token"]))).toEqual(["editor"]);
  });

  it("is a field that a third party has to ask for", async () => {
    const browser = clientAt(running, "openid", PARTNER).browser();
    await browser.get(clientAt(running, "openid", PARTNER).authorizeUrl({ scope: "openid roles" }));
    await signIn(browser);
    expect(browser.html).toContain("Roles");
  });
});

describe("a token for an API", () => {
  it.each([JWT, OPAQUE])("of the client's service has the roles there: %s [D-ROLE-3]", async (resource) => {
    const token = await apiToken(news, resource);
    expect(resource === JWT ? rolesIn(token) : await introspected(token)).toEqual(["editor"]);
  });

  it("has the roles of the API's service for a first party of another one [D-ROLE-3]", async () => {
    await running.service.accounts.assign(running.ada.sub, "2");
    await running.service.accounts.setRoles(running.ada.sub, "2", ["author"]);
    expect(rolesIn(await apiToken(shop, JWT))).toEqual(["editor"]);
    expect(await introspected(await apiToken(shop, OPAQUE))).toEqual(["editor"]);
  });

  it("has them for a third party to whom the person allowed this API by name [D-API-11, D-ROLE-3]", async () => {
    const partner = clientAt(running, "openid", PARTNER);
    const consented = async (scope: string, resource?: string): Promise<TestTokens> => {
      const browser = partner.browser();
      await browser.get(partner.authorizeUrl({ scope, ...(resource !== undefined && { resource }) }));
      await signIn(browser);
      if (browser.hasForm("decision")) {
        if (resource !== undefined) expect(browser.html).toContain(`In ${resource}, Partner may:`);
        await browser.submit(browser.form("decision"), { decision: "allow" });
      }
      return await partner.tokensOf(browser);
    };
    const { access_token, refresh_token } = await consented("articles:read", JWT);
    expect(decodeJwt(access_token)).toMatchObject({ aud: JWT, client_id: PARTNER.client_id });
    expect(rolesIn(access_token)).toEqual(["editor"]);
    await running.service.accounts.setRoles(running.ada.sub, "1", ["author"]);
    expect(rolesIn(readTokens(await partner.refresh(refresh_token)).access_token)).toEqual(["author"]);
    // The roles in the client's own service are another matter.
    expect(rolesIn((await consented("openid roles")).id_token)).toBeUndefined();
  });

  it("is introspected with the current roles [D-ROLE-3, D-API-12]", async () => {
    const token = await apiToken(news, OPAQUE);
    await running.service.accounts.setRoles(running.ada.sub, "1", []);
    expect(await introspected(token)).toBeUndefined();
  });

  it("of a machine has none", async () => {
    const { clients } = running.service;
    await clients.update("reader", { apis: { [JWT]: ["articles:read"] } });
    const { body } = await clientAt(running, "openid", READER).post("/oauth2/token", {
      grant_type: "client_credentials",
      resource: JWT,
    });
    expect(rolesIn(String(body["access_token"]))).toBeUndefined();
  });
});
