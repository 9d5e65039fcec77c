import { describe, expect, it } from "@jest/globals";
import {
  basic,
  readTokens,
  type RequestParameters,
  send,
  type TestAnswer,
} from "../../testing/test-client.ts";
import { atBoth } from "./clients.ts";
import { ADA, BOB, CALLBACK, NEWS, useService } from "./running-service.ts";
import { expectRefusal, expectTokens } from "./token-answers.ts";

const KINDS = ["oauth2", "openid"] as const;

const running = useService();
const news = atBoth(running, NEWS);

describe.each(KINDS)("the token endpoint, %s", (kind) => {
  it("serves the three grants with the documented members", async () => {
    const exchanged = await news[kind].exchange(await news[kind].code(ADA));
    expectTokens(exchanged);
    const { refresh_token, access_token } = readTokens(exchanged);
    const refreshed = await news[kind].refresh(refresh_token);
    expectTokens(refreshed);
    expect(readTokens(refreshed).refresh_token).toBe(refresh_token);
    expect(readTokens(refreshed).access_token).not.toBe(access_token);
    const password = await news[kind].password(ADA);
    expectTokens(password);
    const again = await news[kind].refresh(readTokens(password).refresh_token);
    expectTokens(again);
    for (const answer of [exchanged, refreshed, password, again]) {
      const { status, body } = await news[kind].userinfo(readTokens(answer).access_token);
      expect([status, body["sub"]]).toEqual([200, running.ada.sub]);
    }
  });

  it("accepts forms of at most 64 KiB [EP-1, TOKEN-CODE-1, D-TOKEN-8]", async () => {
    const { refresh_token } = await news[kind].signIn(ADA);
    const good = `grant_type=refresh_token&refresh_token=${refresh_token}&x=`;
    const post = (body: string): Promise<TestAnswer> => {
      const type = "application/x-www-form-urlencoded; charset=UTF-8";
      const headers = { authorization: basic(NEWS), "content-type": type };
      return send(`${news[kind].base}/oauth2/token`, { method: "POST", headers, body });
    };
    expectTokens(await post(good.padEnd(65_536, "&")));
    expectRefusal(await post(good.padEnd(65_537, "&")), "invalid_request");
  });

  it("ignores the query [RES-CLIENT-2, EP-1]", async () => {
    const { client_id, client_secret } = NEWS;
    const query = new URLSearchParams({ grant_type: "password", client_id, client_secret });
    const answer = await send(`${news[kind].base}/oauth2/token?${query}`, {
      method: "POST",
      body: new URLSearchParams({ username: ADA.username, password: ADA.password }),
    });
    expectRefusal(answer, "invalid_client");
  });

  it("ignores the Origin, and always responds with JSON [D-DEPLOY-8, EP-2]", async () => {
    const { username, password } = ADA;
    const authorization = basic(NEWS);
    const headers = { authorization, origin: "https://app.example", accept: "text/html" };
    const answer = await news[kind].token({ grant_type: "password", username, password }, headers);
    expectTokens(answer);
    expect(answer.headers.get("access-control-allow-origin")).toBeNull();
    expectRefusal(await news[kind].token({ grant_type: "x" }, headers), "unsupported_grant_type");
  });

  const code = "x".repeat(43);
  const wrong: [error: string, form: RequestParameters][] = [
    ["invalid_request", {}],
    ["invalid_request", { grant_type: "" }],
    ["unauthorized_client", { grant_type: "client_credentials" }],
    ["unsupported_grant_type", { grant_type: "implicit" }],
    ["unsupported_grant_type", { grant_type: "Password" }],
    ["invalid_request", { grant_type: "authorization_code", redirect_uri: CALLBACK }],
    ["invalid_request", { grant_type: "authorization_code", redirect_uri: CALLBACK, code: "" }],
    ["invalid_request", { grant_type: "authorization_code", code }],
    ["invalid_request", { grant_type: "authorization_code", code, redirect_uri: "" }],
    ["invalid_grant", { grant_type: "authorization_code", code, redirect_uri: CALLBACK }],
    ["invalid_grant", { grant_type: "authorization_code", code: "ž", redirect_uri: CALLBACK }],
    ["invalid_request", { grant_type: "refresh_token" }],
    ["invalid_request", { grant_type: "refresh_token", refresh_token: "" }],
    ["invalid_grant", { grant_type: "refresh_token", refresh_token: code }],
    ["invalid_request", { grant_type: "password" }],
    ["invalid_request", { grant_type: "password", username: "ada" }],
    ["invalid_request", { grant_type: "password", password: "x" }],
    ["invalid_request", { grant_type: "password", username: "", password: "" }],
    ["invalid_grant", { grant_type: "password", username: "ada", password: "wrong" }],
    ["invalid_grant", { grant_type: "password", username: "nobody", password: "wrong" }],
  ];
  it.each(wrong)("responds with %s to %j", async (error, form) => {
    expectRefusal(await news[kind].token(form), error);
  });

  it("does not distinguish a wrong password from an unknown user, and accepts the e-mail address as username [D-TOKEN-15]", async () => {
    const wrongPassword = await news[kind].password({ username: ADA.username, password: "wrong" });
    const unknown = await news[kind].password({ username: "nobody@example.com", password: "wrong" });
    expect(wrongPassword.text).toBe(unknown.text);
    expectTokens(await news[kind].password({ username: ADA.email, password: ADA.password }));
    expectTokens(await news[kind].password({ username: "ＢＯＢ", password: BOB.password }));
  });
});
