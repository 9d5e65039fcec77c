import { describe, expect, it } from "@jest/globals";
import { ACCOUNT_CLIENT } from "../../accounts/clients/client.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { send } from "../../testing/test-client.ts";
import { signIn } from "./clients.ts";
import { useService } from "./running-service.ts";

/** A browser in front of the callback, with the address that it was sent to. */
async function atCallback(base: string): Promise<{ readonly browser: Browser; readonly location: URL }> {
  const browser = new Browser({ stopAt: `${base}/account/callback` });
  await browser.get(`${base}/account?tab=1`);
  await signIn(browser);
  if (browser.location === undefined) throw new Error("no redirect to the callback");
  return { browser, location: browser.location };
}

const running = useService();

describe("the callback of the account pages", () => {
  it("refuses a state of another browser, and shows no code", async () => {
    const base = running.oauth2;
    const { browser, location } = await atCallback(base);
    const code = location.searchParams.get("code") ?? "";
    const state = location.searchParams.get("state") ?? "";
    const foreign = (await atCallback(base)).location.searchParams.get("state") ?? "";
    for (const wrong of [
      { code, state: foreign },
      { code, state: "" },
      { code, state: "/account" },
      { code, state: "https://evil.example/" },
      { code, state: `${state}A` },
      { code },
      { state },
      { state, error: "access_denied" },
    ]) {
      const query = new URLSearchParams(Object.entries(wrong));
      await browser.getOnly(`${base}/account/callback?${query}`);
      expect([browser.status, browser.location?.href]).toEqual([303, `${base}/account/callback`]);
    }
    await new Browser().get(`${base}/account/callback?${new URLSearchParams({ code, state })}`);
    const lost = await new Browser().get(location);
    expect([lost.status, lost.url.href, lost.title]).toEqual([
      400,
      `${base}/account/callback`,
      "Please start again",
    ]);
    await lost.click("Go to your account");
    expect(lost.title).toBe("Sign in");
    await browser.get(location);
    expect([browser.status, browser.url.href]).toEqual([200, `${base}/account?tab=1`]);
  });

  it("is the only redirect address of the internal client", async () => {
    for (const redirect_uri of ["https://evil.example/", `${running.oauth2}/account`, "/account/callback"]) {
      const query = new URLSearchParams({ client_id: ACCOUNT_CLIENT, response_type: "code", redirect_uri });
      const { status, headers } = await send(`${running.openid}/oauth2/authorize?${query}`);
      expect([status, headers.get("location")]).toEqual([400, null]);
    }
  });
});

describe("the internal client", () => {
  it("can't authenticate at any endpoint, with any secret [D-DEPLOY-14]", async () => {
    const { location } = await atCallback(running.openid);
    const code = location.searchParams.get("code") ?? "";
    const verifier = "v".repeat(43);
    const redirect_uri = `${running.openid}/account/callback`;
    for (const secret of ["", "x", "account", "kept-as-a-keyed-digest", "undefined", "null"]) {
      const form = { grant_type: "authorization_code", code, redirect_uri, code_verifier: verifier };
      for (const path of ["/oauth2/token", "/oauth2/introspect", "/oauth2/par", "/oauth2/revoke"]) {
        const body = (more: Record<string, string>): string =>
          new URLSearchParams({ ...form, token: "x", response_type: "code", ...more }).toString();
        const type = { "content-type": "application/x-www-form-urlencoded" };
        const basic = { authorization: `Basic ${Buffer.from(`account:${secret}`).toString("base64")}` };
        for (const init of [
          { body: body({}), headers: { ...type, ...basic } },
          { body: body({ client_id: ACCOUNT_CLIENT, client_secret: secret }), headers: type },
          { body: body({ client_id: ACCOUNT_CLIENT }), headers: type },
        ]) {
          const answer = await send(running.openid + path, { method: "POST", ...init });
          expect([path, answer.status, answer.body["error"]]).toEqual([path, 400, "invalid_client"]);
        }
      }
    }
  });

  it("assigns users to no service", async () => {
    const person = { username: "frank", password: "the password of frank" };
    const { sub } = await running.service.accounts.create({ email: "frank@example.com", ...person });
    const browser = await new Browser().get(`${running.openid}/account`);
    await signIn(browser, person);
    expect(browser.title).toBe("Your account");
    await expect(running.service.accounts.find(sub)).resolves.toMatchObject({ services: {} });
  });
});
