import { beforeAll, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { ADA, CALLBACK, NEWS, useService } from "./running-service.ts";

/** This client uses only documented URLs, parameters and headers. */
describe("an OAuth 2.0 client that follows only the documentation", () => {
  let base: string;
  const form = "application/x-www-form-urlencoded";
  const basic = `Basic ${btoa(`${NEWS.client_id}:${NEWS.client_secret}`)}`;

  const running = useService({ deployments: (origin) => ({ oauth2: { url: `${origin}/sso` } }) });

  beforeAll(() => {
    base = running.oauth2;
  });

  async function token(body: string, authorization?: string): Promise<Record<string, unknown>> {
    const headers = {
      "content-type": form,
      ...(authorization === undefined ? {} : { authorization }),
    };
    const response = await fetch(`${base}/oauth2/token`, { method: "POST", headers, body });
    expect([response.status, response.headers.get("content-type")]).toEqual([
      200,
      "application/json; charset=utf-8",
    ]);
    return (await response.json()) as Record<string, unknown>;
  }

  async function read(path: string, access_token: unknown): Promise<Response> {
    const headers = { authorization: `Bearer ${String(access_token)}` };
    return fetch(`${base}${path}?client_id=${NEWS.client_id}`, { headers });
  }

  it("signs a user in, reads the profile, refreshes and revokes, without any scope", async () => {
    const browser = new Browser({ stopAt: CALLBACK });
    await browser.get(`${base}/oauth2/authorize?client_id=news&response_type=code&state=page%3D%2Fa%20b`);
    await browser.submit(browser.form(), { username: ADA.username, password: ADA.password });
    const back = browser.location!;
    expect([...back.searchParams.keys()]).toEqual(["code", "state"]);
    expect(back.searchParams.get("state")).toBe("page=/a b");
    const code = back.searchParams.get("code") ?? "";
    const redirect = encodeURIComponent(CALLBACK);
    const tokens = await token(`grant_type=authorization_code&code=${code}&redirect_uri=${redirect}`, basic);
    expect(Object.keys(tokens)).toEqual(["access_token", "token_type", "expires_in", "refresh_token"]);
    expect([tokens["token_type"], tokens["expires_in"]]).toEqual(["bearer", 36_000]);

    const userinfo = await read("/resources/userinfo", tokens["access_token"]);
    expect(await userinfo.json()).toEqual({ sub: running.ada.sub, email: ADA.email });
    const profile = await read("/external/profile", tokens["access_token"]);
    const { email, name, surname, date_of_birth, gender } = ADA;
    expect(await profile.json()).toEqual({
      sub: running.ada.sub,
      email,
      name,
      surname,
      date_of_birth,
      gender,
    });

    const refresh = `grant_type=refresh_token&refresh_token=${String(tokens["refresh_token"])}`;
    const byHeader = await token(refresh, basic);
    const secret = encodeURIComponent(NEWS.client_secret);
    const byForm = await token(`${refresh}&client_id=news&client_secret=${secret}`);
    expect((await read("/oauth2/revoke", tokens["access_token"])).status).toBe(200);
    expect((await read("/resources/userinfo", tokens["access_token"])).status).toBe(400);
    for (const { access_token } of [byHeader, byForm]) {
      expect((await read("/resources/userinfo", access_token)).status).toBe(200);
    }
  });

  it("signs in without a page if the user is already signed in [AUTHZ-8, INTRO-1]", async () => {
    const browser = new Browser({ stopAt: CALLBACK });
    const address = `${base}/oauth2/authorize?client_id=news&response_type=code&redirect_uri=${encodeURIComponent(CALLBACK)}`;
    await browser.get(address);
    await browser.submit(browser.form(), { username: ADA.email, password: ADA.password });
    await browser.get(address);
    expect(browser.visits.map(({ status }) => status)).toEqual([302]);
    expect([...browser.location!.searchParams.keys()]).toEqual(["code"]);
  });

  it("uses the password grant [INTRO-3, TOKEN-PASSWORD-6, AUTH-4, EP-4]", async () => {
    const { access_token } = await token(
      new URLSearchParams({
        grant_type: "password",
        client_id: NEWS.client_id,
        client_secret: NEWS.client_secret,
        username: ADA.username,
        password: ADA.password,
      }).toString(),
    );
    expect((await read("/external/profile", access_token)).status).toBe(200);
  });

  it("shows a wrong password on the form, and continues there [AUTH-1, AUTHZ-9]", async () => {
    const browser = new Browser({ stopAt: CALLBACK });
    await browser.get(`${base}/oauth2/authorize?client_id=news&response_type=code`);
    await browser.submit(browser.form(), { username: ADA.username, password: "wrong" });
    expect([browser.status, browser.location]).toEqual([400, undefined]);
    expect(browser.html).not.toContain('value="wrong"');
    await browser.submit(browser.form(), { username: ADA.username, password: ADA.password });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });
});
