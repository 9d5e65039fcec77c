/** `prompt=select_account`: a signed-in browser is asked which account to continue with. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { clientAt, NATIVE, signedIn, signIn, nativeAt } from "./clients.ts";
import { type TestClient, newProof, type RequestParameters, send } from "../../testing/test-client.ts";
import { ADA, BOB, NEWS, PARTNER, type RunningService, startService, useService } from "./running-service.ts";

const running = useService({
  config: { interactions: { registration: true }, mail: { send: async () => undefined } },
});

beforeAll(async () => {
  await running.service.clients.register(NATIVE);
});

const SELECT = { prompt: "select_account", state: "s" };
const QUESTION = `Continue as ${ADA.email}?`;

/** A browser in which Ada is signed in, after a request of this client. */
async function asked(party: TestClient, parameters: RequestParameters = SELECT): Promise<Browser> {
  const browser = await signIn(await party.browser().get(`${party.base}/account`));
  return browser.get(party.authorizeUrl(parameters));
}

/** The address of the person whose code this is. */
async function personOf(party: TestClient, browser: Browser): Promise<unknown> {
  return (await party.userinfo((await party.tokensOf(browser)).access_token)).body["email"];
}

/** `prompt_values_supported` of the discovery document. */
async function promptsOf({ openid }: RunningService): Promise<unknown> {
  return (await send(`${openid}/.well-known/openid-configuration`)).body["prompt_values_supported"];
}

describe.each(["oauth2", "openid"] as const)("prompt=select_account on %s", (kind) => {
  let news: TestClient;
  beforeAll(() => void (news = clientAt(running, kind, NEWS)));

  it("asks a signed-in browser, names the person, and goes on as that person [D-SELECT-1]", async () => {
    const browser = await asked(news);
    expect([browser.status, browser.title, browser.location]).toEqual([200, QUESTION, undefined]);
    expect(browser.html).toContain("You go on to News.");
    expect(browser.html).toContain("<bdi>Ada Lovelace</bdi>");
    // The warning is for applications on the device.
    expect(browser.html).not.toContain("Continue only if you have just opened it.");
    await browser.submit();
    expect(browser.location?.searchParams.get("state")).toBe("s");
    expect(await personOf(news, browser)).toBe(ADA.email);
    await browser.get(news.authorizeUrl(SELECT));
    expect(browser.title).toBe(QUESTION);
  });

  it("lets somebody else sign in [D-SELECT-1]", async () => {
    const browser = await asked(news);
    await browser.submit(browser.form(), { action: "another-account" });
    expect(browser.title).toBe("Sign in");
    await signIn(browser, BOB);
    // oidc-provider ends Ada's session with a form that submits itself.
    await browser.submit(browser.forms()[0]);
    expect(await personOf(news, browser)).toBe(BOB.email);
    expect(await news.silently(browser)).toBe("code");
  });

  it("goes back to the client when the person cancels [D-SELECT-1]", async () => {
    const browser = await asked(news);
    await browser.submit(browser.form(), { action: "cancel" });
    const { searchParams } = browser.location!;
    expect([searchParams.get("error"), searchParams.get("state")]).toEqual(["access_denied", "s"]);
  });

  it("shows the sign-in to a new browser, once, and asks nothing after it [D-SELECT-1]", async () => {
    const browser = await news.browser().get(news.authorizeUrl(SELECT));
    expect(browser.title).toBe("Sign in");
    await signIn(browser);
    expect(await personOf(news, browser)).toBe(ADA.email);
  });

  it.each([{ prompt: "login select_account" }, { prompt: "select_account login" }])(
    "together with login is login: %j [D-SELECT-1]",
    async (parameters) => {
      const browser = await asked(news, parameters);
      expect(browser.title).toBe("Sign in");
      await signIn(browser);
      expect(await personOf(news, browser)).toBe(ADA.email);
    },
  );

  it("can't be combined with none, and other prompts stay unknown", async () => {
    const browser = await signIn(await news.browser().get(`${news.base}/account`));
    for (const prompt of ["none select_account", "select_accounts", "__proto__"]) {
      await browser.get(news.authorizeUrl({ prompt }));
      expect([prompt, browser.location?.searchParams.get("error")]).toEqual([prompt, "invalid_request"]);
    }
  });
});

describe("prompt=select_account", () => {
  it("comes before the consent of the chosen account [D-SELECT-1]", async () => {
    const partner = clientAt(running, "openid", PARTNER);
    const browser = await asked(partner, { ...SELECT, scope: "openid email" });
    expect(browser.title).toBe(QUESTION);
    await browser.submit();
    expect(browser.title).toBe("Share your data with Partner?");
    await browser.submit(browser.form("decision"), { decision: "allow" });
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("asks once for an application on the device, with its warning [D-SELECT-1, D-KIND-5]", async () => {
    const party = nativeAt(running, "http://127.0.0.1:49152/callback");
    const browser = await signIn(await party.browser().get(`${party.base}/account`));
    await browser.get(party.authorizeUrl({ ...newProof().request, prompt: "select_account" }));
    expect(browser.html).toContain("Continue only if you have just opened it.");
    await browser.submit();
    expect(browser.location?.searchParams.has("code")).toBe(true);
  });

  it("is the step continue in JSON, with the same actions [D-SELECT-1, D-UI-1]", async () => {
    const news = clientAt(running, "oauth2", NEWS);
    const visitor = new JsonVisitor(await signedIn(news.base));
    const { body } = await visitor.open(news.authorizeUrl(SELECT));
    expect(body).toMatchObject({
      step: "continue",
      account: ADA.email,
      account_name: "Ada Lovelace",
      text: "You go on to News.",
    });
    expect(body.actions.map(({ name }) => name)).toEqual(["submit", "another-account", "cancel"]);
    const next = await visitor.act(body, "another-account");
    expect([next.status, next.body.step]).toEqual([200, "login"]);
    expect((await visitor.get()).body.step).toBe("login");
  });

  it("goes on with nobody whose session has ended meanwhile", async () => {
    const news = clientAt(running, "oauth2", NEWS);
    const browser = await asked(news);
    const form = browser.form();
    await running.service.accounts.endSessions(running.ada.sub);
    await browser.submit(form);
    expect([browser.status, browser.location]).toEqual([400, undefined]);
  });

  it("is in discovery, with the other values [D-SELECT-1]", async () => {
    expect(await promptsOf(running)).toEqual(["none", "login", "consent", "select_account", "create"]);
    const plain = await startService();
    expect(await promptsOf(plain)).toEqual(["none", "login", "consent", "select_account"]);
  });
});
