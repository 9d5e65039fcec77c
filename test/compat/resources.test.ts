/** `https://host/` names the API `https://host`, wherever a client writes it. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { APP, clientAt, issue } from "../flows/clients.ts";
import { connect, TELEVISION } from "../flows/devices.ts";
import { newProof, readTokens, type TestAnswer } from "../../testing/test-client.ts";
import { ADA, NEWS, useService } from "../flows/running-service.ts";
import { API, READER, registerReader } from "../flows/sample-apis.ts";

/** As it is registered, and as many clients write it. */
const PLAIN = "https://plain.example";
const WRITTEN = `${PLAIN}/`;
/** Registered with its slash. */
const SLASHED = "https://slashed.example/";
const SCOPE = "articles:read";

const running = useService();

beforeAll(async () => {
  const { directory, clients } = running.service;
  await registerReader(running);
  await directory.apis.put(PLAIN, API);
  await directory.apis.put(SLASHED, API);
  const apis = { [PLAIN]: [SCOPE], [SLASHED]: [SCOPE] };
  await clients.register({ ...APP, apis });
  await clients.register({ ...TELEVISION, apis });
  await clients.update("news", { apis });
  await clients.update(READER.client_id, { apis });
});

async function audience(answer: TestAnswer): Promise<unknown> {
  const { access_token: token } = readTokens(answer);
  const introspected = await clientAt(running, "openid", READER).post("/oauth2/introspect", { token });
  return introspected.body["aud"];
}

describe.each(["oauth2", "openid"] as const)("the API https://host, named https://host/ on %s", (kind) => {
  it("is found at authorization, exchange and refresh [D-API-14]", async () => {
    const news = clientAt(running, kind, NEWS);
    for (const written of [WRITTEN, PLAIN]) {
      const code = await news.code(ADA, { resource: written, scope: SCOPE });
      const exchanged = await news.exchange(code, { resource: WRITTEN });
      expect(await audience(exchanged)).toBe(PLAIN);
      const { refresh_token } = exchanged.body;
      expect(await audience(await news.refresh(String(refresh_token), { resource: WRITTEN }))).toBe(PLAIN);
      expect(await audience(await news.refresh(String(refresh_token)))).toBe(PLAIN);
    }
  });

  it("is found by a public client, a device and a machine [D-API-14]", async () => {
    const app = clientAt(running, kind, APP);
    const { code, proof } = await issue(app, { resource: WRITTEN, scope: SCOPE });
    expect(await audience(await app.exchange(code, { ...proof, resource: WRITTEN }))).toBe(PLAIN);
    const device = clientAt(running, kind, TELEVISION);
    const codes = await device.deviceCodes({ resource: WRITTEN, scope: SCOPE });
    await connect(codes);
    expect(await audience(await device.poll(codes, { resource: WRITTEN }))).toBe(PLAIN);
    const machine = await clientAt(running, kind, READER).post("/oauth2/token", {
      grant_type: "client_credentials",
      resource: WRITTEN,
    });
    expect(await audience(machine)).toBe(PLAIN);
  });

  it("is nothing that is registered otherwise, or not at all [D-API-14]", async () => {
    const news = clientAt(running, kind, NEWS);
    expect(
      await audience(await news.exchange(await news.code(ADA, { resource: SLASHED, scope: SCOPE }))),
    ).toBe(SLASHED);
    for (const resource of [
      "https://slashed.example",
      "https://none.example/",
      `${PLAIN}//`,
      `${PLAIN}/x/`,
      `${PLAIN}/?`,
      "https://PLAIN.example/",
      "http://plain.example/",
    ]) {
      const browser = news.browser();
      await browser.get(news.authorizeUrl({ resource, scope: SCOPE }));
      expect([resource, browser.location?.searchParams.get("error")]).toEqual([resource, "invalid_target"]);
    }
  });
});

it("a pushed request names it too [D-API-14]", async () => {
  const app = clientAt(running, "openid", APP);
  const { request, code_verifier } = newProof();
  const pushed = await app.post("/oauth2/par", {
    response_type: "code",
    redirect_uri: app.redirect_uri,
    ...request,
    resource: WRITTEN,
    scope: SCOPE,
  });
  expect(pushed.status).toBe(201);
  const code = await app.code(ADA, { request_uri: String(pushed.body["request_uri"]) });
  expect(await audience(await app.exchange(code, { code_verifier }))).toBe(PLAIN);
});
