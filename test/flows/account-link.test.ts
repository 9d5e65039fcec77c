/** Every error page links to the account page. */
import { describe, expect, it } from "@jest/globals";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { clientAt, signIn } from "./clients.ts";
import { NEWS, startService, useService } from "./running-service.ts";

const KINDS: readonly DeploymentKind[] = ["oauth2", "openid"];
const LINK = "Go to your account";
const browser = (): Browser =>
  clientAt(running, "oauth2", NEWS).browser({ headers: { accept: "text/html" } });

const running = useService();

describe.each(KINDS)("at %s", (kind) => {
  it.each([
    ["a sign-in that is gone", "/interaction/gone", 400, "Your browser sent no cookies"],
    ["the end of a sign-in that never was", "/account/callback", 400, "Please start again"],
    ["a request of an unknown client", "/oauth2/authorize?client_id=x", 400, "We don’t know this service"],
    ["a request that was interrupted", "/oauth2/authorize/gone", 400, "Your browser sent no cookies"],
    [
      "a foreign redirect address",
      "/oauth2/authorize?client_id=news&response_type=code&redirect_uri=https://evil.example",
      400,
      "We can’t send you back",
    ],
    ["a broken escape", "/account?x=%zz", 400, "This did not work"],
    ["a wrong method", "/oauth2/logout/confirm", 405, "This did not work"],
  ])(
    "%s links to the sign-in, or to the account of signed-in users [D-DEPLOY-11]",
    async (_what, path, status, title) => {
      const visitor = browser();
      await visitor.get(running[kind] + path);
      expect([visitor.status, visitor.title]).toEqual([status, title]);
      await visitor.click(LINK);
      expect([visitor.status, visitor.title]).toEqual([200, "Sign in"]);
      await signIn(visitor);
      expect([visitor.status, visitor.url.href]).toEqual([200, `${running[kind]}/account`]);
      await visitor.get(running[kind] + path);
      await visitor.click(LINK);
      expect([visitor.status, visitor.title, visitor.url.href]).toEqual([
        200,
        "Your account",
        `${running[kind]}/account`,
      ]);
    },
  );

  it("a form of another site links to the sign-in and the account", async () => {
    const visitor = browser();
    await visitor.get(clientAt(running, kind, NEWS).authorizeUrl());
    const form = visitor.form("password");
    const forged = (): Promise<Browser> =>
      visitor.submit(form, { csrf: "forged", username: "ada", password: "x" });
    expect((await forged()).status).toBe(403);
    await visitor.click(LINK);
    expect([visitor.status, visitor.title]).toEqual([200, "Sign in"]);
    expect((await forged()).status).toBe(403);
    await visitor.click("Return to sign-in");
    expect([visitor.status, visitor.hasForm("password")]).toEqual([200, true]);
  });

  it("pages in other languages have the link", async () => {
    const visitor = clientAt(running, kind, NEWS).browser({
      headers: { accept: "text/html", "accept-language": "pl" },
    });
    await visitor.get(`${running[kind]}/interaction/gone`);
    await visitor.click("Przejdź do swojego konta");
    expect(visitor.status).toBe(200);
  });
});

it("the page about an unavailable storage has the link", async () => {
  const other = await startService({ logsErrors: true });
  const visitor = clientAt(other, "oauth2", NEWS).browser({ headers: { accept: "text/html" } });
  await other.service.close();
  await visitor.get(`${other.oauth2}/account`);
  expect([visitor.status, visitor.html.includes(`href="${other.oauth2}/account"`)]).toEqual([503, true]);
});
