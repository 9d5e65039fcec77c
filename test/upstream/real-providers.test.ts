/** Other software as the provider: oidc-provider as it comes, and this service itself. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "@jest/globals";
import { Provider } from "oidc-provider";
import { Browser, createTestSignIn } from "../../testing/index.ts";
import { CALLBACK, createStage, type Stage } from "./stage.ts";

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each.close();
});

const CLIENT = { client_id: "sign-in", client_secret: "a-secret-of-at-least-32-characters" };

async function stageFor(issuer: string, client: typeof CLIENT): Promise<Stage> {
  const { client_id, client_secret } = client;
  const stage = await createStage({
    provider: { issuer, client_id, client_secret, name: "Real", trustsEmail: true },
  });
  open.push(stage);
  return stage;
}

/** oidc-provider with the pages that it has for development. */
async function startOidcProvider(): Promise<string> {
  const server: Server = createServer({ keepAliveTimeout: 0 });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  open.push({
    close: () => {
      const closed = new Promise((resolve) => void server.close(resolve));
      server.closeAllConnections();
      return closed;
    },
  });
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
  const provider = new Provider(issuer, {
    clients: [{ ...CLIENT, redirect_uris: [CALLBACK] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["given_name", "family_name"] },
    features: { claimsParameter: { enabled: true } },
    findAccount: (_ctx, sub) => ({
      accountId: sub,
      claims: () => ({
        sub,
        email: `${sub}@corp.example`,
        email_verified: true,
        given_name: "Ada",
        family_name: "Lovelace",
      }),
    }),
  });
  const answer = provider.callback();
  server.on("request", (request, response) => void answer(request, response));
  return issuer;
}

describe("oidc-provider", () => {
  it("says who has signed in [D-PROV-37]", async () => {
    const issuer = await startOidcProvider();
    const stage = await stageFor(issuer, CLIENT);
    expect(await stage.upstream.examine("test", [CALLBACK])).toEqual([]);
    const { url, trip } = await stage.upstream.begin("test", { redirectUri: CALLBACK, fresh: true });
    const browser = new Browser({ stayAt: [issuer] });
    await browser.get(url);
    await browser.submit(browser.form("login"), { login: "ada", password: "anything" });
    await browser.submit(browser.form());
    const identity = await stage.upstream.finish(trip, browser.location!.searchParams);
    expect(identity).toEqual({
      provider: "test",
      issuer,
      subject: "ada",
      email: "ada@corp.example",
      vouched: true,
      name: "Ada",
      surname: "Lovelace",
      auth_time: expect.any(Number),
      mfa: false,
    });
    // A code works once.
    await expect(stage.upstream.finish(trip, browser.location!.searchParams)).rejects.toMatchObject({
      reason: "refused",
      detail: "invalid_grant",
    });
  });
});

describe("this service", () => {
  it("is a provider for another one, and says who has signed in [D-PROV-37]", async () => {
    const corp = await createTestSignIn();
    open.push(corp);
    const client = await corp.addClient({ redirect_uris: [CALLBACK], ...CLIENT });
    const ada = await corp.addPerson({ email: "ada@corp.example", name: "Ada", surname: "Lovelace" });
    await corp.signInAs(ada, client);
    const issuer = corp.urls.openid!;
    const stage = await stageFor(issuer, CLIENT);
    expect(await stage.upstream.examine("test", [CALLBACK])).toEqual([]);
    const { url, trip } = await stage.upstream.begin("test", { redirectUri: CALLBACK });
    await ada.browser.get(url);
    expect(await stage.upstream.finish(trip, ada.browser.location!.searchParams)).toEqual({
      provider: "test",
      issuer,
      subject: ada.account.sub,
      email: "ada@corp.example",
      vouched: true,
      name: "Ada",
      surname: "Lovelace",
      auth_time: expect.any(Number),
      mfa: false,
    });
  });
});
