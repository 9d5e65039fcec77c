import { describe, expect, it } from "@jest/globals";
import { calculatePKCECodeChallenge, randomPKCECodeVerifier } from "openid-client";
import { DEVICE_GRANT } from "../../accounts/clients/client-kinds.ts";
import { send } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { ADA, NEWS, useService } from "./running-service.ts";

describe("profile strict", () => {
  const running = useService({ config: { profile: "strict" } });
  const news = clientAt(running, "openid", NEWS);

  it("logs at start-up what it turns off [D-RUN-4]", () => {
    expect(running.log.join("")).toMatch(/strict: password grant, GET revoke and codes without PKCE/);
  });

  it("refuses the password grant with a 4xx [D-RUN-4]", async () => {
    const { username, password } = ADA;
    const answer = await news.token({ grant_type: "password", username, password });
    expect([answer.status, answer.body["error"]]).toEqual([400, "unsupported_grant_type"]);
  });

  it("is in discovery: no password grant, and every other one", async () => {
    const { body } = await send(`${running.openid}/.well-known/openid-configuration`);
    expect(body["grant_types_supported"]).toEqual([
      "authorization_code",
      "refresh_token",
      "client_credentials",
      DEVICE_GRANT,
    ]);
  });

  it("refuses codes without PKCE, at both deployments and for pushed requests [D-RUN-4]", async () => {
    for (const base of [running.oauth2, running.openid]) {
      const url = clientAt({ oauth2: base, openid: base }, "openid", NEWS).authorizeUrl();
      const answer = await send(url);
      expect([answer.status, answer.body["error"], answer.headers.get("location")]).toEqual([
        400,
        "invalid_request",
        null,
      ]);
    }
    const pushed = await news.post("/oauth2/par", {
      response_type: "code",
      redirect_uri: news.redirect_uri,
    });
    expect([pushed.status, pushed.body["error"]]).toEqual([400, "invalid_request"]);
  });

  it("accepts codes with PKCE, and revokes by POST only [D-RUN-4]", async () => {
    const code_verifier = randomPKCECodeVerifier();
    const code_challenge = await calculatePKCECodeChallenge(code_verifier);
    const code = await news.code(ADA, { code_challenge, code_challenge_method: "S256" });
    const { body } = await news.token({
      grant_type: "authorization_code",
      code,
      redirect_uri: news.redirect_uri,
      code_verifier,
    });
    const headers = { authorization: `Bearer ${String(body["access_token"])}` };
    const address = `${running.openid}/oauth2/revoke?client_id=${NEWS.client_id}`;
    const byGet = await send(address, { headers });
    expect([byGet.status, byGet.body["error"]]).toEqual([400, "invalid_request"]);
    const byPost = await send(address, { method: "POST", headers });
    expect([byPost.status, byPost.body]).toEqual([200, {}]);
    expect((await send(address, { method: "POST", headers })).status).toBe(400);
  });
});
