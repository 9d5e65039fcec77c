/** The step `continue`: no code goes silently to an address that any application on the device can claim. */
import { type DeploymentKind } from "../../config/configuration.ts";
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { APP, clientAt, NATIVE, signedIn, signIn, nativeAt } from "./clients.ts";
import { type TestClient, newProof } from "../../testing/test-client.ts";
import { BOB, NEWS, useService } from "./running-service.ts";

const LOOPBACK = "http://127.0.0.1:49152/callback";
const PRIVATE_USE = "com.example.app:/callback";

const running = useService();

beforeAll(async () => {
  const third = {
    ...NATIVE,
    client_id: "third",
    first_party: false,
    redirect_uris: ["http://127.0.0.1/third"],
  };
  for (const client of [APP, NATIVE, third]) await running.service.clients.register(client);
});

/** A native client that uses this address. */
const native = (address: string, kind?: DeploymentKind): TestClient => nativeAt(running, address, kind);

/** A browser in which Ada is signed in, at the question. */
async function asked(party: TestClient, parameters: Record<string, string> = {}) {
  const browser = await signIn(await party.browser().get(`${party.base}/account`));
  const { request, code_verifier } = newProof();
  await browser.get(party.authorizeUrl({ ...request, ...parameters }));
  return { browser, request, proof: { code_verifier } };
}

const codeIn = (browser: Browser): string | null | undefined => browser.location?.searchParams.get("code");

describe.each([
  ["a loopback address", LOOPBACK, "oauth2"],
  ["a loopback address", LOOPBACK, "openid"],
  ["a private-use scheme", PRIVATE_USE, "openid"],
] as const)("%s (%s) on %s", (_what, address, kind) => {
  it("asks a signed-in browser, and names client and account [D-KIND-5]", async () => {
    const party = native(address, kind);
    const { browser, proof } = await asked(party);
    expect(browser.status).toBe(200);
    expect(browser.location).toBeUndefined();
    expect(browser.title).toBe("Continue as ada@example.com?");
    expect(browser.html).toContain("You go on to Native App.");
    expect(browser.html).toContain("Continue only if you have just opened it.");
    await browser.submit(browser.forms()[0]);
    const code = codeIn(browser) ?? "";
    const answer = await party.exchange(code, proof);
    expect(answer.status).toBe(200);
  });

  it("asks again the next time [D-KIND-5]", async () => {
    const party = native(address, kind);
    const { browser } = await asked(party);
    await browser.submit(browser.forms()[0]);
    expect(codeIn(browser)).toBeTruthy();
    await browser.get(party.authorizeUrl(newProof().request));
    expect(browser.title).toMatch(/^Continue as/);
  });

  it("answers prompt=none with interaction_required [D-KIND-5]", async () => {
    const { browser } = await asked(native(address, kind), { prompt: "none" });
    expect(browser.location?.searchParams.get("error")).toBe("interaction_required");
    expect(codeIn(browser)).toBeNull();
  });

  it("gets access_denied when the person cancels [D-KIND-5]", async () => {
    const { browser } = await asked(native(address, kind));
    await browser.submit(browser.forms()[0], { action: "cancel" });
    expect(browser.location?.searchParams.get("error")).toBe("access_denied");
  });

  it("lets the person use another account [D-KIND-5]", async () => {
    const party = native(address, kind);
    const { browser, proof } = await asked(party);
    await browser.submit(browser.forms()[0], { action: "another-account" });
    await signIn(browser, BOB);
    // oidc-provider ends Ada's session with a form that submits itself.
    await browser.submit(browser.forms()[0]);
    const code = codeIn(browser) ?? "";
    const answer = await party.exchange(code, proof);
    const { access_token } = answer.body as Record<string, string>;
    expect(await party.userinfo(access_token!)).toMatchObject({ body: { email: BOB.email } });
  });

  it("lets the person use another account, which shows its second factor", async () => {
    const secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
    const cleo = { username: `cleo-${kind}-${address.length}`, password: "the password of cleo" };
    const email = `${cleo.username}@example.com`;
    await running.service.accounts.create({ ...cleo, email, email_verified: true, app: { secret } });
    const party = native(address, kind);
    const { browser, request, proof } = await asked(party);
    await browser.submit(browser.forms()[0], { action: "another-account" });
    await signIn(browser, cleo);
    await browser.get(party.authorizeUrl({ ...newProof().request, prompt: "none" }));
    expect(codeIn(browser)).toBeNull();
    await browser.get(party.authorizeUrl(request));
    await browser.submit(browser.forms()[0], { action: "another-account" });
    await signIn(browser, cleo);
    expect(browser.title).toBe("Confirm that it’s you");
    await browser.submit(browser.forms()[0], { code: totpCode(secret, Date.now()) });
    await browser.submit(browser.forms()[0]);
    const code = codeIn(browser) ?? "";
    const answer = await party.exchange(code, proof);
    const { access_token } = answer.body as Record<string, string>;
    expect(await party.userinfo(access_token!)).toMatchObject({ body: { email } });
  });

  it("is not asked about right after a sign-in [D-KIND-5]", async () => {
    const party = native(address, kind);
    const browser = party.browser();
    await browser.get(party.authorizeUrl(newProof().request));
    await signIn(browser);
    expect(codeIn(browser)).toBeTruthy();
    await browser.get(party.authorizeUrl({ ...newProof().request, prompt: "login" }));
    await signIn(browser);
    expect(codeIn(browser)).toBeTruthy();
  });
});

describe("the step continue", () => {
  it("is for the address that is used: an https one of the same client gets its code [D-KIND-5]", async () => {
    const { browser } = await asked(native("https://app.example/native"));
    expect(codeIn(browser)).toBeTruthy();
  });

  it("is for public clients: a web client on loopback gets its code [D-KIND-5]", async () => {
    const news = clientAt(running, "openid", NEWS);
    const browser = await signIn(await news.browser().get(`${running.openid}/account`));
    expect(await news.silently(browser)).toBe("code");
  });

  it("is left out after consent in the same interaction, and not after consent from earlier [D-KIND-5]", async () => {
    const party = clientAt(running, "openid", {
      client_id: "third",
      redirect_uris: ["http://127.0.0.1:49152/third"],
    });
    const { browser } = await asked(party, { scope: "openid email" });
    expect(browser.title).toMatch(/^Share your data/);
    await browser.submit(browser.forms()[0], { decision: "allow" });
    expect(codeIn(browser)).toBeTruthy();
    await browser.get(party.authorizeUrl({ ...newProof().request, scope: "openid email" }));
    expect(browser.title).toMatch(/^Continue as/);
  });

  it("holds for a pushed request [D-KIND-5]", async () => {
    const party = native(LOOPBACK);
    const request = {
      response_type: "code",
      redirect_uri: LOOPBACK,
      ...newProof().request,
    };
    for (const prompt of [undefined, "none"]) {
      const pushed = await party.post("/oauth2/par", { ...request, prompt });
      const { browser } = await asked(native("http://127.0.0.1:49152/callback"));
      const query = new URLSearchParams({
        client_id: "native",
        request_uri: String(pushed.body["request_uri"]),
      });
      await browser.get(`${party.base}/oauth2/authorize?${query}`);
      expect(codeIn(browser) ?? null).toBeNull();
      if (prompt === undefined) expect(browser.title).toMatch(/^Continue as/);
      else expect(browser.location?.searchParams.get("error")).toBe("interaction_required");
    }
  });

  it("ends with the session that it is about [D-KIND-5]", async () => {
    const { browser } = await asked(native(LOOPBACK));
    const [form] = browser.forms();
    await running.service.accounts.endSessions(running.ada.sub);
    await browser.submit(form);
    expect(codeIn(browser)).toBeUndefined();
    expect(browser.status).toBe(400);
  });

  it("speaks Polish", async () => {
    const { browser } = await asked(native(LOOPBACK), { ui_locales: "pl" });
    expect(browser.title).toBe("Kontynuować jako ada@example.com?");
  });

  it("has the same actions as JSON [D-KIND-5]", async () => {
    const party = native(LOOPBACK);
    const account = await signedIn(party.base);
    const visitor = new JsonVisitor(account);
    const { status, body } = await visitor.open(party.authorizeUrl(newProof().request));
    expect(status).toBe(200);
    expect(body).toMatchObject({ step: "continue", account: "ada@example.com", fields: [], problems: [] });
    expect(body.actions.map(({ name, method }) => [name, method])).toEqual([
      ["submit", "POST"],
      ["another-account", "POST"],
      ["cancel", "POST"],
    ]);
    expect(body).toMatchObject({ account_name: "Ada Lovelace" });
    expect(body.text).toContain("Continue only if you have just opened it.");
    const done = await visitor.act(body, "submit");
    expect(done.body.done).toBe(true);
    const browser = await account.getOnly(done.body.location ?? "");
    expect(browser.location?.href).toMatch(/^http:\/\/127\.0\.0\.1:49152\/callback\?code=/);
  });
});
